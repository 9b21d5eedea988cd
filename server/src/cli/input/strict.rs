//! [`Strict`]: the bytes of a CSV text, up to where its quotes are not those of RFC 4180 or a record is
//! too long.
//!
//! The reader behind it takes whatever comes for CSV: a quote that is not closed makes one cell of all
//! that follows. So each byte passes here first. What has passed of a record that turns out to be wrong
//! has no end, and is no record there. A quote within a cell that does not begin with one is itself, as
//! nothing is lost by that.

use std::collections::VecDeque;
use std::fmt::Display;
use std::io::{self, BufRead, Chain, Read};

use memchr::memchr3;

use super::{BYTE_ORDER_MARK, Fault, Place};

/// A text that is read as long as it is CSV.
pub(super) struct Strict<R> {
    /// What looked like the beginning of a byte order mark comes first.
    reader: Chain<&'static [u8], R>,
    grammar: Grammar,
    /// What comes after the bytes that have passed.
    fault: Option<Fault>,
}

/// What of a record comes before a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nothing; perhaps a part of a line's end, or blank lines.
    Nothing,
    /// A comma.
    Comma,
    /// A cell that does not begin with a quote.
    Bare,
    /// A quote that is open.
    Open,
    /// A quote after one that was open: it is the cell's end, or the first of two.
    Quote,
}

/// Where in the text a byte is.
struct Grammar {
    state: State,
    /// Whether the last byte was a CR, which ends a line also if no LF follows.
    is_after_cr: bool,
    line: u64,
    /// The line on which the record begins.
    record_line: u64,
    record_bytes: usize,
    /// The most that a record may have.
    longest: usize,
    /// The lines on which records begin that nobody has asked for.
    begins: VecDeque<u64>,
}

impl<R: BufRead> Strict<R> {
    /// A text of which no record is to have more bytes than that.
    pub(super) fn new(mut reader: R, longest: usize) -> io::Result<Self> {
        // It may come in parts, as a pipe gives it.
        let mut left = BYTE_ORDER_MARK;
        while let Some((byte, rest)) = left.split_first()
            && reader.fill_buf()?.first() == Some(byte)
        {
            reader.consume(1);
            left = rest;
        }
        let seen = BYTE_ORDER_MARK.strip_suffix(left).filter(|_| !left.is_empty());
        let reader = seen.unwrap_or_default().chain(reader);
        let grammar = Grammar {
            state: State::Nothing,
            is_after_cr: false,
            line: 1,
            record_line: 1,
            record_bytes: 0,
            longest,
            begins: VecDeque::new(),
        };
        Ok(Self { reader, grammar, fault: None })
    }

    /// The line on which the next record begins, of those that have passed; asked for once a record.
    pub(super) fn next_line(&mut self) -> u64 {
        self.grammar.begins.pop_front().unwrap_or(self.grammar.line)
    }
}

impl<R: BufRead> Read for Strict<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let Self { reader, grammar, fault } = self;
        if let Some(fault) = fault.take() {
            return Err(io::Error::other(fault));
        }
        let input = reader.fill_buf().map_err(|error| grammar.wrong(&error));
        let input = input.map_err(io::Error::other)?;
        if input.is_empty() {
            return grammar.end().map(|()| 0).map_err(io::Error::other);
        }
        let offered = input.get(..out.len()).unwrap_or(input);
        let (passed, wrong) = grammar.pass(offered);
        out.split_at_mut(passed).0.copy_from_slice(offered.split_at(passed).0);
        *fault = wrong;
        reader.consume(passed);
        match fault.take_if(|_| passed == 0) {
            Some(fault) => Err(io::Error::other(fault)),
            None => Ok(passed),
        }
    }
}

impl Grammar {
    /// How many bytes are right, and what is wrong then.
    fn pass(&mut self, bytes: &[u8]) -> (usize, Option<Fault>) {
        let mut passed = 0;
        while let Some((byte, rest)) = bytes.get(passed..).and_then(<[u8]>::split_first) {
            if let Err(wrong) = self.step(*byte) {
                return (passed, Some(wrong));
            }
            let same = self.same(rest);
            self.is_after_cr &= same == 0;
            passed += 1 + same;
            self.record_bytes += 1 + same;
            let longest = self.longest;
            if self.record_bytes > longest && self.state != State::Nothing {
                let reason = format_args!("expected a record of at most {longest} bytes");
                return (passed, Some(self.wrong(&reason)));
            }
        }
        (passed, None)
    }

    fn step(&mut self, byte: u8) -> Result<(), Fault> {
        let before = self.state;
        self.state = match (before, byte) {
            (State::Open, b'"') => State::Quote,
            (State::Open, _) | (State::Quote, b'"') => State::Open,
            (_, b'\r' | b'\n') => State::Nothing,
            (_, b',') => State::Comma,
            (State::Quote, _) => return Err(self.wrong(&"a cell goes on after its closing quote")),
            (State::Nothing | State::Comma, b'"') => State::Open,
            _ => State::Bare,
        };
        if before == State::Nothing && self.state != State::Nothing {
            (self.record_line, self.record_bytes) = (self.line, 0);
            self.begins.push_back(self.line);
        }
        self.line += u64::from(byte == b'\r' || byte == b'\n' && !self.is_after_cr);
        self.is_after_cr = byte == b'\r';
        Ok(())
    }

