//! Tests the states of two ranks, and delivers their messages by hand.

use super::delivery::INCLUDED_BYTES_MAX;
use super::interrupts::Interrupts;
use super::joined_wait::JoinedWait;
use super::memory::Memory;
use super::saved::SavedState;
use super::*;
use crate::matching::Pattern;
use crate::places::Places;
use crate::scope::{Scope, World};
use crate::selector::ANY_TAG;
use crate::site_links::SiteLinks;
use gridspan_topology::GridSpec;
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
    let receiving = later(&other.with(|state| state.receive(ALL, Peers::One(0), AT)));
    settle([&one, &other]);
    assert!(one.with(|state| state.slots.is_done(sending)));
    let outcome = other.with(|state| state.slots.take(receiving));
    let Some(Outcome::Message(arrived)) = outcome else { panic!("no message") };
    assert_eq!(arrived.message.load.bytes(), EAGER_BYTES + 1);
}

/// Lets offers leave with their data. Returns the number of those that stay offers.
fn include_data(rank: &Local) -> usize {
    rank.with(|state| {
        let mut outbox = std::mem::take(&mut state.outbox);
        outbox.iter_mut().for_each(|(_, message)| state.include_data(message));
        state.outbox = outbox;
        state.outbox.iter().filter(|(_, message)| message.is_offer()).count()
    })
}

#[test]
fn a_long_message_that_leaves_with_its_data_ends_when_it_is_matched() {
    let (one, other) = (Local::new(0), Local::new(1));
    one.with(|state| state.buffer.attach(1 << 20)).unwrap();
    let sending = later(&send(&one, SendMode::Standard, EAGER_BYTES + 1));
    assert!(matches!(send(&one, SendMode::Buffered, EAGER_BYTES + 1), Begun::Now(())));
    assert_eq!(include_data(&one), 0);
    settle([&one, &other]);
    assert!(!one.with(|state| state.slots.is_done(sending) || state.buffer.is_empty()));
    for _ in 0..2 {
        let Begun::Now(arrived) = other.with(|state| state.receive(ALL, Peers::One(0), AT)) else {
            panic!("the data are missing")
        };
        assert_eq!(arrived.message.load.bytes(), EAGER_BYTES + 1);
    }
    settle([&one, &other]);
    assert!(one.with(|state| state.slots.is_done(sending) && state.buffer.is_empty()));
}

#[test]
fn data_leave_before_a_receive_has_matched_them_up_to_a_bound() {
    let (one, other) = (Local::new(0), Local::new(1));
    let send_half = || later(&send(&one, SendMode::Standard, INCLUDED_BYTES_MAX / 2));
    let receive = || other.with(|state| state.receive(ALL, Peers::One(0), AT));
    let sends = [send_half(), send_half(), send_half()];
    assert_eq!(include_data(&one), 1);
    settle([&one, &other]);
    // The first two have come with their data, and the third is an offer.
    assert!(matches!(receive(), Begun::Now(_)));
    assert!(matches!(receive(), Begun::Now(_)));
    later(&receive());
    settle([&one, &other]);
    assert!(sends.iter().all(|send| one.with(|state| state.slots.is_done(*send))));
    // There is room again, also once the sends have failed.
    for _ in 0..2 {
        send_half();
        send_half();
        assert_eq!(include_data(&one), 0);
        let moved = SavedState::of(&one).restored();
        assert_eq!(moved.with(|state| state.included_bytes), INCLUDED_BYTES_MAX);
        one.with(|state| state.note_revoked(0));
        one.with(|state| state.failures = Failures::default());
    }
}

#[test]
fn a_synchronous_send_ends_when_its_message_is_matched() {
    let (one, other) = (Local::new(0), Local::new(1));
    let sending = later(&send(&one, SendMode::Synchronous, 1));
    settle([&one, &other]);
    assert!(!one.with(|state| state.slots.is_done(sending)));
    assert!(matches!(other.with(|state| state.receive(ALL, Peers::One(0), AT)), Begun::Now(_)));
    settle([&one, &other]);
    assert!(one.with(|state| state.slots.is_done(sending)));
}

