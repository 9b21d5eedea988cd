//! [`Answer`]: status, headers of its own, and a body.

use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};
use hyper::ext::ReasonPhrase;
use tablestone::{ETag, Version};

use crate::body::AnswerBody;
use crate::error::{ErrorCode, ServiceError};
use crate::headers::{
    BodyFormat, Common, Metadata, Preference, error_format, names, stated_error_format,
};
use crate::wire::instant::{now, with_seven_digits};
use crate::wire::{json, xml};

const XML: HeaderValue = HeaderValue::from_static("application/xml");
const XML_ERROR: HeaderValue = HeaderValue::from_static("application/xml;charset=utf-8");

/// An answer, but for the headers that all have.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
    pub(super) body: AnswerBody,
    /// Why the request failed, if it did; also why a batch did, whose status is 202 nevertheless.
    pub(super) error: Option<ErrorCode>,
}

/// Whether a body is of one thing or a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Single,
    List,
}

/// The Content-Type of entities in a form.
pub(super) const fn content_type(format: BodyFormat, shape: Shape) -> &'static str {
    match (format, shape) {
        (BodyFormat::Json(Metadata::None), _) => {
            "application/json;odata=nometadata;streaming=true;charset=utf-8"
        }
        (BodyFormat::Json(Metadata::Minimal), _) => {
            "application/json;odata=minimalmetadata;streaming=true;charset=utf-8"
        }
        (BodyFormat::Json(Metadata::Full), _) => {
            "application/json;odata=fullmetadata;streaming=true;charset=utf-8"
        }
        (BodyFormat::Atom, Shape::Single) => "application/atom+xml;type=entry;charset=utf-8",
        (BodyFormat::Atom, Shape::List) => "application/atom+xml;type=feed;charset=utf-8",
    }
}

impl Answer {
    /// An answer without a body.
    pub(super) fn empty(status: StatusCode) -> Self {
        let (headers, body) = (Vec::with_capacity(6), AnswerBody::default());
        Self { status, headers, body, error: None }
    }

    /// An answer of JSON or Atom.
    pub(super) fn formatted(
        status: StatusCode,
        format: BodyFormat,
        shape: Shape,
        body: AnswerBody,
    ) -> Self {
        let content_type = HeaderValue::from_static(content_type(format, shape));
        Self { body, ..Self::empty(status) }.with(header::CONTENT_TYPE, content_type)
    }

    /// An answer of XML.
    pub(super) fn xml(status: StatusCode, body: Vec<u8>) -> Self {
        Self { body: body.into(), ..Self::empty(status) }.with(header::CONTENT_TYPE, XML)
    }

    /// The answer to a request that failed, in the form that it asks for by `$format` or its headers.
    pub(super) fn error(
        error: &ServiceError,
        format: Option<&str>,
        request: &HeaderMap,
        common: &Common,
    ) -> Self {
        Self::error_in(error_format(format, request, common.version()), error, common)
    }

    /// The same of an operation whose documents are XML: so is an error, unless the request asks for JSON.
    pub(super) fn xml_error(
        error: &ServiceError,
        format: Option<&str>,
        request: &HeaderMap,
        common: &Common,
    ) -> Self {
        let stated = stated_error_format(format, request, common.version());
        Self::error_in(stated.unwrap_or(BodyFormat::Atom), error, common)
    }

    fn error_in(form: BodyFormat, error: &ServiceError, common: &Common) -> Self {
        let code = error.code();
        let name = code.as_str();
        let (message, id, time) = (error.message(), &common.id, with_seven_digits(now()));
        let message = format!("{message}\nRequestId:{id}\nTime:{time}");
        let (content_type, body) = match form {
            json @ BodyFormat::Json(_) => {
                let content_type = HeaderValue::from_static(content_type(json, Shape::Single));
                (content_type, json::print_error(name, &message))
            }
            BodyFormat::Atom => (XML_ERROR, xml::print_error(name, &message)),
        };
        Self { body: body.into(), error: Some(code), ..Self::empty(code.status()) }
            .with(header::CONTENT_TYPE, content_type)
            .with(names::ERROR_CODE, HeaderValue::from_static(name))
    }

    /// The same where a table or an entity was to be created: the service was recorded to repeat what was preferred.
    pub(super) fn creation_error(
        error: &ServiceError,
        format: Option<&str>,
        request: &HeaderMap,
        common: &Common,
    ) -> Self {
        Self::error(error, format, request, common).with_preference(Preference::of(request))
    }

    /// The answer with a header more.
    pub(super) fn with(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }

    /// The answer with a header more, unless its text cannot be one, or is none.
    pub(super) fn with_text(self, name: HeaderName, text: &str) -> Self {
        match HeaderValue::from_str(text) {
            Ok(value) if !text.is_empty() => self.with(name, value),
            _ => self,
        }
    }

    /// The answer with what a request to create something preferred.
    pub(super) fn with_preference(self, preference: Preference) -> Self {
        self.with_text(names::PREFERENCE_APPLIED, preference.applied().unwrap_or_default())
    }

    /// The answer with an entity's ETag.
    pub(super) fn with_etag(self, version: Version) -> Self {
        self.with_text(header::ETAG, &ETag(version).to_string())
    }

    /// What the service has behind the status in place of the status's own words, where it refuses a request
    /// before it looks at tables: SDKs show it to their users.
    fn reason(&self) -> Option<ReasonPhrase> {
        let code = self.error.filter(|code| code.status() == self.status)?;
        let says_why = matches!(
            code,
            ErrorCode::AuthenticationFailed
                | ErrorCode::AuthorizationServiceMismatch
                | ErrorCode::AuthorizationSourceIPMismatch
                | ErrorCode::RequestBodyTooLarge
        );
        says_why.then(|| ReasonPhrase::from_static(code.message().as_bytes()))
    }

    /// The answer with the headers that all have.
    pub(super) fn into_response(self, common: &Common) -> Response<AnswerBody> {
        let reason = self.reason();
        let mut response = Response::new(self.body);
        *response.status_mut() = self.status;
        if let Some(reason) = reason {
            response.extensions_mut().insert(reason);
        }
        let headers = response.headers_mut();
        *headers = common.headers();
        for (name, value) in self.headers {
            headers.insert(name, value);
        }
        response
    }
}
