//! [`Ask`]: which entities of a table are wanted, and what of them.

use std::str::FromStr;

use clap::Args;
use tablestone::{Filter, FilterError};

use crate::wire::Select;

/// Options of the commands that read entities.
#[derive(Args, Clone, Debug)]
pub(super) struct Ask {
    /// Only entities that pass, such as "PartitionKey eq 'DE' and Latitude gt 54.0"
    #[arg(long, value_name = "FILTER", allow_hyphen_values = true)]
    pub(super) filter: Option<Condition>,
    /// Only these properties, between commas; Timestamp too is shown only if it is named
    #[arg(long, value_name = "NAMES", value_parser = select, default_value = "", hide_default_value = true)]
    pub(super) select: Select,
    /// At most this many entities
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) top: Option<u64>,
}

/// A filter, and the text it was read from.
#[derive(Clone, Debug)]
pub(super) struct Condition {
    pub(super) text: String,
    pub(super) filter: Filter,
}

impl FromStr for Condition {
    type Err = FilterError;

    fn from_str(text: &str) -> Result<Self, FilterError> {
        Ok(Self { text: text.to_owned(), filter: Filter::parse(text)? })
    }
}

fn select(text: &str) -> Result<Select, String> {
    let select = Select::parse(text).map_err(|error| error.message().to_owned())?;
    match select.names() {
        Some([]) => Err("no property can have such a name".into()),
        _ => Ok(select),
    }
}

/// Reads the name of a table.
pub(super) fn table_name(name: &str) -> Result<String, &'static str> {
    match crate::service::check_table_name(name) {
        Ok(()) => Ok(name.to_owned()),
        Err(_) => Err(
            "a table's name has 3 to 63 letters and digits, begins with a letter, and is not Tables",
        ),
    }
}
