//! `directory`: an idle node asks the directory of its part of the site, which knows the nodes that
//! have tasks, and sleeps until tasks arrive.
//!
//! This policy was designed for Gridspan: no node polls, and nearly every request is answered with
//! tasks.
//!
//! - *Start*: all nodes compute the same directories and heads from the places
//!   ([`StealingLayout`](super::StealingLayout)). A directory is empty until nodes send it
//!   messages.
//! - *Steady state*: a node that has tasks to spare sends an advert to its directory
//!   (`part_directory.rs`), again when the number of tasks has doubled, and when none are left. An
//!   idle node asks once and sleeps. The directory orders the holder whose tasks last longest
//!   (`holders.rs`) to send half of them; the tasks go straight from holder to thief. When an
//!   advert has more tasks than the waiting nodes have workers, the directory gathers adverts for a
//!   moment, and then makes each holder serve many nodes at once, so that all have the same number
//!   per worker. Directories report to the head of their site the tasks they lack or can spare
//!   (`site_directory.rs`), and the head levels work between its directories and with other sites.
//! - *Keeping*: if a node's last work took less time than a steal, the node keeps its next tasks
//!   for as long as a steal takes (`holdback.rs`).
//! - *Crossing*: a task leaves its site only if its result is expected back before the site would
//!   have started it. Nodes observe the time of a task (`task_time.rs`). Tasks that spawn others
//!   are expected to last as long again as they have lasted so far, and leave once that is one and
//!   a half round trips. A latency that is not known is measured first (`latencies.rs`).
//! - *Grants* (`grant_size.rs`): where tasks spawn others, a thief gets one task for each worker,
//!   and more while thieves return soon.
//! - *Failure*: when any node is lost, every sleeper asks again, since the lost node may have been
//!   about to serve it. Nodes that have lost their directory report to the next one, on the next
//!   node of the part. Directories find other holders for the nodes that the lost node was to
//!   serve. The head of a site parks its requests at other sites again.

mod backlog;
mod grant_size;
mod holdback;
mod holders;
mod latencies;
mod outgoing;
mod part_directory;
mod requests;
mod shares;
mod site_directory;
mod site_outlook;
mod task_time;
#[cfg(test)]
mod tests;

use super::command::{Amount, Grant};
use super::message::{Share, StealMessage};
use super::policy::{StealingPolicy, Turn};
use gridspan_topology::{NodeId, Time};
use holdback::Holdback;
use holders::quiet;
use outgoing::Outgoing;
use part_directory::PartDirectory;
use site_directory::SiteDirectory;
use std::collections::VecDeque;
use std::time::Duration;
use task_time::TaskTime;

/// The policy of one node: thief and holder, and perhaps keeper of a directory and head of a site.
///
/// ```
/// use gridspan_balance::stealing::{Directory, MakeStealingPolicy, StealingPolicy};
///
/// assert_eq!(Directory::default().make().name(), "directory");
/// ```
#[derive(Clone, Debug, Default)]
pub struct Directory {
    /// The keeper to which this node last sent a message.
    home: Option<NodeId>,
    /// Number of tasks that the keeper assumes this node to have.
    told: u64,
    /// Whether the keeper assumes this node to sleep.
    is_asleep: bool,
    /// Whether the node has reported, since its request, that it could not serve others: the keeper
    /// then does not count on tasks that may be on their way to this node.
    is_disowned: bool,
    task_time: TaskTime,
    brief: Holdback,
    /// Time at which the node should offer the tasks that it has kept so far.
    offering: Option<Time>,
    keeper: PartDirectory,
    head: SiteDirectory,
    /// Messages to send, including those to the node's own keeper and head.
    out: VecDeque<(NodeId, StealMessage)>,
    waking: Option<Time>,
}

impl Directory {
    fn ask(&mut self, turn: &Turn<'_>) {
        (self.is_asleep, self.is_disowned, self.told) = (true, false, 0);
        self.tell_keeper(StealMessage::DirectoryRequest { workers: turn.workers }, turn);
    }

    fn tell_keeper(&mut self, message: StealMessage, turn: &Turn<'_>) {
        let (site, part) = turn.places.place(turn.me).unwrap_or_default();
        self.home = turn.places.keeper(site, part);
        self.out.extend(self.home.map(|keeper| (keeper, message)));
    }

