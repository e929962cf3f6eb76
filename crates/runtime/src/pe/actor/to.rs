//! Where the result of a reduction goes.

use crate::Actor;
use crate::pe::actor::reference::{ActorRef, CollectionRef};
use crate::reduce::Target;

/// The target that receives the result of a reduction.
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
///     fn reduced(total: Reduction) -> Option<u64> { total.get() }
///
///     fn handle(&mut self, number: u64, cx: &mut Context<Self>) {
///         match number {
///             // All members receive the total, as a message.
///             0 => cx.contribute(Sum, cx.index().0 as u64, To::all(cx.collection(), 0)),
///             total => cx.contribute(Min, total, To::main()),
///         }
///     }
/// }
/// # let job = Job::new("cells").actor::<Cell>().main(async |grid: Grid| {
/// # let cells = grid.create::<Cell>(Ix1::range(4), |_| ()).await?;
/// # cells.broadcast(0);
/// # assert_eq!(cells.reduction::<u64>(Min).await?, 6);
/// # Ok(())
/// # });
/// # Runner::on_threads(2).run(job).unwrap();
/// ```
#[derive(Clone, Copy, Debug)]
pub struct To(pub(crate) Target);

impl To {
    /// `main`, which awaits the result with
    /// [`Collection::reduction`](crate::Collection::reduction).
    pub fn main() -> Self {
        Self(Target::Main)
    }

    /// One actor, through [`Actor::reduced`], with a tag to tell reductions apart.
    pub fn member<A: Actor>(actor: ActorRef<A>, tag: u32) -> Self {
        Self(Target::Member { to: actor.id, tag })
    }

    /// All members of a collection, through [`Actor::reduced`].
    pub fn all<A: Actor>(collection: CollectionRef<A>, tag: u32) -> Self {
        Self(Target::All { to: collection.id, tag })
    }
}
