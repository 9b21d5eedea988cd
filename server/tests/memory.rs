//! What requests hold in memory while they wait, counted by the allocator of this binary: so it has one test.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::SystemTime;

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::Full;
use parking_lot::Mutex;
use tablestone::{Database, Durability, Task};
use tablestone_server::auth::{Account, SigningKey};
use tablestone_server::config::{DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY, Limits};
use tablestone_server::net::Peer;
use tablestone_server::service::TableService;
use tablestone_server::telemetry::Telemetry;

/// The system's allocator, and how many bytes are out.
struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);

// SAFETY: all is left to the system's allocator, with the arguments as they are.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: as the caller's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as the caller's.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// As long as an address can be, nearly.
const FILTER_BYTES: usize = 60_000;
const REQUESTS: usize = 40;
/// How often a filter's text may be in memory: in the address, decoded, for the reader thread; and
/// what else a request takes.
const COPIES: usize = 6;

async fn service(database: Database) -> Arc<TableService> {
    let key = SigningKey::parse(DEVELOPMENT_KEY).unwrap();
    let accounts = vec![Account::new(DEVELOPMENT_ACCOUNT, vec![key])];
    let service = TableService::open(database, accounts, Limits::default(), Telemetry::off(false));
    Arc::new(service.await.unwrap())
}

async fn ask(service: Arc<TableService>, method: &str, path: &str, body: &str) -> StatusCode {
    let path = format!("/{DEVELOPMENT_ACCOUNT}{path}");
    let date = httpdate::fmt_http_date(SystemTime::now());
    let signed = path.split_once('?').map_or(&*path, |(path, _)| path);
    let signature = SigningKey::parse(DEVELOPMENT_KEY).unwrap().sign(|signer| {
        signer.line(&date).push("/").push(DEVELOPMENT_ACCOUNT).push(signed);
    });
    let request = Request::builder().method(method).uri(&path).header("Host", "localhost");
    let request = request.header("x-ms-date", date).header("Accept", "application/json");
    let request = request.header("Content-Type", "application/json");
    let authorization = format!("SharedKeyLite {DEVELOPMENT_ACCOUNT}:{signature}");
    let request = request.header("Authorization", authorization);
    let request = request.body(Full::new(Bytes::from(body.to_owned()))).unwrap();
    service.handle(request, Peer { address: None, secure: false }).await.status()
}

/// More reads than there are threads for, which end when the sender is dropped.
fn occupy(database: &Database) -> (Sender<()>, Vec<Task<()>>) {
    let (sender, receiver) = channel();
    let receiver = Arc::new(Mutex::new(receiver));
    let read = || {
        let receiver = Arc::clone(&receiver);
        database.run(move || {
            let _ = receiver.lock().recv();
            Ok(())
        })
    };
    let threads = 2 * std::thread::available_parallelism().map_or(1, usize::from).max(4);
    (sender, (0..2 * threads).map(|_| read()).collect())
}

/// R-S12: a filter takes many times as much memory as its text once it is parsed. Those whose reads
/// wait for a thread are not.
#[tokio::test]
async fn r_s12_filters_that_wait_are_text() {
    let directory = tempfile::tempdir().unwrap();
    let options = Limits::default().options().durability(Durability::Os).memory_budget(8 << 20);
    let database = Database::open(directory.path(), options).unwrap();
    let service = service(database.clone()).await;
    let post = async |path: &str, body: &str| {
        assert_eq!(ask(Arc::clone(&service), "POST", path, body).await, 201);
    };
    post("/Tables", r#"{"TableName":"people"}"#).await;
    for row in 0..200 {
        post("/people", &format!(r#"{{"PartitionKey":"p","RowKey":"{row}"}}"#)).await;
    }
    let occupied = occupy(&database);
    // Of entities as many are looked at as a request does at once, and more are left.
    for (path, comparison) in [("/people()", "A+eq+1"), ("/Tables", "TableName+eq+'a'")] {
        let comparisons = vec![comparison; FILTER_BYTES / (comparison.len() + 4)].join("+or+");
        let path = format!("{path}?$filter={comparisons}");
        let before = LIVE.load(Ordering::Relaxed);
        let requests: Vec<_> = (0..REQUESTS)
            .map(|_| {
                let (service, path) = (Arc::clone(&service), path.clone());
                tokio::spawn(async move { ask(service, "GET", &path, "").await })
            })
            .collect();
        // Each comes to where it waits without anything to wait for before.
        for _ in 0..REQUESTS {
            tokio::task::yield_now().await;
        }
        let each = LIVE.load(Ordering::Relaxed).saturating_sub(before) / REQUESTS;
        assert!(requests.iter().all(|request| !request.is_finished()), "{comparison}");
        assert!(each < COPIES * FILTER_BYTES, "{comparison}: {each} bytes");
        requests.iter().for_each(tokio::task::JoinHandle::abort);
    }
    drop(occupied);
}
