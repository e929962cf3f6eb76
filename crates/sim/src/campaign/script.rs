//! The main function of the campaign's job: periods of random activity, with checks in between.

use super::broadcasts::LARGE_ONE_IN;
use super::carriers::Phases;
use super::forwarder::{Forwarder, Forwarders};
use super::latecomers::Latecomers;
use super::ledger::{self, MAIN};
use super::numbered::Numbered;
use super::orders::{Call, FIRST_INSERTED, Freedom, Receiver, in_section};
use super::partners::Partners;
use super::pools;
use super::random_actor::{Msg, RandomActor, World};
use super::reader::Reader;
use super::rounds::{Kind, Total, ops};
use gridspan_runtime::{
    ActorId, Collection, Grid, GridError, Ix1, JobError, NodeId, PeId, Placement, Priority,
};
use gridspan_topology::dice::Dice;
use std::time::Duration;

/// The longest wait for an answer to main.
const CENSUS_TIMEOUT: Duration = Duration::from_secs(60);
/// The longest pause between two broadcasts of one member: longer than a round trip.
const ROOT_REST_MAX: Duration = Duration::from_millis(250);
/// The longest pause between two periods of activity.
const REST_MAX: Duration = Duration::from_secs(2);

/// Probability that the coordinator moves in a period of activity, in scenarios in which it moves.
const MOVE: f64 = 0.3;

/// Settings of the job.
pub(super) struct Plan {
    pub(super) duration: Duration,
    pub(super) old: u32,
    pub(super) young: u32,
    pub(super) forwarders: u32,
    /// Probability that an arriving member is refused.
    pub(super) refusal: f64,
    pub(super) placement: Placement,
    pub(super) has_tasks: bool,
    /// Dice for phases, if there are any.
    pub(super) phases: Option<Dice>,
    /// Dice for members that are created on demand, if there are any.
    pub(super) late: Option<Dice>,
    /// Dice for collections that are bound to each other, if there are any.
    pub(super) partners: Option<Dice>,
    /// Dice for the moves of the coordinator, if it moves.
    pub(super) moves: Option<Dice>,
}

/// State of the main function.
struct Main<I> {
    grid: Grid,
    old: Collection<RandomActor<I>>,
    young: Collection<RandomActor<I>>,
    world: World<I>,
    /// Whether insertions may be under way. They never overlap with reductions of the young
    /// collection, because the runtime does not guarantee whether a new member takes part in a
    /// reduction that has begun.
    inserting: bool,
    /// Whether a reduction or a sync point of the young collection, into which members are
    /// inserted, may be under way.
    reducing: bool,
    has_tasks: bool,
    phases: Option<Phases>,
    late: Option<Latecomers>,
    partners: Option<Partners>,
    moves: Option<Dice>,
    /// Reductions to main that main has not awaited, by collection (`true` for the old one) and
    /// round.
    awaited: Vec<(bool, u64)>,
}

/// Runs the job, with an index of type `I` for the members of the main collections.
pub(super) async fn run<I: Numbered>(grid: Grid, plan: Plan) -> Result<(), JobError> {
    ledger::with(|ledger| ledger.refusal = plan.refusal);
    let (old, young) = (I::first(plan.old), I::first(plan.young));
    let old = grid.create_placed::<RandomActor<I>>(plan.placement, old, |_| None).await?;
    let young = grid.create::<RandomActor<I>>(young, |_| None).await?;
    let readers = grid.create::<Reader>(Ix1::range(plan.old), |_| ()).await?;
    let told = readers.reference();
    let forwarders = grid.create::<Forwarder>(Ix1::range(plan.forwarders), |_| told).await?;
    let every = forwarders.section(1, (0..plan.forwarders as i32).map(Ix1));
    let members = (0..plan.old as i32).filter(|&index| in_section(index)).map(I::of);
    let world = World {
        old: old.reference(),
        young: young.reference(),
        immortal: 1 + plan.young as i32 / 2,
        section: old.section(1, members),
        forwarders: Forwarders { all: forwarders.reference(), section: every },
        pes: grid.layout().pe_count(),
    };
    // The model takes the order of the broadcasts to a collection from members that existed before
    // the first of them.
    let late = match plan.late {
        Some(dice) => Some(Latecomers::begin(&grid, dice).await?),
        None => None,
    };
    old.broadcast(Msg::Meet(world.clone()));
    young.broadcast(Msg::Meet(world.clone()));
    let phases = match plan.phases {
        Some(dice) => Some(Phases::begin(&grid, dice).await?),
        None => None,
    };
    let partners = match plan.partners {
        Some(dice) => Some(Partners::begin(&grid, dice).await?),
        None => None,
    };
    let mut main = Main {
        grid,
        old,
        young,
        world,
        inserting: false,
        reducing: false,
        has_tasks: plan.has_tasks,
        phases,
        late,
        partners,
        moves: plan.moves,
        awaited: Vec::new(),
    };
    main.quiescence().await?;
    while main.grid.now().await?.as_nanos() < plan.duration.as_nanos() as u64 {
        main.phase().await?;
    }
    main.settle().await?;
    main.census().await
}

