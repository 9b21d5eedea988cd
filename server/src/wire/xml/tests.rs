//! Documents as SDKs send them, printed and read back, and wrong ones (R-S09).

use proptest::prelude::*;

use super::tree::Element;
use super::*;
use crate::error::ErrorCode;

fn policy(id: &str) -> SignedIdentifier {
    SignedIdentifier { id: id.to_owned(), start: None, expiry: None, permission: None }
}

fn acl(inner: &str) -> Vec<u8> {
    format!(
        "<?xml version='1.0' encoding='utf-8'?>\n<SignedIdentifiers>{inner}</SignedIdentifiers>"
    )
    .into_bytes()
}

/// As the Python and JavaScript SDKs send them, partial ones too.
#[test]
fn policies() {
    let body = acl(
        "<SignedIdentifier><Id>a &amp; b</Id><AccessPolicy><Start>2011-12-10T02:01:01Z</Start>\
         <Expiry>2030-01-01T00:00:00.1234567Z</Expiry><Permission>raud</Permission></AccessPolicy>\
         </SignedIdentifier>\n<SignedIdentifier><Id>empty</Id></SignedIdentifier>\
         <SignedIdentifier><AccessPolicy><Start /><Expiry></Expiry><Permission>r</Permission>\
         </AccessPolicy><Id>partial</Id></SignedIdentifier>",
    );
    let policies = parse_acl(&body).expect("policies");
    let first = SignedIdentifier {
        start: "2011-12-10T02:01:01Z".parse().ok(),
        expiry: "2030-01-01T00:00:00.1234567Z".parse().ok(),
        permission: Some("raud".to_owned()),
        ..policy("a & b")
    };
    let last = SignedIdentifier { permission: Some("r".to_owned()), ..policy("partial") };
    assert_eq!(policies, [first, policy("empty"), last]);
    let printed = String::from_utf8(print_acl(&policies)).expect("text");
    assert!(
        printed.contains("<Id>a &amp; b</Id><AccessPolicy><Start>2011-12-10T02:01:01.0000000Z")
    );
    assert_eq!(parse_acl(printed.as_bytes()), Ok(policies));

    for none in [&b""[..], b"  ", b"<SignedIdentifiers/>", &acl(""), &print_acl(&[])] {
        assert_eq!(parse_acl(none), Ok(Vec::new()));
    }
}

/// R-S09: what a policy sets is shown, though it leaves the rest to signatures.
#[test]
fn r_s09_a_policy_may_set_a_part() {
    let date = "2011-12-10T02:01:01Z".parse().ok();
    let policies = [
        SignedIdentifier { start: date, ..policy("start") },
        SignedIdentifier { expiry: date, ..policy("expiry") },
        SignedIdentifier { permission: Some("r".to_owned()), ..policy("permission") },
        SignedIdentifier { start: date, expiry: date, ..policy("dates") },
    ];
    assert_eq!(parse_acl(&print_acl(&policies)), Ok(policies.to_vec()));
}

/// R-S09: a policy that sets nothing is shown by its identifier alone, however it was sent.
#[test]
fn r_s09_a_policy_that_sets_nothing_has_no_access_policy() {
    let alone = "<SignedIdentifier><Id>null</Id></SignedIdentifier>";
    for sent in ["", "<AccessPolicy/>", "<AccessPolicy><Start/><Expiry/></AccessPolicy>"] {
        let body = acl(&alone.replace("</Id>", &format!("</Id>{sent}")));
        let printed = print_acl(&parse_acl(&body).expect("policies"));
        let printed = String::from_utf8(printed).expect("text");
        let (_, shown) = printed.split_once("<SignedIdentifiers>").expect("policies");
        assert_eq!(shown, format!("{alone}</SignedIdentifiers>"), "{sent}");
    }
}

