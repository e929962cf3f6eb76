//! Partners: members with the same index in a base collection and in up to two collections that are
//! bound to it. They send, broadcast, move, reach sync points, end and are inserted at random.
//! Every handler checks that the model has all partners of the running member on its PE.

use super::ballast::Ballast;
use super::broadcasts::LARGE_AMID_ONE_IN;
use super::ledger::{self, MAIN};
use bytes::Bytes;
use gridspan_runtime::{
    Actor, ActorId, ActorRef, Collection, CollectionRef, Context, Grid, Ix1, JobError, PeId,
    Placement, Priority, Unordered,
};
use gridspan_topology::dice::Dice;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Probability that main makes partners act at each opportunity.
const ACT: f64 = 0.6;
/// Probability that a member migrates whenever it acts.
const MIGRATE: f64 = 0.2;
/// Probability that a member acts when it arrives. If it is much higher, the moves of one rebalance
/// cause other moves for longer than the balancing period, and a job is never quiescent.
const ACT_ON_ARRIVAL: f64 = 0.3;
/// Probability that a bound member ends when it arrives.
const END_ON_ARRIVAL: f64 = 0.03;
/// First index of inserted members.
const FIRST_INSERTED: i32 = 100;

/// The actor of the base collection.
pub(super) type Base = Partner<0>;
/// The actor of bound collections.
pub(super) type Bound = Partner<1>;

/// References to the collections.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Bundle {
    base: CollectionRef<Base>,
    bound: Vec<CollectionRef<Bound>>,
    /// Members of lower indices do not end.
    immortal: i32,
}

/// A message to a partner. The numbers are those of the model.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Errand {
    Meet(Bundle),
    Act { number: u64, left: u32 },
    Hear { number: u64, load: Bytes },
    Unordered { number: u64, load: Bytes },
    Sync { number: u64 },
    End { number: u64 },
}

/// A member of a base collection (0) or of a bound one (1).
#[derive(Serialize, Deserialize)]
pub(super) struct Partner<const ROLE: u8> {
    moves: u32,
    bundle: Option<Bundle>,
    ballast: Ballast,
}

impl<const ROLE: u8> Actor for Partner<ROLE> {
    type Index = Ix1;
    type Init = Option<Bundle>;
    type Message = Errand;

    fn create(bundle: Option<Bundle>, cx: &mut Context<'_, Self>) -> Self {
        let (id, pe) = (cx.me().id(), cx.pe());
        let ballast = ledger::with(|ledger| {
            ledger.created(id, pe);
            ledger.actions.partners += 1;
            Ballast::of(ledger)
        });
        Self { moves: 0, bundle, ballast }
    }

    fn handle(&mut self, errand: Errand, cx: &mut Context<'_, Self>) {
        self.check(cx);
        let id = cx.me().id();
        match errand {
            Errand::Meet(bundle) => self.bundle = Some(bundle),
            Errand::Act { number, left } => {
                ledger::with(|ledger| ledger.handled(id, number));
                self.act(left, cx);
            }
            Errand::Hear { number, load } => {
                ledger::with(|ledger| ledger.handled_broadcast(id, number, &load));
            }
            Errand::Unordered { number, load } => {
                ledger::with(|ledger| ledger.handled_unordered(id, number, &load));
            }
            Errand::Sync { number } => {
                ledger::with(|ledger| {
                    ledger.handled_broadcast(id, number, &[]);
                    ledger.rounds.sync_reached(id);
                });
                cx.at_sync();
            }
            Errand::End { number } => {
                ledger::with(|ledger| ledger.handled(id, number));
                self.end(cx);
            }
        }
        if let Some(problem) = ledger::with(|ledger| ledger.problem().map(str::to_owned)) {
            cx.fail(problem);
        }
    }

    fn resume(&mut self, cx: &mut Context<'_, Self>) {
        self.check(cx);
        let left = ledger::with(|ledger| {
            if let Err(problem) = ledger.rounds.sync_left(cx.me().id()) {
                ledger.violated(problem);
            }
            u32::from(ledger.dice.chance(0.3))
        });
        self.act(left, cx);
    }

