//! The main function of a job.

use crate::error::JobError;
use crate::job::grid::Grid;
use std::pin::Pin;
use std::sync::Arc;

/// The future of a main function.
pub type MainFuture = Pin<Box<dyn Future<Output = Result<(), JobError>>>>;

pub(crate) enum Main {
    /// It can begin once.
    Once(Box<dyn FnOnce(Grid) -> MainFuture + Send>),
    /// It can begin again, in a later run of the job.
    Again(Arc<dyn Fn(Grid) -> MainFuture + Send + Sync>),
}

/// A main function that has not started; `None` does nothing.
pub(crate) struct MainFunction(pub(super) Option<Main>);

impl MainFunction {
    pub(crate) fn begin(self, grid: Grid) -> MainFuture {
        match self.0 {
            Some(Main::Once(main)) => main(grid),
            Some(Main::Again(main)) => main(grid),
            None => Box::pin(async { Ok(()) }),
        }
    }
}
