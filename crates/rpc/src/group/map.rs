//! The API for `main`: a mapper, and groups of calls.

use super::discovery::{Gathered, Known, Learned};
use super::given_graph::GivenGraph;
use super::keyed_mutex::KeyedMutex;
use super::lazy::Lazy;
use super::observed_speed::ObservedSpeed;
use super::order::DataKey;
use super::parts::{Arguments, Parts};
use super::ranges::Ranges;
use super::sequence::Sequence;
use super::server_pool::{AssumedLinks, Encoded, ServerPool};
use crate::block::{DATA_SEGMENT_BYTES, EncodedBlock};
use crate::calls::{Catalogue, Function, RpcError, ServerCard, Services};
use gridspan_topology::Link;
use gridspan_workflow::Platform;
use gridspan_workflow::heuristics::Heuristic;
use gridspan_workflow::stragglers::StragglerPolicy;
use serde::Serialize;
use std::cell::RefCell;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Maps groups of calls to servers `S`, and remembers the times of functions.
///
/// ```
/// # use gridspan_rpc::calls::*;
/// # use gridspan_rpc::group::*;
/// # use gridspan_runtime::{Grid, Job, driver};
/// # use gridspan_workflow::heuristics::HeftC;
/// # const FILL: Function<(u64,), (Vec<u64>,)> =
/// #     Function::new("fill", |(n,), _| Ok(((0..n).collect(),)));
/// # const SUM: Function<(Vec<u64>,), (u64,)> =
/// #     Function::new("sum", |(v,), _| Ok((v.iter().sum(),)));
/// # struct Numbers;
/// # impl Catalogue for Numbers {
/// #     fn functions() -> Functions { Functions::new().with_parts(&FILL).with_parts(&SUM) }
/// # }
/// # async fn example(grid: &Grid) -> Result<(), RpcError> {
/// # let services: Services<Numbers> = Services::on_all_pes(grid).await?;
/// let mapper = Mapper::new(&services);
/// let calls = async |group: &CallGroup<'_, Services<Numbers>>| {
///     let (numbers,) = group.call(&FILL, (group.value(&10)?,));
///     let (sum,) = group.call(&SUM, (numbers,));
///     group.get(&sum).await
/// };
/// assert_eq!(mapper.map(&HeftC::default(), calls).await?, 45);
/// # Ok(())
/// # }
/// # let job = with_rpc::<Numbers>(Job::new("numbers")).main(async |grid: Grid| {
/// #     example(&grid).await.map_err(|error| error.to_string().into())
/// # });
/// # driver::embedded::run(job, 2).unwrap();
/// ```
pub struct Mapper<S> {
    pub(super) services: S,
    pub(super) learned: RefCell<BTreeMap<&'static str, Learned>>,
    /// Observed speed of each server.
    pub(super) observed_speeds: RefCell<BTreeMap<u32, ObservedSpeed>>,
    assumed: AssumedLinks,
    pub(super) straggler_policy: StragglerPolicy,
}

impl<C: Catalogue> Mapper<Services<C>> {
    /// A mapper to the servers of a job. It assumes that links are [`Link::lan`] inside sites and
    /// [`Link::wan`] between them.
    pub fn new(services: &Services<C>) -> Self {
        Self { assumed: AssumedLinks { measures: false, ..ASSUMED }, ..Self::to(services.clone()) }
    }
}

/// The number that stands for data of another group. This group has no such data, so a call with it
/// fails.
const FOREIGN: u32 = u32::MAX;

/// The default estimates of a mapper.
const ASSUMED: AssumedLinks = AssumedLinks { lan: Link::lan(), wan: Link::wan(), measures: true };

impl<S: ServerPool> Mapper<S> {
    /// A mapper to any servers. It uses measured links; for links without a measurement it assumes
    /// [`Link::lan`] inside sites and [`Link::wan`] between them.
    pub fn to(services: S) -> Self {
        let (learned, observed_speeds) = (RefCell::default(), RefCell::default());
        Self {
            services,
            learned,
            observed_speeds,
            assumed: ASSUMED,
            straggler_policy: StragglerPolicy::None,
        }
    }

    /// Sets the assumed links inside sites and from each site to the others.
    pub fn with_links(mut self, lan: Link, wan: Link) -> Self {
        self.assumed = AssumedLinks { lan, wan, ..self.assumed };
        self
    }

    /// Uses the links as the runtime has measured them when a window is mapped, and the observed
    /// speeds of servers. Where there is no measurement, the declared values count.
    pub fn measured(mut self) -> Self {
        self.assumed.measures = true;
        self
    }

    /// Sets the policy for servers that turn out to be slow while a window is executed. With a
    /// policy, a function may be executed more than once. Without one, it is executed again only if
    /// its results are lost with its server, or if a server of another process does not answer or
    /// gives an invalid answer: that server may have executed it.
    pub fn with_straggler_policy(mut self, policy: StragglerPolicy) -> Self {
        self.straggler_policy = policy;
        self
    }

