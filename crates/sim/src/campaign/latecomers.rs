//! Latecomers: actors that the first message to them creates. Main and latecomers send to random
//! indices, many of which have no member at the time. Latecomers form two collections, and a
//! section across both has reductions.

use super::ballast::Ballast;
use super::broadcasts::LARGE_AMID_ONE_IN;
use super::ledger::{self, MAIN};
use super::rounds::{Kind, Total, ops};
use bytes::Bytes;
use gridspan_runtime::{
    Actor, ActorRef, Collection, Context, Grid, Ix1, JobError, PeId, Placement, Priority,
    Reduction, Reply, SectionRef, To, Unordered,
};
use gridspan_topology::dice::Dice;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Number of indices to which latecomers send.
const INDICES: u32 = 30;
/// Number of members that each collection has from the start. They never end.
const FIRST: u32 = 3;
/// Number of members of the section: those of both collections that never end.
const SECTION: u64 = 2 * 7;
/// Main sends fewer messages than this at each opportunity.
const KICKS_MAX: u64 = 5;
/// Probability that main counts the members at an opportunity.
const COUNT: f64 = 0.25;
/// Probability of a reduction over the section at an opportunity.
const SUM: f64 = 0.4;
/// Probability that a member migrates after its random actions.
const MIGRATE: f64 = 0.15;
/// Probability that a member ends after its random actions, unless it is one that never ends.
const END: f64 = 0.2;
/// The longest wait for an answer of a member that never ends.
const PATIENT: Duration = Duration::from_secs(60);
/// The longest wait for an answer of a member that may end before it answers.
const IMPATIENT: Duration = Duration::from_millis(300);

/// Whether the member of this index never ends, once it exists.
fn stays(index: i32) -> bool {
    index < FIRST as i32 || index % 7 == 4
}

/// A member, which knows nothing but its index when it is created.
#[derive(Serialize, Deserialize)]
pub(super) struct Latecomer {
    moves: u32,
    ballast: Ballast,
}

/// A message to a latecomer. The numbers are those of the model.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Late {
    Act {
        number: u64,
        left: u8,
    },
    Question {
        number: u64,
        token: u64,
        reply: Reply<u64>,
    },
    Answer {
        token: u64,
        value: Option<u64>,
        must: bool,
    },
    /// A broadcast.
    Hear {
        number: u64,
        load: Bytes,
    },
    /// An unordered broadcast.
    Unordered {
        number: u64,
        load: Bytes,
    },
    /// A broadcast: contribute to a reduction to main.
    Count {
        number: u64,
        round: u64,
    },
    /// A multicast: contribute to a reduction over the section.
    Sum {
        number: u64,
        round: u64,
        section: SectionRef<Latecomer>,
        to: ActorRef<Latecomer>,
    },
    /// The result of a reduction over the section.
    Result {
        round: u64,
        total: Box<Total>,
    },
}

impl Actor for Latecomer {
    type Index = Ix1;
    type Init = ();
    type Message = Late;

    fn create((): (), cx: &mut Context<'_, Self>) -> Self {
        let (id, pe) = (cx.me().id(), cx.pe());
        let ballast = ledger::with(|ledger| {
            ledger.created(id, pe);
            Ballast::of(ledger)
        });
        Self { moves: 0, ballast }
    }

