//! Windows of a group: gathered calls become a graph, which is mapped and executed.

use super::discovery::{Discovered, Gathered, discover};
use super::executable::executable;
use super::map::{CallGroup, LockKey, failed, nowhere, other};
use super::order::{DataKey, Done};
use super::ranges::Ranges;
use super::repeated::{Division, Results, divide};
use super::server_pool::{Encoded, Freed, ServerPool};
use crate::block::EncodedBlock;
use crate::calls::{RpcError, ServerCard, Signature, not_offered};
use gridspan_workflow::Mapping;
use gridspan_workflow::Platform;
use gridspan_workflow::TaskGraph;
use gridspan_workflow::execution::TaskFailure;
use gridspan_workflow::performance::History;
use gridspan_workflow::stragglers::StragglerPolicy;
use gridspan_workflow::{DataId, ServerId, TaskId};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Number of times that a window looks for data on unlisted servers, with a pause after each: an
/// hour at 50 ms. Such servers register after their current call, and few calls are that long.
const LOOKS_MAX: u32 = 72_000;
/// The error after the last look.
const UNSEEN: &str = "servers that have data of the group have not been listed for a long time; wait until their calls have ended, or lose them with `Services::lose`";

/// Number of handles that are searched per fetched result.
const LOOKED_AT: usize = 64;

/// Servers that execute windows.
pub trait Execute: ServerPool + Sized {
    /// Executes a window to its end: all tasks are done or have failed. Returns the first failure.
    fn execute(window: &CallWindow<'_, '_, Self>) -> impl Future<Output = Result<(), RpcError>>;
}

/// Calls that are executed together: a graph of tasks, each mapped to a server.
pub struct CallWindow<'a, 'b, S: ServerPool> {
    pub(super) group: &'a CallGroup<'b, S>,
    pub(super) cards: Vec<ServerCard>,
    pub(super) platform: Platform,
    pub(super) graph: TaskGraph,
    pub(super) names: Vec<u32>,
    pub(super) mapping: Mapping,
    pub(super) calls: Vec<Gathered>,
}

/// The servers at the start of a window, and the graph on them.
struct Seen {
    cards: Vec<ServerCard>,
    platform: Platform,
    graph: TaskGraph,
    names: Vec<u32>,
}

