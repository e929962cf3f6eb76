//! The attempts to execute the tasks of a group: the server and the progress of each.

use super::AttemptId;
use crate::id::{DataId, ServerId, TaskId};
use std::collections::BTreeSet;

/// An order given to a server.
#[derive(Clone, Debug)]
pub(super) struct Attempt {
    pub(super) task: TaskId,
    pub(super) server: ServerId,
    /// Time since which the arguments exist, in seconds; `None` until it is noted.
    pub(super) possible_s: Option<f64>,
    /// Time that the arguments take to the server over idle links, in seconds; 0 until `possible_s`
    /// is noted.
    pub(super) inputs_s: f64,
    /// Time at which it began to compute, in seconds.
    pub(super) begun_s: Option<f64>,
    /// Whether it is still needed.
    pub(super) is_open: bool,
    /// The servers to which this attempt's server sends each result.
    pub(super) readers: Vec<(DataId, Vec<ServerId>)>,
}

/// All attempts of a group. Queries about the attempts that compute or could begin on a server take
/// time proportional to the number of these. [`open_on`](Self::open_on) and
/// [`hand_over`](Self::hand_over) examine all attempts of the group.
#[derive(Debug)]
pub(super) struct Attempts {
    all: Vec<Attempt>,
    of_task: Vec<Vec<AttemptId>>,
    /// Attempts whose arguments exist, each with the time in seconds since which they exist. An
    /// entry stays here until its time is noted in the attempt.
    pub(super) complete: Vec<(AttemptId, f64)>,
    /// The rank of each task. Of the attempts that can begin on a server, the one with the lowest
    /// rank begins first.
    places: Vec<u32>,
    /// For each server, the open attempts that compute.
    running: Vec<BTreeSet<AttemptId>>,
    /// For each server, the open attempts that have not begun and whose arguments exist, with the
    /// rank of the task, in the order in which the server begins them.
    possible: Vec<BTreeSet<(u32, AttemptId)>>,
}

impl Attempts {
    pub(super) fn new(servers: usize, places: Vec<u32>) -> Self {
        Self {
            all: Vec::new(),
            of_task: vec![Vec::new(); places.len()],
            complete: Vec::new(),
            places,
            running: vec![BTreeSet::new(); servers],
            possible: vec![BTreeSet::new(); servers],
        }
    }

    pub(super) fn at(&self, attempt: AttemptId) -> &Attempt {
        &self.all[attempt]
    }

    /// Adds an order to a server.
    pub(super) fn give(
        &mut self,
        (task, server): (TaskId, ServerId),
        readers: Vec<(DataId, Vec<ServerId>)>,
    ) -> AttemptId {
        let attempt = self.all.len();
        let (possible_s, inputs_s, begun_s, is_open) = (None, 0.0, None, true);
        let given = Attempt { task, server, possible_s, inputs_s, begun_s, is_open, readers };
        self.all.push(given);
        self.of_task[task.index()].push(attempt);
        attempt
    }

    /// Sets the time since which the arguments of an attempt exist, and the duration of their
    /// transfer to its server.
    pub(super) fn set_possible(&mut self, attempt: AttemptId, since_s: f64, inputs_s: f64) {
        let possible = &mut self.all[attempt];
        if possible.possible_s.is_none() {
            (possible.possible_s, possible.inputs_s) = (Some(since_s), inputs_s);
            self.place(attempt);
        }
    }

    /// Notes that an attempt has begun to compute.
    pub(super) fn begun(&mut self, attempt: AttemptId, now_s: f64) {
        self.lift(attempt);
        self.all[attempt].begun_s = Some(now_s);
        self.place(attempt);
    }

    /// Closes an attempt that is no longer needed. Returns the servers to which it had to send
    /// results.
    pub(super) fn close(&mut self, attempt: AttemptId) -> Vec<(DataId, Vec<ServerId>)> {
        self.lift(attempt);
        self.all[attempt].is_open = false;
        self.take_readers(attempt)
    }

