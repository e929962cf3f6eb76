//! What `main` uses: a mapper, and groups of calls.

use super::all_of::AllOf;
use super::discovery::{Discovered, Gathered, Known, Learned, discover};
use super::lazy::Lazy;
use super::order::{DataKey, GroupMessage, Piece};
use super::parts::{Arguments, Parts};
use super::turns::Turns;
use crate::block::{Arriving, Block, DATA_SEGMENT_BYTES};
use crate::calls::{Catalogue, Function, RpcError, ServerCard, ServerMessage, Services};
use crate::graph::TaskGraph;
use crate::heuristics::Heuristic;
use crate::id::ServerId;
use crate::mapping::Mapping;
use crate::platform::{Client, Platform, Server, Site};
use gridspan_topology::Link;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
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
        let number = self.services.begin_group();
        let (draft, turns) = (RefCell::default(), Turns::default());
        let group = Group { mapper: self, heuristic, number, draft, turns };
        let given = body(&group).await;
        if given.is_ok() {
            group.run().await?;
        }
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
    pub(super) values: BTreeMap<u32, Block>,
    tokens: BTreeMap<u32, Arc<(u32, u32)>>,
    count: u32,
    /// Servers that may have something of the group.
    pub(super) touched: BTreeSet<u32>,
}

/// What futures of a group wait for each other for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Matter {
    /// The execution of a window.
    Window,
    /// Bringing data to the client.
    Data(u32),
}

/// A group of calls. Once it has ended or was dropped, servers keep nothing of it.
pub struct Group<'a, C: Catalogue> {
    pub(super) mapper: &'a Mapper<C>,
    heuristic: &'a dyn Heuristic,
    pub(super) number: u32,
    pub(super) draft: RefCell<Draft>,
    turns: Turns<Matter>,
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
        let block = Block::encode("the value", value, DATA_SEGMENT_BYTES);
        let block = block.map_err(|reason| RpcError::RpcRefused { reason })?;
        let token = self.token();
        let known = Known { bytes: block.len() as u64, at_client: true, ..Known::default() };
        let mut draft = self.draft.borrow_mut();
        draft.known.insert(token.1, known);
        draft.values.insert(token.1, block);
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
        let inputs: Vec<u32> = tokens.iter().map(own).collect();
        let mut outputs = Vec::new();
        let results = O::lazies(&mut || {
            let token = self.token();
            outputs.push(token.1);
            token
        });
        let work_s = self.work_s(function, &inputs);
        let (function, volumes) = (function.name(), function.volumes());
        let call = Gathered { function, inputs, outputs, work_s, volumes };
        self.draft.borrow_mut().calls.push(call);
        results
    }

    /// What a call needs on a server of speed 1, in seconds, if a formula says so and the client has all arguments.
    fn work_s<I: Parts, O>(&self, function: &Function<I, O>, inputs: &[u32]) -> Option<f64> {
        if !function.has_formula() {
            return None;
        }
        let draft = self.draft.borrow();
        let mut bytes = Vec::new();
        for input in inputs {
            bytes.extend_from_slice(&draft.values.get(input)?.contiguous());
        }
        // A formula that is wrong fails the call where it is executed.
        function.work_s(&postcard::from_bytes(&bytes).ok()?).ok()?
    }

    /// Executes what was gathered, and brings a result to the client.
    pub async fn get<T: DeserializeOwned>(&self, lazy: &Lazy<T>) -> Result<T, RpcError> {
        if lazy.token.0 != self.number {
            return Err(RpcError::Other { reason: "the data is of another group".to_owned() });
        }
        self.run().await?;
        let data = lazy.token.1;
        let _turn = self.turns.take(Matter::Data(data)).await;
        let held = self.draft.borrow().values.get(&data).cloned();
        let block = match held {
            Some(block) => block,
            None => self.fetch(data).await?,
        };
        postcard::from_bytes(&block.contiguous()).map_err(|error| failed(error.to_string()))
    }

    async fn fetch(&self, data: u32) -> Result<Block, RpcError> {
        let known = self.draft.borrow().known.get(&data).cloned().unwrap_or_default();
        if let Some(failure) = known.failure {
            return Err(failure);
        }
        let services = &self.mapper.services;
        match known.servers.into_iter().find_map(|server| services.standing(server)) {
            Some(server) => self.fetch_from(server, data).await,
            None => Err(nowhere(data)),
        }
    }

    /// Brings data to the client from a server that has it.
    pub(super) async fn fetch_from(&self, server: u32, data: u32) -> Result<Block, RpcError> {
        let first = self.fetch_piece(server, data, 0).await?;
        let mut arriving = Arriving::new(first.count as usize);
        let mut whole = arriving.arrive(0, first.bytes.map_err(failed)?);
        let rest = (1..first.count).map(|index| self.fetch_piece(server, data, index)).collect();
        for piece in AllOf::new(rest).await {
            let Piece { index, bytes, .. } = piece?;
            whole = whole.or(arriving.arrive(index as usize, bytes.map_err(failed)?));
        }
        let block = whole.ok_or_else(|| failed("the data came in part only".to_owned()))?;
        let mut draft = self.draft.borrow_mut();
        if let Some(known) = draft.known.get_mut(&data) {
            known.at_client = true;
        }
        draft.values.insert(data, block.clone());
        Ok(block)
    }

    async fn fetch_piece(&self, server: u32, data: u32, index: u32) -> Result<Piece, RpcError> {
        let key = self.key(data);
        let question = move |reply| ServerMessage::Group(GroupMessage::Fetch(key, index, reply));
        self.mapper.services.ask_server(server, question).await
    }

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
    fn fail(&self, data: &[u32], error: &RpcError) {
        let mut draft = self.draft.borrow_mut();
        for &data in data {
            let known = draft.known.entry(data).or_default();
            if known.servers.is_empty() {
                known.failure = Some(error.clone());
            }
        }
    }

    async fn run_window(&self, calls: Vec<Gathered>) -> Result<(), RpcError> {
        let cards = self.mapper.services.list().await?;
        let platform = self.mapper.platform(&cards);
        let Discovered { graph, names } = {
            let draft = self.draft.borrow();
            let place_of = |number: u32| {
                let number = self.mapper.services.standing(number)?;
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
        let missing = data.find(|data| data.producer.is_none() && data.held_by.is_empty());
        if let Some(data) = missing {
            let name = data.name.parse().ok();
            let draft = self.draft.borrow();
            let known = name.and_then(|name: u32| draft.known.get(&name));
            let failure = known.and_then(|known| known.failure.clone());
            return Err(failure.unwrap_or_else(|| nowhere(&data.name)));
        }
        let mapping = self.heuristic.map(&graph, &platform);
        let mapping = mapping.map_err(|error| RpcError::Other { reason: error.to_string() })?;
        let window = Window { group: self, cards, platform, graph, names, mapping, calls };
        window.execute().await
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

impl<C: Catalogue> Drop for Group<'_, C> {
    fn drop(&mut self) {
        let services = &self.mapper.services;
        let touched = std::mem::take(&mut self.draft.get_mut().touched);
        // Those that have left pass it on to who took over.
        services.end_group(self.number, touched);
    }
}

fn nowhere(data: impl std::fmt::Display) -> RpcError {
    let reason =
        format!("nobody has data {data}: its servers have left, or it is of another group");
    RpcError::Other { reason }
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
