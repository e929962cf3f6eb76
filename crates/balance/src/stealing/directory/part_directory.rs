//! The directory of one part of a site: waiting nodes, holders of tasks, and which holder serves
//! which node.

use super::super::message::{Demand, MAX_LISTED, Share, StealMessage};
use super::grant_size::GrantSize;
use super::holders::{Holder, Holders, quiet};
use super::outgoing::Outgoing;
use super::task_time::blend;
use gridspan_topology::{NodeId, Time};
use std::collections::BTreeMap;
use std::time::Duration;

/// A gathering ends after this multiple of the [`quiet`] time, even if more adverts arrive.
const GATHER_AT_MOST: u32 = 10;

/// Maximum number of idle nodes that receive tasks for a whole part and then serve the others.
const RECEIVERS: usize = 8;

/// Data of the keeper of a part. It exists on every node and is empty where no node sends messages
/// to it.
#[derive(Clone, Debug, Default)]
pub(super) struct PartDirectory {
    holders: Holders,
    grant: GrantSize,
    /// Idle nodes that wait for tasks, and their numbers of workers.
    waiting: BTreeMap<NodeId, u32>,
    /// For each node that has sent no message since a holder was ordered to serve it: that holder,
    /// and the node's number of workers, or 0 if the node did not wait here.
    served: BTreeMap<NodeId, (NodeId, u32)>,
    task_ns: u64,
    gathering: Option<Gathering>,
    expecting: Option<Expecting>,
    reported: Option<Demand>,
}

/// A period in which the directory collects adverts, so that it can then serve waiting nodes
/// evenly.
#[derive(Clone, Copy, Debug)]
struct Gathering {
    due: Time,
    at_most: Time,
    stage: Stage,
}

/// Stage of a gathering. The part ships the tasks that leave it first, while few nodes hold many
/// tasks; then it serves its own nodes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Stage {
    /// Collects adverts.
    Collect,
    /// Reports to the head.
    Report,
    /// Carries out the head's answer.
    CarryOut,
}

/// Number of quiet times that the head needs: one to receive the reports of other parts, and one
/// for the round trip to the head.
const HEAD_ANSWERS_AFTER: u32 = 2;

/// Tasks that are on their way in several grants. The first grants are not spread over all waiting
/// nodes, because more tasks follow.
#[derive(Clone, Copy, Debug)]
struct Expecting {
    /// Number of tasks that each worker should get.
    for_each: f64,
    until: Time,
}

impl PartDirectory {
    /// Returns the time at which [`PartDirectory::woken`] is due.
    pub(super) fn due(&self) -> Option<Time> {
        self.gathering.map(|gathering| gathering.due)
    }

    /// Handles the request of an idle node: it gets at most an even share of the tasks of the
    /// richest holder, or waits.
    pub(super) fn ask(&mut self, from: NodeId, workers: u32, post: &mut Outgoing<'_>) {
        self.holders.remove(from);
        self.served.remove(&from);
        self.grant.note_back(from, post.now, self.quiet(post));
        if self.waiting.insert(from, workers).is_some() {
            // The tasks for this node did not arrive, and the head may still rely on the last
            // report.
            self.reported = None;
        }
        if self.gathering.is_some() {
            return;
        }
        let may_give = |victim| post.places.may_trade(victim, from);
        if let Some((victim, holder)) = self.holders.richest(post.now, self.task_ns, may_give) {
            let held = holder.tasks(post.now, self.task_ns);
            let mut tasks = even(held, u64::from(holder.workers), u64::from(workers));
            if holder.is_replenished(post.now, self.task_ns) {
                tasks = self.grant.limit(tasks, workers);
            }
            self.serve(victim, holder, vec![Share::near(from, tasks)], post);
        }
    }

    pub(super) fn advert(
        &mut self,
        from: NodeId,
        (tasks, task_ns, workers): (u64, u64, u32),
        post: &mut Outgoing<'_>,
    ) {
        self.waiting.remove(&from);
        self.served.remove(&from);
        if task_ns > 0 {
            self.task_ns = blend(self.task_ns, task_ns);
        }
        self.holders.set(from, tasks, workers, post.now);
        if tasks == 0 || self.waiting.is_empty() {
            return;
        }
        let idle: u32 = self.waiting.values().sum();
        if self.gathering.is_none() && tasks <= u64::from(idle) {
            // There is nothing to level: each task goes to another waiting node.
            self.spread(from, tasks, post);
        } else {
            self.gather(post);
        }
    }

