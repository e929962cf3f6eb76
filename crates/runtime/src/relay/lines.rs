//! Orders the messages from the agents of other nodes, and limits how many bytes of them may wait.
//!
//! A grant of tasks may be large, and a large frame may be overtaken. So messages between two nodes
//! have numbers, and a message that arrives too early waits. So does a message for a pool that is
//! not known here yet. The waiting messages of each node are limited, and those of all guests
//! together, so that guests cannot take the room of founders.

use crate::address::id::CollectionId;
use crate::message::codec::DecodeError;
use bytes::Bytes;
use gridspan_topology::{Layout, NodeId};
use std::collections::{BTreeMap, BTreeSet};

/// Cost of a waiting message, in bytes, besides its content: its entry in maps, and its allocation.
const ENTRY_BYTES: usize = 256;
/// Size, in bytes, below which a waiting message is copied. Without the copy, a small message would
/// keep the allocation of its whole packet.
const SHARED_BYTES_MAX: usize = 64 << 10;

/// Divisor of [`Room::bytes_max`] that gives the limit of one guest: with the default limits
/// 128 MiB, which are two of the largest tasks.
const GUEST_SHARE: u64 = 16;
/// Divisor that gives the limit of all guests together, so that founders find room however many
/// guests there are.
const GUESTS_SHARE: u64 = 4;

/// The messages between this node and others.
#[derive(Default)]
pub(super) struct Lines {
    lines: BTreeMap<NodeId, Line>,
    /// Guests that have left or are lost, and founders that are suspended or lost. The numbers
    /// of these nodes are not used again.
    gone: BTreeSet<NodeId>,
    /// Cost of all waiting messages.
    bytes: usize,
}

/// State of the messages between this node and another one.
#[derive(Default)]
struct Line {
    sent: u64,
    heard: u64,
    /// Messages that arrived before their predecessors, by number.
    held: BTreeMap<u64, (CollectionId, Bytes)>,
    /// Messages for pools that are not known here yet.
    early: BTreeMap<CollectionId, Vec<Bytes>>,
    /// Cost of all waiting messages of the node.
    bytes: usize,
}

impl Lines {
    /// Returns the number of the next message to a node; `None` for one that is gone.
    pub(super) fn next_number(&mut self, to: NodeId) -> Option<u64> {
        if self.is_gone(to) {
            return None;
        }
        let line = self.lines.entry(to).or_default();
        line.sent += 1;
        Some(line.sent - 1)
    }

    /// Whether a node has left, is lost or is suspended: late messages from and to it are dropped.
    pub(super) fn is_gone(&self, node: NodeId) -> bool {
        self.gone.contains(&node)
    }

    /// Drops all waiting messages of a node that has left, is lost or is suspended.
    pub(super) fn forget(&mut self, guest: NodeId) {
        self.gone.insert(guest);
        let line = self.lines.remove(&guest);
        self.bytes -= line.map_or(0, |line| line.bytes);
    }

    /// Adds a message. Fails if it has arrived before, or if it has to wait and there is no room.
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
            return Err(refusal(format_args!("message {number} arrived twice")));
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

    /// Returns the next message of a node in the order of their numbers, if it has arrived.
    pub(super) fn next(&mut self, from: NodeId) -> Option<(CollectionId, Bytes)> {
        let line = self.lines.get_mut(&from)?;
        let (pool, message) = line.held.remove(&line.heard)?;
        line.heard += 1;
        line.bytes -= cost(&message);
        self.bytes -= cost(&message);
        Some((pool, message))
    }

    /// Keeps a message for a pool that is not known here yet. Fails if there is no room.
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

    /// Removes and returns the messages that arrived before their pool was known.
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

    /// Returns the cost of all waiting messages.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    fn check_room(
        &self,
        from: NodeId,
        message: &Bytes,
        room: &Room<'_>,
    ) -> Result<(), DecodeError> {
        let own = self.lines.get(&from).map_or(0, |line| line.bytes);
        let fits = |bytes: usize, most: u64| bytes as u64 + cost(message) as u64 <= most;
        let has_room = match room.layout.is_guest(from) {
            true => {
                fits(own, room.bytes_max / GUEST_SHARE)
                    && fits(self.guest_bytes(room.layout), room.bytes_max / GUESTS_SHARE)
            }
            false => fits(own, room.bytes_max),
        };
        match has_room {
            true => Ok(()),
            false => Err(refusal(format_args!(
                "{own} bytes of the sender, and {} of all guests, already wait for earlier messages \
                 or for unknown pools",
                self.guest_bytes(room.layout)
            ))),
        }
    }

    /// Returns the cost of the waiting messages of all guests.
    fn guest_bytes(&self, layout: &Layout) -> usize {
        let guests = self.lines.iter().filter(|&(&node, _)| layout.is_guest(node));
        guests.map(|(_, line)| line.bytes).sum()
    }
}

/// Limits of the waiting messages.
pub(super) struct Room<'a> {
    pub(super) layout: &'a Layout,
    /// Limit of one founder.
    pub(super) bytes_max: u64,
}

fn cost(message: &Bytes) -> usize {
    message.len() + ENTRY_BYTES
}

/// Returns the message in an allocation of about its size.
fn alone(message: Bytes) -> Bytes {
    if message.len() < SHARED_BYTES_MAX { Bytes::copy_from_slice(&message) } else { message }
}

fn refusal(reason: impl std::fmt::Display) -> DecodeError {
    DecodeError::new("a message about tasks", reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_that_is_gone_takes_no_memory_and_gets_no_numbers() {
        let (guest, other) = (NodeId(7), NodeId(1));
        let mut lines = Lines::default();
        assert_eq!([lines.next_number(guest), lines.next_number(guest)], [Some(0), Some(1)]);

        lines.forget(guest);

        assert_eq!(lines.next_number(guest), None);
        assert!(lines.lines.is_empty());
        assert_eq!(lines.next_number(other), Some(0));
    }
}