#[test]
fn a_dropped_receive_leaves_its_message_at_its_place() {
    let (one, other) = (Local::new(0), Local::new(1));
    let first = later(&other.with(|state| state.receive(ALL, Peers::One(0), AT)));
    for bytes in [1, 2] {
        assert!(matches!(send(&one, SendMode::Standard, bytes), Begun::Now(())));
    }
    settle([&one, &other]);
    other.with(|state| state.forget(first));
    let Begun::Now(arrived) = other.with(|state| state.receive(ALL, Peers::One(0), AT)) else {
        panic!("no message")
    };
    assert_eq!(arrived.message.load.bytes(), 1);
}

#[test]
fn data_on_its_way_to_a_dropped_receive_waits_for_the_next_one() {
    let (one, other) = (Local::new(0), Local::new(1));
    let first = later(&other.with(|state| state.receive(ALL, Peers::One(0), AT)));
    let sending = later(&send(&one, SendMode::Standard, EAGER_BYTES + 1));
    // The offer arrives, and is accepted.
    let offer = one.with(|state| std::mem::take(&mut state.outbox));
    for (_, message) in offer {
        other.with(|state| state.deliver(message));
    }
    other.with(|state| state.forget(first));
    settle([&one, &other]);
    assert!(one.with(|state| state.slots.take(sending)).is_some());
    assert!(matches!(other.with(|state| state.receive(ALL, Peers::One(0), AT)), Begun::Now(_)));
}

/// Accepts the offer of a long message with a receive, and drops the receive.
fn drop_accepted(one: &Local, other: &Local) {
    let first = later(&other.with(|state| state.receive(ALL, Peers::One(0), AT)));
    later(&send(one, SendMode::Standard, EAGER_BYTES + 1));
    for (_, message) in one.with(|state| std::mem::take(&mut state.outbox)) {
        other.with(|state| state.deliver(message));
    }
    other.with(|state| state.forget(first));
}

#[test]
fn a_long_message_of_a_dropped_receive_is_not_overtaken() {
    let (one, other) = (Local::new(0), Local::new(1));
    drop_accepted(&one, &other);
    assert!(matches!(send(&one, SendMode::Standard, 1), Begun::Now(())));
    // The short message arrives before the data.
    let short = one.with(|state| state.outbox.pop()).unwrap();
    other.with(|state| state.deliver(short.1));
    let second = later(&other.with(|state| state.receive(ALL, Peers::One(0), AT)));
    // This receive is dropped, too.
    other.with(|state| state.forget(second));
    let third = later(&other.with(|state| state.receive(ALL, Peers::One(0), AT)));
    settle([&one, &other]);
    let Some(Outcome::Message(arrived)) = other.with(|state| state.slots.take(third)) else {
        panic!("no message")
    };
    assert_eq!(arrived.message.load.bytes(), EAGER_BYTES + 1);
    let Begun::Now(short) = other.with(|state| state.receive(ALL, Peers::One(0), AT)) else {
        panic!("no message")
    };
    assert_eq!(short.message.load.bytes(), 1);
}

#[test]
fn data_that_come_while_the_message_is_held_by_a_probe_are_kept_for_it() {
    let (one, other) = (Local::new(0), Local::new(1));
    for gives_back in [false, true] {
        drop_accepted(&one, &other);
        let probed = other.with(|state| state.matcher.take(&ALL)).unwrap();
        settle([&one, &other]);
        let found = if gives_back {
            other.with(|state| state.give_back(probed));
            other.with(|state| state.receive(ALL, Peers::One(0), AT))
        } else {
            let ticket = later(&other.with(|state| state.accept(probed, AT)));
            match other.with(|state| state.slots.take(ticket)) {
                Some(Outcome::Message(arrived)) => Begun::Now(arrived),
                _ => panic!("no data"),
            }
        };
        let Begun::Now(arrived) = found else { panic!("no message") };
        assert!(matches!(arrived.message.load, Load::Whole { .. }));
        assert_eq!(other.with(|state| state.matched_with_data.len() + state.redirected.len()), 0);
    }
}

