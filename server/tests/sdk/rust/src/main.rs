//! The Rust SDK against a server on a port of this machine, each result compared with what the
//! protocol says. A test is a function with a table of its own; the last line counts them.

mod tests;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use azure_core::StatusCode;
use azure_core::error::HttpError;
use azure_data_tables::clients::{TableServiceClient, TableServiceClientBuilder};
use azure_storage::{CloudLocation, StorageCredentials};

/// Everything that can go wrong, as text.
pub type Result<T, E = Box<dyn std::error::Error>> = std::result::Result<T, E>;

/// How the tests reach the server.
pub struct Account {
    pub service: TableServiceClient,
    pub location: CloudLocation,
}

impl Account {
    fn new(port: u16) -> Self {
        let location = CloudLocation::Emulator { address: "127.0.0.1".into(), port };
        let credentials = StorageCredentials::emulator();
        Self { service: client(location.clone(), credentials), location }
    }

    /// A name that no other table has.
    pub fn new_name(&self, test: &str) -> String {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("a clock");
        format!("R{}{}", test.replace('_', ""), now.as_micros())
    }
}

/// A client that does not try again: what a test expects to fail fails once.
pub fn client(location: CloudLocation, credentials: StorageCredentials) -> TableServiceClient {
    let retry = azure_core::RetryOptions::none();
    TableServiceClientBuilder::with_location(location, credentials).retry(retry).build()
}

/// Status and code of the error that a call must end in.
pub fn failure<T: std::fmt::Debug>(
    outcome: azure_core::Result<T>,
) -> Result<(StatusCode, Option<String>)> {
    let error = outcome.err().ok_or("a call succeeded that must fail")?;
    let http = error.get_ref().and_then(|source| source.downcast_ref::<HttpError>());
    let http = http.ok_or_else(|| format!("no answer of the server: {error}"))?;
    Ok((http.status(), http.error_code().map(str::to_owned)))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let port = arguments.next().and_then(|port| port.parse().ok()).expect("a port");
    let only: Vec<String> = arguments.collect();
    let account = Arc::new(Account::new(port));
    let (mut passed, mut failed) = (0, 0);
    for (name, test) in tests::ALL {
        if !only.is_empty() && !only.iter().any(|wanted| wanted == name) {
            continue;
        }
        let began = Instant::now();
        // A task of its own, so that a failed assertion ends one test and no more.
        let local = tokio::task::LocalSet::new();
        let test = local.spawn_local(test(Arc::clone(&account)));
        match local.run_until(test).await {
            Ok(Ok(())) => {
                passed += 1;
                println!("ok rust {name} {:.2} s", began.elapsed().as_secs_f32());
            }
            Ok(Err(error)) => {
                failed += 1;
                println!("FAILED rust {name}\n{error}");
            }
            Err(panicked) => {
                failed += 1;
                println!("FAILED rust {name}\n{panicked}");
            }
        }
    }
    println!("{passed} passed, {failed} failed");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
