//! The probable sites of the readers of a task's results: for each reader, the site from which most
//! of its inputs come.

use crate::graph::TaskGraph;
use crate::id::{Endpoint, ServerId, TaskId};
use crate::platform::Platform;

/// The data that each task reads from the already placed tasks at each site.
#[derive(Clone, Debug)]
pub(super) struct ReaderAffinity<'a> {
    graph: &'a TaskGraph,
    platform: &'a Platform,
    /// One server of each site that has any.
    servers: Vec<Option<ServerId>>,
    /// Number of bytes, by task and site.
    bytes: Vec<u64>,
}

impl<'a> ReaderAffinity<'a> {
    pub(super) fn new(graph: &'a TaskGraph, platform: &'a Platform) -> Self {
        let sites = platform.sites().len();
        let server_in =
            |site| platform.server_ids().find(|&server| platform.server(server).site == site);
        let servers = (0..sites).map(server_in).collect();
        Self { graph, platform, servers, bytes: vec![0; sites * graph.tasks().len()] }
    }

    fn of(&self, task: TaskId) -> &[u64] {
        let sites = self.servers.len();
        &self.bytes[task.index() * sites..][..sites]
    }

    /// Returns, for each site at which a task could run, the time to transfer the results to their
    /// readers over idle links. For each reader, either the result goes to the site with most of
    /// the reader's other inputs, or these inputs go to the site of the task.
    pub(super) fn away_s(&self, task: TaskId) -> Vec<f64> {
        let mut away_s = vec![0.0; self.servers.len()];
        if self.servers.len() < 2 {
            return away_s;
        }
        for &data in &self.graph.task(task).outputs {
            let datum = self.graph.datum(data);
            let mut sites: Vec<Option<u64>> = vec![None; self.servers.len()];
            for &reader in &datum.consumers {
                let held = self.of(reader).iter().copied().enumerate();
                if let Some((site, most)) = held.max_by_key(|&(_, bytes)| bytes)
                    && most > 0
                {
                    let bytes = sites[site].get_or_insert(0);
                    *bytes = most.min(datum.bytes).max(*bytes);
                }
            }
            for (site, bytes) in sites.into_iter().enumerate() {
                let Some((bytes, to)) = bytes.zip(self.servers[site]) else { continue };
                for (from, away_s) in self.servers.iter().zip(&mut away_s) {
                    let Some(from) = from.filter(|&from| from != to) else { continue };
                    let [from, to] = [from, to].map(Endpoint::Server);
                    *away_s += self.platform.transfer_s(bytes, from, to);
                }
            }
        }
        away_s
    }

    /// Notes that a task is placed at a site.
    pub(super) fn place(&mut self, task: TaskId, site: usize) {
        let sites = self.servers.len();
        for &data in &self.graph.task(task).outputs {
            let datum = self.graph.datum(data);
            for &reader in &datum.consumers {
                self.bytes[reader.index() * sites + site] += datum.bytes;
            }
        }
    }
}