    fn handle(&mut self, message: Late, cx: &mut Context<'_, Self>) {
        let (id, pe) = (cx.me().id(), cx.pe());
        ledger::with(|ledger| ledger.runs(id, pe, self.moves));
        match message {
            Late::Act { number, left } => {
                ledger::with(|ledger| ledger.handled(id, number));
                act(left, cx);
            }
            Late::Question { number, token, reply } => {
                ledger::with(|ledger| ledger.handled(id, number));
                cx.reply(reply, !token);
            }
            Late::Answer { token, value, must } => {
                ledger::with(|ledger| ledger.answered(token, value, must));
            }
            Late::Hear { number, load } => {
                ledger::with(|ledger| ledger.handled_broadcast(id, number, &load));
            }
            Late::Unordered { number, load } => {
                ledger::with(|ledger| ledger.handled_unordered(id, number, &load));
            }
            Late::Count { number, round } => {
                let contribution = ledger::with(|ledger| {
                    ledger.handled_broadcast(id, number, &[]);
                    ledger.contributed(id, round)
                });
                cx.contribute(ops(), contribution, To::main());
            }
            Late::Sum { number, round, section, to } => {
                let contribution = ledger::with(|ledger| {
                    ledger.handled(id, number);
                    ledger.contributed(id, round)
                });
                let to = To::member(to, round as u32);
                cx.contribute_to_section(&section, ops(), contribution, to);
            }
            Late::Result { round, total } => ledger::with(|ledger| {
                ledger.result(id, round, &total);
                ledger.actions.across += 1;
                let count = total.1.count;
                if count != SECTION {
                    ledger.violated(format!("{count} members contributed to round {round}"));
                }
            }),
        }
        if let Some(problem) = ledger::with(|ledger| ledger.problem().map(str::to_owned)) {
            cx.fail(problem);
        }
    }

    fn reduced(reduction: Reduction) -> Option<Late> {
        let round = u64::from(reduction.tag);
        Some(Late::Result { round, total: Box::new(reduction.get()?) })
    }

    fn arrived(&mut self, cx: &mut Context<'_, Self>) {
        self.moves += 1;
        let (id, pe, moves) = (cx.me().id(), cx.pe(), self.moves);
        ledger::with(|ledger| ledger.arrived(id, pe, moves));
    }
}

/// Takes up to three random actions, and then may migrate or end.
fn act(left: u8, cx: &mut Context<'_, Latecomer>) {
    for _ in 0..ledger::with(|ledger| ledger.dice.below(4_u32)) {
        match ledger::with(|ledger| ledger.dice.below(20_u32)) {
            0..12 if left > 0 => send(left - 1, cx),
            12..16 if stays(cx.index().0) => ask(cx),
            16 => broadcast(cx),
            17 => broadcast_unordered(cx),
            _ => {}
        }
    }
    let pes = cx.layout().pe_count();
    let to =
        ledger::with(|ledger| ledger.dice.chance(MIGRATE).then(|| PeId(ledger.dice.below(pes))));
    to.into_iter().for_each(|pe| cx.migrate_to(pe));
    if !stays(cx.index().0) && ledger::with(|ledger| ledger.dice.chance(END)) {
        cx.destroy();
        // This is the last action, because messages from this member to itself would be dropped
        // from here on.
        let me = cx.me().id();
        ledger::with(|ledger| ledger.destroyed(me));
    }
}

/// A random member, whether it exists or not.
fn anyone(cx: &Context<'_, Latecomer>) -> ActorRef<Latecomer> {
    cx.collection().at(Ix1(ledger::with(|ledger| ledger.dice.below(INDICES)) as i32))
}

fn send(left: u8, cx: &mut Context<'_, Latecomer>) {
    let (me, to) = (cx.me().id(), anyone(cx));
    let (priority, burst) = ledger::with(|ledger| {
        (ledger.dice.one_of(&[0, 0, 0, -1, 3]), 1 + ledger.dice.below(3_u32))
    });
    for position in 0..burst {
        let number = ledger::with(|ledger| ledger.sent(me, &[to.id()], priority));
        let left = if position == 0 { left } else { 0 };
        cx.send_with(Priority(priority), &to, Late::Act { number, left });
    }
}

fn ask(cx: &mut Context<'_, Latecomer>) {
    let (me, to) = (cx.me().id(), anyone(cx));
    let (token, number) = ledger::with(|ledger| {
        ledger.actions.questions += 1;
        (ledger.begun(me), ledger.sent(me, &[to.id()], 0))
    });
    let must = stays(to.index().0);
    cx.ask(
        &to,
        if must { PATIENT } else { IMPATIENT },
        |reply| Late::Question { number, token, reply },
        move |answer| Late::Answer { token, value: answer.ok(), must },
    );
}

