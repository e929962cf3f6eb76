//! Identifiers of actors, collections, sections, actor types, and slots on a PE.

use crate::address::index::Key;
use gridspan_topology::{PeId, Time};
use serde::{Deserialize, Serialize};

/// The PE that runs beside main and sends main's requests.
pub const MAIN_PE: PeId = PeId(0);

/// The address of the coordinator, on whichever node it runs. No PE has this number.
pub const COORDINATOR: PeId = PeId(u32::MAX);

/// Number of a collection, unique within the job.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct CollectionId(pub u32);

impl CollectionId {
    /// The collection of senders that are not actors: main and the timers, asks and reductions of a
    /// PE.
    pub(crate) const SYSTEM: Self = Self(u32::MAX);
}

/// Identifies a member of any collection of the job.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct ActorId {
    /// The collection that the actor belongs to.
    pub collection: CollectionId,
    /// The actor's index in the collection, packed.
    pub key: Key,
}

impl ActorId {
    /// Splits the id into plain values, for a call to an outlined function on a rarely taken path.
    /// An id passed by reference would have to lie in memory from the start, and paths without the
    /// call would load it from there, too.
    #[inline(always)]
    pub(crate) fn apart(self) -> (CollectionId, u128) {
        (self.collection, self.key.0)
    }

    /// Rebuilds an id from the values that [`apart`](Self::apart) returned.
    #[inline(always)]
    pub(crate) fn joined((collection, key): (CollectionId, u128)) -> Self {
        Self { collection, key: Key(key) }
    }

    /// The sender id of messages that a PE itself sends.
    pub(crate) fn system(pe: PeId) -> Self {
        Self { collection: CollectionId::SYSTEM, key: Key(u128::from(pe.0)) }
    }
}

/// Identifies a section, unique within the job. `collection` is the first collection that has
/// members in the section.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct SectionId {
    pub(crate) collection: CollectionId,
    pub(crate) name: u64,
}

/// The position of an actor type in the job's definition.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub(crate) struct KindId(pub(crate) u16);

impl KindId {
    pub(crate) fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// Where an actor lives on its PE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    pub(crate) kind: KindId,
    pub(crate) index: u32,
}

/// The sender of a message.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Sender {
    /// The PE itself: for main, and when a timer fires or an answer arrives.
    Pe,
    /// The actor whose handler runs.
    Actor(Slot),
}

/// Identifies a delayed message, to [cancel](crate::Context::cancel) it.
///
/// ```
/// # use gridspan::{embed::Runner, prelude::*};
/// # #[derive(Serialize, Deserialize)]
/// # struct Cell(u64);
/// impl Actor for Cell {
///     # type Index = Ix1;
///     # type Init = ();
///     # type Message = u64;
///     # fn create((): (), _cx: &mut Context<Self>) -> Self { Cell(0) }
///     fn handle(&mut self, number: u64, cx: &mut Context<Self>) {
///         match number {
///             0 => {
///                 let me = cx.me();
///                 let alarm: Timer = cx.send_after(Duration::from_secs(60), &me, 2);
///                 cx.send_after(Duration::from_millis(1), &me, 1);
///                 cx.cancel(alarm);
///             }
///             number => cx.contribute(Sum, number, To::main()),
///         }
///     }
/// }
/// # let job = Job::new("cells").actor::<Cell>().main(async |grid: Grid| {
/// # let cells = grid.create::<Cell>(Ix1::range(3), |_| ()).await?;
/// # cells.broadcast(0);
/// # assert_eq!(cells.reduction::<u64>(Sum).await?, 3);
/// # Ok(())
/// # });
/// # Runner::on_threads(2).run(job).unwrap();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timer {
    pub(crate) pe: PeId,
    pub(crate) at: Time,
    /// Distinguishes timers that are due at the same time.
    pub(crate) number: u64,
}

/// A phase of a job that ends when completion is detected. Made by
/// [`Grid::phase`](crate::Grid::phase), and sent to the actors that take part in it.
///
/// ```
/// # use gridspan::{embed::Runner, prelude::*};
/// # #[derive(Serialize, Deserialize)]
/// # struct Cell(u64);
/// impl Actor for Cell {
///     # type Index = Ix1;
///     # type Init = ();
///     # type Message = (Phase, bool);
///     # fn create((): (), _cx: &mut Context<Self>) -> Self { Cell(0) }
///     fn handle(&mut self, (phase, is_first): (Phase, bool), cx: &mut Context<Self>) {
///         if is_first {
///             let next = cx.collection().at(Ix1((cx.index().0 + 1) % 10));
///             cx.send(&next, (phase, false));
///             cx.produce(phase, 1);
///             cx.producer_done(phase);
///         } else {
///             cx.consume(phase, 1);
///         }
///     }
/// }
/// # let job = Job::new("cells").actor::<Cell>().main(async |grid: Grid| {
/// let cells = grid.create::<Cell>(Ix1::range(10), |_| ()).await?;
/// let phase: Phase = grid.phase(10);
/// cells.broadcast((phase, true));
/// grid.completion(phase).await?; // all ten messages were received
/// # Ok(())
/// # });
/// # Runner::on_threads(2).run(job).unwrap();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Phase {
    pub(crate) number: u32,
    pub(crate) producers: u64,
}

/// Number of a rebalance. Rebalances are counted from one, and run one at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct RebalanceId(pub(crate) u64);