    fn arrived(&mut self, cx: &mut Context<'_, Self>) {
        self.moves += 1;
        let (id, pe, moves) = (cx.me().id(), cx.pe(), self.moves);
        let (acts, left) = ledger::with(|ledger| {
            ledger.arrived(id, pe, moves);
            (ledger.dice.chance(ACT_ON_ARRIVAL), u32::from(ledger.dice.chance(0.3)))
        });
        if acts {
            self.act(left, cx);
        }
        // A bound member may end here even if a partner that arrived in the same step has decided
        // to move again. A member of the base does not end here: the model would not expect the
        // partners that arrive after it.
        if ROLE != 0 && ledger::with(|ledger| ledger.dice.chance(END_ON_ARRIVAL)) {
            self.end(cx);
        }
    }
}

impl<const ROLE: u8> Partner<ROLE> {
    /// Checks that this member is where the model expects it, and its partners with it.
    fn check(&self, cx: &Context<'_, Self>) {
        let (id, pe) = (cx.me().id(), cx.pe());
        ledger::with(|ledger| ledger.runs(id, pe, self.moves));
        for (other, place) in ledger::with(|ledger| ledger.partners(id)) {
            let is_here = self.bundle.as_ref().is_none_or(|bundle| bundle.has_here(other, cx));
            if place != pe || !is_here {
                ledger::with(|ledger| {
                    ledger
                        .violated(format!("{id:?} runs on {pe}, its partner {other:?} on {place}"))
                });
            }
        }
    }

    /// Sends `left` messages, but no more than two, to random members, and may broadcast and
    /// migrate.
    fn act(&mut self, left: u32, cx: &mut Context<'_, Self>) {
        let Some(bundle) = &self.bundle else { return };
        let me = cx.me().id();
        for _ in 0..left.min(2) {
            let to = bundle.anyone(me);
            bundle.send(to, left - 1, cx);
        }
        match ledger::with(|ledger| ledger.dice.below(40_u32)) {
            0 => bundle.broadcast(cx),
            1 => bundle.broadcast_unordered(cx),
            _ => {}
        }
        let pes = cx.layout().pe_count();
        let goes = ledger::with(|ledger| {
            ledger.dice.chance(MIGRATE).then(|| PeId(ledger.dice.below(pes)))
        });
        goes.into_iter().for_each(|pe| cx.migrate_to(pe));
        cx.charge(Duration::from_micros(ledger::with(|ledger| ledger.dice.below(200))));
    }

    /// Ends this member unless it must stay, a collection is being bound, or a partner is expected.
    /// If it is a member of the base, its partners end too.
    fn end(&self, cx: &mut Context<'_, Self>) {
        let me = cx.me().id();
        let may_end = self.bundle.as_ref().is_some_and(|bundle| cx.index().0 >= bundle.immortal);
        ledger::with(|ledger| {
            if !may_end || ledger.bonds.is_growing || ledger.awaits_partners(me) {
                return;
            }
            cx.destroy();
            let partners = ledger.partners(me).into_iter().map(|(id, _)| id);
            let with = partners.filter(|_| ROLE == 0).chain([me]);
            with.for_each(|id| ledger.destroyed(id));
        });
    }
}

impl Bundle {
    fn has_here<A: Actor>(&self, id: ActorId, cx: &Context<'_, A>) -> bool {
        if id.collection == self.base.id() {
            return cx.is_here(&self.base.at(Ix1(id.key.0 as u32 as i32)));
        }
        self.member(id).is_none_or(|bound| cx.is_here(&bound))
    }

    /// Returns a random member: with probability 0.6 a partner of `id`, if `id` has one.
    fn anyone(&self, id: ActorId) -> ActorId {
        ledger::with(|ledger| {
            let mut partners = ledger.partners(id);
            partners.retain(|(id, _)| self.knows(*id));
            if !partners.is_empty() && ledger.dice.chance(0.6) {
                return ledger.dice.one_of(&partners).0;
            }
            let of = ledger.dice.below(1 + self.bound.len() as u64) as usize;
            let of = if of == 0 { self.base.id() } else { self.bound[of - 1].id() };
            let living = ledger.living(of);
            ledger.dice.one_of(&living)
        })
    }

    /// Whether this holds a reference to the collection of this member. The reference to the last
    /// collection arrives after members of that collection exist.
    fn knows(&self, id: ActorId) -> bool {
        id.collection == self.base.id() || self.member(id).is_some()
    }

