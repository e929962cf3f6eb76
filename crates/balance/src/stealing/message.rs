//! Messages between nodes about tasks that could be stolen.

use super::layout::StealingLayout;
use gridspan_topology::NodeId;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Maximum number of elements of a list in a message; further ones are ignored. Serving all of them
/// takes a holder about as long as handling this number of messages, which is less than a wide-area
/// latency.
pub const MAX_LISTED: usize = 64;

/// Maximum number of tasks on one node. As with the next two limits, larger numbers from the
/// network are reduced to it, so that sums cannot overflow.
pub(super) const TASKS_MAX: u64 = 1 << 40;
/// Maximum number of workers of one node.
const WORKERS_MAX: u32 = 1 << 16;
/// Maximum time in nanoseconds (13 days).
const NANOS_MAX: u64 = 1 << 50;

/// One message between the machines of two nodes: a few bytes each, except for lists of nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum StealMessage {
    /// An idle node asks for tasks. The answer is a grant or [`StealMessage::NoTasks`].
    Request,
    /// The sender has no tasks to give.
    NoTasks {
        /// A node that may have tasks.
        hint: Option<NodeId>,
    },
    /// An idle node asks to get tasks as soon as the receiver has any. The only answer is a grant.
    Lifeline,
    /// An idle node asks its directory, and sleeps until a grant arrives.
    DirectoryRequest {
        /// Number of tasks that it runs at once.
        workers: u32,
    },
    /// A node reports to its directory the tasks that could be taken away from it.
    Advertise {
        /// Number of tasks; 0 withdraws an earlier advert.
        tasks: u64,
        /// Time of one task in nanoseconds, if this node knows it; otherwise 0.
        task_ns: u64,
        /// Number of tasks that the node runs at once.
        workers: u32,
    },
    /// A directory makes a holder of tasks give some away.
    Assign {
        /// Number of tasks that the directory assumes the holder to have; if there are fewer,
        /// shares are smaller.
        of: u64,
        /// The receivers and their numbers of tasks.
        shares: Vec<Share>,
    },
    /// A holder gave far fewer tasks than its directory assumes, because it had no more or because
    /// more did not fit into one packet.
    Granted {
        /// The receiver.
        to: NodeId,
        /// Number of tasks given.
        tasks: u64,
    },
    /// The holder did not have enough tasks for these nodes.
    Unassigned(Vec<NodeId>),
    /// The receiver waits for tasks that will not arrive, and should ask again.
    Retry,
    /// A part of a site reports its tasks and its idle nodes to the site's head.
    Report(Demand),
    /// The head makes a part of its site give tasks to these nodes in equal shares.
    GrantRemotely {
        /// Number of tasks.
        tasks: u64,
        /// The receivers.
        to: Vec<NodeId>,
        /// Latency to them in one direction, if they belong to another site; otherwise zero.
        way: Duration,
    },
    /// The head has ordered tasks for nodes of a part; the directory of the part should serve its
    /// nodes evenly from them.
    Incoming {
        /// Total number of tasks.
        tasks: u64,
    },
    /// The head of a site asks the head of another for tasks, now or as soon as it has many.
    RemoteRequest(StandingRequest),
    /// The head of a site withdraws its request.
    WithdrawRequest,
    /// Tasks are on their way to the nodes of a standing request. This answers the request.
    RemoteGrant {
        /// Number of tasks.
        tasks: u64,
        /// The heads of all sites that were answered at the same time.
        answered: Vec<NodeId>,
    },
    /// A head measures the latency to another one, which answers at once.
    LatencyProbe {
        /// Whether this is the answer.
        is_answer: bool,
    },
}

impl StealMessage {
    /// Returns whether it is an attempt of an idle node to get tasks, as counted by Zhang, Mo, Yang
    /// and Zheng (2007), "Dynamic Load-Balancing and High Performance Communication in Jcluster".
    pub fn is_attempt(&self) -> bool {
        matches!(self, Self::Request | Self::Lifeline | Self::DirectoryRequest { .. })
    }

    /// Drops nodes that do not take part, shortens lists that are longer than any machine sends,
    /// and reduces numbers beyond their limits.
    pub(super) fn keep(&mut self, places: &StealingLayout) {
        let few = |tasks: &mut u64| *tasks = (*tasks).min(TASKS_MAX);
        let near = |way: &mut Duration| *way = (*way).min(Duration::from_nanos(NANOS_MAX));
        let keep = |nodes: &mut Vec<NodeId>| {
            nodes.truncate(MAX_LISTED);
            nodes.retain(|&node| places.contains(node));
        };
        match self {
            Self::Request
            | Self::Lifeline
            | Self::Retry
            | Self::WithdrawRequest
            | Self::LatencyProbe { .. } => {}
            Self::NoTasks { hint } => *hint = hint.filter(|&node| places.contains(node)),
            Self::DirectoryRequest { workers } => *workers = (*workers).clamp(1, WORKERS_MAX),
            Self::Advertise { tasks, task_ns, workers } => {
                few(tasks);
                *task_ns = (*task_ns).min(NANOS_MAX);
                *workers = (*workers).clamp(1, WORKERS_MAX);
            }
            Self::Assign { of, shares } => {
                few(of);
                shares.truncate(MAX_LISTED);
                shares.retain(|share| places.contains(share.to));
                for share in shares {
                    few(&mut share.tasks);
                    near(&mut share.way);
                }
            }
            Self::Unassigned(nodes) => keep(nodes),
            Self::Report(demand) => {
                few(&mut demand.queued);
                demand.task_ns = demand.task_ns.min(NANOS_MAX);
                keep(&mut demand.receivers);
            }
            Self::GrantRemotely { tasks, to: nodes, way } => {
                few(tasks);
                keep(nodes);
                near(way);
            }
            Self::RemoteGrant { tasks, answered: nodes } => {
                few(tasks);
                keep(nodes);
            }
            Self::Incoming { tasks } | Self::Granted { tasks, .. } => few(tasks),
            Self::RemoteRequest(standing) => {
                near(&mut standing.backlog);
                keep(&mut standing.receivers);
            }
        }
    }
}

/// Share of one receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Share {
    /// The receiver.
    pub to: NodeId,
    /// Number of tasks.
    pub tasks: u64,
    /// Latency to it in one direction, if it belongs to another site; otherwise zero.
    pub way: Duration,
}

impl Share {
    /// Creates the share of a node of the holder's site. For a node of another site, set `way`.
    pub fn near(to: NodeId, tasks: u64) -> Self {
        Self { to, tasks, way: Duration::ZERO }
    }
}

/// Tasks and idle nodes of a part of a site.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Demand {
    /// Number of tasks that no node runs.
    pub queued: u64,
    /// Number of its idle nodes.
    pub idle: u32,
    /// Time of a task in nanoseconds; 0 if it is not known.
    pub task_ns: u64,
    /// Some of its idle nodes, which can receive tasks for all of them.
    pub receivers: Vec<NodeId>,
}

/// A request of one site that stands at another until it is answered or withdrawn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StandingRequest {
    /// Number of nodes of the site.
    pub nodes: u32,
    /// Time for which these nodes still have work.
    pub backlog: Duration,
    /// Nodes that receive the tasks.
    pub receivers: Vec<NodeId>,
}

impl StandingRequest {
    /// Creates the request of a site with this number of nodes.
    pub fn new(nodes: u32, backlog: Duration, receivers: Vec<NodeId>) -> Self {
        Self { nodes, backlog, receivers }
    }
}