/// Protocol 9: six policies, or a long identifier, are refused, and which code says so.
#[test]
fn policies_out_of_bounds() {
    let one = |id: &str| format!("<SignedIdentifier><Id>{id}</Id></SignedIdentifier>");
    let many = |count: usize| acl(&(0..count).map(|id| one(&id.to_string())).collect::<String>());
    assert_eq!(parse_acl(&many(5)).map(|it| it.len()), Ok(5));
    let code = |body: &[u8]| {
        crate::error::ServiceError::from(parse_acl(body).expect_err("refused")).code()
    };
    assert_eq!(code(&many(6)), ErrorCode::InvalidXmlDocument);
    assert!(parse_acl(&acl(&one(&"ä".repeat(64)))).is_ok());
    assert_eq!(code(&acl(&one(&"a".repeat(65)))), ErrorCode::InvalidXmlNodeValue);
    assert_eq!(code(&acl(&one(""))), ErrorCode::InvalidXmlNodeValue);
    assert_eq!(code(&acl(&(one("a") + &one("a")))), ErrorCode::InvalidXmlNodeValue);
    for wrong in ["<Start>yesterday</Start>", "<Permission>rx</Permission>"] {
        let body = one("a").replace("</Id>", &format!("</Id><AccessPolicy>{wrong}</AccessPolicy>"));
        assert_eq!(code(&acl(&body)), ErrorCode::InvalidXmlNodeValue);
    }
    for wrong in
        ["<Id>a</Id>", "<SignedIdentifier/>", "<SignedIdentifier>", "text<", "<!DOCTYPE a>"]
    {
        assert_eq!(code(&acl(wrong)), ErrorCode::InvalidXmlDocument, "{wrong}");
    }
    assert_eq!(code(b"<A/>"), ErrorCode::InvalidXmlDocument);
    assert_eq!(code(b"\xff"), ErrorCode::InvalidXmlDocument);
}

/// R-S09: markup in a value, or text beside elements, is refused and not left out.
#[test]
fn r_s09_policies_of_mixed_content_are_refused() {
    let sound = "<SignedIdentifier><Id>a</Id><AccessPolicy><Start>2030-01-01T00:00:00Z</Start>\
                 <Permission>r</Permission></AccessPolicy></SignedIdentifier>";
    assert!(parse_acl(&acl(sound)).is_ok());
    for (from, to) in [
        ("<Id>a</Id>", "<Id>a<b>x</b>c</Id>"),
        ("<Id>a</Id>", "<Id>a<b/></Id>"),
        (">2030-01-01T", ">2030-01-01<b/>T"),
        ("2030-01-01T00:00:00Z", "<b>2030-01-01T00:00:00Z</b>"),
        (">r<", ">r<x>aud</x><"),
        (">r<", "><x>raud</x><"),
        ("<SignedIdentifier>", "text<SignedIdentifier>"),
        ("<Id>", "text<Id>"),
        ("<Permission>", "text<Permission>"),
        ("</AccessPolicy>", "<![CDATA[text]]></AccessPolicy>"),
    ] {
        let error = parse_acl(&acl(&sound.replace(from, to))).expect_err(to);
        let code = crate::error::ServiceError::from(error).code();
        assert_eq!(code, ErrorCode::InvalidXmlDocument, "{to}");
    }
}

const FULL: &str = "<StorageServiceProperties><Logging><Version>1.0</Version><Delete>true</Delete>\
    <Read>false</Read><Write>true</Write><RetentionPolicy><Enabled>true</Enabled><Days>5</Days>\
    </RetentionPolicy></Logging><HourMetrics><Version>1.0</Version><Enabled>true</Enabled>\
    <IncludeAPIs>true</IncludeAPIs><RetentionPolicy><Enabled>false</Enabled></RetentionPolicy>\
    </HourMetrics><Cors><CorsRule><AllowedOrigins>www.xyz.com, www.ab.com</AllowedOrigins>\
    <AllowedMethods>GET,PUT</AllowedMethods><MaxAgeInSeconds>500</MaxAgeInSeconds>\
    <ExposedHeaders>x-ms-meta-data*</ExposedHeaders><AllowedHeaders /></CorsRule></Cors>\
    </StorageServiceProperties>";

