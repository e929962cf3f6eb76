//! The messages of groups to servers: orders, data, and the routes of data.

use super::ranges::Ranges;
use crate::block::EncodedBlock;
use crate::calls::Signature;
use crate::trace::TraceContext;
use gridspan_runtime::{Numbers, Reply};
use serde::{Deserialize, Serialize};

/// Identifies data of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DataKey {
    /// The group.
    pub group: u32,
    /// Number of the data in the group. Each version of a value has one.
    pub data: u32,
}

/// Encoded data, or the reason why it will never exist.
pub(crate) type Held = Result<EncodedBlock, String>;

/// A segment of data on its way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Piece {
    /// Key of the data.
    pub key: DataKey,
    /// Number of the attempt that made it: segments of different attempts are not mixed.
    pub attempt: u32,
    /// Index of the segment, from 0.
    pub index: u32,
    /// Number of segments.
    pub count: u32,
    /// The segment, or the reason why the data will never exist.
    pub bytes: Result<Numbers<u8>, String>,
    /// The servers to which the receiver passes it on.
    pub then: Vec<Hop>,
}

impl Piece {
    /// The piece that reports that data will never exist.
    pub(crate) fn failed(key: DataKey, reason: String) -> Self {
        Self { key, attempt: 0, index: 0, count: 1, bytes: Err(reason), then: Vec::new() }
    }
}

/// The pieces in which data travels.
pub(crate) fn pieces(key: DataKey, attempt: u32, held: &Held) -> impl Iterator<Item = Piece> {
    let (segments, failure) = match held {
        Ok(block) => (block.segments(), None),
        Err(reason) => (&[][..], Some(Piece::failed(key, reason.clone()))),
    };
    let count = segments.len() as u32;
    let piece = move |(index, segment): (u32, &Numbers<u8>)| Piece {
        key,
        attempt,
        index,
        count,
        bytes: Ok(segment.clone()),
        then: Vec::new(),
    };
    (0..).zip(segments).map(piece).chain(failure)
}

/// A server that receives data, and the servers to which it passes the data on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Route {
    /// The server.
    pub to: u32,
    /// The tree below the server.
    pub then: Vec<Hop>,
}

/// A server in a tree that is encoded as a flat list: each server stands before those below it, so
/// that a reader needs no recursion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hop {
    /// The server.
    pub to: u32,
    /// Number of following hops that are below it.
    pub below: u32,
}

impl Route {
    /// The top-level servers of a list of hops, each with the tree below it.
    pub(crate) fn of_hops(mut hops: &[Hop]) -> Vec<Self> {
        let mut routes = Vec::new();
        while let Some((hop, rest)) = hops.split_first() {
            let (below, others) = rest.split_at((hop.below as usize).min(rest.len()));
            routes.push(Self { to: hop.to, then: below.to_vec() });
            hops = others;
        }
        routes
    }

    /// All servers that the route reaches.
    pub(crate) fn servers(&self) -> impl Iterator<Item = u32> + '_ {
        [self.to].into_iter().chain(self.then.iter().map(|hop| hop.to))
    }

    /// The servers that get the data through a server of the route; none if it is not on the route.
    pub(crate) fn beyond(&self, server: u32) -> &[Hop] {
        if self.to == server {
            return &self.then;
        }
        let Some(at) = self.then.iter().position(|hop| hop.to == server) else { return &[] };
        let rest = &self.then[at + 1..];
        &rest[..(self.then[at].below as usize).min(rest.len())]
    }

    /// The route with its server numbers mapped by `number`.
    pub(crate) fn renamed(&self, number: &dyn Fn(u32) -> u32) -> Self {
        let hop = |hop: &Hop| Hop { to: number(hop.to), ..*hop };
        Self { to: number(self.to), then: self.then.iter().map(hop).collect() }
    }
}

/// Data and its routes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataPacket {
    /// Key of the data.
    pub key: DataKey,
    /// Routes to the receivers.
    pub routes: Vec<Route>,
}

