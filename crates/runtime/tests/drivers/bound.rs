//! Bound collections: partners live and move together.

use crate::{ASK, everywhere};
use gridspan_balance::StrategyName;
use gridspan_runtime::driver::embedded;
use gridspan_runtime::{
    Actor, ActorRef, Collection, CollectionRef, Context, CreateAt, Grid, GridError, Ix1, Job, Op,
    PeId, Per, Placement, Reply, To,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

const MEMBERS: u32 = 12;
/// Number of times that two partners pass a message on to each other.
const PASSES: u32 = 40;

/// The collections, once they exist.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct All {
    cells: CollectionRef<Cell>,
    swarms: [CollectionRef<Swarm>; 2],
}

#[derive(Clone, Copy, Serialize, Deserialize)]
enum Order {
    Meet(All),
    Move(PeId),
    /// Passes between two partners, this many more times.
    Pass(u32),
    Sync,
    Die,
    Count,
    Report(Reply<(PeId, u32)>),
}

/// The state of both types.
#[derive(Default, Serialize, Deserialize)]
struct Member {
    all: Option<All>,
    passed: u32,
}

impl Member {
    /// Fails the job if a partner is on another PE. Runs in every handler.
    fn check<A: Actor<Index = Ix1>>(&self, cx: &mut Context<'_, A>) {
        let Some(All { cells, swarms }) = self.all else { return };
        let index = cx.index();
        let here = [swarms[0].at(index), swarms[1].at(index)].map(|swarm| cx.is_here(&swarm));
        if !cx.is_here(&cells.at(index)) || here != [true; 2] {
            cx.fail(format!("{index:?} on {} is without its partners", cx.pe()));
        }
    }

    /// Carries out an order. `other` gives the partner to which this member passes.
    fn obey<A: Actor<Index = Ix1, Message = Order>>(
        &mut self,
        order: Order,
        other: impl Fn(All, Ix1) -> Other,
        cx: &mut Context<'_, A>,
    ) {
        self.check(cx);
        match order {
            Order::Meet(all) => self.all = Some(all),
            Order::Move(pe) => cx.migrate_to(pe),
            Order::Pass(left) => {
                self.passed += 1;
                if let Some(all) = self.all.filter(|_| left > 0) {
                    other(all, cx.index()).pass(left - 1, cx);
                }
            }
            Order::Sync => cx.at_sync(),
            Order::Die => cx.destroy(),
            Order::Count => cx.contribute(Op::Sum, 1_u64, To::main()),
            Order::Report(reply) => cx.reply(reply, (cx.pe(), self.passed)),
        }
    }
}

enum Other {
    Cell(ActorRef<Cell>),
    Swarm(ActorRef<Swarm>),
}

impl Other {
    fn pass<A: Actor>(&self, left: u32, cx: &mut Context<'_, A>) {
        match self {
            Self::Cell(cell) => cx.send(cell, Order::Pass(left)),
            Self::Swarm(swarm) => cx.send(swarm, Order::Pass(left)),
        }
    }
}

/// The actor of the base collection.
#[derive(Serialize, Deserialize)]
struct Cell(Member);

/// The actor of the bound collections.
#[derive(Serialize, Deserialize)]
struct Swarm(Member);

impl Actor for Cell {
    type Index = Ix1;
    type Init = ();
    type Message = Order;

    fn create((): (), _cx: &mut Context<'_, Self>) -> Self {
        Self(Member::default())
    }

    fn handle(&mut self, order: Order, cx: &mut Context<'_, Self>) {
        let other = |all: All, index: Ix1| Other::Swarm(all.swarms[index.0 as usize % 2].at(index));
        self.0.obey(order, other, cx);
    }

    fn arrived(&mut self, cx: &mut Context<'_, Self>) {
        self.0.check(cx);
    }
}

impl Actor for Swarm {
    type Index = Ix1;
    type Init = ();
    type Message = Order;

    fn create((): (), _cx: &mut Context<'_, Self>) -> Self {
        Self(Member::default())
    }

    fn handle(&mut self, order: Order, cx: &mut Context<'_, Self>) {
        self.0.obey(order, |all, index| Other::Cell(all.cells.at(index)), cx);
    }

    fn arrived(&mut self, cx: &mut Context<'_, Self>) {
        self.0.check(cx);
    }

    fn resume(&mut self, cx: &mut Context<'_, Self>) {
        self.0.check(cx);
    }
}

fn job() -> Job {
    Job::new("bound").actor::<Cell>().actor::<Swarm>()
}

