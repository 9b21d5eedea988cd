//! A client that writes entities: alone, under conditions, in transactions.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde_json::{Value, json};
use tablestone::{IfMatch, Version};

use super::Random;
use crate::batch::{TYPE, change_set, part, parts};
use crate::process::{ACCOUNT, client};
use crate::support::{Answer, Signing};

/// Rows of a writer's partition, which are written again and again.
const ROWS: u64 = 12;
/// An entity that all writers count up.
pub(super) const COUNTER: &str = "/people(PartitionKey='shared',RowKey='counter')";

fn version(etag: &str) -> Version {
    match etag.parse() {
        Ok(IfMatch::Version(version)) => version,
        other => panic!("{etag}: {other:?}"),
    }
}

fn etag(answer: &Answer) -> String {
    let tag = answer.header("etag").or_else(|| answer.header("ETag"));
    tag.unwrap_or_else(|| panic!("no tag: {answer:?}")).to_owned()
}

/// An entity whose text tells whether all of it is of one write.
fn entity(step: u64) -> Value {
    json!({"Step": step, "Text": format!("{step} ").repeat(300)})
}

#[derive(Clone, Debug, PartialEq)]
struct Row {
    step: u64,
    etag: String,
}

/// One operation: what it sends, and the step that its row is at afterwards.
#[derive(Debug)]
struct Change {
    row: String,
    method: &'static str,
    /// Of the row as it was acknowledged, for operations with a condition.
    etag: Option<String>,
    step: Option<u64>,
}

impl Change {
    fn path(&self, partition: &str) -> String {
        match self.method {
            "POST" => "/people".into(),
            _ => format!("/people(PartitionKey='{partition}',RowKey='{}')", self.row),
        }
    }

    fn body(&self, partition: &str) -> String {
        let mut body = self.step.map_or_else(|| json!({}), entity);
        if self.method == "POST" {
            body["PartitionKey"] = json!(partition);
            body["RowKey"] = json!(self.row);
        }
        body.to_string()
    }
}

/// A client with a partition of its own, and what it knows of it.
pub(super) struct Writer {
    partition: String,
    random: Random,
    step: u64,
    rows: BTreeMap<String, Row>,
    /// The newest version that was acknowledged.
    latest: Version,
    /// What was sent and not answered.
    doubtful: Vec<Change>,
    /// Increments of the counter that all share: acknowledged, and not answered.
    pub(super) counted: u64,
    pub(super) maybe_counted: u64,
    pub(super) acknowledged: u64,
}

impl Writer {
    pub(super) fn new(number: u64) -> Self {
        Self {
            partition: format!("writer {number}"),
            random: Random(number + 1),
            step: 0,
            rows: BTreeMap::new(),
            latest: Version::ZERO,
            doubtful: Vec::new(),
            counted: 0,
            maybe_counted: 0,
            acknowledged: 0,
        }
    }

    /// Writes until the connection breaks.
    pub(super) async fn write(mut self, address: SocketAddr) -> Self {
        let mut client = client(address).await;
        loop {
            self.step += 1;
            let written = match self.random.below(8) {
                0 => self.count(&mut client).await,
                1 | 2 => self.transaction(&mut client).await,
                _ => self.single(&mut client).await,
            };
            match written {
                Some(()) => self.acknowledged += 1,
                None => return self,
            }
        }
    }

    /// Any operation that must succeed on a row as it is.
    fn change(&mut self, row: u64) -> Change {
        let row = format!("{row:02}");
        let there = self.rows.get(&row).map(|row| row.etag.clone());
        let (method, etag) = match (there, self.random.below(4)) {
            (None, 0 | 1) => ("POST", None),
            (None, 2) | (Some(_), 0) => ("PUT", None),
            (None, _) => ("MERGE", None),
            (etag, 1) => ("PUT", etag),
            (etag, 2) => ("MERGE", etag),
            (etag, _) => ("DELETE", etag),
        };
        Change { row, method, etag, step: (method != "DELETE").then_some(self.step) }
    }

    async fn single(&mut self, client: &mut Signing) -> Option<()> {
        let row = self.random.below(ROWS);
        let change = self.change(row);
        let mut headers = vec![("Prefer", "return-no-content")];
        headers.extend(change.etag.as_deref().map(|etag| ("If-Match", etag)));
        let path = change.path(&self.partition).replace(' ', "%20");
        let sent = client.try_send(change.method, &path, &headers, change.body(&self.partition));
        let Some(answer) = sent.await else {
            self.doubtful = vec![change];
            return None;
        };
        assert_eq!(answer.status, 204, "{change:?}: {answer:?}");
        self.done(&change, &answer);
        Some(())
    }

