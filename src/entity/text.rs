//! [`Reader`]: a text read character by character, for the small formats of this room.

use std::ops::RangeInclusive;

use super::error::ParseError;

/// Reads `text` as a `what`; errors name the column, in characters from 1.
pub(super) struct Reader<'a> {
    what: &'static str,
    text: &'a str,
    /// Of the next character, in bytes; always on a character's boundary.
    at: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(what: &'static str, text: &'a str) -> Self {
        Self { what, text, at: 0 }
    }

    pub(super) fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    pub(super) fn at_digit(&self) -> bool {
        self.peek().is_some_and(|c| c.is_ascii_digit())
    }

    /// Takes the next character if it is one of these.
    pub(super) fn accepts(&mut self, any: &[char]) -> Option<char> {
        let next = self.peek().filter(|c| any.contains(c))?;
        self.at += next.len_utf8();
        Some(next)
    }

    /// Takes characters as long as they fit.
    pub(super) fn take_while(&mut self, fits: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let end = rest.find(|c| !fits(c)).unwrap_or(rest.len());
        self.at += end;
        rest.get(..end).unwrap_or_default()
    }

    /// Takes this character.
    pub(super) fn literal(&mut self, expected: char) -> Result<(), ParseError> {
        match self.accepts(&[expected]) {
            Some(_) => Ok(()),
            None => Err(self.error(format!("{expected:?}"))),
        }
    }

    /// Takes a decimal number of exactly that many digits, in a range.
    pub(super) fn number(
        &mut self,
        digits: usize,
        range: RangeInclusive<u64>,
        expected: &'static str,
    ) -> Result<u64, ParseError> {
        let start = self.at;
        let mut value = 0;
        for _ in 0..digits {
            match self.peek().and_then(|c| c.to_digit(10)) {
                Some(digit) => value = value * 10 + u64::from(digit),
                None => return Err(self.error(expected)),
            }
            self.at += 1;
        }
        if range.contains(&value) {
            return Ok(value);
        }
        self.at = start;
        Err(self.error(expected))
    }

    /// Takes a hexadecimal digit.
    pub(super) fn hexadecimal(&mut self) -> Result<u8, ParseError> {
        match self.peek().and_then(|c| c.to_digit(16)) {
            Some(digit) => {
                self.at += 1;
                Ok(digit as u8)
            }
            None => Err(self.error("a hexadecimal digit")),
        }
    }

    /// Fails unless everything was read.
    pub(super) fn finish(&self) -> Result<(), ParseError> {
        if self.rest().is_empty() { Ok(()) } else { Err(self.error("the end")) }
    }

    /// That something else was expected here.
    #[cold]
    pub(super) fn error(&self, expected: impl Into<Box<str>>) -> ParseError {
        let column = self.text.get(..self.at).unwrap_or_default().chars().count() + 1;
        ParseError::new(self.what, self.text, column, expected.into(), self.peek())
    }

    /// That the text is of the right form, but its value is not in the type's range.
    #[cold]
    pub(super) fn out_of_range(&self, expected: impl Into<Box<str>>) -> ParseError {
        ParseError::out_of_range(self.what, self.text, expected.into())
    }
}