/// Creates cells, moves some of them, and meanwhile creates two collections bound to them.
async fn create(grid: &Grid) -> Result<(Collection<Cell>, [Collection<Swarm>; 2]), GridError> {
    let cells = grid.create_placed::<Cell>(Placement::RoundRobin, indices(), |_| ()).await?;
    let pes = grid.layout().pe_count();
    for index in (0..MEMBERS).step_by(2) {
        cells.member(Ix1(index as i32)).send(Order::Move(PeId((index + 1) % pes)));
    }
    let first = grid.create_bound::<Swarm>(&cells, indices(), |_| ()).await?;
    // The base of `second` is the base of `first`: the cells.
    let second = grid.create_bound::<Swarm>(&first, indices(), |_| ()).await?;
    let swarms = [first.reference(), second.reference()];
    let all = All { cells: cells.reference(), swarms };
    cells.broadcast(Order::Meet(all));
    first.broadcast(Order::Meet(all));
    second.broadcast(Order::Meet(all));
    // A partner must know the collections before another one passes it a message: broadcasts to
    // one collection and messages between members of others have no common order.
    grid.quiescence().await?;
    Ok((cells, [first, second]))
}

fn indices() -> impl gridspan_runtime::IndexSet<Index = Ix1> {
    Ix1::range(MEMBERS)
}

/// Checks that partners report the same PE. Returns the total number of passes that members have
/// handled.
async fn report(
    cells: &Collection<Cell>,
    swarms: &[Collection<Swarm>; 2],
) -> Result<u32, GridError> {
    let mut passed = 0;
    for index in (0..MEMBERS as i32).map(Ix1) {
        let (pe, here) = cells.member(index).ask(ASK, Order::Report).await?;
        passed += here;
        for swarm in swarms {
            let (its, here) = swarm.member(index).ask(ASK, Order::Report).await?;
            assert_eq!(its, pe, "{index:?}");
            passed += here;
        }
    }
    Ok(passed)
}

#[test]
fn partners_are_created_and_move_together_whichever_of_them_moves() {
    everywhere(|| {
        job().main(async |grid| {
            let (cells, swarms) = create(&grid).await?;
            let pes = grid.layout().pe_count();
            for round in 0..30 {
                for index in 0..MEMBERS {
                    let (at, to) = (Ix1(index as i32), PeId((index + round) % pes));
                    match (index + round) % 3 {
                        0 => cells.member(at).send(Order::Move(to)),
                        which => swarms[which as usize - 1].member(at).send(Order::Move(to)),
                    }
                    if round == 3 {
                        cells.member(at).send(Order::Pass(PASSES));
                    }
                }
            }
            grid.quiescence().await?;
            assert_eq!(report(&cells, &swarms).await?, MEMBERS * (PASSES + 1));
            Ok(())
        })
    });
}

#[test]
fn strategies_move_partners_together_whether_they_are_at_sync_points_or_not() {
    for strategy in ["rotate", "random", "greedy"] {
        everywhere(|| {
            job().strategy(strategy.parse::<StrategyName>().expect("it is a name")).main(
                async |grid| {
                    let (cells, swarms) = create(&grid).await?;
                    for _ in 0..4 {
                        cells.broadcast(Order::Pass(PASSES));
                        swarms[1].broadcast(Order::Sync);
                        grid.quiescence().await?;
                        grid.rebalance().await?;
                    }
                    assert_eq!(report(&cells, &swarms).await?, 4 * MEMBERS * (PASSES + 1));
                    Ok(())
                },
            )
        });
    }
}

async fn count<A: Actor<Message = Order>>(all: &Collection<A>) -> Result<u64, GridError> {
    all.broadcast(Order::Count);
    all.reduction(Op::Sum).await
}

