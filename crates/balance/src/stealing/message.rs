//! What nodes tell each other about tasks that could be stolen.

use super::layout::StealingLayout;
use gridspan_topology::NodeId;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Lists in messages have at most this many elements; more are ignored. A holder needs about this
/// many handler times to serve them, and less than a wide-area latency.
pub const MAX_LISTED: usize = 64;

/// More tasks on one node, workers, or nanoseconds (13 days) than these cannot be meant; larger
/// numbers from the network are lowered to them, so that sums of them cannot overflow.
pub(super) const TASKS_MAX: u64 = 1 << 40;
const WORKERS_MAX: u32 = 1 << 16;
const NANOS_MAX: u64 = 1 << 50;

/// One message between the machines of two nodes. A few bytes each, but for lists of nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StealMessage {
    /// An idle node asks for tasks. The answer is a grant or [`StealMessage::NoTasks`].
    Request,
    /// There are none to be had here.
    NoTasks {
        /// But perhaps there.
        hint: Option<NodeId>,
    },
    /// An idle node asks to be thought of when there are tasks again. It is answered by a grant or
    /// never.
    Lifeline,
    /// An idle node asks its directory, and sleeps until a grant comes.
    DirectoryRequest {
        /// How many tasks it runs at once.
        workers: u32,
    },
    /// What could be taken away from a node, to its directory.
    Advertise {
        /// How many tasks; none takes an earlier advert back.
        tasks: u64,
        /// What one of them takes, as far as this node knows; 0 if it does not.
        task_ns: u64,
        /// How many tasks the node runs at once.
        workers: u32,
    },
    /// A directory has a holder of tasks give some away.
    Assign {
        /// How many tasks the directory takes the holder to have; if there are fewer, shares are
        /// smaller.
        of: u64,
        /// Who gets how many.
        shares: Vec<Share>,
    },
    /// A holder gave far fewer tasks than its directory takes it to have given: more did not fit
    /// into one packet.
    Granted {
        /// To this node.
        to: NodeId,
        /// So many.
        tasks: u64,
    },
    /// The holder did not have enough for these.
    Unassigned(Vec<NodeId>),
    /// The receiver waits for tasks that will not come, and had better ask again.
    Retry,
    /// What a part of a site has and lacks, to the site's head.
    Report(Demand),
    /// The head has a part of its site give tasks away, to these nodes in equal shares.
    GrantRemotely {
        /// How many.
        tasks: u64,
        /// To whom.
        to: Vec<NodeId>,
        /// One way to them, if they are of another site; else zero.
        way: Duration,
    },
    /// The head has tasks sent to nodes of a part, which its directory is to serve evenly from what
    /// arrives.
    Incoming {
        /// How many, in all.
        tasks: u64,
    },
    /// The head of a site asks that of another for tasks, now or as soon as it has many.
    RemoteRequest(StandingRequest),
    /// It asks no more.
    WithdrawRequest,
    /// So many tasks are on their way to nodes of a standing request, which is thereby answered.
    RemoteGrant {
        /// How many.
        tasks: u64,
        /// The heads of all sites that were answered at the same time.
        fed: Vec<NodeId>,
    },
    /// A head measures how far another one is, which answers at once.
    LatencyProbe {
        /// Whether this is the answer.
        is_answer: bool,
    },
}

impl StealMessage {
    /// Whether it is one attempt of an idle node to get tasks, as paper 3 counts them.
    pub fn is_attempt(&self) -> bool {
        matches!(self, Self::Request | Self::Lifeline | Self::DirectoryRequest { .. })
    }

    /// Drops nodes that do not take part and what is longer than anyone sends, and lowers numbers
    /// that nobody can mean.
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
            Self::RemoteGrant { tasks, fed: nodes } => {
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

/// What one node is to get.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    /// Who gets it.
    pub to: NodeId,
    /// How many tasks.
    pub tasks: u64,
    /// One way there, if it is a node of another site; else zero.
    pub way: Duration,
}

impl Share {
    /// What a node of the holder's site is to get.
    pub fn near(to: NodeId, tasks: u64) -> Self {
        Self { to, tasks, way: Duration::ZERO }
    }
}

/// What a part of a site has and lacks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Demand {
    /// Tasks that nobody runs.
    pub queued: u64,
    /// How many of its nodes are idle.
    pub idle: u32,
    /// What a task takes; 0 if that is not known.
    pub task_ns: u64,
    /// Some of its idle nodes, which can be sent tasks for all of them.
    pub receivers: Vec<NodeId>,
}

/// A request of one site that stands at another until it is answered or taken back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StandingRequest {
    /// How many nodes the site has.
    pub nodes: u32,
    /// How long they still have work.
    pub backlog: Duration,
    /// Those to send tasks to.
    pub receivers: Vec<NodeId>,
}
