//! The counters of a PE for watchers of the job: the work that it has done, and its queues.

pub(in crate::pe) mod state;

use crate::address::id::KindId;
use crate::message::telemetry::{PeReading, TelemetryCounts, TypeReading};
use crate::pe::Pe;
use crate::pe::core::Core;
use crate::pe::rank::{Rank, step_of};

impl Pe {
    /// Returns the counters of this PE, except for the use of time, which its driver counts. Takes
    /// time proportional to the number of actor types.
    pub fn reading(&self) -> PeReading {
        let core = &self.core;
        let kinds = core.common.kinds().map(|(kind, _)| core.of_type(kind));
        let types: Vec<TypeReading> = kinds.collect();
        let (tasks_done, tasks_waiting) = core.counts.tasks();
        let counts = TelemetryCounts {
            handled: core.statistics.handled,
            waiting: types.iter().map(|it| it.waiting).sum(),
            waiting_bytes: (core.ready_bytes + core.delivery.budget.bytes()) as u64,
            actors: types.iter().map(|it| it.actors).sum(),
            migrations: core.statistics.migrations,
            tasks_done,
            tasks_waiting,
            ..TelemetryCounts::default()
        };
        PeReading { counts, newest_step: core.counts.newest_step(), types, is_late: false }
    }
}

impl Core {
    /// Counts messages of one type and rank that were handled.
    #[inline]
    pub(in crate::pe) fn note_dispatched(&mut self, rank: Rank, kind: KindId, messages: u32) {
        self.counts.note_handled(kind, messages);
        if messages > 0
            && let Some(step) = step_of(rank.priority)
        {
            self.counts.note_step(step);
        }
    }

    fn of_type(&self, kind: KindId) -> TypeReading {
        let at = kind.index();
        TypeReading {
            actors: (self.members[at].len() - self.free[at].len()) as u64,
            handled: self.counts.handled(kind),
            waiting: self.queues[at].len() as u64,
        }
    }
}
