//! What the engine's errors are to a client.

use tablestone::{EntityError, Error, FilterError, FilterErrorKind, Limit};

use crate::error::{ErrorCode, ServiceError};

/// An engine's error as the client hears it, and the operation of a batch that it is about.
pub(super) fn of_engine(error: &Error) -> (ServiceError, Option<usize>) {
    match error {
        Error::EntityExists { index, .. } => (ErrorCode::EntityAlreadyExists.error(), Some(*index)),
        Error::EntityNotFound { index } => (ErrorCode::ResourceNotFound.error(), Some(*index)),
        Error::VersionMismatch { index, .. } => {
            (ErrorCode::UpdateConditionNotSatisfied.error(), Some(*index))
        }
        Error::DuplicateRowKey { index, .. } => {
            (ErrorCode::InvalidDuplicateRow.error(), Some(*index))
        }
        Error::Entity { index, source } => (of_entity(source), Some(*index)),
        Error::TableNotFound(_) => (ErrorCode::TableNotFound.error(), None),
        Error::TableExists(_) => (ErrorCode::TableAlreadyExists.error(), None),
        Error::LimitExceeded { what, index, .. } => (of_limit(*what), *index),
        Error::Busy { .. } => (ErrorCode::ServerBusy.error(), None),
        // What made the log fail is logged once, with the writes that were in it.
        Error::Poisoned(_) => (ErrorCode::InternalError.error(), None),
        error => {
            tracing::error!(error = %chain(error), "the engine failed");
            (ErrorCode::InternalError.error(), None)
        }
    }
}

/// An engine's error where there is no batch.
#[cold]
pub(super) fn of(error: &Error) -> ServiceError {
    of_engine(error).0
}

fn of_limit(what: Limit) -> ServiceError {
    match what {
        Limit::PartitionKey | Limit::RowKey => ErrorCode::PropertyValueTooLarge.error(),
        Limit::BatchBytes => ErrorCode::RequestBodyTooLarge.error(),
        Limit::Value => ErrorCode::EntityTooLarge.error(),
        _ => ErrorCode::InvalidInput.error(),
    }
}

/// A broken rule of the data model.
fn of_entity(error: &EntityError) -> ServiceError {
    match error {
        EntityError::TooManyProperties { .. } => ErrorCode::TooManyProperties.error(),
        EntityError::NameTooLong { .. } => ErrorCode::PropertyNameTooLong.error(),
        EntityError::NameEmpty
        | EntityError::NameInvalid { .. }
        | EntityError::NameReserved { .. } => ErrorCode::PropertyNameInvalid.error(),
        EntityError::StringTooLong { .. } | EntityError::BinaryTooLong { .. } => {
            ErrorCode::PropertyValueTooLarge.error()
        }
        EntityError::TooLarge { .. } => ErrorCode::EntityTooLarge.error(),
        EntityError::OtherPartition { .. } => {
            ErrorCode::CommandsInBatchActOnDifferentPartitions.error()
        }
        other => ErrorCode::InvalidInput.because(other),
    }
}

/// What is wrong with a filter, which is in `text`.
pub(super) fn of_filter(error: &FilterError, text: &str) -> ServiceError {
    match error.kind {
        FilterErrorKind::PropertyAgainstProperty
        | FilterErrorKind::ConstantAgainstConstant
        | FilterErrorKind::Function => ErrorCode::NotImplemented.error(),
        FilterErrorKind::NullLiteral => {
            of_null(&text.chars().take(error.column - 1).collect::<String>())
        }
        FilterErrorKind::NoBoolean => of_no_boolean(error, text),
        FilterErrorKind::Syntax => {
            // The service tells where it was when it had read what it did not expect.
            let position = error.column - 1 + error.length;
            let shown: String = text.chars().take(2_000).collect();
            ErrorCode::InvalidInput
                .because(format_args!("Syntax error at position {position} in '{shown}'."))
        }
        _ => ErrorCode::InvalidInput.because(format_args!("{error}.")),
    }
}

/// What the service says of `null` in a filter, given what stands before it: that it has no order, or nothing.
fn of_null(before: &str) -> ServiceError {
    let operator = match before.split_whitespace().next_back() {
        Some("lt") => "LessThan",
        Some("le") => "LessThanOrEqual",
        Some("gt") => "GreaterThan",
        Some("ge") => "GreaterThanOrEqual",
        _ => return ErrorCode::InvalidInput.error(),
    };
    ErrorCode::InvalidInput.because(format_args!(
        "The operator '{operator}' is not supported for the 'null' literal; only equality checks are supported."
    ))
}

