//! [`ErrorCode`] and [`ServiceError`]: what a client hears when a request fails.
//!
//! SDKs branch on the code and tests of clients match the status and the text, so each is as the
//! service spells it, mistakes included. A client's mistake is never a 5xx, which SDKs retry.

use std::fmt;

use http::StatusCode;

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident $status:literal $message:literal;)*) => {
        /// The code of an error, as SDKs know it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum ErrorCode {
            $(#[doc = concat!($message, " (", stringify!($status), ")")] $(#[$doc])* $name,)*
        }

        impl ErrorCode {
            /// Every code that the server gives.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The code's spelling in bodies and in `x-ms-error-code`.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)*
                }
            }

            const fn status_number(self) -> u16 {
                match self {
                    $(Self::$name => $status,)*
                }
            }

            /// The text that the service sends with it, but for request id and time.
            #[must_use]
            pub const fn message(self) -> &'static str {
                match self {
                    $(Self::$name => $message,)*
                }
            }
        }
    };
}

codes! {
    AtomFormatNotSupported 415 "Atom format is not supported.";
    AuthenticationFailed 403 "Server failed to authenticate the request. Make sure the value of Authorization header is formed correctly including the signature.";
    AuthorizationFailure 403 "This request is not authorized to perform this operation.";
    AuthorizationPermissionMismatch 403 "This request is not authorized to perform this operation using this permission.";
    AuthorizationProtocolMismatch 403 "This request is not authorized to perform this operation using this protocol.";
    AuthorizationResourceTypeMismatch 403 "This request is not authorized to perform this operation using this resource type.";
    AuthorizationServiceMismatch 403 "This request is not authorized to perform this operation using this service.";
    AuthorizationSourceIPMismatch 403 "This request is not authorized to perform this operation using this source IP.";
    CommandsInBatchActOnDifferentPartitions 400 "All commands in a batch must operate on same entity group.";
    CorsPreflightFailure 403 "CORS not enabled or no matching rule found for this request.";
    DuplicatePropertiesSpecified 400 "A property is specified more than once.";
    EntityAlreadyExists 409 "The specified entity already exists.";
    EntityTooLarge 400 "The entity is larger than the maximum allowed size (1MB).";
    HostInformationNotPresent 400 "The required host information is not present in the request. You must send a non-empty Host header or include the absolute URI in the request line.";
    InsufficientAccountPermissions 403 "Write operations are not allowed.";
    InternalError 500 "Server encountered an internal error. Please try again after some time.";
    InvalidAuthenticationInfo 400 "Authentication information is not given in the correct format. Check the value of Authorization header.";
    InvalidDuplicateRow 400 "The batch request contains multiple changes with same row key. An entity can appear only once in a batch request.";
    InvalidHeaderValue 400 "The value for one of the HTTP headers is not in the correct format.";
    InvalidInput 400 "One of the request inputs is not valid.";
    InvalidQueryParameterValue 400 "Value for one of the query parameters specified in the request URI is invalid.";
    InvalidResourceName 400 "The specifed resource name contains invalid characters.";
    InvalidUri 400 "The requested URI does not represent any resource on the server.";
    InvalidXmlDocument 400 "XML specified is not syntactically valid.";
    InvalidXmlNodeValue 400 "The value for one of the XML nodes is not in the correct format.";
    JsonFormatNotSupported 415 "JSON format is not supported.";
    MediaTypeNotSupported 415 "None of the provided media types are supported.";
    MethodNotAllowed 405 "The requested method is not allowed on the specified resource.";
    MissingRequiredHeader 400 "An HTTP header that's mandatory for this request is not specified.";
    NotImplemented 501 "The requested operation is not implemented on the specified resource.";
    OutOfRangeInput 400 "One of the request inputs is out of range.";
    PropertiesNeedValue 400 "The values are not specified for all properties in the entity.";
    PropertyNameInvalid 400 "The property name is invalid.";
    PropertyNameTooLong 400 "The property name exceeds the maximum allowed length (255).";
    PropertyValueTooLarge 400 "The property value exceeds the maximum allowed size (64KB). If the property value is a string, it is UTF-16 encoded and the maximum number of characters should be 32K or less.";
    RequestBodyTooLarge 413 "The request body is too large and exceeds the maximum permissible limit.";
    ResourceNotFound 404 "The specified resource does not exist.";
    ServerBusy 503 "The server is busy.";
    TableAlreadyExists 409 "The table specified already exists.";
    TableNotFound 404 "The table specified does not exist.";
    TooManyProperties 400 "The entity contains more properties than allowed. Each entity can include up to 252 properties to store data. Each entity also has 3 system properties.";
    UnsupportedHttpVerb 405 "The resource doesn't support the specified HTTP verb.";
    UpdateConditionNotSatisfied 412 "The update condition specified in the request was not satisfied.";
    XMethodIncorrectCount 400 "More than one X-HTTP-Method is specified.";
    XMethodIncorrectValue 400 "The specified X-HTTP-Method is invalid.";
    XMethodNotUsingPost 400 "The request uses X-HTTP-Method with an HTTP verb other than POST.";
}

