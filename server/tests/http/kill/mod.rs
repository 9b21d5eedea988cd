//! The binary is killed while clients write (R-S11): what it acknowledged is there afterwards with
//! the ETag that it gave, what it did not is there whole or not at all, and ETags go on from there.
//! So it is with tables and their policies, and no table shows rows of one before it (R-S10).

mod administrator;
mod writer;

use std::time::Duration;

use tablestone::{Database, Options};
use tempfile::TempDir;
use tokio::task::JoinSet;

use self::administrator::Administrator;
use self::writer::{COUNTER, Writer};
use crate::process::{Process, client, tablestone};
use crate::support::{Signing, within};

const ROUNDS: u64 = 8;
const WRITERS: u64 = 6;

/// Numbers that look random (xorshift), the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

async fn check_counter(client: &mut Signing, writers: &mut [Writer]) {
    let found = client.get(COUNTER).await.json()["Count"].as_u64().expect("a number");
    let counted: u64 = writers.iter().map(|writer| writer.counted).sum();
    let maybe: u64 = writers.iter().map(|writer| writer.maybe_counted).sum();
    assert!((counted..=counted + maybe).contains(&found), "{found}: {counted} and perhaps {maybe}");
    writers[0].counted += found - counted;
    writers.iter_mut().for_each(|writer| writer.maybe_counted = 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r_s11_what_was_acknowledged_survives_a_kill() {
    let directory = TempDir::new().unwrap();
    // So little memory that it is killed while it writes tables and compacts them, too.
    let start = || Process::start(tablestone(directory.path(), &["--memory", "4MiB"]));
    let mut random = Random(11);
    let mut writers: Vec<_> = (0..WRITERS).map(Writer::new).collect();
    let mut process = start();
    let mut address = process.address_after("listens on http://");
    let mut first = client(address).await;
    assert_eq!(first.post("/Tables", r#"{"TableName":"people"}"#).await.status, 201);
    assert_eq!(first.send("PUT", COUNTER, &[], r#"{"Count":0}"#).await.status, 204);
    let mut administrator = Administrator::new();
    for _ in 0..ROUNDS {
        let mut writing: JoinSet<_> =
            writers.drain(..).map(|writer| writer.write(address)).collect();
        let administering = tokio::spawn(administrator.work(address));
        tokio::time::sleep(Duration::from_millis(50 + random.below(350))).await;
        process.kill();
        while let Some(writer) = within("a writer to notice", writing.join_next()).await {
            writers.push(writer.expect("a writer"));
        }
        administrator = within("the administrator to notice", administering).await.expect("it");
        process = start();
        address = process.address_after("listens on http://");
        let mut client = client(address).await;
        for writer in &mut writers {
            writer.check(&mut client).await;
        }
        check_counter(&mut client, &mut writers).await;
        administrator.check(&mut client).await;
    }
    let acknowledged: u64 = writers.iter().map(|writer| writer.acknowledged).sum();
    assert!(acknowledged > ROUNDS * WRITERS, "{acknowledged} writes");
    assert!(administrator.acknowledged > ROUNDS, "{} changes", administrator.acknowledged);
    process.stop();
    let database = Database::open(directory.path().join("data"), Options::default()).unwrap();
    let names = database.tables(None, 100).unwrap().names;
    let expected = 2 + administrator.tables();
    assert_eq!(names.len(), expected, "the catalog, people, and what is known: {names:?}");
}
