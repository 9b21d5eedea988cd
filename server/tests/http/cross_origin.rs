//! Service properties, and web pages from elsewhere (R-S09).

use std::collections::BTreeSet;

use crate::support::Server;

const SERVICE: &str = "/?restype=service&comp=properties";

#[tokio::test]
async fn r_s09_service_properties_are_kept() {
    let server = Server::start().await;
    let mut client = server.client().await;
    let initial = client.get(SERVICE).await;
    assert_eq!((initial.status, initial.header("content-type")), (200, Some("application/xml")));
    let logging = "<?xml version=\"1.0\" encoding=\"utf-8\"?><StorageServiceProperties><Logging>\
        <Version>1.0</Version><Delete>true</Delete><Read>false</Read><Write>true</Write>\
        <RetentionPolicy><Enabled>true</Enabled><Days>5</Days></RetentionPolicy></Logging>\
        </StorageServiceProperties>";
    assert_eq!(client.send("PUT", SERVICE, &[], logging).await.status, 202);
    let changed = client.get(SERVICE).await;
    assert!(changed.text().contains("<Days>5</Days>"), "{}", changed.text());
    let broken = client.send("PUT", SERVICE, &[], "<Storage").await;
    assert_eq!(broken.failure(), (400, "InvalidXmlDocument"));
    let wrong = logging.replace("<Days>5", "<Days>five");
    let wrong = client.send("PUT", SERVICE, &[], wrong).await;
    assert_eq!(wrong.failure(), (400, "InvalidXmlNodeValue"));
    assert_eq!(client.get(SERVICE).await.body, changed.body);
}

#[tokio::test]
async fn r_s09_pages_may_ask_what_the_rules_say() {
    let server = Server::start().await;
    let mut client = server.with_people().await;
    let path = "/devstoreaccount1/people";
    let ask = [("Origin", "https://page.example"), ("Access-Control-Request-Method", "GET")];
    let refused = client.unsigned().request("localhost", "OPTIONS", path, &ask, b"").await;
    assert_eq!(refused.status, 403);
    let refused = client.unsigned().request("localhost", "OPTIONS", path, &ask[..1], b"").await;
    assert_eq!(refused.status, 400);

    let cors = "<StorageServiceProperties><Cors><CorsRule>\
        <AllowedOrigins>https://page.example</AllowedOrigins><AllowedMethods>GET</AllowedMethods>\
        <AllowedHeaders>*</AllowedHeaders><ExposedHeaders>x-ms-*</ExposedHeaders>\
        <MaxAgeInSeconds>60</MaxAgeInSeconds></CorsRule></Cors></StorageServiceProperties>";
    assert_eq!(client.send("PUT", SERVICE, &[], cors).await.status, 202);
    let allowed = client.unsigned().request("localhost", "OPTIONS", path, &ask, b"").await;
    assert_eq!(allowed.status, 200);
    assert_eq!(allowed.header("access-control-allow-origin"), Some("https://page.example"));
    assert_eq!(allowed.header("access-control-max-age"), Some("60"));

    // Answers are shown to the page, errors too; other pages do not see them.
    let mut origin_of = async |origin: &str, path: &str| {
        let answer = client.send("GET", path, &[("Origin", origin)], "").await;
        answer.header("access-control-allow-origin").map(str::to_owned)
    };
    let page = "https://page.example";
    assert_eq!(origin_of(page, "/Tables('people')").await.as_deref(), Some(page));
    assert_eq!(origin_of(page, "/Tables('missing')").await.as_deref(), Some(page));
    assert_eq!(origin_of("https://other.example", "/Tables('people')").await, None);
}

