//! [`Element`]: a client's document as a tree, bounded in depth and size.

use quick_xml::Error as QuickError;
use quick_xml::NsReader;
use quick_xml::XmlVersion;
use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::{BytesRef, BytesStart, Event};
use quick_xml::name::ResolveResult;

use super::error::XmlError;
use crate::error::shown;

/// Elements within elements. The deepest document, an Atom entry, has five.
const MAX_DEPTH: usize = 16;

/// Elements in all. An Atom entry of 255 properties has 270; one may have null properties besides.
const MAX_ELEMENTS: usize = 2_048;

/// Attributes of an element, namespaces included. An Atom entry has five; the reader compares each
/// with all before it.
const MAX_ATTRIBUTES: usize = 32;

pub(in crate::wire) const ATOM: &str = "http://www.w3.org/2005/Atom";
pub(in crate::wire) const DATA: &str = "http://schemas.microsoft.com/ado/2007/08/dataservices";
pub(in crate::wire) const METADATA: &str =
    "http://schemas.microsoft.com/ado/2007/08/dataservices/metadata";

/// A namespace of the protocol's documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::wire) enum Namespace {
    None,
    Atom,
    Data,
    Metadata,
    Other,
}

impl From<ResolveResult<'_>> for Namespace {
    fn from(resolved: ResolveResult<'_>) -> Self {
        match resolved {
            ResolveResult::Unbound => Self::None,
            ResolveResult::Bound(it) if it.as_ref() == ATOM => Self::Atom,
            ResolveResult::Bound(it) if it.as_ref() == DATA => Self::Data,
            ResolveResult::Bound(it) if it.as_ref() == METADATA => Self::Metadata,
            _ => Self::Other,
        }
    }
}

/// An element, its text, and what is in it.
#[derive(Clone, Debug)]
pub(in crate::wire) struct Element {
    pub(in crate::wire) namespace: Namespace,
    pub(in crate::wire) name: String,
    attributes: Vec<(Namespace, String, String)>,
    /// All text directly in it, references resolved. Who takes it for a value asks [`leaf_text`](Self::leaf_text).
    text: String,
    pub(in crate::wire) children: Vec<Element>,
}

impl Element {
    /// The root of a document.
    pub(in crate::wire) fn parse(body: &[u8]) -> Result<Self, XmlError> {
        let text = std::str::from_utf8(body).map_err(|error| XmlError::Malformed {
            offset: error.valid_up_to() as u64,
            reason: "expected UTF-8".to_owned(),
        })?;
        let reader = NsReader::from_str(text.trim_start_matches('\u{feff}'));
        let mut builder = Builder { reader, open: Vec::new(), root: None, elements: 0 };
        while builder.step()? {}
        let root = builder.root.take();
        root.ok_or_else(|| builder.malformed("expected an element, found none"))
    }

    /// The value of an attribute.
    pub(in crate::wire) fn attribute(&self, namespace: Namespace, name: &str) -> Option<&str> {
        let mut attributes = self.attributes.iter();
        attributes.find(|(ns, it, _)| *ns == namespace && it == name).map(|(_, _, value)| &**value)
    }

    /// The first child of this name.
    pub(in crate::wire) fn child(&self, name: &str) -> Option<&Self> {
        self.children.iter().find(|child| child.name == name)
    }

    /// The first child of this name, which must be there.
    pub(super) fn required(&self, name: &'static str) -> Result<&Self, XmlError> {
        let missing = || XmlError::Missing { parent: shown(&self.name), expected: name };
        self.child(name).ok_or_else(missing)
    }

    /// The text of an element that holds no others.
    pub(in crate::wire) fn leaf_text(&self) -> Result<&str, XmlError> {
        self.children.first().map_or(Ok(&self.text), |child| Err(self.unexpected(child)))
    }

    /// Refuses text beside its children, but for space.
    pub(in crate::wire) fn no_text(&self) -> Result<(), XmlError> {
        if self.text.trim().is_empty() {
            return Ok(());
        }
        Err(XmlError::UnexpectedText { parent: shown(&self.name), found: shown(&self.text) })
    }

    /// The children, which are all of this name and not too many.
    pub(super) fn list_of(&self, name: &'static str, limit: usize) -> Result<&[Self], XmlError> {
        self.no_text()?;
        if self.children.len() > limit {
            return Err(XmlError::TooMany { name, limit });
        }
        let other = self.children.iter().find(|child| child.name != name);
        other.map_or(Ok(&self.children), |other| Err(self.unexpected(other)))
    }

    /// Refuses text, children of other names, and more than one of a name.
    pub(super) fn only(&self, names: &[&str]) -> Result<(), XmlError> {
        self.no_text()?;
        let mut seen: Vec<&str> = Vec::new();
        for child in &self.children {
            if !names.contains(&&*child.name) || seen.contains(&&*child.name) {
                return Err(self.unexpected(child));
            }
            seen.push(&child.name);
        }
        Ok(())
    }

    fn unexpected(&self, child: &Self) -> XmlError {
        XmlError::Unexpected { parent: shown(&self.name), found: shown(&child.name) }
    }

    /// That the text is not what was expected.
    pub(super) fn wrong(&self, expected: &'static str) -> XmlError {
        XmlError::Value { element: shown(&self.name), expected, found: shown(&self.text) }
    }

