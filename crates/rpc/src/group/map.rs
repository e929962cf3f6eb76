//! What `main` uses: a mapper, and groups of calls.

use super::all_of::AllOf;
use super::along::Along;
use super::discovery::{Gathered, Known, Learned};
use super::lazy::Lazy;
use super::order::{DataKey, GroupMessage, Piece};
use super::pace::Pace;
use super::parts::{Arguments, Parts};
use super::turns::Turns;
use super::view::{Declared, platform};
use crate::block::{Arriving, Block, DATA_SEGMENT_BYTES, SEGMENTS_MAX};
use crate::calls::{Catalogue, Function, RpcError, ServerCard, ServerMessage, Services};
use crate::graph::TaskGraph;
use crate::heuristics::Heuristic;
use crate::judge::Rescue;
use crate::platform::Platform;
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
    /// How fast each server turned out to be.
    pub(super) paces: RefCell<BTreeMap<u32, Pace>>,
    declared: Declared,
    measures: bool,
    pub(super) rescue: Rescue,
}

impl<C: Catalogue> Mapper<C> {
    /// A mapper that takes links to be [`Link::lan`] inside sites and [`Link::wan`] between them.
    pub fn new(services: &Services<C>) -> Self {
        let declared = Declared { lan: Link::lan(), wan: Link::wan() };
        let services = services.clone();
        let (learned, paces) = (RefCell::default(), RefCell::default());
        Self { services, learned, paces, declared, measures: false, rescue: Rescue::None }
    }

    /// The same, with other links inside sites and from each site to the others.
    pub fn with_links(mut self, lan: Link, wan: Link) -> Self {
        self.declared = Declared { lan, wan };
        self
    }

    /// The same, with links as the runtime has measured them when a window is mapped, and servers as fast as they
    /// turned out to be. What was not measured is as declared.
    pub fn measured(mut self) -> Self {
        self.measures = true;
        self
    }

    /// The same, with something done about servers that turn out to be slow while a window is executed. A function may
    /// be executed more than once then.
    pub fn with_rescue(mut self, rescue: Rescue) -> Self {
        self.rescue = rescue;
        self
    }

    /// Maps the calls that `body` makes by a heuristic, window by window, and executes them. Ends when all have ended,
    /// with what `body` gives, or with the first error.
    pub async fn map<R>(
        &self,
        heuristic: &dyn Heuristic,
        body: impl AsyncFnOnce(&Group<'_, C>) -> Result<R, RpcError>,
    ) -> Result<R, RpcError> {
        self.map_as(heuristic, None, body).await
    }

    /// The same, mapped along a graph that is like the group: each call goes where the heuristic has mapped the next
    /// task of the function's name. For groups whose calls depend on results (paper 5, section 4), which are many small
    /// windows otherwise. Its data is at the client, or on servers by their position in [`Services::list`].
    pub async fn map_along<R>(
        &self,
        heuristic: &dyn Heuristic,
        graph: &TaskGraph,
        body: impl AsyncFnOnce(&Group<'_, C>) -> Result<R, RpcError>,
    ) -> Result<R, RpcError> {
        let cards = self.services.list().await?;
        let platform = self.platform(&cards).await?;
        let along = Along::new(graph, heuristic, &platform, &cards);
        self.map_as(heuristic, Some(along.map_err(|error| other(&error))?), body).await
    }

    async fn map_as<R>(
        &self,
        heuristic: &dyn Heuristic,
        along: Option<Along>,
        body: impl AsyncFnOnce(&Group<'_, C>) -> Result<R, RpcError>,
    ) -> Result<R, RpcError> {
        let number = self.services.begin_group();
        let (draft, turns, along) = (RefCell::default(), Turns::default(), RefCell::new(along));
        let group = Group { mapper: self, heuristic, number, draft, turns, along };
        let given = body(&group).await;
        if given.is_ok() {
            group.run().await?;
        }
        given
    }

    pub(super) async fn platform(&self, cards: &[ServerCard]) -> Result<Platform, RpcError> {
        let links = match self.measures {
            true => Some(self.services.links().await?),
            false => None,
        };
        let paces = self.paces.borrow();
        let pace = |number: u32| match self.measures {
            true => paces.get(&number).map_or(1.0, |pace| pace.factor()),
            false => 1.0,
        };
        let layout = self.services.layout();
        Ok(platform(layout, cards, self.declared, links.as_ref(), &pace))
    }
}

/// Calls that are gathered, and data that is there.
#[derive(Default)]
pub(super) struct Draft {
    pub(super) calls: Vec<Gathered>,
    pub(super) known: BTreeMap<u32, Known>,
    /// Values of the client.
    pub(super) values: BTreeMap<u32, Block>,
    pub(super) tokens: BTreeMap<u32, Arc<(u32, u32)>>,
    count: u32,
    /// Servers that may have something of the group.
    pub(super) touched: BTreeSet<u32>,
}

/// What futures of a group wait for each other for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Matter {
    /// The execution of a window.
    Window,
    /// Bringing data to the client.
    Data(u32),
}

/// A group of calls. Once it has ended or was dropped, servers keep nothing of it.
pub struct Group<'a, C: Catalogue> {
    pub(super) mapper: &'a Mapper<C>,
    pub(super) heuristic: &'a dyn Heuristic,
    pub(super) number: u32,
    pub(super) draft: RefCell<Draft>,
    pub(super) turns: Turns<Matter>,
    pub(super) along: RefCell<Option<Along>>,
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

    /// How many bytes the client itself keeps for the group: values that it sends, or that came by way of it or to it, as long
    /// as a handle names them.
    pub fn held_bytes(&self) -> u64 {
        self.draft.borrow().values.values().map(|block| block.len() as u64).sum()
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
        for server in known.maker.into_iter().chain(known.servers) {
            let Some(server) = services.standing(server) else { continue };
            let fetched = self.fetch_from(server, data).await;
            // Who was lost meanwhile says that the data was freed.
            if fetched.is_ok() || services.standing(server).is_some() {
                return fetched;
            }
        }
        Err(nowhere(data))
    }

    /// Brings data to the client from a server that has it.
    pub(super) async fn fetch_from(&self, server: u32, data: u32) -> Result<Block, RpcError> {
        let first = self.fetch_piece(server, data, 0).await?;
        if first.count as usize > SEGMENTS_MAX {
            return Err(failed(format!("the data is to come in {} segments", first.count)));
        }
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
}

impl<C: Catalogue> Drop for Group<'_, C> {
    fn drop(&mut self) {
        let services = &self.mapper.services;
        let touched = std::mem::take(&mut self.draft.get_mut().touched);
        // Those that have left pass it on to who took over.
        services.end_group(self.number, touched);
    }
}

pub(super) fn other(error: &dyn std::fmt::Display) -> RpcError {
    RpcError::Other { reason: error.to_string() }
}

pub(super) fn nowhere(data: impl std::fmt::Display) -> RpcError {
    let reason =
        format!("nobody has data {data}: its servers have left, or it is of another group");
    RpcError::Other { reason }
}

pub(super) fn failed(reason: String) -> RpcError {
    RpcError::SessionFailed { reason }
}
