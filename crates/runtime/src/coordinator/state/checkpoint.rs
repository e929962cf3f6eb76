//! Checkpoints in the making, and the coordinator's own part of an image.

use super::collections::{Attendance, CollectionState};
use super::reductions::{Accumulators, ForMain};
use super::sequencer::Sequencer;
use crate::address::collection::CollectionInfo;
use crate::address::id::{CollectionId, SectionId};
use crate::coordinator::event::Asker;
use crate::message::codec::encoded_len;
use crate::message::{
    DrainCounts, Manifest, MeasuredSpeed, PartSummary, PhaseCounts, ReductionGroup,
};
use bytes::Bytes;
use gridspan_topology::{NodeId, PeId, Time};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// Checkpoints of the job.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Checkpoints {
    /// Number of the last checkpoint that was begun, or a higher one that the folder has.
    pub(crate) last: u64,
    pub(crate) making: Option<Making>,
    /// A checkpoint, from the time at which it is captured until all parts are kept.
    pub(crate) keeping: Option<Keeping>,
    /// Number of replicas that begin again after the last checkpoint. The coordinator does not move
    /// meanwhile.
    #[serde(skip)]
    pub(crate) rebuilding: u64,
    /// PEs that had not answered a round of draining when the coordinator gave the checkpoint up,
    /// and have not answered since. The coordinator does not move meanwhile.
    #[serde(skip)]
    pub(crate) late: BTreeSet<PeId>,
    /// The number of that checkpoint, and of the round.
    #[serde(skip)]
    pub(crate) late_round: (u64, u64),
    /// Whether a timer is set that checks how long the making of a checkpoint takes.
    pub(crate) is_watched: bool,
    /// Number of checkpoints since the last captured one that were given up because they took too
    /// long, up to `DOUBLINGS_MAX`.
    pub(crate) given_up: u32,
    /// Number of checkpoints whose parts were not stored in time, up to `DOUBLINGS_MAX`. It is
    /// reset only once the parts of one are stored in the usual time: with a store that is always
    /// slow, the job would otherwise give up most of its checkpoints.
    pub(crate) unstored: u32,
    /// Whether late PEs may end replicas that [`Making::replicas`] does not count.
    #[serde(skip)]
    pub(crate) is_late_with_replicas: bool,
    /// Number of members, delayed messages and published values that are not restored yet, if the
    /// job begins with an image.
    pub(crate) restoring: Option<u64>,
    /// Number of the checkpoint from which the job continues. 0 if there is none, or once a later
    /// one is complete or a warning has said that a copy is missing.
    pub(crate) restored: u64,
    /// The parts of that checkpoint that are copied to other nodes again, and are not there yet, each
    /// with that node.
    pub(crate) uncopied: BTreeSet<(PeId, NodeId)>,
}

impl Checkpoints {
    /// Whether PEs pass on what is in flight before a checkpoint, or begin replicas again after it.
    /// Meanwhile they must not get work for which several packets go back and forth.
    pub(crate) fn is_draining(&self) -> bool {
        self.making.is_some() || self.rebuilding > 0
    }

    /// Whether all PEs stand still, or will once they leave their handlers. PEs still handle
    /// messages before, while a rebalance ends, and afterwards, while replicas begin again.
    pub(crate) fn stops_pes(&self) -> bool {
        let making = self.making.as_ref();
        making.is_some_and(|making| !matches!(making.stage, Stage::Waiting))
    }

    /// Whether the coordinator may move, and rebalances may begin. They may not while a checkpoint
    /// is being made, because parts of its state do not move with the coordinator; nor while a late
    /// PE waits for its replicas to end, because a rebalance could begin other replicas.
    pub(crate) fn may_move(&self) -> bool {
        !self.is_draining() && self.late.is_empty()
    }

    /// Forgets the checkpoint from which the job continues, because a later one is complete, or it
    /// will lack a copy.
    pub(crate) fn forget_restored(&mut self) {
        self.restored = 0;
        self.uncopied.clear();
    }

    /// Whether the job stays stopped after a checkpoint.
    pub(crate) fn is_paused(&self) -> bool {
        self.making.as_ref().is_some_and(|making| matches!(making.stage, Stage::Paused))
    }
}

