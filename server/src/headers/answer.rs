//! The headers that every answer has.

use http::{HeaderMap, HeaderValue, header};
use uuid::Uuid;

use super::ApiVersion;

/// Names of headers that HTTP does not know.
pub mod names {
    use http::HeaderName;

    macro_rules! names {
        ($($name:ident $text:literal;)*) => {
            $(#[doc = concat!("`", $text, "`")]
            pub const $name: HeaderName = HeaderName::from_static($text);)*
        };
    }

    names! {
        CLIENT_REQUEST_ID "x-ms-client-request-id";
        CONTENT_MD5 "content-md5";
        DATA_SERVICE_ID "dataserviceid";
        DATA_SERVICE_VERSION "dataserviceversion";
        DATE "x-ms-date";
        ERROR_CODE "x-ms-error-code";
        HTTP_METHOD "x-http-method";
        NEXT_PARTITION_KEY "x-ms-continuation-nextpartitionkey";
        NEXT_ROW_KEY "x-ms-continuation-nextrowkey";
        NEXT_TABLE_NAME "x-ms-continuation-nexttablename";
        PREFER "prefer";
        PREFERENCE_APPLIED "preference-applied";
        REQUEST_ID "x-ms-request-id";
        VERSION "x-ms-version";
    }
}

/// What the service calls itself; the Rust SDK cannot do without it.
const SERVER: HeaderValue =
    HeaderValue::from_static("Windows-Azure-Table/1.0 Microsoft-HTTPAPI/2.0");
const NO_CACHE: HeaderValue = HeaderValue::from_static("no-cache");
const NO_SNIFF: HeaderValue = HeaderValue::from_static("nosniff");
/// Longest id of a client's that is sent back.
const CLIENT_ID_BYTES: usize = 1024;
/// Room for the headers below and those of the largest answers.
const HEADERS: usize = 16;

/// The server's own name for a request: a GUID, in answers and in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestId(Uuid);

impl RequestId {
    /// An id that no other request has.
    #[must_use]
    pub fn new() -> Self {
        Self(Uuid::new_v4())
    }
}

impl Default for RequestId {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Display for RequestId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut buffer = Uuid::encode_buffer();
        f.write_str(self.0.as_hyphenated().encode_lower(&mut buffer))
    }
}

/// What of a request its answer repeats, whatever comes of it.
#[derive(Clone, Debug)]
pub struct Common {
    /// The request's id.
    pub id: RequestId,
    client_id: Option<HeaderValue>,
    version: Option<HeaderValue>,
    signed_version: Option<ApiVersion>,
}

impl Common {
    /// Takes what is to be repeated from a request's headers.
    #[must_use]
    pub fn of(headers: &HeaderMap) -> Self {
        let client_id = headers.get(names::CLIENT_REQUEST_ID);
        Self {
            id: RequestId::new(),
            client_id: client_id.filter(|id| id.len() <= CLIENT_ID_BYTES).cloned(),
            version: headers.get(names::VERSION).cloned(),
            signed_version: None,
        }
    }

    /// The client's own id of the request, if it is text.
    #[must_use]
    pub fn client_id(&self) -> Option<&str> {
        self.client_id.as_ref()?.to_str().ok()
    }

    /// Takes the version of the signature in the address for the request's, unless a header states one.
    #[must_use]
    pub fn or_signed_version(self, version: impl FnOnce() -> Option<ApiVersion>) -> Self {
        let signed_version = if self.version.is_none() { version() } else { None };
        Self { signed_version, ..self }
    }

    /// The version that the request states, if it is one.
    #[must_use]
    pub fn version(&self) -> Option<ApiVersion> {
        match &self.version {
            Some(stated) => ApiVersion::parse(stated.to_str().ok()?),
            None => self.signed_version,
        }
    }

    /// The headers of an answer, but for those of its operation.
    #[must_use]
    pub fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::with_capacity(HEADERS);
        headers.insert(header::SERVER, SERVER);
        headers.insert(header::CACHE_CONTROL, NO_CACHE);
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, NO_SNIFF);
        let mut buffer = Uuid::encode_buffer();
        let id = self.id.0.as_hyphenated().encode_lower(&mut buffer);
        if let Ok(id) = HeaderValue::from_str(id) {
            headers.insert(names::REQUEST_ID, id);
        }
        if let Some(id) = &self.client_id {
            headers.insert(names::CLIENT_REQUEST_ID, id.clone());
        }
        if let Some(version) = &self.version {
            headers.insert(names::VERSION, version.clone());
        }
        headers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-S03: ids and version come back, and an id that is too long does not.
    #[test]
    fn r_s03_answers_repeat_ids_and_version() {
        let mut request = HeaderMap::new();
        request.insert("x-ms-version", HeaderValue::from_static("2019-02-02"));
        request.insert("x-ms-client-request-id", HeaderValue::from_static("mine"));
        let common = Common::of(&request);
        let headers = common.headers();
        assert_eq!(headers["x-ms-version"], "2019-02-02");
        assert_eq!(headers["x-ms-client-request-id"], "mine");
        assert_eq!(headers["x-ms-request-id"], common.id.to_string());
        assert_eq!(headers["server"], "Windows-Azure-Table/1.0 Microsoft-HTTPAPI/2.0");
        assert_eq!(headers["cache-control"], "no-cache");
        assert_eq!(headers["x-content-type-options"], "nosniff");
        request.insert("x-ms-client-request-id", "x".repeat(1025).parse().unwrap());
        assert_eq!(Common::of(&request).headers().get("x-ms-client-request-id"), None);
    }

    #[test]
    fn no_two_requests_have_one_id() {
        assert_ne!(RequestId::new(), RequestId::new());
    }
}
