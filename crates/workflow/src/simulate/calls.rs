//! Plain GridRPC: each call is placed by itself, once its arguments are at the client.

use super::engine::Engine;
use crate::id::{DataId, Endpoint, ServerId, TaskId};

impl Engine<'_> {
    /// An argument is at the client.
    pub(super) fn argument(&mut self, data: DataId) {
        let graph = self.graph;
        for &task in &graph.datum(data).consumers {
            let Some(calls) = &mut self.calls else { return };
            calls.missing[task.index()] -= 1;
            if calls.missing[task.index()] == 0 {
                self.call(task);
            }
        }
    }

    /// Calls a task on the server that would end it first: sending its arguments over an idle link,
    /// waiting for a core, computing.
    pub(super) fn call(&mut self, task: TaskId) {
        let (graph, platform, now_s) = (self.graph, self.platform, self.now_s);
        let Some(calls) = &mut self.calls else { return };
        let called = graph.task(task);
        let bytes = called.inputs.iter().map(|&data| graph.datum(data).bytes).sum();
        let mut best: Option<(f64, ServerId, usize)> = None;
        for server in platform.server_ids().filter(|&server| called.can_run_on(server)) {
            let sent_s = platform.transfer_s(bytes, Endpoint::Client, Endpoint::Server(server));
            let cores = calls.taken_until_s[server.index()].iter().enumerate();
            let Some((core, free_s)) = cores.min_by(|one, other| one.1.total_cmp(other.1)) else {
                continue;
            };
            let begin_s = free_s.max(now_s + sent_s);
            let end_s = begin_s + platform.time_s(called.work_s, server);
            if best.is_none_or(|(best_s, ..)| end_s < best_s) {
                best = Some((end_s, server, core));
            }
        }
        if let Some((end_s, server, core)) = best {
            calls.taken_until_s[server.index()][core] = end_s;
            self.attempt(task, server);
        }
    }
}
