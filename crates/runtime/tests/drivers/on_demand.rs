//! Members that the first message to them creates.

use super::{ASK, LAST, everywhere, outcome};
use gridspan_runtime::{
    Actor, ActorId, ActorRef, CollectionRef, Context, CreateAt, Ix1, Job, Op, PeId, Per, Placement,
    Reply, To, Unordered,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Number of indices to which each caller sends.
const INDICES: u64 = 24;
/// Number of notes from each caller to each index.
const NOTES: u64 = 20;

/// Counts the notes of each sender, which have to arrive in order.
#[derive(Serialize, Deserialize)]
struct Tally {
    base: u64,
    notes: BTreeMap<ActorId, u64>,
}

#[derive(Clone, Serialize, Deserialize)]
enum Order {
    Note {
        from: ActorId,
        number: u64,
    },
    /// A note that makes the member migrate.
    Move {
        from: ActorId,
        number: u64,
        to: PeId,
    },
    Total(Reply<u64>),
    Where(Reply<PeId>),
    Report,
    End,
}

/// The initial value of a member, as the job defines it.
fn base(index: Ix1) -> u64 {
    1_000 * index.0 as u64
}

impl Tally {
    fn total(&self) -> u64 {
        self.base + self.notes.values().sum::<u64>()
    }

    fn note(&mut self, from: ActorId, number: u64) {
        let next = self.notes.entry(from).or_default();
        assert_eq!(*next, number, "the next note of {from:?}");
        *next += 1;
    }
}

impl Actor for Tally {
    type Index = Ix1;
    type Init = u64;
    type Message = Order;

    fn create(base: u64, _cx: &mut Context<'_, Self>) -> Self {
        Self { base, notes: BTreeMap::new() }
    }

    fn handle(&mut self, order: Order, cx: &mut Context<'_, Self>) {
        match order {
            Order::Note { from, number } => self.note(from, number),
            Order::Move { from, number, to } => {
                self.note(from, number);
                cx.migrate_to(to);
            }
            Order::Total(reply) => cx.reply(reply, self.total()),
            Order::Where(reply) => cx.reply(reply, cx.pe()),
            Order::Report => cx.contribute(Op::Sum, vec![1, self.total()], To::main()),
            Order::End => cx.destroy(),
        }
    }
}

/// Lives on every PE. Sends notes to members that may not exist yet.
#[derive(Serialize, Deserialize)]
struct Caller {
    tallies: CollectionRef<Tally>,
}

#[derive(Clone, Serialize, Deserialize)]
enum Call {
    /// Sends notes to all indices.
    All,
    /// Sends one note to the member at 50 plus the number of this PE.
    Own,
}

impl Actor for Caller {
    type Index = Ix1;
    type Init = CollectionRef<Tally>;
    type Message = Call;

    fn create(tallies: CollectionRef<Tally>, _cx: &mut Context<'_, Self>) -> Self {
        Self { tallies }
    }

    fn handle(&mut self, call: Call, cx: &mut Context<'_, Self>) {
        let from = cx.me().id();
        match call {
            Call::Own => {
                let to: ActorRef<Tally> = self.tallies.at(Ix1(50 + cx.index().0));
                cx.send(&to, Order::Note { from, number: 0 });
            }
            Call::All => {
                let pes = u64::from(cx.layout().pe_count());
                for number in 0..NOTES {
                    for index in 0..INDICES {
                        let to = PeId(((index + number) % pes) as u32);
                        let order = match (number + index) % 5 {
                            0 => Order::Move { from, number, to },
                            _ => Order::Note { from, number },
                        };
                        cx.send(&self.tallies.at(Ix1(index as i32)), order);
                    }
                }
            }
        }
    }
}

fn job(at: CreateAt) -> Job {
    Job::new("on demand").on_demand::<Tally>(at, base).actor::<Caller>()
}

/// The number of members, and the sum of their values.
fn report(members: u64, total: u64) -> Vec<u64> {
    vec![members, total]
}

#[test]
fn members_are_created_once_and_receive_all_messages_in_order_when_all_pes_send_at_once() {
    for at in [CreateAt::Home, CreateAt::Sender] {
        everywhere(|| {
            job(at).main(async |grid| {
                let pes = u64::from(grid.layout().pe_count());
                let tallies = grid.create::<Tally>(Ix1::range(2), |_| 7).await?;
                let first = tallies.reference();
                let callers = grid.create_group::<Caller>(Per::Pe, |_| first).await?;
                callers.broadcast(Call::All);
                grid.quiescence().await?;
                tallies.broadcast(Order::Report);
                let found: Vec<u64> = tallies.reduction(Op::Sum).await?;
                // The first two members are not created on demand.
                let made: u64 = (2..INDICES).map(|index| 1_000 * index).sum();
                assert_eq!(found, report(INDICES, 2 * 7 + made + INDICES * NOTES * pes));
                Ok(())
            })
        });
    }
}

#[test]
fn a_member_is_created_where_the_job_says() {
    everywhere(|| {
        job(CreateAt::Sender).main(async |grid| {
            let tallies = grid.create::<Tally>(Ix1::range(0), |_| 0).await?;
            let reference = tallies.reference();
            let callers = grid.create_group::<Caller>(Per::Pe, |_| reference).await?;
            callers.broadcast(Call::Own);
            grid.quiescence().await?;
            for pe in grid.layout().pes() {
                let place = tallies.member(Ix1(50 + pe.0 as i32)).ask(ASK, Order::Where).await?;
                assert_eq!(place, pe, "the PE of the sender");
            }
            Ok(())
        })
    });
    everywhere(|| {
        job(CreateAt::Home).placement(LAST).main(async |grid| {
            let placement = Placement::Custom(LAST);
            let tallies = grid.create_placed::<Tally>(placement, Ix1::range(0), |_| 0).await?;
            let place = tallies.member(Ix1(3)).ask(ASK, Order::Where).await?;
            assert_eq!(place, PeId(grid.layout().pe_count() - 1), "the home");
            Ok(())
        })
    });
}

#[test]
fn questions_and_multicasts_create_members_and_broadcasts_do_not() {
    everywhere(|| {
        job(CreateAt::Home).main(async |grid| {
            let tallies = grid.create::<Tally>(Ix1::range(0), |_| 0).await?;
            tallies.broadcast(Order::Report);
            tallies.broadcast_with(Unordered, Order::End);
            let total: u64 = tallies.member(Ix1(4)).ask(ASK, Order::Total).await?;
            assert_eq!(total, 4_000);
            let section = tallies.section(0, [2, 4, 9].map(Ix1));
            let from = tallies.member(Ix1(0)).reference().id();
            tallies.multicast(&section, Order::Note { from, number: 0 });
            grid.quiescence().await?;
            tallies.broadcast(Order::Report);
            let found: Vec<u64> = tallies.reduction(Op::Sum).await?;
            assert_eq!(found, report(3, 15_000 + 3), "the first report had no receiver");
            Ok(())
        })
    });
}

#[test]
fn a_member_that_has_ended_is_created_again_by_the_next_message() {
    for at in [CreateAt::Home, CreateAt::Sender] {
        everywhere(|| {
            job(at).main(async |grid| {
                let tallies = grid.create::<Tally>(Ix1::range(6), |_| 1).await?;
                let from = tallies.member(Ix1(0)).reference().id();
                let last = PeId(grid.layout().pe_count() - 1);
                for _round in 0..5 {
                    for index in (0..6).map(Ix1) {
                        // It ends away from its home, unless its home is the last PE.
                        let member = tallies.member(index);
                        member.send(Order::Move { from, number: 0, to: last });
                        member.send(Order::End);
                    }
                    grid.quiescence().await?;
                    tallies.broadcast(Order::Report);
                    tallies.member(Ix1(5)).send(Order::Note { from, number: 0 });
                    grid.quiescence().await?;
                    let total: u64 = tallies.member(Ix1(5)).ask(ASK, Order::Total).await?;
                    assert_eq!(total, 5_001, "the broadcast created no member");
                    tallies.member(Ix1(5)).send(Order::End);
                    grid.quiescence().await?;
                }
                Ok(())
            })
        });
    }
}

#[test]
fn inserting_a_member_of_a_collection_on_demand_is_refused() {
    let inserting = || {
        job(CreateAt::Home).main(async |grid| {
            let tallies = grid.create::<Tally>(Ix1::range(1), |_| 0).await?;
            tallies.insert_on(Ix1(8), 5, PeId(0));
            grid.quiescence().await?;
            Ok(())
        })
    };
    for outcome in outcome(inserting) {
        let error = outcome.unwrap_err().to_string();
        assert!(error.contains("Tally are created on demand"), "{error}");
        assert!(error.contains("send a message to Ix1(8)"), "{error}");
    }
}

#[test]
fn groups_create_no_members_on_demand() {
    everywhere(|| {
        job(CreateAt::Home).main(async |grid| {
            let group = grid.create_group::<Tally>(Per::Pe, |_| 0).await?;
            let from = group.member(Ix1(0)).reference().id();
            group.member(Ix1(77)).send(Order::Note { from, number: 0 });
            grid.quiescence().await?;
            group.broadcast(Order::Report);
            let found: Vec<u64> = group.reduction(Op::Sum).await?;
            assert_eq!(found, report(u64::from(grid.layout().pe_count()), 0));
            Ok(())
        })
    });
}

#[test]
fn a_panic_while_a_member_is_created_ends_the_job_and_is_named() {
    let panicking = || {
        let job = Job::new("on demand");
        let job = job.on_demand::<Tally>(CreateAt::Home, |index| panic!("no {index:?}"));
        job.main(async |grid| {
            let tallies = grid.create::<Tally>(Ix1::range(1), |_| 0).await?;
            let _: u64 = tallies.member(Ix1(9)).ask(ASK, Order::Total).await?;
            Ok(())
        })
    };
    for outcome in outcome(panicking) {
        let error = outcome.unwrap_err().to_string();
        assert!(error.contains("Tally panicked") && error.contains("no Ix1(9)"), "{error}");
    }
}
