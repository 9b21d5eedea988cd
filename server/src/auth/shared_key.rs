//! SharedKey and SharedKeyLite: requests signed with an account's key.
//!
//! Both sign a date and the resource as it was addressed; SharedKey also the method, the body's
//! MD5 and its type. A request is refused if its date is a quarter of an hour off.

use std::time::SystemTime;

use http::header;

use super::key::Signer;
use super::{Account, CLOCK_SKEW, Grant, Signed, refused};
use crate::address::{Parameter, SECONDARY, Style};
use crate::error::{ErrorCode, ServiceError};
use crate::headers::names;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scheme {
    SharedKey,
    SharedKeyLite,
}

/// The parts of an Authorization header: `SharedKey account:signature`.
#[derive(Debug, PartialEq, Eq)]
struct Authorization<'a> {
    scheme: Scheme,
    account: &'a str,
    signature: &'a str,
}

impl<'a> Authorization<'a> {
    fn parse(value: &'a str) -> Result<Self, ServiceError> {
        let malformed = |reason: &str| refused(ErrorCode::InvalidAuthenticationInfo, &reason);
        let (scheme, credentials) =
            value.trim().split_once(' ').ok_or_else(|| malformed("no credentials"))?;
        let scheme = if scheme.eq_ignore_ascii_case("SharedKey") {
            Scheme::SharedKey
        } else if scheme.eq_ignore_ascii_case("SharedKeyLite") {
            Scheme::SharedKeyLite
        } else {
            // Tokens of a directory, which this server has none of, or what nobody knows.
            let reason = format_args!("there is no scheme {scheme:?}");
            return Err(refused(ErrorCode::AuthenticationFailed, &reason));
        };
        let (account, signature) =
            credentials.trim().split_once(':').ok_or_else(|| malformed("no signature"))?;
        Ok(Self { scheme, account, signature })
    }
}

pub(super) fn authenticate(
    request: &Signed<'_>,
    account: &Account,
    authorization: &str,
) -> Result<Grant, ServiceError> {
    let Authorization { scheme, account: named, signature } = Authorization::parse(authorization)?;
    if named != account.name() {
        let reason = format_args!("signed for account {named:?}, sent to {:?}", account.name());
        return Err(refused(ErrorCode::AuthenticationFailed, &reason));
    }
    let date = date(request)?;
    let signed = |path: &[&str]| {
        account.signed(signature, |signer| {
            if scheme == Scheme::SharedKey {
                signer.line(request.method.as_str());
                signer.line(request.header(&names::CONTENT_MD5));
                signer.line(request.header(&header::CONTENT_TYPE));
            }
            signer.line(date);
            resource(signer, account, path, request.query.get(Parameter::Comp));
        })
    };
    if signed(&[request.path]) {
        return Ok(Grant::Key);
    }
    // SDKs sign the secondary's address as the primary's: with the account's own name, or, where
    // they put the secondary before the primary's path, that path.
    let primary = (request.place.secondary && request.place.style == Style::Path)
        .then(|| request.path.split_once(SECONDARY))
        .flatten();
    if primary.is_some_and(|(account, rest)| signed(&[account, rest]) || signed(&[rest])) {
        return Ok(Grant::Key);
    }
    Err(refused(ErrorCode::AuthenticationFailed, &"the signature is not that of the request"))
}

fn resource(signer: &mut Signer<'_>, account: &Account, path: &[&str], comp: Option<&str>) {
    signer.push("/").push(account.name());
    for part in path {
        signer.push(part);
    }
    if let Some(comp) = comp {
        signer.push("?comp=").push(comp);
    }
}

/// The date that was signed, if it is near enough to now.
fn date<'a>(request: &'a Signed<'_>) -> Result<&'a str, ServiceError> {
    let failed = |reason: &dyn std::fmt::Display| refused(ErrorCode::AuthenticationFailed, reason);
    let stated = [names::DATE, header::DATE];
    let mut stated = stated.iter().map(|name| request.header(name)).filter(|date| !date.is_empty());
    let date = stated.next().ok_or_else(|| failed(&"the request has no date"))?;
    let then = httpdate::parse_http_date(date)
        .map_err(|_| failed(&format_args!("the date {date:?} is of no form that HTTP knows")))?;
    if apart(then, request.now) > CLOCK_SKEW {
        return Err(failed(&format_args!("the date {date:?} is too far from now")));
    }
    Ok(date)
}