    fn advert(&mut self, turn: &Turn<'_>) {
        (self.is_asleep, self.told) = (false, turn.stock);
        let (tasks, workers) = (turn.stock, turn.workers);
        self.tell_keeper(
            StealMessage::Advertise { tasks, task_ns: self.task_time.nanos(), workers },
            turn,
        );
    }

    /// Sends an advert if the keeper's data about this node are too far off.
    fn correct(&mut self, turn: &Turn<'_>) {
        if !turn.is_idle {
            self.offering = self.keeps_until(turn);
            if self.offering.is_some() {
                return;
            }
        }
        let has_none = turn.stock == 0 && self.told > 0;
        let has_more = turn.stock > 0 && turn.stock / 2 >= self.told;
        if !turn.is_idle && (has_none || has_more || self.is_asleep) {
            self.advert(turn);
        }
    }

    /// Returns the time until which the node offers none of its tasks.
    fn keeps_until(&mut self, turn: &Turn<'_>) -> Option<Time> {
        let steal = steal_takes(turn);
        let until = self.brief.keeps_until(turn.now, steal);
        let lasts = self.task_time.nanos().saturating_mul(turn.stock) / u64::from(turn.workers);
        let is_short = Duration::from_nanos(lasts) < steal;
        until.filter(|_| self.told == 0 && turn.stock > 0 && is_short)
    }

    fn serve(&mut self, from: NodeId, of: u64, shares: &[Share], turn: &mut Turn<'_>) {
        let stock = turn.stock;
        let mut unserved = Vec::new();
        for share in shares {
            // A node that has fewer tasks than the keeper assumes gives fewer.
            let part = u128::from(share.tasks) * u128::from(stock);
            let scaled = u64::try_from(part.div_ceil(u128::from(of.max(1)))).unwrap_or(u64::MAX);
            let tasks = share.tasks.min(scaled);
            let grant = Grant::Directory { meant: share.tasks, way: share.way };
            if turn.give(share.to, Amount::UpTo(tasks), grant) == 0 && share.to != turn.me {
                unserved.push(share.to);
            }
        }
        if Some(from) == self.home {
            let asked: u64 = shares.iter().fold(0, |sum, share| sum.saturating_add(share.tasks));
            self.told = of.saturating_sub(asked);
        }
        if !unserved.is_empty() {
            self.out.push_back((from, StealMessage::Unassigned(unserved)));
            (self.is_disowned, self.told) = (true, 0);
        }
        self.correct(turn);
    }

    /// Handles a message in the role to which it is addressed.
    fn handle(&mut self, from: NodeId, message: StealMessage, turn: &mut Turn<'_>) {
        match message {
            StealMessage::Assign { of, shares } => return self.serve(from, of, &shares, turn),
            StealMessage::Retry if turn.is_idle => return self.ask(turn),
            // A thief with another policy needs an answer, too.
            StealMessage::Request => {
                let nothing = StealMessage::NoTasks { hint: None };
                return self.out.push_back((from, nothing));
            }
            _ => {}
        }
        let (now, me, places) = (turn.now, turn.me, turn.places);
        let post = &mut Outgoing { now, me, places, out: &mut self.out };
        match message {
            StealMessage::DirectoryRequest { workers } => self.keeper.ask(from, workers, post),
            StealMessage::Advertise { tasks, task_ns, workers } => {
                self.keeper.advert(from, (tasks, task_ns, workers), post);
            }
            StealMessage::Granted { to, tasks } => self.keeper.gave(from, to, tasks, post),
            StealMessage::Unassigned(thieves) => self.keeper.unserved(from, &thieves, post),
            StealMessage::GrantRemotely { tasks, to, way } => {
                self.keeper.ship(tasks, (&to, way), post)
            }
            StealMessage::Incoming { tasks } => self.keeper.incoming(tasks, post),
            StealMessage::Report(demand) => self.head.report(from, demand, post),
            StealMessage::RemoteRequest(standing) => self.head.park(from, standing, post),
            StealMessage::WithdrawRequest => self.head.unpark(from, post),
            StealMessage::LatencyProbe { is_answer: true } => self.head.echo(from, post),
            StealMessage::LatencyProbe { is_answer: false } => {
                post.send(from, StealMessage::LatencyProbe { is_answer: true });
            }
            StealMessage::RemoteGrant { tasks, answered } => {
                self.head.shipped(from, tasks, &answered, post)
            }
            _ => {}
        }
    }

