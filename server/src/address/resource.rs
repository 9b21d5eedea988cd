//! [`Resource`]: what of an account an address means, read and written.

use super::text::{Plus, decode, push_key};
use crate::error::{ErrorCode, ServiceError, shown};

/// What of an account a request is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resource {
    /// The service itself: properties and statistics.
    Service,
    /// The set of tables: `Tables`.
    Tables,
    /// One of the tables: `Tables('t')`, or `Tables(TableName='t')`.
    Table {
        /// Its name in whatever case.
        table: String,
    },
    /// The entities of a table, or the table's access policies: `t` or `t()`.
    Entities {
        /// The table's name in whatever case.
        table: String,
    },
    /// One entity: `t(PartitionKey='p',RowKey='r')`.
    Entity {
        /// The table's name in whatever case.
        table: String,
        /// Its PartitionKey.
        partition_key: String,
        /// Its RowKey.
        row_key: String,
    },
    /// `t/Tables` or `t/Tables('s')`, which are nothing: clients ask for them that have a table's address where the
    /// account's belongs.
    TablesOf {
        /// The table's name in whatever case.
        table: String,
        /// Whether a name stands behind it.
        is_named: bool,
    },
    /// Entity group transactions: `$batch`.
    Batch,
}

impl Resource {
    /// Reads what follows the account's slash, as it was sent. It may end with a slash, which the Go SDK
    /// puts before a signature.
    pub(crate) fn parse(account: &str, path: &str) -> Result<Self, ServiceError> {
        let path = path.strip_suffix('/').unwrap_or(path);
        let path = &*decode(path, Plus::Itself)?;
        let (name, keys) = match path.find('(') {
            None => (path, None),
            Some(at) => (path.get(..at).unwrap_or(path), path.get(at..)),
        };
        match (name, keys) {
            ("", None) => Ok(Self::Service),
            ("", Some(_)) => Err(ErrorCode::InvalidUri.error()),
            (name, _) if name.starts_with('$') => match (name, keys) {
                ("$batch", None) => Ok(Self::Batch),
                ("$metadata", None) => Err(ErrorCode::NotImplemented.error()),
                _ => Err(ErrorCode::InvalidUri.error()),
            },
            (name, keys) => {
                let keys = keys.map_or(Ok(Keys::None), |keys| KeyReader::read(keys, path))?;
                match (name.rsplit_once('/'), &keys) {
                    (Some((table, set)), Keys::None | Keys::Name(_)) if is_tables(set) => {
                        let is_named = matches!(keys, Keys::Name(_));
                        Ok(Self::TablesOf { table: table.to_owned(), is_named })
                    }
                    (Some((_, "$batch")), Keys::None) => {
                        Err(ErrorCode::MediaTypeNotSupported.error())
                    }
                    _ => Self::of_table(account, name, keys),
                }
            }
        }
    }

    fn of_table(account: &str, name: &str, keys: Keys) -> Result<Self, ServiceError> {
        let table = name.to_owned();
        // No table can have the name of the set of tables, in any case.
        match (is_tables(name), keys) {
            (true, Keys::None) => Ok(Self::Tables),
            (true, Keys::Name(table)) => Ok(Self::Table { table }),
            (false, Keys::None) => Ok(Self::Entities { table }),
            (false, Keys::Pair { partition_key, row_key }) => {
                Ok(Self::Entity { table, partition_key, row_key })
            }
            (true, Keys::Pair { .. }) | (false, Keys::Name(_)) => Err(wrong_keys(account, name)),
        }
    }
}

/// What an address says that has as many keys as something else.
pub(crate) fn wrong_keys(account: &str, name: &str) -> ServiceError {
    ErrorCode::InvalidInput.because(format_args!(
        "The number of keys specified in the URI does not match number of key properties for the resource \
         '{account}.{}'.",
        shown(name)
    ))
}

fn is_tables(name: &str) -> bool {
    name.eq_ignore_ascii_case("Tables")
}

/// What stands in an address's parentheses.
enum Keys {
    None,
    Name(String),
    Pair { partition_key: String, row_key: String },
}

/// A reader of `(...)`, after decoding.
struct KeyReader<'a> {
    rest: &'a str,
    /// All of the path, for errors.
    path: &'a str,
}

impl<'a> KeyReader<'a> {
    fn read(keys: &'a str, path: &'a str) -> Result<Keys, ServiceError> {
        let mut reader = Self { rest: keys, path };
        reader.expect('(')?;
        let keys = if reader.at(')') {
            Keys::None
        } else if reader.at('\'') {
            Keys::Name(reader.quoted()?)
        } else if reader.take("TableName") {
            reader.expect('=')?;
            Keys::Name(reader.quoted()?)
        } else {
            reader.pair()?
        };
        reader.expect(')')?;
        if reader.rest.is_empty() { Ok(keys) } else { Err(reader.unexpected("the end")) }
    }