    /// How many bytes would be steps that change nothing.
    fn same(&self, bytes: &[u8]) -> usize {
        let end = match self.state {
            State::Bare => memchr3(b',', b'\r', b'\n', bytes),
            State::Open => memchr3(b'"', b'\r', b'\n', bytes),
            State::Nothing | State::Comma | State::Quote => return 0,
        };
        end.unwrap_or(bytes.len())
    }

    fn end(&self) -> Result<(), Fault> {
        match self.state {
            State::Open => Err(self.wrong(&"a quote is not closed")),
            _ => Ok(()),
        }
    }

    fn wrong(&self, reason: &dyn Display) -> Fault {
        Fault { line: self.record_line, place: Place::Line, reason: reason.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use csv::{ReaderBuilder, StringRecord};
    use proptest::prelude::*;

    use super::*;

    fn reader<R: Read>(text: R) -> csv::Reader<R> {
        ReaderBuilder::new().has_headers(false).flexible(true).from_reader(text)
    }

    /// The records and their lines, as many as are read, and what stopped that.
    fn strictly(text: &str, buffer: usize) -> (Vec<(u64, StringRecord)>, Option<String>) {
        let text = BufReader::with_capacity(buffer, text.as_bytes());
        let mut reader = reader(Strict::new(text, 40).unwrap());
        let (mut records, mut record) = (Vec::new(), StringRecord::new());
        loop {
            match reader.read_record(&mut record) {
                Ok(true) => records.push((reader.get_mut().next_line(), record.clone())),
                Ok(false) => return (records, None),
                Err(error) => return (records, Some(error.to_string())),
            }
        }
    }

    /// R-S12: whatever the parts are in which a text comes.
    #[test]
    fn a_byte_order_mark_is_passed_over() {
        for (text, expected) in [
            ("\u{feff}a,b", &["a", "b"][..]),
            ("\u{feff}\"a\"", &["a"]),
            // Their first one and two bytes are those of a mark.
            ("\u{f000}", &["\u{f000}"]),
            ("\u{fefe}a", &["\u{fefe}a"]),
        ] {
            for buffer in 1..5 {
                let (records, fault) = strictly(text, buffer);
                assert_eq!(fault, None);
                assert_eq!(records, [(1, StringRecord::from(expected))], "{buffer} at once");
            }
        }
        assert_eq!(strictly("\u{feff}", 1), (Vec::new(), None));
    }

    #[test]
    fn what_is_wrong_is_told_after_the_records_before_it() {
        let open = "a quote is not closed";
        let after = "a cell goes on after its closing quote";
        let long = "expected a record of at most 40 bytes";
        let x = "x".repeat(41);
        for (text, records, fault) in [
            ("", 0, None),
            ("a,\"b\"\n\"a\",\"\"\"\"", 2, None),
            ("a\n\n5\" pipe,x\"y\"\n", 2, None),
            ("a\nb,\"c\nd,e\n", 1, Some((2, open))),
            ("a\r\n\r\n\"b\nc\"\r\n\"", 2, Some((5, open))),
            ("a\r\r\"b\rc\r\nd\"\r\"", 2, Some((6, open))),
            ("\"a\rbc\nd\"\n\"", 1, Some((4, open))),
            ("\"", 0, Some((1, open))),
            ("a\n\"b\"\"", 1, Some((2, open))),
            ("\"a\nb\"\n\"Ann\" x\n", 1, Some((3, after))),
            ("a\n\"b\" ,c\n", 1, Some((2, after))),
            (&x[1..], 1, None),
            (&format!("{}\r\n", &x[1..]), 1, None),
            (&format!("a\n{x}"), 1, Some((2, long))),
            (&format!("a\n\n\"{}", &x.replace('x', "\n")), 1, Some((3, long))),
            (&"\n".repeat(100), 0, None),
        ] {
            for buffer in [1, 3, 7, 8192] {
                let (read, found) = strictly(text, buffer);
                let expected = fault.map(|(line, reason)| format!("line {line}: {reason}"));
                assert_eq!((read.len(), found), (records, expected), "{text:?}");
            }
        }
    }

    proptest! {
        /// What passes is read as it is without looking.
        #[test]
        fn nothing_else_changes(text in "\u{feff}?[\",\n\r ab]{0,30}", buffer in 1usize..9) {
            let (records, fault) = strictly(&text, buffer);
            if fault.is_none() {
                let plain: Vec<_> = reader(text.as_bytes()).records().map(Result::unwrap).collect();
                let strict: Vec<_> = records.into_iter().map(|(_, record)| record).collect();
                prop_assert_eq!(strict, plain);
            }
        }

        #[test]
        fn each_record_has_its_line(text in "[,\n ab]{0,30}", buffer in 1usize..9) {
            let lines: Vec<_> = text.split('\n').collect();
            for end in ["\n", "\r\n", "\r"] {
                for (line, record) in strictly(&text.replace('\n', end), buffer).0 {
                    let line = lines[usize::try_from(line).unwrap() - 1];
                    prop_assert_eq!(record.get(0), line.split(',').next());
                }
            }
        }
    }
}