#[test]
fn inserted_members_join_their_partners_and_end_with_the_base() {
    everywhere(|| {
        job().main(async |grid| {
            let (cells, [swarm, _]) = create(&grid).await?;
            let last = PeId(grid.layout().pe_count() - 1);
            for index in (50..60).map(Ix1) {
                // Insert the bound member before its partner, or after it.
                if index.0 % 2 == 0 {
                    swarm.insert_on(index, (), PeId(0));
                }
                cells.insert_on(index, (), last);
                cells.member(index).send(Order::Move(PeId(0)));
                if index.0 % 2 == 1 {
                    swarm.insert_on(index, (), last);
                }
                cells.member(index).send(Order::Move(last));
            }
            grid.quiescence().await?;
            let mut places = BTreeMap::new();
            for index in (50..60).map(Ix1) {
                let (pe, _) = swarm.member(index).ask(ASK, Order::Report).await?;
                places.insert(index.0, pe);
            }
            assert!(places.values().all(|&pe| pe == last), "{places:?}");
            assert_eq!(count(&swarm).await?, u64::from(MEMBERS) + 10);

            // A bound member ends without its partners, and another takes its place.
            swarm.member(Ix1(50)).send(Order::Die);
            grid.quiescence().await?;
            assert_eq!((count(&cells).await?, count(&swarm).await?), (22, 21));
            cells.member(Ix1(50)).send(Order::Move(PeId(0)));
            swarm.insert_on(Ix1(50), (), last);
            grid.quiescence().await?;
            let (pe, _) = swarm.member(Ix1(50)).ask(ASK, Order::Report).await?;
            assert_eq!(pe, PeId(0));

            // All partners of a member of the base end with it.
            cells.member(Ix1(50)).send(Order::Die);
            cells.member(Ix1(0)).send(Order::Die);
            grid.quiescence().await?;
            assert_eq!((count(&cells).await?, count(&swarm).await?), (20, 20));
            Ok(())
        })
    });
}

#[test]
fn collections_that_cannot_be_bound_are_refused_with_the_reason() {
    everywhere(|| {
        job().main(async |grid| {
            let cells = grid.create::<Cell>(Ix1::range(4), |_| ()).await?;
            let too_many = grid.create_bound::<Swarm>(&cells, Ix1::range(6), |_| ()).await;
            let Err(error @ GridError::NoPartner { .. }) = too_many else { panic!("it was made") };
            assert!(error.to_string().contains("has no member Ix1("), "{error}");
            let twice = vec![Ix1(1), Ix1(2), Ix1(1)];
            let twice = grid.create_bound::<Swarm>(&cells, twice, |_| ()).await;
            assert!(matches!(twice, Err(GridError::DuplicateIndex(_))));
            let group = grid.create_group::<Cell>(Per::Pe, |_| ()).await?;
            let grouped = grid.create_bound::<Swarm>(&group, vec![Ix1(0)], |_| ()).await;
            assert_eq!(grouped.err(), Some(GridError::BoundToGroup));
            // After these failures, a collection is bound at some indices of the base.
            let some = grid.create_bound::<Swarm>(&cells, vec![Ix1(3), Ix1(0)], |_| ()).await?;
            assert_eq!(count(&some).await?, 2);
            Ok(())
        })
    });
    let job = Job::new("bound").deterministic::<Cell>().actor::<Swarm>().main(async |grid| {
        let cells = grid.create::<Cell>(Ix1::range(4), |_| ()).await?;
        grid.create_bound::<Swarm>(&cells, Ix1::range(4), |_| ()).await?;
        Ok(())
    });
    let error = embedded::run(job, 2).unwrap_err().to_string();
    assert!(error.contains("Cell was declared deterministic"), "{error}");
}

#[test]
fn partners_too_large_to_move_stay_where_they_are() {
    let job = || {
        job().actor::<Block>().main(async |grid| {
            let blocks = grid.create::<Block>(vec![Ix1(0)], |_| 10).await?;
            let bound = grid.create_bound::<Block>(&blocks, vec![Ix1(0)], |_| 61 << 20).await?;
            let last = PeId(grid.layout().pe_count() - 1);
            blocks.member(Ix1(0)).send(Shift::To(last));
            grid.quiescence().await?;
            for block in [&blocks, &bound] {
                assert_eq!(block.member(Ix1(0)).ask(ASK, Shift::Where).await?, PeId(0));
            }
            bound.member(Ix1(0)).send(Shift::Shrink);
            bound.member(Ix1(0)).send(Shift::To(last));
            grid.quiescence().await?;
            for block in [&blocks, &bound] {
                assert_eq!(block.member(Ix1(0)).ask(ASK, Shift::Where).await?, last);
            }
            Ok(())
        })
    };
    everywhere(job);
}

/// An actor of a given size.
#[derive(Serialize, Deserialize)]
struct Block(Vec<u8>);

#[derive(Clone, Serialize, Deserialize)]
enum Shift {
    To(PeId),
    Shrink,
    Where(Reply<PeId>),
}

impl Actor for Block {
    type Index = Ix1;
    /// Its size in bytes.
    type Init = u32;
    type Message = Shift;

    fn create(bytes: u32, _cx: &mut Context<'_, Self>) -> Self {
        Self(vec![1; bytes as usize])
    }