#[test]
fn a_rank_waits_for_those_that_can_let_it_go_on() {
    let (one, other) = (Local::new(0), Local::new(1));
    let mut cx = Context::from_waker(Waker::noop());
    let sending = later(&send(&one, SendMode::Synchronous, 1));
    // No task waits for it yet.
    assert_eq!(one.with(|state| state.waits_until()), None);
    assert!(one.with(|state| state.slots.poll(sending, &mut cx)).is_pending());
    assert_eq!(one.with(|state| state.waits_until()), Some(vec![vec![(1, 1)]]));
    let receiving = later(&other.with(|state| state.receive(ALL, Peers::One(0), AT)));
    assert!(other.with(|state| state.slots.poll(receiving, &mut cx)).is_pending());
    assert_eq!(other.with(|state| state.waits_until()), Some(vec![vec![(0, 1)]]));
    let before = other.with(|state| state.changes);
    other.with(|state| state.sleep(Duration::from_secs(1), Waker::noop()));
    assert_eq!(other.with(|state| state.waits_until()), None);
    settle([&one, &other]);
    assert!(other.with(|state| state.changes) > before);
    assert_eq!(one.with(|state| state.waits_until()), None);
}

#[test]
fn a_rank_that_waits_for_several_operations_waits_for_a_rank_of_each() {
    let one = Arc::new(Local::new(0));
    let mut cx = Context::from_waker(Waker::noop());
    let mut receive = |source: u32, is_awaited: bool| {
        let pattern = Pattern { source: Some(source), ..ALL };
        let begun = one.with(|state| state.receive(pattern, Peers::One(source), AT));
        let ticket = later(&begun);
        if is_awaited {
            assert!(one.with(|state| state.slots.poll(ticket, &mut cx)).is_pending());
        }
        ticket
    };
    let [first, second, third] =
        [(1, true), (2, false), (3, false)].map(|(source, is_awaited)| receive(source, is_awaited));
    let until = || one.with(|state| state.waits_until());
    // No task waits for the others yet.
    assert_eq!(until(), Some(vec![vec![(1, 1)]]));
    assert!(JoinedWait::new(&one, vec![second]).is_none());
    let all = JoinedWait::new(&one, vec![first, second, third]).unwrap();
    assert_eq!(until(), Some(vec![vec![(1, 1)], vec![(2, 1)], vec![(3, 1)]]));
    // Data on their way end a wait, and other tasks may go on instead.
    one.with(|state| state.slots.waits_for(second, Wait::Access));
    receive(4, true);
    assert_eq!(until(), Some(vec![vec![(1, 1), (4, 1)], vec![(3, 1), (4, 1)]]));
    one.with(|state| state.slots.end(third, Outcome::Cancelled));
    assert_eq!(until(), Some(vec![vec![(1, 1), (4, 1)]]));
    // It needs a separate operation, which only other ranks can end.
    one.with(|state| state.slots.waits_for(second, Wait::Task));
    assert_eq!(until(), Some(vec![vec![(4, 1)], vec![(1, 1), (4, 1)]]));
    drop(all);
    assert_eq!(until(), Some(vec![vec![(1, 1), (4, 1)]]));
}

#[test]
fn a_wait_for_all_counts_once_if_several_of_its_operations_have_wakers() {
    let one = Arc::new(Local::new(0));
    let mut cx = Context::from_waker(Waker::noop());
    let mut tickets = Vec::new();
    for source in 1..9 {
        let pattern = Pattern { source: Some(source), ..ALL };
        let begun = one.with(|state| state.receive(pattern, Peers::One(source), AT));
        tickets.push(later(&begun));
    }
    for ticket in &tickets {
        assert!(one.with(|state| state.slots.poll(*ticket, &mut cx)).is_pending());
    }
    tickets.reverse();
    let _all = JoinedWait::new(&one, tickets).unwrap();
    let expected: Vec<_> = (1..9).map(|source| vec![(source, 1)]).collect();
    assert_eq!(one.with(|state| state.waits_until()), Some(expected));
}

