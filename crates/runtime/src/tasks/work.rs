//! What the engine needs to know of a kind of work.

use super::engine::Engine;
use super::frame::FrameId;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Fork-join tasks of one type, or searches of one type.
pub(crate) trait Work: Sized + Send + 'static {
    /// What is run.
    type Item: Serialize + DeserializeOwned + Send + 'static;
    /// What comes of it.
    type Output: Serialize + DeserializeOwned + Send + 'static;
    /// What a frame keeps until its children are done.
    type State: Send + 'static;

    /// Its name, for people.
    fn name() -> &'static str;

    /// What a frame keeps that waits for stolen or handed-in work.
    fn loan() -> Self::State;

    /// Whether items that work for the same frame can share a loan: their outputs become one.
    const SHARES_LOANS: bool;

    /// Runs an item that works for `frame` as its child of this number.
    fn run(engine: &mut Engine<Self>, item: Self::Item, frame: FrameId, child: u32);

    /// Hands an output for `items` items to the frame that waits for it. An output for a frame that does not
    /// exist is dropped.
    fn report(
        engine: &mut Engine<Self>,
        frame: FrameId,
        child: u32,
        items: u64,
        output: Self::Output,
    );
}

/// An item with the frame on its PE that waits for it.
#[derive(Debug)]
pub(crate) struct Token<I> {
    pub(super) item: I,
    pub(super) frame: FrameId,
    pub(super) child: u32,
}
