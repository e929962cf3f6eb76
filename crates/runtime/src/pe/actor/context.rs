//! The context of an actor while it handles a message. Its operations are in `abilities`.

use crate::address::id::{KindId, Slot};
use crate::pe::Core;
use std::marker::PhantomData;

/// The context of an actor while it handles a message. Messages to other PEs leave at the end of
/// the PE's turn, after the handler has returned.
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
///         let next = cx.collection().at(Ix1((cx.index().0 + 1) % 4));
///         if number > 0 {
///             cx.send(&next, number - 1);
///         }
///         if cx.pe() != PeId(0) {
///             cx.migrate_to(PeId(0)); // once this handler has returned
///         }
///         cx.contribute(Max, cx.layout().pe_count(), To::main());
///     }
/// }
/// # let job = Job::new("cells").actor::<Cell>().main(async |grid: Grid| {
/// # let cells = grid.create::<Cell>(Ix1::range(4), |_| ()).await?;
/// # cells.member(Ix1(0)).send(3);
/// # assert_eq!(cells.reduction::<u32>(Max).await?, 2);
/// # Ok(())
/// # });
/// # Runner::on_threads(2).run(job).unwrap();
/// ```
pub struct Context<'a, A> {
    pub(crate) core: &'a mut Core,
    pub(crate) slot: Slot,
    kind: PhantomData<fn() -> A>,
}

impl<'a, A> Context<'a, A> {
    #[inline]
    pub(crate) fn new(core: &'a mut Core, kind: KindId, slot: u32) -> Self {
        Self { core, slot: Slot { kind, index: slot }, kind: PhantomData }
    }
}
