//! Who has which data, who pulls some from whom, and who waits for it.

use crate::graph::TaskGraph;
use crate::id::{DataId, Endpoint};
use crate::platform::Platform;
use std::collections::{BTreeMap, BTreeSet};

/// A server pulls so many at a time: enough to fill its link from several sources, and few enough
/// that what is needed first comes first.
const PULLS_MAX: u32 = 4;

/// One pull, by its position.
pub(super) type PullId = u32;
/// One attempt to execute a task, by its position.
pub(super) type AttemptId = u32;

/// Who waits for data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waiter {
    /// An attempt on the server that pulls.
    Attempt(AttemptId),
    /// Another pull, which goes on from here.
    Pull(PullId),
    /// The client's program.
    Program,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Queued,
    /// Until another pull has ended.
    Parked,
    Flowing,
    Ended,
}

/// Data on its way, or soon, to who needs it.
#[derive(Clone, Debug)]
pub(super) struct Pull {
    pub(super) data: DataId,
    pub(super) from: Endpoint,
    pub(super) to: Endpoint,
    pub(super) start_s: f64,
    place: u32,
    state: State,
    waiters: Vec<Waiter>,
}

/// What becomes of a wish for data.
pub(super) enum Wish {
    /// It is there.
    Granted,
    /// Whoever wishes is told later.
    Waiting,
}

/// Where to pull from.
enum Source {
    From(Endpoint),
    /// The client must have it first.
    Bridge,
}

/// Data and pulls.
pub(super) struct DataCopies<'a> {
    platform: &'a Platform,
    relays: bool,
    copies: Vec<Vec<Endpoint>>,
    pulls: Vec<Pull>,
    /// The pull that brings data to an endpoint that keeps it.
    coming: BTreeMap<(DataId, Endpoint), PullId>,
    /// The pull that brings data to a site.
    fetchers: BTreeMap<(DataId, usize), PullId>,
    queues: Vec<BTreeSet<(u32, PullId)>>,
    incoming: Vec<u32>,
    outgoing: Vec<u32>,
    /// Endpoints whose queue may go on.
    stirred: BTreeSet<Endpoint>,
}

impl<'a> DataCopies<'a> {
    pub(super) fn new(graph: &'a TaskGraph, platform: &'a Platform, relays: bool) -> Self {
        let endpoints = platform.endpoints();
        Self {
            platform,
            relays,
            copies: vec![Vec::new(); graph.data().len()],
            pulls: Vec::new(),
            coming: BTreeMap::new(),
            fetchers: BTreeMap::new(),
            queues: vec![BTreeSet::new(); endpoints],
            incoming: vec![0; endpoints],
            outgoing: vec![0; endpoints],
            stirred: BTreeSet::new(),
        }
    }

    pub(super) fn pull(&self, pull: PullId) -> &Pull {
        &self.pulls[pull as usize]
    }

    /// Whether anybody has the data yet.
    pub(super) fn exists(&self, data: DataId) -> bool {
        !self.copies[data.index()].is_empty()
    }

    /// Who has the data.
    pub(super) fn holders(&self, data: DataId) -> &[Endpoint] {
        &self.copies[data.index()]
    }

    /// Somebody has the data now.
    pub(super) fn add(&mut self, data: DataId, at: Endpoint) {
        let copies = &mut self.copies[data.index()];
        if !copies.contains(&at) {
            copies.push(at);
        }
    }

    fn keeps(&self, endpoint: Endpoint) -> bool {
        match endpoint {
            Endpoint::Server(server) => self.platform.server(server).is_direct,
            Endpoint::Client => true,
        }
    }

    /// Somebody needs data that exists.
    pub(super) fn wish(&mut self, data: DataId, to: Endpoint, waiter: Waiter, place: u32) -> Wish {
        let keeps = self.keeps(to);
        if keeps && self.copies[data.index()].contains(&to) {
            return Wish::Granted;
        }
        if let Some(&pull) = self.coming.get(&(data, to)).filter(|_| keeps) {
            self.pulls[pull as usize].waiters.push(waiter);
            self.prefer(pull, place);
            return Wish::Waiting;
        }
        let pull = self.pulls.len() as PullId;
        let (from, waiters) = (to, vec![waiter]);
        let state = State::Parked;
        self.pulls.push(Pull { data, from, to, start_s: 0.0, place, state, waiters });
        if keeps {
            self.coming.insert((data, to), pull);
        }
        match self.fetcher(data, to, pull) {
            Some(fetcher) => {
                self.pulls[fetcher as usize].waiters.push(Waiter::Pull(pull));
                self.prefer(fetcher, place);
            }
            None => self.enqueue(pull),
        }
        Wish::Waiting
    }