#[test]
fn a_rank_that_waits_for_a_lock_waits_for_those_before_it() {
    let (one, other) = (Local::new(0), Local::new(1));
    let mut cx = Context::from_waker(Waker::noop());
    let memory = Memory::new(vec![0_u8], Box::new(|_: &mut [u8], _: &[u8]| ()));
    other.with(|state| state.windows.insert(3, Window::new(memory)));
    let ask = |rank: &Local| {
        let (lock, _) =
            rank.with(|state| state.access(1, 3, Access::Lock { is_exclusive: true }, AT));
        settle([&one, &other]);
        lock
    };
    let held = ask(&other);
    assert!(other.with(|state| state.slots.take(held)).is_some());
    let asked = ask(&one);
    assert!(one.with(|state| state.slots.poll(asked, &mut cx)).is_pending());
    // It has not asked which ranks are before it.
    assert_eq!(one.with(|state| (state.waits_until(), state.lock_targets())), (None, vec![1]));
    let before = one.with(|state| state.changes);
    one.with(|state| state.ask_for_locks());
    assert!(one.with(|state| state.asks_for_locks()));
    settle([&one, &other]);
    let waits = one.with(|state| (state.waits_until(), state.changes));
    assert_eq!(waits, (Some(vec![vec![(1, 1)]]), before));
    // It asks once: the target tells it when the ranks before it may have become fewer.
    one.with(|state| state.ask_for_locks());
    assert!(one.with(|state| state.outbox.is_empty() && !state.asks_for_locks()));
    other.with(|state| state.tell(1, 3, Access::Withdraw { lock: 99 }));
    settle([&one, &other]);
    assert!(one.with(|state| state.asks_for_locks()));
    one.with(|state| state.ask_for_locks());
    settle([&one, &other]);
    assert!(one.with(|state| !state.asks_for_locks()));
    assert_eq!(one.with(|state| (state.waits_until(), state.changes)), waits);
    // The windows end, and the lock with them.
    let (mut windows, told) = other.with(|state| state.end_windows());
    assert_eq!(told.len(), 1);
    told.into_iter().for_each(|(_, message)| one.with(|state| state.deliver(message)));
    assert!(one.with(|state| !state.asks_for_locks()));
    assert_eq!(one.with(|state| state.waits_until()), Some(vec![vec![(1, 1)]]));
    let window = windows.remove(&3).unwrap();
    other.with(|state| {
        state.windows.insert(3, window);
        state.tell(1, 3, Access::Unlock);
    });
    settle([&one, &other]);
    assert!(one.with(|state| state.slots.is_done(asked)));
    assert_eq!(one.with(|state| state.waits_until()), None);
}

/// A scope of three ranks.
fn scope() -> Arc<Scope> {
    let spec = GridSpec::from_emulate("1x3").unwrap();
    let places = Places::new(&[0, 1, 2], spec.layout(), SiteLinks::default());
    Arc::new(World::of_job(3).scope(Arc::new(places)))
}

#[test]
fn a_rank_that_fails_alone_also_waits_for_those_that_may_revoke_its_communicator() {
    let (one, scope) = (Local::new(0), scope());
    let mut cx = Context::from_waker(Waker::noop());
    one.with(|state| {
        state.interrupts = Interrupts::new(true);
        state.note_communicator(0, &scope);
    });
    let pattern = Pattern { source: Some(1), ..ALL };
    let receiving = later(&one.with(|state| state.receive(pattern, Peers::One(1), AT)));
    assert!(one.with(|state| state.slots.poll(receiving, &mut cx)).is_pending());
    assert_eq!(one.with(|state| state.waits_until()), Some(vec![vec![(1, 1), (0, 3)]]));
    // No rank can revoke a communicator that was not noted.
    let elsewhere = CallSite { communicator: 9, ..AT };
    let other = Local::new(0);
    other.with(|state| state.interrupts = Interrupts::new(true));
    let asking = later(&other.with(|state| state.receive(pattern, Peers::One(1), elsewhere)));
    assert!(other.with(|state| state.slots.poll(asking, &mut cx)).is_pending());
    assert_eq!(other.with(|state| state.waits_until()), Some(vec![vec![(1, 1)]]));
}

