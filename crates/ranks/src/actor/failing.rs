//! What actors do when the program of a rank has failed, in a job with `ErrorsReturn`.
//!
//! The actor of the failed rank stays, so that others still get what the rank had sent. It reports
//! to rank 0, which completes the agreements that wait for the rank, and returns the number of
//! ranks of the job. Then the actor tells each rank of the failure, after its earlier messages to
//! that rank, and arrives at the migration point. Ranks that are spawned later learn of the failure
//! with their group.

use super::{Life, RankActor, arrive};
use crate::packet::RankMessage;
use crate::program::RankProgram;
use gridspan_runtime::{Context, Ix1};

/// Number of characters of an error that other ranks get.
const REASON_CHARS_MAX: usize = 500;

impl<P: RankProgram> RankActor<P> {
    /// Notes that the program of this rank has failed, and reports it to rank 0.
    pub(super) fn begin_failure(&mut self, reason: &str, cx: &mut Context<'_, Self>) {
        let reason: String = reason.chars().take(REASON_CHARS_MAX).collect();
        self.life = Life::Failed(reason.clone());
        for asker in std::mem::take(&mut self.wait_for_end) {
            self.tell_end(asker, cx);
        }
        let (rank, known) = (self.local.rank, self.size);
        let next_communicator = self.local.with(|state| state.next_communicator);
        match rank {
            0 => self.note_failure((rank, known), next_communicator, &reason, cx),
            _ => {
                let first = cx.collection().at(Ix1(0));
                let failed = RankMessage::HasFailed { rank, known, next_communicator, reason };
                cx.send(&first, failed);
            }
        }
    }

    /// At rank 0: handles the failure of a rank that knows of `known` ranks. Rank 0 may know of
    /// fewer, if it has not begun.
    pub(super) fn note_failure(
        &mut self,
        (rank, known): (u32, u32),
        next_communicator: u32,
        reason: &str,
        cx: &mut Context<'_, Self>,
    ) {
        let ranks = self.size.max(known);
        self.detector.get_or_insert_default().note_failed(rank);
        let server = self.server.get_or_insert_default();
        let answers = server.note_failed(rank, next_communicator, reason.to_owned());
        if server.failed().len() as u64 == u64::from(ranks) {
            return cx
                .fail(format!("all ranks have failed, the last one was rank {rank}: {reason}"));
        }
        self.answer(answers, cx);
        match rank == self.local.rank {
            true => self.tell_failure(ranks, cx),
            false => {
                let failed = cx.collection().at(Ix1(rank as i32));
                cx.send(&failed, RankMessage::TellFailure { ranks });
            }
        }
    }

    /// Tells all other ranks of the job that this one has failed.
    pub(super) fn tell_failure(&mut self, ranks: u32, cx: &mut Context<'_, Self>) {
        let Life::Failed(reason) = &self.life else { return };
        let (rank, all) = (self.local.rank, cx.collection());
        for other in (0..ranks).filter(|other| *other != rank) {
            let notice = RankMessage::Failed { rank, reason: reason.clone() };
            cx.send(&all.at(Ix1(other as i32)), notice);
        }
        arrive(false, cx);
    }

    /// Whether this rank has failed and therefore drops a message: it has no receives and no
    /// windows any more.
    pub(super) fn drops(&self, message: &RankMessage) -> bool {
        matches!(self.life, Life::Failed(_))
            && matches!(message, RankMessage::Message(..) | RankMessage::Access { .. })
    }
}
