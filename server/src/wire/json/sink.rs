//! [`Sink`]: where printed text goes: to a body, or by way of a [`RowWriter`].
//!
//! A row is made of many short texts, and to append one to a `Vec` is a call of memcpy, of some thirty
//! instructions. In a buffer of known size it is two stores that may overlap, and a string is copied
//! and looked through at once; the row then goes to the body in one piece.
//!
//! Invariant: what is in the buffer comes after all that is in the body.

use super::escape::{copy_plain, push_string};

/// Bytes of a row that are put together.
pub(super) const ROOM: usize = 2048;

/// Takes text, part after part.
pub(super) trait Sink {
    /// Adds what is JSON already.
    fn put(&mut self, text: &[u8]);

    /// Adds a string with its quotes, escaped.
    fn string(&mut self, text: &str);

    /// The body with all that was added so far, to add more to it.
    fn body(&mut self) -> &mut Vec<u8>;
}

impl Sink for Vec<u8> {
    #[inline]
    fn put(&mut self, text: &[u8]) {
        self.extend_from_slice(text);
    }

    #[inline]
    fn string(&mut self, text: &str) {
        push_string(self, text);
    }

    #[inline]
    fn body(&mut self) -> &mut Vec<u8> {
        self
    }
}

/// A row in the making. What does not fit the buffer goes to the body directly, after what is there.
pub(super) struct RowWriter<'a> {
    body: &'a mut Vec<u8>,
    buffer: &'a mut [u8; ROOM],
    /// How much of the buffer is not in the body yet.
    len: usize,
}

impl<'a> RowWriter<'a> {
    pub(super) fn new(body: &'a mut Vec<u8>, buffer: &'a mut [u8; ROOM]) -> Self {
        Self { body, buffer, len: 0 }
    }

    /// Ends the row: all of it is in the body.
    #[inline]
    pub(super) fn finish(&mut self) {
        self.body.extend_from_slice(self.buffer.get(..self.len).unwrap_or_default());
        self.len = 0;
    }
}

impl Sink for RowWriter<'_> {
    // Always: the lengths of many are known where they are put.
    #[inline(always)]
    fn put(&mut self, text: &[u8]) {
        match self.buffer.get_mut(self.len..).and_then(|room| room.get_mut(..text.len())) {
            Some(room) => {
                copy(room, text);
                self.len += text.len();
            }
            None => self.body().extend_from_slice(text),
        }
    }

    #[inline(never)]
    fn string(&mut self, text: &str) {
        let room = self.buffer.get_mut(self.len..).unwrap_or_default();
        match copy_quoted(room, text.as_bytes()) {
            Some(written) => self.len += written,
            None => push_string(self.body(), text),
        }
    }

    #[inline(never)]
    fn body(&mut self) -> &mut Vec<u8> {
        self.finish();
        self.body
    }
}

/// Copies a text with quotes around it; returns how long that is, or `None` if it does not fit or has to be
/// escaped.
#[inline]
fn copy_quoted(room: &mut [u8], text: &[u8]) -> Option<usize> {
    let [open, inner @ ..] = room.get_mut(..text.len() + 2)? else { return None };
    let (close, inner) = inner.split_last_mut()?;
    (*open, *close) = (b'"', b'"');
    copy_plain(inner, text).then_some(text.len() + 2)
}

/// Copies a text to as many bytes.
#[inline]
fn copy(room: &mut [u8], text: &[u8]) {
    match text.len() {
        65.. => room.copy_from_slice(text),
        33.. => copy_ends::<32>(room, text),
        16.. => copy_ends::<16>(room, text),
        8.. => copy_ends::<8>(room, text),
        4.. => copy_ends::<4>(room, text),
        2.. => copy_ends::<2>(room, text),
        _ => copy_ends::<1>(room, text),
    }
}

/// Copies a text of `N` to `2 * N` bytes, or none.
#[inline]
fn copy_ends<const N: usize>(room: &mut [u8], text: &[u8]) {
    if let (Some(to), Some(from)) = (room.first_chunk_mut(), text.first_chunk::<N>()) {
        *to = *from;
    }
    if let (Some(to), Some(from)) = (room.last_chunk_mut(), text.last_chunk::<N>()) {
        *to = *from;
    }
}