#[test]
fn a_wait_on_a_dropped_communicator_is_never_taken_for_one_that_none_can_revoke() {
    let (one, all) = (Local::new(0), scope());
    let mut cx = Context::from_waker(Waker::noop());
    one.with(|state| {
        state.interrupts = Interrupts::new(true);
        state.note_communicator(0, &scope());
    });
    let receiving = later(&one.with(|state| state.receive(ALL, Peers::One(1), AT)));
    assert!(one.with(|state| state.slots.poll(receiving, &mut cx)).is_pending());
    assert_eq!(one.with(|state| state.waits_until()), None);
    // Many others are made, dropped and forgotten.
    for number in 1..1000 {
        one.with(|state| state.note_communicator(number, &scope()));
    }
    assert_eq!(one.with(|state| state.waits_until()), None);
    one.with(|state| state.note_communicator(0, &all));
    assert_eq!(one.with(|state| state.waits_until()), Some(vec![vec![(1, 1), (0, 3)]]));
}

#[test]
fn a_communicator_gets_nothing_of_another_one_with_the_same_number() {
    let (one, world) = (Local::new(0), scope());
    let pair = |number| Arc::new(Scope::listed(number, vec![0, 1], world.places().clone()));
    let pattern = Pattern { context: 8, ..ALL };
    let message = |origin| {
        let load = Load::Whole { content: content(1), acknowledge: None };
        RankMessage::Message(Label { context: 8, source: 1, ..LABEL }, Payload { origin, load })
    };
    let revoked = |communicator, from| RankMessage::Revoked { communicator, from };
    one.with(|state| {
        state.interrupts = Interrupts::new(true);
        let (mut made, mut count) = (Vec::new(), 0);
        // Rank 2 is not in the pair: at first this rank does not have the pair.
        for number in [4, 5] {
            state.deliver(message(2));
            state.deliver(revoked(4, 2));
            made.push(pair(number));
            state.note_communicator(number, &made[made.len() - 1]);
            count += usize::from(state.matcher.take(&pattern).is_some());
        }
        assert_eq!((count, state.failures.is_revoked(4)), (0, false));
        state.deliver(message(1));
        assert_eq!(state.matcher.take(&pattern).map(|arrived| arrived.message.origin), Some(1));
        state.deliver(revoked(4, 1));
        assert!(state.failures.is_revoked(4));
        // A revocation may come before the rank has the communicator.
        state.deliver(revoked(6, 1));
        assert!(!state.failures.is_revoked(6));
        state.note_communicator(6, &pair(6));
        assert!(state.failures.is_revoked(6));
    });
}

#[test]
fn detaching_ends_once_the_buffer_is_empty() {
    let (one, other) = (Local::new(0), Local::new(1));
    one.with(|state| state.buffer.attach(1 << 20)).unwrap();
    assert!(matches!(send(&one, SendMode::Buffered, EAGER_BYTES + 1), Begun::Now(())));
    settle([&one, &other]);
    let detaching = match one.with(|state| state.detach(AT)) {
        Begun::Later(ticket) => ticket,
        Begun::Now(_) => panic!("the buffer is not empty"),
    };
    let receiving = later(&other.with(|state| state.receive(ALL, Peers::One(0), AT)));
    settle([&one, &other]);
    assert!(other.with(|state| state.slots.is_done(receiving)));
    assert!(one.with(|state| state.slots.is_done(detaching)));
    assert!(matches!(one.with(|state| state.detach(AT)), Begun::Now(bytes) if bytes == 1 << 20));
}

