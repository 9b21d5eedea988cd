//! What is stored and asked for: entities made of a seed, and the requests of each [`Work`].

use std::fmt;
use std::io::Write;
use std::rc::Rc;
use std::str::FromStr;
use std::time::{Duration, Instant};

use super::endpoint::{self, Content, Endpoint};

/// One kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// Get an entity.
    Get,
    /// Query 50 rows of a partition by their RowKeys.
    Range,
    /// Query the whole table, page by page.
    Scan,
    /// Insert or replace an entity that exists.
    Upsert,
    /// Insert an entity.
    Insert,
    /// Insert 100 entities of a partition in an entity group transaction.
    Batch,
}

impl Work {
    /// All, those that make the table grow at the end.
    pub(crate) const ALL: [Self; 6] =
        [Self::Get, Self::Range, Self::Scan, Self::Upsert, Self::Insert, Self::Batch];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Range => "range",
            Self::Scan => "scan",
            Self::Upsert => "upsert",
            Self::Insert => "insert",
            Self::Batch => "batch",
        }
    }

    /// The status of the answer.
    pub(crate) fn status(self) -> u16 {
        match self {
            Self::Get | Self::Range | Self::Scan => 200,
            Self::Upsert | Self::Insert => 204,
            Self::Batch => 202,
        }
    }

    /// What occurs in the answer's body once for each entity, and how often it does; a page may be
    /// the last and have less.
    pub(crate) fn sign(self) -> (&'static [u8], u64) {
        match self {
            Self::Get => (b"\"PartitionKey\":", 1),
            Self::Range => (b"\"PartitionKey\":", ROWS),
            Self::Scan => (b"\"PartitionKey\":", PAGE),
            Self::Upsert | Self::Insert => (b"", 0),
            Self::Batch => (b"HTTP/1.1 204", BATCH),
        }
    }
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Work {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|work| work.name() == text);
        found.ok_or_else(|| format!("there is no work {text:?}"))
    }
}

/// Entities of a page, of a range, of a transaction.
const PAGE: u64 = 1_000;
const ROWS: u64 = 50;
pub(crate) const BATCH: u64 = 100;
/// A signature's date may be a quarter of an hour old.
const DATE_LASTS: Duration = Duration::from_secs(60);

/// The entities of a table.
#[derive(Clone, Debug)]
pub(crate) struct Workload {
    pub(crate) table: String,
    pub(crate) entities: u64,
    pub(crate) seed: u64,
}

impl Workload {
    /// Entities of a partition.
    pub(crate) const PARTITION: u64 = 1_000;

    /// The JSON of an entity: about 200 bytes, of which half can hardly be compressed.
    fn push_entity(&self, out: &mut Vec<u8>, index: u64) {
        let (partition, row) = keys(index);
        let mut random = Random::new(self.seed ^ index);
        let [a, b, c, d] = std::array::from_fn(|_| random.next());
        let _ = write!(
            out,
            "{{\"PartitionKey\":\"p{partition:07}\",\"RowKey\":\"r{row:07}\",\
             \"Name\":\"customer {a:016x}\",\"Age\":{},\"Active\":{},\"Score\":{}.5,\
             \"Orders\":\"{}\",\"Orders@odata.type\":\"Edm.Int64\",\"Note\":\"{b:016x} {c:016x}\"}}",
            a % 100,
            d % 2 == 0,
            b % 1_000,
            d >> 32,
        );
    }
}

/// PartitionKey and RowKey of an entity as numbers.
fn keys(index: u64) -> (u64, u64) {
    (index / Workload::PARTITION, index % Workload::PARTITION)
}

/// The requests of one connection.
pub(crate) struct Requests {
    work: Work,
    workload: Rc<Workload>,
    endpoint: Rc<Endpoint>,
    random: Random,
    date: (Instant, String),
    /// Where the scan goes on, as a query string, and how many entities it has seen.
    scan: (String, u64),
    body: Vec<u8>,
}