    /// Sends the queued messages, handles those to the node's own keeper and head, and asks to be
    /// woken.
    fn flush(&mut self, turn: &mut Turn<'_>) {
        loop {
            while let Some((to, message)) = self.out.pop_front() {
                if to == turn.me {
                    self.handle(to, message, turn);
                } else {
                    turn.send(to, message);
                }
            }
            let (now, me, places) = (turn.now, turn.me, turn.places);
            let post = Outgoing { now, me, places, out: &mut self.out };
            let (site, _) = post.own();
            let demand = self.keeper.report(&post);
            let Some((head, demand)) = places.head(site).zip(demand) else { break };
            self.out.push_back((head, StealMessage::Report(demand)));
        }
        let due = [self.keeper.due(), self.head.due(), self.offering].into_iter().flatten().min();
        if let Some(time) = due.filter(|_| due != self.waking) {
            turn.wake_at(time);
        }
        self.waking = due;
    }
}

impl StealingPolicy for Directory {
    fn name(&self) -> &'static str {
        "directory"
    }

    fn idle(&mut self, turn: &mut Turn<'_>) {
        self.task_time.ended(turn.now, turn.done, turn.workers);
        self.brief.ended(turn.now, steal_takes(turn));
        self.offering = None;
        self.ask(turn);
        self.flush(turn);
    }

    fn stock(&mut self, turn: &mut Turn<'_>) {
        if self.task_time.works(turn.now, turn.done, turn.workers) {
            self.advert(turn);
        }
        self.correct(turn);
        self.flush(turn);
    }

    fn message(&mut self, from: NodeId, message: StealMessage, turn: &mut Turn<'_>) {
        self.handle(from, message, turn);
        self.flush(turn);
    }

    fn received(&mut self, from: NodeId, tasks: u64, _grant: Grant, turn: &mut Turn<'_>) {
        self.task_time.works(turn.now, turn.done, turn.workers);
        let is_from_here = turn.places.place(from) == turn.places.place(turn.me);
        if is_from_here && self.is_asleep && !self.is_disowned {
            // The keeper ordered these tasks.
            self.is_asleep = false;
            self.told = tasks.saturating_sub(u64::from(turn.workers));
        }
        self.correct(turn);
        self.flush(turn);
    }

    fn given(&mut self, to: NodeId, tasks: u64, grant: Grant, turn: &mut Turn<'_>) {
        if tasks == 0 && matches!(grant, Grant::Directory { .. }) {
            self.out.extend(self.home.map(|keeper| (keeper, StealMessage::Unassigned(vec![to]))));
            (self.is_disowned, self.told) = (true, 0);
        }
        if let Grant::Directory { meant, .. } = grant
            && tasks > 0
            && tasks <= meant / 2
        {
            self.out.extend(self.home.map(|keeper| (keeper, StealMessage::Granted { to, tasks })));
        }
        self.correct(turn);
        self.flush(turn);
    }

    fn places_changed(&mut self, lost: Option<NodeId>, turn: &mut Turn<'_>) {
        let (now, me, places) = (turn.now, turn.me, turn.places);
        let post = &mut Outgoing { now, me, places, out: &mut self.out };
        match lost {
            Some(node) => self.keeper.lost(node, post),
            None => self.keeper.moved(post),
        }
        self.head.moved(lost, post);
        let is_home = turn.places.place(me).and_then(|(site, part)| places.keeper(site, part));
        if turn.is_idle {
            self.ask(turn);
        } else if is_home != self.home {
            self.advert(turn);
        }
        self.flush(turn);
    }

    fn woken(&mut self, turn: &mut Turn<'_>) {
        self.waking = None;
        if self.offering.is_some_and(|at| at <= turn.now) {
            self.correct(turn);
        }
        let (now, me, places) = (turn.now, turn.me, turn.places);
        let post = &mut Outgoing { now, me, places, out: &mut self.out };
        self.keeper.woken(post);
        if self.head.due().is_some_and(|due| due <= now) {
            self.head.settle(post);
        }
        self.flush(turn);
    }
}

/// Returns the time that a steal inside the site takes.
fn steal_takes(turn: &Turn<'_>) -> Duration {
    let site = turn.places.site_of(turn.me).unwrap_or_default();
    quiet(turn.places.latency(site, site).duration())
}