/// A task for a server.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TaskOrder {
    /// The group.
    pub group: u32,
    /// Number of the attempt.
    pub attempt: u32,
    /// Priority: of the orders that can begin, the one with the lowest place begins first.
    pub place: u32,
    /// The function.
    pub function: String,
    /// The caller's signature of the function.
    pub signature: Option<Signature>,
    /// The arguments.
    pub inputs: Vec<DataKey>,
    /// The results, and where they go.
    pub outputs: Vec<DataPacket>,
    /// Where the outcome goes.
    pub reply: Reply<Done>,
    /// The context of the client's span. Messages carry it beside the order, if there is one.
    #[serde(skip)]
    pub trace: Option<TraceContext>,
}

/// Outcome of a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Done {
    /// Sizes of the results in bytes, or the reason why there are none.
    pub outcome: Result<Vec<u64>, Fault>,
    /// Total size of the arguments, in bytes.
    pub input_bytes: u64,
    /// Time of the task on a server of speed 1, in seconds: that of the cost formula of its
    /// function, or else the time that the function emulated; `None` without both.
    pub work_s: Option<f64>,
    /// Time that the server spent on it, in seconds; `None` if too short to measure.
    pub took_s: Option<f64>,
}

/// Why an order failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Fault {
    /// The function failed, or one of its arguments will never exist.
    Failed(String),
    /// The order was not executed; another server may execute it.
    Lost(String),
}

/// The data that one server has of one group, when the group goes on after a restoration.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GroupData {
    /// The data that it has, by number, with its size in bytes.
    pub(crate) held: Vec<(u32, u64)>,
    /// The data that it has dropped on request.
    pub(crate) dropped: Ranges,
}

/// Messages of groups to servers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum GroupMessage {
    /// Execute a task when its arguments have arrived.
    Order(TaskOrder),
    /// Keep a piece of data, and pass it on.
    Data(Piece),
    /// Send data to other servers; answered by whether this server has it.
    Share(DataPacket, Reply<bool>),
    /// Asks for a segment of data, counted from 0.
    Fetch(DataKey, u32, Reply<Piece>),
    /// Withdraw the order with this first result, if it has not begun.
    Withdraw(DataKey),
    /// Free data, and accept no more of it.
    Free {
        /// The group.
        group: u32,
        /// Numbers of the data in the group.
        data: Ranges,
    },
    /// Answer once all data that another server has handed over has arrived.
    Handed(Reply<()>),
    /// A group has ended, and so have all below `floor`: drop their data and orders, and accept no
    /// more.
    End {
        /// The group.
        group: u32,
        /// All groups with lower numbers have ended.
        floor: u32,
    },
    /// Asks for the number of bytes that are kept.
    Kept(Reply<u64>),
    /// Execute a task of a client whose span has this context, when its arguments have arrived.
    TracedOrder(TraceContext, TaskOrder),
    /// A group goes on after a restoration: forget incomplete data. Asks for the data that the
    /// server has.
    Resume(u32, Reply<GroupData>),
    /// Accept freed data again, because calls make it again.
    TakeBack {
        /// The group.
        group: u32,
        /// Numbers of the data in the group.
        data: Ranges,
        /// Where the answer goes.
        reply: Reply<()>,
    },
}

impl GroupMessage {
    /// The form of the message for sending: the context of an order stands beside the order.
    pub(crate) fn into_sent(self) -> Self {
        match self {
            Self::Order(order) => match order.trace {
                None => Self::Order(order),
                Some(context) => Self::TracedOrder(context, order),
            },
            other => other,
        }
    }

    /// The form of the message for handling: the context of an order is in the order.
    pub(crate) fn received(self) -> Self {
        match self {
            Self::TracedOrder(context, order) => {
                Self::Order(TaskOrder { trace: Some(context), ..order })
            }
            other => other,
        }
    }
}