#[test]
fn a_cancelled_receive_gets_no_message_and_a_matched_one_cannot_be_cancelled() {
    let (one, other) = (Local::new(0), Local::new(1));
    let receiving = later(&other.with(|state| state.receive(ALL, Peers::One(0), AT)));
    assert!(other.with(|state| state.cancel(receiving)));
    assert!(!other.with(|state| state.cancel(receiving)));
    assert!(matches!(other.with(|s| s.slots.take(receiving)), Some(Outcome::Cancelled)));
    let receiving = later(&other.with(|state| state.receive(ALL, Peers::One(0), AT)));
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
    assert!(matches!(other.with(|state| state.receive(ALL, Peers::One(0), AT)), Begun::Now(_)));
    let receiving = later(&other.with(|state| state.receive(ALL, Peers::One(0), AT)));
    assert_eq!(one.with(|state| state.buffer.detach()), None);
    settle([&one, &other]);
    let outcome =
        other.with(|state| state.slots.poll(receiving, &mut Context::from_waker(Waker::noop())));
    assert!(outcome.is_ready());
    assert_eq!(one.with(|state| state.buffer.detach()), Some(1 << 20));
}

#[test]
fn numbers_of_messages_and_accesses_are_unique_after_a_wrap() {
    let (one, other) = (Local::new(0), Local::new(1));
    let lock = || Access::Lock { is_exclusive: true };
    let access = || one.with(|state| state.access(1, 5, lock(), AT).1);
    assert_eq!(access(), 1);
    let second = later(&send(&one, SendMode::Synchronous, 1));
    // The state after 2^32 - 4 more messages and accesses, which have ended.
    one.with(|state| state.last_token = u32::MAX - 1);

    // 0 stands for no answer, and the first two numbers are in use.
    assert_eq!([access(), access()], [u32::MAX, 3]);

    settle([&one, &other]);
    assert!(matches!(other.with(|state| state.receive(ALL, Peers::One(0), AT)), Begun::Now(_)));
    settle([&one, &other]);
    assert!(one.with(|state| state.slots.is_done(second)));
    assert_eq!(access(), 4);
}

/// Takes the error of an operation that cannot complete.
fn failed(of: &Local, ticket: Ticket) -> RankError {
    match of.with(|state| state.slots.take(ticket)) {
        Some(Outcome::Failed(error)) => error,
        _ => panic!("the operation has not failed"),
    }
}

#[test]
fn a_receive_from_a_failed_rank_gets_what_that_has_sent_and_then_fails() {
    let (one, other) = (Local::new(0), Local::new(1));
    let from_one = Pattern { source: Some(0), ..ALL };
    let receive = || {
        other.with(|state| state.receive(from_one, Peers::One(0), CallSite { tag: Some(7), ..AT }))
    };
    assert!(matches!(send(&one, SendMode::Standard, 1), Begun::Now(())));
    let long = later(&send(&one, SendMode::Standard, EAGER_BYTES + 1));
    settle([&one, &other]);
    other.with(|state| state.deliver(RankMessage::Failed { rank: 0, reason: "lost".to_owned() }));
    assert!(matches!(receive(), Begun::Now(_)));
    // The actor of the failed rank still sends the data of its offers.
    let receiving = later(&receive());
    settle([&one, &other]);
    assert!(one.with(|state| state.slots.is_done(long)));
    let outcome = other.with(|state| state.slots.take(receiving));
    assert!(matches!(outcome, Some(Outcome::Message(_))));
    let at = CallSite { tag: Some(7), ..AT };
    let expected = RankError::PeerFailed { at, rank: 0, reason: "lost".to_owned() };
    assert_eq!(failed(&other, later(&receive())), expected);
    let refused = other.with(|state| state.send(SendMode::Standard, 0, LABEL, content(1), AT));
    assert!(matches!(refused, Err(RankError::PeerFailed { rank: 0, .. })));
}