    /// Makes a holder give its tasks to waiting nodes, one for each worker.
    fn spread(&mut self, victim: NodeId, mut tasks: u64, post: &mut Outgoing<'_>) {
        let Some(holder) = self.holders.of(victim) else { return };
        let mut shares = Vec::new();
        let takers = self.waiting.iter().filter(|&(&to, _)| post.places.may_trade(victim, to));
        for (&to, &workers) in takers.take(MAX_LISTED) {
            let share = tasks.min(u64::from(workers));
            tasks -= share;
            shares.extend((share > 0).then_some(Share::near(to, share)));
        }
        if !shares.is_empty() {
            self.serve(victim, holder, shares, post);
        }
    }

    /// Handles the report of a holder that had no tasks for these nodes.
    pub(super) fn unserved(&mut self, from: NodeId, thieves: &[NodeId], post: &mut Outgoing<'_>) {
        self.holders.remove(from);
        for &thief in thieves {
            self.again(thief, post);
        }
    }

    /// Handles the report of a holder that gave a node of this part fewer tasks than it was to
    /// give.
    pub(super) fn gave(&mut self, from: NodeId, to: NodeId, tasks: u64, post: &Outgoing<'_>) {
        if let Some(&(_, workers)) = self.served.get(&to).filter(|served| served.0 == from)
            && workers > 0
        {
            self.holders.set(to, tasks.saturating_sub(u64::from(workers)), workers, post.now);
        }
    }

    /// Sends `tasks` tasks to the nodes `to`, as ordered by the head.
    pub(super) fn ship(
        &mut self,
        tasks: u64,
        (to, way): (&[NodeId], Duration),
        post: &mut Outgoing<'_>,
    ) {
        let (now, task_ns) = (post.now, self.task_ns);
        let mut holders = self.holders.richest_first(now, task_ns);
        holders.retain(|(victim, _)| to.iter().all(|&to| post.places.may_trade(*victim, to)));
        let held = |holder: &Holder| holder.tasks(now, task_ns);
        let all: u64 = holders.iter().map(|(_, holder)| held(holder)).sum();
        let (tasks, count) = (tasks.min(all), to.len() as u64);
        if let Some(reported) = &mut self.reported {
            reported.queued = reported.queued.saturating_sub(tasks);
        }
        if count == 0 {
            return;
        }
        let keeps = (all - tasks) / (holders.len() as u64).max(1);
        let each = |at: usize| tasks / count + u64::from((at as u64) < tasks % count);
        let mut lacking: Vec<Share> =
            to.iter().enumerate().map(|(at, &to)| Share { to, tasks: each(at), way }).collect();
        for share in lacking.extract_if(.., |share| share.tasks == 0) {
            post.send(share.to, StealMessage::Retry);
        }
        lacking.reverse();
        for (victim, holder) in holders {
            let mut spare = held(&holder).saturating_sub(keeps);
            let mut shares = Vec::new();
            while let Some(share) = lacking.last_mut().filter(|_| spare > 0) {
                let tasks = share.tasks.min(spare);
                spare -= tasks;
                share.tasks -= tasks;
                if tasks > 0 && share.to != victim {
                    shares.push(Share { tasks, ..*share });
                }
                if share.tasks == 0 {
                    lacking.pop();
                }
            }
            if !shares.is_empty() {
                self.serve(victim, holder, shares, post);
            }
        }
    }

    /// Records that `tasks` tasks will come to nodes of this part.
    pub(super) fn incoming(&mut self, tasks: u64, post: &Outgoing<'_>) {
        let waiting: u32 = self.waiting.values().sum();
        let busy = post.own_nodes().len().saturating_sub(self.waiting.len()) as f64;
        let held = self.holders.tasks(post.now, self.task_ns);
        let for_each = (tasks as f64 + held as f64 + busy) / (busy + f64::from(waiting)).max(1.0);
        let until = post.now + self.quiet(post) * GATHER_AT_MOST;
        self.expecting = Some(Expecting { for_each, until });
    }

