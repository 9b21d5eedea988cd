//! [`EntityBody`]: what the body of a write says, in whichever form it came.

use tablestone::{Entity, Value};

use crate::error::{ErrorCode, ServiceError};

/// What a body says of an entity.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EntityBody {
    /// The PartitionKey, unless absent or null.
    pub partition_key: Option<String>,
    /// The RowKey, likewise.
    pub row_key: Option<String>,
    /// Properties that are not null, in order.
    pub properties: Vec<(String, Value)>,
}

impl EntityBody {
    /// The entity of a body that must have its keys: that of an insert.
    ///
    /// # Errors
    /// [`ErrorCode::PropertiesNeedValue`] if a key is absent or null.
    pub fn with_own_keys(mut self) -> Result<Entity, ServiceError> {
        match (self.partition_key.take(), self.row_key.take()) {
            (Some(partition_key), Some(row_key)) => Ok(self.with_keys(partition_key, row_key)),
            _ => Err(ErrorCode::PropertiesNeedValue.error()),
        }
    }

    /// The entity at an address, whose keys count whatever the body's are (protocol 7).
    #[must_use]
    pub fn with_keys(self, partition_key: String, row_key: String) -> Entity {
        Entity::from_properties(partition_key, row_key, self.properties)
    }
}
