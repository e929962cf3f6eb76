//! What a rank waits for: as text, and as the ranks that can let it go on.

use super::LocalState;
use super::slots::Wait;
use crate::runs::Run;

/// Largest number of runs of ranks that a rank lists as those it waits for. A rank seldom waits for
/// more, and long lists cost memory at the rank that looks for deadlocks.
const RUNS_MAX: usize = 64;

impl LocalState {
    /// What the rank waits for, as text.
    pub(crate) fn waits(&self) -> String {
        let probes = self.watchers.iter().map(|watcher| watcher.at);
        let waits: Vec<String> =
            self.slots.waiting().chain(probes).map(|at| at.to_string()).collect();
        match waits.is_empty() {
            true => "something that is no operation of ranks".to_owned(),
            false => waits.join(" and "),
        }
    }

    /// The ranks of which one must send a message before this rank goes on. `None` if something
    /// else can let it go on, such as a timer, the name server or data on their way, or if there
    /// are too many.
    pub(crate) fn waits_until(&self) -> Option<Vec<Run>> {
        if !(self.sleeping.is_empty() && self.resumed.is_empty() && self.tasks.is_empty()) {
            return None;
        }
        let mut until: Vec<Run> = Vec::new();
        for wait in self.slots.awaited() {
            match wait {
                Wait::Receive(_, peers) => until.extend(peers.runs(RUNS_MAX)?),
                Wait::Receiver(token) => until.push((self.sent.get(token)?.to, 1)),
                Wait::Buffer => {
                    let buffered = self.sent.values().filter(|sent| sent.buffered > 0);
                    until.extend(buffered.map(|sent| (sent.to, 1)));
                }
                // It waits for other operations of this rank.
                Wait::Task => {}
                Wait::Data(_) | Wait::Access | Wait::Reply => return None,
            }
        }
        for watcher in &self.watchers {
            until.extend(watcher.peers.runs(RUNS_MAX)?);
        }
        let is_known = (1..=RUNS_MAX).contains(&until.len());
        is_known.then_some(until)
    }
}
