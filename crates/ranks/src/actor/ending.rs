//! What an actor does at the end of a run of its rank, and at the end of the job.

use super::body::{Body, End};
use super::{Life, RankActor, arrive};
use crate::error::RankError;
use crate::program::{RankProgram, RunEnd};
use crate::scope::World;
use gridspan_runtime::{Context, Ix1, List, Op, To};

impl<P: RankProgram> RankActor<P> {
    /// Ends a run, at a migration point, with a result or with a failure.
    pub(super) fn end(&mut self, end: End<P>, body: Body<P>, cx: &mut Context<'_, Self>) {
        let rank = self.local.rank;
        let pending = self.local.pending();
        // The windows are dropped outside the lock: their operators may own values, such as
        // requests, whose drop locks the state of the rank.
        let (windows, told) = self.local.with(|state| state.end_windows());
        drop(windows);
        let ranks = cx.collection();
        for (to, message) in told {
            self.send(&ranks.at(Ix1(to as i32)), to, message, cx);
        }
        let end = match end {
            Ok(_) if !pending.is_empty() => Err(RankError::PendingOperations { rank, pending }),
            end => end,
        };
        match end {
            Err(error) if self.fails_alone => {
                // Dropping the futures gives back what they hold of other ranks, such as locks.
                drop(body);
                drop(self.local.pending());
                self.flush(None, false, cx);
                self.begin_failure(&error.to_string(), cx);
            }
            Err(error) => cx.fail(format!("rank {rank}: {error}")),
            Ok(RunEnd::Moves(state)) => {
                // Requests do not outlive a migration point, so the ranks that have asked for a
                // notice of the end no longer wait when the next run begins.
                self.wait_for_end.clear();
                self.local.with(|state| state.failures.end_agreements());
                self.life = Life::Between(state);
                arrive(true, cx);
            }
            Ok(RunEnd::Value(value)) => {
                self.life = Life::Ended(value);
                for asker in std::mem::take(&mut self.wait_for_end) {
                    self.tell_end(asker, cx);
                }
                arrive(false, cx);
            }
        }
    }

    /// Gives main the result, and ends the actor. The results of spawned ranks are dropped.
    pub(super) fn give_result(&mut self, cx: &mut Context<'_, Self>) {
        let is_spawned = self.world.is_some_and(World::is_spawned);
        match std::mem::replace(&mut self.life, Life::Running) {
            Life::Ended(_) if is_spawned => {
                cx.contribute(Op::Concat, List::<P::Value>(Vec::new()), To::main());
            }
            Life::Failed(_) => cx.contribute(Op::Concat, List::<P::Value>(Vec::new()), To::main()),
            Life::Ended(value) => cx.contribute(Op::Concat, List(vec![value]), To::main()),
            _ => cx.fail(format!("rank {} has no result", self.local.rank)),
        }
        cx.destroy();
    }
}
