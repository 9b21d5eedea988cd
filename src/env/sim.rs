//! placeholder
/// x
#[derive(Debug)]
pub struct SimEnv {}
/// x
#[derive(Debug)]
pub enum CrashStyle {}
/// x
#[derive(Debug)]
pub enum Fault {}
