//! Models of hints for loom: what is noted, asked for and forgotten at once.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p tablestone --lib --release loom_`.

use loom::sync::Arc;
use loom::thread;

use super::hints::{FileNumber, Hint, Hints, MOST_CLOSED};

const KEY_HASH: u64 = 7 << 60;

/// Notes a block of the file's; says nothing of another file's block, whatever is found.
fn note_and_recall(hints: &Hints, file: &FileNumber, offset: u64) {
    check(hints, file, offset);
    let hint = Hint { offset, len: 80, is_cached: false, restart: offset as usize, walked: 0..64 };
    hints.note(file, KEY_HASH, &hint);
    check(hints, file, offset);
}

/// A hint of the file is of a block of its own. The restart may be that of another hint.
fn check(hints: &Hints, file: &FileNumber, offset: u64) {
    if let Some(hint) = hints.recall(file, KEY_HASH) {
        assert_eq!((hint.offset, hint.len), (offset, 80));
    }
}

/// One thread opens a file, for which all hints are forgotten; another has a file, which it closes or not.
fn check_while_a_file_is_opened(is_closed: bool) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(move || {
        let hints = Arc::new(Hints::new(0));
        let file = hints.open_file().unwrap();
        for other in [(); MOST_CLOSED].map(|()| hints.open_file().unwrap()) {
            note_and_recall(&hints, &other, 3);
            hints.close_file(&other);
        }
        let there = Arc::clone(&hints);
        let opening = thread::spawn(move || {
            let opened = there.open_file().unwrap();
            note_and_recall(&there, &opened, 2);
        });
        note_and_recall(&hints, &file, 1);
        if is_closed {
            hints.close_file(&file);
        }
        opening.join().unwrap();
        if !is_closed {
            check(&hints, &file, 1);
        }
        assert_eq!(hints.recall(&hints.open_file().unwrap(), KEY_HASH), None);
    });
}

#[test]
fn loom_no_file_finds_a_hint_of_one_that_had_its_number() {
    check_while_a_file_is_opened(true);
}

#[test]
fn loom_a_file_finds_hints_of_its_own_while_all_are_forgotten() {
    check_while_a_file_is_opened(false);
}
