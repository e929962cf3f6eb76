//! Whether a machine has room for another checkpoint beside the complete one. The sizes are known
//! once the first checkpoint of a job is complete.

use crate::driver::memory::Memory;
use crate::error::Warning;
use crate::job::program::Program;
use crate::message::Image;
use crate::pe::RunOfJob;
use crate::pe::watch::OnWarning;
use gridspan_topology::{Layout, NodeId, PeId};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Checks once, for all nodes on a machine.
pub(super) struct RoomCheck {
    layout: Arc<Layout>,
    run: Arc<RunOfJob>,
    on_warning: Vec<OnWarning>,
    /// The nodes on the machine.
    nodes: Vec<NodeId>,
    is_done: AtomicBool,
}

impl RoomCheck {
    pub(super) fn new(program: &Program, nodes: Vec<NodeId>) -> Self {
        Self {
            layout: program.layout().clone(),
            run: program.run().clone(),
            on_warning: program.watch().on_warning.clone(),
            nodes,
            is_done: AtomicBool::new(false),
        }
    }

    /// The bytes that the nodes keep of a complete checkpoint, if it is the first one.
    pub(super) fn kept_of_first(&self, image: &Image) -> Option<u64> {
        if self.is_done.swap(true, Ordering::Relaxed) {
            return None;
        }
        let (layout, run) = (&self.layout, &self.run);
        let bytes = |node: NodeId| {
            let pes = layout.place(node).pes.clone();
            pes.map(|pe| image.part(PeId(pe)).1).fold(0, u64::saturating_add)
        };
        Some(run.checkpoints.kept_bytes(layout, &run.hosts, &self.nodes, bytes))
    }

    /// Warns if too little memory is left for a checkpoint of which the nodes keep this many bytes.
    pub(super) fn warn_of_shortage(&self, kept: u64) {
        let copies = self.run.checkpoints.copies.min(self.layout.node_count());
        let memory = Memory::of_machine();
        if let Some(reason) = memory.and_then(|memory| memory.shortage_for_next(kept, copies)) {
            let warning = Warning::ScarceMemory { reason };
            self.on_warning.iter().for_each(|tell| tell(&warning));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::JobError;
    use crate::message::{EncodedManifest, Manifest};
    use crate::{Actor, Context, Ix1, Job};
    use serde::{Deserialize, Serialize};

    #[derive(Serialize, Deserialize)]
    struct Idle;

    impl Actor for Idle {
        type Index = Ix1;
        type Init = ();
        type Message = u8;

        fn create((): (), _cx: &mut Context<'_, Self>) -> Self {
            Self
        }

        fn handle(&mut self, _message: u8, _cx: &mut Context<'_, Self>) {}
    }

    #[test]
    fn the_parts_and_copies_of_all_nodes_on_the_machine_count_for_the_first_checkpoint() {
        let layout = Layout::new(vec![("a".to_owned(), vec![1, 2, 1])]);
        let encoded = EncodedManifest::without_actors(1, layout.clone()).0;
        let (mut manifest, _) = Manifest::decode(&encoded).unwrap();
        for (part, bytes) in manifest.parts.iter_mut().zip([1, 20, 20, 300]) {
            part.segments = vec![bytes];
        }
        let image = Image::new(manifest.encode(&[])).unwrap();
        let job = Job::new("room").actor::<Idle>().main(async |_| Ok::<(), JobError>(()));
        let program = Program::new(job, layout).unwrap();

        let check = RoomCheck::new(&program, vec![NodeId(0), NodeId(1)]);

        // Each node has copies of the parts of the node before, and node 0 of that of node 2.
        assert_eq!(check.kept_of_first(&image), Some(1 + 1 + 40 + 300));
        assert_eq!(check.kept_of_first(&image), None);
    }
}
