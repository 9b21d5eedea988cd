//! placeholder
use super::*;
/// The machine this process runs on.
#[derive(Debug, Default)]
pub struct RealEnv {}
impl RealEnv {
    /// The machine.
    #[must_use]
    pub fn new() -> Self {
        Self {}
    }
}
impl Env for RealEnv {
    fn disk(&self) -> Arc<dyn Disk> {
        panic!()
    }
    fn clock(&self) -> Arc<dyn Clock> {
        panic!()
    }
    fn start_jobs(&self, _: usize) -> Arc<dyn Jobs> {
        panic!()
    }
}