fn broadcast(cx: &mut Context<'_, Latecomer>) {
    let (me, all) = (cx.me().id(), cx.collection());
    let (number, load) =
        ledger::with(|ledger| ledger.asked_broadcast(me, all.id(), LARGE_AMID_ONE_IN));
    cx.broadcast(&all, Late::Hear { number, load });
}

fn broadcast_unordered(cx: &mut Context<'_, Latecomer>) {
    let all = cx.collection();
    let (number, load) = ledger::with(|ledger| ledger.sent_unordered(all.id()));
    cx.broadcast_with(Unordered, &all, Late::Unordered { number, load });
}

/// The members of both collections that never end.
fn staying(collections: &[Collection<Latecomer>; 2]) -> impl Iterator<Item = ActorRef<Latecomer>> {
    let indices = || (0..INDICES as i32).filter(|&index| stays(index)).map(Ix1);
    collections.iter().flat_map(move |all| indices().map(|index| all.at(index)))
}

/// The latecomers of a job, as main sees them.
pub(super) struct Latecomers {
    collections: [Collection<Latecomer>; 2],
    /// The members of both collections that never end.
    section: SectionRef<Latecomer>,
    dice: Dice,
}

impl Latecomers {
    /// Creates the first members.
    pub(super) async fn begin(grid: &Grid, mut dice: Dice) -> Result<Self, JobError> {
        let dealt = if dice.chance(0.5) { Placement::RoundRobin } else { Placement::Block };
        let collections = [
            grid.create_placed::<Latecomer>(dealt, Ix1::range(FIRST), |_| ()).await?,
            grid.create_placed::<Latecomer>(Placement::Scatter, Ix1::range(FIRST), |_| ()).await?,
        ];
        ledger::with(|ledger| ledger.on_demand.extend(collections.iter().map(|all| all.id())));
        let section = SectionRef::across(1, staying(&collections));
        Ok(Self { collections, section, dice })
    }

    fn one(&mut self) -> Collection<Latecomer> {
        self.collections[self.dice.below(2_usize)].clone()
    }

    /// Sends messages that create members if they do not exist, and make them act. May start a
    /// reduction over the section.
    pub(super) fn kick(&mut self) {
        for _ in 0..self.dice.below(KICKS_MAX) {
            let all = self.one();
            let index = Ix1(self.dice.below(INDICES) as i32);
            let left = 1 + self.dice.below(4_u32) as u8;
            let number = ledger::with(|ledger| ledger.sent(MAIN, &[all.at(index).id()], 0));
            all.member(index).send(Late::Act { number, left });
        }
        if self.dice.chance(SUM) {
            self.sum();
        }
    }

    /// Starts a reduction over the section by a multicast, which creates members that do not exist.
    fn sum(&mut self) {
        let all = self.one();
        let members: Vec<_> = staying(&self.collections).map(|member| member.id()).collect();
        let (number, round) = ledger::with(|ledger| {
            (ledger.sent(MAIN, &members, 0), ledger.round_begins(None, Kind::Plain))
        });
        let (section, to) = (self.section.clone(), self.collections[1].at(Ix1(0)));
        all.multicast(&self.section, Late::Sum { number, round, section, to });
    }

    /// Decides at random whether main counts the members. It does so once the job is quiescent.
    pub(super) fn wants_count(&mut self) -> bool {
        self.dice.chance(COUNT)
    }

    /// Counts the members of a random collection by a reduction, while none is being created.
    pub(super) async fn count(&mut self) -> Result<(), JobError> {
        let all = self.one();
        let (number, round, living) = ledger::with(|ledger| {
            let round = ledger.round_begins(None, Kind::ToMain);
            // Never large, so that its payload is empty.
            let (number, _) = ledger.asked_broadcast(MAIN, all.id(), u64::MAX);
            (number, round, ledger.living(all.id()).len() as u64)
        });
        all.broadcast(Late::Count { number, round });
        let total: Total = all.reduction(ops()).await?;
        ledger::with(|ledger| {
            ledger.result(MAIN, round, &total);
            let count = total.1.count;
            if count != living {
                ledger.violated(format!("{count} latecomers contributed, but {living} live"));
            }
        });
        Ok(())
    }
}
