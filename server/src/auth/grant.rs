//! [`Grant`]: what a signature allows, and the question whether it allows an operation.

use super::refused;
use crate::error::{ErrorCode, ServiceError};
use crate::headers::ApiVersion;

/// What is done, as far as permissions go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the operations of the protocol, by their names")]
pub enum Operation {
    GetServiceProperties,
    SetServiceProperties,
    GetServiceStats,
    QueryTables,
    CreateTable,
    DeleteTable,
    GetTableAcl,
    SetTableAcl,
    QueryEntities,
    InsertEntity,
    /// Replace or merge of an entity that must exist.
    UpdateEntity,
    /// Insert-or-replace, insert-or-merge.
    UpsertEntity,
    DeleteEntity,
}

impl Operation {
    #[cfg(test)]
    pub(super) const ALL: [Self; 13] = [
        Self::GetServiceProperties,
        Self::SetServiceProperties,
        Self::GetServiceStats,
        Self::QueryTables,
        Self::CreateTable,
        Self::DeleteTable,
        Self::GetTableAcl,
        Self::SetTableAcl,
        Self::QueryEntities,
        Self::InsertEntity,
        Self::UpdateEntity,
        Self::UpsertEntity,
        Self::DeleteEntity,
    ];

    /// The type of resource that an account signature must name; `None` if only a key will do.
    const fn resource_type(self) -> Option<char> {
        match self {
            Self::GetServiceProperties | Self::SetServiceProperties | Self::GetServiceStats => {
                Some('s')
            }
            Self::QueryTables | Self::CreateTable | Self::DeleteTable => Some('c'),
            Self::GetTableAcl | Self::SetTableAcl => None,
            Self::QueryEntities
            | Self::InsertEntity
            | Self::UpdateEntity
            | Self::UpsertEntity
            | Self::DeleteEntity => Some('o'),
        }
    }

    /// The permissions that an account signature must have.
    const fn of_account(self) -> Needed {
        match self {
            Self::GetServiceProperties | Self::GetServiceStats => Needed::All("r"),
            Self::SetServiceProperties => Needed::All("w"),
            Self::QueryTables => Needed::All("l"),
            Self::CreateTable => Needed::Any("cw"),
            Self::DeleteTable => Needed::All("d"),
            _ => self.of_entity(),
        }
    }

    /// The permissions that a signature must have for an operation on entities.
    const fn of_entity(self) -> Needed {
        match self {
            Self::QueryEntities => Needed::All("r"),
            Self::InsertEntity => Needed::All("a"),
            Self::UpdateEntity => Needed::All("u"),
            Self::UpsertEntity => Needed::All("au"),
            Self::DeleteEntity => Needed::All("d"),
            _ => Needed::Any(""),
        }
    }
}

/// Letters of permissions of which all or any must be given.
enum Needed {
    All(&'static str),
    Any(&'static str),
}

impl Needed {
    fn in_letters(&self, letters: &str) -> bool {
        match self {
            Self::All(needed) => needed.chars().all(|letter| letters.contains(letter)),
            Self::Any(needed) => needed.chars().any(|letter| letters.contains(letter)),
        }
    }
}

/// What a signature grants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Grant {
    /// An account's key signed the request itself: everything.
    Key,
    /// An account signature: some operations on some types of resources.
    Account {
        /// The letters of `sp`.
        permissions: Box<str>,
        /// The letters of `srt`.
        resource_types: Box<str>,
    },
    /// A signature of a table, or of a range of its entities.
    Table {
        /// The table's name in lower case.
        table: Box<str>,
        /// The letters of `sp` or of a stored access policy.
        permissions: Box<str>,
        /// Which entities.
        range: KeyRange,
        /// The version of the protocol that it was made for.
        version: ApiVersion,
    },
}

impl Grant {
    /// Whether an operation is allowed, on a table if it is about one.
    ///
    /// # Errors
    /// [`ErrorCode::AuthorizationResourceTypeMismatch`],
    /// [`ErrorCode::AuthorizationPermissionMismatch`], [`ErrorCode::AuthorizationFailure`];
    /// [`ErrorCode::ResourceNotFound`] for a table's signature of a version before 2015-04-05.
    pub fn allow(&self, operation: Operation, table: Option<&str>) -> Result<(), ServiceError> {
        match self {
            Self::Key => Ok(()),
            Self::Account { permissions, resource_types } => {
                let Some(resource_type) = operation.resource_type() else {
                    let reason = "an account signature cannot change or show access policies";
                    return Err(refused(ErrorCode::AuthorizationFailure, &reason));
                };
                if !resource_types.contains(resource_type) {
                    let code = ErrorCode::AuthorizationResourceTypeMismatch;
                    return Err(refused(code, &format_args!("srt lacks {resource_type}")));
                }
                self.permit(operation, &operation.of_account(), permissions)
            }
            Self::Table { table: granted, permissions, .. } => {
                if operation.resource_type() != Some('o') {
                    let reason = "a table's signature is for its entities alone";
                    return Err(self.refuse(ErrorCode::AuthorizationFailure, &reason));
                }
                if !table.is_some_and(|table| table.eq_ignore_ascii_case(granted)) {
                    let reason = format_args!("the signature is for table {granted}");
                    return Err(self.refuse(ErrorCode::AuthorizationFailure, &reason));
                }
                self.permit(operation, &operation.of_entity(), permissions)
            }
        }
    }

