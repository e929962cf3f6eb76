//! Windows of a group: calls that are gathered become a graph, are mapped, and executed.

use super::discovery::{Discovered, Gathered, discover};
use super::map::{Group, Matter, nowhere, other};
use super::order::GroupMessage;
use super::progress::Progress;
use super::spans::Spans;
use crate::calls::{Catalogue, RpcError, ServerCard, ServerMessage};
use crate::graph::TaskGraph;
use crate::id::ServerId;
use crate::judge::Rescue;
use crate::mapping::Mapping;
use crate::platform::Platform;
use crate::rescue::Watch;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Calls that are executed together.
pub(super) struct Window<'a, 'b, C: Catalogue> {
    pub(super) group: &'a Group<'b, C>,
    pub(super) cards: Vec<ServerCard>,
    pub(super) platform: Platform,
    pub(super) graph: TaskGraph,
    pub(super) names: Vec<u32>,
    pub(super) mapping: Mapping,
    pub(super) calls: Vec<Gathered>,
    pub(super) progress: RefCell<Progress>,
    /// What is seen of the servers, if something is done about slow ones.
    pub(super) watch: Option<RefCell<Watch>>,
}

impl<C: Catalogue> Group<'_, C> {
    /// Maps what was gathered as one window, and executes it. While another window is executed it waits for its end.
    pub async fn run(&self) -> Result<(), RpcError> {
        let _turn = self.turns.take(Matter::Window).await;
        let calls = std::mem::take(&mut self.draft.borrow_mut().calls);
        if !calls.is_empty() {
            let outputs: Vec<u32> = calls.iter().flat_map(|call| call.outputs.clone()).collect();
            // Should nobody wait for the end of the window, nobody knows what became of its results.
            let reason = "the execution of its call was given up".to_owned();
            self.fail(&outputs, &RpcError::Other { reason });
            self.run_window(calls).await.inspect_err(|error| self.fail(&outputs, error))?;
        }
        self.free_dropped();
        Ok(())
    }

    /// Data that nobody has will never be.
    pub(super) fn fail(&self, data: &[u32], error: &RpcError) {
        let mut draft = self.draft.borrow_mut();
        for &data in data {
            let known = draft.known.entry(data).or_default();
            if known.servers.is_empty() {
                known.failure = Some(error.clone());
            }
        }
    }

    /// Data was made.
    pub(super) fn succeed(&self, data: u32) {
        self.draft.borrow_mut().known.entry(data).or_default().failure = None;
    }

    async fn run_window(&self, calls: Vec<Gathered>) -> Result<(), RpcError> {
        let cards = self.mapper.services.settled_list().await?;
        let platform = self.mapper.platform(&cards).await?;
        let place_of = |number: u32| {
            let number = self.mapper.services.standing(number)?;
            let place = cards.iter().position(|card| card.number == number);
            place.map(|place| ServerId(place as u32))
        };
        let Discovered { graph, names } = {
            let draft = self.draft.borrow();
            let able = |function: &str| {
                let able = platform
                    .server_ids()
                    .filter(|server| cards[server.index()].functions.contains(function));
                able.collect()
            };
            let learned = self.mapper.learned.borrow();
            discover(&calls, &draft.known, &learned, &place_of, &able)
        }
        .map_err(|error| other(&error))?;
        let mut data = graph.data().iter();
        let missing = data.find(|data| data.producer.is_none() && data.held_by.is_empty());
        if let Some(data) = missing {
            let name = data.name.parse().ok();
            let draft = self.draft.borrow();
            let known = name.and_then(|name: u32| draft.known.get(&name));
            let failure = known.and_then(|known| known.failure.clone());
            return Err(failure.unwrap_or_else(|| nowhere(&data.name)));
        }
        let map = || self.heuristic.map(&graph, &platform);
        let mapping = match &mut *self.along.borrow_mut() {
            Some(along) => along.follow(&calls, &place_of, map),
            None => map(),
        }
        .map_err(|error| other(&error))?;
        let rescue = self.mapper.rescue;
        let is_copying = rescue == Rescue::StealAndCopy;
        let watch = (rescue != Rescue::None)
            .then(|| RefCell::new(Watch::new(&graph, &platform, is_copying)));
        let progress = Progress::new(graph.tasks().len(), platform.servers().len());
        let progress = RefCell::new(progress);
        let group = self;
        let window =
            Window { group, cards, platform, graph, names, mapping, calls, progress, watch };
        window.execute().await
    }

    /// Whether a handle names data.
    pub(super) fn is_named(&self, data: u32) -> bool {
        let draft = self.draft.borrow();
        draft.tokens.get(&data).is_some_and(|token| Arc::strong_count(token) > 1)
    }

    /// Has servers forget data that no handle names any more.
    fn free_dropped(&self) {
        let mut draft = self.draft.borrow_mut();
        // What calls of the next window need has no handle any more, perhaps, nor what they make.
        let of_calls = |call: &Gathered| call.inputs.iter().chain(&call.outputs).copied().collect();
        let needed: BTreeSet<u32> = draft.calls.iter().flat_map::<Vec<u32>, _>(of_calls).collect();
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
        let (group, data): (_, Spans) = (self.number, dropped.into_iter().collect());
        // To all, since attempts that came to nothing may make some of it yet, and send it to whoever waited for it.
        for &server in &draft.touched {
            let message = GroupMessage::Free { group, data: data.clone() };
            self.mapper.services.tell_server(server, ServerMessage::Group(message));
        }
    }
}
