//! [`Lexer`]: JSON as tokens (RFC 8259). Text without escapes borrows from the body.

use std::borrow::Cow;

use super::error::{JsonError, JsonErrorKind};

/// Objects and arrays within each other, in members that are passed over.
const MAX_DEPTH: usize = 64;

/// A token. Numbers have the form of JSON, and keep their text: it tells 5 from 5.0.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token<'a> {
    ObjectStart,
    ObjectEnd,
    ArrayStart,
    ArrayEnd,
    Colon,
    Comma,
    String(Cow<'a, str>),
    Number(&'a str),
    Boolean(bool),
    Null,
    End,
}

pub(super) struct Lexer<'a> {
    text: &'a str,
    at: usize,
    /// Where the last token begins.
    token_at: usize,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(body: &'a [u8]) -> Result<Self, JsonError> {
        let text = std::str::from_utf8(body).map_err(|error| JsonError {
            offset: error.valid_up_to(),
            kind: JsonErrorKind::Syntax { expected: "UTF-8", found: "another byte".to_owned() },
        })?;
        // Some writers of files begin with a byte order mark.
        let at = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
        Ok(Self { text, at, token_at: at })
    }

    fn bytes(&self) -> &'a [u8] {
        self.text.as_bytes()
    }

    fn peek(&self) -> Option<u8> {
        self.bytes().get(self.at).copied()
    }

    /// The text between two places that were found at ASCII bytes.
    fn slice(&self, from: usize, to: usize) -> &'a str {
        self.text.get(from..to).unwrap_or_default()
    }

    #[inline]
    fn skip_space(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek() {
            self.at += 1;
        }
        self.token_at = self.at;
    }

    /// Takes this brace, colon or comma if it comes next; says whether it did.
    #[inline]
    pub(super) fn take(&mut self, punctuation: u8) -> bool {
        self.skip_space();
        let found = self.peek() == Some(punctuation);
        self.at += usize::from(found);
        found
    }

    #[inline]
    pub(super) fn next(&mut self) -> Result<Token<'a>, JsonError> {
        self.skip_space();
        let Some(first) = self.peek() else { return Ok(Token::End) };
        self.at += 1;
        match first {
            b'{' => Ok(Token::ObjectStart),
            b'}' => Ok(Token::ObjectEnd),
            b'[' => Ok(Token::ArrayStart),
            b']' => Ok(Token::ArrayEnd),
            b':' => Ok(Token::Colon),
            b',' => Ok(Token::Comma),
            b'"' => self.string().map(Token::String),
            b'-' | b'0'..=b'9' => self.number().map(Token::Number),
            b't' => self.word("true", Token::Boolean(true)),
            b'f' => self.word("false", Token::Boolean(false)),
            b'n' => self.word("null", Token::Null),
            _ => Err(self.expected("JSON")),
        }
    }

    /// Takes exactly this brace or colon.
    #[inline]
    pub(super) fn expect(
        &mut self,
        punctuation: u8,
        expected: &'static str,
    ) -> Result<(), JsonError> {
        if self.take(punctuation) { Ok(()) } else { Err(self.unexpected(expected)) }
    }

    /// What is wrong with the next token: that it is none, or that something else was expected.
    #[cold]
    pub(super) fn unexpected(&mut self, expected: &'static str) -> JsonError {
        match self.next() {
            Ok(_) => self.expected(expected),
            Err(error) => error,
        }
    }

    /// Passes over the value that begins with this token.
    pub(super) fn skip(&mut self, first: &Token<'_>) -> Result<(), JsonError> {
        let mut open = Vec::new();
        let mut token = first.clone();
        loop {
            match token {
                Token::ObjectStart | Token::ArrayStart if open.len() == MAX_DEPTH => {
                    return Err(self.expected("at most 64 objects and arrays within each other"));
                }
                Token::ObjectStart | Token::ArrayStart => {
                    let array = token == Token::ArrayStart;
                    open.push(array);
                    match self.next()? {
                        Token::ArrayEnd if array => _ = open.pop(),
                        Token::ObjectEnd if !array => _ = open.pop(),
                        inner if array => {
                            token = inner;
                            continue;
                        }
                        name => {
                            token = self.member(&name)?;
                            continue;
                        }
                    }
                }
                Token::String(_) | Token::Number(_) | Token::Boolean(_) | Token::Null => {}
                _ => return Err(self.expected("a value")),
            }
            // A value has ended: close what it was the last of, or go on to the next.
            loop {
                let Some(&array) = open.last() else { return Ok(()) };
                match self.next()? {
                    Token::ArrayEnd if array => _ = open.pop(),
                    Token::ObjectEnd if !array => _ = open.pop(),
                    Token::Comma => break,
                    _ => return Err(self.expected("a comma or the end of the object or array")),
                }
            }
            token = self.next()?;
            if open.last() == Some(&false) {
                token = self.member(&token)?;
            }
        }
    }

    /// After a member's name: its value's first token.
    fn member(&mut self, name: &Token<'_>) -> Result<Token<'a>, JsonError> {
        let Token::String(_) = name else { return Err(self.expected("a name")) };
        self.expect(b':', "a colon")?;
        self.next()
    }

    fn word(&mut self, word: &'static str, token: Token<'a>) -> Result<Token<'a>, JsonError> {
        let end = self.token_at + word.len();
        if self.bytes().get(self.token_at..end) != Some(word.as_bytes()) {
            return Err(self.expected("JSON"));
        }
        self.at = end;
        Ok(token)
    }

    fn number(&mut self) -> Result<&'a str, JsonError> {
        self.at = self.token_at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        match self.peek() {
            Some(b'0') => self.at += 1,
            _ => self.digits()?,
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            self.digits()?;
        }
        if let Some(b'0'..=b'9') = self.peek() {
            return Err(self.expected_here("a number without leading zeros"));
        }
        Ok(self.slice(self.token_at, self.at))
    }

    fn digits(&mut self) -> Result<(), JsonError> {
        let began = self.at;
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
        if self.at == began { Err(self.expected_here("a digit")) } else { Ok(()) }
    }

    /// The rest of a string whose quote was taken.
    fn string(&mut self) -> Result<Cow<'a, str>, JsonError> {
        let began = self.at;
        self.plain();
        if self.peek() == Some(b'"') {
            self.at += 1;
            return Ok(Cow::Borrowed(self.slice(began, self.at - 1)));
        }
        let mut text = self.slice(began, self.at).to_owned();
        loop {
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(Cow::Owned(text));
                }
                Some(b'\\') => {
                    self.at += 1;
                    text.push(self.escape()?);
                }
                Some(_) => return Err(self.expected_here("an escaped control character")),
                None => return Err(self.expected_here("the end of a string")),
            }
            let from = self.at;
            self.plain();
            text.push_str(self.slice(from, self.at));
        }
    }

    /// Takes a string without escapes, if one comes at once.
    #[inline]
    pub(super) fn take_plain_string(&mut self) -> Option<&'a str> {
        let rest = self.rest().strip_prefix(b"\"")?;
        let length = super::escape::plain_prefix(rest);
        if rest.get(length) != Some(&b'"') {
            return None;
        }
        let start = self.at + 1;
        self.at = start + length + 1;
        Some(self.slice(start, start + length))
    }

    /// Goes to the next byte that is not itself within a string: quote, backslash, control.
    fn plain(&mut self) {
        let rest = self.bytes().get(self.at..).unwrap_or_default();
        self.at += super::escape::plain_prefix(rest);
    }

    fn escape(&mut self) -> Result<char, JsonError> {
        let Some(byte) = self.peek() else { return Err(self.expected_here("an escape")) };
        let character = match byte {
            b'"' | b'\\' | b'/' => char::from(byte),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => return self.unicode_escape(),
            _ => return Err(self.expected_here("an escape")),
        };
        self.at += 1;
        Ok(character)
    }

    /// After a backslash: `u` with four hexadecimal digits, twice for a surrogate pair.
    fn unicode_escape(&mut self) -> Result<char, JsonError> {
        let began = self.at;
        let mut units = [self.unit()?, 0];
        let mut count = 1;
        if (0xD800..0xDC00).contains(&units[0]) && self.peek() == Some(b'\\') {
            self.at += 1;
            units[1] = self.unit()?;
            count = 2;
        }
        let decoded = char::decode_utf16(units.into_iter().take(count)).next();
        match decoded {
            Some(Ok(character)) => Ok(character),
            // A String is Unicode text: half of a pair has no place in it.
            _ => {
                self.at = began;
                Err(self.expected_here("a whole surrogate pair"))
            }
        }
    }

    fn unit(&mut self) -> Result<u16, JsonError> {
        let hex = self.bytes().get(self.at + 1..self.at + 5).unwrap_or_default();
        let text = std::str::from_utf8(hex).unwrap_or_default();
        let plausible = text.len() == 4 && hex.iter().all(u8::is_ascii_hexdigit);
        match u16::from_str_radix(text, 16) {
            Ok(unit) if plausible && self.peek() == Some(b'u') => {
                self.at += 5;
                Ok(unit)
            }
            _ => Err(self.expected_here("u and four hexadecimal digits")),
        }
    }

    /// That something else was expected where the last token begins.
    #[cold]
    pub(super) fn expected(&self, expected: &'static str) -> JsonError {
        self.syntax(self.token_at, expected)
    }

    #[cold]
    fn expected_here(&self, expected: &'static str) -> JsonError {
        self.syntax(self.at, expected)
    }

    fn syntax(&self, offset: usize, expected: &'static str) -> JsonError {
        let found = match self.text.get(offset..).and_then(|rest| rest.chars().next()) {
            Some(character) => format!("{character:?}"),
            None => "the end".to_owned(),
        };
        JsonError { offset, kind: JsonErrorKind::Syntax { expected, found } }
    }

    /// That this is wrong with the value where the last token begins.
    #[cold]
    pub(super) fn wrong(&self, kind: JsonErrorKind) -> JsonError {
        JsonError { offset: self.token_at, kind }
    }

    /// Where the last token begins.
    pub(super) fn token_at(&self) -> usize {
        self.token_at
    }

    /// Where the next token is looked for.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// The bytes that were not read.
    pub(super) fn rest(&self) -> &'a [u8] {
        self.bytes().get(self.at..).unwrap_or_default()
    }

    /// Passes over these bytes, if they come next; says whether they did.
    #[inline]
    pub(super) fn pass(&mut self, bytes: &[u8]) -> bool {
        let found = self.rest().starts_with(bytes);
        self.at += if found { bytes.len() } else { 0 };
        found
    }
}
