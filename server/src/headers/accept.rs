//! The form of bodies: what a request has and what its answer is to have.

use http::{HeaderMap, header};

use super::{ApiVersion, text};
use crate::error::{ErrorCode, ServiceError};

/// How much is said of an entity besides its properties.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Metadata {
    /// Nothing.
    None,
    /// Its ETag, and the types of properties that JSON cannot tell apart.
    Minimal,
    /// Also its addresses, its type, and the types of system properties.
    Full,
}

/// The form of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyFormat {
    /// JSON, with so much metadata.
    Json(Metadata),
    /// Atom, the only form before 2013-08-15 and none since 2015-12-11.
    Atom,
}

/// The form that a request asks its answer to have: by `$format`, else by `Accept`, else as its
/// version has it.
///
/// # Errors
/// [`ErrorCode::AtomFormatNotSupported`] where Atom is asked for, or nothing is, since 2015-12-11;
/// [`ErrorCode::JsonFormatNotSupported`] where JSON is asked for in a version before 2013-08-15;
/// [`ErrorCode::MediaTypeNotSupported`] for all else, since then also XML that is not said to be Atom.
pub fn response_format(
    format: Option<&str>,
    headers: &HeaderMap,
    version: Option<ApiVersion>,
) -> Result<BodyFormat, ServiceError> {
    let asked = match format.map(media_type) {
        Some(format) => format,
        None if headers.contains_key(header::ACCEPT) => accepted(headers, version),
        None => Some(Media::Body(BodyFormat::Atom)),
    };
    let has_atom = version < Some(ApiVersion::NO_ATOM);
    let asked = match asked {
        Some(Media::Body(asked)) => asked,
        Some(Media::Xml | Media::Any) if has_atom => BodyFormat::Atom,
        Some(Media::Any) => BodyFormat::Json(Metadata::Minimal),
        Some(Media::Xml) | None => return Err(ErrorCode::MediaTypeNotSupported.error()),
    };
    supported(asked, version)
}

/// The form of a request's body, by `Content-Type`; without one, what its version began with.
///
/// # Errors
/// As [`response_format`], but that XML is taken for Atom.
pub fn request_format(
    headers: &HeaderMap,
    version: Option<ApiVersion>,
) -> Result<BodyFormat, ServiceError> {
    let stated = text(headers, &header::CONTENT_TYPE).filter(|stated| !stated.is_empty());
    let stated = match stated.map(media_type) {
        Some(Some(Media::Body(stated))) => stated,
        Some(Some(Media::Xml)) => BodyFormat::Atom,
        None if version < Some(ApiVersion::NO_ATOM) => BodyFormat::Atom,
        None => BodyFormat::Json(Metadata::Minimal),
        Some(Some(Media::Any) | None) => return Err(ErrorCode::MediaTypeNotSupported.error()),
    };
    supported(stated, version)
}

/// The form of an error: as that of an answer, by `$format` if the answer can have the form that it names, else by
/// `Accept`, else as the version has it. Where it is Atom, errors are XML documents of their own.
#[must_use]
pub fn error_format(
    format: Option<&str>,
    headers: &HeaderMap,
    version: Option<ApiVersion>,
) -> BodyFormat {
    let of_version = match version >= Some(ApiVersion::NO_ATOM) {
        true => BodyFormat::Json(Metadata::Minimal),
        false => BodyFormat::Atom,
    };
    stated_error_format(format, headers, version).unwrap_or(of_version)
}

/// The form of an error as a request asks for it; `None` if it asks for no form that there is.
#[must_use]
pub fn stated_error_format(
    format: Option<&str>,
    headers: &HeaderMap,
    version: Option<ApiVersion>,
) -> Option<BodyFormat> {
    let stated = format.and_then(|format| response_format(Some(format), headers, version).ok());
    stated.or_else(|| match accepted(headers, version)? {
        Media::Body(accepted) => Some(accepted),
        Media::Xml => Some(BodyFormat::Atom),
        Media::Any => None,
    })
}