/// The error of a key or Timestamp where a condition has to be. If it is an operand of `and` or `or`, the service
/// names the types of both operands.
fn of_no_boolean(error: &FilterError, text: &str) -> ServiceError {
    let (begin, length) = (error.column - 1, error.length);
    let part = |from, count| text.chars().skip(from).take(count).collect::<String>();
    let (before, name, after) =
        (part(0, begin), part(begin, length), part(begin + length, usize::MAX));
    let (mut before, mut after) = (before.trim_end(), after.trim_start());
    while let (Some(outer), Some(rest)) = (before.strip_suffix('('), after.strip_prefix(')')) {
        (before, after) = (outer.trim_end(), rest.trim_start());
    }
    let is_other = |c: char| !c.is_ascii_alphanumeric();
    let left = before.rsplit(is_other).next().unwrap_or_default();
    let right = after.split(is_other).next().unwrap_or_default();
    let own = if name == "Timestamp" { "Edm.DateTime" } else { "Edm.String" };
    // `and` binds more tightly than `or`, and `not` than both.
    let (operator, operands) = match (left, right) {
        ("or" | "", "and") => ("And", (own, "Edm.Boolean")),
        ("", "or") => ("Or", (own, "Edm.Boolean")),
        ("and", _) => ("And", ("Edm.Boolean", own)),
        ("or", _) => ("Or", ("Edm.Boolean", own)),
        _ => return ErrorCode::InvalidInput.because(format_args!("{error}.")),
    };
    let (left, right) = operands;
    ErrorCode::InvalidInput.because(format_args!(
        "A binary operator with incompatible types was detected. Found operand types '{left}' and '{right}' for \
         operator kind '{operator}'."
    ))
}

/// An error and its causes in one line.
pub(crate) fn chain(error: &Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tablestone::Filter;

    use super::*;

    /// R-S06: the first is what the .NET and Java SDKs' tests expect of the service; the others follow its rule.
    #[test]
    fn r_s06_operands_that_are_no_booleans_are_told() {
        let told = |text: &str| {
            let error = text.parse::<Filter>().expect_err(text);
            of_filter(&error, text).message().to_owned()
        };
        for (text, left, right, operator) in [
            ("(PartitionKey ) and (RowKey ge '000050')", "String", "Boolean", "And"),
            ("A eq 1 and Timestamp", "Boolean", "DateTime", "And"),
            ("A or (( RowKey ))", "Boolean", "String", "Or"),
            ("A or RowKey and B", "String", "Boolean", "And"),
            ("A and RowKey or B", "Boolean", "String", "And"),
            ("A and (RowKey or B)", "String", "Boolean", "Or"),
            ("é eq '€' and (B or RowKey)", "Boolean", "String", "Or"),
        ] {
            let expected = format!(
                "A binary operator with incompatible types was detected. Found operand types 'Edm.{left}' and \
                 'Edm.{right}' for operator kind '{operator}'."
            );
            assert_eq!(told(text), expected, "{text}");
        }
        for text in ["RowKey", "not RowKey and A", "(RowKey)"] {
            assert!(told(text).contains("are no Booleans"), "{text}");
        }
    }

    /// R-S05, R-S12: what ends a request where only the engine could have known is told as what the server finds
    /// itself is; that there is no room now is 503.
    #[test]
    fn r_s12_errors_of_the_engine_are_those_of_the_protocol() {
        let limit = |what| Error::LimitExceeded { index: Some(3), what, size: 2, limit: 1 };
        let busy = Error::Busy { waited: Duration::ZERO, reason: "level 0".into() };
        for (error, code, status, index) in [
            (busy, ErrorCode::ServerBusy, 503, None),
            (Error::Poisoned("no disk".into()), ErrorCode::InternalError, 500, None),
            (Error::Closed, ErrorCode::InternalError, 500, None),
            (Error::TableNotFound("t".into()), ErrorCode::TableNotFound, 404, None),
            (Error::TableExists("t".into()), ErrorCode::TableAlreadyExists, 409, None),
            (limit(Limit::PartitionKey), ErrorCode::PropertyValueTooLarge, 400, Some(3)),
            (limit(Limit::RowKey), ErrorCode::PropertyValueTooLarge, 400, Some(3)),
            (limit(Limit::BatchBytes), ErrorCode::RequestBodyTooLarge, 413, Some(3)),
            (limit(Limit::Value), ErrorCode::EntityTooLarge, 400, Some(3)),
        ] {
            let (told, of) = of_engine(&error);
            assert_eq!(
                (told.code(), told.code().status().as_u16(), of),
                (code, status, index),
                "{error:?}"
            );
        }
    }
}
