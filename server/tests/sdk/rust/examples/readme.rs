//! The README's lines for Rust, as they stand there.

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    include!(env!("README_RUST"));
    Ok(())
}
