//! A window while it is carried out by the servers of a job.

use super::progress::Progress;
use super::windows::CallWindow;
use crate::calls::{Catalogue, Services};
use gridspan_workflow::simulate::StragglerPolicy;
use gridspan_workflow::stragglers::Watch;
use std::cell::RefCell;
use std::ops::Deref;

/// A window, how far it is, and what is seen of its servers.
pub(super) struct WindowRun<'w, 'a, 'b, C: Catalogue> {
    window: &'w CallWindow<'a, 'b, Services<C>>,
    pub(super) progress: RefCell<Progress>,
    /// If something is done about slow ones.
    pub(super) watch: Option<RefCell<Watch>>,
}

impl<'w, 'a, 'b, C: Catalogue> WindowRun<'w, 'a, 'b, C> {
    /// At its beginning.
    pub(super) fn new(window: &'w CallWindow<'a, 'b, Services<C>>) -> Self {
        let (graph, platform, rescue) = (&window.graph, &window.platform, window.rescue());
        let progress = RefCell::new(Progress::new(graph.tasks().len(), platform.servers().len()));
        let is_copying = rescue == StragglerPolicy::StealAndCopy;
        let watch = (rescue != StragglerPolicy::None)
            .then(|| RefCell::new(Watch::new(graph, platform, is_copying)));
        Self { window, progress, watch }
    }
}

impl<'a, 'b, C: Catalogue> Deref for WindowRun<'_, 'a, 'b, C> {
    type Target = CallWindow<'a, 'b, Services<C>>;

    fn deref(&self) -> &Self::Target {
        self.window
    }
}
