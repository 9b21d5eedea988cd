//! [`Members`]: the properties of an object that is read, by their names.
//!
//! Invariant: no name occurs twice, and to find one takes no longer the more there are, whatever names clients choose.
//! As long as there are few, a filter tells that most names are new, and the others are looked for one by one; when
//! there are more, all are in an index whose hashes nobody can foresee.

use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

use tablestone::{EntityLimits, ValueType};

use super::error::{JsonError, JsonErrorKind};
use super::raw::Raw;
use crate::wire::select::MAX_NAMES;

/// Properties in an object, null ones included: in an answer there are as many as were selected, and some
/// clients send every null they have. The limit in force is checked when an entity is written.
const MAX_MEMBERS: usize = MAX_NAMES;
const _: () = assert!(MAX_MEMBERS >= EntityLimits::LARGEST.properties);

/// So many are looked at where the filter does not tell; most entities have fewer.
const FEW: usize = 64;

/// Words of the filter.
const SEEN_WORDS: usize = 32;

/// A property, or an annotation whose property has not come yet.
#[derive(Debug)]
pub(super) struct Member<'a> {
    pub(super) name: Cow<'a, str>,
    pub(super) annotation: Option<ValueType>,
    pub(super) raw: Option<Raw<'a>>,
    pub(super) offset: usize,
}

/// Members in the order in which they were first named.
pub(super) struct Members<'a> {
    list: Vec<Member<'a>>,
    /// A set of hashes of the names of the first: one that is not in it is new.
    seen: [u64; SEEN_WORDS],
    /// Where each name stands, once there are more.
    index: HashMap<Cow<'a, str>, usize>,
    /// How many members were looked at.
    #[cfg(test)]
    looked_at: usize,
}

impl<'a> Members<'a> {
    pub(super) fn new() -> Self {
        Self {
            list: Vec::with_capacity(16),
            seen: [0; SEEN_WORDS],
            index: HashMap::new(),
            #[cfg(test)]
            looked_at: 0,
        }
    }

    pub(super) fn as_slice(&self) -> &[Member<'a>] {
        &self.list
    }

    pub(super) fn into_vec(self) -> Vec<Member<'a>> {
        self.list
    }

    /// The member of this name, which is added unless it is there, and its index.
    pub(super) fn named(
        &mut self,
        name: Cow<'a, str>,
        offset: usize,
    ) -> Result<(usize, &mut Member<'a>), JsonError> {
        let is_last = self.list.last().is_some_and(|last| last.name == name);
        let found = if is_last { Some(self.list.len() - 1) } else { self.note(&name) };
        let index = match found {
            Some(index) => index,
            None if self.list.len() == MAX_MEMBERS => return Err(too_many(offset)),
            None => {
                self.list.push(Member { name, annotation: None, raw: None, offset });
                self.list.len() - 1
            }
        };
        let member = self.list.get_mut(index).ok_or_else(|| too_many(offset))?;
        Ok((index, member))
    }

    /// Notes the name of what may be the next member; where it stands if it was noted before.
    #[expect(clippy::ptr_arg, reason = "the index borrows names as the members do")]
    fn note(&mut self, name: &Cow<'a, str>) -> Option<usize> {
        let next = self.list.len();
        if next < FEW {
            return if self.note_in_filter(name) { self.look_for(name) } else { None };
        }
        if self.index.is_empty() {
            let names = self.list.iter().map(|member| member.name.clone());
            self.index.extend(names.zip(0..));
        }
        match self.index.entry(name.clone()) {
            Entry::Occupied(noted) => Some(*noted.get()),
            Entry::Vacant(new) => {
                new.insert(next);
                None
            }
        }
    }

    /// Notes a name; whether it may have been noted before.
    fn note_in_filter(&mut self, name: &str) -> bool {
        let (word, bit) = place(name);
        let Some(word) = self.seen.get_mut(word) else { return true };
        let before = *word & bit != 0;
        *word |= bit;
        before
    }

    fn look_for(&mut self, name: &str) -> Option<usize> {
        #[cfg(test)]
        {
            self.looked_at += self.list.len();
        }
        self.list.iter().position(|member| member.name == name)
    }
}

/// The word and the bit of a name in the filter.
fn place(name: &str) -> (usize, u64) {
    let hash = name.bytes().fold(0u64, |hash, byte| {
        (hash.rotate_left(5) ^ u64::from(byte)).wrapping_mul(0x517c_c1b7_2722_0a95)
    });
    ((hash >> 32) as usize % SEEN_WORDS, 1 << (hash >> 58))
}

#[cold]
fn too_many(offset: usize) -> JsonError {
    JsonError { offset, kind: JsonErrorKind::TooManyMembers { limit: MAX_MEMBERS } }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered() -> impl Iterator<Item = String> {
        (0..).map(|number| format!("n{number}"))
    }

    /// As many names as an object can have, whose first are the same to the filter.
    fn names() -> Vec<String> {
        let same = numbered().filter(|name| place(name) == place("n0")).take(2 * FEW);
        let others = numbered().filter(|name| place(name) != place("n0"));
        same.chain(others).take(MAX_MEMBERS).collect()
    }

    /// R-S12: what a client names its properties makes none of them cost a look at all others.
    #[test]
    fn r_s12_names_are_found_without_a_look_at_all() {
        for names in [names(), numbered().take(MAX_MEMBERS).collect()] {
            let mut members = Members::new();
            // Each as an annotation that stands apart from its property.
            for _ in 0..2 {
                for (at, name) in names.iter().enumerate() {
                    let (index, member) = members.named(name.into(), at).unwrap();
                    assert_eq!((index, &*member.name, member.offset), (at, &**name, at));
                }
            }
            assert_eq!(members.as_slice().len(), MAX_MEMBERS);
            assert!(members.looked_at < 4 * MAX_MEMBERS, "{}", members.looked_at);
            let more = members.named("more".into(), 7).map(|(index, _)| index).unwrap_err();
            assert_eq!(more, too_many(7));
        }
    }

    /// R-S04: a name is the same however it is written, on both sides of where the index begins.
    #[test]
    fn r_s04_names_are_told_apart_however_many_there_are() {
        let names = names();
        for count in [1, 2, FEW - 1, FEW, FEW + 1, 2 * FEW, MAX_MEMBERS] {
            let mut members = Members::new();
            for name in names.iter().take(count) {
                members.named(Cow::Borrowed(name), 0).unwrap();
            }
            for (at, name) in names.iter().take(count).enumerate() {
                let again = members.named(Cow::Owned(name.clone()), 1).unwrap();
                assert_eq!(again.0, at, "{name} of {count}");
            }
            assert_eq!(members.into_vec().len(), count);
        }
    }
}
