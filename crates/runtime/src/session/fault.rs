//! Bugs that a test plants into a session to show that it would find them.

/// A rule of the protocol that a session breaks on purpose. Production code only uses `None`.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PlantedFault {
    /// The correct protocol.
    #[default]
    None,
    /// On resumption, frames are sent again as if they were new, so that the receiver cannot know
    /// them again.
    ResendWithoutSequence,
    /// On resumption, the receiver has forgotten what it received.
    ForgottenReceiveState,
    /// A bulk frame is acknowledged when it begins to arrive, not when it was handed up.
    AcknowledgeBeforeApply,
    /// The transport does not resume the session on a new connection, so that frames which the old
    /// one took with it are not sent again.
    NotResumed,
}
