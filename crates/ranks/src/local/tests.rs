//! Two ranks' states, whose messages a test delivers by hand.

use super::saved::SavedState;
use super::*;
use crate::selector::ANY_TAG;
use std::task::Context;

const AT: CallSite = CallSite { call: "test", peer: None, tag: None, communicator: 0 };
const LABEL: Label = Label { context: 0, source: 0, tag: 7 };
const ALL: Pattern = Pattern { context: 0, source: None, tag: ANY_TAG };

/// Delivers all messages between two ranks until none is left.
fn settle(ranks: [&Local; 2]) {
    loop {
        let mut posts: Vec<(u32, RankMessage)> = Vec::new();
        for rank in ranks {
            posts.append(&mut rank.with(|state| std::mem::take(&mut state.outbox)));
        }
        if posts.is_empty() {
            return;
        }
        for (to, message) in posts {
            ranks[to as usize].with(|state| state.deliver(message));
        }
    }
}

fn later<T>(begun: &Begun<T>) -> Ticket {
    match begun {
        Begun::Later(ticket) => *ticket,
        Begun::Now(_) => panic!("the operation is complete"),
    }
}

fn content(bytes: usize) -> Content {
    Content::owned(vec![1_u8; bytes])
}

fn send(from: &Local, mode: SendMode, bytes: usize) -> Begun<()> {
    from.with(|state| state.send(mode, 1, LABEL, content(bytes), AT)).unwrap()
}

#[test]
fn a_long_message_is_sent_once_it_is_asked_for() {
    let (one, other) = (Local::new(0), Local::new(1));
    let sending = later(&send(&one, SendMode::Standard, EAGER_BYTES + 1));
    settle([&one, &other]);
    assert!(!one.with(|state| state.slots.is_done(sending)));
    let receiving = later(&other.with(|state| state.receive(ALL, AT)));
    settle([&one, &other]);
    assert!(one.with(|state| state.slots.is_done(sending)));
    let outcome = other.with(|state| state.slots.take(receiving));
    let Some(Outcome::Message(arrived)) = outcome else { panic!("no message") };
    assert_eq!(arrived.message.load.bytes(), EAGER_BYTES + 1);
}

#[test]
fn a_synchronous_send_ends_when_its_message_is_matched() {
    let (one, other) = (Local::new(0), Local::new(1));
    let sending = later(&send(&one, SendMode::Synchronous, 1));
    settle([&one, &other]);
    assert!(!one.with(|state| state.slots.is_done(sending)));
    assert!(matches!(other.with(|state| state.receive(ALL, AT)), Begun::Now(_)));
    settle([&one, &other]);
    assert!(one.with(|state| state.slots.is_done(sending)));
}

#[test]
fn a_dropped_receive_leaves_its_message_at_its_place() {
    let (one, other) = (Local::new(0), Local::new(1));
    let first = later(&other.with(|state| state.receive(ALL, AT)));
    for bytes in [1, 2] {
        assert!(matches!(send(&one, SendMode::Standard, bytes), Begun::Now(())));
    }
    settle([&one, &other]);
    other.with(|state| state.forget(first));
    let Begun::Now(arrived) = other.with(|state| state.receive(ALL, AT)) else {
        panic!("no message")
    };
    assert_eq!(arrived.message.load.bytes(), 1);
}

#[test]
fn data_on_its_way_to_a_dropped_receive_waits_for_the_next_one() {
    let (one, other) = (Local::new(0), Local::new(1));
    let first = later(&other.with(|state| state.receive(ALL, AT)));
    let sending = later(&send(&one, SendMode::Standard, EAGER_BYTES + 1));
    // The offer arrives, and is accepted.
    let offer = one.with(|state| std::mem::take(&mut state.outbox));
    for (_, message) in offer {
        other.with(|state| state.deliver(message));
    }
    other.with(|state| state.forget(first));
    settle([&one, &other]);
    assert!(one.with(|state| state.slots.take(sending)).is_some());
    assert!(matches!(other.with(|state| state.receive(ALL, AT)), Begun::Now(_)));
}

#[test]
fn a_cancelled_receive_gets_no_message_and_a_matched_one_cannot_be_cancelled() {
    let (one, other) = (Local::new(0), Local::new(1));
    let receiving = later(&other.with(|state| state.receive(ALL, AT)));
    assert!(other.with(|state| state.cancel(receiving)));
    assert!(!other.with(|state| state.cancel(receiving)));
    assert!(matches!(other.with(|s| s.slots.take(receiving)), Some(Outcome::Cancelled)));
    let receiving = later(&other.with(|state| state.receive(ALL, AT)));
    assert!(matches!(send(&one, SendMode::Standard, 1), Begun::Now(())));
    settle([&one, &other]);
    assert!(!other.with(|state| state.cancel(receiving)));
}

#[test]
fn waiting_messages_and_offers_move_with_a_rank() {
    let (one, other) = (Local::new(0), Local::new(1));
    one.with(|state| state.buffer.attach(1 << 20)).unwrap();
    assert!(matches!(send(&one, SendMode::Standard, 3), Begun::Now(())));
    assert!(matches!(send(&one, SendMode::Buffered, EAGER_BYTES + 1), Begun::Now(())));
    settle([&one, &other]);
    let moved = |local: &Local| {
        let bytes = postcard::to_stdvec(&SavedState::of(local)).unwrap();
        postcard::from_bytes::<SavedState>(&bytes).unwrap().restored()
    };
    let (one, other) = (moved(&one), moved(&other));
    assert!(matches!(other.with(|state| state.receive(ALL, AT)), Begun::Now(_)));
    let receiving = later(&other.with(|state| state.receive(ALL, AT)));
    assert_eq!(one.with(|state| state.buffer.detach()), None);
    settle([&one, &other]);
    let outcome =
        other.with(|state| state.slots.poll(receiving, &mut Context::from_waker(Waker::noop())));
    assert!(outcome.is_ready());
    assert_eq!(one.with(|state| state.buffer.detach()), Some(1 << 20));
}