/// R-S09: a page sees the headers that the rule lists, each by its name: of a request with credentials
/// browsers take `x-ms-*` for one.
#[tokio::test]
async fn r_s09_pages_see_the_headers_that_the_rule_lists() {
    let server = Server::start().await;
    let mut client = server.with_people().await;
    let rule = |exposed: &str| {
        format!(
            "<StorageServiceProperties><Cors><CorsRule><AllowedOrigins>https://page.example\
             </AllowedOrigins><AllowedMethods>GET,PUT</AllowedMethods><AllowedHeaders>*</AllowedHeaders>\
             <ExposedHeaders>{exposed}</ExposedHeaders><MaxAgeInSeconds>60</MaxAgeInSeconds></CorsRule>\
             </Cors></StorageServiceProperties>"
        )
    };
    for row in ["1", "2"] {
        let entity = format!(r#"{{"PartitionKey":"p","RowKey":"{row}"}}"#);
        assert_eq!(client.post("/people", &entity).await.status, 201);
    }
    let ids = ["x-ms-request-id", "x-ms-version"];
    let next = ["x-ms-continuation-nextpartitionkey", "x-ms-continuation-nextrowkey"];
    let (page, point) = ("/people()?$top=1", "/people(PartitionKey='p',RowKey='1')");
    let missing = "/people(PartitionKey='p',RowKey='3')";
    for (exposed, method, path, expected) in [
        ("x-ms-*", "GET", page, [&ids[..], &next].concat()),
        ("x-ms-*", "PUT", point, ids.to_vec()),
        ("x-ms-*", "GET", missing, [&ids[..], &["x-ms-error-code"]].concat()),
        ("ETag,X-Ms-Continuation-*", "GET", page, next.to_vec()),
        (
            "ETag,Date,content-*",
            "GET",
            point,
            vec!["etag", "date", "content-type", "content-length"],
        ),
        ("x-other,etag", "GET", page, vec![]),
        ("", "GET", page, vec![]),
    ] {
        assert_eq!(client.send("PUT", SERVICE, &[], rule(exposed)).await.status, 202);
        let origin = [("Origin", "https://page.example")];
        let answer = client.send(method, path, &origin, "{}").await;
        let shown = answer.header("access-control-expose-headers").unwrap_or_default();
        let shown: BTreeSet<_> =
            shown.split(',').filter(|name| !name.is_empty()).map(str::to_lowercase).collect();
        let expected: BTreeSet<_> = expected.into_iter().map(str::to_owned).collect();
        assert_eq!(shown, expected, "{exposed} {method} {path}");
        assert!(expected.iter().all(|name| answer.header(name).is_some()), "{answer:?}");
    }
}

fn rule(origins: &str, exposed: &str) -> String {
    format!(
        "<StorageServiceProperties><Cors><CorsRule><AllowedOrigins>{origins}</AllowedOrigins>\
         <AllowedMethods>GET</AllowedMethods><AllowedHeaders>*</AllowedHeaders>\
         <ExposedHeaders>{exposed}</ExposedHeaders><MaxAgeInSeconds>60</MaxAgeInSeconds>\
         </CorsRule></Cors></StorageServiceProperties>"
    )
}

/// R-S09: a rule may have all origins below a domain; each is told that it may, by its own name.
#[tokio::test]
async fn r_s09_pages_below_a_domain_may_ask() {
    let server = Server::start().await;
    let mut client = server.with_people().await;
    let rule = rule("https://*.contoso.com", "x-ms-*");
    assert_eq!(client.send("PUT", SERVICE, &[], rule).await.status, 202);
    for (origin, allowed) in [
        ("https://www.contoso.com", true),
        ("https://a.b.contoso.com", true),
        ("https://contoso.com", false),
        ("https://evilcontoso.com", false),
        ("http://www.contoso.com", false),
    ] {
        let shown = allowed.then_some(origin);
        let ask = [("Origin", origin), ("Access-Control-Request-Method", "GET")];
        let path = "/devstoreaccount1/people";
        let preflight = client.unsigned().request("localhost", "OPTIONS", path, &ask, b"").await;
        assert_eq!(preflight.status, if allowed { 200 } else { 403 }, "{origin}");
        let answer = client.send("GET", "/people()", &ask[..1], "").await;
        assert_eq!(preflight.header("vary"), shown.map(|_| "Origin"), "{origin}");
        assert_eq!(answer.header("vary"), Some("Origin"), "{origin}");
        for answer in [preflight, answer] {
            assert_eq!(answer.header("access-control-allow-origin"), shown, "{origin}");
        }
    }
}

/// R-S09: an answer that a rule for all pages lets all see says so to who states no origin too; of others
/// caches are told that there is one for each origin.
#[tokio::test]
async fn r_s09_answers_say_to_whom_they_are_shown() {
    let server = Server::start().await;
    let mut client = server.with_people().await;
    let (page, other) = (Some("https://page.example"), Some("https://other.example"));
    let rule = |origins| rule(origins, "x-ms-version").replace(">GET<", ">GET,PUT<");
    let get = ("GET", "/people()");
    let put = ("PUT", "/people(PartitionKey='p',RowKey='r')");
    let delete = ("DELETE", "/people(PartitionKey='no',RowKey='r')");
    let all = (Some("*"), None);
    for (origins, origin, (method, path), (allowed, vary)) in [
        ("", None, get, (None, None)),
        ("", page, get, (None, None)),
        ("*", None, get, all),
        ("*", None, put, all),
        ("*", page, get, all),
        ("*", None, delete, (None, None)),
        ("https://page.example", page, get, (page, Some("Origin"))),
        ("https://page.example", page, put, (page, None)),
        ("https://page.example", other, get, (None, Some("Origin"))),
        ("https://page.example", other, put, (None, None)),
        ("https://page.example", None, get, (None, Some("Origin"))),
        ("https://page.example", None, put, (None, None)),
    ] {
        let none = "<StorageServiceProperties><Cors/></StorageServiceProperties>";
        let settings = if origins.is_empty() { none.to_owned() } else { rule(origins) };
        assert_eq!(client.send("PUT", SERVICE, &[], settings).await.status, 202);
        let headers: Vec<_> = origin.iter().map(|origin| ("Origin", *origin)).collect();
        let answer = client.send(method, path, &headers, "{}").await;
        let case = format!("{origins} {origin:?} {method}");
        assert_eq!(answer.header("access-control-allow-origin"), allowed, "{case}");
        assert_eq!(answer.header("vary"), vary, "{case}");
        let exposed = allowed.map(|_| "x-ms-version");
        assert_eq!(answer.header("access-control-expose-headers"), exposed, "{case}");
        let credentials = allowed.filter(|allowed| *allowed != "*").map(|_| "true");
        assert_eq!(answer.header("access-control-allow-credentials"), credentials, "{case}");
    }
}

/// R-S09, R-S12: rules beyond their limits are refused as the wrong values that they are.
#[tokio::test]
async fn r_s09_rules_have_their_limits() {
    let server = Server::start().await;
    let mut client = server.client().await;
    let page = "https://page.example";
    for (origins, exposed) in [
        (&*format!("https://{}", "x".repeat(249)), "x-ms-*"),
        (page, "x-ms-*,y-*,z-*"),
        (page, &*format!("x-ms-*,{}", vec!["a"; 65].join(","))),
        (&*vec!["x".repeat(250); 8].join(","), &*"y".repeat(50)),
        (&*"x".repeat(70_000), "x-ms-*"),
    ] {
        let refused = client.send("PUT", SERVICE, &[], rule(origins, exposed)).await;
        assert_eq!(refused.failure(), (400, "InvalidXmlNodeValue"), "{exposed}");
    }
    let most = format!("x-ms-*,y-*,{}", vec!["a"; 64].join(","));
    assert_eq!(client.send("PUT", SERVICE, &[], rule(page, &most)).await.status, 202);
}

/// R-S08: nobody has signed the question, so it does not tell which accounts there are.
#[tokio::test]
async fn r_s08_a_preflight_does_not_tell_which_accounts_there_are() {
    let server = Server::start().await;
    let mut client = server.client().await;
    let client = client.unsigned();
    let ask = [("Origin", "https://page.example"), ("Access-Control-Request-Method", "GET")];
    for (host, path) in [
        ("localhost", "/ACCOUNT/people"),
        ("localhost", "/ACCOUNT"),
        ("localhost", "/ACCOUNT/people(PartitionKey=1)"),
        ("ACCOUNT.table.localhost", "/"),
        ("ACCOUNT.table.localhost", "/people"),
        ("ACCOUNT.table.localhost", "/people(PartitionKey=1)"),
    ] {
        for account in ["second", "nobody"] {
            let (host, path) = (host.replace("ACCOUNT", account), path.replace("ACCOUNT", account));
            let refused = client.request(&host, "OPTIONS", &path, &ask, b"").await;
            assert_eq!(refused.failure(), (403, "CorsPreflightFailure"), "{host}{path}");
            let unfit = client.request(&host, "OPTIONS", &path, &ask[..1], b"").await;
            assert_eq!(unfit.failure(), (400, "MissingRequiredHeader"), "{host}{path}");
        }
    }
}