/// What is set comes back; what is not mentioned stays.
#[test]
fn properties() {
    let update = parse_properties(FULL.as_bytes()).expect("properties");
    let mut properties = ServiceProperties::default();
    properties.minute_metrics.include_apis = Some(false);
    properties.apply(update);
    assert_eq!(properties.logging.retention, Retention::Days(5));
    assert!(properties.logging.delete && !properties.logging.read && properties.logging.write);
    assert_eq!(properties.hour_metrics.include_apis, Some(true));
    assert_eq!(properties.minute_metrics.include_apis, Some(false));
    let rule = CorsRule {
        allowed_origins: vec!["www.xyz.com".to_owned(), "www.ab.com".to_owned()],
        allowed_methods: vec!["GET".to_owned(), "PUT".to_owned()],
        allowed_headers: Vec::new(),
        exposed_headers: vec!["x-ms-meta-data*".to_owned()],
        max_age_seconds: 500,
    };
    assert_eq!(properties.cors, [rule]);

    let mut again = ServiceProperties::default();
    again.apply(parse_properties(&print_properties(&properties)).expect("properties"));
    assert_eq!(again, properties);
    let default = ServiceProperties::default();
    again.apply(parse_properties(&print_properties(&default)).expect("properties"));
    assert_eq!(again, default);
}

/// Each wrong setting is refused.
#[test]
fn properties_out_of_bounds() {
    let rule = &FULL[FULL.find("<CorsRule>").unwrap()..FULL.find("</Cors>").unwrap()];
    for (from, to) in [
        ("<Days>5</Days>", "<Days>366</Days>"),
        ("<Days>5</Days>", "<Days>0</Days>"),
        ("<Days>5</Days>", ""),
        ("<Read>false</Read>", ""),
        ("<Read>false</Read>", "<Read>no</Read>"),
        ("<Version>1.0</Version>", "<Version>3</Version>"),
        ("<Cors>", "<Static/><Cors>"),
        ("<Cors>", "<Cors></Cors><Cors>"),
        ("GET,PUT", "GET,EAT"),
        (">500<", ">-1<"),
        ("<AllowedHeaders />", ""),
        (rule, &rule.repeat(6)),
        ("StorageServiceProperties", "Properties"),
    ] {
        let wrong = FULL.replace(from, to);
        assert!(parse_properties(wrong.as_bytes()).is_err(), "{to}");
    }
    assert!(parse_properties(FULL.replace(rule, &rule.repeat(5)).as_bytes()).is_ok());
}

/// R-S09: as in policies, markup in a setting's value or text beside its elements is refused.
#[test]
fn r_s09_properties_of_mixed_content_are_refused() {
    for (from, to) in [
        ("<Version>1.0<", "<Version>1.0<b/><"),
        ("<Read>false<", "<Read>false<b>x</b><"),
        ("<Days>5<", "<Days>5<b/><"),
        ("<IncludeAPIs>true<", "<IncludeAPIs><b>true</b><"),
        ("www.xyz.com,", "www.xyz.com<b>x</b>,"),
        ("GET,PUT", "GET,PUT<b/>"),
        (">500<", ">500<b/><"),
        ("x-ms-meta-data*", "x-ms-meta-data*<b/>"),
        ("<AllowedHeaders />", "<AllowedHeaders><b/></AllowedHeaders>"),
        ("<Logging>", "text<Logging>"),
        ("<Read>", "text<Read>"),
        ("<Days>", "text<Days>"),
        ("<CorsRule>", "text<CorsRule>"),
        ("<AllowedMethods>", "text<AllowedMethods>"),
    ] {
        let error = parse_properties(FULL.replacen(from, to, 1).as_bytes()).expect_err(to);
        let code = crate::error::ServiceError::from(error).code();
        assert_eq!(code, ErrorCode::InvalidXmlDocument, "{to}");
    }
}