impl ErrorCode {
    /// The HTTP status that goes with the code.
    #[must_use]
    pub fn status(self) -> StatusCode {
        StatusCode::from_u16(self.status_number()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// The error with the code's own text.
    #[must_use]
    pub const fn error(self) -> ServiceError {
        ServiceError { code: self, message: None }
    }

    /// The error with a text that says more.
    #[must_use]
    pub fn because(self, message: impl fmt::Display) -> ServiceError {
        ServiceError { code: self, message: Some(message.to_string().into()) }
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How much of a client's text an error shows, in characters: what errors say is in no budget, and each character may
/// take seven times its bytes once it is escaped, twice in JSON.
const SHOWN: usize = 60;

/// The beginning of a client's text, for an error.
pub(crate) fn shown(text: &str) -> String {
    text.chars().take(SHOWN).collect()
}

/// What the service says of some mistakes in place of its code's text.
pub(crate) const NOT_PROCESSED: &str = "An error occurred while processing this request.";

/// A refused request: a code, and the code's text or one that says more.
///
/// ```
/// use tablestone_server::error::ErrorCode;
/// let error = ErrorCode::InvalidInput.because("Syntax error at position 7 in 'aaa bbb ccc'.");
/// assert_eq!(error.code().as_str(), "InvalidInput");
/// assert_eq!(error.code().status().as_u16(), 400);
/// assert_eq!(error.in_batch(3).message(), "3:Syntax error at position 7 in 'aaa bbb ccc'.");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceError {
    code: ErrorCode,
    message: Option<Box<str>>,
}

impl ServiceError {
    /// The code.
    #[must_use]
    pub const fn code(&self) -> ErrorCode {
        self.code
    }

    /// The text, to which an answer adds request id and time.
    #[must_use]
    pub fn message(&self) -> &str {
        self.message.as_deref().unwrap_or_else(|| self.code.message())
    }

    /// Whether it has a text that says more than its code's.
    #[must_use]
    pub const fn is_explained(&self) -> bool {
        self.message.is_some()
    }

    /// The same error as that of an operation of a batch, whose place from 0 begins the text.
    #[must_use]
    pub fn in_batch(&self, index: usize) -> Self {
        self.code.because(format_args!("{index}:{}", self.message()))
    }
}

impl From<ErrorCode> for ServiceError {
    fn from(code: ErrorCode) -> Self {
        code.error()
    }
}

impl fmt::Display for ServiceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message())
    }
}

impl std::error::Error for ServiceError {}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-S05, R-S12: no code has a status that HTTP does not know, and those that SDKs retry are
    /// exactly the server's own troubles.
    #[test]
    fn r_s05_only_the_servers_own_troubles_are_retried() {
        let retried: Vec<_> =
            ErrorCode::ALL.iter().filter(|code| code.status().is_server_error()).collect();
        assert_eq!(
            retried,
            [&ErrorCode::InternalError, &ErrorCode::NotImplemented, &ErrorCode::ServerBusy]
        );
        for code in ErrorCode::ALL {
            assert_eq!(code.status().as_u16(), code.status_number());
            assert!(code.message().ends_with('.'), "{code}");
        }
    }

    #[test]
    fn an_error_is_small() {
        assert!(size_of::<ServiceError>() <= 24);
    }
}