    /// Removes a node, and handles again each request that it was to serve.
    pub(super) fn lost(&mut self, node: NodeId, post: &mut Outgoing<'_>) {
        self.holders.remove(node);
        self.waiting.remove(&node);
        self.served.remove(&node);
        self.grant.forget(node);
        let by_it =
            |(&thief, &(victim, _)): (&NodeId, &(NodeId, u32))| (victim == node).then_some(thief);
        let thieves: Vec<NodeId> = self.served.iter().filter_map(by_it).collect();
        for thief in thieves {
            self.again(thief, post);
        }
    }

    /// Adapts to changed places: forgets nodes of other directories, and the last report, since the
    /// head may have changed.
    pub(super) fn moved(&mut self, post: &Outgoing<'_>) {
        let is_own = |node: NodeId| post.own_nodes().binary_search(&node).is_ok();
        self.holders.retain(is_own);
        self.waiting.retain(|&node, _| is_own(node));
        self.served.retain(|&node, _| post.places.contains(node));
        self.reported = None;
    }

    /// Returns whether the head may send tasks away: the site has several parts, or the tasks last
    /// for at least the round trip to another site.
    fn may_leave(&self, post: &Outgoing<'_>) -> bool {
        let (own, _) = post.own();
        if post.places.part_count(own) > 1 {
            return true;
        }
        let lasts =
            self.holders.lasts(post.now, self.task_ns) / post.own_nodes().len().max(1) as u32;
        let is_worth = |site| {
            let way = post.places.latency(own, site).duration();
            !way.is_zero() && lasts >= way * 2
        };
        (0..post.places.site_count()).filter(|&site| site != own).any(is_worth)
    }

    /// Ends the present stage of a gathering, if it is due. After the last stage, serves waiting
    /// nodes from holders, so that all have the same number of tasks per worker.
    pub(super) fn woken(&mut self, post: &mut Outgoing<'_>) {
        let quiet = self.quiet(post);
        let may_leave = self.may_leave(post);
        match &mut self.gathering {
            Some(gathering) if gathering.due <= post.now => {
                if gathering.stage == Stage::Collect && may_leave {
                    (gathering.stage, gathering.due) =
                        (Stage::Report, post.now + quiet * HEAD_ANSWERS_AFTER);
                    return;
                }
            }
            _ => return,
        }
        self.gathering = None;
        let holders = self.holders.richest_first(post.now, self.task_ns);
        let waiting: u64 = self.waiting.values().copied().map(u64::from).sum();
        let held = self.holders.tasks(post.now, self.task_ns);
        let workers = self.holders.workers();
        // Each worker of a holder also runs a task.
        let mut for_each = (held + workers) as f64 / (workers + waiting).max(1) as f64;
        self.expecting.take_if(|expecting| expecting.until < post.now);
        if let Some(expecting) = self.expecting {
            for_each = for_each.max(expecting.for_each);
        }
        let mut is_uneven = false;
        for (victim, holder) in holders {
            let held = holder.tasks(post.now, self.task_ns);
            let keeps = for_each.max(1.0) * f64::from(holder.workers) - f64::from(holder.workers);
            let mut spare = held.saturating_sub(keeps.round() as u64);
            // A message names at most `MAX_LISTED` nodes. If even shares for these would leave
            // tasks over, each node gets more than its share and passes the surplus on.
            let is_replenished = holder.is_replenished(post.now, self.task_ns);
            let least = if is_replenished { 0 } else { spare.div_ceil(MAX_LISTED as u64) };
            let mut shares = Vec::new();
            let takers = self.waiting.iter().filter(|&(&to, _)| post.places.may_trade(victim, to));
            for (&to, &workers) in takers.take(MAX_LISTED) {
                let mut fair = (for_each * f64::from(workers)).round() as u64;
                if is_replenished {
                    fair = self.grant.limit(fair, workers);
                }
                is_uneven |= least > fair.max(1);
                let tasks = fair.max(least).clamp(1, spare.max(1)).min(spare);
                if tasks == 0 || self.expecting.is_some() && 2 * tasks < fair {
                    break;
                }
                spare -= tasks;
                shares.push(Share::near(to, tasks));
            }
            if !shares.is_empty() {
                self.serve(victim, holder, shares, post);
            }
            if self.waiting.is_empty() {
                break;
            }
        }
        let has_more = self.waiting.keys().any(|&to| {
            let may_give = |victim| post.places.may_trade(victim, to);
            self.holders.richest(post.now, self.task_ns, may_give).is_some()
        });
        if is_uneven && has_more {
            self.gather(post);
        }
    }

