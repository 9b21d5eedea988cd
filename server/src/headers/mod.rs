//! What a request's headers ask for, and the headers that every answer has.
//!
//! Each question is a function of the headers, asked by the operation that needs the answer: a
//! missing `Accept` is no mistake in a request that gets no body.

mod accept;
mod answer;

pub use accept::{
    BodyFormat, Metadata, error_format, request_format, response_format, stated_error_format,
};
pub use answer::{Common, RequestId, names};

use http::{HeaderMap, HeaderValue, Method, header};

use crate::error::{ErrorCode, ServiceError};

/// A version of the protocol: the date in `x-ms-version`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ApiVersion(u32);

impl ApiVersion {
    /// The first with JSON.
    pub const JSON: Self = Self::on(2013, 8, 15);
    /// The first whose service properties have metrics by the minute, and cross-origin rules.
    pub const MINUTE_METRICS: Self = Self::JSON;
    /// The first without Atom.
    pub const NO_ATOM: Self = Self::on(2015, 12, 11);
    /// The first in whose table signatures a resource begins with the service's name.
    pub const SAS_NAMES_SERVICE: Self = Self::on(2015, 2, 21);
    /// The first whose signatures restrict addresses and protocols; the first account signatures.
    pub const SAS_SOURCE: Self = Self::on(2015, 4, 5);
    /// The first that tells what a table's signature does not allow from what is not there.
    pub const SAS_REFUSALS: Self = Self::SAS_SOURCE;
    /// The first whose account signatures name an encryption scope.
    pub const SAS_ENCRYPTION_SCOPE: Self = Self::on(2020, 12, 6);
    /// The first with signatures of tables.
    pub const SAS: Self = Self::on(2012, 2, 12);

    const fn on(year: u32, month: u32, day: u32) -> Self {
        Self(year * 10_000 + month * 100 + day)
    }

    /// Reads `2019-02-02`. Every date is taken, so that SDKs to come are understood.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let [y @ .., b'-', m1, m2, b'-', d1, d2] = text.as_bytes() else {
            return None;
        };
        let number = |digits: &[u8]| {
            digits.iter().try_fold(0u32, |number, digit| {
                digit.is_ascii_digit().then(|| number * 10 + u32::from(digit - b'0'))
            })
        };
        let year = number(y).filter(|_| y.len() == 4)?;
        let month = number(&[*m1, *m2]).filter(|month| (1..=12).contains(month))?;
        let day = number(&[*d1, *d2]).filter(|day| (1..=31).contains(day))?;
        Some(Self::on(year, month, day))
    }

    /// The version a request states in `x-ms-version`, if it does.
    ///
    /// # Errors
    /// [`ErrorCode::InvalidHeaderValue`] if it is no date.
    pub fn of(headers: &HeaderMap) -> Result<Option<Self>, ServiceError> {
        let Some(value) = headers.get(names::VERSION) else {
            return Ok(None);
        };
        let version = value.to_str().ok().and_then(Self::parse);
        version.map(Some).ok_or_else(|| ErrorCode::InvalidHeaderValue.error())
    }
}

/// What a client prefers to be answered with; the entity comes back from an insert alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preference {
    /// Nothing was said: the entity, as with [`Content`](Self::Content), but without saying so.
    Unspecified,
    /// `return-content`: the entity.
    Content,
    /// `return-no-content`: status and headers alone.
    NoContent,
}

impl Preference {
    /// Reads `Prefer`; what else stands there is for others.
    #[must_use]
    pub fn of(headers: &HeaderMap) -> Self {
        let values = headers.get_all(names::PREFER).iter().filter_map(|value| value.to_str().ok());
        for preference in values.flat_map(|value| value.split(',')).map(str::trim) {
            if preference.eq_ignore_ascii_case("return-no-content") {
                return Self::NoContent;
            }
            if preference.eq_ignore_ascii_case("return-content") {
                return Self::Content;
            }
        }
        Self::Unspecified
    }

    /// What `Preference-Applied` says.
    #[must_use]
    pub const fn applied(self) -> Option<&'static str> {
        match self {
            Self::Unspecified => None,
            Self::Content => Some("return-content"),
            Self::NoContent => Some("return-no-content"),
        }
    }
}

/// What a request does to its resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the methods of HTTP, and MERGE, which PATCH means too")]
pub enum Verb {
    Get,
    Head,
    Post,
    Put,
    Merge,
    Delete,
    Options,
}

