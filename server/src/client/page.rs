//! [`Page`]: what a query's answer holds.

use serde::Deserialize;
use serde_json::value::RawValue;
use tablestone::{DateTime, Entity, Version};

use super::ClientError;
use super::exchange::Answer;
use crate::headers::names;
use crate::wire::json::decode_entity;

/// A page of entities.
#[derive(Debug)]
pub struct Page {
    /// Entities in key order, with their versions if Timestamps were asked for, else
    /// [`Version::ZERO`]. A key that was not selected is empty.
    pub entities: Vec<(Entity, Version)>,
    /// Where the next page begins; `None` after the last.
    pub next: Option<PageKey>,
}

/// Where a page begins, in the server's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageKey {
    pub(super) partition_key: String,
    pub(super) row_key: Option<String>,
}

#[derive(Deserialize)]
struct List<T> {
    value: Vec<T>,
}

#[derive(Deserialize)]
struct Stamp<'a> {
    #[serde(rename = "Timestamp")]
    timestamp: &'a str,
}

#[derive(Deserialize)]
struct TableItem {
    #[serde(rename = "TableName")]
    name: String,
}

impl Page {
    pub(super) fn read(answer: &Answer, timestamps: bool) -> Result<Self, ClientError> {
        let list: List<&RawValue> = read(answer)?;
        let entities = list.value.into_iter().map(|raw| {
            let mut body =
                decode_entity(raw.get().as_bytes()).map_err(|error| answer.wrong(&error))?;
            let version = if timestamps { version(answer, raw)? } else { Version::ZERO };
            let partition_key = body.partition_key.take().unwrap_or_default();
            let row_key = body.row_key.take().unwrap_or_default();
            Ok((body.with_keys(partition_key, row_key), version))
        });
        let entities = entities.collect::<Result<_, ClientError>>()?;
        let next = answer.header(&names::NEXT_PARTITION_KEY).map(|partition_key| PageKey {
            partition_key: partition_key.to_owned(),
            row_key: answer.header(&names::NEXT_ROW_KEY).map(str::to_owned),
        });
        Ok(Self { entities, next })
    }
}

/// The version that an entity's Timestamp shows.
fn version(answer: &Answer, raw: &RawValue) -> Result<Version, ClientError> {
    let stamp: Stamp<'_> = serde_json::from_str(raw.get()).map_err(|error| answer.wrong(&error))?;
    let instant: DateTime = stamp.timestamp.parse().map_err(|error| answer.wrong(&error))?;
    Ok(Version::from_ticks(instant.ticks()))
}

fn read<'a, T: Deserialize<'a>>(answer: &'a Answer) -> Result<T, ClientError> {
    serde_json::from_slice(&answer.body).map_err(|error| answer.wrong(&error))
}

/// The tables of a list of them.
pub(super) fn table_names(answer: &Answer) -> Result<Vec<String>, ClientError> {
    let list: List<TableItem> = read(answer)?;
    Ok(list.value.into_iter().map(|item| item.name).collect())
}