fn supported(format: BodyFormat, version: Option<ApiVersion>) -> Result<BodyFormat, ServiceError> {
    match (format, version) {
        (BodyFormat::Atom, Some(version)) if version >= ApiVersion::NO_ATOM => {
            Err(ErrorCode::AtomFormatNotSupported.error())
        }
        // Who states no version may have JSON nevertheless: it is what people try by hand.
        (BodyFormat::Json(_), Some(version)) if version < ApiVersion::JSON => {
            Err(ErrorCode::JsonFormatNotSupported.error())
        }
        _ => Ok(format),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Media {
    Body(BodyFormat),
    /// What may be Atom, and is the form of errors beside it.
    Xml,
    Any,
}

/// The media type of `Accept` that is wanted most, of those that the service has in this version, else of
/// those that it has in any.
fn accepted(headers: &HeaderMap, version: Option<ApiVersion>) -> Option<Media> {
    let values = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let ranges = values.flat_map(|value| value.split(','));
    let mut best: Option<((bool, u32), Media)> = None;
    for range in ranges {
        let quality = quality(range);
        let Some(media) = media_type(range).filter(|_| quality > 0) else { continue };
        let is_supported = match media {
            Media::Body(format) => supported(format, version).is_ok(),
            Media::Xml => supported(BodyFormat::Atom, version).is_ok(),
            Media::Any => true,
        };
        let rank = (is_supported, quality);
        if best.is_none_or(|(best, _)| rank > best) {
            best = Some((rank, media));
        }
    }
    best.map(|(_, media)| media)
}

/// The weight of a media range in thousandths.
fn quality(range: &str) -> u32 {
    let mut parameters = range.split(';').skip(1).map(str::trim);
    let stated = parameters.find_map(|p| p.strip_prefix("q=").or_else(|| p.strip_prefix("Q=")));
    let Some(stated) = stated else {
        return 1000;
    };
    let value = stated.trim().parse::<f32>().unwrap_or(1.0).clamp(0.0, 1.0);
    // In range, as it was clamped.
    (value * 1000.0) as u32
}

fn media_type(range: &str) -> Option<Media> {
    let mut parts = range.split(';').map(str::trim);
    let name = parts.next()?;
    let is = |other: &str| name.eq_ignore_ascii_case(other);
    if is("application/json") || is("json") {
        return metadata(parts).map(|level| Media::Body(BodyFormat::Json(level)));
    }
    // A query string has a space where somebody did not encode the plus sign.
    if is("application/atom+xml") || is("application/atom xml") || is("atom") {
        return Some(Media::Body(BodyFormat::Atom));
    }
    if is("application/xml") || is("text/xml") {
        return Some(Media::Xml);
    }
    (is("*/*") || is("application/*")).then_some(Media::Any)
}

/// The level among a JSON media type's parameters; `None` for one that the service lacks.
fn metadata<'a>(mut parameters: impl Iterator<Item = &'a str>) -> Option<Metadata> {
    let stated = parameters.find_map(|parameter| {
        let (name, level) = parameter.split_once('=')?;
        name.trim_end().eq_ignore_ascii_case("odata").then_some(level.trim().trim_matches('"'))
    });
    let is = |level: &str| stated.is_some_and(|stated| stated.eq_ignore_ascii_case(level));
    match stated {
        None => Some(Metadata::Minimal),
        Some(_) if is("nometadata") => Some(Metadata::None),
        Some(_) if is("minimalmetadata") => Some(Metadata::Minimal),
        Some(_) if is("fullmetadata") => Some(Metadata::Full),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JSON: BodyFormat = BodyFormat::Json(Metadata::Minimal);

    fn headers(name: header::HeaderName, value: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        if !value.is_empty() {
            headers.insert(name, value.parse().unwrap());
        }
        headers
    }

    fn response(accept: &str, version: &str) -> Result<BodyFormat, ErrorCode> {
        let headers = headers(header::ACCEPT, accept);
        response_format(None, &headers, ApiVersion::parse(version)).map_err(|error| error.code())
    }

    /// R-S03: the table of protocol 2.
    #[test]
    fn r_s03_accept_chooses_the_form() {
        let new = "2019-02-02";
        let level = |level| Ok(BodyFormat::Json(level));
        assert_eq!(response("application/json;odata=nometadata", new), level(Metadata::None));
        assert_eq!(response("application/json;odata=minimalmetadata", new), Ok(JSON));
        assert_eq!(response("application/json; odata=fullmetadata", new), level(Metadata::Full));
        assert_eq!(response("application/json;odata=\"fullmetadata\"", new), level(Metadata::Full));
        assert_eq!(response("application/json", new), Ok(JSON));
        assert_eq!(response("*/*", new), Ok(JSON));
        assert_eq!(response("", new), Err(ErrorCode::AtomFormatNotSupported));
        assert_eq!(response("application/atom+xml", new), Err(ErrorCode::AtomFormatNotSupported));
        // From that version on, not after it.
        let first = "2015-12-11";
        assert_eq!(response("*/*", first), Ok(JSON));
        for none in ["", "application/atom+xml"] {
            assert_eq!(response(none, first), Err(ErrorCode::AtomFormatNotSupported));
        }
        // XML that is not said to be Atom, as the C++ library's tests expect.
        for other in ["application/xml", "text/xml", "text/html"] {
            assert_eq!(response(other, new), Err(ErrorCode::MediaTypeNotSupported), "{other}");
        }
        assert_eq!(response("application/xml", "2015-07-08"), Ok(BodyFormat::Atom));
        let verbose = response("application/json;odata=verbose", new);
        assert_eq!(verbose, Err(ErrorCode::MediaTypeNotSupported));
    }

    /// R-S04: Atom for the clients of the white paper's time.
    #[test]
    fn r_s04_old_versions_have_atom() {
        for version in ["2009-09-19", "2015-07-08", ""] {
            assert_eq!(response("", version), Ok(BodyFormat::Atom), "{version}");
            assert_eq!(response("*/*", version), Ok(BodyFormat::Atom), "{version}");
            let both = response("application/atom+xml,application/xml", version);
            assert_eq!(both, Ok(BodyFormat::Atom), "{version}");
        }
        let json = response("application/json", "2009-09-19");
        assert_eq!(json, Err(ErrorCode::JsonFormatNotSupported));
        assert_eq!(response("application/json", "2013-08-15"), Ok(JSON));
        assert_eq!(response("application/json", ""), Ok(JSON));
    }

    #[test]
    fn the_heaviest_known_type_of_a_list_is_taken() {
        let new = "2019-02-02";
        assert_eq!(response("text/html, application/json;q=0.5, */*;q=0.1", new), Ok(JSON));
        let list = "application/json;q=0.3;odata=nometadata,application/json;odata=fullmetadata";
        assert_eq!(response(list, new), Ok(BodyFormat::Json(Metadata::Full)));
        let either = "application/atom+xml,application/json;q=0.5";
        assert_eq!(response(either, new), Ok(JSON), "there is no Atom any more");
        assert_eq!(response(either, "2013-08-15"), Ok(BodyFormat::Atom));
        assert_eq!(response(either, "2009-09-19"), Ok(BodyFormat::Atom), "there is no JSON yet");
        let none = response("application/json;q=0", new);
        assert_eq!(none, Err(ErrorCode::MediaTypeNotSupported));
    }

    /// R-S03: `$format` overrides `Accept`.
    #[test]
    fn r_s03_format_overrides_accept() {
        let headers = headers(header::ACCEPT, "application/atom+xml");
        let version = ApiVersion::parse("2019-02-02");
        let format = |format| response_format(Some(format), &headers, version);
        let none = Ok(BodyFormat::Json(Metadata::None));
        assert_eq!(format("application/json;odata=nometadata"), none);
        assert_eq!(format("json"), Ok(JSON));
        assert_eq!(format("atom").unwrap_err().code(), ErrorCode::AtomFormatNotSupported);
        let old = ApiVersion::parse("2011-08-18");
        for atom in ["application/atom+xml", "application/atom xml"] {
            assert_eq!(response_format(Some(atom), &headers, old), Ok(BodyFormat::Atom));
        }
        assert_eq!(format("csv").unwrap_err().code(), ErrorCode::MediaTypeNotSupported);
    }

    #[test]
    fn a_body_is_what_its_content_type_says() {
        let request = |content_type, version| {
            let headers = headers(header::CONTENT_TYPE, content_type);
            request_format(&headers, ApiVersion::parse(version)).map_err(|error| error.code())
        };
        assert_eq!(request("application/json;charset=utf-8", "2019-02-02"), Ok(JSON));
        assert_eq!(request("", "2019-02-02"), Ok(JSON));
        assert_eq!(request("", "2015-12-11"), Ok(JSON));
        assert_eq!(request("application/atom+xml", "2009-09-19"), Ok(BodyFormat::Atom));
        assert_eq!(request("", ""), Ok(BodyFormat::Atom));
        let refused = request("application/atom+xml", "2019-02-02");
        assert_eq!(refused, Err(ErrorCode::AtomFormatNotSupported));
        assert_eq!(request("text/plain", "2019-02-02"), Err(ErrorCode::MediaTypeNotSupported));
    }

    #[test]
    fn r_s05_errors_have_the_form_that_the_client_accepts() {
        let error = |accept, version| {
            error_format(None, &headers(header::ACCEPT, accept), ApiVersion::parse(version))
        };
        let level = BodyFormat::Json;
        assert_eq!(error("application/json;odata=nometadata", ""), level(Metadata::None));
        assert_eq!(error("application/json;odata=fullmetadata", ""), level(Metadata::Full));
        assert_eq!(error("application/json", "2019-02-02"), JSON);
        assert_eq!(error("", "2019-02-02"), JSON);
        assert_eq!(error("*/*", "2015-12-11"), JSON);
        assert_eq!(error("*/*", "2019-02-02"), JSON);
        assert_eq!(error("application/xml", "2019-02-02"), BodyFormat::Atom);
        assert_eq!(error("", ""), BodyFormat::Atom);
        // As long as there is Atom, who asks for nothing has it, in errors too.
        assert_eq!(error("", "2014-02-14"), BodyFormat::Atom);
        assert_eq!(error("*/*", "2015-07-08"), BodyFormat::Atom);
        assert_eq!(error("application/atom+xml,application/xml", "2009-09-19"), BodyFormat::Atom);
    }
}
