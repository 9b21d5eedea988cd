//! Signatures as SDKs make them, and each way in which one can fail.

use std::time::SystemTime;

use http::{HeaderMap, Method};

use super::*;
use crate::address::{Place, QueryString};
use crate::auth::{KeyRange, SigningKey};
use crate::wire::xml::SignedIdentifier;

/// The key of the JavaScript SDK's tests is `keySecret`, of which JavaScript decodes these letters.
const KEY: &str = "keySecre";

fn key() -> SigningKey {
    SigningKey::parse(KEY).unwrap()
}

struct Request {
    now: &'static str,
    /// Empty if it is not known.
    peer: &'static str,
    secure: bool,
    policies: Vec<SignedIdentifier>,
}

impl Default for Request {
    fn default() -> Self {
        Self { now: "2021-12-12T00:30:00Z", peer: "10.0.0.1", secure: false, policies: vec![] }
    }
}

fn time(text: &str) -> SystemTime {
    text.parse::<DateTime>().unwrap().to_system_time().unwrap()
}

impl Request {
    fn authenticate(&self, query: &str) -> Result<Grant, ErrorCode> {
        let path = "/keyName/testTable()";
        let query = QueryString::parse(query).unwrap();
        let request = Signed {
            method: &Method::GET,
            path,
            query: &query,
            headers: &HeaderMap::new(),
            place: &Place::of(Some("localhost"), path, |_| false).unwrap(),
            peer: (!self.peer.is_empty()).then(|| self.peer.parse().unwrap()),
            secure: self.secure,
            now: time(self.now),
        };
        let policies = |table: &str| (table == "testtable").then_some(&self.policies);
        let account = Account::new("keyName", vec![key()]);
        request.authenticate(&account, policies).map_err(|error| error.code())
    }

    /// Signs the fields as the account `keyName` and sends them.
    fn signed(&self, fields: &[(&str, &str)], string_to_sign: &str) -> Result<Grant, ErrorCode> {
        let signature = key().sign(|signer| {
            signer.push(string_to_sign);
        });
        let encode = |text: &str| {
            percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC)
                .to_string()
        };
        let mut query = format!("sig={}", encode(&signature));
        for (name, value) in fields {
            query += &format!("&{name}={}", encode(value));
        }
        self.authenticate(&query)
    }

    /// A table signature of version 2019-02-02 with these fields beside `sv` and `tn`.
    fn table(&self, fields: &[(&str, &str)]) -> Result<Grant, ErrorCode> {
        let all = [&[("sv", "2019-02-02"), ("tn", "testTable")], fields].concat();
        let get = |name| all.iter().find(|(n, _)| *n == name).map_or("", |(_, value)| value);
        let [sp, st, se, si] = ["sp", "st", "se", "si"].map(get);
        let [sip, spr, spk, srk, epk, erk] = ["sip", "spr", "spk", "srk", "epk", "erk"].map(get);
        let string = format!(
            "{sp}\n{st}\n{se}\n/table/keyName/testtable\n{si}\n{sip}\n{spr}\n2019-02-02\n\
             {spk}\n{srk}\n{epk}\n{erk}"
        );
        self.signed(&all, &string)
    }

    /// An account signature with these fields.
    fn account(&self, fields: &[(&str, &str)]) -> Result<Grant, ErrorCode> {
        let get = |name| fields.iter().find(|(n, _)| *n == name).map_or("", |(_, value)| value);
        let names = ["sp", "ss", "srt", "st", "se", "sip", "spr", "sv"];
        let mut string = format!("keyName\n{}\n", names.map(get).join("\n"));
        if get("sv") >= "2020-12-06" {
            string += &format!("{}\n", get("ses"));
        }
        self.signed(fields, &string)
    }
}

fn table(permissions: &str, range: KeyRange) -> Result<Grant, ErrorCode> {
    let version = ApiVersion::parse("2019-02-02").unwrap();
    Ok(Grant::Table { table: "testtable".into(), permissions: permissions.into(), range, version })
}

const FAILED: Result<Grant, ErrorCode> = Err(ErrorCode::AuthenticationFailed);