    /// Takes the servers to which an attempt had to send results. It no longer sends them.
    pub(super) fn take_readers(&mut self, attempt: AttemptId) -> Vec<(DataId, Vec<ServerId>)> {
        std::mem::take(&mut self.all[attempt].readers)
    }

    /// Removes a server from those to which the attempts at a task send a result. Returns whether
    /// it was one of them.
    pub(super) fn drop_reader(&mut self, task: TaskId, data: DataId, server: ServerId) -> bool {
        let mut was_reader = false;
        for &attempt in &self.of_task[task.index()] {
            let readers = self.all[attempt].readers.iter_mut();
            for (_, servers) in readers.filter(|(of, _)| *of == data) {
                let before = servers.len();
                servers.retain(|reader| *reader != server);
                was_reader |= servers.len() < before;
            }
        }
        was_reader
    }

    /// Moves all open orders of `from` to `to`, which also replaces `from` as a receiver of
    /// results.
    pub(super) fn hand_over(&mut self, from: ServerId, to: ServerId) {
        for attempt in self.open_on(from) {
            self.lift(attempt);
            self.all[attempt].server = to;
            self.place(attempt);
        }
        let readers = self.all.iter_mut().flat_map(|attempt| &mut attempt.readers);
        for server in readers.flat_map(|(_, servers)| servers) {
            *server = if *server == from { to } else { *server };
        }
    }

    /// Returns the servers of the earlier attempts at the task of an attempt.
    pub(super) fn tried_before(&self, attempt: AttemptId) -> Vec<ServerId> {
        let all = self.of_task[self.all[attempt].task.index()].iter();
        let before = all.take_while(|other| **other != attempt);
        before.map(|&before| self.all[before].server).collect()
    }

    /// Iterates over the open attempts at a task.
    pub(super) fn open_at(&self, task: TaskId) -> impl Iterator<Item = AttemptId> + '_ {
        self.of_task[task.index()].iter().copied().filter(|&attempt| self.all[attempt].is_open)
    }

    pub(super) fn open_on(&self, server: ServerId) -> Vec<AttemptId> {
        let is_it = |attempt: &Attempt| attempt.is_open && attempt.server == server;
        let all = self.all.iter().enumerate().filter(|(_, attempt)| is_it(attempt));
        all.map(|(number, _)| number).collect()
    }

    /// Iterates over the attempts that compute on a server.
    pub(super) fn running(
        &self,
        server: ServerId,
    ) -> impl ExactSizeIterator<Item = AttemptId> + '_ {
        self.running[server.index()].iter().copied()
    }

    /// Iterates over the attempts on a server that have not begun and whose arguments exist, in the
    /// order in which the server begins them.
    pub(super) fn possible(&self, server: ServerId) -> impl Iterator<Item = AttemptId> + '_ {
        self.possible[server.index()].iter().map(|&(_, attempt)| attempt)
    }

    /// Number of attempts on a server that compute or could begin.
    pub(super) fn busy(&self, server: ServerId) -> usize {
        self.running[server.index()].len() + self.possible[server.index()].len()
    }

    #[cfg(test)]
    pub(super) fn latest_at(&self, task: TaskId) -> Option<AttemptId> {
        self.of_task[task.index()].last().copied()
    }

    fn key(&self, attempt: AttemptId) -> (u32, AttemptId) {
        (self.places[self.all[attempt].task.index()], attempt)
    }

    fn place(&mut self, attempt: AttemptId) {
        let Attempt { server, possible_s, begun_s, is_open, .. } = self.all[attempt];
        let key = self.key(attempt);
        match (begun_s, possible_s) {
            _ if !is_open => {}
            (Some(_), _) => drop(self.running[server.index()].insert(attempt)),
            (None, Some(_)) => drop(self.possible[server.index()].insert(key)),
            (None, None) => {}
        }
    }

    fn lift(&mut self, attempt: AttemptId) {
        let (server, key) = (self.all[attempt].server.index(), self.key(attempt));
        self.running[server].remove(&attempt);
        self.possible[server].remove(&key);
    }
}