impl<S: Execute> CallGroup<'_, S> {
    /// Maps the gathered calls as one window, and executes it. Waits while another window is in
    /// execution.
    ///
    /// # Errors
    ///
    /// The error of one of the calls that failed: [`RpcError::NoServers`] if there is no server;
    /// [`RpcError::FunctionNotFound`] or [`RpcError::FunctionDiffers`] if no server offers its
    /// function with its signature; [`RpcError::SessionFailed`] if the function fails, or if
    /// servers or data that it needs are lost; [`RpcError::RpcRefused`] if the last server that was
    /// tried refused it; [`RpcError::Other`] if an argument was lost before, or is of another
    /// group.
    ///
    /// [`RpcError::Other`] for all calls if the heuristic cannot map them, if they form no valid
    /// [`TaskGraph`], or if servers with arguments are not listed for an hour. The errors of
    /// [`ServerPool::cards`] and [`ServerPool::platform`] if the servers are not known.
    pub async fn run(&self) -> Result<(), RpcError> {
        self.draft.borrow().sequence.check()?;
        self.run_for(None).await
    }

    /// Executes the gathered calls. `wanted` is the result for which the program asks.
    pub(super) async fn run_for(&self, wanted: Option<u32>) -> Result<(), RpcError> {
        let _turn = self.locks.take(LockKey::Window).await;
        let calls = self.take_calls(wanted);
        let is_window = !calls.is_empty();
        if is_window {
            let outputs: Vec<u32> = calls.iter().flat_map(|call| call.outputs.clone()).collect();
            let inputs = calls.iter().flat_map(|call| call.inputs.clone());
            let data: Vec<u32> = inputs.chain(outputs.iter().copied()).collect();
            // Record a failure in advance: if this future is dropped, nothing else records which
            // results exist.
            let reason = "the execution of its call was given up".to_owned();
            let given_up = RpcError::Other { reason };
            self.fail(&outputs, &given_up);
            let outcome = match self.take_back(&data).await {
                Ok(()) => self.run_window(calls).await,
                Err(error) => Err(error),
            };
            outcome.inspect_err(|error| self.fail_rest(&outputs, &given_up, error))?;
        }
        if is_window || self.is_due() {
            self.free_dropped();
        }
        Ok(())
    }

    /// Takes the gathered calls that have to be executed.
    fn take_calls(&self, wanted: Option<u32>) -> Vec<Gathered> {
        let (mut calls, gathered, is_resumed) = {
            let mut draft = self.draft.borrow_mut();
            let aside = std::mem::take(&mut draft.aside);
            (aside, std::mem::take(&mut draft.calls), draft.is_resumed)
        };
        if !is_resumed {
            return gathered;
        }
        calls.extend(gathered);
        let results = Results {
            is_there: &|data| self.lost(data).is_none(),
            is_dropped: &|data| self.draft.borrow().dropped.contains(data),
            is_named: &|data| self.is_named(data),
            wanted,
        };
        let Division { now, aside } = divide(calls, &results);
        self.draft.borrow_mut().aside = aside;
        now
    }

    /// Makes servers accept dropped data again: results that calls make again, and values of the
    /// client that these calls read. Asks no servers that were lost.
    async fn take_back(&self, data: &[u32]) -> Result<(), RpcError> {
        let services = &self.mapper.services;
        let (dropped, servers) = {
            let draft = self.draft.borrow();
            let dropped = data.iter().copied().filter(|data| draft.dropped.contains(*data));
            let touched = draft.touched.iter().copied();
            let standing = touched.filter(|server| services.standing(*server).is_some());
            (dropped.collect::<Ranges>(), standing.collect::<BTreeSet<u32>>())
        };
        if dropped.is_empty() {
            return Ok(());
        }
        services.take_back(self.number, &Freed(dropped), &servers).await?;
        // If this future is dropped before this point, the next window asks again.
        let mut draft = self.draft.borrow_mut();
        data.iter().for_each(|&number| draft.dropped.remove(number));
        Ok(())
    }

    /// Whether to search for dropped handles although no window was executed. With few handles the
    /// search happens each time, with many only once per several results, so that fetching all
    /// results of a group costs no more per result than fetching a few.
    fn is_due(&self) -> bool {
        let mut draft = self.draft.borrow_mut();
        draft.unfreed += 1;
        let is_due = draft.unfreed * LOOKED_AT > draft.tokens.len();
        draft.unfreed = if is_due { 0 } else { draft.unfreed };
        is_due
    }

    async fn run_window(&self, calls: Vec<Gathered>) -> Result<(), RpcError> {
        let mut failure = None;
        let seen = self.look_for_data(calls, &mut failure).await?;
        if let Some((Seen { cards, platform, graph, names }, calls)) = seen {
            let place_of = |number: u32| self.place_of(&cards, number);
            let map = || gridspan_workflow::heuristics::map(self.heuristic, &graph, &platform);
            let mapping = match &mut *self.along.borrow_mut() {
                Some(along) => along.follow((&calls, &graph), &place_of, map),
                None => map(),
            }
            .map_err(|error| other(&error))?;
            let window = CallWindow { group: self, cards, platform, graph, names, mapping, calls };
            S::execute(&window).await?;
        }
        failure.map_or(Ok(()), Err)
    }

    /// Returns the servers and the graph of the calls that can be executed; `None` if there are
    /// none. Fails the other calls, and stores the first error in `failure`. If data is on a server
    /// that exists but is not listed, such as one that is late to register with a restarted
    /// registry, waits for that server, for a limited time.
    async fn look_for_data(
        &self,
        mut calls: Vec<Gathered>,
        failure: &mut Option<RpcError>,
    ) -> Result<Option<(Seen, Vec<Gathered>)>, RpcError> {
        for _ in 0..LOOKS_MAX {
            let cards = self.mapper.services.cards().await?;
            let sieved = executable(
                calls,
                |call| not_offered(call.function, &call.signature, &cards),
                |data| self.lost(data),
            );
            for (data, error) in sieved.failed {
                self.fail(&[data], &error);
                failure.get_or_insert(error);
            }
            calls = sieved.calls;
            if calls.is_empty() {
                return Ok(None);
            }
            let seen = self.look(cards, &calls).await?;
            let mut external = seen.graph.data().iter().filter(|data| data.producer.is_none());
            if external.all(|data| !data.held_by.is_empty()) {
                return Ok(Some((seen, calls)));
            }
            self.mapper.services.pause().await;
        }
        Err(RpcError::Other { reason: UNSEEN.to_owned() })
    }

    /// The error of data that no call of a window makes; `None` if the client or a server that has
    /// not been lost has it.
    fn lost(&self, data: u32) -> Option<RpcError> {
        let draft = self.draft.borrow();
        let Some(known) = draft.known.get(&data) else { return Some(nowhere(data)) };
        let is_there = |server: &u32| self.mapper.services.standing(*server).is_some();
        match &known.failure {
            _ if known.at_client || known.servers.iter().any(is_there) => None,
            Some(failure) => Some(failure.clone()),
            None => Some(nowhere(data)),
        }
    }

    async fn look(&self, cards: Vec<ServerCard>, calls: &[Gathered]) -> Result<Seen, RpcError> {
        let platform = self.mapper.platform(&cards).await?;
        let able = |call: &Gathered| {
            let has = |server: &ServerId| {
                cards[server.index()].functions.get(call.function) == Some(&call.signature)
            };
            platform.server_ids().filter(has).collect()
        };
        let place_of = |number: u32| self.place_of(&cards, number);
        let discovered = {
            let (draft, learned) = (self.draft.borrow(), self.mapper.learned.borrow());
            discover(calls, &draft.known, &learned, &place_of, &able)
        };
        let Discovered { graph, names } = discovered.map_err(|error| other(&error))?;
        Ok(Seen { cards, platform, graph, names })
    }

    /// The position of the server that now has this server's data.
    fn place_of(&self, cards: &[ServerCard], number: u32) -> Option<ServerId> {
        let number = self.mapper.services.standing(number)?;
        let place = cards.iter().position(|card| card.number == number);
        place.map(|place| ServerId(place as u32))
    }

    /// Makes servers drop data that no handle names.
    fn free_dropped(&self) {
        let mut draft = self.draft.borrow_mut();
        // The calls of the next window need their inputs and outputs even without a handle, and the
        // calls that are set aside may need theirs.
        let of_calls = |call: &Gathered| call.inputs.iter().chain(&call.outputs).copied().collect();
        let calls = draft.calls.iter().chain(&draft.aside);
        let needed: BTreeSet<u32> = calls.flat_map::<Vec<u32>, _>(of_calls).collect();
        let is_dropped = |(data, token): &(&u32, &Arc<_>)| {
            Arc::strong_count(token) == 1 && !needed.contains(data)
        };
        let dropped: Vec<u32> =
            draft.tokens.iter().filter(is_dropped).map(|(data, _)| *data).collect();
        for data in &dropped {
            draft.tokens.remove(data);
            draft.values.remove(data);
            draft.known.remove(data);
        }
        if dropped.is_empty() {
            return;
        }
        let (group, data): (_, Ranges) = (self.number, dropped.into_iter().collect());
        // Notify all servers, because failed attempts may still make some of this data, and send it
        // to the servers that waited for it.
        self.mapper.services.free(group, &Freed(data), &draft.touched);
    }
}