impl Verb {
    /// The verb of a request: its method, or what `X-HTTP-Method` makes of a POST.
    ///
    /// # Errors
    /// [`ErrorCode::XMethodNotUsingPost`], [`ErrorCode::XMethodIncorrectCount`],
    /// [`ErrorCode::XMethodIncorrectValue`]; [`ErrorCode::UnsupportedHttpVerb`] for other methods.
    pub fn of(method: &Method, headers: &HeaderMap) -> Result<Self, ServiceError> {
        let verb = Self::named(method.as_str()).ok_or(ErrorCode::UnsupportedHttpVerb)?;
        let mut tunnelled = headers.get_all(names::HTTP_METHOD).iter();
        let Some(value) = tunnelled.next() else {
            return Ok(verb);
        };
        if verb != Self::Post {
            return Err(ErrorCode::XMethodNotUsingPost.error());
        }
        if tunnelled.next().is_some() {
            return Err(ErrorCode::XMethodIncorrectCount.error());
        }
        match value.to_str().ok().and_then(Self::named) {
            Some(verb @ (Self::Put | Self::Merge | Self::Delete)) => Ok(verb),
            _ => Err(ErrorCode::XMethodIncorrectValue.error()),
        }
    }

    /// The verb of a request within a batch. There `X-HTTP-Method` may also repeat the method, as the
    /// Java SDK has it of merges.
    ///
    /// # Errors
    /// As [`Verb::of`].
    pub fn within_batch(method: &Method, headers: &HeaderMap) -> Result<Self, ServiceError> {
        match Self::named(method.as_str()) {
            Some(verb) if verb != Self::Post && repeats(verb, headers) => Ok(verb),
            _ => Self::of(method, headers),
        }
    }

    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "GET" => Self::Get,
            "HEAD" => Self::Head,
            "POST" => Self::Post,
            "PUT" => Self::Put,
            "MERGE" | "PATCH" => Self::Merge,
            "DELETE" => Self::Delete,
            "OPTIONS" => Self::Options,
            _ => return None,
        })
    }
}

/// Whether `X-HTTP-Method` says no more than the method does.
fn repeats(verb: Verb, headers: &HeaderMap) -> bool {
    text(headers, &names::HTTP_METHOD).and_then(Verb::named) == Some(verb)
}

/// The value of a header, if it is text: the first, where it occurs more than once.
#[must_use]
pub fn text<'a>(headers: &'a HeaderMap, name: &http::HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// The value of `If-Match` of a request with this verb, if there is one.
///
/// # Errors
/// [`ErrorCode::InvalidInput`] for one that is no text, for two, and for `If-None-Match` where something may
/// be overwritten: a condition that is not understood must not become none.
pub fn if_match(headers: &HeaderMap, verb: Verb) -> Result<Option<&str>, ServiceError> {
    if headers.contains_key(header::IF_NONE_MATCH) {
        refuse_if_none_match(headers, verb)?;
    }
    let mut values = headers.get_all(header::IF_MATCH).iter();
    match (values.next().map(HeaderValue::to_str), values.next()) {
        (None, _) => Ok(None),
        (Some(Ok(tag)), None) => Ok(Some(tag)),
        _ => Err(ErrorCode::InvalidInput.because("If-Match must be one ETag, or *.")),
    }
}

/// Refuses `If-None-Match`, which the service does not have for writes; an insert means what `*` does.
fn refuse_if_none_match(headers: &HeaderMap, verb: Verb) -> Result<(), ServiceError> {
    let verb = match verb {
        Verb::Put => "PUT",
        Verb::Merge => "MERGE",
        Verb::Delete => "DELETE",
        Verb::Get | Verb::Head | Verb::Post | Verb::Options => return Ok(()),
    };
    Err(if headers.contains_key(header::IF_MATCH) {
        ErrorCode::InvalidInput.because(
            "Both If-Match and If-None-Match HTTP headers cannot be specified at the same time. Please specify \
             either one of the headers or none of them.",
        )
    } else {
        ErrorCode::InvalidInput.because(format_args!(
            "If-None-Match HTTP header cannot be specified for {verb} operations."
        ))
    })
}

/// Longest host: a name of 253 characters, a colon and a port. It comes back in the address of each
/// entity of an answer.
pub(crate) const MAX_HOST: usize = 259;

/// The request's host: that of an absolute address, without a user, or its `Host` header; `None` if it is
/// longer than any that there is.
#[must_use]
pub fn host<'a>(uri: &'a http::Uri, headers: &'a HeaderMap) -> Option<&'a str> {
    // It comes back in answers, where nobody's password is to be.
    let host = uri.authority().and_then(|authority| authority.as_str().rsplit('@').next());
    host.or_else(|| text(headers, &header::HOST)).filter(|host| host.len() <= MAX_HOST)
}

