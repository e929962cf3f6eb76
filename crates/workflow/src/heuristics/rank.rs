//! Upward ranks: the mean time from the beginning of a task to the end of the group.

use crate::graph::TaskGraph;
use crate::id::{Endpoint, ServerId, TaskId};
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
/// pair of a server with itself counts as zero. If there are many servers, uses a sample in which
/// each large site has its share.
fn mean_transfer(platform: &Platform) -> (f64, f64) {
    const SERVERS_MAX: usize = 64;
    let step = platform.servers().len().div_ceil(SERVERS_MAX).max(1);
    let mut servers: Vec<ServerId> = platform.server_ids().collect();
    if step > 1 {
        // Where sites alternate in the list, every second server may be of the same site.
        servers.sort_by_key(|server| platform.server(*server).site);
    }
    let servers: Vec<_> = servers.into_iter().step_by(step).map(Endpoint::Server).collect();
    let pairs = servers.iter().flat_map(|&from| servers.iter().map(move |&to| (from, to)));
    let (mut latency_s, mut s_per_byte) = (0.0, 0.0);
    for (from, to) in pairs.filter(|(from, to)| from != to) {
        latency_s += platform.latency_s(from, to);
        s_per_byte += 1.0 / platform.bandwidth(from, to);
    }
    let count = (servers.len() * servers.len()).max(1) as f64;
    (latency_s / count, s_per_byte / count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::{ClientSpec, ServerSpec, Site};
    use gridspan_topology::{Bandwidth, Latency, Link};

    #[test]
    fn a_sample_of_many_servers_has_servers_of_all_sites() {
        let link = |millis| {
            Link::new(Latency::from_millis(millis), Bandwidth::from_bits_per_second(8_000_000))
        };
        let site = |name: &str| Site::new(name, link(1), link(10));
        // The sites alternate, and every second server is in the sample.
        let server = |number: usize| ServerSpec::new(number.to_string(), number % 2, 1.0);
        let servers = (0..128).map(server).collect();
        let client = ClientSpec::outside(link(5));
        let platform = Platform::new(servers, vec![site("a"), site("b")], client);

        let (latency_s, s_per_byte) = mean_transfer(&platform);

        let (near, far, all) = (2.0 * 32.0 * 31.0, 2.0 * 32.0 * 32.0, 64.0 * 64.0);
        assert!((latency_s - (near * 0.001 + far * 0.020) / all).abs() < 1e-9, "{latency_s}");
        assert!((s_per_byte - (near + far) * 1e-6 / all).abs() < 1e-12, "{s_per_byte}");
    }
}