    fn send<A: Actor>(&self, to: ActorId, left: u32, cx: &mut Context<'_, A>) {
        let me = cx.me().id();
        let (priority, number) = ledger::with(|ledger| {
            let priority = ledger.dice.one_of(&[0, 0, 0, 2]);
            (priority, ledger.sent(me, &[to], priority))
        });
        let errand = Errand::Act { number, left };
        match self.member(to) {
            Some(bound) => cx.send_with(Priority(priority), &bound, errand),
            None => {
                let base = self.base.at(Ix1(to.key.0 as u32 as i32));
                cx.send_with(Priority(priority), &base, errand);
            }
        }
    }

    /// The bound member of this identity. `None` for one of the base or of a collection that is not
    /// known here.
    fn member(&self, id: ActorId) -> Option<ActorRef<Bound>> {
        let bound = self.bound.iter().find(|bound| bound.id() == id.collection)?;
        Some(bound.at(Ix1(id.key.0 as u32 as i32)))
    }

    fn broadcast<A: Actor>(&self, cx: &mut Context<'_, A>) {
        let me = cx.me().id();
        let one = ledger::with(|ledger| ledger.dice.below(1 + self.bound.len() as u64) as usize);
        let id = if one == 0 { self.base.id() } else { self.bound[one - 1].id() };
        let (number, load) =
            ledger::with(|ledger| ledger.asked_broadcast(me, id, LARGE_AMID_ONE_IN));
        let errand = Errand::Hear { number, load };
        match one {
            0 => cx.broadcast(&self.base, errand),
            _ => cx.broadcast(&self.bound[one - 1], errand),
        }
    }

    fn broadcast_unordered<A: Actor>(&self, cx: &mut Context<'_, A>) {
        for bound in &self.bound {
            let (number, load) = ledger::with(|ledger| ledger.sent_unordered(bound.id()));
            cx.broadcast_with(Unordered, bound, Errand::Unordered { number, load });
        }
    }
}

/// The bound collections of a job.
pub(super) struct Partners {
    base: Collection<Base>,
    bound: Vec<Collection<Bound>>,
    members: u32,
    /// Whether members are inserted and end. Otherwise they reach sync points: the runtime does not
    /// guarantee whether a new member takes part in one that has begun.
    is_changing: bool,
    inserted: i32,
    dice: Dice,
}

impl Partners {
    /// Creates a base collection whose members move, and a collection that is bound to it.
    pub(super) async fn begin(grid: &Grid, mut dice: Dice) -> Result<Self, JobError> {
        let members = 2 + dice.below(10_u32);
        let placement = match dice.below(3_u32) {
            0 => Placement::Block,
            1 => Placement::RoundRobin,
            _ => Placement::Scatter,
        };
        let base = grid.create_placed::<Base>(placement, Ix1::range(members), |_| None).await?;
        ledger::with(|ledger| ledger.bonds.add(base.id()));
        let is_changing = dice.chance(0.6);
        let mut partners =
            Self { base, bound: Vec::new(), members, is_changing, inserted: 0, dice };
        partners.meet();
        for index in 0..members as i32 {
            partners.act(Ix1(index), 0);
        }
        partners.bind(grid).await?;
        Ok(partners)
    }

    fn bundle(&self) -> Bundle {
        Bundle {
            base: self.base.reference(),
            bound: self.bound.iter().map(Collection::reference).collect(),
            immortal: if self.is_changing { 1 + self.members as i32 / 2 } else { i32::MAX },
        }
    }

    /// Sends the references to all members of all collections.
    fn meet(&self) {
        let bundle = self.bundle();
        self.base.broadcast(Errand::Meet(bundle.clone()));
        for bound in &self.bound {
            bound.broadcast(Errand::Meet(bundle.clone()));
        }
    }

    /// Binds another collection to the base, or to the last bound one, while members move.
    async fn bind(&mut self, grid: &Grid) -> Result<(), JobError> {
        let base = self.base.id();
        let indices: Vec<Ix1> = ledger::with(|ledger| {
            ledger.bonds.is_growing = true;
            ledger.present(base).into_iter().map(|id| Ix1(id.key.0 as u32 as i32)).collect()
        });
        let bundle = self.bundle();
        let init = |_| Some(bundle.clone());
        let bound = match self.bound.last() {
            Some(last) => grid.create_bound::<Bound>(last, indices, init).await?,
            None => grid.create_bound::<Bound>(&self.base, indices, init).await?,
        };
        ledger::with(|ledger| {
            ledger.bonds.is_growing = false;
            ledger.bonds.add(bound.id());
        });
        self.bound.push(bound);
        self.meet();
        Ok(())
    }

