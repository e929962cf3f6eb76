//! What `main` uses: a mapper, and groups of calls.

use super::discovery::{Discovered, Gathered, Known, Learned, discover};
use super::lazy::Lazy;
use super::order::{DataKey, GroupMessage, Held};
use super::parts::{Arguments, Parts};
use crate::calls::{
    Catalogue, Function, RpcError, ServerCard, ServerMessage, Services, check_piece,
};
use crate::graph::TaskGraph;
use crate::heuristics::Heuristic;
use crate::id::ServerId;
use crate::mapping::Mapping;
use crate::platform::{Client, Platform, Server, Site};
use gridspan_runtime::Numbers;
use gridspan_topology::Link;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Maps groups of calls to the servers of a job, and remembers how long functions take.
pub struct Mapper<C: Catalogue> {
    pub(super) services: Services<C>,
    pub(super) learned: RefCell<BTreeMap<&'static str, Learned>>,
    lan: Link,
    wan: Link,
}

impl<C: Catalogue> Mapper<C> {
    /// A mapper that takes links to be [`Link::lan`] inside sites and [`Link::wan`] between them.
    pub fn new(services: &Services<C>) -> Self {
        let learned = RefCell::default();
        Self { services: services.clone(), learned, lan: Link::lan(), wan: Link::wan() }
    }

    /// The same, with other links inside sites and from each site to the others.
    pub fn with_links(mut self, lan: Link, wan: Link) -> Self {
        (self.lan, self.wan) = (lan, wan);
        self
    }

    /// Maps the calls that `body` makes by a heuristic, window by window, and executes them. Ends when all have ended,
    /// with what `body` gives, or with the first error.
    pub async fn map<R>(
        &self,
        heuristic: &dyn Heuristic,
        body: impl AsyncFnOnce(&Group<'_, C>) -> Result<R, RpcError>,
    ) -> Result<R, RpcError> {
        let number = self.services.fresh_number();
        let group = Group { mapper: self, heuristic, number, draft: RefCell::default() };
        let given = body(&group).await;
        let ran = if given.is_ok() { group.run().await } else { Ok(()) };
        group.free_all();
        ran?;
        given
    }

    fn platform(&self, cards: &[ServerCard]) -> Platform {
        let layout = self.services.layout();
        let half = self.wan.with_latency(gridspan_topology::Latency(self.wan.latency.0 / 2));
        let site =
            |site| Site { name: layout.site_name(site).to_owned(), lan: self.lan, uplink: half };
        let server = |card: &ServerCard| Server {
            name: card.name.clone(),
            site: card.site as usize,
            cores: 1,
            speed: card.speed,
            is_direct: card.is_direct,
        };
        let client = Client { site: Some(0), link: self.lan };
        Platform::new(
            cards.iter().map(server).collect(),
            layout.sites().map(site).collect(),
            client,
        )
    }
}

/// Calls that are gathered, and data that is there.
#[derive(Default)]
pub(super) struct Draft {
    calls: Vec<Gathered>,
    pub(super) known: BTreeMap<u32, Known>,
    /// Values of the client.
    pub(super) values: BTreeMap<u32, Numbers<u8>>,
    tokens: BTreeMap<u32, Arc<(u32, u32)>>,
    count: u32,
}

/// A group of calls.
pub struct Group<'a, C: Catalogue> {
    pub(super) mapper: &'a Mapper<C>,
    heuristic: &'a dyn Heuristic,
    number: u32,
    pub(super) draft: RefCell<Draft>,
}

