//! Service properties, and web pages from elsewhere (R-S09).

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