    /// At random, makes partners act, inserts some, and makes some end or reach a sync point. May
    /// bind another collection.
    pub(super) async fn run(&mut self, grid: &Grid) -> Result<(), JobError> {
        if !self.dice.chance(ACT) {
            return Ok(());
        }
        for _ in 0..1 + self.dice.below(4_u32) {
            let base = self.base.id();
            let present = ledger::with(|ledger| ledger.present(base));
            let index = Ix1(self.dice.one_of(&present).key.0 as u32 as i32);
            let left = 1 + self.dice.below(4_u32);
            self.act(index, left);
            if self.is_changing && self.dice.chance(0.3) {
                self.end(index);
            }
        }
        if self.is_changing && self.dice.chance(0.3) {
            self.insert(grid);
        }
        if !self.is_changing && self.dice.chance(0.3) {
            self.synchronise();
        }
        if self.bound.len() < 2 && self.dice.chance(0.3) {
            self.bind(grid).await?;
        }
        Ok(())
    }

    /// Makes the member with this index act, in the base or in the last bound collection.
    fn act(&mut self, index: Ix1, left: u32) {
        let number = |id| ledger::with(|ledger| ledger.sent(MAIN, &[id], 0));
        let key = self.base.at(index).id().key;
        let living = |id| ledger::with(|ledger| ledger.living(id)).iter().any(|it| it.key == key);
        match self.bound.last().filter(|bound| living(bound.id())) {
            Some(bound) if self.dice.chance(0.6) => {
                let number = number(bound.at(index).id());
                bound.member(index).send(Errand::Act { number, left });
            }
            _ => {
                let number = number(self.base.at(index).id());
                self.base.member(index).send(Errand::Act { number, left });
            }
        }
    }

    fn end(&mut self, index: Ix1) {
        let number = |id| ledger::with(|ledger| ledger.sent(MAIN, &[id], 0));
        match self.bound.first() {
            Some(bound) if self.dice.chance(0.5) => {
                let number = number(bound.at(index).id());
                bound.member(index).send(Errand::End { number });
            }
            _ => {
                let number = number(self.base.at(index).id());
                self.base.member(index).send(Errand::End { number });
            }
        }
    }

    /// Chooses an index, and inserts a member with it into each collection that has none, in random
    /// order.
    fn insert(&mut self, grid: &Grid) {
        let gone = ledger::with(|ledger| ledger.lacking(self.base.id()));
        let index = match gone.is_empty() || self.dice.chance(0.3) {
            true => {
                self.inserted += 1;
                Ix1(FIRST_INSERTED + self.inserted)
            }
            false => Ix1(self.dice.one_of(&gone).0 as u32 as i32),
        };
        let bundle = self.bundle();
        let pes = grid.layout().pe_count();
        let mut order: Vec<usize> = (0..=self.bound.len()).collect();
        self.dice.shuffle(&mut order);
        for which in order {
            let pe = PeId(self.dice.below(pes));
            let id = if which == 0 { self.base.id() } else { self.bound[which - 1].id() };
            let id = ActorId { collection: id, ..self.base.at(index).id() };
            if !ledger::with(|ledger| ledger.may_insert(id)) {
                continue;
            }
            let number = ledger::with(|ledger| {
                ledger.insertion_asked(id);
                ledger.sent(MAIN, &[id], 0)
            });
            let (init, act) = (Some(bundle.clone()), Errand::Act { number, left: 1 });
            match which {
                0 => {
                    self.base.insert_on(index, init, pe);
                    self.base.member(index).send(act);
                }
                _ => {
                    self.bound[which - 1].insert_on(index, init, pe);
                    self.bound[which - 1].member(index).send(act);
                }
            }
        }
    }

    /// Makes the members of a random collection go to their sync point.
    fn synchronise(&mut self) {
        let which = self.dice.below(1 + self.bound.len() as u64) as usize;
        let id = if which == 0 { self.base.id() } else { self.bound[which - 1].id() };
        let (number, _) = ledger::with(|ledger| {
            ledger.rounds.sync_begins(id);
            ledger.asked_broadcast(MAIN, id, u64::MAX)
        });
        match which {
            0 => self.base.broadcast(Errand::Sync { number }),
            _ => self.bound[which - 1].broadcast(Errand::Sync { number }),
        }
    }
}
