//! Cross-origin rules within service properties (protocol 1).

use super::error::XmlError;
use super::print::element;
use super::tree::Element;
use crate::error::shown;
use crate::wire::put;

/// Rules an account may have.
pub const MAX_CORS_RULES: usize = 5;

/// Origins of a rule, or headers that it names in full.
const MAX_ITEMS: usize = 64;
/// Headers of which it has the beginning.
const MAX_PREFIXES: usize = 2;
/// Characters of an origin or a header.
const MAX_ITEM_LENGTH: usize = 256;
/// Bytes of the text of all rules.
const MAX_TEXT: usize = 2 << 10;

const METHODS: [&str; 10] =
    ["DELETE", "GET", "HEAD", "MERGE", "POST", "OPTIONS", "PUT", "PATCH", "CONNECT", "TRACE"];

/// What a web page from elsewhere may ask.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CorsRule {
    /// Origins that may ask; `*` for all, `https://*.contoso.com` for those below a domain.
    pub allowed_origins: Vec<String>,
    /// Methods they may use.
    pub allowed_methods: Vec<String>,
    /// Request headers they may send; one that ends with `*` is a prefix.
    pub allowed_headers: Vec<String>,
    /// Response headers they may see; likewise.
    pub exposed_headers: Vec<String>,
    /// How long, in seconds, a browser may remember the answer to a preflight.
    pub max_age_seconds: u32,
}

pub(super) fn parse_cors(cors: &Element) -> Result<Vec<CorsRule>, XmlError> {
    cors.list_of("CorsRule", MAX_CORS_RULES)?.iter().map(rule).collect()
}

fn rule(element: &Element) -> Result<CorsRule, XmlError> {
    element.only(&[
        "AllowedOrigins",
        "AllowedMethods",
        "AllowedHeaders",
        "ExposedHeaders",
        "MaxAgeInSeconds",
    ])?;
    let origins = element.required("AllowedOrigins")?;
    let methods = element.required("AllowedMethods")?;
    let age = element.required("MaxAgeInSeconds")?;
    let allowed_methods = list(methods)?;
    if allowed_methods.is_empty() || !allowed_methods.iter().all(|it| METHODS.contains(&&**it)) {
        return Err(methods.wrong("methods of HTTP"));
    }
    let allowed_origins = list(origins)?;
    if allowed_origins.is_empty() {
        return Err(origins.wrong("origins or *"));
    }
    Ok(CorsRule {
        allowed_origins,
        allowed_methods,
        allowed_headers: list(element.required("AllowedHeaders")?)?,
        exposed_headers: list(element.required("ExposedHeaders")?)?,
        max_age_seconds: age.leaf_text()?.trim().parse().map_err(|_| age.wrong("seconds"))?,
    })
}

fn list(element: &Element) -> Result<Vec<String>, XmlError> {
    let items = element.leaf_text()?.split(',').map(str::trim).filter(|item| !item.is_empty());
    Ok(items.map(str::to_owned).collect())
}

/// Refuses rules beyond the limits, which are those of the service's documents. Rules that are stored are
/// read without: an account's settings must not be lost to a limit.
pub(super) fn check_cors(rules: &[CorsRule]) -> Result<(), XmlError> {
    rules.iter().try_for_each(check_rule)?;
    let texts = rules.iter().flat_map(texts);
    let bytes: usize = texts.map(|(_, text)| text.len()).sum();
    if bytes > MAX_TEXT {
        return Err(wrong("Cors", "2 KiB of text in all rules", &format!("{bytes} bytes")));
    }
    Ok(())
}

fn check_rule(rule: &CorsRule) -> Result<(), XmlError> {
    let CorsRule { allowed_origins, allowed_headers, exposed_headers, .. } = rule;
    if allowed_origins.len() > MAX_ITEMS {
        return Err(wrong("AllowedOrigins", "at most 64 origins", &allowed_origins.join(",")));
    }
    for (name, headers) in
        [("AllowedHeaders", allowed_headers), ("ExposedHeaders", exposed_headers)]
    {
        let prefixes = headers.iter().filter(|header| header.ends_with('*')).count();
        if prefixes > MAX_PREFIXES || headers.len() - prefixes > MAX_ITEMS {
            let expected = "at most 64 headers, and 2 that end with *";
            return Err(wrong(name, expected, &headers.join(",")));
        }
    }
    let mut items = [allowed_origins, allowed_headers, exposed_headers].into_iter().flatten();
    match items.find(|item| item.chars().count() > MAX_ITEM_LENGTH) {
        Some(long) => Err(wrong("CorsRule", "items of at most 256 characters", long)),
        None => Ok(()),
    }
}

fn wrong(element: &str, expected: &'static str, found: &str) -> XmlError {
    XmlError::Value { element: element.to_owned(), expected, found: shown(found) }
}

/// The elements of a rule.
fn texts(rule: &CorsRule) -> [(&'static str, String); 5] {
    [
        ("AllowedMethods", rule.allowed_methods.join(",")),
        ("AllowedOrigins", rule.allowed_origins.join(",")),
        ("AllowedHeaders", rule.allowed_headers.join(",")),
        ("ExposedHeaders", rule.exposed_headers.join(",")),
        ("MaxAgeInSeconds", rule.max_age_seconds.to_string()),
    ]
}

pub(super) fn print_cors(out: &mut Vec<u8>, rules: &[CorsRule]) {
    if rules.is_empty() {
        put(out, &["<Cors />"]);
        return;
    }
    put(out, &["<Cors>"]);
    for rule in rules {
        put(out, &["<CorsRule>"]);
        for (name, text) in texts(rule) {
            element(out, name, &text);
        }
        put(out, &["</CorsRule>"]);
    }
    put(out, &["</Cors>"]);
}
