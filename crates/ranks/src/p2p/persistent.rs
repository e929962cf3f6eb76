//! Persistent requests: the arguments of a send or a receive, to begin it again and again.

use crate::comm::Comm;
use crate::content::Content;
use crate::element::Element;
use crate::error::RankError;
use crate::local::SendMode;
use crate::request::CommRequest;
use crate::selector::{Destination, SourceSelector, Status, TagSelector};

/// A send that can be begun again and again; see [`Comm::send_init`].
///
/// ```
/// use gridspan::ranks::{self, PersistentRecv, PersistentSend};
///
/// let job = ranks::run(2, async |world| {
///     let other = 1 - world.rank();
///     let send: PersistentSend = world.send_init(other, 0)?;
///     let recv: PersistentRecv = world.recv_init(other, 0)?;
///     for step in 0..3 {
///         let mut buffer = [0];
///         let receiving = recv.start(&mut buffer)?;
///         send.start(&[step])?.await?;
///         receiving.await?;
///         assert_eq!(buffer, [step]);
///     }
///     Ok(())
/// });
/// # gridspan::embed::Runner::on_threads(2).run(job).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct PersistentSend {
    comm: Comm,
    mode: SendMode,
    to: Destination,
    tag: u32,
}

impl PersistentSend {
    /// Begins the send.
    ///
    /// # Errors
    ///
    /// Those of the send.
    pub fn start<T: Element>(&self, numbers: &[T]) -> Result<CommRequest<'static, ()>, RankError> {
        self.comm.immediate(self.mode, Content::copied(numbers), self.to, self.tag, "start")
    }
}

/// A receive that can be begun again and again; see [`Comm::recv_init`].
///
/// ```
/// use gridspan::ranks::{self, ANY_SOURCE, ANY_TAG, PersistentRecv};
///
/// let job = ranks::run(3, async |world| {
///     if world.rank() > 0 {
///         return world.send(&[world.rank()], 0, 5).await;
///     }
///     let recv: PersistentRecv = world.recv_init(ANY_SOURCE, ANY_TAG)?;
///     let mut sum = 0;
///     for _ in 1..world.size() {
///         let mut number = [0_u32];
///         recv.start(&mut number)?.await?;
///         sum += number[0];
///     }
///     assert_eq!(sum, 1 + 2);
///     Ok(())
/// });
/// # gridspan::embed::Runner::on_threads(2).run(job).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct PersistentRecv {
    comm: Comm,
    source: SourceSelector,
    tag: TagSelector,
}

impl PersistentRecv {
    /// Begins the receive.
    ///
    /// # Errors
    ///
    /// Those of [`Comm::irecv_into`].
    pub fn start<'a, T: Element>(
        &self,
        buffer: &'a mut [T],
    ) -> Result<CommRequest<'a, Status>, RankError> {
        self.comm.irecv_into(buffer, self.source, self.tag)
    }
}

/// # Persistent requests
impl Comm {
    /// Prepares a [`send`](Self::send). In MPI this call also fixes the buffer. Here each start
    /// takes a buffer, so the program may use it between two starts.
    ///
    /// # Errors
    ///
    /// [`RankError::NoSuchRank`].
    pub fn send_init(
        &self,
        to: impl Into<Destination>,
        tag: u32,
    ) -> Result<PersistentSend, RankError> {
        self.prepared(SendMode::Standard, to.into(), tag, "send_init")
    }

    /// Prepares an [`ssend`](Self::ssend).
    ///
    /// # Errors
    ///
    /// [`RankError::NoSuchRank`].
    pub fn ssend_init(
        &self,
        to: impl Into<Destination>,
        tag: u32,
    ) -> Result<PersistentSend, RankError> {
        self.prepared(SendMode::Synchronous, to.into(), tag, "ssend_init")
    }

    /// Prepares an [`rsend`](Self::rsend).
    ///
    /// # Errors
    ///
    /// [`RankError::NoSuchRank`].
    pub fn rsend_init(
        &self,
        to: impl Into<Destination>,
        tag: u32,
    ) -> Result<PersistentSend, RankError> {
        self.prepared(SendMode::Standard, to.into(), tag, "rsend_init")
    }

    /// Prepares a [`bsend`](Self::bsend).
    ///
    /// # Errors
    ///
    /// [`RankError::NoSuchRank`].
    pub fn bsend_init(
        &self,
        to: impl Into<Destination>,
        tag: u32,
    ) -> Result<PersistentSend, RankError> {
        self.prepared(SendMode::Buffered, to.into(), tag, "bsend_init")
    }

    /// Prepares a [`recv_into`](Self::recv_into).
    ///
    /// # Errors
    ///
    /// [`RankError::NoSuchRank`].
    pub fn recv_init(
        &self,
        source: impl Into<SourceSelector>,
        tag: impl Into<TagSelector>,
    ) -> Result<PersistentRecv, RankError> {
        let (source, tag) = (source.into(), tag.into());
        self.pattern(source, tag, self.receiver(source, tag, "recv_init"))?;
        Ok(PersistentRecv { comm: self.clone(), source, tag })
    }

    fn prepared(
        &self,
        mode: SendMode,
        to: Destination,
        tag: u32,
        call: &'static str,
    ) -> Result<PersistentSend, RankError> {
        self.destination(to, self.sender(to, tag, call))?;
        Ok(PersistentSend { comm: self.clone(), mode, to, tag })
    }
}
