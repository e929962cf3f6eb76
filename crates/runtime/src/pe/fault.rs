//! Bugs that are planted into PEs and the coordinator on purpose.

/// A planted bug, which a fault campaign has to find.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PlantedFault {
    /// None.
    #[default]
    None,
    /// The second message of an actor to an actor on another PE is lost. A diagnosis has to find
    /// it.
    MessageLost,
    /// Messages are handled in the order of arrival, and again if they arrive again.
    HoldSkipped,
    /// An older known place replaces a newer one.
    EpochIgnored,
    /// Broadcasts and messages to single members do not wait for each other.
    BroadcastsApart,
    /// The number of a broadcast goes to any broadcast that waits for one.
    NumbersMixed,
    /// Members take unordered broadcasts in the order of arrival, and again if they arrive again.
    StreamsUncounted,
    /// A PE continues to number broadcasts after it has returned the right to number them.
    RightKept,
    /// The coordinator considers the job quiescent after one round of questions instead of two.
    OneRound,
    /// The coordinator considers a phase complete after one round of questions instead of two.
    OnePhaseRound,
    /// Packets for the coordinator that arrive during its transfer to another node are dropped.
    TransferDropsHeld,
    /// The home of a missing member requests its creation again when another message for it
    /// arrives.
    DemandedAgain,
    /// An actor moves without the members that are bound to it.
    PartnersLeftBehind,
    /// Checkpoints do not contain the messages in mailboxes.
    MailboxesLeftOut,
    /// Checkpoints contain the messages in mailboxes from the last to the first.
    MailboxesReversed,
    /// Checkpoints do not contain delayed messages.
    TimersLeftOut,
    /// Checkpoints do not contain unanswered questions.
    QuestionsLeftOut,
    /// An actor moves, or is encoded, before it has sent all messages that its former second
    /// replica has sent.
    TrailingIgnored,
    /// Both copies of a part of a checkpoint are on the same node.
    CopyOnSameNode,
    /// PEs capture their parts of a checkpoint while messages are in flight.
    CapturedInFlight,
    /// Homes do not learn where restored members live.
    HomeNotMoved,
    /// A restoration leaves out the messages of group members that are merged into another one.
    MergedMailboxesLeftOut,
    /// Actors handle messages after a checkpoint is captured and before they are encoded for it.
    ChangedBeforeEncoding,
}