    /// `PartitionKey='p',RowKey='r'`, in either order.
    fn pair(&mut self) -> Result<Keys, ServiceError> {
        let (mut partition_key, mut row_key) = (None, None);
        loop {
            let wanted = if self.take("PartitionKey") {
                &mut partition_key
            } else if self.take("RowKey") {
                &mut row_key
            } else {
                return Err(self.unexpected("PartitionKey or RowKey"));
            };
            if wanted.is_some() {
                return Err(self.unexpected("each key once"));
            }
            self.expect('=')?;
            *wanted = Some(self.quoted()?);
            if !self.at(',') {
                break;
            }
            self.expect(',')?;
        }
        match (partition_key, row_key) {
            (Some(partition_key), Some(row_key)) => Ok(Keys::Pair { partition_key, row_key }),
            _ => Err(self.unexpected("both PartitionKey and RowKey")),
        }
    }

    /// A text in quotes, in which a quote is doubled.
    fn quoted(&mut self) -> Result<String, ServiceError> {
        self.expect('\'')?;
        let mut text = String::new();
        loop {
            let Some((part, rest)) = self.rest.split_once('\'') else {
                return Err(self.unexpected("a closing quote"));
            };
            text.push_str(part);
            self.rest = rest;
            match rest.strip_prefix('\'') {
                Some(rest) => {
                    text.push('\'');
                    self.rest = rest;
                }
                None => return Ok(text),
            }
        }
    }

    fn skip_spaces(&mut self) {
        self.rest = self.rest.trim_start_matches(' ');
    }

    fn at(&mut self, next: char) -> bool {
        self.skip_spaces();
        self.rest.starts_with(next)
    }

    fn take(&mut self, word: &str) -> bool {
        self.skip_spaces();
        let found = self.rest.strip_prefix(word);
        self.rest = found.unwrap_or(self.rest);
        found.is_some()
    }

    fn expect(&mut self, next: char) -> Result<(), ServiceError> {
        self.skip_spaces();
        let Some(rest) = self.rest.strip_prefix(next) else {
            return Err(self.unexpected(&format!("'{next}'")));
        };
        self.rest = rest;
        Ok(())
    }

    #[cold]
    fn unexpected(&self, expected: &str) -> ServiceError {
        let shown: String = self.path.chars().take(100).collect();
        let at = self.path.chars().count() - self.rest.chars().count() + 1;
        ErrorCode::InvalidInput
            .because(format_args!("Syntax error in '{shown}': expected {expected} at column {at}."))
    }
}

/// Appends the address of an entity within its account: `t(PartitionKey='p',RowKey='r')`, with
/// keys percent-encoded.
pub fn push_entity_address(address: &mut String, table: &str, partition_key: &str, row_key: &str) {
    push_partition_address(address, table, partition_key);
    push_row_address(address, row_key);
}

/// What the addresses of a partition's entities begin with.
pub(crate) fn push_partition_address(address: &mut String, table: &str, partition_key: &str) {
    address.push_str(table);
    address.push_str("(PartitionKey='");
    push_key(address, partition_key);
    address.push_str("',RowKey='");
}

