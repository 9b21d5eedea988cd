//! Web pages from elsewhere: what an account's rules let them ask and see.

use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};

use super::answer::Answer;
use crate::error::{ErrorCode, ServiceError};
use crate::headers::text;
use crate::wire::xml::{CorsRule, ServiceProperties};

const TRUE: HeaderValue = HeaderValue::from_static("true");
const ORIGIN: HeaderValue = HeaderValue::from_static("Origin");
const ANY: HeaderValue = HeaderValue::from_static("*");

/// The answer to a browser that asks whether a page may send a request. It is not signed.
pub(super) fn preflight(
    properties: &ServiceProperties,
    request: &HeaderMap,
) -> Result<Answer, ServiceError> {
    let missing = || ErrorCode::MissingRequiredHeader.error();
    let origin = text(request, &header::ORIGIN).ok_or_else(missing)?;
    let method = text(request, &header::ACCESS_CONTROL_REQUEST_METHOD).ok_or_else(missing)?;
    let asked = text(request, &header::ACCESS_CONTROL_REQUEST_HEADERS).unwrap_or_default();
    let mut headers = asked.split(',').map(str::trim).filter(|name| !name.is_empty());
    let rule = rule(&properties.cors, Some(origin), method)
        .filter(|rule| headers.all(|name| lists(&rule.allowed_headers, name)))
        .ok_or(ErrorCode::CorsPreflightFailure)?;
    let answer = Answer::empty(StatusCode::OK)
        .with_text(header::ACCESS_CONTROL_ALLOW_METHODS, method)
        .with_text(header::ACCESS_CONTROL_ALLOW_HEADERS, asked)
        .with(header::ACCESS_CONTROL_MAX_AGE, rule.max_age_seconds.into());
    let answer = with_origin(answer, rule, Some(origin));
    Ok(if is_for_all(rule) { answer } else { answer.with(header::VARY, ORIGIN) })
}

/// Headers that every answer gets when it is sent.
const SENT_WITH: [HeaderName; 2] = [header::CONTENT_LENGTH, header::DATE];

/// Adds to the headers of an answer, which are all there, what lets a page see it and those that are
/// listed, if a rule does, and whether caches must keep the answers to other pages apart.
pub(super) fn allow(properties: &ServiceProperties, request: &Parts, answer: &mut HeaderMap) {
    let rules = &properties.cors;
    let origin = text(&request.headers, &header::ORIGIN);
    let rule = rule(rules, origin, request.method.as_str());
    if let Some(rule) = rule {
        // By name: of a request with credentials browsers take a pattern for a name.
        let names = answer.keys().chain(&SENT_WITH).map(HeaderName::as_str);
        let exposed: Vec<_> = names.filter(|name| lists(&rule.exposed_headers, name)).collect();
        let allowed = with_origin(Answer::empty(StatusCode::OK), rule, origin)
            .with_text(header::ACCESS_CONTROL_EXPOSE_HEADERS, &exposed.join(","));
        answer.extend(allowed.headers);
    }
    // Of other methods no answer is kept.
    let is_kept = matches!(request.method, Method::GET | Method::HEAD);
    if is_kept && !rules.is_empty() && !rule.is_some_and(is_for_all) {
        answer.insert(header::VARY, ORIGIN);
    }
}

/// The first rule for requests with this method of this origin, or, if they state none, of any.
fn rule<'a>(rules: &'a [CorsRule], origin: Option<&str>, method: &str) -> Option<&'a CorsRule> {
    let allows = |rule: &CorsRule| match origin {
        Some(origin) => rule.allowed_origins.iter().any(|allowed| admits(allowed, origin)),
        None => is_for_all(rule),
    };
    rules
        .iter()
        .find(|rule| allows(rule) && rule.allowed_methods.iter().any(|allowed| allowed == method))
}

fn is_for_all(rule: &CorsRule) -> bool {
    rule.allowed_origins.iter().any(|allowed| allowed == "*")
}

/// Whether an allowed origin is this one, or has it below its domain: `https://*.contoso.com` has
/// `https://www.contoso.com`, and not `https://contoso.com`.
fn admits(allowed: &str, origin: &str) -> bool {
    if allowed == "*" || allowed == origin {
        return true;
    }
    let Some((scheme, domain)) = allowed.split_once("://*.") else { return false };
    let host = origin.strip_prefix(scheme).and_then(|rest| rest.strip_prefix("://"));
    let labels = host.and_then(|host| host.strip_suffix(domain)?.strip_suffix('.'));
    labels.is_some_and(|labels| labels.split('.').all(is_label))
}

fn is_label(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|it| it.is_ascii_alphanumeric() || b"-_".contains(&it))
}

/// Says who may see the answer: all for whom the rule is, or this origin.
fn with_origin(answer: Answer, rule: &CorsRule, origin: Option<&str>) -> Answer {
    match origin.filter(|_| !is_for_all(rule)) {
        None => answer.with(header::ACCESS_CONTROL_ALLOW_ORIGIN, ANY),
        Some(origin) => answer
            .with_text(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin)
            .with(header::ACCESS_CONTROL_ALLOW_CREDENTIALS, TRUE),
    }
}

