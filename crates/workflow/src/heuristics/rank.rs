//! Upward ranks: the mean time from the beginning of a task to the end of the group.

use crate::graph::TaskGraph;
use crate::id::{Endpoint, TaskId};
use crate::platform::Platform;

/// Returns all tasks, those with the longest path to the end first, and each after the tasks from
/// which it reads. Times and transfers are means over all servers, as in Topcuoglu, Hariri and Wu
/// (2002), section 4.2.
pub(super) fn by_upward_rank(graph: &TaskGraph, platform: &Platform) -> Vec<TaskId> {
    let rank = upward_ranks(graph, platform);
    let mut order = graph.order().to_vec();
    // A stable sort keeps tasks of equal rank, which occur if work takes no time, in a valid order.
    order.sort_by(|one, other| rank[other.index()].total_cmp(&rank[one.index()]));
    order
}

fn upward_ranks(graph: &TaskGraph, platform: &Platform) -> Vec<f64> {
    let servers = platform.servers().len().max(1) as f64;
    let slowness =
        platform.servers().iter().map(|server| 1.0 / server.speed).sum::<f64>() / servers;
    let (latency_s, s_per_byte) = mean_transfer(platform);
    let mut ranks = vec![0.0; graph.tasks().len()];
    for &task in graph.order().iter().rev() {
        let mut below_s: f64 = 0.0;
        for &data in &graph.task(task).outputs {
            let datum = graph.datum(data);
            let sent_s = latency_s + datum.bytes as f64 * s_per_byte;
            for &reader in &datum.consumers {
                below_s = below_s.max(sent_s + ranks[reader.index()]);
            }
        }
        ranks[task.index()] = graph.task(task).work_s * slowness + below_s;
    }
    ranks
}

/// Returns the mean latency, and the mean time per byte, over all ordered pairs of servers. The
/// pair of a server with itself counts as zero. Uses a sample if there are many servers.
fn mean_transfer(platform: &Platform) -> (f64, f64) {
    const SERVERS_MAX: usize = 64;
    let step = platform.servers().len().div_ceil(SERVERS_MAX).max(1);
    let servers: Vec<_> = platform.server_ids().step_by(step).map(Endpoint::Server).collect();
    let pairs = servers.iter().flat_map(|&from| servers.iter().map(move |&to| (from, to)));
    let (mut latency_s, mut s_per_byte) = (0.0, 0.0);
    for (from, to) in pairs.filter(|(from, to)| from != to) {
        latency_s += platform.latency_s(from, to);
        s_per_byte += 1.0 / platform.bandwidth(from, to);
    }
    let count = (servers.len() * servers.len()).max(1) as f64;
    (latency_s / count, s_per_byte / count)
}