/// R-S09: days that are too few or too many are no document of the service, what is no number a wrong value.
#[test]
fn r_s09_days_of_retention_have_a_range() {
    let code = |days: &str| {
        let body = FULL.replace("<Days>5<", &format!("<Days>{days}<"));
        let settings = parse_properties(body.as_bytes());
        settings.map(|_| ()).map_err(|error| crate::error::ServiceError::from(error).code())
    };
    for days in ["1", "365", " 7 "] {
        assert_eq!(code(days), Ok(()), "{days}");
    }
    for days in ["0", "366", "-1", "4294967297"] {
        assert_eq!(code(days), Err(ErrorCode::InvalidXmlDocument), "{days}");
    }
    for days in ["five", "", "1.5"] {
        assert_eq!(code(days), Err(ErrorCode::InvalidXmlNodeValue), "{days}");
    }
}

/// R-S09: what is kept forever is kept for no number of days, as recorded.
#[test]
fn r_s09_days_without_retention_are_refused() {
    let disabled =
        FULL.replacen("<Enabled>true</Enabled><Days>", "<Enabled>false</Enabled><Days>", 1);
    let error = parse_properties(disabled.as_bytes()).expect_err("days");
    let code = crate::error::ServiceError::from(error).code();
    assert_eq!(code, ErrorCode::InvalidXmlDocument);
    let without = disabled.replacen("<Days>5</Days>", "<Days />", 1);
    let update = parse_properties(without.as_bytes()).expect("settings");
    assert_eq!(update.logging.map(|logging| logging.retention), Some(Retention::Forever));
}

/// R-S09: the limits of cross-origin rules hold for what is set, and not for what is stored.
#[test]
fn r_s09_cross_origin_rules_out_of_bounds() {
    let rule = &FULL[FULL.find("<CorsRule>").unwrap()..FULL.find("</Cors>").unwrap()];
    let check = |from: &str, to: &str| {
        let update = parse_properties(FULL.replace(from, to).as_bytes()).expect("readable");
        let checked = update.check();
        checked.map_err(|error| crate::error::ServiceError::from(error).code())
    };
    let wrong = Err(ErrorCode::InvalidXmlNodeValue);
    let (origins, exposed) = ("www.xyz.com, www.ab.com", "x-ms-meta-data*");
    let many = |count: usize| vec!["a"; count].join(",");
    let long = |length: usize| "é".repeat(length);
    assert_eq!(check("", ""), Ok(()));
    for (from, fits, too_much) in [
        (origins, many(64), many(65)),
        (exposed, many(64) + ",b*,*", many(65)),
        (exposed, "a*,b*".to_owned(), "a*,b*,c*".to_owned()),
        (origins, long(256), long(257)),
        (exposed, long(256), long(257)),
        (exposed, "a*,".to_owned() + &long(256), "a*,".to_owned() + &long(256) + "*"),
    ] {
        assert_eq!(check(from, &fits), Ok(()), "{fits}");
        assert_eq!(check(from, &too_much), wrong, "{too_much}");
    }
    // A rule has 25 bytes of text beside its origins, which have 22 with a comma between them.
    let origins_of = |last: usize| {
        let text = vec!["x".repeat(99); 18].join(",") + "," + &"y".repeat(last);
        rule.repeat(4) + &rule.replace(origins, &text)
    };
    let used = 5 * 25 + 4 * 22 + 18 * 100;
    assert_eq!(check(rule, &origins_of(2048 - used)), Ok(()));
    assert_eq!(check(rule, &origins_of(2049 - used)), wrong);
}

