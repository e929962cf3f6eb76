//! Requests from other sites to this site, and the tasks sent to those sites.

use super::super::message::StandingRequest;
use super::latencies::SiteLatencies;
use super::outgoing::Outgoing;
use super::shares::Receivers;
use gridspan_topology::Time;
use std::collections::BTreeMap;
use std::time::Duration;

/// The open requests at the head of a site.
#[derive(Clone, Debug, Default)]
pub(super) struct Requests {
    standing: BTreeMap<usize, (StandingRequest, Time)>,
    sent: BTreeMap<usize, Sent>,
}

/// Tasks sent to a site that has not run dry since.
#[derive(Clone, Copy, Debug)]
struct Sent {
    tasks: u64,
    at: Time,
}

/// Time of a task, as estimated by the head of a site.
#[derive(Clone, Copy, Debug)]
pub(super) struct TaskPace {
    /// Nanoseconds per task.
    pub(super) task_ns: f64,
    /// Whether tasks spawn others. If they do, tasks that were sent away last as long as those that
    /// stayed.
    pub(super) is_replenished: bool,
}

impl Requests {
    /// Adds a request of a site.
    pub(super) fn park(
        &mut self,
        site: usize,
        standing: StandingRequest,
        ways: &SiteLatencies,
        post: &Outgoing<'_>,
    ) {
        if standing.backlog.is_zero() && !self.is_blind(site, post.now, ways.latency(site, post)) {
            self.sent.remove(&site);
        }
        self.standing.insert(site, (standing, post.now));
    }

    /// Removes the request of a site.
    pub(super) fn withdraw(&mut self, site: usize) {
        self.standing.remove(&site);
    }

    /// Removes the request of a site if it was made at a time for which `is_old` holds.
    pub(super) fn withdraw_if(&mut self, site: usize, is_old: impl Fn(Time) -> bool) {
        if self.standing.get(&site).is_some_and(|&(_, at)| is_old(at)) {
            self.standing.remove(&site);
        }
    }

    /// Adapts to changed places: requests belong to the present sites of their receivers.
    pub(super) fn move_to(&mut self, post: &Outgoing<'_>) {
        let (own, _) = post.own();
        let standing = std::mem::take(&mut self.standing).into_values();
        let site = |standing: &StandingRequest| post.places.site_of(*standing.receivers.first()?);
        let moved = standing.filter_map(|request| Some((site(&request.0)?, request)));
        self.standing = moved.filter(|&(site, _)| site != own).collect();
        self.sent.clear();
    }

    /// Forgets the sites that have no nodes left.
    pub(super) fn retain(&mut self, has_nodes: impl Fn(usize) -> bool) {
        self.standing.retain(|&site, _| has_nodes(site));
        self.sent.retain(|&site, _| has_nodes(site));
    }

    /// Removes and returns the request of a site, with the nodes that receive tasks.
    pub(super) fn answer(&mut self, site: usize) -> Option<StandingRequest> {
        self.standing.remove(&site).map(|(standing, _)| standing)
    }

    /// Records that `tasks` tasks were sent to a site.
    pub(super) fn note_sent(&mut self, site: usize, tasks: u64, pace: TaskPace, now: Time) {
        let before = self.sent.get(&site).filter(|_| pace.is_replenished);
        let tasks = before.map_or(tasks, |before| before.tasks.saturating_add(tasks));
        self.sent.insert(site, Sent { tasks, at: now });
    }

    /// Returns the latency to the nearest site that asks.
    pub(super) fn nearest(&self, ways: &SiteLatencies, post: &Outgoing<'_>) -> Option<Duration> {
        self.standing.keys().filter_map(|&site| ways.latency(site, post)).min()
    }

    /// Returns the sites that ask, and when each can start tasks sent now, plus the time in which
    /// results travel back.
    pub(super) fn receivers(
        &self,
        pace: TaskPace,
        ways: &SiteLatencies,
        post: &Outgoing<'_>,
    ) -> Vec<(usize, Receivers)> {
        let receiver = |(&site, (standing, _)): (&usize, &(StandingRequest, Time))| {
            let way = ways.latency(site, post)?;
            // The tasks travel there, and their results travel back.
            let begins = way.max(self.backlog(site, pace, way, post)) + way;
            let from = begins.as_nanos() as f64 / pace.task_ns;
            let nodes = f64::from(standing.nodes).min(post.places.nodes_in(site).len() as f64);
            (!standing.receivers.is_empty()).then_some((site, Receivers { nodes, from }))
        };
        self.standing.iter().filter_map(receiver).collect()
    }

    /// Returns the time for which a site that asks still has work. `way` is the latency to it.
    fn backlog(&self, site: usize, pace: TaskPace, way: Duration, post: &Outgoing<'_>) -> Duration {
        let Some((standing, at)) = self.standing.get(&site) else { return Duration::ZERO };
        let left = |said: Duration| said.saturating_sub(post.now.since(*at));
        let Some(sent) = self.sent.get(&site) else { return left(standing.backlog) };
        let each = sent.tasks / u64::from(standing.nodes).max(1);
        let lasts = Duration::from_nanos((pace.task_ns * each as f64) as u64);
        let is_blind = self.is_blind(site, *at, Some(way));
        match pace.is_replenished {
            // The tasks that were sent spawn others, too.
            true if is_blind || !standing.backlog.is_zero() => left(standing.backlog).max(lasts),
            false if is_blind => left(standing.backlog.saturating_add(lasts)),
            _ => left(standing.backlog),
        }
    }

    /// Returns whether the site may have made its request before it knew about tasks on their way
    /// to it. `way` is the latency to it; `None` if it is not known any more.
    fn is_blind(&self, site: usize, asked: Time, way: Option<Duration>) -> bool {
        let is_early = |sent: &Sent| way.is_none_or(|way| asked < sent.at + way * 2);
        self.sent.get(&site).is_some_and(is_early)
    }
}