/// R-S08: the vectors of the JavaScript SDK's own tests.
#[test]
fn r_s08_table_signatures_as_the_javascript_sdk_makes_them() {
    let request = Request::default();
    let all = KeyRange::default();
    for (query, expected) in [
        (
            "sv=2019-02-02&se=2021-12-12T01%3A00%3A00Z&sp=r&sig=lZxPmk%2BpMuu2MRXxeTZoBV6m3eobZKuIkYcHLDdDt2Q%3D&tn=testTable",
            table("r", all.clone()),
        ),
        (
            "sv=2019-02-02&se=2021-12-12T01%3A00%3A00Z&sp=ad&sig=bf2oeXb%2FVL9hzbd5ZWngdNJoR%2BkyDp0vPZz%2FDGJt1d4%3D&tn=testTable",
            table("ad", all.clone()),
        ),
        (
            "sv=2019-02-02&se=2022-12-12T00%3A00%3A00Z&sp=r&sig=Jm1wKNTA0%2FHH8u9S8dSjqdZKtFKYr7whXnxDy3RKsxU%3D&tn=testTable",
            table("r", all.clone()),
        ),
        (
            "sv=2019-02-02&se=2021-12-12T01%3A00%3A00Z&sp=r&sig=FmE9Q8KiLIJUxmY2k8NHCSwApy2Y1VY17Mls1dIIJcI%3D&tn=testTable&srk=1&spk=P1",
            table("r", KeyRange { start: Some(("P1".into(), Some("1".into()))), end: None }),
        ),
    ] {
        assert_eq!(request.authenticate(query), expected, "{query}");
        // One letter more, another table, a longer life: no.
        for (from, to) in [("sp=", "sp=u"), ("tn=test", "tn=best"), ("se=202", "se=209")] {
            assert_eq!(request.authenticate(&query.replace(from, to)), FAILED, "{to}");
        }
    }
}

/// R-S08: the same for signatures of an account.
#[test]
fn r_s08_account_signatures_as_the_javascript_sdk_makes_them() {
    let request = Request::default();
    let account = |permissions: &str| {
        let permissions = permissions.into();
        Ok(Grant::Account { permissions, resource_types: "sco".into() })
    };
    for (query, expected) in [
        (
            "sv=2019-02-02&ss=t&srt=sco&se=2021-12-12T01%3A00%3A00Z&sp=rl&sig=Yuhy3%2BSpfj%2BFWmSoxa1GAxtX6IOKvX6qGnHIKn%2FLHD0%3D",
            account("rl"),
        ),
        (
            "sv=2019-02-02&ss=t&srt=sco&se=2021-12-12T01%3A00%3A00Z&sp=da&sig=TmE8AOQFacynVIVR5ljBYqY3Y3K6olfdDMLl09iRvvs%3D",
            account("da"),
        ),
        (
            // The pluses of the signature not encoded, as people do by hand.
            "sv=2019-02-02&ss=t&srt=sco&se=2022-12-12T00%3A00%3A00Z&sp=rl&sig=y42pmN9E/gA2O3nGn25lx++qQmhvh0WqFi4+kOPitwA=",
            account("rl"),
        ),
    ] {
        assert_eq!(request.authenticate(query), expected, "{query}");
        assert_eq!(request.authenticate(&query.replace("srt=sco", "srt=sc")), FAILED);
    }
}

/// R-S08: a signature that leaves its terms to a policy of the table, as in the SDK's test.
#[test]
fn r_s08_a_stored_policy_completes_a_signature() {
    let query = "sv=2019-02-02&si=MyAccessPolicy&sig=bXpQx%2FOSDR8oGiqi1QJekrwS5MBf%2Bdi6x%2FClf9QVKgg%3D&tn=testTable";
    let expiry = "2021-12-13".parse().ok();
    let policy = SignedIdentifier {
        id: "MyAccessPolicy".into(),
        start: "2021-12-12".parse().ok(),
        expiry,
        permission: Some("ra".into()),
    };
    let with = |policies: &[SignedIdentifier]| {
        Request { policies: policies.to_vec(), ..Request::default() }.authenticate(query)
    };
    assert_eq!(with(std::slice::from_ref(&policy)), table("ra", KeyRange::default()));
    // Taking the policy back, or a part of it, takes the signature back.
    assert_eq!(with(&[]), FAILED);
    assert_eq!(with(&[SignedIdentifier { expiry: None, ..policy.clone() }]), FAILED);
    assert_eq!(with(&[SignedIdentifier { permission: None, ..policy.clone() }]), FAILED);
    assert_eq!(with(&[SignedIdentifier { start: expiry, ..policy.clone() }]), FAILED);
    assert_eq!(with(&[SignedIdentifier { id: "myaccesspolicy".into(), ..policy.clone() }]), FAILED);

    // A policy in part: the rest is in the signature, and nothing is in both.
    let only = SignedIdentifier { id: "p".into(), permission: Some("r".into()), ..policy };
    let only = SignedIdentifier { start: None, expiry: None, ..only };
    let request = Request { policies: vec![only], ..Request::default() };
    let later = ("se", "2021-12-13");
    assert_eq!(request.table(&[("si", "p"), later]), table("r", KeyRange::default()));
    assert_eq!(request.table(&[("si", "p"), later, ("sp", "a")]), FAILED);
    assert_eq!(request.table(&[("si", "p")]), FAILED);
}

