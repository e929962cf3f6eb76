//! Which messages an actor needs before it sends.
//!
//! A recording shows which message an actor was handling when it sent. On another grid, messages
//! come in another order, and the last of those that the actor needs is another one. So the actor
//! is treated as one of a dataflow graph (Lee and Messerschmitt, "Synchronous Data Flow",
//! Proceedings of the IEEE 75(9), 1987): it *fires*, that is, computes and sends, once it has
//! certain messages. These are the messages that it had handled when it fired in the recording,
//! except those that were *early*:
//!
//! 1. messages of a later step than the message with which it fired;
//! 2. if main, the runtime or a timer made it fire, messages of actors that came since its previous
//!    firing;
//! 3. if messages have no steps: messages of a sender beyond its usual number between two firings,
//!    if fewer than usual come from it before a later firing.
//!
//! An actor that fires for each message, such as one that answers questions, does not collect
//! messages; it needs only the message that it answers.

use std::collections::{BTreeMap, VecDeque};

/// Number of firings that are searched for the one that needs a message of a later step. If it
/// is not among them, the last firing of the actor needs the message.
const AHEAD_MAX: usize = 1024;
/// Number of firings that the third rule looks at for each message, on average over an actor. One
/// or two are enough for a sender that is a step ahead. Without a bound, the time would grow with
/// the square of the length of some recordings.
const LOOKS_MAX: usize = 32;

/// A message that an actor has handled, in the order of the recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Received {
    /// The sending actor; `None` for main, the runtime and timers.
    pub(crate) sender: Option<u32>,
    /// The step of the message, if it has one.
    pub(crate) step: Option<u64>,
    /// Whether the actor fired when it handled the message.
    pub(crate) has_fired: bool,
}

/// The messages that the firings of an actor need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Needs {
    /// By message: the first firing that needs it, counted from 0.
    pub(crate) firing_of: Vec<usize>,
    /// Whether each firing needs only its own message, whatever came before.
    pub(crate) is_independent: bool,
}

/// Returns the messages that the firings of an actor need. The last message must fire.
pub(crate) fn needs(messages: &[Received]) -> Needs {
    let fired = |message: &&Received| message.has_fired;
    let firings = messages.iter().filter(fired).count();
    if firings == messages.len() {
        return Needs { firing_of: (0..firings).collect(), is_independent: true };
    }
    let triggers: Vec<&Received> = messages.iter().filter(fired).collect();
    let last = firings.saturating_sub(1);
    let mut firing_of = Vec::with_capacity(messages.len());
    let mut firing = 0;
    for message in messages {
        firing_of.push(first_that_needs(message, firing, &triggers).min(last));
        firing += usize::from(message.has_fired);
    }
    put_off_surplus(messages, &mut firing_of, last);
    Needs { firing_of, is_independent: false }
}

/// Returns the firing that first needs a message, by the first two rules. The message came before
/// `firing`, or made it fire.
fn first_that_needs(message: &Received, firing: usize, triggers: &[&Received]) -> usize {
    let Some(trigger) = triggers.get(firing) else { return firing };
    if message.has_fired {
        return firing;
    }
    if trigger.sender.is_none() && message.sender.is_some() {
        return firing + 1;
    }
    let Some(step) = message.step else { return firing };
    let is_due = |trigger: &&Received| trigger.step.is_none_or(|own| own >= step);
    let wait = triggers[firing..].iter().take(AHEAD_MAX).position(is_due);
    wait.map_or(triggers.len(), |wait| firing + wait)
}

/// Moves the messages of a sender above the usual number to later firings, by the third rule.
fn put_off_surplus(messages: &[Received], firing_of: &mut [usize], last: usize) {
    // By sender and firing: the positions of its messages.
    let mut channels: BTreeMap<u32, BTreeMap<usize, VecDeque<usize>>> = BTreeMap::new();
    for (at, message) in messages.iter().enumerate() {
        if let (Some(sender), None) = (message.sender, message.step) {
            channels.entry(sender).or_default().entry(firing_of[at]).or_default().push_back(at);
        }
    }
    let mut looks = messages.len().saturating_mul(LOOKS_MAX);
    for mut by_firing in channels.into_values() {
        let usual = most_common(by_firing.values().map(VecDeque::len));
        let crowded: Vec<usize> = by_firing.keys().copied().collect();
        for firing in crowded {
            while put_off_newest(messages, &mut by_firing, firing, (usual, last), &mut looks) {}
        }
        for (firing, positions) in by_firing {
            positions.into_iter().for_each(|at| firing_of[at] = firing);
        }
    }
}

