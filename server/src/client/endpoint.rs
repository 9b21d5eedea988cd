//! [`Endpoint`]: where an account's tables are, and the key to them.

use std::borrow::Cow;
use std::fmt;

use http::Uri;

use crate::address::account_of_host;
use crate::auth::{InvalidKey, SigningKey};
use crate::config::{DEFAULT_LISTEN, DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY};

/// Why a text names no endpoint. No error shows a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EndpointError {
    /// The address is none.
    #[error(
        "{} is no address: expected one such as http://{DEFAULT_LISTEN}/devstoreaccount1",
        .url.as_ref().map_or("a text with a key".into(), |url| format!("{url:?}"))
    )]
    Url {
        /// The text, unless it holds a key or a signature.
        url: Option<Box<str>>,
    },
    /// A connection string lacks something.
    #[error(
        "the connection string has no {missing}: expected UseDevelopmentStorage=true, or AccountName, \
         AccountKey, and TableEndpoint or EndpointSuffix"
    )]
    ConnectionString {
        /// What.
        missing: &'static str,
    },
    /// The account's key was not given, and is not the one that everybody knows.
    #[error("the key of account {account} is missing: set TABLESTONE_KEY to it")]
    NoKey {
        /// The account.
        account: Box<str>,
    },
    /// The account's key is none.
    #[error("the key of account {account} (TABLESTONE_KEY, or AccountKey): {reason}")]
    Key {
        /// The account.
        account: Box<str>,
        /// Why.
        reason: InvalidKey,
    },
}

/// The address of an account's tables, and the key that signs requests to them.
///
/// Shown as the address.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// Without a slash at the end.
    base: Box<str>,
    account: Box<str>,
    key: SigningKey,
}

impl Endpoint {
    /// The endpoint at an address: `http://HOST/ACCOUNT`, or `https://ACCOUNT.table.HOST` as the cloud
    /// has it. On any other host the account may be left out: `account` it is then.
    ///
    /// Without a key it is that of the emulator's account, which everybody knows.
    ///
    /// # Errors
    /// [`EndpointError`] unless there is an address and a key.
    pub fn from_url(url: &str, account: &str, key: Option<&str>) -> Result<Self, EndpointError> {
        let wrong = || EndpointError::Url { url: (!holds_secret(url)).then(|| url.into()) };
        let trimmed = url.trim_end_matches('/');
        let uri: Uri = trimmed.parse().map_err(|_| wrong())?;
        let is_http = matches!(uri.scheme_str(), Some("http" | "https"));
        let is_plain = uri.query().is_none() && !trimmed.contains('#');
        let host = host(&uri).filter(|_| is_http && is_plain).ok_or_else(wrong)?;
        let path = uri.path().trim_start_matches('/');
        let (base, account): (_, Cow<'_, str>) = match (path, account_of_host(host)) {
            ("", Some((account, _))) => (trimmed.to_owned(), account),
            ("", None) => (format!("{trimmed}/{account}"), account.into()),
            (account, _) if !account.contains('/') => (trimmed.to_owned(), account.into()),
            _ => return Err(wrong()),
        };
        let key = match key {
            Some(key) => key,
            None if account == DEVELOPMENT_ACCOUNT => DEVELOPMENT_KEY,
            None => return Err(EndpointError::NoKey { account: account.into() }),
        };
        let account: Box<str> = account.into();
        match SigningKey::parse(key) {
            Ok(key) => Ok(Self { base: base.into(), account, key }),
            Err(reason) => Err(EndpointError::Key { account, reason }),
        }
    }

    /// The endpoint of a connection string, as Azure's portal and SDKs have it.
    ///
    /// # Errors
    /// [`EndpointError`] unless it says account, key and address.
    pub fn from_connection_string(text: &str) -> Result<Self, EndpointError> {
        let setting = |name: &str| {
            let settings = text.split(';').filter_map(|setting| setting.split_once('='));
            let mut named = settings.filter(|(found, _)| found.trim().eq_ignore_ascii_case(name));
            named.next().map(|(_, value)| value.trim()).filter(|value| !value.is_empty())
        };
        let is_true = |value: &str| value.eq_ignore_ascii_case("true");
        if setting("UseDevelopmentStorage").is_some_and(is_true) {
            return Self::from_url(&format!("http://{DEFAULT_LISTEN}"), DEVELOPMENT_ACCOUNT, None);
        }
        let needed = |missing: &'static str| {
            setting(missing).ok_or(EndpointError::ConnectionString { missing })
        };
        let account = needed("AccountName")?;
        let key = needed("AccountKey")?;
        let url = match setting("TableEndpoint") {
            Some(url) => url.to_owned(),
            None => {
                let scheme = setting("DefaultEndpointsProtocol").unwrap_or("https");
                format!("{scheme}://{account}.table.{}", needed("EndpointSuffix")?)
            }
        };
        // The account's name is what it says, whatever the host is called.
        Ok(Self { account: account.into(), ..Self::from_url(&url, account, Some(key))? })
    }

    pub(super) fn base(&self) -> &str {
        &self.base
    }

    pub(super) fn account(&self) -> &str {
        &self.account
    }

    pub(super) fn key(&self) -> &SigningKey {
        &self.key
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.base)
    }
}

/// The host of an address that has nothing beside it but a port, if that is one: what is none is taken for the
/// scheme's where a request is sent.
fn host(uri: &Uri) -> Option<&str> {
    let (authority, host) = (uri.authority()?.as_str(), uri.host()?);
    let port = authority.strip_prefix(host)?.strip_prefix(':');
    let is_port = port.map_or(authority == host, |port| port.parse::<u16>().is_ok());
    (is_port && !host.is_empty()).then_some(host)
}