    /// Several operations, all or none.
    async fn transaction(&mut self, client: &mut Signing) -> Option<()> {
        let first = self.random.below(ROWS);
        let count = 2 + self.random.below(5);
        let changes: Vec<_> = (0..count).map(|at| self.change((first + at) % ROWS)).collect();
        let requests = changes.iter().map(|change| {
            let path = change.path(&self.partition);
            let request = format!("{} http://localhost/{ACCOUNT}{path}", change.method);
            let mut headers = vec!["Prefer: return-no-content".to_owned()];
            headers.extend(change.etag.as_ref().map(|etag| format!("If-Match: {etag}")));
            let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
            part(&request, &headers, &change.body(&self.partition))
        });
        let body = change_set(&requests.collect::<Vec<_>>());
        let Some(answer) = client.try_send("POST", "/$batch", &[TYPE], body).await else {
            self.doubtful = changes;
            return None;
        };
        let answers = parts(&answer);
        assert_eq!(answers.len(), changes.len(), "{changes:?}: {answer:?}");
        let before = self.latest;
        for (change, answer) in changes.iter().zip(&answers) {
            assert_eq!(answer.status, 204, "{change:?}: {answer:?}");
            // All of a transaction may have one version.
            self.latest = before;
            self.done(change, answer);
        }
        Some(())
    }

    fn done(&mut self, change: &Change, answer: &Answer) {
        let Some(step) = change.step else {
            self.rows.remove(&change.row);
            return;
        };
        let etag = etag(answer);
        assert!(version(&etag) > self.latest, "{etag} after {:?}", self.latest);
        self.latest = version(&etag);
        self.rows.insert(change.row.clone(), Row { step, etag });
    }

    /// Adds one to the counter, under the condition that nobody else did meanwhile.
    async fn count(&mut self, client: &mut Signing) -> Option<()> {
        let before = client.try_send("GET", COUNTER, &[], "").await?;
        let counter = json!({"Count": before.json()["Count"].as_u64().expect("a number") + 1});
        let condition = [("If-Match", &*etag(&before))];
        let answer = client.try_send("PUT", COUNTER, &condition, counter.to_string()).await;
        match answer.as_ref().map(|answer| answer.status) {
            Some(204) => self.counted += 1,
            Some(412) => {}
            Some(_) => panic!("{answer:?}"),
            None => self.maybe_counted += 1,
        }
        answer.map(|_| ())
    }

    /// Holds what is there against what is known; what was found is known from then on.
    pub(super) async fn check(&mut self, client: &mut Signing) {
        let found = read(client, &self.partition).await;
        let mut changed = self.rows.clone();
        for change in &self.doubtful {
            match (change.step, found.get(&change.row)) {
                (Some(step), row) => {
                    let etag = row.map(|row| row.etag.clone()).unwrap_or_default();
                    changed.insert(change.row.clone(), Row { step, etag });
                }
                (None, _) => _ = changed.remove(&change.row),
            }
        }
        if found != self.rows {
            assert_eq!(found, changed, "{} after {:?}", self.partition, self.doubtful);
            for change in self.doubtful.iter().filter(|change| change.step.is_some()) {
                let now = version(&found[&change.row].etag);
                assert!(now > self.latest, "{change:?}: {now:?} after {:?}", self.latest);
            }
        }
        self.latest = found.values().map(|row| version(&row.etag)).fold(self.latest, Version::max);
        self.rows = found;
        self.doubtful.clear();
    }
}

/// The rows of a partition, each of which must be whole.
async fn read(client: &mut Signing, partition: &str) -> BTreeMap<String, Row> {
    let path = format!("/people()?$filter=PartitionKey%20eq%20'{}'", partition.replace(' ', "%20"));
    let page = client.get(&path).await;
    assert_eq!(page.status, 200, "{page:?}");
    assert_eq!(page.header("x-ms-continuation-nextpartitionkey"), None);
    let rows = page.json()["value"].as_array().expect("rows").clone();
    let row = |row: &Value| {
        let step = row["Step"].as_u64().expect("a step");
        assert_eq!(row["Text"], entity(step)["Text"], "{row}");
        let text = |name: &str| row[name].as_str().expect("text").to_owned();
        (text("RowKey"), Row { step, etag: text("odata.etag") })
    };
    rows.iter().map(row).collect()
}