/// Whether a list of headers, of which one that ends with `*` is a prefix, has a name.
fn lists(allowed: &[String], name: &str) -> bool {
    allowed.iter().any(|allowed| match allowed.strip_suffix('*') {
        Some(prefix) => {
            name.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
        }
        None => allowed.eq_ignore_ascii_case(name),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn properties() -> ServiceProperties {
        let list = |text: &str| text.split(',').map(str::to_owned).collect();
        let page = CorsRule {
            allowed_origins: list("https://a.example,https://b.example"),
            allowed_methods: list("GET,PUT"),
            allowed_headers: list("x-ms-meta-*,Accept"),
            exposed_headers: list("x-ms-*"),
            max_age_seconds: 200,
        };
        let all = CorsRule {
            allowed_origins: list("*"),
            allowed_methods: list("DELETE"),
            allowed_headers: list("*"),
            ..CorsRule::default()
        };
        ServiceProperties { cors: vec![page, all], ..ServiceProperties::default() }
    }

    fn ask(pairs: &[(&'static str, &'static str)]) -> Result<HeaderMap, ErrorCode> {
        let headers =
            pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
        let answer = preflight(&properties(), &headers.collect()).map_err(|error| error.code())?;
        assert_eq!(answer.status, StatusCode::OK);
        Ok(answer.headers.into_iter().collect())
    }

    /// R-S09: one label or more in place of the star, and the rest as it is.
    #[test]
    fn r_s09_an_origin_may_be_below_a_domain() {
        let star = "http://*.contoso.com";
        for origin in ["http://www.contoso.com", "http://a-1.b.contoso.com"] {
            assert!(admits(star, origin), "{origin}");
        }
        for origin in [
            "http://contoso.com",
            "http://.contoso.com",
            "http://a..contoso.com",
            "http://evilcontoso.com",
            "http://www.contoso.com.evil.com",
            "http://evil.com/.contoso.com",
            "http://evil.com:80.contoso.com",
            "http://www.contoso.com:8080",
            "https://www.contoso.com",
            "www.contoso.com",
        ] {
            assert!(!admits(star, origin), "{origin}");
        }
        assert!(admits("https://*.contoso.com:8080", "https://www.contoso.com:8080"));
    }

    /// R-S09: answers that caches keep, and no others, vary by origin unless all may see them.
    #[test]
    fn r_s09_answers_to_get_and_head_vary() {
        let shown = |method: &str, origin: Option<&str>| {
            let request = origin
                .iter()
                .fold(http::Request::builder(), |it, origin| it.header(header::ORIGIN, *origin));
            let (request, ()) = request.method(method).body(()).unwrap().into_parts();
            let mut properties = properties();
            properties.cors[0].allowed_methods.push("HEAD".to_owned());
            let mut answer = HeaderMap::new();
            allow(&properties, &request, &mut answer);
            let text = |name| answer.get(name).map(|value| value.to_str().unwrap().to_owned());
            (text(header::ACCESS_CONTROL_ALLOW_ORIGIN), text(header::VARY))
        };
        let (page, other) = ("https://a.example", "https://c.example");
        let (allowed, all) = (Some(page.to_owned()), Some("*".to_owned()));
        let vary = Some("Origin".to_owned());
        for method in ["GET", "HEAD"] {
            assert_eq!(shown(method, Some(page)), (allowed.clone(), vary.clone()), "{method}");
            assert_eq!(shown(method, Some(other)), (None, vary.clone()), "{method}");
            assert_eq!(shown(method, None), (None, vary.clone()), "{method}");
        }
        assert_eq!(shown("PUT", Some(page)), (allowed, None));
        assert_eq!(shown("PUT", Some(other)), (None, None));
        assert_eq!(shown("PUT", None), (None, None));
        for origin in [None, Some(page)] {
            assert_eq!(shown("DELETE", origin), (all.clone(), None));
        }
    }

    /// R-S09: a page may ask what the first fitting rule says.
    #[test]
    fn r_s09_a_preflight_follows_the_rules() {
        let (origin, method) = ("origin", "access-control-request-method");
        let headers = "access-control-request-headers";
        let a = (origin, "https://a.example");
        let answer = ask(&[a, (method, "PUT"), (headers, "X-Ms-Meta-Data, accept")]).unwrap();
        assert_eq!(answer["access-control-allow-origin"], "https://a.example");
        assert_eq!(answer["access-control-allow-methods"], "PUT");
        assert_eq!(answer["access-control-allow-headers"], "X-Ms-Meta-Data, accept");
        assert_eq!(answer["access-control-max-age"], "200");
        assert_eq!(answer["access-control-allow-credentials"], "true");
        assert_eq!(answer["vary"], "Origin");
        let answer =
            ask(&[(origin, "http://anybody"), (method, "DELETE"), (headers, "any")]).unwrap();
        assert_eq!(answer["access-control-allow-origin"], "*");
        assert!(!answer.contains_key("vary"));

        let refused = Err(ErrorCode::CorsPreflightFailure);
        assert_eq!(ask(&[a, (method, "POST")]), refused);
        assert_eq!(ask(&[(origin, "https://c.example"), (method, "GET")]), refused);
        assert_eq!(ask(&[(origin, "https://A.example"), (method, "GET")]), refused);
        assert_eq!(ask(&[a, (method, "GET"), (headers, "accept,if-match")]), refused);
        assert_eq!(ask(&[a]), Err(ErrorCode::MissingRequiredHeader));
        assert_eq!(ask(&[(method, "GET")]), Err(ErrorCode::MissingRequiredHeader));
    }
}
