//! Random jobs under random faults, against a reference model.
//!
//! A seed stands for a [`Scenario`]: a grid, its faults, a strategy, and two collections of actors
//! that send, multicast, broadcast, ask, set timers, contribute, move, insert and destroy at
//! random. The model sees every send and every handler, and checks what the runtime promises:
//!
//! - every message is handled once, and messages from one member to another at one priority in the
//!   order sent, multicasts included;
//! - broadcasts of a collection are handled by each of its members once, in one order, and in order
//!   with the messages that their senders sent to the member; unordered ones once, in any order;
//! - reductions are the sum of what was contributed, and come after the last contribution;
//! - nobody leaves the first sync point before all have reached it, or is more than three ahead of
//!   others;
//! - a member is never in two places and never lost;
//! - a deterministic actor that is in two places says everything once, and the same;
//! - tasks of all pools count once;
//! - when the coordinator finds the job quiescent, it is. What main hears is that it was: a
//!   rebalance may begin by itself meanwhile, and members that it moves may send.
//!
//! A run that fails says its seed. The same seed gives the same run, packet by packet. In every
//! tenth seed the nodes talk over QUIC, by the transport of production in virtual time, and the
//! same holds for the times and sizes of its datagrams.
//!
//! [`Planted`] bugs show that the campaign finds bugs.

mod ballast;
mod broadcasts;
mod doings;
mod forwarder;
mod interleaving;
mod ledger;
mod notes;
mod orders;
mod pools;
mod random_actor;
mod random_replication;
mod reader;
mod rounds;
mod runner;
mod scenario;
mod script;
mod unordered;

pub use doings::Doings;
pub use runner::{Campaign, CampaignFailure, CampaignReport, run_scenario};
pub use scenario::Scenario;

use gridspan_runtime::{pe, session};

/// A bug on purpose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Planted {
    /// None.
    #[default]
    None,
    /// One in the PE machine or the coordinator.
    Pe(pe::PlantedFault),
    /// One in the session machine or, where nodes talk over QUIC, in how the transport uses it.
    Session(session::PlantedFault),
}

impl Planted {
    /// All bugs, by the names that the example `campaign` knows.
    pub const NAMES: [(&str, Self); 12] = [
        ("hold-skipped", Self::Pe(pe::PlantedFault::HoldSkipped)),
        ("epoch-ignored", Self::Pe(pe::PlantedFault::EpochIgnored)),
        ("broadcasts-apart", Self::Pe(pe::PlantedFault::BroadcastsApart)),
        ("numbers-mixed", Self::Pe(pe::PlantedFault::NumbersMixed)),
        ("streams-uncounted", Self::Pe(pe::PlantedFault::StreamsUncounted)),
        ("right-kept", Self::Pe(pe::PlantedFault::RightKept)),
        ("one-round", Self::Pe(pe::PlantedFault::OneRound)),
        ("transfer-drops-held", Self::Pe(pe::PlantedFault::TransferDropsHeld)),
        ("resend-without-sequence", Self::Session(session::PlantedFault::ResendWithoutSequence)),
        ("forgotten-receive-state", Self::Session(session::PlantedFault::ForgottenReceiveState)),
        ("acknowledge-before-apply", Self::Session(session::PlantedFault::AcknowledgeBeforeApply)),
        ("not-resumed", Self::Session(session::PlantedFault::NotResumed)),
    ];

    /// The bug of this name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(known, _)| *known == name).map(|(_, planted)| *planted)
    }

    /// All names, separated by commas.
    pub fn names() -> String {
        Self::NAMES.map(|(name, _)| name).join(", ")
    }

    fn name(self) -> Option<&'static str> {
        Self::NAMES.iter().find(|(_, known)| *known == self).map(|(name, _)| *name)
    }

    fn in_pe(self) -> pe::PlantedFault {
        match self {
            Self::Pe(fault) => fault,
            Self::None | Self::Session(_) => pe::PlantedFault::None,
        }
    }

    fn in_session(self) -> session::PlantedFault {
        match self {
            Self::Session(fault) => fault,
            Self::None | Self::Pe(_) => session::PlantedFault::None,
        }
    }
}