/// What follows [`push_partition_address`].
pub(crate) fn push_row_address(address: &mut String, row_key: &str) {
    push_key(address, row_key);
    address.push_str("')");
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(path: &str) -> Result<Resource, ServiceError> {
        Resource::parse("a", path)
    }

    fn entity(path: &str) -> (String, String, String) {
        match parse(path) {
            Ok(Resource::Entity { table, partition_key, row_key }) => {
                (table, partition_key, row_key)
            }
            other => panic!("{path}: {other:?}"),
        }
    }

    fn keys(path: &str) -> (String, String) {
        let (_, partition_key, row_key) = entity(path);
        (partition_key, row_key)
    }

    #[test]
    fn every_resource_has_its_form() {
        let table = || String::from("t");
        for (path, resource) in [
            ("", Resource::Service),
            ("Tables", Resource::Tables),
            ("Tables()", Resource::Tables),
            ("tables", Resource::Tables),
            ("Tables('t')", Resource::Table { table: table() }),
            ("Tables(%27t%27)", Resource::Table { table: table() }),
            ("Tables(TableName='t')", Resource::Table { table: table() }),
            ("t", Resource::Entities { table: table() }),
            ("t()", Resource::Entities { table: table() }),
            ("%74%28%29", Resource::Entities { table: table() }),
            ("t/Tables", Resource::TablesOf { table: table(), is_named: false }),
            ("t/Tables()", Resource::TablesOf { table: table(), is_named: false }),
            ("t/Tables('s')", Resource::TablesOf { table: table(), is_named: true }),
            ("$batch", Resource::Batch),
            ("%24batch", Resource::Batch),
            ("Tables/", Resource::Tables),
            ("Tables('t')/", Resource::Table { table: table() }),
            ("t/", Resource::Entities { table: table() }),
            ("t()/", Resource::Entities { table: table() }),
            ("$batch/", Resource::Batch),
        ] {
            assert_eq!(parse(path).unwrap(), resource, "{path}");
        }
    }

    /// R-S02: what real clients send. JavaScript leaves quotes as they are, Python encodes all.
    #[test]
    fn r_s02_keys_are_read_as_clients_write_them() {
        let (p, r) = ("p".to_owned(), "r".to_owned());
        assert_eq!(keys("t(PartitionKey='p',RowKey='r')"), (p.clone(), r.clone()));
        assert_eq!(keys("t(PartitionKey='p', RowKey='r')"), (p.clone(), r.clone()));
        assert_eq!(keys("t(PartitionKey='p',%20RowKey='r')"), (p.clone(), r.clone()));
        assert_eq!(keys("t(RowKey='r',PartitionKey='p')"), (p.clone(), r.clone()));
        assert_eq!(keys("t(PartitionKey=%27p%27%2CRowKey=%27r%27)"), (p, r));
        let name = ("O'Brien".to_owned(), String::new());
        assert_eq!(keys("t(PartitionKey='O''Brien',RowKey='')"), name);
        assert_eq!(keys("t(PartitionKey='O%27%27Brien',RowKey='')"), name);
        let quotes = ("''".to_owned(), "'".to_owned());
        assert_eq!(keys("t(PartitionKey='''''',RowKey='''')"), quotes);
    }

    /// R-S02: keys that look like an address, and keys with percent signs.
    #[test]
    fn r_s02_a_key_may_look_like_an_address() {
        let (p, r) = keys("t(PartitionKey='x'',RowKey=''y',RowKey=')')");
        assert_eq!((&*p, &*r), ("x',RowKey='y", ")"));
        let (p, r) = keys("t(PartitionKey='100%25',RowKey='%2527+')");
        assert_eq!((&*p, &*r), ("100%", "%27+"));
        // A slash cannot be in a key, but it is the key that is refused, not the address.
        let (p, r) = keys("t(PartitionKey='a/b',RowKey='c%2Fd')");
        assert_eq!((&*p, &*r), ("a/b", "c/d"));
    }

    #[test]
    fn addresses_out_of_form_say_where() {
        let message = |path| parse(path).unwrap_err().message().to_owned();
        assert_eq!(
            message("t(PartitionKey=1,RowKey='r')"),
            "Syntax error in 't(PartitionKey=1,RowKey='r')': expected ''' at column 16."
        );
        for path in [
            "t(",
            "t('",
            "t(PartitionKey='p'",
            "t(PartitionKey='p')",
            "t(PartitionKey='p',)",
            "t(PartitionKey='p',RowKey='r'",
            "t(PartitionKey='p',RowKey='r')x",
            "t(PartitionKey='p',RowKey='r','x')",
            "t(PartitionKey='p',PartitionKey='p')",
            "t(PartitionKey='p',RowKey='r',RowKey='s')",
            "t(partitionkey='p',RowKey='r')",
            "t(PartitionKey='O'Brien',RowKey='r')",
            "t('p')",
            "t(TableName='p')",
            "Tables(TableName=t)",
            "Tables(TableName='t',TableName='t')",
            "Tables(PartitionKey='p',RowKey='r')",
            "Tables('t",
        ] {
            let code = parse(path).unwrap_err().code();
            assert_eq!(code, ErrorCode::InvalidInput, "{path}");
        }
        for path in ["$batch()", "$metadata()", "$other", "('t')", "t%"] {
            let code = parse(path).unwrap_err().code();
            assert_eq!(code, ErrorCode::InvalidUri, "{path}");
        }
    }

    /// R-S12: an address in a batch may be as long as the batch.
    #[test]
    fn r_s12_errors_are_bounded() {
        let long = "n".repeat(1 << 20);
        for path in [format!("{long}('t')"), format!("t({long})"), format!("{long}%")] {
            assert!(parse(&path).unwrap_err().message().len() < 300, "{path:.10}");
        }
    }

    proptest! {
        /// R-S02: any key comes back from the address that the server gives for it.
        #[test]
        fn r_s02_any_key_survives_its_address(table in "[A-Za-z][A-Za-z0-9]{2,10}x", p: String, r: String) {
            let mut address = String::new();
            push_entity_address(&mut address, &table, &p, &r);
            prop_assert!(address.bytes().all(|byte| byte.is_ascii_graphic()));
            prop_assert_eq!(entity(&address), (table, p, r));
        }
    }
}