/// If `firing` has more messages of a sender than usual, and the next firing with an unusual number
/// has fewer, moves one message from each firing to the next, from `firing` up to that one: always
/// the newest. Messages that made the actor fire stay, and then nothing moves. Returns whether
/// messages moved. `looks`: how many firings may still be looked at.
fn put_off_newest(
    messages: &[Received],
    by_firing: &mut BTreeMap<usize, VecDeque<usize>>,
    firing: usize,
    (usual, last): (usize, usize),
    looks: &mut usize,
) -> bool {
    let count = |at: usize| by_firing.get(&at).map_or(0, VecDeque::len);
    if count(firing) <= usual {
        return false;
    }
    let reach = firing.saturating_add(*looks).min(last);
    let short = (firing + 1..=reach).find(|at| count(*at) != usual);
    *looks = looks.saturating_sub(short.unwrap_or(reach).saturating_sub(firing));
    let Some(short) = short else { return false };
    let newest = |at: usize| by_firing.get(&at).and_then(VecDeque::back).copied();
    let is_fixed = |at: usize| newest(at).is_none_or(|newest| messages[newest].has_fired);
    if count(short) > usual || (firing..short).any(is_fixed) {
        return false;
    }
    for at in (firing..short).rev() {
        if let Some(moved) = by_firing.get_mut(&at).and_then(VecDeque::pop_back) {
            by_firing.entry(at + 1).or_default().push_front(moved);
        }
    }
    true
}

/// Returns the most common number, the smallest of several; 0 if there is none.
fn most_common(numbers: impl Iterator<Item = usize>) -> usize {
    let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
    for number in numbers {
        *counts.entry(number).or_default() += 1;
    }
    let best = counts.iter().max_by_key(|(number, count)| (**count, std::cmp::Reverse(**number)));
    best.map_or(0, |(number, _)| *number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(sender: u32) -> Received {
        Received { sender: Some(sender), ..Received::default() }
    }

    fn fires(message: Received) -> Received {
        Received { has_fired: true, ..message }
    }

    const MAIN: Received = Received { sender: None, step: None, has_fired: false };

    #[test]
    fn a_firing_needs_all_messages_since_the_one_before() {
        let messages = [fires(MAIN), from(1), from(2), fires(from(3)), from(2), fires(from(1))];
        let Needs { firing_of, is_independent } = needs(&messages);
        assert_eq!(firing_of, [0, 1, 1, 1, 2, 2]);
        assert!(!is_independent);
    }

    #[test]
    fn an_actor_that_always_fires_collects_nothing() {
        let found = needs(&[fires(from(1)), fires(from(2)), fires(from(1))]);
        assert_eq!(found, Needs { firing_of: vec![0, 1, 2], is_independent: true });
    }

    #[test]
    fn messages_of_a_later_step_are_early() {
        let in_step = |sender, step| Received { step: Some(step), ..from(sender) };
        let messages = [
            in_step(1, 0),
            in_step(3, 1),
            fires(in_step(2, 0)),
            in_step(1, 1),
            fires(in_step(2, 1)),
            fires(in_step(1, 2)),
        ];
        assert_eq!(needs(&messages).firing_of, [0, 1, 0, 1, 1, 2]);
    }

    #[test]
    fn messages_of_actors_are_not_needed_to_start() {
        let messages = [from(1), fires(MAIN), from(2), fires(from(3))];
        assert_eq!(needs(&messages).firing_of, [1, 0, 1, 1]);
    }

    #[test]
    fn the_second_message_of_a_neighbour_is_that_of_the_next_sweep() {
        // Neighbour 1 is a sweep ahead: its second message comes before the first of neighbour 2.
        let messages = [
            fires(MAIN),
            from(1),
            from(1),
            fires(from(2)),
            fires(from(2)),
            from(1),
            fires(from(2)),
        ];
        assert_eq!(needs(&messages).firing_of, [0, 1, 2, 1, 2, 3, 3]);
    }

    #[test]
    fn a_neighbour_that_stays_a_sweep_ahead_is_needed_one_sweep_later() {
        let messages = [
            fires(MAIN),
            from(1),
            from(1),
            fires(from(2)),
            from(1),
            fires(from(2)),
            from(1),
            fires(from(2)),
            fires(from(2)),
        ];
        assert_eq!(needs(&messages).firing_of, [0, 1, 2, 1, 3, 2, 4, 3, 4]);
    }

    #[test]
    fn messages_are_put_off_only_as_far_as_may_be_looked() {
        // Two messages for firing 0, one for firing 1, and none for firing 2.
        let messages = [from(1), from(1), from(1)];
        let channel = || {
            let positions = [(0, VecDeque::from([0, 1])), (1, VecDeque::from([2]))];
            BTreeMap::from(positions)
        };
        let mut looks = 1;
        let mut by_firing = channel();
        assert!(!put_off_newest(&messages, &mut by_firing, 0, (1, 2), &mut looks));
        assert_eq!((looks, by_firing), (0, channel()));
        let mut looks = 5;
        let mut by_firing = channel();
        assert!(put_off_newest(&messages, &mut by_firing, 0, (1, 2), &mut looks));
        let positions: Vec<Vec<usize>> =
            by_firing.into_values().map(|positions| positions.into_iter().collect()).collect();
        assert_eq!((looks, positions), (3, vec![vec![0], vec![1], vec![2]]));
    }
}
