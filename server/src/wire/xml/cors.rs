//! Cross-origin rules within service properties (protocol 1).

use super::error::XmlError;
use super::print::{element, put};
use super::tree::Element;

/// Rules an account may have.
pub const MAX_CORS_RULES: usize = 5;

/// Origins, methods or headers in a rule.
const MAX_LIST: usize = 64;

const METHODS: [&str; 9] =
    ["DELETE", "GET", "HEAD", "MERGE", "POST", "OPTIONS", "PUT", "PATCH", "CONNECT"];

/// What a web page from elsewhere may ask.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CorsRule {
    /// Origins that may ask; `*` for all.
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
    if cors.children.len() > MAX_CORS_RULES {
        return Err(XmlError::TooMany { name: "CorsRule", limit: MAX_CORS_RULES });
    }
    let mut rules = Vec::new();
    for child in &cors.children {
        if child.name != "CorsRule" {
            return Err(cors.unexpected(child));
        }
        rules.push(rule(child)?);
    }
    Ok(rules)
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
        max_age_seconds: age.text.trim().parse().map_err(|_| age.wrong("seconds"))?,
    })
}

fn list(element: &Element) -> Result<Vec<String>, XmlError> {
    let items = element.text.split(',').map(str::trim).filter(|item| !item.is_empty());
    let items: Vec<String> = items.map(str::to_owned).collect();
    if items.len() > MAX_LIST { Err(element.wrong("at most 64 items")) } else { Ok(items) }
}

pub(super) fn print_cors(out: &mut Vec<u8>, rules: &[CorsRule]) {
    if rules.is_empty() {
        put(out, &["<Cors />"]);
        return;
    }
    put(out, &["<Cors>"]);
    for rule in rules {
        put(out, &["<CorsRule>"]);
        element(out, "AllowedMethods", &rule.allowed_methods.join(","));
        element(out, "AllowedOrigins", &rule.allowed_origins.join(","));
        element(out, "AllowedHeaders", &rule.allowed_headers.join(","));
        element(out, "ExposedHeaders", &rule.exposed_headers.join(","));
        element(out, "MaxAgeInSeconds", &rule.max_age_seconds.to_string());
        put(out, &["</CorsRule>"]);
    }
    put(out, &["</Cors>"]);
}