    /// Whether there is an operation on entities that is allowed.
    ///
    /// # Errors
    /// As [`allow`](Self::allow).
    pub fn allow_some_operation_on_entities(&self) -> Result<(), ServiceError> {
        let table = match self {
            Self::Table { table, .. } => Some(&**table),
            _ => None,
        };
        let singles = [Operation::InsertEntity, Operation::UpdateEntity, Operation::DeleteEntity];
        let allowed = singles.iter().any(|operation| self.allow(*operation, table).is_ok());
        if allowed { Ok(()) } else { self.allow(Operation::QueryEntities, table) }
    }

    /// Whether an entity is within the grant. Reads do not find one that is not.
    #[must_use]
    pub fn contains(&self, partition_key: &str, row_key: &str) -> bool {
        self.range().is_none_or(|range| range.contains(partition_key, row_key))
    }

    /// Refuses a write of an entity that is not within the grant.
    ///
    /// # Errors
    /// [`ErrorCode::AuthorizationFailure`], or [`ErrorCode::ResourceNotFound`] as by [`allow`](Self::allow).
    pub fn allow_write(&self, partition_key: &str, row_key: &str) -> Result<(), ServiceError> {
        if self.contains(partition_key, row_key) {
            return Ok(());
        }
        let reason = "the entity is outside of the signature's range";
        Err(self.refuse(ErrorCode::AuthorizationFailure, &reason))
    }

    /// The entities that the grant is limited to; `None` if it is not.
    #[must_use]
    pub fn range(&self) -> Option<&KeyRange> {
        match self {
            Self::Table { range, .. } if *range != KeyRange::default() => Some(range),
            _ => None,
        }
    }

    fn permit(
        &self,
        operation: Operation,
        needed: &Needed,
        letters: &str,
    ) -> Result<(), ServiceError> {
        if needed.in_letters(letters) {
            return Ok(());
        }
        let code = ErrorCode::AuthorizationPermissionMismatch;
        Err(self.refuse(code, &format_args!("sp={letters} does not permit {operation:?}")))
    }

    /// The error of what the grant does not reach.
    fn refuse(&self, code: ErrorCode, reason: &dyn std::fmt::Display) -> ServiceError {
        match self {
            Self::Table { version, .. } if *version < ApiVersion::SAS_REFUSALS => {
                refused(ErrorCode::ResourceNotFound, reason)
            }
            _ => refused(code, reason),
        }
    }
}

/// A range of entities in the order of their keys; both ends belong to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyRange {
    /// The first PartitionKey, and in its partition the first RowKey if that is said.
    pub start: Option<(String, Option<String>)>,
    /// The last PartitionKey, and in its partition the last RowKey if that is said.
    pub end: Option<(String, Option<String>)>,
}

