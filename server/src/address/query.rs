//! [`QueryString`]: the parameters of a request that the service knows.

use std::borrow::Cow;

use super::text::{Plus, decode};
use crate::error::{ErrorCode, ServiceError};

macro_rules! parameters {
    ($($(#[$doc:meta])* $name:ident $text:literal;)*) => {
        /// A parameter that the service knows; names are matched without regard to case.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Parameter {
            $(#[doc = concat!("`", $text, "`")] $(#[$doc])* $name,)*
        }

        impl Parameter {
            /// Every parameter.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// Its name in an address.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }
    };
}

parameters! {
    Filter "$filter";
    Select "$select";
    Top "$top";
    Format "$format";
    NextTableName "NextTableName";
    NextPartitionKey "NextPartitionKey";
    NextRowKey "NextRowKey";
    Comp "comp";
    Restype "restype";
    Timeout "timeout";
    ApiVersion "api-version";
    SignedVersion "sv";
    SignedServices "ss";
    SignedResourceTypes "srt";
    SignedPermissions "sp";
    SignedStart "st";
    SignedExpiry "se";
    SignedIp "sip";
    SignedProtocol "spr";
    SignedEncryptionScope "ses";
    SignedIdentifier "si";
    TableName "tn";
    StartPartitionKey "spk";
    StartRowKey "srk";
    EndPartitionKey "epk";
    EndRowKey "erk";
    Signature "sig";
}

/// The parameters of a request, decoded. Those that the service does not know are left out.
///
/// ```
/// use tablestone_server::address::{Parameter, QueryString};
/// let query = QueryString::parse("$top=5&%24filter=Name+eq+'A%2BB%20C'&other=1")?;
/// assert_eq!(query.get(Parameter::Filter), Some("Name eq 'A+B C'"));
/// assert_eq!(query.get(Parameter::Top), Some("5"));
/// assert_eq!(query.get(Parameter::Select), None);
/// # Ok::<(), tablestone_server::error::ServiceError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueryString<'a> {
    parameters: Vec<(Parameter, Cow<'a, str>)>,
}

impl<'a> QueryString<'a> {
    /// Reads what follows the question mark, as it was sent. `+` is a space.
    ///
    /// # Errors
    /// [`ErrorCode::InvalidUri`] if it is no percent-encoded UTF-8,
    /// [`ErrorCode::InvalidQueryParameterValue`] if a known parameter occurs twice,
    /// [`ErrorCode::NotImplemented`] for an OData option that the service lacks.
    pub fn parse(query: &'a str) -> Result<Self, ServiceError> {
        let mut parameters = Vec::new();
        for (name, value) in pairs(query) {
            let name = decode(name, Plus::Space)?;
            let Some(parameter) = known(&name) else {
                if name.starts_with('$') {
                    return Err(ErrorCode::NotImplemented.error());
                }
                continue;
            };
            if parameters.iter().any(|(earlier, _)| *earlier == parameter) {
                return Err(ErrorCode::InvalidQueryParameterValue
                    .because(format_args!("The query parameter {name} is specified twice.")));
            }
            parameters.push((parameter, decode(value, Plus::Space)?));
        }
        Ok(Self { parameters })
    }

    /// Refuses a timeout that is no number of seconds. It is not kept to: the server's own limits bound what an
    /// operation takes.
    ///
    /// # Errors
    /// [`ErrorCode::InvalidQueryParameterValue`].
    pub fn check_timeout(&self) -> Result<(), ServiceError> {
        match self.given(Parameter::Timeout).map(str::parse::<u32>) {
            Some(Err(_)) => Err(ErrorCode::InvalidQueryParameterValue.error()),
            Some(Ok(_)) | None => Ok(()),
        }
    }

    /// A parameter's value in a query string that may have mistakes beside it; `None` if it is missing or empty,
    /// or cannot be read.
    #[must_use]
    pub fn find(query: &'a str, parameter: Parameter) -> Option<Cow<'a, str>> {
        let is_it = |name| decode(name, Plus::Space).is_ok_and(|it| known(&it) == Some(parameter));
        let (_, value) = pairs(query).find(|(name, _)| is_it(name))?;
        decode(value, Plus::Space).ok().filter(|value| !value.is_empty())
    }

    /// A parameter's value; `None` if it was not sent, the empty string if it was sent empty.
    #[must_use]
    pub fn get(&self, parameter: Parameter) -> Option<&str> {
        self.parameters.iter().find(|(name, _)| *name == parameter).map(|(_, value)| &**value)
    }

    /// A parameter's value, unless it is missing or empty.
    #[must_use]
    pub fn given(&self, parameter: Parameter) -> Option<&str> {
        self.get(parameter).filter(|value| !value.is_empty())
    }
}

/// Names and values, encoded.
fn pairs(query: &str) -> impl Iterator<Item = (&str, &str)> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")))
}

fn known(name: &str) -> Option<Parameter> {
    Parameter::ALL.iter().copied().find(|known| known.as_str().eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(query: &str) -> ErrorCode {
        QueryString::parse(query).unwrap_err().code()
    }

    /// R-S02: the Rust crate writes `+` for a space, all others `%20`; a plus is `%2B`.
    #[test]
    fn r_s02_values_are_decoded_once() {
        let query = QueryString::parse("$filter=a+eq%20'%2B%2520'&NextPartitionKey=1!8!U21pdGg-");
        let query = query.unwrap();
        assert_eq!(query.get(Parameter::Filter), Some("a eq '+%20'"));
        assert_eq!(query.get(Parameter::NextPartitionKey), Some("1!8!U21pdGg-"));
        let query = QueryString::parse("&&comp=acl&x&$top=&sig=a%3D=b").unwrap();
        assert_eq!(
            (query.get(Parameter::Comp), query.get(Parameter::Top)),
            (Some("acl"), Some(""))
        );
        assert_eq!((query.given(Parameter::Top), query.given(Parameter::Format)), (None, None));
        assert_eq!(query.get(Parameter::Signature), Some("a==b"));
    }

    #[test]
    fn a_parameter_is_found_beside_mistakes() {
        let find = |query| QueryString::find(query, Parameter::Format);
        for query in ["$format=a+b", "%=1&$filter=%&%24FORMAT=a%20b", "$orderby=A&&$format=a+b"] {
            assert_eq!(find(query).as_deref(), Some("a b"), "{query}");
        }
        for query in ["", "format=a", "$format", "$format=", "$format=%"] {
            assert_eq!(find(query), None, "{query}");
        }
    }

    #[test]
    fn a_parameter_is_known_by_its_name_alone() {
        for parameter in Parameter::ALL {
            let query = format!("{}=v", parameter.as_str().to_uppercase());
            let query = QueryString::parse(&query).unwrap();
            for other in Parameter::ALL {
                assert_eq!(query.get(*other), (other == parameter).then_some("v"));
            }
        }
    }

    #[test]
    fn what_the_service_lacks_is_not_ignored() {
        assert_eq!(code("$orderby=Name"), ErrorCode::NotImplemented);
        assert_eq!(code("%24skip=1"), ErrorCode::NotImplemented);
        assert_eq!(code("$top=1&%24top=2"), ErrorCode::InvalidQueryParameterValue);
        assert_eq!(code("$filter=%"), ErrorCode::InvalidUri);
        assert!(QueryString::parse("other=1&other=2").is_ok());
    }
}
