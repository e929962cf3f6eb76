//! The order in which messages of one sender arrive: each message says how many must have been
//! handled before it.
//!
//! A sender counts its messages by channel and lane. A receiver distinguishes these channels:
//! single messages to it, multicasts to a section that it is in, and broadcasts. A lane is a
//! priority or a step; messages of different lanes are in no order. A message carries the counts of
//! all channels through which its sender reaches the receiver. So a receiver notices a gap, an
//! older message, and a message of one channel that has overtaken one of another.
//!
//! The counts of both sides are part of their states, and so of checkpoints.

use gridspan_runtime::{BroadcastOptions, InStep, Priority, SendOptions, Time};
use gridspan_topology::dice::Dice;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Number of sections of the busy members: a member multicasts to all whose index has the same
/// remainder.
pub(crate) const SECTIONS: i32 = 3;

/// Priorities at which messages are sent.
const PRIORITIES: std::ops::RangeInclusive<i32> = -2..=2;

/// Number of steps for which messages are sent.
const STEPS: u32 = 4;

/// An actor that sends, or main.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) enum Sender {
    Main,
    Busy(i32),
    Brief(i32),
    /// A member of a group by its first index and the time of its creation, since its index may
    /// change.
    Tally(i32, Time),
}

/// An actor that receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) enum Receiver {
    Busy(i32),
    Bound(i32),
    Late(i32),
    /// A member of a group by its index, and how often the group had changed its size when the
    /// message was sent. After a change another member may have that index.
    Tally(i32, u32),
}

/// Messages that reach the same receivers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) enum Channel {
    One(Receiver),
    Section,
    AllBusy,
    AllBound,
}

/// Messages that are handled in the order sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) enum Lane {
    Priority(i32),
    Step(u64),
}

impl Lane {
    /// The lane of messages without options.
    pub(crate) const NORMAL: Self = Self::Priority(0);

    /// A random priority or step, mostly that of messages without options.
    pub(crate) fn any(dice: &mut Dice) -> Self {
        match dice.below(10_u32) {
            0..=5 => Self::NORMAL,
            6..=8 => Self::any_priority(dice),
            _ => Self::Step(u64::from(dice.below(STEPS))),
        }
    }

    pub(crate) fn any_priority(dice: &mut Dice) -> Self {
        let priorities: Vec<i32> = PRIORITIES.collect();
        Self::Priority(dice.one_of(&priorities))
    }
}

impl From<Lane> for SendOptions {
    fn from(lane: Lane) -> Self {
        match lane {
            Lane::Priority(priority) => Priority(priority).into(),
            Lane::Step(step) => InStep(step).into(),
        }
    }
}

impl From<Lane> for BroadcastOptions {
    fn from(lane: Lane) -> Self {
        match lane {
            Lane::Priority(priority) => Priority(priority).into(),
            Lane::Step(_) => Self::default(),
        }
    }
}

/// The place of a message in the order.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Stamp {
    from: Sender,
    lane: Lane,
    /// Number of messages of each channel that come before this one. The first channel is that of
    /// the message.
    before: Vec<(Channel, u64)>,
}

impl Stamp {
    /// The ordered broadcast with this stamp; `None` for another message.
    pub(crate) fn broadcast(&self) -> Option<Broadcast> {
        match self.before.first() {
            Some(&(own @ (Channel::AllBusy | Channel::AllBound), number)) => {
                Some((self.from, own, self.lane, number))
            }
            _ => None,
        }
    }
}

/// An ordered broadcast: its sender, channel, lane and number.
pub(crate) type Broadcast = (Sender, Channel, Lane, u64);

/// Counts of the messages that an actor, or main, has sent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Sent {
    from: Sender,
    counts: BTreeMap<(Channel, Lane), u64>,
}

impl Sent {
    pub(crate) fn new(from: Sender) -> Self {
        Self { from, counts: BTreeMap::new() }
    }

