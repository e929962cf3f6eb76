//! The context of an actor while it handles a message. Its operations are in `abilities`.

use crate::address::id::{KindId, Slot};
use crate::pe::Core;
use std::marker::PhantomData;

/// The context of an actor while it handles a message. Messages leave when the handler returns.
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