fn apart(one: SystemTime, other: SystemTime) -> std::time::Duration {
    one.duration_since(other).unwrap_or_else(|error| error.duration())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::{HeaderMap, Method};

    use super::*;
    use crate::address::{Place, QueryString};
    use crate::auth::SigningKey;
    use crate::wire::xml::SignedIdentifier;

    const DATE: &str = "Thu, 03 Sep 2020 18:50:45 GMT";
    /// The emulator's published key.
    const KEY: &str =
        "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

    struct Request<'a> {
        account: &'a str,
        key: &'a str,
        method: Method,
        host: &'a str,
        path: &'a str,
        query: &'a str,
        headers: Vec<(&'a str, &'a str)>,
        /// Seconds after the date.
        late: i64,
    }

    impl Default for Request<'_> {
        fn default() -> Self {
            Self {
                account: "devstoreaccount1",
                key: KEY,
                method: Method::GET,
                host: "127.0.0.1:10002",
                path: "/devstoreaccount1/Tables",
                query: "",
                headers: vec![("x-ms-date", DATE)],
                late: 0,
            }
        }
    }

    impl Request<'_> {
        fn authenticate(&self, authorization: &str) -> Result<Grant, ErrorCode> {
            let keys =
                vec![SigningKey::parse("b3RoZXI=").unwrap(), SigningKey::parse(self.key).unwrap()];
            let account = Account::new(self.account, keys);
            let mut headers = HeaderMap::new();
            for (name, value) in &self.headers {
                headers.insert(
                    http::HeaderName::from_bytes(name.as_bytes()).unwrap(),
                    value.parse().unwrap(),
                );
            }
            headers.insert(header::AUTHORIZATION, authorization.parse().unwrap());
            let query = QueryString::parse(self.query).unwrap();
            let place = Place::of(Some(self.host), self.path, |_| true).unwrap();
            let date = httpdate::parse_http_date(DATE).unwrap();
            let late = Duration::from_secs(self.late.unsigned_abs());
            let now = if self.late < 0 { date - late } else { date + late };
            let request = Signed {
                method: &self.method,
                path: self.path,
                query: &query,
                headers: &headers,
                place: &place,
                peer: None,
                secure: false,
                now,
            };
            let policies = |_: &str| None::<Vec<SignedIdentifier>>;
            request.authenticate(&account, policies).map_err(|error| error.code())
        }

        fn sign(&self, string_to_sign: &str) -> String {
            SigningKey::parse(self.key).unwrap().sign(|signer| {
                signer.push(string_to_sign);
            })
        }

        fn signed(&self, scheme: &str, string_to_sign: &str) -> Result<Grant, ErrorCode> {
            let signature = self.sign(string_to_sign);
            self.authenticate(&format!("{scheme} {}:{signature}", self.account))
        }
    }

    /// R-S08: the vector of the JavaScript SDK's own test. Its key is no whole base64; these are the
    /// bytes that JavaScript makes of it.
    #[test]
    fn r_s08_shared_key_lite_as_the_javascript_sdk_signs() {
        let request = Request {
            account: "accountName",
            key: "accountKew==",
            host: "testaccount.table.core.windows.net",
            path: "/tablename(PartitionKey='p1',RowKey='r1')",
            ..Request::default()
        };
        let authorization =
            "SharedKeyLite accountName:mzKy4ZjXbTEueNQp2cxou+kKrfCnWpdau5I6kJIO58g=";
        assert_eq!(request.authenticate(authorization), Ok(Grant::Key));
        let elsewhere = Request { path: "/tablename(PartitionKey='p1',RowKey='r2')", ..request };
        assert_eq!(elsewhere.authenticate(authorization), Err(ErrorCode::AuthenticationFailed));
    }

    /// R-S08: a SharedKey signature with the emulator's key over what the Python SDK signs, made by
    /// another implementation of HMAC.
    #[test]
    fn r_s08_shared_key_as_the_python_sdk_signs() {
        let request = Request {
            method: Method::POST,
            headers: vec![("x-ms-date", DATE), ("content-type", "application/json")],
            ..Request::default()
        };
        let authorization =
            "SharedKey devstoreaccount1:Nrrh/r1NkgrAXBmdfKeqi8Zi5NFWn7GbeJICU258WCY=";
        assert_eq!(request.authenticate(authorization), Ok(Grant::Key));
        let other = Request { method: Method::PUT, ..request };
        assert_eq!(other.authenticate(authorization), Err(ErrorCode::AuthenticationFailed));
    }

    #[test]
    fn the_string_to_sign_is_as_the_protocol_has_it() {
        let request = Request {
            method: Method::PUT,
            path: "/devstoreaccount1/t",
            query: "timeout=5&comp=acl",
            headers: vec![
                ("x-ms-date", DATE),
                ("date", "now"),
                ("content-md5", "md5"),
                ("content-type", "a/b"),
            ],
            ..Request::default()
        };
        let resource = "/devstoreaccount1/devstoreaccount1/t?comp=acl";
        let full = format!("PUT\nmd5\na/b\n{DATE}\n{resource}");
        let lite = format!("{DATE}\n{resource}");
        assert_eq!(request.signed("SharedKey", &full), Ok(Grant::Key));
        assert_eq!(request.signed("sharedkeylite", &lite), Ok(Grant::Key));
        let failed = Err(ErrorCode::AuthenticationFailed);
        assert_eq!(request.signed("SharedKey", &lite), failed);
        assert_eq!(request.signed("SharedKeyLite", &full), failed);
        // Percent-encoding is signed as it was sent.
        let path = "/devstoreaccount1/t(PartitionKey='a%20b',RowKey='%25')";
        let request = Request { path, ..Request::default() };
        let signed = format!("{DATE}\n/devstoreaccount1{path}");
        assert_eq!(request.signed("SharedKeyLite", &signed), Ok(Grant::Key));
    }

    /// R-S08: the quarter of an hour, both ways; the date is `x-ms-date`, or else `Date`.
    #[test]
    fn r_s08_a_request_is_good_for_a_quarter_of_an_hour() {
        let signed = format!("{DATE}\n/devstoreaccount1/devstoreaccount1/Tables");
        let at = |late| Request { late, ..Request::default() }.signed("SharedKeyLite", &signed);
        let failed = Err(ErrorCode::AuthenticationFailed);
        assert_eq!([at(0), at(900), at(-900)], [Ok(Grant::Key), Ok(Grant::Key), Ok(Grant::Key)]);
        assert_eq!([at(901), at(-901)], [failed.clone(), failed.clone()]);
        let dated =
            |headers| Request { headers, ..Request::default() }.signed("SharedKeyLite", &signed);
        assert_eq!(dated(vec![("date", DATE)]), Ok(Grant::Key));
        assert_eq!(dated(vec![("date", DATE), ("x-ms-date", "")]), Ok(Grant::Key));
        assert_eq!(dated(vec![]), failed);
        assert_eq!(dated(vec![("x-ms-date", "yesterday")]), failed);
    }

    #[test]
    fn the_secondary_is_signed_under_either_name() {
        let path = "/devstoreaccount1-secondary/Tables";
        let request = Request { path, ..Request::default() };
        let sent = format!("{DATE}\n/devstoreaccount1{path}");
        let primary = format!("{DATE}\n/devstoreaccount1/devstoreaccount1/Tables");
        assert_eq!(request.signed("SharedKeyLite", &sent), Ok(Grant::Key));
        assert_eq!(request.signed("SharedKeyLite", &primary), Ok(Grant::Key));
        // The Python SDK puts the secondary before the path of the primary.
        let path = "/devstoreaccount1-secondary/devstoreaccount1/Tables";
        let request = Request { path, ..Request::default() };
        assert_eq!(request.signed("SharedKeyLite", &primary), Ok(Grant::Key));
        // But what is sent to the primary is not signed for the secondary.
        let request = Request::default();
        let failed = Err(ErrorCode::AuthenticationFailed);
        assert_eq!(request.signed("SharedKeyLite", &sent), failed);
        // Nor what is sent for one entity for another: a key may end as the secondary's name does.
        let entity = |key: &str| format!("/devstoreaccount1/t(PartitionKey='{key}',RowKey='')");
        let (path, other) = (entity("a-secondary"), entity("a"));
        let request = Request { path: &path, ..Request::default() };
        let other = format!("{DATE}\n/devstoreaccount1{other}");
        assert_eq!(request.signed("SharedKeyLite", &other), failed);
        let path = path.replace("/devstoreaccount1", "");
        let host = "devstoreaccount1-secondary.table.example.org";
        let request = Request { host, path: &path, ..Request::default() };
        let other = other.replace("/devstoreaccount1/t", "/t");
        assert_eq!(request.signed("SharedKeyLite", &other), failed);
    }

    /// R-S08: a signature is for the account that it names.
    #[test]
    fn r_s08_a_signature_for_another_account_is_refused() {
        let request = Request::default();
        let signature = request.sign(&format!("{DATE}\n/devstoreaccount1/devstoreaccount1/Tables"));
        let of = |name| request.authenticate(&format!("SharedKeyLite {name}:{signature}"));
        assert_eq!(of("devstoreaccount1"), Ok(Grant::Key));
        let failed = Err(ErrorCode::AuthenticationFailed);
        assert_eq!([of("devstoreaccount2"), of("")], [failed.clone(), failed]);
    }

    #[test]
    fn what_is_no_authorization_is_refused() {
        let request = Request::default();
        for (authorization, code) in [
            ("", ErrorCode::InvalidAuthenticationInfo),
            ("SharedKey", ErrorCode::InvalidAuthenticationInfo),
            ("SharedKey devstoreaccount1", ErrorCode::InvalidAuthenticationInfo),
            ("SharedKey devstoreaccount1:", ErrorCode::AuthenticationFailed),
            ("SharedKey devstoreaccount1:!!!", ErrorCode::AuthenticationFailed),
            ("SharedKey other:AAAA", ErrorCode::AuthenticationFailed),
            ("Bearer abc.def", ErrorCode::AuthenticationFailed),
        ] {
            assert_eq!(request.authenticate(authorization), Err(code), "{authorization}");
        }
    }
}
