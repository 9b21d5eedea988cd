//! The binary: reads the command line and does what it says.

use std::process::ExitCode;

use tablestone_server::cli::Cli;

/// Requests allocate much that is small and soon freed. Beside glibc's allocator an entity group
/// transaction of 100 takes 550 µs of a processor, not 650, a get 9.3 µs, not 10.0:
/// `cargo bench -p tablestone-server --bench load -- --server ONE --server OTHER`
/// Without huge pages (`no_thp`) the server has four fifths of the memory (DESIGN.md, 10.1).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    Cli::read().run()
}