/// Whether a text is a connection string with a key, or has a signature or a password.
fn holds_secret(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    ["accountkey=", "sig=", "@"].iter().any(|secret| text.contains(secret))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(url: &str, key: Option<&str>) -> Result<(String, String), EndpointError> {
        let endpoint = Endpoint::from_url(url, DEVELOPMENT_ACCOUNT, key)?;
        Ok((endpoint.to_string(), endpoint.account().to_owned()))
    }

    #[test]
    fn an_address_names_its_account() {
        for (address, base, account) in [
            (
                "http://127.0.0.1:10002",
                "http://127.0.0.1:10002/devstoreaccount1",
                "devstoreaccount1",
            ),
            ("http://localhost/mine/", "http://localhost/mine", "mine"),
            ("http://[::1]:1/mine", "http://[::1]:1/mine", "mine"),
            ("http://[::1]:1/", "http://[::1]:1/devstoreaccount1", "devstoreaccount1"),
            ("http://tables:80/mine", "http://tables:80/mine", "mine"),
            // The name of a container, or of a machine.
            ("http://tables:80", "http://tables:80/devstoreaccount1", "devstoreaccount1"),
            (
                "http://tables.example.com:80/",
                "http://tables.example.com:80/devstoreaccount1",
                "devstoreaccount1",
            ),
            ("http://10.0.0.1/mine", "http://10.0.0.1/mine", "mine"),
            ("https://mine.table.core.windows.net", "https://mine.table.core.windows.net", "mine"),
            ("http://Mine.TABLE.local:80", "http://Mine.TABLE.local:80", "mine"),
            ("https://mine-secondary.table.local", "https://mine-secondary.table.local", "mine"),
            (
                "https://mine.z01.table.storage.azure.net",
                "https://mine.z01.table.storage.azure.net",
                "mine",
            ),
        ] {
            let expected = (base.to_owned(), account.to_owned());
            assert_eq!(url(address, Some("a2V5")), Ok(expected), "{address}");
        }
        for address in ["", "127.0.0.1:10002", "ftp://h/a", "http://h/a/b", "http://h/a?b=c"] {
            assert!(
                matches!(url(address, Some("a2V5")), Err(EndpointError::Url { .. })),
                "{address}"
            );
        }
    }

    /// R-S02: a port that is none would be that of the scheme, and what no request is sent to would be told as the
    /// server's address.
    #[test]
    fn r_s02_an_address_has_a_port_that_is_one_and_nothing_else() {
        for address in [
            "http://h:99999",
            "http://h:99999/a",
            "http://h:abc",
            "http://h:",
            "http://[::1]:70000/a",
            "http://:10002",
            "http://user:word@h",
            "http://h#a",
            "http://h/a#b",
        ] {
            let found = url(address, Some("a2V5"));
            assert!(matches!(found, Err(EndpointError::Url { .. })), "{address}: {found:?}");
        }
    }

    #[test]
    fn a_key_is_needed_but_for_the_emulators_account() {
        assert!(url("http://localhost", None).is_ok());
        let error = url("http://localhost/mine", None).unwrap_err().to_string();
        assert_eq!(error, "the key of account mine is missing: set TABLESTONE_KEY to it");
        let error = url("http://localhost/mine", Some("secret!")).unwrap_err().to_string();
        assert!(error.starts_with("the key of account mine (TABLESTONE_KEY, or AccountKey): "));
        assert!(error.contains("base64") && !error.contains("secret"), "{error}");
    }

    #[test]
    fn what_is_no_address_is_shown_without_a_key() {
        let error = |text| url(text, None).unwrap_err().to_string();
        assert!(error("nowhere").starts_with("\"nowhere\" is no address"));
        let hidden = [
            "AccountName=mine;AccountKey=s3cret",
            "http://h/mine?sp=r&sig=s3cret",
            "http://mine:s3cret@h",
        ];
        for text in hidden {
            assert!(error(text).starts_with("a text with a key is no address"), "{}", error(text));
        }
    }

    #[test]
    fn connection_strings() {
        let parse = |text: &str| {
            Endpoint::from_connection_string(text)
                .map(|it| (it.to_string(), it.account().to_owned()))
        };
        let cloud = "DefaultEndpointsProtocol=https;AccountName=mine;AccountKey=a2V5Cg==;\
            EndpointSuffix=core.windows.net";
        let expected = ("https://mine.table.core.windows.net".to_owned(), "mine".to_owned());
        assert_eq!(parse(cloud), Ok(expected));
        let own = "AccountName=mine;AccountKey=a2V5;TableEndpoint=http://127.0.0.1:1/mine;";
        assert_eq!(parse(own), Ok(("http://127.0.0.1:1/mine".to_owned(), "mine".to_owned())));
        for host in ["http://tables:10002", "http://tables.example.com"] {
            let own = format!("AccountName=mine;AccountKey=a2V5;TableEndpoint={host}/");
            assert_eq!(parse(&own), Ok((format!("{host}/mine"), "mine".to_owned())));
        }
        assert!(parse("usedevelopmentstorage=True").is_ok());
        for (text, missing) in [
            ("", "AccountName"),
            ("AccountName=a", "AccountKey"),
            ("AccountName=a;AccountKey=b", "EndpointSuffix"),
        ] {
            assert_eq!(parse(text), Err(EndpointError::ConnectionString { missing }));
        }
    }
}