/// R-S08: start and expiry, in each form that the service documents.
#[test]
fn r_s08_a_signature_holds_from_its_start_up_to_its_expiry() {
    let at = |now, start, expiry| {
        let request = Request { now, ..Request::default() };
        request.table(&[("sp", "r"), ("st", start), ("se", expiry)])
    };
    let granted = table("r", KeyRange::default());
    assert_eq!(at("2021-12-12T10:00:00Z", "2021-12-12T10:00Z", "2021-12-13"), granted);
    assert_eq!(at("2021-12-12T09:59:59.9999999Z", "2021-12-12T10:00Z", "2021-12-13"), FAILED);
    assert_eq!(at("2021-12-12T23:59:59.9999999Z", "", "2021-12-13"), granted);
    assert_eq!(at("2021-12-13", "", "2021-12-13T00:00:00Z"), FAILED);
    assert_eq!(at("2021-12-12", "", ""), FAILED);
    assert_eq!(at("2021-12-12", "", "tomorrow"), FAILED);
}

/// R-S08: so does one of an account.
#[test]
fn r_s08_an_account_signature_holds_from_its_start_up_to_its_expiry() {
    let at = |now, start, expiry| {
        let request = Request { now, ..Request::default() };
        let terms = [("sv", "2019-02-02"), ("ss", "t"), ("srt", "o"), ("sp", "r")];
        request.account(&[&terms[..], &[("st", start), ("se", expiry)]].concat()).map(drop)
    };
    let failed = Err(ErrorCode::AuthenticationFailed);
    assert_eq!(at("2021-12-12T10:00:00Z", "2021-12-12T10:00Z", "2021-12-13"), Ok(()));
    assert_eq!(at("2021-12-12T09:59:59.9999999Z", "2021-12-12T10:00Z", "2021-12-13"), failed);
    assert_eq!(at("2021-12-12T23:59:59.9999999Z", "", "2021-12-13"), Ok(()));
    assert_eq!(at("2021-12-13", "", "2021-12-13T00:00:00Z"), failed);
    assert_eq!(at("2021-12-12", "soon", "2021-12-13"), failed);
}

#[test]
fn a_signature_can_be_for_some_addresses_and_for_https() {
    let terms = [("sp", "r"), ("se", "2021-12-13")];
    let with = |peer, secure, field| {
        let request = Request { peer, secure, ..Request::default() };
        request.table(&[&terms[..], &[field]].concat())
    };
    let granted = table("r", KeyRange::default());
    let address = Err(ErrorCode::AuthorizationSourceIPMismatch);
    assert_eq!(with("10.0.0.1", false, ("sip", "10.0.0.1")), granted);
    assert_eq!(with("::ffff:10.0.0.1", false, ("sip", "10.0.0.1")), granted);
    assert_eq!(with("10.0.0.2", false, ("sip", "10.0.0.1")), address);
    assert_eq!(with("10.0.0.9", false, ("sip", "10.0.0.1-10.0.0.9")), granted);
    assert_eq!(with("10.0.0.10", false, ("sip", "10.0.0.1-10.0.0.9")), address);
    assert_eq!(with("::1", false, ("sip", "10.0.0.1-10.0.0.9")), address);
    assert_eq!(with("10.0.0.1", false, ("sip", "everywhere")), address);
    assert_eq!(with("", false, ("sip", "10.0.0.1")), address, "a peer that nobody knows");
    let protocol = Err(ErrorCode::AuthorizationProtocolMismatch);
    assert_eq!(with("10.0.0.1", false, ("spr", "https,http")), granted);
    assert_eq!(with("10.0.0.1", true, ("spr", "https")), granted);
    assert_eq!(with("10.0.0.1", false, ("spr", "https")), protocol);
    assert_eq!(with("10.0.0.1", true, ("spr", "gopher")), protocol);
}