impl<S: ServerPool> CallGroup<'_, S> {
    /// Records the failure of data, unless the client or a server is known to have it.
    pub(super) fn fail(&self, data: &[u32], error: &RpcError) {
        let mut draft = self.draft.borrow_mut();
        for &data in data {
            let known = draft.known.entry(data).or_default();
            if known.servers.is_empty() && !known.at_client {
                known.failure = Some(error.clone());
            }
        }
    }

    /// Records the failure of data whose last recorded failure is `before`, or that has no record.
    fn fail_rest(&self, data: &[u32], before: &RpcError, error: &RpcError) {
        let is_rest = |data: &u32| {
            let draft = self.draft.borrow();
            draft.known.get(data).is_none_or(|known| known.failure.as_ref() == Some(before))
        };
        let rest: Vec<u32> = data.iter().copied().filter(is_rest).collect();
        self.fail(&rest, error);
    }

    /// Clears the failure of data that was made.
    pub(super) fn succeed(&self, data: u32) {
        self.draft.borrow_mut().known.entry(data).or_default().failure = None;
    }

    /// Whether a handle of the program names the data.
    pub(super) fn is_named(&self, data: u32) -> bool {
        let draft = self.draft.borrow();
        draft.tokens.get(&data).is_some_and(|token| Arc::strong_count(token) > 1)
    }
}

impl<S: ServerPool> CallWindow<'_, '_, S> {
    /// The servers.
    pub fn server_pool(&self) -> &S {
        &self.group.mapper.services
    }

    /// The calls and their data. The name of data is its number in the group.
    pub fn graph(&self) -> &TaskGraph {
        &self.graph
    }

    /// The platform on which the window was mapped.
    pub fn platform(&self) -> &Platform {
        &self.platform
    }

    /// The servers, by their positions in the platform.
    pub fn cards(&self) -> &[ServerCard] {
        &self.cards
    }

    /// The server of each task.
    pub fn mapping(&self) -> &Mapping {
        &self.mapping
    }

