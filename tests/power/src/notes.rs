//! What a writer notes of its steps, for the check after a cut to know what must be there.
//!
//! Invariant: a step is noted before it begins and after it was acknowledged, each with how much had
//! been done to the disk by then, and a note that was taken survives the writer.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::story::{State, Step, Writer};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Note {
    /// The process begins. Its writer does not know what became of its last step, and begins anew.
    Life,
    Begins {
        step: u64,
        events: usize,
    },
    Ended {
        step: u64,
        events: usize,
    },
}

/// Where a writer's notes of a round are.
pub fn file(dir: &Path, round: usize, writer: Writer) -> PathBuf {
    dir.join(format!("round{round}-writer{}", writer.number))
}

#[derive(Debug)]
pub struct Notes {
    file: File,
}

impl Notes {
    pub fn open(path: &Path) -> Result<Self> {
        Ok(Self { file: OpenOptions::new().create(true).append(true).open(path)? })
    }

    /// By one call to the system: whoever is killed has noted it, or not.
    pub fn take(&mut self, note: Note) -> Result<()> {
        let line = match note {
            Note::Life => "life\n".to_owned(),
            Note::Begins { step, events } => format!("begins {step} {events}\n"),
            Note::Ended { step, events } => format!("ended {step} {events}\n"),
        };
        Ok(self.file.write_all(line.as_bytes())?)
    }

    pub fn read(path: &Path) -> Result<Vec<Note>> {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.lines().map(|line| parse(line).with_context(|| line.to_owned())).collect()
    }
}

fn parse(line: &str) -> Result<Note> {
    let words: Vec<_> = line.split(' ').collect();
    Ok(match words[..] {
        ["life"] => Note::Life,
        ["begins", step, events] => Note::Begins { step: step.parse()?, events: events.parse()? },
        ["ended", step, events] => Note::Ended { step: step.parse()?, events: events.parse()? },
        _ => bail!("no note"),
    })
}

/// What a writer's table may hold, and where its last checkpoint must be.
#[derive(Debug)]
pub struct Allowed {
    /// By the order in which it did: never empty.
    pub states: Vec<State>,
    /// The step that made the checkpoint, and what was in the table.
    pub checkpoint: Option<(u64, State)>,
}

impl Allowed {
    pub fn at_first() -> Self {
        Self { states: vec![None], checkpoint: None }
    }

    /// After a round that ended with a power cut, after so many events of its disk. `always` says that
    /// what is acknowledged is durable.
    pub fn go_on(&mut self, writer: Writer, notes: &[Note], events: usize, always: bool) {
        let (cut, mut is_first, mut current) = (events, false, Step::Anew);
        for note in notes {
            match *note {
                Note::Life => is_first = true,
                Note::Begins { events, .. } if events >= cut => return,
                Note::Begins { step, .. } => {
                    let is_anew = std::mem::take(&mut is_first);
                    current = if is_anew { Step::Anew } else { writer.step(step) };
                    if matches!(current, Step::Checkpoint) {
                        // The one before is removed.
                        self.checkpoint = None;
                    }
                    let before = self.states.last().cloned().flatten();
                    self.states.extend(current.after(step, &before));
                }
                Note::Ended { events, .. } if events > cut => return,
                Note::Ended { step, .. } => {
                    let last = self.states.pop().flatten();
                    if always || current.is_sync() {
                        self.states.clear();
                    }
                    if matches!(current, Step::Checkpoint) {
                        self.checkpoint = Some((step, last.clone()));
                    }
                    self.states.push(last);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITER: Writer = Writer { seed: 1, number: 1 };

    fn after(notes: &[Note], cut: usize, always: bool) -> Vec<State> {
        let mut allowed = Allowed::at_first();
        allowed.go_on(WRITER, notes, cut, always);
        allowed.states
    }

    #[test]
    fn notes_are_read_as_they_were_taken() {
        let dir = tempfile::tempdir().unwrap();
        let path = file(dir.path(), 2, WRITER);
        let taken =
            [Note::Life, Note::Begins { step: 3, events: 9 }, Note::Ended { step: 3, events: 12 }];
        let mut notes = Notes::open(&path).unwrap();
        taken.iter().for_each(|note| notes.take(*note).unwrap());
        assert_eq!(Notes::read(&path).unwrap(), taken);
    }

    #[test]
    fn only_what_is_durable_must_be_there() {
        let step = |step, begins, ended| {
            [Note::Begins { step, events: begins }, Note::Ended { step, events: ended }]
        };
        let notes: Vec<_> =
            [Note::Life].into_iter().chain(step(0, 1, 5)).chain(step(1, 5, 9)).collect();
        let empty = Some(crate::story::Rows::new());
        let first = WRITER.step(1).after(1, &empty);
        assert_eq!(first.len(), 1, "a step of one part");

        assert_eq!(after(&notes, 1, true), [None]);
        assert_eq!(after(&notes, 3, true), [None, None, empty.clone()]);
        assert_eq!(after(&notes, 5, true), std::slice::from_ref(&empty));
        assert_eq!(after(&notes, 8, true), [std::slice::from_ref(&empty), &first].concat());
        assert_eq!(after(&notes, 9, true), first);
        assert_eq!(after(&notes, 9, false), [&[None, None, empty], &first[..]].concat());
    }
}
