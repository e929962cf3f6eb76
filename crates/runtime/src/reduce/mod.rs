//! Reductions: contributions of members, their combination, and the destination of the result.
//!
//! Contributions travel up a tree and are combined at each node of the tree, in no particular
//! order. To keep results independent of that order, sums of `f64` are exact until the end
//! ([`ExactSum`]) and [`Concat`](Op::Concat) lists its parts by index.

mod exact;
mod flat;
mod op;
mod partial;
mod statistics;
mod value;

pub use exact::ExactSum;
pub use op::{Custom, CustomOp, Op};
pub(crate) use partial::Partial;
pub use statistics::Statistics;
pub use value::{Reducible, Value};

use crate::address::id::{ActorId, CollectionId};
use serde::{Deserialize, Serialize};

/// The result of a reduction, as it reaches an actor.
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
///     fn reduced(found: Reduction) -> Option<u64> {
///         match found.tag {
///             7 => found.get(),
///             _ => None, // ends the job with an error
///         }
///     }
///
///     fn handle(&mut self, number: u64, cx: &mut Context<Self>) {
///         let first = cx.collection().at(Ix1(0));
///         match number {
///             0 => cx.contribute(Sum, 1_u64, To::member(first, 7)),
///             members => self.0 = members,
///         }
///         # let only = cx.collection().section(0, [Ix1(0)]);
///         # if number > 0 { cx.contribute_to_section(&only, Sum, number, To::main()) }
///     }
/// }
/// # let job = Job::new("cells").actor::<Cell>().main(async |grid: Grid| {
/// # let cells = grid.create::<Cell>(Ix1::range(4), |_| ()).await?;
/// # cells.broadcast(0);
/// # let only = cells.section(0, [Ix1(0)]);
/// # assert_eq!(cells.section_reduction::<u64>(&only, Sum).await?, 4);
/// # Ok(())
/// # });
/// # Runner::on_threads(2).run(job).unwrap();
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Reduction {
    /// The collection whose members contributed.
    pub collection: CollectionId,
    /// The tag of the contributions.
    pub tag: u32,
    /// The combined value.
    pub value: Value,
}

impl Reduction {
    /// Returns the value as a `T`, or `None` if members contributed another type.
    pub fn get<T: Reducible>(self) -> Option<T> {
        T::from_value(self.value)
    }
}

/// Destination of the result of a reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Target {
    /// To `main`, which awaits it.
    Main,
    /// To one member, as a message made by `Actor::reduced`.
    Member { to: ActorId, tag: u32 },
    /// To all members of a collection.
    All { to: CollectionId, tag: u32 },
    /// To the runtime: all members have reached their sync point.
    Sync,
}