    pub(super) async fn platform(&self, cards: &[ServerCard]) -> Result<Platform, RpcError> {
        let observed_speeds = self.observed_speeds.borrow().clone();
        let observed_speed = |number: u32| match self.assumed.measures {
            true => {
                observed_speeds.get(&number).map_or(1.0, |observed_speed| observed_speed.factor())
            }
            false => 1.0,
        };
        self.services.platform(cards, &self.assumed, &observed_speed).await
    }
}

/// The gathered calls and the known data of a group.
#[derive(Default)]
pub(super) struct Draft {
    pub(super) calls: Vec<Gathered>,
    pub(super) known: BTreeMap<u32, Known>,
    /// Values of the client.
    pub(super) values: BTreeMap<u32, EncodedBlock>,
    pub(super) tokens: BTreeMap<u32, Arc<(u32, u32)>>,
    count: u32,
    /// Number of runs without calls since such a run last searched for dropped handles.
    pub(super) unfreed: usize,
    /// Servers that may have data or orders of the group.
    pub(super) touched: BTreeSet<u32>,
    /// Small results that the program has fetched.
    pub(super) fetched: BTreeMap<u32, EncodedBlock>,
    /// Bytes that `fetched` takes in the reference that main stores.
    fetched_bytes: usize,
    /// The values and calls that the group has made.
    pub(super) sequence: Sequence,
    /// Whether the group goes on after a restoration.
    pub(super) is_resumed: bool,
    /// Data that servers dropped before the restoration. If it is a result, its call was executed.
    pub(super) dropped: Ranges,
    /// Calls that are executed again only if something needs their results.
    pub(super) aside: Vec<Gathered>,
}

/// Maximum bytes of fetched results in the reference to a group that main stores: a part of the
/// bytes that main may pass to `Grid::progress`.
const FETCHED_BYTES_MAX: usize = 1 << 20;
/// Maximum bytes that a result takes there beside its content: its number and its lengths.
const FETCHED_HEAD_BYTES: usize = 16;

/// Bytes that a fetched result takes in the reference that main stores.
fn remembered_bytes(block: &EncodedBlock) -> usize {
    block.len() + FETCHED_HEAD_BYTES
}

impl Draft {
    /// The draft of a group that goes on after a restoration, with the results that main has. The
    /// group has to make this sequence of values and calls again.
    pub(super) fn resumed(fetched: &BTreeMap<u32, EncodedBlock>, sequence: Sequence) -> Self {
        let known = fetched.iter().map(|(&data, block)| {
            (data, Known { bytes: block.len() as u64, at_client: true, ..Known::default() })
        });
        Self {
            known: known.collect(),
            values: fetched.clone(),
            fetched: fetched.clone(),
            fetched_bytes: fetched.values().map(remembered_bytes).sum(),
            sequence,
            is_resumed: true,
            ..Self::default()
        }
    }

    /// Remembers a result that the program has fetched, if it is small enough.
    pub(super) fn remember(&mut self, data: u32, block: &EncodedBlock) {
        let bytes = self.fetched_bytes + remembered_bytes(block);
        if bytes <= FETCHED_BYTES_MAX
            && let Entry::Vacant(place) = self.fetched.entry(data)
        {
            place.insert(block.clone());
            self.fetched_bytes = bytes;
        }
    }
}

/// The operations for which futures of a group exclude each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum LockKey {
    /// The execution of a window.
    Window,
    /// Fetching data to the client.
    Data(u32),
}

/// A group of calls. Once it has ended or was dropped, servers keep no data of it.
///
/// ```
/// # use gridspan_rpc::calls::*;
/// # use gridspan_rpc::group::*;
/// # use gridspan_runtime::{Grid, Job, driver};
/// # use gridspan_workflow::heuristics::HeftC;
/// # const FILL: Function<(u64,), (Vec<u64>,)> =
/// #     Function::new("fill", |(n,), _| Ok(((0..n).collect(),)));
/// # const SUM: Function<(Vec<u64>,), (u64,)> =
/// #     Function::new("sum", |(v,), _| Ok((v.iter().sum(),)));
/// # struct Numbers;
/// # impl Catalogue for Numbers {
/// #     fn functions() -> Functions { Functions::new().with_parts(&FILL).with_parts(&SUM) }
/// # }
/// # async fn example(grid: &Grid) -> Result<(), RpcError> {
/// # let services: Services<Numbers> = Services::on_all_pes(grid).await?;
/// /// The sum of the numbers below `n`, which stay on the server that has made them.
/// async fn sum(group: &CallGroup<'_, Services<Numbers>>, n: u64) -> Result<u64, RpcError> {
///     let (numbers,) = group.call(&FILL, (group.value(&n)?,));
///     let (sum,) = group.call(&SUM, (numbers,));
///     group.get(&sum).await
/// }
///
/// let mapper = Mapper::new(&services);
/// assert_eq!(mapper.map(&HeftC::default(), async |group| sum(group, 10).await).await?, 45);
/// # Ok(())
/// # }
/// # let job = with_rpc::<Numbers>(Job::new("numbers")).main(async |grid: Grid| {
/// #     example(&grid).await.map_err(|error| error.to_string().into())
/// # });
/// # driver::embedded::run(job, 2).unwrap();
/// ```
pub struct CallGroup<'a, S: ServerPool> {
    pub(super) mapper: &'a Mapper<S>,
    pub(super) heuristic: &'a dyn Heuristic,
    pub(super) number: u32,
    pub(super) draft: RefCell<Draft>,
    pub(super) locks: KeyedMutex<LockKey>,
    pub(super) along: RefCell<Option<GivenGraph>>,
}