    fn handle(&mut self, message: Shift, cx: &mut Context<'_, Self>) {
        match message {
            Shift::To(pe) => cx.migrate_to(pe),
            Shift::Shrink => self.0.truncate(10),
            Shift::Where(reply) => cx.reply(reply, cx.pe()),
        }
    }
}

/// Moves on to the next PE when it arrives for the first time.
#[derive(Serialize, Deserialize)]
struct Rover {
    arrivals: u32,
}

impl Actor for Rover {
    type Index = Ix1;
    type Init = ();
    type Message = PeId;

    fn create((): (), _cx: &mut Context<'_, Self>) -> Self {
        Self { arrivals: 0 }
    }

    fn handle(&mut self, to: PeId, cx: &mut Context<'_, Self>) {
        cx.migrate_to(to);
    }

    fn arrived(&mut self, cx: &mut Context<'_, Self>) {
        self.arrivals += 1;
        if self.arrivals == 1 {
            cx.migrate_to(PeId((cx.pe().0 + 1) % cx.layout().pe_count()));
        }
    }
}

/// Ends when it arrives.
#[derive(Serialize, Deserialize)]
struct Mayfly;

impl Actor for Mayfly {
    type Index = Ix1;
    type Init = ();
    type Message = ();

    fn create((): (), _cx: &mut Context<'_, Self>) -> Self {
        Self
    }

    fn handle(&mut self, (): (), cx: &mut Context<'_, Self>) {
        cx.contribute(Op::Sum, 1_u64, To::main());
    }

    fn arrived(&mut self, cx: &mut Context<'_, Self>) {
        cx.destroy();
    }
}

#[test]
fn a_member_that_ends_on_arrival_ends_although_its_partner_moves_on() {
    everywhere(|| {
        Job::new("ends").actor::<Rover>().actor::<Mayfly>().main(async |grid| {
            let pes = grid.layout().pe_count();
            if pes == 1 {
                return Ok(());
            }
            let rovers =
                grid.create_placed::<Rover>(Placement::RoundRobin, indices(), |_| ()).await?;
            let flies = grid.create_bound::<Mayfly>(&rovers, indices(), |_| ()).await?;
            // The member at index 0 stays.
            for index in 1..MEMBERS {
                rovers.member(Ix1(index as i32)).send(PeId((index + 1) % pes));
            }
            grid.quiescence().await?;
            flies.broadcast(());
            assert_eq!(flies.reduction::<u64>(Op::Sum).await?, 1);
            Ok(())
        })
    });
}

#[test]
fn members_on_demand_can_be_a_base_once_they_exist() {
    everywhere(|| {
        let job = Job::new("base on demand").actor::<Mayfly>();
        job.on_demand::<Rover>(CreateAt::Home, |_| ()).main(async |grid| {
            let rovers = grid.create::<Rover>(vec![Ix1(0)], |_| ()).await?;
            let bound = grid.create_bound::<Mayfly>(&rovers, vec![Ix1(5)], |_| ()).await;
            assert!(matches!(bound, Err(GridError::NoPartner { .. })), "no message has created it");
            rovers.member(Ix1(5)).send(PeId(0));
            grid.quiescence().await?;
            let flies = grid.create_bound::<Mayfly>(&rovers, vec![Ix1(5)], |_| ()).await?;
            flies.broadcast(());
            assert_eq!(flies.reduction::<u64>(Op::Sum).await?, 1);
            let kind = grid.create_bound::<Rover>(&rovers, vec![Ix1(0)], |_| ()).await;
            assert!(matches!(kind, Err(GridError::BoundOnDemand(_))));
            Ok(())
        })
    });
}

#[test]
fn members_that_checkpoints_leave_out_cannot_be_the_base_of_others() {
    everywhere(|| {
        let job = Job::new("transient base").actor::<Mayfly>();
        job.transient::<Rover>().main(async |grid| {
            let rovers = grid.create::<Rover>(vec![Ix1(0)], |_| ()).await?;
            let kept = grid.create_bound::<Mayfly>(&rovers, vec![Ix1(0)], |_| ()).await;
            let Err(GridError::BoundToTransient { base, bound }) = kept else {
                panic!("a member would be restored without its partner");
            };
            assert!(base.ends_with("Rover") && bound.ends_with("Mayfly"), "{base}, {bound}");
            grid.create_bound::<Rover>(&rovers, vec![Ix1(0)], |_| ()).await?;
            let flies = grid.create::<Mayfly>(vec![Ix1(0)], |_| ()).await?;
            grid.create_bound::<Rover>(&flies, vec![Ix1(0)], |_| ()).await?;
            Ok(())
        })
    });
}
