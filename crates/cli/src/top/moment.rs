//! A moment of a running job: its places, its links, its last events and a sample of its counters.

use crate::nodes::name;
use crate::request::JobEvent;
use gridspan::links::LinkReport;
use gridspan_runtime::message::telemetry::{OTHER_TYPES, SEVERAL_SITES, TelemetrySample};
use gridspan_topology::{Bandwidth, GridSpec, NodeId, SiteId};

/// The state of a job at one time.
#[derive(Clone, Debug)]
pub(crate) struct Moment {
    /// Name of the job.
    pub(crate) job: String,
    /// Name of its program.
    pub(crate) program: String,
    /// Start of the job, in milliseconds of Unix time.
    pub(crate) began_ms: u64,
    /// The places of the nodes of the present run.
    pub(crate) grid: GridSpec,
    /// The links, once they are measured.
    pub(crate) links: Option<LinkReport>,
    pub(crate) sample: TelemetrySample,
    /// Number of rebalances that have moved actors.
    pub(crate) rebalances: u64,
    /// Number of nodes that were lost.
    pub(crate) losses: u64,
    /// Number of the run of the job. Counters begin at zero in each run.
    pub(crate) run: u64,
    /// The last events, the latest last.
    pub(crate) events: Vec<JobEvent>,
}

impl Moment {
    /// Whether rates can be computed from the difference to an earlier moment: both are of one run
    /// of the job, and this sample is later.
    pub(crate) fn follows(&self, before: &Self) -> bool {
        let is_same = self.run == before.run && self.grid == before.grid;
        is_same && self.sample.at_us > before.sample.at_us
    }

    /// Whether the sample has all nodes of the job. The first samples lack nodes that are far away.
    pub(crate) fn is_whole(&self) -> bool {
        self.sample.node_count() >= self.grid.layout().node_count()
    }

    pub(crate) fn site_name(&self, site: SiteId) -> String {
        let layout = self.grid.layout();
        match site {
            SEVERAL_SITES => "others".to_owned(),
            site if site.0 < layout.site_count() => layout.site_name(site).to_owned(),
            // The job has just gone on with nodes that `grid` does not have yet.
            site => site.to_string(),
        }
    }

    /// The name of a node, such as `a/0`.
    pub(crate) fn node_name(&self, node: NodeId) -> String {
        match node.0 < self.grid.layout().node_count() {
            true => name(&self.grid, node),
            false => node.to_string(),
        }
    }

    /// The host of a node, if it is known.
    pub(crate) fn host(&self, node: NodeId) -> Option<&str> {
        (node.0 < self.grid.layout().node_count()).then(|| self.grid.host(node))
    }

    /// The name of an actor type, without the paths of its modules.
    pub(crate) fn type_name(&self, number: u16) -> String {
        match self.sample.type_names.get(usize::from(number)) {
            Some(name) => without_paths(name),
            None if number == OTHER_TYPES => "others".to_owned(),
            None => format!("type {number}"),
        }
    }

    /// The bandwidth of the link between two sites, if it is known.
    pub(crate) fn bandwidth(&self, from: SiteId, to: SiteId) -> Option<Bandwidth> {
        let (layout, links) = (self.grid.layout(), self.links.as_ref()?);
        if from == to || from.0.max(to.0) >= layout.site_count() {
            return None;
        }
        let leader = |site| layout.nodes_in(site).next();
        let ends = links.hierarchy.ends(leader(from)?, leader(to)?)?;
        let known = links.estimates.iter().find(|(of, _)| *of == ends);
        known.and_then(|(_, estimate)| estimate.bandwidth)
    }
}

/// Shortens `a::b::C<d::E>` to `C<E>`.
fn without_paths(name: &str) -> String {
    let (mut short, mut word) = (String::new(), String::new());
    for letter in name.chars() {
        match letter {
            ':' => word.clear(),
            letter if letter.is_alphanumeric() || letter == '_' => word.push(letter),
            letter => {
                short += &std::mem::take(&mut word);
                short.push(letter);
            }
        }
    }
    short + &word
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::moment;
    use super::*;

    #[test]
    fn names_of_types_have_no_paths() {
        assert_eq!(without_paths("gridspan_jobs::fault_drill::FaultInjector"), "FaultInjector");
        let worker = "gridspan_runtime::tasks::worker::Worker<a::b::Forks<jobs::uts::Tree_1>>";
        assert_eq!(without_paths(worker), "Worker<Forks<Tree_1>>");
        assert_eq!(without_paths("(a::B, [c::D; 3])"), "(B, [D; 3])");
    }

    #[test]
    fn places_that_are_not_in_the_grid_have_names_too() {
        let moment = moment(1);
        assert_eq!([0, 7].map(|site| moment.site_name(SiteId(site))), ["a", "site7"]);
        assert_eq!(moment.site_name(SEVERAL_SITES), "others");
        assert_eq!([3, 9].map(|node| moment.node_name(NodeId(node))), ["b/3", "node9"]);
        assert_eq!(moment.host(NodeId(9)), None);
        assert_eq!([0, 5].map(|number| moment.type_name(number)), ["Cell", "type 5"]);
        assert_eq!(moment.type_name(OTHER_TYPES), "others");
    }

    #[test]
    fn links_between_sites_have_the_measured_bandwidth() {
        let moment = moment(1);
        let bandwidth = |from, to| moment.bandwidth(SiteId(from), SiteId(to));
        assert_eq!(bandwidth(0, 1), Some(Bandwidth::from_bits_per_second(100_000_000)));
        assert_eq!(bandwidth(1, 0), None, "not measured");
        assert_eq!(bandwidth(0, 0), None);
        assert_eq!(moment.bandwidth(SiteId(0), SEVERAL_SITES), None);
    }

    #[test]
    fn a_moment_of_another_run_does_not_follow() {
        let (one, next) = (moment(1), moment(2));
        assert!(next.follows(&one) && !one.follows(&next) && !one.follows(&one));
        let later = Moment { run: 2, ..moment(9) };
        assert!(!later.follows(&one), "the nodes are the same, and all counters began again");
    }
}
