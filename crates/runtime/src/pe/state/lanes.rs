//! Messages that are ready to be handled, by priority and in the order they became ready.
//!
//! Messages stay in queues of their own type, so that a send on the same PE moves the value once
//! and allocates nothing. [`Lanes`] remembers from which queue the next messages come, as runs.

use crate::codec::DecodeError;
use crate::id::KindId;
use bytes::Bytes;
use std::any::Any;
use std::collections::{BTreeMap, VecDeque};

/// The order in which messages of all types became ready.
#[derive(Default)]
pub(crate) struct Lanes {
    /// Priority zero, which nearly all messages have.
    normal: VecDeque<Run>,
    /// All other priorities; lower numbers go first.
    others: BTreeMap<i32, VecDeque<Run>>,
}

/// Consecutive messages from one typed queue. The last run of a lane stays when its messages are
/// gone, so that a mailbox that empties and fills again need not touch the deque; then it has none.
#[derive(Clone, Copy)]
struct Run {
    kind: KindId,
    messages: u32,
}

impl Lanes {
    #[inline]
    pub(crate) fn push(&mut self, kind: KindId, priority: i32) {
        let lane = match priority {
            0 => &mut self.normal,
            _ => self.others.entry(priority).or_default(),
        };
        match lane.back_mut() {
            Some(run) if run.kind == kind => run.messages += 1,
            Some(run) if run.messages == 0 => *run = Run { kind, messages: 1 },
            _ => lane.push_back(Run { kind, messages: 1 }),
        }
    }

    /// The priority and type of the next message.
    #[inline]
    pub(crate) fn peek(&self) -> Option<(i32, KindId)> {
        if self.others.is_empty() {
            return Some((0, first(&self.normal)?.kind));
        }
        self.peek_all()
    }

    #[cold]
    fn peek_all(&self) -> Option<(i32, KindId)> {
        let (&priority, lane) = self.others.first_key_value()?;
        match first(&self.normal) {
            Some(run) if priority > 0 => Some((0, run.kind)),
            _ => Some((priority, first(lane)?.kind)),
        }
    }

    /// Takes one message off the run that [`peek`](Self::peek) named.
    #[inline]
    pub(crate) fn pop(&mut self, priority: i32) {
        if priority == 0 {
            pop_front(&mut self.normal);
        } else {
            self.pop_other(priority);
        }
    }

    #[cold]
    fn pop_other(&mut self, priority: i32) {
        if let Some(lane) = self.others.get_mut(&priority) {
            pop_front(lane);
            if first(lane).is_none() {
                self.others.remove(&priority);
            }
        }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        first(&self.normal).is_none() && self.others.is_empty()
    }

    /// Forgets messages of one type that were taken out of their queue; `taken` says for each
    /// message of that type, by priority and in order, whether it was.
    pub(crate) fn remove(&mut self, kind: KindId, priority: i32, taken: &[bool]) {
        let Some(lane) = (match priority {
            0 => Some(&mut self.normal),
            _ => self.others.get_mut(&priority),
        }) else {
            return;
        };
        let mut taken = taken.iter();
        for run in lane.iter_mut().filter(|run| run.kind == kind) {
            let gone = taken.by_ref().take(run.messages as usize).filter(|&&gone| gone).count();
            run.messages -= gone as u32;
        }
        lane.retain(|run| run.messages > 0);
        if priority != 0 && lane.is_empty() {
            self.others.remove(&priority);
        }
    }
}

/// The next run that has messages; only the last can have none.
#[inline]
fn first(lane: &VecDeque<Run>) -> Option<&Run> {
    lane.front().filter(|run| run.messages > 0)
}

#[inline]
fn pop_front(lane: &mut VecDeque<Run>) {
    let is_last = lane.len() == 1;
    if let Some(run) = lane.front_mut() {
        run.messages -= 1;
        if run.messages == 0 && !is_last {
            lane.pop_front();
        }
    }
}

/// A queue of messages whose type is not known here.
pub(crate) trait Queue: Any + Send {
    /// Takes out all messages for a member, as priority and encoded message in order, and takes
    /// them off `lanes`. Also returns how many bytes of the memory budget they held.
    fn extract(&mut self, kind: KindId, slot: u32, lanes: &mut Lanes)
    -> (Vec<(i32, Bytes)>, usize);
    /// Puts an encoded message in. Returns how many bytes of the memory budget it holds.
    fn push_encoded(
        &mut self,
        slot: u32,
        priority: i32,
        message: &[u8],
    ) -> Result<usize, DecodeError>;
    /// How many messages wait for each member, for error reports: slot and count.
    fn waiting(&self) -> BTreeMap<u32, u64>;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drain(lanes: &mut Lanes) -> Vec<(i32, u16)> {
        let mut order = Vec::new();
        while let Some((priority, kind)) = lanes.peek() {
            lanes.pop(priority);
            order.push((priority, kind.0));
        }
        order
    }

    #[test]
    fn lower_numbers_go_first_and_equals_keep_their_order() {
        let mut lanes = Lanes::default();
        for (kind, priority) in [(1, 0), (2, 5), (3, -1), (1, 0), (2, 0), (3, -1)] {
            lanes.push(KindId(kind), priority);
        }
        assert_eq!(drain(&mut lanes), [(-1, 3), (-1, 3), (0, 1), (0, 1), (0, 2), (5, 2)]);
        assert!(lanes.is_empty());
    }

    #[test]
    fn a_lane_that_was_emptied_takes_messages_of_any_type() {
        let mut lanes = Lanes::default();
        for round in [[1, 1, 2], [2, 2, 1], [3, 1, 1]] {
            round.iter().for_each(|&kind| lanes.push(KindId(kind), 0));
            lanes.push(KindId(4), 1);
            let [a, b, c] = round;
            assert_eq!(drain(&mut lanes), [(0, a), (0, b), (0, c), (1, 4)]);
            assert!(lanes.is_empty());
        }
    }

    #[test]
    fn removing_messages_keeps_the_order_of_the_rest() {
        let mut lanes = Lanes::default();
        for kind in [1, 1, 2, 1, 2] {
            lanes.push(KindId(kind), 0);
        }
        lanes.remove(KindId(1), 0, &[true, false, true]);
        assert_eq!(drain(&mut lanes), [(0, 1), (0, 2), (0, 2)]);
    }
}
