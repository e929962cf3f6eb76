//! Bugs that a test plants into sessions, and into the connections below them, to show that it
//! would find them.

/// A rule of the protocol that is broken on purpose. Production code only uses `None`.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PlantedSessionFault {
    /// The correct protocol.
    #[default]
    None,
    /// On resumption, frames are sent again as new ones, so that the receiver cannot recognise
    /// them.
    ResendWithoutSequence,
    /// On resumption, the receiver has forgotten the received frames.
    ForgottenReceiveState,
    /// A bulk frame is acknowledged when it begins to arrive, not when it was delivered.
    AcknowledgeBeforeApply,
    /// The transport does not resume the session on a new connection, so that frames that were lost
    /// with the old one are not sent again.
    NotResumed,
    /// The nodes of a run keep the keys of the run before, so that they accept lost nodes of that
    /// run that come back.
    KeysKept,
}
