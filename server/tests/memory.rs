//! What requests hold in memory while they wait, counted by the allocator of this binary: so its tests take turns.

mod requests;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};

use http::{Response, StatusCode};
use tablestone::{Database, Durability, Task};
use tablestone_server::auth::{Account, SigningKey};
use tablestone_server::body::AnswerBody;
use tablestone_server::config::{DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY, Limits};
use tablestone_server::service::TableService;
use tablestone_server::telemetry::Telemetry;
use tokio::sync::Mutex;

/// The system's allocator, and how many bytes are out.
struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);

/// Whoever has it is the only test that runs.
static TURN: Mutex<()> = Mutex::const_new(());

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
/// How often a body may be while it waits for a share, with its request, and what was taken apart of it.
const COPIES_OF_BODY: usize = 4;

async fn service(database: Database, limits: Limits) -> Arc<TableService> {
    let key = SigningKey::parse(DEVELOPMENT_KEY).unwrap();
    let accounts = vec![Account::new(DEVELOPMENT_ACCOUNT, vec![key])];
    let service = TableService::open(database, accounts, limits, Telemetry::off(false));
    Arc::new(service.await.unwrap())
}

async fn ask(service: Arc<TableService>, method: &str, path: &str, body: &str) -> StatusCode {
    answer(service, method, path, body).await.status()
}

/// The answer, of which nobody takes anything yet.
async fn answer(
    service: Arc<TableService>,
    method: &str,
    path: &str,
    body: &str,
) -> Response<AnswerBody> {
    let headers = [("Host", "localhost"), ("Accept", "application/json")];
    requests::answer(&service, method, path, &headers, body).await
}

/// More reads than there are threads for, which end when the sender is dropped.
fn occupy(database: &Database) -> (Sender<()>, Vec<Task<()>>) {
    let (sender, receiver) = channel();
    let receiver = Arc::new(parking_lot::Mutex::new(receiver));
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
    let _turn = TURN.lock().await;
    let directory = tempfile::tempdir().unwrap();
    let options = Limits::default().options().durability(Durability::Os).memory_budget(8 << 20);
    let database = Database::open(directory.path(), options).unwrap();
    let service = service(database.clone(), Limits::default()).await;
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

/// Inserts of 252 small numbers each: a body that takes no share.
fn numbers() -> String {
    let mut batch = "--b\nContent-Type: multipart/mixed; boundary=c\n\n".to_owned();
    let members: String = (0..252).map(|n| format!(r#","a{n:x}":0"#)).collect();
    for row in 0..7 {
        let entity = format!(r#"{{"PartitionKey":"p","RowKey":"{row}"{members}}}"#);
        let head =
            "POST people HTTP/1.1\nPrefer: return-no-content\nContent-Type: application/json";
        batch += &format!("--c\nContent-Type: application/http\n\n{head}\n\n{entity}\n");
    }
    batch + "--c--\n--b--\n"
}

/// R-S12: small properties take many times as much memory once they are decoded. Those of bodies that wait for their
/// share are not.
#[tokio::test]
async fn r_s12_bodies_that_wait_are_not_decoded() {
    let _turn = TURN.lock().await;
    let directory = tempfile::tempdir().unwrap();
    let options = Limits::default().options().durability(Durability::Os).memory_budget(8 << 20);
    let database = Database::open(directory.path(), options).unwrap();
    let service = service(database, Limits { body_memory: 64 << 10, ..Limits::default() }).await;
    let table = ask(Arc::clone(&service), "POST", "/Tables", r#"{"TableName":"people"}"#);
    assert_eq!(table.await, 201);
    let large = format!(r#"{{"Text":"{}"}}"#, "x".repeat(30_000));
    let point = "/people(PartitionKey='p',RowKey='large')";
    assert_eq!(ask(Arc::clone(&service), "PUT", point, &large).await, 204);
    // Two answers have the budget.
    let mut held = Vec::new();
    for _ in 0..2 {
        held.push(answer(Arc::clone(&service), "GET", point, "").await);
    }
    assert!(held.iter().all(|answer| answer.status() == 200));
    let body = numbers();
    assert!(body.len() < 16 << 10, "{}", body.len());
    // However slow this is, nobody's patience ends.
    tokio::time::pause();
    let before = LIVE.load(Ordering::Relaxed);
    let requests: Vec<_> = (0..REQUESTS)
        .map(|_| {
            let (service, body) = (Arc::clone(&service), body.clone());
            tokio::spawn(async move { ask(service, "POST", "/$batch", &body).await })
        })
        .collect();
    for _ in 0..REQUESTS {
        tokio::task::yield_now().await;
    }
    let each = LIVE.load(Ordering::Relaxed).saturating_sub(before) / REQUESTS;
    assert!(requests.iter().all(|request| !request.is_finished()));
    assert!(each < COPIES_OF_BODY * body.len(), "{each} bytes of {}", body.len());
    requests.iter().for_each(tokio::task::JoinHandle::abort);
}
