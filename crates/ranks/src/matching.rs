//! The matching engine: brings messages and receives of one rank together.
//!
//! It is a pure state machine. Two lists hold what has not been matched: receives that were posted,
//! and messages that arrived unexpected. A new message takes the receive that was posted first
//! among those that accept it; a new receive takes the message that arrived first among those that
//! it accepts. As messages between two ranks arrive in the order in which they were sent, this is
//! the order of MPI: of two messages of one sender that match a receive, it gets the first; of two
//! receives that match a message, the first gets it (MPI 4.1, section 3.5).
//!
//! Both lists are kept by communicator and sender, and each entry has a number that grows, so that
//! a receive from a known rank looks only at that rank's messages, and one from any rank compares
//! the first of each sender.

use crate::queues::Queues;
use crate::selector::TagSelector;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// The part of a message that decides which receives match it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Label {
    /// Twice the number of the communicator; one more for collective operations.
    pub(crate) context: u32,
    /// The rank of the sender in the communicator.
    pub(crate) source: u32,
    pub(crate) tag: u32,
}

/// The messages that a receive accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pattern {
    pub(crate) context: u32,
    /// `None` for any.
    pub(crate) source: Option<u32>,
    pub(crate) tag: TagSelector,
}

impl Pattern {
    /// Whether a message with this label is accepted.
    #[cfg(test)]
    pub(crate) fn accepts(&self, label: &Label) -> bool {
        self.context == label.context
            && self.source.is_none_or(|source| source == label.source)
            && self.tag.accepts(label.tag)
    }
}

/// The place of a message in the order of arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Arrival(pub(crate) u64);

/// A message that waits for a receive.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Arrived<M> {
    pub(crate) at: Arrival,
    pub(crate) label: Label,
    pub(crate) message: M,
}

/// A receive that waits for a message.
struct Posted {
    number: u64,
    tag: TagSelector,
    receive: u32,
}

/// Unmatched messages and receives. `M` is a message without its label; a receive is a number.
pub(crate) struct Matcher<M> {
    next: u64,
    unexpected: Queues<(u32, u32), Arrived<M>>,
    posted: Queues<(u32, Option<u32>), Posted>,
}

impl<M> Default for Matcher<M> {
    fn default() -> Self {
        Self { next: 0, unexpected: Queues::default(), posted: Queues::default() }
    }
}

impl<M> Matcher<M> {
    /// The engine after [`count`](Self::count) arrivals and receives, with these messages in it.
    pub(crate) fn restored(unexpected: Vec<Arrived<M>>, count: u64) -> Self {
        let mut matcher = Self { next: count, ..Self::default() };
        for arrived in unexpected {
            matcher.give_back(arrived);
        }
        matcher
    }