#[test]
fn operations_that_wait_for_a_failed_rank_end() {
    let (one, other) = (Local::new(0), Local::new(1));
    one.with(|state| state.buffer.attach(1 << 20)).unwrap();
    let sends = [(SendMode::Synchronous, 1), (SendMode::Standard, EAGER_BYTES + 1)]
        .map(|(mode, bytes)| later(&send(&one, mode, bytes)));
    assert!(matches!(send(&one, SendMode::Buffered, EAGER_BYTES + 1), Begun::Now(())));
    let receiving = later(
        &one.with(|state| state.receive(Pattern { source: Some(1), ..ALL }, Peers::One(1), AT)),
    );
    let (access, _) = one.with(|state| state.access(1, 5, Access::Unlock, AT));
    settle([&one, &other]);
    one.with(|state| state.note_failed(1, "lost".to_owned()));
    for ticket in [sends[0], sends[1], receiving, access] {
        assert!(matches!(failed(&one, ticket), RankError::PeerFailed { rank: 1, .. }));
    }
    assert!(matches!(one.with(|state| state.detach(AT)), Begun::Now(bytes) if bytes == 1 << 20));
    // Nothing waits, and a message of another rank is still received.
    assert_eq!(one.with(|state| state.waits_until()), None);
    let payload =
        Payload { origin: 2, load: Load::Whole { content: content(3), acknowledge: None } };
    one.with(|state| state.deliver(RankMessage::Message(Label { source: 2, ..LABEL }, payload)));
    let begun = one.with(|state| state.receive(ALL, Peers::One(2), AT));
    assert!(matches!(begun, Begun::Now(_)));
}

#[test]
fn a_revoked_communicator_ends_its_operations_and_no_others() {
    let (one, other) = (Local::new(0), Local::new(1));
    let elsewhere = Pattern { context: 4, ..ALL };
    let [here, there] = [ALL, elsewhere]
        .map(|pattern| later(&one.with(|state| state.receive(pattern, Peers::One(1), AT))));
    let sending = later(&send(&one, SendMode::Standard, EAGER_BYTES + 1));
    settle([&one, &other]);
    let asking = later(&other.with(|state| state.receive(ALL, Peers::One(0), AT)));
    // The receiver has asked for the data when both learn of the revocation.
    for rank in [&one, &other] {
        rank.with(|state| state.deliver(RankMessage::Revoked { communicator: 0, from: 0 }));
    }
    settle([&one, &other]);
    assert_eq!(failed(&one, here), RankError::Revoked { at: AT });
    assert_eq!(failed(&one, sending), RankError::Revoked { at: AT });
    assert_eq!(failed(&other, asking), RankError::Revoked { at: AT });
    assert!(!one.with(|state| state.slots.is_done(there)));
    let later_one = later(&one.with(|state| state.receive(ALL, Peers::One(1), AT)));
    assert_eq!(failed(&one, later_one), RankError::Revoked { at: AT });
}

#[test]
fn a_matched_message_of_a_revoked_communicator_is_not_received() {
    let (one, other) = (Local::new(0), Local::new(1));
    assert!(matches!(send(&one, SendMode::Standard, 1), Begun::Now(())));
    let long = later(&send(&one, SendMode::Standard, EAGER_BYTES + 1));
    settle([&one, &other]);
    let matched = [(); 2].map(|()| other.with(|state| state.matcher.take(&ALL)).unwrap());
    for rank in [&one, &other] {
        rank.with(|state| state.deliver(RankMessage::Revoked { communicator: 0, from: 0 }));
    }
    assert_eq!(failed(&one, long), RankError::Revoked { at: AT });
    for arrived in matched {
        let receiving = later(&other.with(|state| state.accept(arrived, AT)));
        assert_eq!(failed(&other, receiving), RankError::Revoked { at: AT });
    }
}

#[test]
fn what_a_rank_knows_about_failures_moves_with_it() {
    let (one, world) = (Local::new(0), scope());
    one.with(|state| {
        state.note_failed(3, "lost".to_owned());
        state.note_revoked(0);
        assert_eq!(state.failures.next_agreement(0, &world), 1);
    });
    let moved = SavedState::of(&one).restored();
    moved.with(|state| {
        let error = RankError::PeerFailed { at: AT, rank: 3, reason: "lost".to_owned() };
        assert_eq!(state.failures.of_rank(3, AT), Some(error));
        assert!(state.failures.is_revoked(0));
        assert_eq!(state.failures.next_agreement(0, &world), 2);
    });
}