/// Fails if the model has found a violation.
fn check() -> Result<(), JobError> {
    match ledger::with(|ledger| ledger.problem().map(str::to_owned)) {
        Some(problem) => Err(JobError::Failed(problem)),
        None => Ok(()),
    }
}

impl<I: Numbered> Main<I> {
    async fn phase(&mut self) -> Result<(), JobError> {
        let (kicks, rest, kind, insert) = ledger::with(|ledger| {
            let kicks = 1 + ledger.dice.below(6);
            let rest = ledger.dice.any_scale_up_to(REST_MAX);
            (kicks, rest, ledger.dice.below(10_u32), ledger.dice.chance(0.3))
        });
        let freedom = Freedom { insert: insert && kind < 6, destroy: true, migrate: true };
        if freedom.insert && self.reducing {
            self.settle().await?;
        }
        self.inserting |= freedom.insert;
        self.kick(kicks, freedom);
        match kind {
            0..6 => self.reduce(false),
            6..8 => {
                if self.inserting {
                    self.settle().await?;
                }
                self.reduce(true);
                self.reducing = true;
            }
            8 => {
                self.settle().await?;
                self.synchronise();
                self.reducing = true;
                self.kick(kicks, Freedom { insert: false, ..freedom });
            }
            _ => self.settle().await?,
        }
        self.move_coordinator().await?;
        self.act_late().await?;
        if let Some(phases) = &mut self.phases {
            phases.run(&self.grid).await?;
        }
        if let Some(partners) = &mut self.partners {
            partners.run(&self.grid).await?;
        }
        let (hurry, stray) =
            ledger::with(|ledger| (ledger.dice.chance(0.3), ledger.dice.chance(0.02)));
        if stray {
            self.send_to_missing_member();
        }
        match ledger::with(|ledger| ledger.dice.below(20_u32)) {
            0..3 => self.broadcast_from_all(),
            3..7 => self.broadcast_from_some().await?,
            _ => {}
        }
        if self.has_tasks && ledger::with(|ledger| ledger.dice.chance(0.3)) {
            pools::count_trees(&self.grid).await?;
        }
        match hurry {
            true => self.settle().await?,
            false => self.grid.sleep(rest).await?,
        }
        check()
    }

    /// Sends messages that create members on demand, and counts such members at random.
    async fn act_late(&mut self) -> Result<(), JobError> {
        let Some(late) = &mut self.late else { return Ok(()) };
        late.kick();
        if !late.wants_count() {
            return Ok(());
        }
        self.settle().await?;
        match &mut self.late {
            Some(late) => late.count().await,
            None => Ok(()),
        }
    }

    /// At random, moves the coordinator while the job runs.
    async fn move_coordinator(&mut self) -> Result<(), JobError> {
        let nodes = self.grid.layout().node_count();
        if let Some(dice) = &mut self.moves
            && dice.chance(MOVE)
        {
            let to = NodeId(dice.below(nodes));
            self.grid.move_coordinator(to).await?;
            ledger::with(|ledger| ledger.actions.moves += 1);
        }
        Ok(())
    }

