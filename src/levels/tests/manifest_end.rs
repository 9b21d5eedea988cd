//! Where a manifest goes on after an opening, and where a new one begins.

use std::path::Path;

use super::super::edit::{Edit, Inventory};
use super::super::manifest::{Manifest, ManifestId};
use super::super::recover::{Recovered, make_durable, recover};
use super::manifest::{edit, last_edit, manifest_path, read, tombstone, whole, written};
use super::*;
use crate::env::{CrashStyle, Fault, Operation};
use crate::error::Error;

/// A manifest of four edits as it is opened to write, and then given one more edit. What that comes to, and in which
/// manifest it is.
fn reopened(env: &SimEnv, mode: Recovery) -> (ManifestId, Inventory) {
    let disk = env.disk();
    let found = recover(&*disk, Path::new(DIR), mode).unwrap().unwrap();
    let tail = make_durable(&*disk, Path::new(DIR), found.end).unwrap();
    let mut manifest = Manifest::new(disk, DIR.into(), found.newest).with_tail(tail);
    let mut inventory = found.inventory;
    inventory.apply(edit(5)).unwrap();
    manifest.commit(Some(&edit(5)), || whole(&inventory), Vec::new).unwrap();
    env.crash(CrashStyle::LoseUnsynced);
    assert_eq!(read(env, Recovery::Strict).unwrap(), inventory);
    (manifest.current().unwrap(), inventory)
}

#[test]
fn a_whole_manifest_goes_on_after_opening() {
    let (env, states) = written();
    let (current, inventory) = reopened(&env, Recovery::Strict);
    assert_eq!((current, inventory.flushed), (ManifestId(1), v(5)));
    assert!(states.iter().all(|state| *state != inventory));
}

#[test]
fn a_new_manifest_follows_one_that_may_not_go_on() {
    let torn = |env: &SimEnv| {
        let bytes = env.read_file(&manifest_path(1)).unwrap();
        env.write_file(&manifest_path(1), &bytes[..last_edit().end as usize + 3]);
    };
    let newer = |env: &SimEnv| env.write_file(&manifest_path(7), b"never current");
    let whole = |_: &SimEnv| ();
    for (change, mode, expected) in [
        (&torn as &dyn Fn(&SimEnv), Recovery::Strict, 2),
        (&newer, Recovery::Strict, 8),
        (&whole, Recovery::Salvage, 2),
    ] {
        let (env, _) = written();
        change(&env);
        assert_eq!(reopened(&env, mode).0, ManifestId(expected));
    }
}

/// R-E10: what cannot be made durable is not relied upon.
#[test]
fn r_e10_a_manifest_that_cannot_be_made_durable_opens_nothing() {
    let path = manifest_path(1).display().to_string();
    for (on, name) in
        [(Operation::Write, &*path), (Operation::Sync, &path), (Operation::SyncDir, DIR)]
    {
        let (env, _) = written();
        let end = recover(&*env.disk(), Path::new(DIR), Recovery::Strict).unwrap().unwrap().end;
        env.fail(Fault { times: 1, ..Fault::new(on, name, std::io::ErrorKind::Other) });
        match make_durable(&*env.disk(), Path::new(DIR), end) {
            Err(Error::Io(_)) => {}
            made => panic!("{on:?}: {:?}", made.is_ok()),
        }
    }
}

/// However often it is opened, a manifest grows by no more than one that is opened once.
#[test]
fn a_manifest_that_goes_on_is_replaced_when_it_has_grown() {
    let env = SimEnv::new(1);
    let disk = env.disk();
    disk.create_dir_all(Path::new(DIR)).unwrap();
    let mut inventory = Inventory::new();
    let mut numbers = Vec::new();
    for step in 1..8 {
        let found = recover(&*disk, Path::new(DIR), Recovery::Strict).unwrap();
        let found = found.unwrap_or_else(|| Recovered::nothing(ManifestId::NONE));
        let tail = make_durable(&*disk, Path::new(DIR), found.end).unwrap();
        let manifest = Manifest::new(env.disk(), DIR.into(), found.newest);
        let mut manifest = manifest.with_tail(tail);
        let long = vec![b'x'; 400 << 10];
        let edit = Edit {
            tombstones_added: vec![tombstone(&long, b"y", step)],
            tombstones_removed: vec![tombstone(&long, b"y", step)],
            added: Vec::new(),
            removed: Vec::new(),
            ..edit(step)
        };
        inventory.apply(edit.clone()).unwrap();
        manifest.commit(Some(&edit), || whole(&inventory), Vec::new).unwrap();
        numbers.push(manifest.current().unwrap().0);
    }
    assert_eq!(numbers, [1, 1, 1, 2, 2, 2, 3]);
    assert_eq!(read(&env, Recovery::Strict).unwrap(), inventory);
}