/// A checkpoint that is being made.
#[derive(Serialize, Deserialize)]
pub(crate) struct Making {
    pub(crate) number: u64,
    pub(crate) asker: Asker,
    /// When main asked for it.
    pub(crate) asked: Time,
    /// The state that main gave at its progress point.
    pub(crate) progress: Bytes,
    /// Number of phases that main has begun.
    pub(crate) phases: u32,
    /// Time at which the first round began.
    pub(crate) since: Option<Time>,
    /// Time until the answers of the first round, summed over PEs.
    pub(crate) first_answers: Option<Duration>,
    /// Mean time for which PEs still computed while others were stopped.
    pub(crate) computed: Duration,
    pub(crate) stage: Stage,
    /// Number of replicas that have ended for it.
    pub(crate) replicas: u64,
    /// The nodes that will leave, if the job stays stopped after the checkpoint.
    pub(crate) pause: Option<Vec<NodeId>>,
    /// Whether a warning was issued that the job stands still for it.
    pub(crate) is_warned: bool,
}

/// The stages of the making of a checkpoint.
#[derive(Serialize, Deserialize)]
pub(crate) enum Stage {
    /// A rebalance or an earlier checkpoint ends first.
    Waiting,
    /// PEs pass on everything that is in flight.
    Draining(Box<Draining>),
    /// All parts are captured, and the job stays stopped.
    Paused,
}

/// A round of draining.
#[derive(Serialize, Deserialize)]
pub(crate) struct Draining {
    pub(crate) round: u64,
    /// Whether PEs capture their parts in this round.
    pub(crate) captures: bool,
    /// PEs that have not answered.
    pub(crate) missing: BTreeSet<PeId>,
    /// The last counts of each PE that has answered, and their sum.
    counts: BTreeMap<PeId, DrainCounts>,
    pub(crate) sum: DrainCounts,
    /// The sum with the counts of the coordinator, once all PEs have answered, and that of the
    /// previous round.
    pub(crate) total: DrainCounts,
    pub(crate) previous: Option<DrainCounts>,
    /// When the round began, and the time until the answers so far, summed.
    pub(crate) began: Time,
    pub(crate) answers: Duration,
}

impl Draining {
    /// A round that begins now, and that these PEs have to answer.
    pub(crate) fn new(
        (round, captures): (u64, bool),
        missing: BTreeSet<PeId>,
        previous: Option<DrainCounts>,
        began: Time,
    ) -> Self {
        let (counts, answers) = (BTreeMap::new(), Duration::ZERO);
        let (sum, total) = Default::default();
        Self { round, captures, missing, counts, sum, total, previous, began, answers }
    }

    /// Notes the answer of a PE, or an update of it. `own`: the numbers of messages that the
    /// coordinator has created and handled.
    pub(crate) fn note(&mut self, from: PeId, counts: DrainCounts, own: [u64; 2], now: Time) {
        self.sum += counts;
        match self.counts.insert(from, counts) {
            Some(before) => self.sum -= before,
            None => self.answers += now.since(self.began),
        }
        let [created, processed] = own;
        self.total = self.sum;
        self.total += DrainCounts { created, processed, ..DrainCounts::default() };
    }
}

/// A captured checkpoint whose parts are not all encoded and kept.
#[derive(Serialize, Deserialize)]
pub(crate) struct Keeping {
    pub(crate) number: u64,
    /// The manifest, without the descriptions of parts.
    pub(crate) manifest: Manifest,
    /// The measured speeds of PEs when the parts were captured.
    pub(crate) speeds: Vec<MeasuredSpeed>,
    /// The descriptions of the parts that are encoded.
    pub(crate) parts: BTreeMap<PeId, PartSummary>,
    /// Parts that are not kept yet, and the node that will keep them.
    pub(crate) missing: BTreeSet<(PeId, NodeId)>,
    /// Time for which the job was stopped.
    pub(crate) stopped: Duration,
    /// The longest time that a PE has taken to encode its part.
    pub(crate) encoding: Duration,
    /// When all parts were captured.
    pub(crate) since: Time,
    /// When a part was last encoded or kept, or when all were captured.
    pub(crate) heard: Time,
    /// The longest time after `since` in which no part was encoded or kept.
    pub(crate) silence: Duration,
    /// Time that the copies of a PE may take, since the job limits their bandwidth.
    pub(crate) copying: Duration,
}

impl Keeping {
    /// Notes that a part was encoded or kept.
    pub(crate) fn note_progress(&mut self, now: Time) {
        self.silence = self.silence.max(now.since(self.heard));
        self.heard = now;
    }
}