    /// Sends a message to a member that does not exist, but may be inserted later.
    fn send_to_missing_member(&self) {
        let (index, number) = ledger::with(|ledger| {
            let index = FIRST_INSERTED + (ledger.actions.insertions + ledger.dice.below(3)) as i32;
            (I::of(index), ledger.sent(MAIN, &[self.young.at(I::of(index)).id()], 0))
        });
        let freedom = Freedom { insert: false, destroy: false, migrate: true };
        self.young.member(index).send(Msg::Act { number, left: 1, freedom });
    }

    /// Makes random members act, and may insert a member.
    fn kick(&self, kicks: u64, freedom: Freedom) {
        for _ in 0..kicks {
            let (id, priority, left, number) = ledger::with(|ledger| {
                let of_old = ledger.dice.chance(0.5);
                let living = ledger.living(self.collection(of_old).id());
                let id = ledger.dice.one_of(&living);
                let priority = ledger.dice.one_of(&[0, 0, 5]);
                let left = 1 + ledger.dice.below(3_u32) as u8;
                (id, priority, left, ledger.sent(MAIN, &[id], priority))
            });
            let message = Msg::Act { number, left, freedom };
            self.member(id).send_with(Priority(priority), message);
        }
        if freedom.insert && ledger::with(|ledger| ledger.dice.chance(0.2)) {
            self.insert(freedom);
        }
    }

    /// Starts up to three reductions, and after some of them one over the section. Does not wait
    /// for results.
    fn reduce(&mut self, of_young: bool) {
        let count = ledger::with(|ledger| ledger.dice.below(4_u32));
        for _ in 0..count {
            let (kind, index) = ledger::with(|ledger| {
                let old = ledger.living(self.old.id());
                (ledger.dice.below(5_u32), I::from_key(ledger.dice.one_of(&old).key).number())
            });
            let to = match kind {
                0 => Receiver::AllOld,
                1 => Receiver::AllYoung,
                2 => Receiver::Member(index),
                _ => Receiver::Main,
            };
            let to_all = match to {
                Receiver::AllOld => Some(self.old.id()),
                Receiver::AllYoung => Some(self.young.id()),
                Receiver::Main | Receiver::Member(_) => None,
            };
            let to_main = matches!(to, Receiver::Main);
            let kind = if to_main { Kind::ToMain } else { Kind::Plain };
            let round = ledger::with(|ledger| ledger.round_begins(to_all, kind));
            let of_old = !(of_young && round % 2 == 0);
            if to_main {
                self.awaited.push((of_old, round));
            }
            self.call(of_old, Call::Contribute { round, to });
            if ledger::with(|ledger| ledger.dice.chance(0.3)) {
                let round = ledger::with(|ledger| ledger.round_begins(None, Kind::OfSection));
                self.call(true, Call::ContributeToSection { round });
            }
        }
    }

    /// Makes every member of the old collection broadcast at the same time, so that many nodes are
    /// roots.
    fn broadcast_from_all(&self) {
        let living = ledger::with(|ledger| {
            ledger.actions.from_all_roots += 1;
            ledger.living(self.old.id())
        });
        for id in living {
            let number = ledger::with(|ledger| ledger.sent(MAIN, &[id], 0));
            self.member(id).send(Msg::Broadcast { number });
        }
    }

    /// Makes one or two members broadcast repeatedly, so that the right to number broadcasts passes
    /// to their PEs, and from one to the other.
    async fn broadcast_from_some(&self) -> Result<(), JobError> {
        let (roots, rounds, rest) = ledger::with(|ledger| {
            let living = ledger.living(self.old.id());
            let roots = [(); 2].map(|()| ledger.dice.one_of(&living));
            ledger.actions.from_two_roots += u64::from(roots[0] != roots[1]);
            (roots, 2 + ledger.dice.below(6_u32), ledger.dice.any_scale_up_to(ROOT_REST_MAX))
        });
        for round in 0..rounds {
            let is_secondary = ledger::with(|ledger| round > rounds / 2 && ledger.dice.chance(0.5));
            for id in roots.into_iter().take(1 + usize::from(is_secondary)) {
                let number = ledger::with(|ledger| ledger.sent(MAIN, &[id], 0));
                self.member(id).send(Msg::Broadcast { number });
            }
            self.grid.sleep(rest).await?;
        }
        Ok(())
    }