    /// Returns a report for the head, if there is something new to report.
    pub(super) fn report(&mut self, post: &Outgoing<'_>) -> Option<Demand> {
        match &mut self.gathering {
            _ if !post.has_head() => return None,
            Some(gathering) if gathering.stage == Stage::Report => {
                gathering.stage = Stage::CarryOut;
            }
            Some(_) => return None,
            None => {}
        }
        let queued = self.holders.tasks(post.now, self.task_ns);
        let idle = self.waiting.len() as u32;
        let last = self.reported.as_ref().map_or((0, 0), |last| (last.queued, last.idle));
        let is_other = |now: u64, then: u64| now >= 2 * then.max(1) || 2 * now <= then;
        let has_changed = queued != last.0 && is_other(queued, last.0);
        let lacks_more = queued == 0 && (idle < last.1 || idle > last.1 && idle >= 2 * last.1);
        let all_idle = idle > last.1 && idle as usize == post.own_nodes().len();
        let has_learnt =
            self.task_ns > 0 && self.reported.as_ref().is_some_and(|last| last.task_ns == 0);
        if !(has_changed || lacks_more || all_idle || has_learnt) {
            return None;
        }
        let founders = self.waiting.keys().copied().filter(|&node| !post.places.is_late(node));
        let receivers = founders.take(RECEIVERS).collect();
        let demand = Demand { queued, idle, task_ns: self.task_ns, receivers };
        self.reported = Some(demand.clone());
        Some(demand)
    }

    fn gather(&mut self, post: &Outgoing<'_>) {
        let quiet = self.quiet(post);
        let first = Gathering {
            due: post.now,
            at_most: post.now + quiet * GATHER_AT_MOST,
            stage: Stage::Collect,
        };
        let gathering = self.gathering.get_or_insert(first);
        if gathering.stage == Stage::Collect {
            gathering.due = (post.now + quiet).min(gathering.at_most);
        }
    }

    fn quiet(&self, post: &Outgoing<'_>) -> Duration {
        let (site, _) = post.own();
        quiet(post.places.latency(site, site).duration())
    }

    fn serve(
        &mut self,
        victim: NodeId,
        holder: Holder,
        shares: Vec<Share>,
        post: &mut Outgoing<'_>,
    ) {
        let of = holder.tasks(post.now, self.task_ns);
        let gives: u64 = shares.iter().map(|share| share.tasks).sum();
        self.holders.gives(victim, gives, of, post.now);
        for share in &shares {
            let workers = self.waiting.remove(&share.to).unwrap_or(0);
            self.grant.note_served(share.to, post.now);
            self.served.insert(share.to, (victim, workers));
            if workers > 0 {
                let left = share.tasks.saturating_sub(u64::from(workers));
                self.holders.set(share.to, left, workers, post.now);
            }
        }
        post.send(victim, StealMessage::Assign { of, shares });
    }

    /// Handles again the request of a node that its holder did not serve.
    fn again(&mut self, thief: NodeId, post: &mut Outgoing<'_>) {
        match self.served.remove(&thief) {
            Some((_, workers)) if workers > 0 => self.ask(thief, workers, post),
            _ => post.send(thief, StealMessage::Retry),
        }
    }
}

/// Returns the number of tasks that a thief gets of `held`, so that both have the same number per
/// worker, counting the tasks that the holder's workers run.
fn even(held: u64, holders: u64, thieves: u64) -> u64 {
    let fair = (held + holders) * thieves / (holders + thieves);
    fair.clamp(1, held.max(1))
}

/// Returns the time for which a site need not ask again after tasks on their way were announced.
pub(super) fn settling(one_way: Duration) -> Duration {
    quiet(one_way) * GATHER_AT_MOST
}