impl Requests {
    pub(crate) fn new(
        work: Work,
        workload: &Rc<Workload>,
        endpoint: &Rc<Endpoint>,
        connection: u64,
    ) -> Self {
        Self {
            work,
            workload: Rc::clone(workload),
            endpoint: Rc::clone(endpoint),
            random: Random::new(workload.seed.wrapping_mul(1_000) + connection),
            date: (Instant::now(), endpoint::now()),
            scan: (String::new(), 0),
            body: Vec::new(),
        }
    }

    /// Writes the next request; `fresh` is the index of the first entity that is inserted.
    pub(crate) fn write(&mut self, out: &mut Vec<u8>, fresh: u64) {
        out.clear();
        self.body.clear();
        if self.date.0.elapsed() > DATE_LASTS {
            self.date = (Instant::now(), endpoint::now());
        }
        let (table, account) = (&self.workload.table, &self.endpoint.path);
        let index = self.random.below(self.workload.entities);
        let (partition, row) = keys(index);
        let entity =
            || format!("{account}/{table}(PartitionKey='p{partition:07}',RowKey='r{row:07}')");
        match self.work {
            Work::Get => self.head(out, "GET", &entity(), ""),
            Work::Range => {
                let first = row.min(Workload::PARTITION - ROWS);
                let filter = format!(
                    "?$filter=PartitionKey%20eq%20'p{partition:07}'%20and%20\
                     RowKey%20ge%20'r{first:07}'%20and%20RowKey%20lt%20'r{:07}'",
                    first + ROWS
                );
                self.head(out, "GET", &format!("{account}/{table}()"), &filter);
            }
            Work::Scan => self.head(out, "GET", &format!("{account}/{table}()"), &self.scan.0),
            Work::Upsert => {
                let path = entity();
                self.workload.push_entity(&mut self.body, index);
                self.head(out, "PUT", &path, "");
            }
            Work::Insert => {
                let path = format!("{account}/{table}");
                self.workload.push_entity(&mut self.body, fresh);
                self.head(out, "POST", &path, "");
            }
            Work::Batch => {
                let path = format!("{account}/$batch");
                self.push_batch(fresh);
                self.head(out, "POST", &path, "");
            }
        }
        out.extend_from_slice(&self.body);
    }

    fn head(&self, out: &mut Vec<u8>, method: &str, path: &str, query: &str) {
        let of = match self.work {
            Work::Batch => Content::Batch(self.body.len()),
            _ => Content::json(self.body.len()),
        };
        self.endpoint.push_head(out, &self.date.1, method, path, query, of);
    }

    fn push_batch(&mut self, fresh: u64) {
        let Endpoint { host, path, .. } = &*self.endpoint;
        let (out, table) = (&mut self.body, &self.workload.table);
        out.extend_from_slice(
            b"--batch_6ba7b810\r\n\
              Content-Type: multipart/mixed; boundary=changeset_6ba7b811\r\n\r\n",
        );
        for index in fresh..fresh + BATCH {
            let _ = write!(
                out,
                "--changeset_6ba7b811\r\nContent-Type: application/http\r\n\
                 Content-Transfer-Encoding: binary\r\n\r\n\
                 POST http://{host}{path}/{table} HTTP/1.1\r\n\
                 Accept: application/json;odata=minimalmetadata\r\n\
                 Content-Type: application/json\r\nDataServiceVersion: 3.0\r\n\
                 Prefer: return-no-content\r\n\r\n"
            );
            self.workload.push_entity(out, index);
            out.extend_from_slice(b"\r\n");
        }
        out.extend_from_slice(b"--changeset_6ba7b811--\r\n--batch_6ba7b810--\r\n");
    }

    /// Takes note of a page: how many entities it had, and where the next begins. At the end of the
    /// table, how many there were in all.
    pub(crate) fn turn_page(&mut self, entities: u64, next: Option<String>) -> Option<u64> {
        self.scan.1 += entities;
        let ended = next.is_none();
        self.scan.0 = next.unwrap_or_default();
        ended.then(|| std::mem::take(&mut self.scan.1))
    }
}

/// splitmix64.
#[derive(Clone, Debug)]
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}