    /// At random, sends the members of each collection to their sync point.
    fn synchronise(&self) {
        for of_old in [true, false] {
            if ledger::with(|ledger| ledger.dice.chance(0.7)) {
                let collection = self.collection(of_old).id();
                ledger::with(|ledger| ledger.rounds.sync_begins(collection));
                self.call(of_old, Call::Sync);
            }
        }
    }

    fn call(&self, of_old: bool, call: Call) {
        let collection = self.collection(of_old);
        let (number, load) =
            ledger::with(|ledger| ledger.asked_broadcast(MAIN, collection.id(), LARGE_ONE_IN));
        collection.broadcast(Msg::Call { number, call, load });
    }

    fn insert(&self, freedom: Freedom) {
        let (fresh, pe, number) = ledger::with(|ledger| {
            let fresh: I = ledger.free_index(self.young.id(), FIRST_INSERTED);
            let id = self.young.at(fresh).id();
            ledger.insertion_asked(id);
            let pe = ledger.dice.below(u64::from(self.grid.layout().pe_count()));
            (fresh, PeId(pe as u32), ledger.sent(MAIN, &[id], 0))
        });
        self.young.insert_on(fresh, Some(self.world.clone()), pe);
        self.young.member(fresh).send(Msg::Act { number, left: 1, freedom });
    }

    /// Awaits the pending reductions to main and then quiescence. At random, awaits quiescence
    /// before the reductions, too.
    async fn settle(&mut self) -> Result<(), JobError> {
        if ledger::with(|ledger| ledger.dice.chance(0.5)) {
            self.quiescence().await?;
        }
        for (of_old, round) in std::mem::take(&mut self.awaited) {
            let total: Total = self.collection(of_old).reduction(ops()).await?;
            ledger::with(|ledger| ledger.result(MAIN, round, &total));
            check()?;
        }
        self.quiescence().await?;
        (self.inserting, self.reducing) = (false, false);
        Ok(())
    }

    /// Awaits quiescence, which the model checks when the coordinator finds it.
    async fn quiescence(&self) -> Result<(), JobError> {
        let found = || ledger::with(|ledger| ledger.actions.quiescences);
        let before = found();
        self.grid.quiescence().await?;
        if found() == before {
            return Err(JobError::Failed(
                "main received quiescence that the coordinator did not find".to_owned(),
            ));
        }
        check()
    }

    /// Asks every member of both collections a question, waits for each answer, and then for
    /// quiescence.
    async fn census(&self) -> Result<(), JobError> {
        for of_old in [true, false] {
            let living = ledger::with(|ledger| ledger.living(self.collection(of_old).id()));
            for id in living {
                self.ask(id).await.map_err(|error| format!("{id:?} does not answer: {error}"))?;
            }
        }
        self.quiescence().await
    }

    async fn ask(&self, id: ActorId) -> Result<(), GridError> {
        let (token, number) =
            ledger::with(|ledger| (ledger.begun(MAIN), ledger.sent(MAIN, &[id], 0)));
        let question = move |reply| Msg::Question { number, token, reply };
        let answer: u64 = self.member(id).ask(CENSUS_TIMEOUT, question).await?;
        ledger::with(|ledger| {
            ledger.ended(token, "answer");
            if answer != !token {
                ledger.violated(format!("{id:?} answered {answer} to {token}"));
            }
        });
        Ok(())
    }

    fn collection(&self, of_old: bool) -> &Collection<RandomActor<I>> {
        if of_old { &self.old } else { &self.young }
    }

    fn member(&self, id: ActorId) -> gridspan_runtime::Member<RandomActor<I>> {
        let of_old = id.collection == self.old.id();
        self.collection(of_old).member(I::from_key(id.key))
    }
}
