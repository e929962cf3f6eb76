//! Bugs planted into PEs and the coordinator on purpose.

/// Bugs on purpose, which a fault campaign has to find.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PlantedFault {
    /// None.
    #[default]
    None,
    /// Messages are handled as they come, in any order, and again if they come again.
    HoldSkipped,
    /// Knowledge about places is replaced by older knowledge.
    EpochIgnored,
    /// Broadcasts and messages to single members do not wait for each other.
    BroadcastsApart,
    /// The number of a broadcast goes to any that waits for one.
    NumbersMixed,
    /// Members take unordered broadcasts as they come, and again if they come again.
    StreamsUncounted,
    /// A PE goes on numbering broadcasts after it has returned the right to.
    RightKept,
    /// The coordinator takes the job for quiescent after one round of questions, not two.
    OneRound,
    /// What comes for the coordinator while it is on its way to another node is dropped.
    TransferDropsHeld,
}
