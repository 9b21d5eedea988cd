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