impl<C: Catalogue> Group<'_, C> {
    fn token(&self) -> Arc<(u32, u32)> {
        let mut draft = self.draft.borrow_mut();
        let token = Arc::new((self.number, draft.count));
        draft.count += 1;
        draft.tokens.insert(token.1, token.clone());
        token
    }

    pub(super) fn key(&self, data: u32) -> DataKey {
        DataKey { group: self.number, data }
    }

    /// Makes a value of the client an argument of calls. It is sent to the servers that need it, once to each site.
    pub fn value<T: Serialize>(&self, value: &T) -> Result<Lazy<T>, RpcError> {
        let bytes = postcard::to_stdvec(value);
        let bytes = bytes.map_err(|error| RpcError::Other { reason: error.to_string() })?;
        check_piece("the value", bytes.len()).map_err(|reason| RpcError::RpcRefused { reason })?;
        let token = self.token();
        let known = Known { bytes: bytes.len() as u64, at_client: true, ..Known::default() };
        let mut draft = self.draft.borrow_mut();
        draft.known.insert(token.1, known);
        draft.values.insert(token.1, bytes.into());
        Ok(Lazy::new(token))
    }

    /// Calls a function, some time: the results are names that can be given to further calls, or
    /// [gotten](Self::get). An argument of another group makes the call fail.
    pub fn call<I: Parts, O: Parts>(
        &self,
        function: &Function<I, O>,
        arguments: impl Arguments<I>,
    ) -> O::Lazies {
        let tokens = arguments.into_tokens();
        // A version that this group does not have: nobody holds it, so the window is refused.
        let own = |&(group, data): &(u32, u32)| if group == self.number { data } else { u32::MAX };
        let inputs = tokens.iter().map(own).collect();
        let mut outputs = Vec::new();
        let results = O::lazies(&mut || {
            let token = self.token();
            outputs.push(token.1);
            token
        });
        let call = Gathered { function: function.name(), inputs, outputs };
        self.draft.borrow_mut().calls.push(call);
        results
    }

    /// Executes what was gathered, and brings a result to the client.
    pub async fn get<T: DeserializeOwned>(&self, lazy: &Lazy<T>) -> Result<T, RpcError> {
        if lazy.token.0 != self.number {
            return Err(RpcError::Other { reason: "the data is of another group".to_owned() });
        }
        self.run().await?;
        let data = lazy.token.1;
        let held = self.draft.borrow().values.get(&data).cloned();
        let bytes = match held {
            Some(bytes) => bytes,
            None => self.fetch(data).await?,
        };
        postcard::from_bytes(&bytes).map_err(|error| failed(error.to_string()))
    }

    async fn fetch(&self, data: u32) -> Result<Numbers<u8>, RpcError> {
        let server = self.draft.borrow().known.get(&data).and_then(|k| k.servers.first().copied());
        match server {
            Some(server) => self.fetch_from(server, data).await,
            None => Err(RpcError::Other { reason: "no server has the data".to_owned() }),
        }
    }

    /// Brings data to the client from a server that has it.
    pub(super) async fn fetch_from(&self, server: u32, data: u32) -> Result<Numbers<u8>, RpcError> {
        let key = self.key(data);
        let question = move |reply| ServerMessage::Group(GroupMessage::Fetch(key, reply));
        let held: Held = self.mapper.services.ask_server(server, question).await?;
        let bytes = held.map_err(failed)?;
        let mut draft = self.draft.borrow_mut();
        if let Some(known) = draft.known.get_mut(&data) {
            known.at_client = true;
        }
        draft.values.insert(data, bytes.clone());
        Ok(bytes)
    }

    /// Maps what was gathered as one window, and executes it.
    pub async fn run(&self) -> Result<(), RpcError> {
        let calls = std::mem::take(&mut self.draft.borrow_mut().calls);
        if calls.is_empty() {
            return Ok(());
        }
        let cards = self.mapper.services.list().await?;
        let platform = self.mapper.platform(&cards);
        let Discovered { graph, names } = {
            let draft = self.draft.borrow();
            let place_of = |number: u32| {
                let place = cards.iter().position(|card| card.number == number);
                place.map(|place| ServerId(place as u32))
            };
            let able = |function: &str| {
                let able = platform
                    .server_ids()
                    .filter(|server| cards[server.index()].functions.contains(function));
                able.collect()
            };
            let learned = self.mapper.learned.borrow();
            discover(&calls, &draft.known, &learned, &place_of, &able)
        }
        .map_err(|error| RpcError::Other { reason: error.to_string() })?;
        let mut data = graph.data().iter();
        let nowhere = data.find(|data| data.producer.is_none() && data.held_by.is_empty());
        if let Some(data) = nowhere.map(|data| &data.name) {
            let reason = format!(
                "nobody has argument {data}: its servers have left, or it is of another group"
            );
            return Err(RpcError::Other { reason });
        }
        let mapping = self.heuristic.map(&graph, &platform);
        let mapping = mapping.map_err(|error| RpcError::Other { reason: error.to_string() })?;
        let window = Window { group: self, cards, platform, graph, names, mapping, calls };
        let outcome = window.execute().await;
        self.free_dropped();
        outcome
    }

    /// Has servers forget data that no handle names any more.
    fn free_dropped(&self) {
        let mut draft = self.draft.borrow_mut();
        let dropped: Vec<u32> = draft
            .tokens
            .iter()
            .filter(|(_, token)| Arc::strong_count(token) == 1)
            .map(|(data, _)| *data)
            .collect();
        for &data in &dropped {
            draft.tokens.remove(&data);
            draft.values.remove(&data);
        }
        self.free(&mut draft, &dropped);
    }

    fn free_all(&self) {
        let mut draft = self.draft.borrow_mut();
        let all: Vec<u32> = draft.known.keys().copied().collect();
        self.free(&mut draft, &all);
    }

    fn free(&self, draft: &mut Draft, data: &[u32]) {
        let mut by_server: BTreeMap<u32, Vec<DataKey>> = BTreeMap::new();
        for data in data {
            let known = draft.known.remove(data).unwrap_or_default();
            for server in known.servers {
                by_server.entry(server).or_default().push(self.key(*data));
            }
        }
        for (server, keys) in by_server {
            let message = ServerMessage::Group(GroupMessage::Free(keys));
            self.mapper.services.tell_server(server, message);
        }
    }
}

pub(super) fn failed(reason: String) -> RpcError {
    RpcError::SessionFailed { reason }
}

/// Calls that are executed together.
pub(super) struct Window<'a, 'b, C: Catalogue> {
    pub(super) group: &'a Group<'b, C>,
    pub(super) cards: Vec<ServerCard>,
    pub(super) platform: Platform,
    pub(super) graph: TaskGraph,
    pub(super) names: Vec<u32>,
    pub(super) mapping: Mapping,
    pub(super) calls: Vec<Gathered>,
}