    /// Number of messages and receives that were numbered.
    pub(crate) fn count(&self) -> u64 {
        self.next
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Takes a message. Returns the receive that gets it, and the message; otherwise keeps it.
    pub(crate) fn arrive(&mut self, label: Label, message: M) -> Option<(u32, Arrived<M>)> {
        let arrived = Arrived { at: Arrival(self.number()), label, message };
        match self.take_receive(&label) {
            Some(receive) => Some((receive, arrived)),
            None => {
                let key = (label.context, label.source);
                self.unexpected.queue(key).push_back(arrived);
                None
            }
        }
    }

    /// Gives back a message that was taken and not received: to a receive, which is returned, or to
    /// its former place in the order.
    pub(crate) fn give_back(&mut self, arrived: Arrived<M>) -> Option<(u32, Arrived<M>)> {
        if let Some(receive) = self.take_receive(&arrived.label) {
            return Some((receive, arrived));
        }
        let key = (arrived.label.context, arrived.label.source);
        let queue = self.unexpected.queue(key);
        let place = queue.partition_point(|other| other.at < arrived.at);
        queue.insert(place, arrived);
        None
    }

    /// Replaces the waiting message at the same place in the order by this one. Returns this one if
    /// no message waits there.
    pub(crate) fn replace(&mut self, arrived: Arrived<M>) -> Option<Arrived<M>> {
        let key = (arrived.label.context, arrived.label.source);
        let waiting = self.unexpected.get_mut(&key);
        match waiting.and_then(|queue| queue.iter_mut().find(|other| other.at == arrived.at)) {
            Some(other) => {
                *other = arrived;
                None
            }
            None => Some(arrived),
        }
    }

    fn take_receive(&mut self, label: &Label) -> Option<u32> {
        let first = |queue: Option<&VecDeque<Posted>>| {
            let queue = queue?;
            let at = queue.iter().position(|posted| posted.tag.accepts(label.tag))?;
            Some((queue[at].number, at))
        };
        let keys = [(label.context, Some(label.source)), (label.context, None)];
        let found = keys.map(|key| first(self.posted.get(&key)).map(|(n, at)| (n, at, key)));
        let (_, at, key) = found.into_iter().flatten().min()?;
        Some(self.posted.remove(&key, at)?.receive)
    }

    /// Finds the message that arrived first among those that a pattern accepts.
    fn find(&self, pattern: &Pattern) -> Option<((u32, u32), usize)> {
        let first = |queue: &VecDeque<Arrived<M>>| {
            let at = queue.iter().position(|other| pattern.tag.accepts(other.label.tag))?;
            Some((queue[at].at, at))
        };
        match pattern.source {
            Some(source) => {
                let key = (pattern.context, source);
                Some((key, first(self.unexpected.get(&key)?)?.1))
            }
            None => {
                let of_context =
                    self.unexpected.range((pattern.context, 0)..=(pattern.context, u32::MAX));
                let found = of_context.filter_map(|(key, queue)| Some((first(queue)?, *key)));
                found.min().map(|((_, at), key)| (key, at))
            }
        }
    }

    /// Returns the message that a receive with this pattern would get, without taking it.
    pub(crate) fn peek(&self, pattern: &Pattern) -> Option<&Arrived<M>> {
        let (key, at) = self.find(pattern)?;
        self.unexpected.get(&key)?.get(at)
    }

    /// Takes the message that a receive with this pattern gets, if it has arrived.
    pub(crate) fn take(&mut self, pattern: &Pattern) -> Option<Arrived<M>> {
        let (key, at) = self.find(pattern)?;
        self.unexpected.remove(&key, at)
    }

    /// Adds a receive for which no message has arrived.
    pub(crate) fn post(&mut self, pattern: &Pattern, receive: u32) {
        let number = self.number();
        let posted = Posted { number, tag: pattern.tag, receive };
        self.posted.queue((pattern.context, pattern.source)).push_back(posted);
    }

    /// Removes a receive. Returns whether it was there, and not matched yet.
    pub(crate) fn cancel(&mut self, pattern: &Pattern, receive: u32) -> bool {
        let key = (pattern.context, pattern.source);
        let is_it = |posted: &Posted| posted.receive == receive;
        let at = self.posted.get(&key).and_then(|queue| queue.iter().position(is_it));
        at.is_some_and(|at| self.posted.remove(&key, at).is_some())
    }

    /// Removes the waiting messages of a context that `is_stray` names.
    pub(crate) fn remove(&mut self, context: u32, is_stray: impl Fn(&M) -> bool) {
        let first = |queues: &Queues<(u32, u32), Arrived<M>>| {
            let keys = (context, 0)..=(context, u32::MAX);
            queues.range(keys).find_map(|(key, queue)| {
                let at = queue.iter().position(|arrived| is_stray(&arrived.message))?;
                Some((*key, at))
            })
        };
        while let Some((key, at)) = first(&self.unexpected) {
            self.unexpected.remove(&key, at);
        }
    }

    /// The messages that have arrived and were not received, in the order of arrival.
    pub(crate) fn unexpected(&self) -> Vec<&Arrived<M>> {
        let mut all: Vec<_> = self.unexpected.values().flatten().collect();
        all.sort_by_key(|arrived| arrived.at);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::selector::ANY_TAG;
    use proptest::prelude::*;

    /// Two plain lists, searched from the front.
    #[derive(Default)]
    struct Model {
        unexpected: Vec<(Label, u32)>,
        posted: Vec<(Pattern, u32)>,
    }

    impl Model {
        fn arrive(&mut self, label: Label, message: u32) -> Option<u32> {
            match self.posted.iter().position(|(pattern, _)| pattern.accepts(&label)) {
                Some(at) => Some(self.posted.remove(at).1),
                None => {
                    self.unexpected.push((label, message));
                    None
                }
            }
        }

        fn take(&mut self, pattern: &Pattern) -> Option<u32> {
            let at = self.unexpected.iter().position(|(label, _)| pattern.accepts(label))?;
            Some(self.unexpected.remove(at).1)
        }
    }

    #[derive(Clone, Debug)]
    enum Event {
        Arrive(Label),
        Receive(Pattern),
        Peek(Pattern),
        Cancel(usize),
        GiveBack(Pattern),
    }

    fn events() -> impl Strategy<Value = Vec<Event>> {
        let label = || {
            (0_u32..2, 0_u32..8, 0_u32..3).prop_map(|(context, source, tag)| Label {
                context,
                source,
                tag,
            })
        };
        let tag = prop_oneof![Just(ANY_TAG), (0_u32..3).prop_map(TagSelector::Tag)];
        let pattern = (0_u32..2, proptest::option::of(0_u32..8), tag)
            .prop_map(|(context, source, tag)| Pattern { context, source, tag });
        let event = prop_oneof![
            4 => label().prop_map(Event::Arrive),
            4 => pattern.clone().prop_map(Event::Receive),
            1 => pattern.clone().prop_map(Event::Peek),
            1 => (0_usize..8).prop_map(Event::Cancel),
            1 => pattern.prop_map(Event::GiveBack),
        ];
        proptest::collection::vec(event, 0..200)
    }

    proptest! {
        #[test]
        fn matches_are_those_of_two_plain_lists(events in events()) {
            let (mut matcher, mut model) = (Matcher::default(), Model::default());
            for (number, event) in events.into_iter().enumerate() {
                let number = number as u32;
                match event {
                    Event::Arrive(label) => {
                        let found = matcher.arrive(label, number);
                        if let Some((_, arrived)) = &found {
                            prop_assert_eq!((arrived.label, arrived.message), (label, number));
                        }
                        let receive = found.map(|(receive, _)| receive);
                        prop_assert_eq!(receive, model.arrive(label, number));
                    }
                    Event::Receive(pattern) => {
                        let found = matcher.take(&pattern).map(|arrived| arrived.message);
                        prop_assert_eq!(found, model.take(&pattern));
                        if found.is_none() {
                            matcher.post(&pattern, number);
                            model.posted.push((pattern, number));
                        }
                    }
                    Event::Peek(pattern) => {
                        let found = matcher.peek(&pattern).map(|arrived| arrived.message);
                        let first = model.unexpected.iter().find(|(label, _)| pattern.accepts(label));
                        prop_assert_eq!(found, first.map(|(_, message)| *message));
                    }
                    Event::Cancel(at) if at < model.posted.len() => {
                        let (pattern, receive) = model.posted.remove(at);
                        prop_assert!(matcher.cancel(&pattern, receive));
                        prop_assert!(!matcher.cancel(&pattern, receive));
                    }
                    Event::Cancel(_) => {}
                    // A message that is taken and given back is where it was.
                    Event::GiveBack(pattern) => {
                        if let Some(arrived) = matcher.take(&pattern) {
                            prop_assert!(matcher.give_back(arrived).is_none());
                        }
                    }
                }
                let left: Vec<_> = matcher.unexpected().iter().map(|a| a.message).collect();
                let expected: Vec<_> = model.unexpected.iter().map(|(_, message)| *message).collect();
                prop_assert_eq!(left, expected);
            }
        }
    }

    #[test]
    fn receives_take_messages_of_one_sender_in_order_also_by_any_tag() {
        let mut matcher = Matcher::default();
        let label = |source, tag| Label { context: 0, source, tag };
        for (message, label) in [label(1, 5), label(2, 5), label(1, 6)].into_iter().enumerate() {
            assert!(matcher.arrive(label, message).is_none());
        }
        let mut take = |source, tag| {
            matcher.take(&Pattern { context: 0, source, tag }).map(|arrived| arrived.message)
        };
        assert_eq!(take(None, TagSelector::Tag(6)), Some(2));
        assert_eq!(take(Some(1), ANY_TAG), Some(0));
        assert_eq!(take(Some(1), ANY_TAG), None);
        assert_eq!(take(None, ANY_TAG), Some(1));
    }

    #[test]
    fn stray_messages_of_one_context_are_removed() {
        let mut matcher = Matcher::default();
        for (message, (context, source)) in [(0, 1), (0, 1), (0, 2), (1, 1)].into_iter().enumerate()
        {
            assert!(matcher.arrive(Label { context, source, tag: 0 }, message).is_none());
        }
        matcher.remove(0, |message| *message > 0);
        let left: Vec<usize> = matcher.unexpected().iter().map(|left| left.message).collect();
        assert_eq!(left, [0, 3]);
    }
}
