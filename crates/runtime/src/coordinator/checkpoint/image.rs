//! The coordinator's part of an image: what it has, how it is described in the manifest, and how
//! another run begins from it.

use crate::address::collection::CollectionInfo;
use crate::address::id::MAIN_PE;
use crate::coordinator::event::Asker;
use crate::coordinator::machine::Coordinator;
use crate::coordinator::state::checkpoint::{CollectionImage, CoordinatorImage};
use crate::coordinator::state::collections::CollectionState;
use crate::coordinator::state::publications::Publications;
use crate::coordinator::state::reductions::Accumulators;
use crate::error::JobError;
use crate::message::codec;
use crate::message::{Manifest, PartSummary};
use gridspan_topology::{NodeId, PeId};
use std::collections::BTreeSet;
use std::time::Duration;

/// Maximum size of a manifest: it travels in one packet, and to the launcher in one line.
pub(super) const MANIFEST_BYTES_MAX: usize = 6 << 20;

impl Coordinator {
    /// The manifest of the checkpoint that is being made, without the descriptions of its parts.
    pub(super) fn manifest(&self) -> Manifest {
        let making = self.checkpoints.making.as_ref();
        let first_syncs = &self.balances.first_syncs;
        let settled = |info: &CollectionInfo, next| {
            if first_syncs.contains(&info.id) { 0 } else { next }
        };
        let collections = self.collections.values();
        Manifest {
            number: self.checkpoints.last,
            run: self.common.run.number,
            job: self.common.run.job.clone(),
            types: self.common.actor_types(),
            maps: self.common.run.maps.clone(),
            reducers: self.common.run.reducers.clone(),
            at: self.now,
            layout: (*self.common.layout).clone(),
            progress: making.map(|making| making.progress.clone()).unwrap_or_default(),
            phases: making.map_or(0, |making| making.phases),
            collections: collections
                .map(|state| (state.info.clone(), settled(&state.info, state.syncs.next)))
                .collect(),
            coordinator: codec::encode(&self.image()).into(),
            cost: Duration::ZERO,
            parts: Vec::new(),
        }
    }

    fn image(&self) -> CoordinatorImage {
        let image = |state: &CollectionState| match self.common.is_left_out(state.info.kind) {
            true => CollectionImage::ended(state),
            false => CollectionImage::of(state),
        };
        CoordinatorImage {
            collections: self.collections.values().map(image).collect(),
            reductions: self.stored_reductions(),
            publications: self.publications.next,
            phases: self.phases.complete.clone(),
            uses_steps: self.uses_steps,
            first_syncs: self.balances.first_syncs.clone(),
        }
    }

    /// The incomplete reductions without those of members that checkpoints leave out: later members
    /// of their collections would otherwise complete them.
    fn stored_reductions(&self) -> Accumulators {
        let mut reductions = self.accumulators.clone();
        reductions.0.retain(|(group, _), _| {
            let state = self.collections.get(&group.collection());
            state.is_none_or(|state| !self.common.is_left_out(state.info.kind))
        });
        reductions
    }

    /// Gives later checkpoints numbers above this one.
    pub(in crate::coordinator) fn number_checkpoints_after(&mut self, number: u64) {
        self.checkpoints.last = self.checkpoints.last.max(number);
    }

    /// Restores the coordinator's part of an image. PEs restore theirs meanwhile, and copy the parts
    /// `copied` to these nodes again.
    pub(in crate::coordinator) fn restore(
        &mut self,
        manifest: &Manifest,
        copied: BTreeSet<(PeId, NodeId)>,
    ) {
        let image: CoordinatorImage = match codec::decode("a manifest", &manifest.coordinator) {
            Ok(image) => image,
            Err(error) => return self.fail(JobError::Protocol(error.to_string())),
        };
        // All collections exist, so no asker waits for their creation.
        let no_asker = Asker { pe: MAIN_PE, slot: u64::MAX };
        let infos = manifest.collections.iter().map(|(info, _)| info.id);
        let states = image.collections.into_iter().map(|it| it.into_state(no_asker));
        self.collections = infos.zip(states).collect();
        self.accumulators = image.reductions;
        self.publications = Publications { next: image.publications, ..Publications::default() };
        self.phases.complete = image.phases;
        self.uses_steps = image.uses_steps;
        self.balances.first_syncs = image.first_syncs;
        // The folder may have later checkpoints than this one, whose numbers are not used again.
        self.number_checkpoints_after(manifest.number);
        self.checkpoints.restored = manifest.number;
        self.checkpoints.uncopied = copied;
        (self.now, self.clock_ahead_ns) = (manifest.at, i128::from(manifest.at.0));
        let pes = u64::from(self.common.layout.pe_count());
        let items = |part: &PartSummary| {
            let published = part.published.saturating_mul(pes);
            part.members.saturating_add(part.others).saturating_add(published)
        };
        let all = manifest.parts.iter().map(items).fold(0, u64::saturating_add);
        self.checkpoints.restoring = Some(all);
    }
}

/// Why a manifest is too large, if it is, with the number of its encoded bytes.
pub(super) fn too_large(manifest: &Manifest, bytes: usize) -> Option<String> {
    if bytes <= MANIFEST_BYTES_MAX {
        return None;
    }
    let of_main = ("the state of main", manifest.progress.len());
    let of_parts = ("the list of parts", codec::encoded_len(&manifest.parts));
    let image = codec::decode::<CoordinatorImage>("an image", &manifest.coordinator);
    let others = image.map_or_else(|_| Vec::new(), |image| image.sizes().to_vec());
    let all = others.into_iter().chain([of_main, of_parts]);
    let (what, most) = all.max_by_key(|(_, size)| *size).unwrap_or_default();
    Some(format!(
        "its manifest takes {bytes} bytes, more than {MANIFEST_BYTES_MAX}; {most} of them for {what}"
    ))
}