/// R-S08: all four ends of a range. An empty one is none, as it can be left out of what was signed.
#[test]
fn r_s08_a_signature_can_be_for_a_range_of_keys() {
    let range = |fields: &[(&str, &str)]| {
        Request::default().table(&[&[("sp", "r"), ("se", "2021-12-13")], fields].concat())
    };
    let end = |partition: &str, row: Option<&str>| Some((partition.into(), row.map(str::to_owned)));
    let all = [("spk", "a"), ("srk", "1"), ("epk", "b'&"), ("erk", "é")];
    let expected = KeyRange { start: end("a", Some("1")), end: end("b'&", Some("é")) };
    assert_eq!(range(&all), table("r", expected));
    let expected = KeyRange { start: end("a", None), end: end("b", None) };
    for empty in [&[][..], &[("srk", ""), ("erk", "")]] {
        assert_eq!(
            range(&[&[("spk", "a"), ("epk", "b")], empty].concat()),
            table("r", expected.clone())
        );
    }
    for empty in [&[][..], &[("spk", ""), ("srk", ""), ("epk", ""), ("erk", "")]] {
        assert_eq!(range(empty), table("r", KeyRange::default()));
    }
    assert_eq!(range(&[("epk", ""), ("erk", "1")]), FAILED);
    assert_eq!(range(&[("srk", "1")]), FAILED);
    assert_eq!(range(&[("spk", "a"), ("erk", "1")]), FAILED);
}

/// R-S08: what is signed changed with the versions.
#[test]
fn r_s08_each_version_signs_its_own_fields() {
    let request = Request::default();
    let of = |version| [("sv", version), ("tn", "T"), ("sp", "r"), ("se", "2021-12-13")];
    let terms = "r\n\n2021-12-13\n";
    let granted = |result: Result<Grant, ErrorCode>| result.is_ok();
    let first = format!("{terms}/keyName/t\n\n2012-02-12\n\n\n\n");
    assert!(granted(request.signed(&of("2012-02-12"), &first)));
    let service = format!("{terms}/table/keyName/t\n\n2015-02-21\n\n\n\n");
    assert!(granted(request.signed(&of("2015-02-21"), &service)));
    let source = format!("{terms}/table/keyName/t\n\n\n\n2015-04-05\n\n\n\n");
    assert!(granted(request.signed(&of("2015-04-05"), &source)));
    assert_eq!(request.signed(&of("2015-02-21"), &source), FAILED);
    assert_eq!(
        request.signed(&of("2011-08-18"), &first.replace("2012-02-12", "2011-08-18")),
        FAILED
    );
    let account = |version| {
        request.account(&[
            ("sv", version),
            ("ss", "bt"),
            ("srt", "o"),
            ("sp", "r"),
            ("se", "2021-12-13"),
            ("ses", "scope"),
        ])
    };
    assert!(granted(account("2015-04-05")) && granted(account("2020-12-06")));
    assert_eq!(account("2015-02-21"), FAILED);
}

/// R-S08: addresses and protocols bind from the first version that signs them; in those before it nobody signed
/// what the address says of them.
#[test]
fn r_s08_addresses_and_protocols_are_terms_since_they_are_signed() {
    let request = Request::default();
    let with = |version, string: &str, field| {
        let fields = [("sv", version), ("tn", "T"), ("sp", "r"), ("se", "2021-12-13"), field];
        request.signed(&fields, string).map(drop)
    };
    let signed = |source: &str| format!("r\n\n2021-12-13\n/table/keyName/t\n\n{source}\n\n\n\n");
    let since = "2015-04-05";
    let of = |sip: &str, spr: &str| signed(&format!("{sip}\n{spr}\n{since}"));
    let address = Err(ErrorCode::AuthorizationSourceIPMismatch);
    assert_eq!(with(since, &of("10.0.0.2", ""), ("sip", "10.0.0.2")), address);
    assert_eq!(with(since, &of("10.0.0.1", ""), ("sip", "10.0.0.1")), Ok(()));
    let protocol = Err(ErrorCode::AuthorizationProtocolMismatch);
    assert_eq!(with(since, &of("", "https"), ("spr", "https")), protocol);
    let before = "2015-02-21";
    assert_eq!(with(before, &signed(before), ("sip", "10.0.0.2")), Ok(()));
    assert_eq!(with(before, &signed(before), ("spr", "https")), Ok(()));
}

#[test]
fn a_signature_without_its_parts_is_refused() {
    let request = Request::default();
    assert_eq!(request.authenticate(""), FAILED);
    assert_eq!(request.authenticate("sig="), FAILED);
    assert_eq!(request.authenticate("sig=AAAA&sv=2019-02-02"), FAILED);
    assert_eq!(request.authenticate("sig=AAAA&sv=new&tn=t"), FAILED);
    let account = |fields: &[(&str, &str)]| {
        request.account(&[&[("sv", "2019-02-02"), ("srt", "o"), ("sp", "r")], fields].concat())
    };
    assert_eq!(account(&[("ss", "t")]), FAILED, "without expiry");
    let other = account(&[("ss", "bqf"), ("se", "2021-12-13")]);
    assert_eq!(other, Err(ErrorCode::AuthorizationServiceMismatch));
}