/// R-S09: a cross-origin rule may admit all methods that the SDKs of Java and .NET name.
#[test]
fn r_s09_cross_origin_rules_may_have_every_method() {
    let methods = "GET,HEAD,POST,PUT,DELETE,TRACE,OPTIONS,CONNECT,MERGE";
    let update = parse_properties(FULL.replace("GET,PUT", methods).as_bytes()).expect("methods");
    let mut properties = ServiceProperties::default();
    properties.apply(update);
    assert_eq!(properties.cors[0].allowed_methods.join(","), methods);
}

/// Depth and number of elements are bounded, and references cannot grow a document (R-S12).
#[test]
fn bombs() {
    let deep = "<a>".repeat(100_000);
    assert!(matches!(parse_acl(deep.as_bytes()), Err(XmlError::TooLarge { .. })));
    let many = format!("<a>{}</a>", "<b/>".repeat(100_000));
    assert!(matches!(parse_acl(many.as_bytes()), Err(XmlError::TooLarge { .. })));
    let bomb = "<!DOCTYPE a [<!ENTITY b 'bbbb'>]><a>&b;</a>";
    assert!(matches!(parse_acl(bomb.as_bytes()), Err(XmlError::Malformed { .. })));
    assert!(matches!(parse_acl(b"<a>&b;</a>"), Err(XmlError::Malformed { .. })));
}

#[test]
fn errors_and_statistics() {
    let error = String::from_utf8(print_error("InvalidInput", "a < b & c\nRequestId:1")).unwrap();
    let expected = "<?xml version=\"1.0\" encoding=\"utf-8\"?><error xmlns=\"http://schemas.\
        microsoft.com/ado/2007/08/dataservices/metadata\"><code>InvalidInput</code>\
        <message xml:lang=\"en-US\">a &lt; b &amp; c\nRequestId:1</message></error>";
    assert_eq!(error, expected);
    let stats = Element::parse(&print_stats("Thu, 01 Jan 2026 00:00:00 GMT")).expect("stats");
    assert_eq!(stats.children[0].child("Status").expect("status").leaf_text(), Ok("live"));
}

proptest! {
    #[test]
    fn any_document(body in prop::collection::vec(prop_oneof![
        prop::sample::select(vec!["<SignedIdentifiers>", "<a b='", "'/>", "<Id>", "</Id>", "&#",
            "1;", "&amp;", "<![CDATA[", "]]>", "<!--", "-->", "<?", "?>", "xmlns='", "</"])
            .prop_map(str::to_owned),
        any::<String>(),
    ], 0..20)) {
        let _ = parse_acl(body.concat().as_bytes());
        let _ = parse_properties(body.concat().as_bytes());
    }

    #[test]
    fn any_text_comes_back(id in "[^\0-\u{1f}\u{fffe}\u{ffff}]{1,64}") {
        let policies = [policy(&id)];
        prop_assert_eq!(parse_acl(&print_acl(&policies)), Ok(policies.to_vec()));
    }
}

/// R-S09: before 2013-08-15 metrics have no span in their name, and there are no others, nor cross-origin rules.
#[test]
fn r_s09_old_properties() {
    let mut properties = ServiceProperties::default();
    properties.apply(parse_properties(FULL.as_bytes()).expect("properties"));
    let expected = "<?xml version=\"1.0\" encoding=\"utf-8\"?><StorageServiceProperties>\
        <Logging><Version>1.0</Version><Read>false</Read><Write>true</Write><Delete>true</Delete>\
        <RetentionPolicy><Enabled>true</Enabled><Days>5</Days></RetentionPolicy></Logging>\
        <Metrics><Version>1.0</Version><Enabled>true</Enabled><IncludeAPIs>true</IncludeAPIs>\
        <RetentionPolicy><Enabled>false</Enabled></RetentionPolicy></Metrics>\
        </StorageServiceProperties>";
    let printed = print_old_properties(&properties);
    assert_eq!(String::from_utf8(printed).expect("UTF-8"), expected);
}