    /// That the text is a number, and not one of those that were expected.
    pub(super) fn out_of_range(&self, expected: &'static str) -> XmlError {
        XmlError::OutOfRange { element: shown(&self.name), expected, found: shown(&self.text) }
    }

    /// The first child of this name, unless there is nothing in it.
    pub(super) fn optional(&self, name: &str) -> Option<&Self> {
        self.child(name).filter(|child| !child.children.is_empty() || !child.text.trim().is_empty())
    }

    pub(super) fn boolean(&self) -> Result<bool, XmlError> {
        match self.leaf_text()?.trim() {
            text if text.eq_ignore_ascii_case("true") => Ok(true),
            text if text.eq_ignore_ascii_case("false") => Ok(false),
            _ => Err(self.wrong("true or false")),
        }
    }
}

struct Builder<'a> {
    reader: NsReader<&'a [u8]>,
    /// Elements begun and not ended, outermost first.
    open: Vec<Element>,
    root: Option<Element>,
    elements: usize,
}

impl Builder<'_> {
    /// Takes the next event; false at the end.
    fn step(&mut self) -> Result<bool, XmlError> {
        let event = self.reader.read_event().map_err(|error| self.quick(&error))?;
        match event {
            Event::Start(start) => self.start(&start)?,
            Event::Empty(start) => {
                self.start(&start)?;
                self.end();
            }
            Event::End(_) => self.end(),
            Event::Text(text) => self.plain_text(&text.xml10_content())?,
            Event::CData(text) => self.plain_text(&text.xml10_content())?,
            Event::GeneralRef(reference) => self.reference(&reference)?,
            Event::DocType(_) => return Err(self.malformed("a document type is not taken")),
            Event::Decl(_) | Event::PI(_) | Event::Comment(_) => {}
            Event::Eof if self.open.is_empty() => return Ok(false),
            Event::Eof => return Err(self.malformed("expected an end tag, found the end")),
        }
        Ok(true)
    }

    fn start(&mut self, start: &BytesStart<'_>) -> Result<(), XmlError> {
        if self.root.is_some() {
            return Err(self.malformed("expected the end, found another element"));
        }
        self.elements += 1;
        for (what, found, limit) in [
            ("levels of elements", self.open.len(), MAX_DEPTH - 1),
            ("elements", self.elements, MAX_ELEMENTS),
        ] {
            if found > limit {
                return Err(XmlError::TooLarge { what, limit });
            }
        }
        let resolver = self.reader.resolver();
        let (namespace, name) = resolver.resolve_element(start.name());
        // The reader lets these pass.
        if name.as_ref().starts_with(|it: char| matches!(it, '0'..='9' | '-' | '.')) {
            return Err(self.malformed("expected a name of an element"));
        }
        let mut attributes = Vec::new();
        for (index, attribute) in start.attributes().enumerate() {
            if index == MAX_ATTRIBUTES {
                let (what, limit) = ("attributes of an element", MAX_ATTRIBUTES);
                return Err(XmlError::TooLarge { what, limit });
            }
            let attribute = attribute.map_err(|error| self.malformed(&error.to_string()))?;
            let (namespace, name) = resolver.resolve_attribute(attribute.key);
            let value = attribute.normalized_value(XmlVersion::Implicit1_0);
            let value = value.map_err(|error| self.quick(&error))?;
            attributes.push((namespace.into(), name.as_ref().to_owned(), value.into_owned()));
        }
        self.open.push(Element {
            namespace: namespace.into(),
            name: name.as_ref().to_owned(),
            attributes,
            text: String::new(),
            children: Vec::new(),
        });
        Ok(())
    }

    /// The reader has checked that tags match.
    fn end(&mut self) {
        let Some(element) = self.open.pop() else { return };
        match self.open.last_mut() {
            Some(parent) => parent.children.push(element),
            None => self.root = Some(element),
        }
    }

    fn plain_text(&mut self, text: &str) -> Result<(), XmlError> {
        // The reader lets these pass. As references they may stand: we print them so ourselves.
        if text.contains(|it: char| it < ' ' && !matches!(it, '\t' | '\n' | '\r')) {
            return Err(self.malformed("expected text, found a control character"));
        }
        if text.contains(['\u{fffe}', '\u{ffff}']) {
            return Err(self.malformed("expected text, found what is no character"));
        }
        self.text(text)
    }

    fn text(&mut self, text: &str) -> Result<(), XmlError> {
        match self.open.last_mut() {
            Some(element) => element.text.push_str(text),
            None if text.trim().is_empty() => {}
            None => return Err(self.malformed("expected an element, found text")),
        }
        Ok(())
    }

    fn reference(&mut self, reference: &BytesRef<'_>) -> Result<(), XmlError> {
        let character = reference.resolve_char_ref().map_err(|error| self.quick(&error))?;
        match (character, resolve_predefined_entity(reference)) {
            (Some(character), _) => self.text(character.encode_utf8(&mut [0; 4])),
            (None, Some(text)) => self.text(text),
            (None, None) => Err(self.malformed("an unknown entity")),
        }
    }

    fn quick(&self, error: &QuickError) -> XmlError {
        self.malformed(&error.to_string())
    }

    fn malformed(&self, reason: &str) -> XmlError {
        XmlError::Malformed { offset: self.reader.buffer_position(), reason: shown(reason) }
    }
}