/// Refuses a request without a host, and one with two `Host` lines: what is between it and the client may
/// have gone by the other.
///
/// # Errors
/// [`ErrorCode::HostInformationNotPresent`], [`ErrorCode::InvalidHeaderValue`].
pub fn check_host(uri: &http::Uri, headers: &HeaderMap) -> Result<(), ServiceError> {
    if headers.get_all(header::HOST).iter().nth(1).is_some() {
        return Err(ErrorCode::InvalidHeaderValue.error());
    }
    host(uri, headers).map(|_| ()).ok_or_else(|| ErrorCode::HostInformationNotPresent.error())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn r_s03_a_version_is_a_date() {
        let version = |text| ApiVersion::of(&headers(&[("x-ms-version", text)]));
        assert!(version("2019-02-02").unwrap() > Some(ApiVersion::NO_ATOM));
        assert!(version("2015-12-10").unwrap() < Some(ApiVersion::NO_ATOM));
        assert!(version("2099-12-31").is_ok());
        assert_eq!(ApiVersion::of(&headers(&[])), Ok(None));
        for text in ["foo", "", "2019-02", "2019-13-01", "2019-00-01", "2019-02-32", "19-02-02"] {
            let code = version(text).unwrap_err().code();
            assert_eq!(code, ErrorCode::InvalidHeaderValue, "{text}");
        }
        for text in ["2019-02-02 ", "2019/02/02", "x019-02-02", "92019-02-02"] {
            assert_eq!(ApiVersion::parse(text), None, "{text}");
        }
    }

    #[test]
    fn r_s12_a_request_has_one_host() {
        let of = |uri: &'static str, hosts: &[&'static str]| {
            let pairs: Vec<_> = hosts.iter().map(|host| ("host", *host)).collect();
            let (uri, headers) = (http::Uri::from_static(uri), headers(&pairs));
            let checked = check_host(&uri, &headers).map_err(|error| error.code());
            checked.map(|()| host(&uri, &headers).unwrap().to_owned())
        };
        assert_eq!(of("/a", &["h:1"]), Ok("h:1".into()));
        assert_eq!(of("http://h:2/a", &["h:1"]), Ok("h:2".into()));
        assert_eq!(of("http://user:p%40ss@h/a", &[]), Ok("h".into()));
        assert_eq!(of("/a", &[]), Err(ErrorCode::HostInformationNotPresent));
        assert_eq!(of("/a", &["h", "h"]), Err(ErrorCode::InvalidHeaderValue));
        assert_eq!(of("http://h/a", &["h", "i"]), Err(ErrorCode::InvalidHeaderValue));
    }

    #[test]
    fn r_s03_prefer_says_what_comes_back() {
        let preference = |value| Preference::of(&headers(&[("prefer", value)]));
        assert_eq!(preference("return-no-content"), Preference::NoContent);
        assert_eq!(preference("Return-Content"), Preference::Content);
        assert_eq!(preference("respond-async, return-no-content"), Preference::NoContent);
        assert_eq!(preference("return=minimal"), Preference::Unspecified);
        assert_eq!(Preference::of(&headers(&[])), Preference::Unspecified);
    }

    #[test]
    fn r_s07_a_condition_that_is_none_is_not_passed_over() {
        let condition = |values: &[&str]| {
            let pairs: Vec<_> = values.iter().map(|value| ("if-match", *value)).collect();
            let headers = headers(&pairs);
            if_match(&headers, Verb::Put).map(|tag| tag.map(str::to_owned)).map_err(|it| it.code())
        };
        assert_eq!(condition(&[]), Ok(None));
        assert_eq!(condition(&["*"]), Ok(Some("*".into())));
        assert_eq!(condition(&["\"é\""]), Err(ErrorCode::InvalidInput));
        assert_eq!(condition(&["*", "*"]), Err(ErrorCode::InvalidInput));
    }

    #[test]
    fn r_s03_a_post_may_carry_another_verb() {
        let verb = |method: Method, values: &[&str]| {
            let pairs: Vec<_> = values.iter().map(|value| ("x-http-method", *value)).collect();
            Verb::of(&method, &headers(&pairs)).map_err(|error| error.code())
        };
        assert_eq!(verb(Method::POST, &["MERGE"]), Ok(Verb::Merge));
        assert_eq!(verb(Method::POST, &["DELETE"]), Ok(Verb::Delete));
        assert_eq!(verb(Method::POST, &[]), Ok(Verb::Post));
        assert_eq!(verb(Method::PATCH, &[]), Ok(Verb::Merge));
        assert_eq!(verb(Method::from_bytes(b"MERGE").unwrap(), &[]), Ok(Verb::Merge));
        assert_eq!(verb(Method::PUT, &["MERGE"]), Err(ErrorCode::XMethodNotUsingPost));
        assert_eq!(verb(Method::POST, &["GET"]), Err(ErrorCode::XMethodIncorrectValue));
        assert_eq!(verb(Method::POST, &["PUT", "PUT"]), Err(ErrorCode::XMethodIncorrectCount));
        assert_eq!(verb(Method::TRACE, &[]), Err(ErrorCode::UnsupportedHttpVerb));
    }
}
