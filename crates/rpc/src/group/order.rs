//! What servers are told to execute, to keep and to pass on.

use super::ranges::Ranges;
use crate::block::EncodedBlock;
use crate::calls::Signature;
use gridspan_runtime::{Numbers, Reply};
use serde::{Deserialize, Serialize};

/// One version of one argument of one group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DataKey {
    /// The group.
    pub group: u32,
    /// The version.
    pub data: u32,
}

/// Data, encoded; or why it will never be.
pub(crate) type Held = Result<EncodedBlock, String>;

/// A segment of data on its way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Piece {
    /// Which data.
    pub key: DataKey,
    /// Which attempt at making it: segments of two are not mixed.
    pub attempt: u32,
    /// Which segment, from 0.
    pub index: u32,
    /// How many there are.
    pub count: u32,
    /// The segment; or why the data will never be.
    pub bytes: Result<Numbers<u8>, String>,
    /// Who gets it next.
    pub then: Vec<Hop>,
}

impl Piece {
    /// Data that will never be.
    pub(crate) fn failed(key: DataKey, reason: String) -> Self {
        Self { key, attempt: 0, index: 0, count: 1, bytes: Err(reason), then: Vec::new() }
    }
}

/// Data as it travels.
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

/// Who gets data, and to whom it is passed on from there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Route {
    /// The server.
    pub to: u32,
    /// What is below it.
    pub then: Vec<Hop>,
}

/// A server in a tree, of which each stands before those below it: however deep, it is as flat as a
/// list to whoever reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hop {
    /// The server.
    pub to: u32,
    /// So many that follow are below it.
    pub below: u32,
}

impl Route {
    /// Those that come first among hops, each with what is below it.
    pub(crate) fn of_hops(mut hops: &[Hop]) -> Vec<Self> {
        let mut routes = Vec::new();
        while let Some((hop, rest)) = hops.split_first() {
            let (below, others) = rest.split_at((hop.below as usize).min(rest.len()));
            routes.push(Self { to: hop.to, then: below.to_vec() });
            hops = others;
        }
        routes
    }

    /// All that it reaches.
    pub(crate) fn servers(&self) -> impl Iterator<Item = u32> + '_ {
        [self.to].into_iter().chain(self.then.iter().map(|hop| hop.to))
    }

    /// The same for servers of other numbers.
    pub(crate) fn renamed(&self, number: &dyn Fn(u32) -> u32) -> Self {
        let hop = |hop: &Hop| Hop { to: number(hop.to), ..*hop };
        Self { to: number(self.to), then: self.then.iter().map(hop).collect() }
    }
}

/// Data that goes ways.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataPacket {
    /// Which data.
    pub key: DataKey,
    /// Its ways.
    pub routes: Vec<Route>,
}

/// A task for a server.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TaskOrder {
    /// The group.
    pub group: u32,
    /// Which attempt at it.
    pub attempt: u32,
    /// Of those that could begin, the one with the lowest place does.
    pub place: u32,
    /// The function.
    pub function: String,
    /// What it takes and gives for the caller.
    pub signature: Option<Signature>,
    /// Its arguments.
    pub inputs: Vec<DataKey>,
    /// Its results, and where they go.
    pub outputs: Vec<DataPacket>,
    /// Who hears of its end.
    pub reply: Reply<Done>,
}

/// How a task ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Done {
    /// The sizes of its results in bytes; or why there are none.
    pub outcome: Result<Vec<u64>, Fault>,
    /// The sizes of its arguments together, in bytes.
    pub input_bytes: u64,
    /// How long it computes on a server of speed 1, by its formula or as it was emulated, in
    /// seconds.
    pub work_s: Option<f64>,
    /// How long the server was at it, in seconds, if that was more than it can tell.
    pub took_s: Option<f64>,
}

/// Why an order came to nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fault {
    /// The function failed, or one of its arguments will never be.
    Failed(String),
    /// It was not executed; another server may do it.
    Lost(String),
}

/// What a server is told of groups.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum GroupMessage {
    /// Execute this when its arguments are there.
    Order(TaskOrder),
    /// Keep this, and pass it on.
    Data(Piece),
    /// Send what is kept to others; answered by whether it is kept.
    Share(DataPacket, Reply<bool>),
    /// What is this segment of it, from 0?
    Fetch(DataKey, u32, Reply<Piece>),
    /// The order whose first result this is need not be executed, if it has not begun.
    Withdraw(DataKey),
    /// Nobody needs these any more: they are neither kept nor accepted.
    Free {
        /// The group.
        group: u32,
        /// The versions.
        data: Ranges,
    },
    /// Answered when all is there that another server has handed on before.
    Handed(Reply<()>),
    /// A group has ended, and so have all before a number: nothing of them is kept or accepted any
    /// more.
    End {
        /// The group.
        group: u32,
        /// All groups below have ended.
        floor: u32,
    },
    /// How many bytes are kept?
    Kept(Reply<u64>),
}
