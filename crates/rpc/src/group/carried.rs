//! A window while it is carried out by the servers of a job.

use super::progress::Progress;
use super::windows::Window;
use crate::calls::{Catalogue, Services};
use crate::judge::Rescue;
use crate::rescue::Watch;
use std::cell::RefCell;
use std::ops::Deref;

/// A window, how far it is, and what is seen of its servers.
pub(super) struct Carried<'w, 'a, 'b, C: Catalogue> {
    window: &'w Window<'a, 'b, Services<C>>,
    pub(super) progress: RefCell<Progress>,
    /// If something is done about slow ones.
    pub(super) watch: Option<RefCell<Watch>>,
}

impl<'w, 'a, 'b, C: Catalogue> Carried<'w, 'a, 'b, C> {
    /// At its beginning.
    pub(super) fn new(window: &'w Window<'a, 'b, Services<C>>) -> Self {
        let (graph, platform, rescue) = (&window.graph, &window.platform, window.rescue());
        let progress = RefCell::new(Progress::new(graph.tasks().len(), platform.servers().len()));
        let is_copying = rescue == Rescue::StealAndCopy;
        let watch =
            (rescue != Rescue::None).then(|| RefCell::new(Watch::new(graph, platform, is_copying)));
        Self { window, progress, watch }
    }
}

impl<'a, 'b, C: Catalogue> Deref for Carried<'_, 'a, 'b, C> {
    type Target = Window<'a, 'b, Services<C>>;

    fn deref(&self) -> &Self::Target {
        self.window
    }
}
