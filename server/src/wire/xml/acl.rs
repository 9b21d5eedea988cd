//! Stored access policies: the body of Get and Set Table ACL (protocol 9).

use tablestone::DateTime;

use super::error::XmlError;
use super::print::{DECLARATION, element};
use super::tree::Element;
use crate::error::shown;
use crate::wire::{instant, put};

/// Policies a table may have.
pub const MAX_IDENTIFIERS: usize = 5;

/// Characters of a policy's identifier.
pub const MAX_IDENTIFIER_LENGTH: usize = 64;

/// What a table's policy may grant: read (query), add, update, delete.
const PERMISSIONS: &str = "raud";

/// A stored access policy. What it leaves out, a signature that names it must say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedIdentifier {
    /// The name that a signature gives in `si`.
    pub id: String,
    /// From when it grants.
    pub start: Option<DateTime>,
    /// Until when.
    pub expiry: Option<DateTime>,
    /// What it grants: letters of `raud`.
    pub permission: Option<String>,
}

/// The policies of a Set Table ACL body; an empty body has none.
///
/// # Errors
/// [`XmlError`]: [`XmlError::TooMany`] for more than five, [`XmlError::Value`] for a wrong value.
pub fn parse_acl(body: &[u8]) -> Result<Vec<SignedIdentifier>, XmlError> {
    if body.trim_ascii().is_empty() {
        return Ok(Vec::new());
    }
    let root = Element::parse(body)?;
    if root.name != "SignedIdentifiers" {
        return Err(XmlError::Unexpected { parent: String::new(), found: root.name });
    }
    let mut policies: Vec<SignedIdentifier> = Vec::new();
    for child in root.list_of("SignedIdentifier", MAX_IDENTIFIERS)? {
        let policy = policy(child)?;
        if policies.iter().any(|earlier| earlier.id == policy.id) {
            return Err(child.required("Id")?.wrong("an identifier not used before"));
        }
        policies.push(policy);
    }
    Ok(policies)
}

fn policy(element: &Element) -> Result<SignedIdentifier, XmlError> {
    element.only(&["Id", "AccessPolicy"])?;
    let id = element.required("Id")?;
    let name = id.leaf_text()?;
    let length = name.chars().count();
    if length == 0 || length > MAX_IDENTIFIER_LENGTH {
        return Err(id.wrong("an identifier of 1 to 64 characters"));
    }
    let mut policy =
        SignedIdentifier { id: name.to_owned(), start: None, expiry: None, permission: None };
    if let Some(rights) = element.child("AccessPolicy") {
        rights.only(&["Start", "Expiry", "Permission"])?;
        policy.start = rights.optional("Start").map(date).transpose()?;
        policy.expiry = rights.optional("Expiry").map(date).transpose()?;
        policy.permission = rights.optional("Permission").map(permission).transpose()?;
    }
    Ok(policy)
}

fn date(element: &Element) -> Result<DateTime, XmlError> {
    element.leaf_text()?.trim().parse().map_err(|_| element.wrong("an ISO 8601 date"))
}

fn permission(element: &Element) -> Result<String, XmlError> {
    let text = element.leaf_text()?.trim();
    if text.chars().all(|letter| PERMISSIONS.contains(letter)) {
        return Ok(text.to_owned());
    }
    Err(element.wrong("letters of raud"))
}

/// Refuses policies that may not be set: permissions that name a letter twice. What is stored is read without.
///
/// # Errors
/// [`XmlError::Value`].
pub fn check_acl(policies: &[SignedIdentifier]) -> Result<(), XmlError> {
    let letters = policies.iter().filter_map(|policy| policy.permission.as_deref());
    let twice = |letters: &&str| PERMISSIONS.chars().any(|it| letters.matches(it).count() > 1);
    match letters.into_iter().find(twice) {
        None => Ok(()),
        Some(found) => Err(XmlError::Value {
            element: "Permission".into(),
            expected: "letters of raud, each once",
            found: shown(found),
        }),
    }
}

/// The body of Get Table ACL, which [`parse_acl`] reads back.
#[must_use]
pub fn print_acl(policies: &[SignedIdentifier]) -> Vec<u8> {
    let mut out = DECLARATION.as_bytes().to_vec();
    if policies.is_empty() {
        put(&mut out, &["<SignedIdentifiers />"]);
        return out;
    }
    put(&mut out, &["<SignedIdentifiers>"]);
    for policy in policies {
        put(&mut out, &["<SignedIdentifier>"]);
        element(&mut out, "Id", &policy.id);
        print_rights(&mut out, policy);
        put(&mut out, &["</SignedIdentifier>"]);
    }
    put(&mut out, &["</SignedIdentifiers>"]);
    out
}

/// What a policy says; nothing of one that leaves all to the signature.
fn print_rights(out: &mut Vec<u8>, policy: &SignedIdentifier) {
    let SignedIdentifier { start, expiry, permission, .. } = policy;
    if start.is_none() && expiry.is_none() && permission.is_none() {
        return;
    }
    put(out, &["<AccessPolicy>"]);
    for (name, date) in [("Start", *start), ("Expiry", *expiry)] {
        if let Some(date) = date {
            element(out, name, &instant::with_seven_digits(date));
        }
    }
    if let Some(permission) = permission {
        element(out, "Permission", permission);
    }
    put(out, &["</AccessPolicy>"]);
}