/// The coordinator's part of an image.
#[derive(Serialize, Deserialize)]
pub(crate) struct CoordinatorImage {
    pub(crate) collections: Vec<CollectionImage>,
    /// Incomplete reductions.
    pub(crate) reductions: Accumulators,
    /// Number of the next publication.
    pub(crate) publications: u32,
    /// Final counts of complete phases.
    pub(crate) phases: BTreeMap<u32, PhaseCounts>,
    /// Whether any PE has handled a message of a step.
    pub(crate) uses_steps: bool,
    /// Collections whose first sync point waits for a rebalance.
    pub(crate) first_syncs: BTreeSet<CollectionId>,
}

impl CoordinatorImage {
    /// Encoded bytes of what may grow without bound in a long job.
    pub(crate) fn sizes(&self) -> [(&'static str, usize); 4] {
        let sections = self.collections.iter().map(|it| encoded_len(&it.sections));
        let results = self.collections.iter().map(|it| encoded_len(&it.for_main));
        [
            ("incomplete reductions", encoded_len(&self.reductions)),
            ("the counts of complete phases", encoded_len(&self.phases)),
            ("the numbers of reductions over sections", sections.sum::<usize>()),
            ("results of reductions for which main has not asked", results.sum::<usize>()),
        ]
    }
}

/// The coordinator's state of a collection that an image contains.
#[derive(Serialize, Deserialize)]
pub(crate) struct CollectionImage {
    info: CollectionInfo,
    reductions: Attendance,
    syncs: Attendance,
    sections: BTreeMap<u64, u64>,
    for_main: BTreeMap<ReductionGroup, ForMain>,
}

impl CollectionImage {
    pub(crate) fn info(&self) -> &CollectionInfo {
        &self.info
    }

    pub(crate) fn members(&self) -> u64 {
        self.syncs.all()
    }

    /// The numbers of complete reductions and sync points.
    pub(crate) fn complete(&self) -> [u64; 2] {
        [self.reductions.next, self.syncs.next]
    }

    /// The number of complete reductions over each section whose first member is in this
    /// collection.
    pub(crate) fn sections(&self) -> impl Iterator<Item = (SectionId, u64)> {
        let collection = self.info.id;
        self.sections.iter().map(move |(&name, &next)| (SectionId { collection, name }, next))
    }

    /// Sets the description, and the number of members that take part in operations if that has
    /// changed.
    pub(crate) fn adapt(&mut self, info: &CollectionInfo, members: Option<u64>) {
        self.info = info.clone();
        if let Some(members) = members {
            for attendance in [&mut self.reductions, &mut self.syncs] {
                *attendance = Attendance { next: attendance.next, ..Attendance::new(members) };
            }
        }
    }

    /// Takes the image of a collection.
    pub(crate) fn of(state: &CollectionState) -> Self {
        Self {
            info: state.info.clone(),
            reductions: state.reductions.clone(),
            syncs: state.syncs.clone(),
            sections: state.sections.clone(),
            for_main: state.for_main.iter().map(|(&group, it)| (group, it.unasked())).collect(),
        }
    }

    /// The image of a collection whose members have all ended.
    pub(crate) fn ended(state: &CollectionState) -> Self {
        Self {
            reductions: Attendance { next: state.reductions.next, ..Attendance::default() },
            syncs: Attendance { next: state.syncs.next, ..Attendance::default() },
            for_main: BTreeMap::new(),
            ..Self::of(state)
        }
    }

    /// Restores a collection, with broadcasts numbered from 0.
    pub(crate) fn into_state(self, creator: Asker) -> CollectionState {
        let Self { info, reductions, syncs, sections, for_main } = self;
        CollectionState {
            info,
            creating: 0,
            creator,
            reductions,
            syncs,
            broadcasts: 0,
            sequencer: Sequencer::default(),
            inserting: 0,
            waiting: VecDeque::new(),
            sections,
            for_main,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_phases_of_a_long_job_are_most_of_its_image() {
        let counts = PhaseCounts { produced: 1, consumed: 1, done: 1 };
        let image = CoordinatorImage {
            collections: Vec::new(),
            reductions: Accumulators::default(),
            publications: 0,
            phases: (0..1000).map(|number| (number, counts)).collect(),
            uses_steps: false,
            first_syncs: BTreeSet::new(),
        };

        let (what, bytes) = image.sizes().into_iter().max_by_key(|(_, bytes)| *bytes).unwrap();

        assert_eq!(what, "the counts of complete phases");
        assert!(bytes > 4_000, "{bytes}");
    }
}
