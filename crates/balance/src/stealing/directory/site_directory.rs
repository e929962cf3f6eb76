//! The head of a site: levels work between the parts of the site, and between the site and others.
//!
//! A site that will run dry soon parks a *standing request* at every other one. A head with much
//! work answers all standing requests at once and early: it computes the shares with which all
//! sites finish at the same time (`shares.rs`); the greater the latency to a site, the smaller its
//! share. It tells each of these sites about the others, so that they do not send tasks to each
//! other. A site withdraws its other requests when one of them is answered. Where tasks spawn
//! others, the time at which they will be done is unknown (`backlog.rs`): a site then asks while
//! its tasks have lasted for less than a round trip. It gets one of the oldest tasks for each of
//! its nodes, and more while it soon asks again (`grant_size.rs`).

use super::super::message::{Demand, StandingRequest, StealMessage};
use super::grant_size::GrantSize;
use super::holders::quiet;
use super::latencies::SiteLatencies;
use super::outgoing::Outgoing;
use super::part_directory::settling;
use super::requests::{Requests, TaskPace};
use super::shares::{Receivers, level, share};
use super::site_outlook::{Part, SiteOutlook};
use gridspan_topology::{NodeId, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Data of the head of a site. It exists on every node and is empty where no node sends messages to
/// it.
#[derive(Clone, Debug, Default)]
pub(super) struct SiteDirectory {
    outlook: SiteOutlook,
    requests: Requests,
    ways: SiteLatencies,
    /// Sizes of grants to each site where tasks spawn others.
    grants: BTreeMap<usize, GrantSize>,
    /// Sites at which a request of this site stands.
    parked: BTreeSet<usize>,
    /// Time until which tasks are on their way here.
    supplied_until: Time,
    /// Time until which parts may have more to report.
    hearing: Option<Time>,
    /// The last estimate of the work of the site, and the time since which neither a report nor the
    /// passing of time has changed it.
    unchanged: Option<(f64, Time)>,
    due: Option<Time>,
}

impl SiteDirectory {
    /// Returns the time at which [`SiteDirectory::settle`] is due even if no message arrives.
    pub(super) fn due(&self) -> Option<Time> {
        self.due
    }

    /// Handles the report of a part of the site.
    pub(super) fn report(&mut self, from: NodeId, mut demand: Demand, post: &mut Outgoing<'_>) {
        let (own, _) = post.own();
        let Some((_, part)) = post.places.place(from).filter(|&(site, _)| site == own) else {
            return;
        };
        demand.idle = demand.idle.min(post.places.nodes_of_part(own, part).len() as u32);
        self.outlook.report(part, demand, post.now);
        self.unchanged = None;
        if self.outlook.queued() > 0 {
            self.ways.ask(post);
            self.hear(post);
        }
        self.settle(post);
    }

    /// Handles the echo of the head of another site.
    pub(super) fn echo(&mut self, from: NodeId, post: &mut Outgoing<'_>) {
        self.ways.heard(from, post.now);
        self.settle(post);
    }

    /// Handles a request of another site.
    pub(super) fn park(
        &mut self,
        from: NodeId,
        standing: StandingRequest,
        post: &mut Outgoing<'_>,
    ) {
        let (own, _) = post.own();
        let Some(site) = post.places.site_of(from).filter(|&site| site != own) else { return };
        self.requests.park(site, standing, &self.ways, post);
        if let Some(way) = self.ways.latency(site, post) {
            self.grants.entry(site).or_default().note_back(from, post.now, way * 2);
        }
        self.hear(post);
        self.settle(post);
    }

    /// Handles the withdrawal of another site's request.
    pub(super) fn unpark(&mut self, from: NodeId, post: &Outgoing<'_>) {
        if let Some(site) = post.places.site_of(from) {
            self.requests.withdraw(site);
        }
    }

    /// Handles the answer of another site to a request.
    pub(super) fn shipped(
        &mut self,
        from: NodeId,
        tasks: u64,
        answered: &[NodeId],
        post: &mut Outgoing<'_>,
    ) {
        let (own, _) = post.own();
        let Some(answering) = post.places.site_of(from).filter(|&site| site != own) else { return };
        for site in std::mem::take(&mut self.parked) {
            if let Some(head) = post.places.head(site).filter(|_| site != answering) {
                post.send(head, StealMessage::WithdrawRequest);
            }
        }
        self.announce(tasks, post);
        self.outlook.backlog.expect(tasks);
        let settling = settling(post.places.latency(own, own).duration());
        let ways = (0..post.places.site_count()).map(|site| self.ways.latency(site, post));
        let farthest = ways.flatten().max().unwrap_or(settling);
        self.supplied_until = post.now + settling.min(farthest);
        // A site that sends tasks has work itself; its earlier request is out of date.
        self.requests.withdraw(answering);
        let others = answered.iter().filter_map(|&head| post.places.site_of(head));
        for site in others {
            // A request that the other site sent after its tasks had arrived stays. While latencies
            // are unknown, no request stays, so that work stays here.
            let way = |from, to| post.places.known_latency(from, to);
            let ways = (way(answering, site), way(site, own), way(answering, own));
            let is_old = |at: Time| match ways {
                (Some(there), Some(back), Some(direct)) => at + direct < post.now + there + back,
                _ => true,
            };
            self.requests.withdraw_if(site, is_old);
        }
        self.settle(post);
    }

    /// Announces tasks to the keepers of the parts that have idle nodes, in equal shares.
    fn announce(&self, tasks: u64, post: &mut Outgoing<'_>) {
        let (own, _) = post.own();
        let lacking =
            |part: &usize| self.outlook.parts.get(part).is_some_and(|part| part.demand.idle > 0);
        let parts: Vec<usize> = (0..post.places.part_count(own)).filter(lacking).collect();
        for &part in &parts {
            if let Some(keeper) = post.places.keeper(own, part) {
                let tasks = tasks / parts.len() as u64;
                post.send(keeper, StealMessage::Incoming { tasks });
            }
        }
    }

    /// Adapts to changed places.
    pub(super) fn moved(&mut self, lost: Option<NodeId>, post: &mut Outgoing<'_>) {
        let (own, _) = post.own();
        match lost {
            None => {
                self.requests.move_to(post);
                *self = Self {
                    outlook: self.outlook.without_parts(),
                    requests: std::mem::take(&mut self.requests),
                    ways: std::mem::take(&mut self.ways),
                    ..Self::default()
                };
            }
            Some(node) => {
                self.ways.forget(node);
                // Requests stood at heads that may be gone; at the others, new requests replace
                // them.
                self.parked.clear();
                let has_nodes = |site: usize| !post.places.nodes_in(site).is_empty();
                self.requests.retain(has_nodes);
                self.outlook.parts.retain(|&part, _| post.places.keeper(own, part).is_some());
                self.settle(post);
            }
        }
    }

    /// Ships tasks and parks requests, if they are due.
    pub(super) fn settle(&mut self, post: &mut Outgoing<'_>) {
        self.due = None;
        if post.places.head(post.own().0) != Some(post.me) {
            return;
        }
        if let Some(until) = self.hearing.filter(|&until| until > post.now) {
            return self.wake(until, post);
        }
        self.hearing = None;
        self.ship(post);
        self.ask(post);
    }

    /// Delays decisions until other parts and sites have had time to report.
    fn hear(&mut self, post: &Outgoing<'_>) {
        let (own, _) = post.own();
        let quiet = quiet(post.places.latency(own, own).duration());
        self.hearing.get_or_insert(post.now + quiet);
    }

    fn wake(&mut self, time: Time, post: &Outgoing<'_>) {
        if time > post.now {
            self.due = Some(self.due.map_or(time, |due| due.min(time)));
        }
    }

    /// Returns the sites that ask, and when the results of tasks sent to them could be back here.
    ///
    /// Where tasks spawn others, the time for which they will last is a guess; sites that are too
    /// far away for that guess are left out.
    fn askers(&self, pace: TaskPace, post: &Outgoing<'_>) -> Vec<(usize, Receivers)> {
        if pace.task_ns <= 0.0 {
            return Vec::new();
        }
        let mut askers = self.requests.receivers(pace, &self.ways, post);
        if pace.is_replenished || self.outlook.task_ns == 0 {
            let lasted = self.outlook.backlog.lasted_ns(post.now) as f64 * (1.0 + WAY_TOLERANCE);
            let way = |site| self.ways.latency(site, post).unwrap_or_default();
            askers.retain(|&(site, _)| lasted >= enough(way(site)).as_nanos() as f64);
        }
        askers
    }

    fn ship(&mut self, post: &mut Outgoing<'_>) {
        let (own, _) = post.own();
        let pace = self.outlook.pace(post);
        let askers = self.askers(pace, post);
        let parts: Vec<(usize, Receivers, f64, f64)> = (0..post.places.part_count(own))
            .map(|part| {
                let nodes = post.places.nodes_of_part(own, part).len() as f64;
                let (work, queued) = self.outlook.work(part, post);
                (part, Receivers { nodes, from: 0.0 }, work, queued)
            })
            .collect();
        let queued: f64 = parts.iter().map(|part| part.3).sum();
        if queued < 1.0 {
            return;
        }
        let receivers: Vec<Receivers> =
            parts.iter().map(|part| part.1).chain(askers.iter().map(|asker| asker.1)).collect();
        let level = level(&receivers, parts.iter().map(|part| part.2).sum());
        let spare = |&(number, receiver, work, queued): &(usize, Receivers, f64, f64)| {
            (number, (work - share(receiver, level)).clamp(0.0, queued).round() as u64)
        };
        let spare: Vec<(usize, u64)> = parts.iter().map(spare).collect();
        // Running tasks count as work but cannot leave, so this may be less than all shares.
        let mut left: u64 = spare.iter().map(|part| part.1).sum();
        let mut lacking: Vec<(Option<usize>, u64, Vec<NodeId>)> = Vec::new();
        let (mut fair, mut handed) = (0.0, 0.0);
        for &(site, receiver) in &askers {
            // Fractions of tasks add up over the sites, so that together they get their share.
            fair += share(receiver, level);
            let mut tasks = (fair.floor() - handed) as u64;
            handed = fair.floor();
            if pace.is_replenished {
                tasks = self.grants.entry(site).or_default().limit(tasks, receiver.nodes as u32);
            }
            // The request of a site that gets nothing now stays.
            tasks = tasks.min(left);
            if tasks > 0
                && let Some(standing) = self.requests.answer(site)
            {
                left -= tasks;
                lacking.push((Some(site), tasks, standing.receivers));
            }
        }
        for &(number, receiver, work, _) in &parts {
            let nodes = post.places.nodes_of_part(own, number);
            let Some(part) = self.outlook.parts.get_mut(&number) else { continue };
            let demand = &mut part.demand;
            let fair = share(receiver, level);
            let tasks = (fair - work).round();
            if work < fair * LEVEL_ENOUGH && demand.receivers.is_empty() {
                demand.receivers = few(nodes, post);
            }
            let is_lacking = demand.queued == 0 || work < fair * LEVEL_ENOUGH;
            if tasks >= 1.0 && left > 0 && is_lacking && !demand.receivers.is_empty() {
                left = left.saturating_sub(tasks as u64);
                if let Some(keeper) = post.places.keeper(own, number) {
                    post.send(keeper, StealMessage::Incoming { tasks: tasks as u64 });
                }
                lacking.push((None, tasks as u64, std::mem::take(&mut demand.receivers)));
                demand.queued += tasks as u64;
                part.at = post.now;
            }
        }
        self.hand_out(lacking, spare, post);
        self.wake_to_reconsider(post);
    }

    /// Sets the time at which to consider requests again, since estimates of tasks change even
    /// without a report. They change once the backlog is older than the observed times explain,
    /// then each time its age has doubled, and when it is old enough for the latency to the nearest
    /// site that asks.
    fn wake_to_reconsider(&mut self, post: &Outgoing<'_>) {
        let Some(way) = self.requests.nearest(&self.ways, post) else { return };
        let nodes = post.places.nodes_in(post.own().0).len() as u64;
        let lasted = Duration::from_nanos(self.outlook.backlog.lasted_ns(post.now));
        let outlasts = self
            .outlook
            .backlog
            .outlasts_at(nodes, self.outlook.task_ns)
            .filter(|&at| at > post.now);
        let again = match enough(way).checked_sub(lasted) {
            Some(missing) if !missing.is_zero() => {
                self.wake(post.now + missing, post);
                missing
            }
            _ => lasted,
        };
        self.wake(outlasts.unwrap_or(post.now + again), post);
    }

    /// Makes parts with tasks to spare send them to those that lack tasks.
    fn hand_out(
        &mut self,
        lacking: Vec<(Option<usize>, u64, Vec<NodeId>)>,
        mut spare: Vec<(usize, u64)>,
        post: &mut Outgoing<'_>,
    ) {
        let (own, _) = post.own();
        let head = |site: &Option<usize>| site.and_then(|site| post.places.head(site));
        let answered: Vec<NodeId> = lacking.iter().filter_map(|(site, ..)| head(site)).collect();
        let pace = self.outlook.pace(post);
        for (site, mut tasks, to) in lacking {
            let mut sent = 0;
            let way = site.and_then(|site| self.ways.latency(site, post)).unwrap_or_default();
            for (part, left) in &mut spare {
                let now = tasks.min(*left);
                let Some(keeper) = post.places.keeper(own, *part).filter(|_| now > 0) else {
                    continue;
                };
                tasks -= now;
                *left -= now;
                sent += now;
                if let Some(part) = self.outlook.parts.get_mut(part) {
                    part.demand.queued = part.demand.queued.saturating_sub(now);
                }
                post.send(keeper, StealMessage::GrantRemotely { tasks: now, to: to.clone(), way });
            }
            if let Some((site, head)) = site.zip(head(&site)).filter(|_| sent > 0) {
                self.requests.note_sent(site, sent, pace, post.now);
                self.grants.entry(site).or_default().note_served(head, post.now);
                self.outlook.backlog.gave(post.now, sent);
                // The earlier request of this site at that one is out of date now.
                self.parked.remove(&site);
                post.send(
                    head,
                    StealMessage::RemoteGrant { tasks: sent, answered: answered.clone() },
                );
            }
        }
    }

    /// Parks a request at each site where none stands, if this site would run dry before the answer
    /// could arrive.
    fn ask(&mut self, post: &mut Outgoing<'_>) {
        let (own, _) = post.own();
        if post.now < self.supplied_until {
            return self.wake(self.supplied_until, post);
        }
        if self.outlook.parts.is_empty() {
            return;
        }
        // This site needs the latency as soon as it has tasks.
        self.ways.ask(post);
        let nodes = post.places.nodes_in(own).len();
        let work: f64 =
            (0..post.places.part_count(own)).map(|part| self.outlook.work(part, post).0).sum();
        let task_ns = if self.outlook.task_ns > 0 { self.outlook.pace(post).task_ns } else { 0.0 };
        let backlog = Duration::from_nanos((work * task_ns / nodes.max(1) as f64) as u64);
        let since = match self.unchanged {
            Some((before, since)) if before == work => since,
            _ => post.now,
        };
        self.unchanged = Some((work, since));
        // While at most one task is left, the estimate stays the same until the next report. If it
        // exceeds a round trip by a few nanoseconds, the head would wake after each such interval.
        // So intervals grow with the age of the estimate.
        let least = post.now.since(since) / SAME_ESTIMATES;
        let is_starving = self.outlook.parts.values().all(|part| part.demand.queued == 0)
            && self.outlook.parts.values().any(|part| part.demand.idle > 0);
        for site in (0..post.places.site_count()).filter(|&site| site != own) {
            // While the latency is unknown, this site asks once it has no work.
            let round_trip = self.ways.latency(site, post).map(|way| way * 2);
            let is_low = self.outlook.task_ns > 0
                && round_trip.is_some_and(|round_trip| backlog <= round_trip);
            let round_trip = round_trip.unwrap_or_default();
            if self.parked.contains(&site) {
                if !is_starving && backlog > round_trip * 2 {
                    // This site has found work by itself.
                    self.parked.remove(&site);
                    let head = post.places.head(site);
                    head.iter().for_each(|&head| post.send(head, StealMessage::WithdrawRequest));
                }
                continue;
            }
            if !(is_starving || is_low) {
                if self.outlook.task_ns > 0 {
                    let rest = backlog.saturating_sub(round_trip);
                    let again = if rest.is_zero() { rest } else { rest.max(least) };
                    self.wake(post.now + again, post);
                }
                continue;
            }
            let Some(head) = post.places.head(site) else { continue };
            self.parked.insert(site);
            let receivers = self.receivers(post);
            post.send(
                head,
                StealMessage::RemoteRequest(StandingRequest::new(nodes as u32, backlog, receivers)),
            );
        }
    }

    /// Returns some idle nodes of all parts; if there are none, some nodes that will be idle.
    fn receivers(&self, post: &Outgoing<'_>) -> Vec<NodeId> {
        let of_part = |part: &Part| part.demand.receivers.clone();
        let mut idle: Vec<NodeId> = self.outlook.parts.values().flat_map(of_part).collect();
        let nodes = post.places.nodes_in(post.own().0);
        idle.retain(|node| nodes.binary_search(node).is_ok());
        if idle.is_empty() {
            idle = nodes.to_vec();
        }
        few(&idle, post)
    }
}

/// Returns some of these nodes, evenly spaced, to which any node may send tasks.
fn few(nodes: &[NodeId], post: &Outgoing<'_>) -> Vec<NodeId> {
    let founders: Vec<NodeId> =
        nodes.iter().copied().filter(|&node| !post.places.is_late(node)).collect();
    let step = founders.len().div_ceil(RECEIVERS).max(1);
    founders.into_iter().step_by(step).collect()
}

/// Returns the time for which tasks that spawn others must have lasted before some go to a site
/// with this latency. They are expected to last as long again. That must cover the way there and
/// back, and half as much time again in which the site runs them.
fn enough(way: Duration) -> Duration {
    way * 3
}

/// Relative difference up to which measured latencies of sites count as equal.
const WAY_TOLERANCE: f64 = 1.0 / 16.0;

/// A part that has this fraction of an even share gets no tasks while some still wait there: its
/// report may be off by a factor of two.
const LEVEL_ENOUGH: f64 = 0.5;

/// About the number of times that a head computes an estimate again at equal intervals although it
/// does not change; then the intervals grow.
const SAME_ESTIMATES: u32 = 64;

/// Maximum number of nodes named in a request: tasks for a site go to few nodes, in large packets,
/// and are spread there.
const RECEIVERS: usize = 16;