    /// The function that a task calls.
    pub fn function(&self, task: TaskId) -> &'static str {
        self.calls[task.index()].function
    }

    /// The signature of the function that a task calls.
    pub fn signature(&self, task: TaskId) -> &Signature {
        &self.calls[task.index()].signature
    }

    /// The arguments of a task in order, by their numbers in the group.
    pub fn arguments(&self, task: TaskId) -> &[u32] {
        &self.calls[task.index()].inputs
    }

    /// The policy for servers that turn out to be slow.
    pub fn straggler_policy(&self) -> StragglerPolicy {
        self.group.mapper.straggler_policy
    }

    /// The group's number.
    pub fn group(&self) -> u32 {
        self.group.number
    }

    /// The number that identifies data in the group.
    pub fn version(&self, data: DataId) -> u32 {
        self.names[data.index()]
    }

    /// The key by which servers know data.
    pub(super) fn key(&self, data: DataId) -> DataKey {
        self.group.key(self.version(data))
    }

    /// Returns data, if the client has it.
    pub fn value(&self, data: DataId) -> Option<Encoded> {
        self.block(data).map(Encoded)
    }

    pub(super) fn block(&self, data: DataId) -> Option<EncodedBlock> {
        self.group.draft.borrow().values.get(&self.version(data)).cloned()
    }

    /// Drops relayed data of the client, unless the program may still ask for it, or has gathered a
    /// call meanwhile that reads it.
    pub(super) fn spent(&self, data: DataId) {
        let version = self.version(data);
        if self.group.is_named(version) {
            return;
        }
        let mut draft = self.group.draft.borrow_mut();
        let mut later = draft.calls.iter().chain(&draft.aside);
        if later.any(|call| call.inputs.contains(&version)) {
            return;
        }
        draft.values.remove(&version);
        if let Some(known) = draft.known.get_mut(&version) {
            known.at_client = false;
        }
    }

    /// Whether the program may ask for the data when the window has ended.
    pub fn is_named(&self, data: DataId) -> bool {
        self.group.is_named(self.version(data))
    }

    /// Records that a server may have data or orders of the group, so that it is notified of the
    /// group's end.
    pub fn touch(&self, server: ServerId) {
        self.group.draft.borrow_mut().touched.insert(self.number(server));
    }

    /// The number of a server.
    pub fn number(&self, server: ServerId) -> u32 {
        self.cards[server.index()].number
    }

    /// Records that a server has made the results of a task, of these sizes in bytes.
    pub fn made(&self, task: TaskId, server: ServerId, done: &Done, sizes: &[u64]) {
        self.learn(task, server, done, sizes);
        for &data in &self.graph.task(task).outputs {
            self.has(data, server, true);
            self.group.succeed(self.version(data));
        }
    }

    /// Records that a server has data, and whether it made the data.
    pub fn has(&self, data: DataId, server: ServerId, is_maker: bool) {
        let number = self.number(server);
        let mut draft = self.group.draft.borrow_mut();
        let known = draft.known.entry(self.version(data)).or_default();
        if is_maker {
            known.maker = Some(number);
        }
        known.servers.insert(number);
    }

    /// Records that a server no longer has data.
    pub fn has_not(&self, data: DataId, server: ServerId) {
        let number = self.number(server);
        let mut draft = self.group.draft.borrow_mut();
        let known = draft.known.entry(self.version(data)).or_default();
        known.maker = known.maker.filter(|maker| *maker != number);
        known.servers.remove(&number);
    }

    /// Records that the results of a task will never exist.
    pub fn failed(&self, task: TaskId, error: &RpcError) {
        for &data in &self.graph.task(task).outputs {
            self.group.fail(&[self.version(data)], error);
        }
    }

    /// Updates the history of a function after a call of it.
    fn learn(&self, task: TaskId, server: ServerId, done: &Done, sizes: &[u64]) {
        let call = &self.calls[task.index()];
        let mut draft = self.group.draft.borrow_mut();
        let mut learned = self.group.mapper.learned.borrow_mut();
        let learned = learned.entry(call.function).or_default();
        // The length is that of the call, not the one that the server reports.
        learned.outputs.resize(call.outputs.len(), History::default());
        for ((output, &bytes), history) in call.outputs.iter().zip(sizes).zip(&mut learned.outputs)
        {
            draft.known.entry(*output).or_default().bytes = bytes;
            history.observe(done.input_bytes, bytes as f64);
        }
        let speed = self.cards[server.index()].speed;
        let by_clock = done.took_s.map(|took_s| took_s * speed);
        if let Some(work_s) = done.work_s.or(by_clock) {
            learned.time.observe(done.input_bytes, work_s);
        }
        if let (Some(took_s), Some(work_s)) = (done.took_s, done.work_s) {
            let mut observed_speeds = self.group.mapper.observed_speeds.borrow_mut();
            observed_speeds.entry(self.number(server)).or_default().observe(took_s, work_s / speed);
        }
    }
}

/// The error of a failed call of a function, and of the calls that depend on it.
pub fn error_of(function: &str, failure: &TaskFailure) -> RpcError {
    match failure {
        TaskFailure::NotExecuted { reason, is_refused } => {
            let reason = format!("`{function}` was not executed: {reason}");
            match is_refused {
                true => RpcError::RpcRefused { reason },
                false => failed(reason),
            }
        }
        failure => failed(failure.reason().to_owned()),
    }
}
