//! What comes from the agents of other nodes: in which order it is taken, and how much of it may
//! wait.
//!
//! A grant of tasks may be large, and what is large may be overtaken on its way. So messages between
//! two nodes have numbers, and one that comes too early waits. So does one for a pool that is not
//! known here yet. What waits is bounded for each node: whoever passes its bound is refused, and
//! nobody else.

use crate::address::id::CollectionId;
use crate::message::codec::DecodeError;
use bytes::Bytes;
use gridspan_topology::{Layout, NodeId};
use std::collections::{BTreeMap, BTreeSet};

/// What a message takes that waits, beside its bytes: its entry in maps, and its allocation.
const ENTRY_BYTES: usize = 256;
/// A smaller one that waits is copied: it shares an allocation with all that came in its packets.
const SHARED_BYTES_MAX: usize = 64 << 10;

/// The largest share of the bytes that may wait here which is one guest's: with the default limits,
/// 128 MiB, which are two of the largest tasks.
const GUEST_SHARE: u64 = 16;
/// The same for all guests together, so that however many there are, founders find room.
const GUESTS_SHARE: u64 = 4;

/// The messages between this node and others.
#[derive(Default)]
pub(super) struct Lines {
    lines: BTreeMap<NodeId, Line>,
    /// Guests that are gone. Their numbers are not used again.
    gone: BTreeSet<NodeId>,
    /// What all that waits counts.
    bytes: usize,
}

/// What two nodes have told each other.
#[derive(Default)]
struct Line {
    sent: u64,
    heard: u64,
    /// What came before what it follows.
    held: BTreeMap<u64, (CollectionId, Bytes)>,
    /// What came for pools that are not known here yet.
    early: BTreeMap<CollectionId, Vec<Bytes>>,
    /// What all of it counts.
    bytes: usize,
}

impl Lines {
    /// The number of the next message to a node.
    pub(super) fn next_number(&mut self, to: NodeId) -> u64 {
        let line = self.lines.entry(to).or_default();
        line.sent += 1;
        line.sent - 1
    }

    /// Whether a node is a guest that is gone: what it has said late is for nobody.
    pub(super) fn is_gone(&self, node: NodeId) -> bool {
        self.gone.contains(&node)
    }

    /// A guest is gone, with all of its messages that wait.
    pub(super) fn forget(&mut self, guest: NodeId) {
        self.gone.insert(guest);
        let line = self.lines.remove(&guest);
        self.bytes -= line.map_or(0, |line| line.bytes);
    }

    /// Takes a message. Refused if it came before, or if it has to wait and too much would.
    pub(super) fn enter(
        &mut self,
        from: NodeId,
        number: u64,
        (pool, message): (CollectionId, Bytes),
        room: &Room<'_>,
    ) -> Result<(), DecodeError> {
        let line = self.lines.entry(from).or_default();
        let heard = line.heard;
        if number < heard || line.held.contains_key(&number) {
            return Err(refusal(format_args!("message {number} has come twice")));
        }
        let mut message = message;
        if number > heard {
            self.check_room(from, &message, room)?;
            message = alone(message);
        }
        let line = self.lines.entry(from).or_default();
        line.bytes += cost(&message);
        self.bytes += cost(&message);
        line.held.insert(number, (pool, message));
        Ok(())
    }

    /// The next message of a node in the order in which it wrote them, once that has come.
    pub(super) fn next(&mut self, from: NodeId) -> Option<(CollectionId, Bytes)> {
        let line = self.lines.get_mut(&from)?;
        let (pool, message) = line.held.remove(&line.heard)?;
        line.heard += 1;
        line.bytes -= cost(&message);
        self.bytes -= cost(&message);
        Some((pool, message))
    }

    /// Keeps a message for a pool that is not known here yet. Refused if too much would wait.
    pub(super) fn keep(
        &mut self,
        from: NodeId,
        (pool, message): (CollectionId, Bytes),
        room: &Room<'_>,
    ) -> Result<(), DecodeError> {
        self.check_room(from, &message, room)?;
        let line = self.lines.entry(from).or_default();
        line.bytes += cost(&message);
        self.bytes += cost(&message);
        line.early.entry(pool).or_default().push(alone(message));
        Ok(())
    }

    /// Takes what has come for a pool that was not known here.
    pub(super) fn take_early(&mut self, pool: CollectionId) -> Vec<(NodeId, Bytes)> {
        let mut all = Vec::new();
        for (&from, line) in &mut self.lines {
            let messages = line.early.remove(&pool).unwrap_or_default();
            let bytes = messages.iter().map(cost).sum::<usize>();
            line.bytes -= bytes;
            self.bytes -= bytes;
            all.extend(messages.into_iter().map(|message| (from, message)));
        }
        all
    }

    /// What all that waits counts.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    fn check_room(
        &self,
        from: NodeId,
        message: &Bytes,
        room: &Room<'_>,
    ) -> Result<(), DecodeError> {
        let is_guest = |node: NodeId| room.layout.is_guest(node);
        let own = self.lines.get(&from).map_or(0, |line| line.bytes);
        let fits = |bytes: usize, most: u64| bytes as u64 + cost(message) as u64 <= most;
        let has_room = match is_guest(from) {
            true => {
                let all = self.lines.iter().filter(|&(&node, _)| is_guest(node));
                let all = all.map(|(_, line)| line.bytes).sum();
                fits(own, room.bytes_max / GUEST_SHARE) && fits(all, room.bytes_max / GUESTS_SHARE)
            }
            false => fits(own, room.bytes_max),
        };
        match has_room {
            true => Ok(()),
            false => Err(refusal(format_args!(
                "{own} bytes of them wait already for others before them or for pools that are not known here"
            ))),
        }
    }
}

/// How much may wait.
pub(super) struct Room<'a> {
    pub(super) layout: &'a Layout,
    /// From one founder.
    pub(super) bytes_max: u64,
}

fn cost(message: &Bytes) -> usize {
    message.len() + ENTRY_BYTES
}

/// A message that holds no more memory than it counts.
fn alone(message: Bytes) -> Bytes {
    if message.len() < SHARED_BYTES_MAX { Bytes::copy_from_slice(&message) } else { message }
}

fn refusal(reason: impl std::fmt::Display) -> DecodeError {
    DecodeError::new("a message about tasks", reason)
}