    /// The stamp of a message to one receiver.
    pub(crate) fn one(&mut self, to: Receiver, lane: Lane) -> Stamp {
        let is_in_section = match (self.from, to) {
            (Sender::Busy(me), Receiver::Busy(index)) => index % SECTIONS == me % SECTIONS,
            _ => false,
        };
        let others = [
            (Channel::Section, is_in_section),
            (Channel::AllBusy, matches!(to, Receiver::Busy(_))),
            (Channel::AllBound, matches!(to, Receiver::Bound(_))),
        ];
        let others = others.into_iter().filter(|(_, reaches)| *reaches);
        self.stamp(Channel::One(to), others.map(|(channel, _)| channel), lane)
    }

    /// The stamp of a multicast to the sender's section.
    pub(crate) fn section(&mut self, lane: Lane) -> Stamp {
        self.stamp(Channel::Section, [Channel::AllBusy], lane)
    }

    /// The stamp of an ordered broadcast to the busy members.
    pub(crate) fn all_busy(&mut self, lane: Lane) -> Stamp {
        self.stamp(Channel::AllBusy, [], lane)
    }

    /// The stamp of an ordered broadcast to the bound members.
    pub(crate) fn all_bound(&mut self, lane: Lane) -> Stamp {
        self.stamp(Channel::AllBound, [], lane)
    }

    fn stamp(
        &mut self,
        own: Channel,
        others: impl IntoIterator<Item = Channel>,
        lane: Lane,
    ) -> Stamp {
        let channels = std::iter::once(own).chain(others);
        let count = |channel| self.counts.get(&(channel, lane)).copied().unwrap_or_default();
        let before = channels.map(|channel| (channel, count(channel))).collect();
        *self.counts.entry((own, lane)).or_default() += 1;
        Stamp { from: self.from, lane, before }
    }
}

/// Counts of the messages that an actor has received.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Heard {
    counts: BTreeMap<(Sender, Channel, Lane), u64>,
    /// For each lane, a hash over the broadcasts in the order of handling.
    broadcasts: BTreeMap<Lane, u64>,
    /// The first message that was out of order.
    problem: Option<String>,
}

impl Heard {
    /// Counts a message, and notes a problem if it is out of order.
    pub(crate) fn hear(&mut self, stamp: &Stamp) {
        let Stamp { from, lane, before } = stamp;
        for &(channel, due) in before {
            let heard = self.counts.get(&(*from, channel, *lane)).copied().unwrap_or_default();
            if heard != due && self.problem.is_none() {
                self.problem = Some(format!(
                    "out of order at {lane:?}: a message from {from:?} came after {heard} by \
                     {channel:?} instead of {due}"
                ));
            }
        }
        if let Some(&(own, number)) = before.first() {
            self.counts.insert((*from, own, *lane), number + 1);
        }
        if let Some(broadcast) = stamp.broadcast() {
            let hash = self.broadcasts.entry(*lane).or_default();
            let mut hasher = DefaultHasher::new();
            (*hash, broadcast).hash(&mut hasher);
            *hash = hasher.finish();
        }
    }

    /// Adds the messages that another member of the group has received, after the group has become
    /// smaller. Both have handled the same broadcasts. Notes a problem if their orders differ,
    /// since the other member no longer reports its hash.
    pub(crate) fn add(&mut self, other: Self) {
        let Self { counts, broadcasts, problem } = other;
        for (channel, count) in counts {
            let known = self.counts.entry(channel).or_default();
            *known = count.max(*known);
        }
        self.problem = self.problem.take().or(problem);
        if self.broadcasts != broadcasts && self.problem.is_none() {
            self.problem = Some("merged members handled broadcasts in different orders".to_owned());
        }
    }

    /// Describes the first message that was out of order, if there was one.
    pub(crate) fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    /// A hash over the broadcasts of each lane, in the order in which they were handled.
    pub(crate) fn broadcasts(&self) -> Vec<u64> {
        let hash = |priority| self.broadcasts.get(&Lane::Priority(priority)).copied();
        PRIORITIES.map(|priority| hash(priority).unwrap_or_default()).collect()
    }
}