    /// The pull that brings the data to the site of this one, if that is another.
    fn fetcher(&mut self, data: DataId, to: Endpoint, pull: PullId) -> Option<PullId> {
        let site = self.platform.site_of(to).filter(|_| self.relays && self.keeps(to))?;
        let is_here = |&holder: &Endpoint| {
            self.platform.is_near(holder, to) && self.platform.is_direct(holder, to)
        };
        if self.copies[data.index()].iter().any(is_here) {
            return None;
        }
        let fetcher = *self.fetchers.entry((data, site)).or_insert(pull);
        (fetcher != pull).then_some(fetcher)
    }

    fn enqueue(&mut self, pull: PullId) {
        let Pull { to, place, .. } = self.pulls[pull as usize];
        self.pulls[pull as usize].state = State::Queued;
        self.queues[self.platform.position(to)].insert((place, pull));
        self.stirred.insert(to);
    }

    /// A pull is needed by a task of this place, too.
    fn prefer(&mut self, pull: PullId, place: u32) {
        let Pull { to, place: before, state, .. } = self.pulls[pull as usize];
        if place >= before {
            return;
        }
        self.pulls[pull as usize].place = place;
        if state == State::Queued {
            let queue = &mut self.queues[self.platform.position(to)];
            queue.remove(&(before, pull));
            queue.insert((place, pull));
        }
    }

    /// An attempt needs nothing any more. What only it waited for is not pulled, unless it flows
    /// already.
    pub(super) fn forget(&mut self, attempt: AttemptId, inputs: &[DataId], at: Endpoint) {
        for &data in inputs {
            let Some(&pull) = self.coming.get(&(data, at)) else { continue };
            let Pull { waiters, state, place, .. } = &mut self.pulls[pull as usize];
            waiters.retain(|waiter| *waiter != Waiter::Attempt(attempt));
            if waiters.is_empty() && *state == State::Queued {
                *state = State::Ended;
                self.queues[self.platform.position(at)].remove(&(*place, pull));
                self.coming.remove(&(data, at));
                if let Some(site) = self.platform.site_of(at)
                    && self.fetchers.get(&(data, site)) == Some(&pull)
                {
                    self.fetchers.remove(&(data, site));
                }
            }
        }
    }

    /// The next pull that may begin now.
    pub(super) fn begin(&mut self, now_s: f64) -> Option<PullId> {
        while let Some(&to) = self.stirred.first() {
            let place = self.platform.position(to);
            // The client is not a server that decides what it needs first: it takes all that comes.
            let has_room = to == Endpoint::Client || self.incoming[place] < PULLS_MAX;
            let Some((_, pull)) = (if has_room { self.queues[place].pop_first() } else { None })
            else {
                self.stirred.remove(&to);
                continue;
            };
            match self.source(self.pulls[pull as usize].data, to) {
                Source::From(from) => {
                    self.incoming[place] += 1;
                    self.outgoing[self.platform.position(from)] += 1;
                    let pulled = &mut self.pulls[pull as usize];
                    (pulled.from, pulled.state, pulled.start_s) = (from, State::Flowing, now_s);
                    return Some(pull);
                }
                Source::Bridge => {
                    let Pull { data, place, .. } = self.pulls[pull as usize];
                    self.pulls[pull as usize].state = State::Parked;
                    self.wish(data, Endpoint::Client, Waiter::Pull(pull), place);
                }
            }
        }
        None
    }

    fn source(&self, data: DataId, to: Endpoint) -> Source {
        let copies = &self.copies[data.index()];
        let mut direct = copies.iter().copied().filter(|&from| {
            self.platform.is_direct(from, to) && (self.keeps(from) || to == Endpoint::Client)
        });
        let best = if self.relays {
            direct.min_by(|&one, &other| {
                let key = |from| {
                    let outgoing = self.outgoing[self.platform.position(from)];
                    (!self.platform.is_near(from, to), outgoing)
                };
                let rates = [other, one].map(|from| self.platform.bandwidth(from, to));
                let by_rate = rates[0].total_cmp(&rates[1]);
                key(one).0.cmp(&key(other).0).then(by_rate).then(key(one).1.cmp(&key(other).1))
            })
        } else {
            direct.next()
        };
        best.map_or(Source::Bridge, Source::From)
    }

    /// A pull has ended: whoever waited for it. Those that are pulls go on by themselves.
    pub(super) fn end(&mut self, pull: PullId) -> Vec<Waiter> {
        let Pull { data, from, to, .. } = self.pulls[pull as usize];
        self.pulls[pull as usize].state = State::Ended;
        self.incoming[self.platform.position(to)] -= 1;
        self.outgoing[self.platform.position(from)] -= 1;
        if self.keeps(to) {
            self.add(data, to);
            self.coming.remove(&(data, to));
            if let Some(site) = self.platform.site_of(to)
                && self.fetchers.get(&(data, site)) == Some(&pull)
            {
                self.fetchers.remove(&(data, site));
            }
        }
        self.stirred.insert(to);
        let waiters = std::mem::take(&mut self.pulls[pull as usize].waiters);
        for waiter in &waiters {
            if let Waiter::Pull(next) = *waiter
                && self.pulls[next as usize].state == State::Parked
            {
                self.enqueue(next);
            }
        }
        waiters
    }
}
