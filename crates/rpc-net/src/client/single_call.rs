//! A single typed call on the servers of a registry: a group of one task.

use crate::client::connector::tell;
use crate::client::groups::Remote;
use crate::execution::driver::execute_group;
use crate::execution::events::{Contact, GroupEvents, Plan};
use crate::wire::messages::{Request, Times, Work};
use crate::wire::transfer::fetch;
use gridspan_rpc::calls::{RpcError, ServerCard, Signature};
use gridspan_rpc::group::Encoded;
use gridspan_rpc::group::error_of;
use gridspan_topology::Link;
use gridspan_workflow::stragglers::StragglerPolicy;
use gridspan_workflow::{
    ClientSpec, DataId, Endpoint, GraphBuilder, Mapping, Platform, ServerId, ServerSpec, Site,
    TaskGraph, TaskId,
};
use quinn::Connection;
use std::collections::BTreeSet;

/// The data number of the arguments in the group; those of the results follow.
const ARGUMENTS: u32 = 0;

/// A call to execute.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) function: &'static str,
    pub(crate) signature: Signature,
    /// The tuple of its arguments.
    pub(crate) arguments: Encoded,
    /// Number of its results.
    pub(crate) results: u32,
}

/// A server that may execute a call.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    pub(crate) card: ServerCard,
    pub(crate) contact: Contact,
}

/// A call in execution. If this value is dropped, the servers drop the data of the call, and do not
/// start the call if it waits.
struct PendingCall<'a, M> {
    remote: &'a Remote,
    wanted: &'a Wanted,
    candidates: &'a [Candidate],
    contacts: &'a [Contact],
    /// Receives the number of each server that gets the call.
    moved: M,
    group: u32,
    touched: BTreeSet<ServerId>,
    /// The server that has made the results, and their sizes in bytes.
    made: Option<(ServerId, Vec<u64>)>,
}

/// Executes a call on the first of these servers, and on others if the first is lost or refuses.
/// Returns the tuple of its results. `moved` receives the number of each server that gets the call.
pub(crate) async fn execute(
    remote: &Remote,
    wanted: &Wanted,
    candidates: &[Candidate],
    moved: impl FnMut(u32),
) -> Result<Vec<u8>, RpcError> {
    let graph = graph(wanted).map_err(|error| RpcError::Other { reason: error.to_string() })?;
    let platform = platform(candidates);
    let mapping = Mapping::in_order(vec![ServerId(0)], graph.order(), false, 0.0);
    let contacts: Vec<Contact> = candidates.iter().map(|one| one.contact.clone()).collect();
    let group = remote.kept().begin();
    let (touched, made) = (BTreeSet::new(), None);
    let mut ongoing = PendingCall {
        remote,
        wanted,
        candidates,
        contacts: &contacts,
        moved,
        group,
        touched,
        made,
    };
    remote.kept().offer(group, ARGUMENTS, wanted.arguments.clone());
    let wire = remote.kept().wire(group);
    let plan = Plan {
        graph: &graph,
        platform: &platform,
        mapping: &mapping,
        straggler_policy: StragglerPolicy::None,
        group: wire,
        is_single: true,
    };
    if let (_, Some((_, failure))) = execute_group(plan, &contacts, &mut ongoing).await {
        return Err(error_of(wanted.function, &failure));
    }
    let Some((server, sizes)) = &ongoing.made else { return Err(RpcError::CommunicationFailed) };
    results(&contacts[server.index()].connection, wire, sizes).await
}

/// Fetches the results from the server that has made them.
async fn results(from: &Connection, group: u64, sizes: &[u64]) -> Result<Vec<u8>, RpcError> {
    let mut tuple = Vec::new();
    for (data, &bytes) in (ARGUMENTS + 1..).zip(sizes) {
        let fetched = fetch(from, group, data, bytes).await;
        tuple.extend(fetched.map_err(|_| RpcError::CommunicationFailed)?.0);
    }
    Ok(tuple)
}

fn graph(wanted: &Wanted) -> Result<TaskGraph, gridspan_workflow::TaskGraphError> {
    let mut graph = GraphBuilder::default();
    let arguments = graph.external("arguments", wanted.arguments.bytes(), [Endpoint::Client]);
    let task = graph.task(wanted.function, 0.0);
    graph.read(task, arguments);
    for number in 0..wanted.results {
        graph.write(task, number.to_string(), 0);
    }
    graph.build()
}

/// Returns a platform for the candidates: one site, without measurements, and one core for each.
fn platform(candidates: &[Candidate]) -> Platform {
    let server =
        |candidate: &Candidate| ServerSpec::new(&candidate.card.name, 0, candidate.card.speed);
    let link = Link::lan();
    let site = Site::new("all", link, link);
    let servers = candidates.iter().map(server).collect();
    Platform::new(servers, vec![site], ClientSpec::at_site(0, link))
}

impl<M: FnMut(u32)> GroupEvents for PendingCall<'_, M> {
    fn work(&self, _task: TaskId) -> Work {
        Work::Function(self.wanted.function.to_owned(), self.wanted.signature.clone())
    }

    fn inputs(&self, _task: TaskId) -> Vec<DataId> {
        vec![DataId(ARGUMENTS)]
    }

    fn version(&self, data: DataId) -> u32 {
        data.0
    }

    fn bytes(&self, _data: DataId) -> u64 {
        self.wanted.arguments.bytes()
    }

    // Results are fetched as soon as they are made.
    fn is_kept(&self, _data: DataId) -> bool {
        false
    }

    fn ordered(&mut self, server: ServerId) {
        self.touched.insert(server);
        (self.moved)(self.candidates[server.index()].card.number);
    }

    fn made(&mut self, _task: TaskId, server: ServerId, times: &Times) {
        self.made = Some((server, times.sizes.clone()));
    }
}

impl<M> Drop for PendingCall<'_, M> {
    fn drop(&mut self) {
        self.remote.kept().end(self.group);
        let wire = self.remote.kept().wire(self.group);
        for server in &self.touched {
            tell(&self.contacts[server.index()].connection, Request::End(wire));
        }
    }
}