impl<S: ServerPool> CallGroup<'_, S> {
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

    /// Makes a value of the client available as an argument of calls. It is sent to the servers
    /// that need it; if the mapping relays, once to each site.
    ///
    /// # Errors
    ///
    /// [`RpcError::RpcRefused`] if the value cannot be encoded, or exceeds 1 GiB.
    pub fn value<T: Serialize>(&self, value: &T) -> Result<Lazy<T>, RpcError> {
        let block = EncodedBlock::encode("the value", value, DATA_SEGMENT_BYTES);
        let block = block.map_err(|reason| RpcError::RpcRefused { reason })?;
        let token = self.token();
        let mut draft = self.draft.borrow_mut();
        draft.sequence.note_value(block.len());
        // After a restoration, servers may have it already.
        let known = draft.known.entry(token.1).or_default();
        (known.bytes, known.at_client) = (block.len() as u64, true);
        draft.values.insert(token.1, block);
        Ok(Lazy::new(token))
    }

    /// Gathers a call of a function, which is executed later. The results are names that can be
    /// passed to further calls or to [`get`](Self::get). An argument of another group makes the
    /// call fail.
    pub fn call<I: Parts, O: Parts>(
        &self,
        function: &Function<I, O>,
        arguments: impl Arguments<I>,
    ) -> O::Lazies {
        let tokens = arguments.into_tokens();
        let own = |&(group, data): &(u32, u32)| if group == self.number { data } else { FOREIGN };
        let inputs: Vec<u32> = tokens.iter().map(own).collect();
        let mut outputs = Vec::new();
        let results = O::lazies(&mut || {
            let token = self.token();
            outputs.push(token.1);
            token
        });
        let work_s = self.work_s(function, &inputs);
        let (signature, volumes) = (function.signature(), function.volumes());
        let function = function.name();
        let call = Gathered { function, signature, inputs, outputs, work_s, volumes };
        let mut draft = self.draft.borrow_mut();
        draft.sequence.note_call(call.function, &call.inputs, call.outputs.len());
        draft.calls.push(call);
        results
    }

    /// Work of a call on a server of speed 1, in seconds, if the function has a formula and the
    /// client has all arguments.
    fn work_s<I: Parts, O>(&self, function: &Function<I, O>, inputs: &[u32]) -> Option<f64> {
        if !function.has_formula() {
            return None;
        }
        let draft = self.draft.borrow();
        let mut bytes = Vec::new();
        for input in inputs {
            bytes.extend_from_slice(&draft.values.get(input)?.contiguous());
        }
        // An invalid formula fails the call where it is executed.
        function.work_s(&postcard::from_bytes(&bytes).ok()?).ok()?
    }

    /// Number of bytes that the client keeps for the group: values that it sends, that it fetched,
    /// or that it relayed, while a handle names them.
    pub fn held_bytes(&self) -> u64 {
        self.draft.borrow().values.values().map(|block| block.len() as u64).sum()
    }

    /// Fetches data to the client from a server that has it.
    pub(super) async fn fetch_from(
        &self,
        server: u32,
        data: u32,
    ) -> Result<EncodedBlock, RpcError> {
        let Encoded(block) = self.mapper.services.fetch(self.number, data, server).await?;
        let mut draft = self.draft.borrow_mut();
        if let Some(known) = draft.known.get_mut(&data) {
            known.at_client = true;
        }
        draft.values.insert(data, block.clone());
        Ok(block)
    }
}

impl<S: ServerPool> Drop for CallGroup<'_, S> {
    fn drop(&mut self) {
        let services = &self.mapper.services;
        let touched = std::mem::take(&mut self.draft.get_mut().touched);
        services.end_group(self.number, touched);
    }
}

pub(super) fn other(error: &dyn std::fmt::Display) -> RpcError {
    RpcError::Other { reason: error.to_string() }
}

/// The error of data that no server has. [`FOREIGN`] is data of another group.
pub(super) fn nowhere(data: u32) -> RpcError {
    let reason = match data {
        FOREIGN => "an argument is of another group; get it there, and pass its value".to_owned(),
        _ => format!("no server has data {data}: its servers have left, or it is of another group"),
    };
    RpcError::Other { reason }
}

pub(super) fn failed(reason: String) -> RpcError {
    RpcError::SessionFailed { reason }
}
