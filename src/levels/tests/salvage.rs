//! What a tree that salvage opened sets aside: what was there, and nothing of its own.

use std::io::ErrorKind;
use std::path::Path;

use super::super::state::Change;
use super::*;
use crate::env::{Fault, Operation};
use crate::options::ReadMode;

/// A tree whose manifest is damaged, opened by salvage, and the name of that manifest.
fn salvaged(seed: u64) -> (World, String) {
    let mut world = World::new(seed);
    world.put("early", "row");
    world.flush();
    world.put("late", "row");
    world.flush();
    let manifests = names(&world, |name| name.starts_with("MANIFEST"));
    world.env.flip(&Path::new(DIR).join(&manifests[0]), 60).unwrap();
    world.options = world.options.clone().recovery(Recovery::Salvage);
    world.reopen().unwrap();
    (world, manifests[0].clone())
}

fn names(world: &World, wanted: impl Fn(&str) -> bool) -> Vec<String> {
    world.env.list(Path::new(DIR)).into_iter().filter(|name| wanted(name)).collect()
}

fn damaged(world: &World) -> Vec<String> {
    names(world, |name| name.ends_with(".damaged"))
}

/// R-E22: only the manifest that was found is kept, however many follow.
#[test]
fn manifests_written_after_salvage_are_removed() {
    let (world, found) = salvaged(1);
    for version in 1..8 {
        let long = RangeTombstone {
            start: vec![b'x'; 400 << 10].into(),
            end: (*b"y").into(),
            version: v(version),
        };
        world.tree.install(Change { tombstones_added: vec![long], ..Change::default() }).unwrap();
        world.env.run_all();
    }
    let manifests = names(&world, |name| name.starts_with("MANIFEST"));
    assert_eq!(damaged(&world), [format!("{found}.damaged")]);
    assert_eq!(manifests.len(), 2, "{manifests:?}");
}

/// R-E22: the device may yet give what it failed to read of the first.
#[test]
fn what_was_set_aside_before_stays() {
    let mut world = World::new(4);
    world.put("early", "row");
    world.flush();
    let table = world.levels().files().next().unwrap().1.path().to_owned();
    let manifest = Path::new(DIR).join(&names(&world, |name| name.starts_with("MANIFEST"))[0]);
    let files = [(&table, table.with_extension("")), (&manifest, manifest.clone())];
    let aside = |name: &Path, extension| PathBuf::from(format!("{}.{extension}", name.display()));
    let mut damaged = Vec::new();
    for (path, name) in &files {
        world.env.flip(path, 60).unwrap();
        damaged.push(world.env.read_file(path).unwrap());
        world.env.write_file(&aside(name, "damaged"), b"earlier");
    }
    world.options = world.options.clone().recovery(Recovery::Salvage);
    world.reopen().unwrap();
    world.env.run_all();
    for ((_, name), damaged) in files.iter().zip(damaged) {
        assert_eq!(world.env.read_file(&aside(name, "damaged")).unwrap(), b"earlier");
        assert_eq!(world.env.read_file(&aside(name, "2.damaged")).unwrap(), damaged);
    }
}

/// R-E24: what a failed edit leaves may be all the room that there is.
#[test]
fn files_of_edits_that_fail_after_salvage_are_removed() {
    let (mut world, found) = salvaged(2);
    world.put("after", "row");
    world.freeze();
    let fault = Fault::new(Operation::Sync, "MANIFEST", ErrorKind::StorageFull);
    world.env.fail(Fault { times: 1, ..fault });
    world.tree.flush_now().unwrap_err();
    world.tree.flush_now().unwrap();
    world.env.run_all();
    assert_eq!(damaged(&world), [format!("{found}.damaged")]);
}

/// R-E22: the block that is damaged is lost, and no other.
#[test]
fn what_is_whole_of_a_damaged_file_stays_in_its_level() {
    let mut world = World::with(3, Compression::None);
    world.options = world.options.clone().read_mode(ReadMode::Pread).memory_budget(8 << 20);
    world.reopen().unwrap();
    world.put_rows(0..600);
    world.flush();
    world.tree.compact_all().unwrap();
    let level = |world: &World| world.levels().level(Level::ONE).to_vec();
    let path = level(&world)[0].path().to_owned();
    assert_eq!(level(&world).len(), 1);
    world.env.flip(&path, 100).unwrap();
    assert!(world.tree.verify().is_err());

    world.options = world.options.clone().recovery(Recovery::Salvage);
    world.tree.jobs.stop();
    let Opened { tree, lost, .. } = open(&world.env, &world.options).unwrap();
    tree.start().unwrap();
    let rows = read_all(&tree.view(), Version::MAX).unwrap();
    assert!((450..600).contains(&rows.len()), "{} rows of 600", rows.len());
    let gone = format!("; lost with it: {} of 600 entries", 600 - rows.len());
    assert_eq!((lost.len(), &lost[0].file), (1, &path));
    assert!(lost[0].found.contains(&gone), "{}", lost[0]);
    assert!(world.env.read_file(&path.with_extension("damaged")).is_ok(), "it is set aside");
    crate::salvage::end(&*world.env.disk(), DIR.as_ref()).unwrap();
    drop(tree);

    world.options = world.options.clone().recovery(Recovery::Strict);
    world.reopen().unwrap();
    world.tree.verify().unwrap();
    assert_eq!(level(&world)[0].meta.entries, rows.len() as u64);
    assert_eq!(read_all(&world.tree.view(), Version::MAX).unwrap(), rows);
}
