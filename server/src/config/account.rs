//! Accounts: the emulator's, and others from options, environment or file.

use std::collections::HashSet;

use super::ConfigError;
use crate::auth::{Account, SigningKey};

/// The account of the emulator, which `UseDevelopmentStorage=true` means.
pub const DEVELOPMENT_ACCOUNT: &str = "devstoreaccount1";

/// Its key, which everybody knows.
pub const DEVELOPMENT_KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/// Names of accounts, each with its keys.
pub type NamedKeys = Vec<(String, Vec<String>)>;

/// Reads `name:key[:key];name:key`, as the emulator Azurite has it in its environment.
///
/// ```
/// use tablestone_server::config::parse_accounts;
/// let accounts = parse_accounts("one:a2V5;two:a2V5:a2V6");
/// assert_eq!(accounts[1], ("two".into(), vec!["a2V5".into(), "a2V6".into()]));
/// ```
#[must_use]
pub fn parse_accounts(text: &str) -> NamedKeys {
    let accounts = text.split(';').map(str::trim).filter(|account| !account.is_empty());
    let parsed = accounts.map(|account| {
        let mut parts = account.split(':').map(|part| part.trim().to_owned());
        let name = parts.next().unwrap_or_default();
        (name, parts.filter(|key| !key.is_empty()).collect())
    });
    parsed.collect()
}

/// Names and keys as accounts.
pub(super) fn accounts(named: NamedKeys) -> Result<Vec<Account>, ConfigError> {
    let (mut accounts, mut names) = (Vec::with_capacity(named.len()), HashSet::new());
    for (name, keys) in named {
        check_account_name(&name)?;
        if !names.insert(name.clone()) {
            return Err(ConfigError::DuplicateAccount { name });
        }
        if keys.is_empty() {
            return Err(ConfigError::NoKey { name });
        }
        let keys: Result<Vec<_>, _> = keys.iter().map(|key| SigningKey::parse(key)).collect();
        match keys {
            Ok(keys) => accounts.push(Account::new(name, keys)),
            Err(source) => return Err(ConfigError::AccountKey { name, source }),
        }
    }
    Ok(accounts)
}

/// Refuses names that no account may have.
pub(crate) fn check_account_name(name: &str) -> Result<(), ConfigError> {
    let letters = name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    if letters && (3..=24).contains(&name.len()) {
        return Ok(());
    }
    Err(ConfigError::AccountName { name: may_be_shown(name).then(|| name.into()) })
}

/// Whether a text that is no name is not a key either, or a name with its key.
fn may_be_shown(text: &str) -> bool {
    text.len() <= 24 && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-S01: that each name is there once takes no longer the more there are, which is seen in how long this takes:
    /// each compared with all before it are a billion comparisons.
    #[test]
    fn r_s01_accounts_may_be_many() {
        let named =
            |count: usize| (0..count).map(|n| (format!("account{n:06}"), vec!["a2V5".into()]));
        let all: NamedKeys = named(50_000).collect();
        assert_eq!(accounts(all.clone()).unwrap().len(), 50_000);
        let again = accounts(all.into_iter().chain(named(1)).collect()).unwrap_err().to_string();
        assert_eq!(again, "account account000000 is there twice");
    }

    #[test]
    fn accounts_of_the_environment() {
        let parse = |text| accounts(parse_accounts(text));
        let names = |text| -> Vec<String> {
            parse(text).unwrap().iter().map(|account| account.name().to_owned()).collect()
        };
        assert_eq!(names("one1:a2V5; two2:a2V5:a2V6;"), ["one1", "two2"]);
        let all = format!("{DEVELOPMENT_ACCOUNT}:{DEVELOPMENT_KEY}");
        assert_eq!(names(&all), [DEVELOPMENT_ACCOUNT]);
        for (text, expected) in [
            ("one1", "account one1 has no key"),
            ("one1:", "account one1 has no key"),
            (":a2V5", "\"\" is no account's name"),
            ("one1:a2V5;one1:a2V5", "account one1 is there twice"),
            ("One:a2V5", "\"One\" is no account's name"),
            ("my-account:a2V5", "\"my-account\" is no account's name"),
            ("one1=a2V5", "a text that may be a key is no account's name"),
            (DEVELOPMENT_KEY, "a text that may be a key is no account's name"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
