//! Buffered sends, and the buffer that a rank attaches for them.

use super::wait::outcome;
use crate::comm::Comm;
use crate::content::Content;
use crate::element::Element;
use crate::error::RankError;
use crate::local::{Begun, SendMode};
use crate::request::CommRequest;
use crate::selector::Destination;

/// # Buffered sends
///
/// ```
/// use gridspan::ranks;
///
/// let job = ranks::run(2, async |world| {
///     let other = 1 - world.rank();
///     world.attach_buffer(1 << 20)?;
///     // Both send first, and none waits for the other.
///     world.bsend(&vec![world.rank(); 100_000], other, 0).await?;
///     assert_eq!(world.recv::<u32>(other, 0).await?.0, vec![other; 100_000]);
///     assert_eq!(world.detach_buffer().await, 1 << 20);
///     Ok(())
/// });
/// # gridspan::embed::Runner::on_threads(2).run(job).unwrap();
/// ```
impl Comm {
    /// Allows buffered sends of this number of bytes at a time, in all communicators of this rank.
    /// A message takes as many bytes of the buffer as it has, without overhead, until its data
    /// leave.
    ///
    /// # Errors
    ///
    /// [`RankError::BufferAttached`] if the rank has a buffer.
    pub fn attach_buffer(&self, bytes: usize) -> Result<(), RankError> {
        self.local.with(|state| state.buffer.attach(bytes))
    }

    /// Waits until all messages in the attached buffer are on their way, detaches it, and returns
    /// its number of bytes, or 0 if there is none.
    pub async fn detach_buffer(&self) -> usize {
        let at = self.at("detach_buffer");
        loop {
            match self.local.with(|state| state.detach(at)) {
                Begun::Now(bytes) => return bytes,
                Begun::Later(ticket) => drop(outcome(&self.local, ticket).await),
            }
        }
    }

    /// Sends numbers, and completes at once: a long message stays in the attached buffer until a
    /// receive asks for its data.
    ///
    /// # Errors
    ///
    /// [`RankError::NoSuchRank`], [`RankError::Revoked`], [`RankError::PeerFailed`], and
    /// [`RankError::BufferFull`] if the message does not fit into the attached buffer, or if there
    /// is none.
    pub async fn bsend<T: Element>(
        &self,
        numbers: &[T],
        to: impl Into<Destination>,
        tag: u32,
    ) -> Result<(), RankError> {
        let content = Content::copied(numbers);
        let begun = self.begin(SendMode::Buffered, content, to.into(), tag, "bsend")?;
        self.complete(begun).await
    }

    /// Begins a [`bsend`](Self::bsend), which completes at once.
    ///
    /// # Errors
    ///
    /// Those of [`bsend`](Self::bsend).
    pub fn ibsend<T: Element>(
        &self,
        numbers: &[T],
        to: impl Into<Destination>,
        tag: u32,
    ) -> Result<CommRequest<'static, ()>, RankError> {
        self.immediate(SendMode::Buffered, Content::copied(numbers), to.into(), tag, "ibsend")
    }
}