impl KeyRange {
    /// Whether an entity belongs to it.
    #[must_use]
    pub fn contains(&self, partition_key: &str, row_key: &str) -> bool {
        let after_start = self.start.as_ref().is_none_or(|(start, row)| {
            partition_key > start.as_str()
                || partition_key == start && row.as_ref().is_none_or(|row| row_key >= row.as_str())
        });
        let before_end = self.end.as_ref().is_none_or(|(end, row)| {
            partition_key < end.as_str()
                || partition_key == end && row.as_ref().is_none_or(|row| row_key <= row.as_str())
        });
        after_start && before_end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(grant: &Grant, table: Option<&str>) -> Vec<Operation> {
        Operation::ALL.into_iter().filter(|op| grant.allow(*op, table).is_ok()).collect()
    }

    fn account(permissions: &str, resource_types: &str) -> Grant {
        let (permissions, resource_types) = (permissions.into(), resource_types.into());
        Grant::Account { permissions, resource_types }
    }

    fn table(permissions: &str) -> Grant {
        let (table, permissions) = ("people".into(), permissions.into());
        let (range, version) = (KeyRange::default(), ApiVersion::SAS_REFUSALS);
        Grant::Table { table, permissions, range, version }
    }

    /// R-S08: each letter of an account signature, each type of resource.
    #[test]
    fn r_s08_an_account_signature_allows_what_its_letters_say() {
        use Operation::*;
        let of = |permissions, types| allowed(&account(permissions, types), Some("t"));
        assert_eq!(of("r", "sco"), [GetServiceProperties, GetServiceStats, QueryEntities]);
        assert_eq!(of("w", "sco"), [SetServiceProperties, CreateTable]);
        assert_eq!(of("l", "sco"), [QueryTables]);
        assert_eq!(of("c", "sco"), [CreateTable]);
        assert_eq!(of("d", "sco"), [DeleteTable, DeleteEntity]);
        assert_eq!(of("a", "sco"), [InsertEntity]);
        assert_eq!(of("u", "sco"), [UpdateEntity]);
        assert_eq!(of("ua", "sco"), [InsertEntity, UpdateEntity, UpsertEntity]);
        let all = "rwdlacup";
        let service = [GetServiceProperties, SetServiceProperties, GetServiceStats];
        assert_eq!(of(all, "s"), service);
        assert_eq!(of(all, "c"), [QueryTables, CreateTable, DeleteTable]);
        let entities = [QueryEntities, InsertEntity, UpdateEntity, UpsertEntity, DeleteEntity];
        assert_eq!(of(all, "o"), entities);
        assert!(of("", "sco").is_empty() && of(all, "").is_empty());
        assert!(!of(all, "sco").contains(&SetTableAcl), "only a key may");
        assert_eq!(allowed(&Grant::Key, None), Operation::ALL);
    }

    /// R-S08: a table's signature is for entities of that table, whatever the case of its name.
    #[test]
    fn r_s08_a_table_signature_is_for_its_own_entities() {
        use Operation::*;
        let of = |permissions| allowed(&table(permissions), Some("People"));
        assert_eq!(of("r"), [QueryEntities]);
        assert_eq!(of("a"), [InsertEntity]);
        assert_eq!(of("u"), [UpdateEntity]);
        assert_eq!(of("d"), [DeleteEntity]);
        let all = [QueryEntities, InsertEntity, UpdateEntity, UpsertEntity, DeleteEntity];
        assert_eq!(of("raud"), all);
        assert!(allowed(&table("raud"), Some("Places")).is_empty());
        assert!(allowed(&table("raud"), None).is_empty());
    }

    /// R-S08: of a batch it is known before its body is read whether none of it can be allowed.
    #[test]
    fn r_s08_a_batch_needs_one_permission_on_entities() {
        let allowed = |grant: &Grant| grant.allow_some_operation_on_entities().is_ok();
        for letter in ["r", "a", "u", "d"] {
            assert!(allowed(&table(letter)) && allowed(&account(letter, "o")), "{letter}");
            assert!(!allowed(&account(letter, "sc")), "{letter}");
        }
        assert!(!allowed(&table("")) && !allowed(&account("wlcp", "o")));
        assert!(allowed(&Grant::Key));
    }

    #[test]
    fn a_refusal_says_what_is_missing() {
        let code =
            |grant: Grant, operation| grant.allow(operation, Some("people")).unwrap_err().code();
        let mismatch = code(account("r", "sc"), Operation::QueryEntities);
        assert_eq!(mismatch, ErrorCode::AuthorizationResourceTypeMismatch);
        let mismatch = code(account("r", "o"), Operation::DeleteEntity);
        assert_eq!(mismatch, ErrorCode::AuthorizationPermissionMismatch);
        let failure = code(table("raud"), Operation::CreateTable);
        assert_eq!(failure, ErrorCode::AuthorizationFailure);
    }

    /// R-S08: ranges are inclusive, and a RowKey counts in the partition at the end alone.
    #[test]
    fn r_s08_a_range_is_one_of_the_order_of_entities() {
        let range = |start: Option<(&str, Option<&str>)>, end: Option<(&str, Option<&str>)>| {
            let end_of = |end: (&str, Option<&str>)| (end.0.into(), end.1.map(str::to_owned));
            KeyRange { start: start.map(end_of), end: end.map(end_of) }
        };
        let inside = |range: &KeyRange| {
            let keys = [("a", "1"), ("b", "1"), ("b", "2"), ("c", "1"), ("c", "2"), ("d", "")];
            keys.map(|(p, r)| if range.contains(p, r) { '+' } else { '-' })
                .iter()
                .collect::<String>()
        };
        assert_eq!(inside(&range(None, None)), "++++++");
        assert_eq!(inside(&range(Some(("b", None)), None)), "-+++++");
        assert_eq!(inside(&range(Some(("b", Some("2"))), None)), "--++++");
        assert_eq!(inside(&range(None, Some(("c", None)))), "+++++-");
        assert_eq!(inside(&range(None, Some(("c", Some("1"))))), "++++--");
        assert_eq!(inside(&range(Some(("b", Some("2"))), Some(("c", Some("1"))))), "--++--");
        assert_eq!(inside(&range(Some(("b", Some("2"))), Some(("b", Some("2"))))), "--+---");
        assert_eq!(inside(&range(Some(("c", None)), Some(("b", None)))), "------");
    }
}
