//! Random jobs under random faults, against a reference model.
//!
//! A seed determines a [`Scenario`]: a grid, its faults, a strategy, and two collections of actors
//! that send, multicast, broadcast, ask, set timers, contribute, move, insert and destroy at
//! random. In turn, the seeds name the members of the two collections by indices of one, five and
//! six dimensions. The model sees every send and every handler, and checks the guarantees of the
//! runtime:
//!
//! - every message is handled once, and messages from one member to another at one priority in the
//!   order sent, multicasts included;
//! - broadcasts of a collection are handled by each of its members once, in one order, and in order
//!   with the messages from the same sender to the member; unordered ones once, in any order;
//! - reductions give the sum, the statistics, the set and the list of the contributions, and arrive
//!   after the last contribution;
//! - in a balanced job, no member leaves the first sync point before all have reached it, or gets
//!   more than three sync points ahead of others;
//! - a member is never in two places and never lost;
//! - a member on demand is created once, and only by a message to it;
//! - every message of a deterministic actor is received once and in order, wherever the actor and
//!   its replica are;
//! - members that are bound to each other are on one PE, in every handler of any of them;
//! - a phase is complete only when all its items are consumed;
//! - every task of a pool counts once;
//! - the job is quiescent when the coordinator finds it so. By the time that main receives this,
//!   the job may be active again: a rebalance may start by itself, and members that it moves may
//!   send.
//!
//! A failed run prints its seed. The same seed gives the same run, packet by packet. In every tenth
//! seed the nodes communicate over QUIC, through the production transport in virtual time, and a
//! seed repeats the times and sizes of datagrams, too.
//!
//! [`Planted`] bugs show that the campaign finds bugs.

mod action_counts;
mod ballast;
mod bonds;
mod broadcasts;
mod carriers;
mod forwarder;
mod interleaving;
mod items;
mod latecomers;
mod ledger;
mod notes;
mod numbered;
mod orders;
mod partners;
mod pools;
mod random_actor;
mod random_replication;
mod reader;
mod rounds;
mod runner;
mod scenario;
mod script;
mod unordered;

pub use action_counts::ActionCounts;
pub use runner::{Campaign, CampaignFailure, CampaignReport, run_scenario};
pub use scenario::Scenario;

use gridspan_runtime::pe;
use gridspan_runtime::session::PlantedSessionFault;

/// A deliberate bug.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Planted {
    /// No bug.
    #[default]
    None,
    /// A bug in the PE machine or the coordinator.
    Pe(pe::PlantedFault),
    /// A bug in the session machine or, where nodes communicate over QUIC, in the transport's use
    /// of it.
    Session(PlantedSessionFault),
}

impl Planted {
    /// All bugs, by the names that the example `campaign` accepts.
    pub const NAMES: [(&str, Self); 15] = [
        ("hold-skipped", Self::Pe(pe::PlantedFault::HoldSkipped)),
        ("epoch-ignored", Self::Pe(pe::PlantedFault::EpochIgnored)),
        ("broadcasts-apart", Self::Pe(pe::PlantedFault::BroadcastsApart)),
        ("numbers-mixed", Self::Pe(pe::PlantedFault::NumbersMixed)),
        ("streams-uncounted", Self::Pe(pe::PlantedFault::StreamsUncounted)),
        ("right-kept", Self::Pe(pe::PlantedFault::RightKept)),
        ("one-round", Self::Pe(pe::PlantedFault::OneRound)),
        ("one-phase-round", Self::Pe(pe::PlantedFault::OnePhaseRound)),
        ("transfer-drops-held", Self::Pe(pe::PlantedFault::TransferDropsHeld)),
        ("demanded-again", Self::Pe(pe::PlantedFault::DemandedAgain)),
        ("partners-left-behind", Self::Pe(pe::PlantedFault::PartnersLeftBehind)),
        ("resend-without-sequence", Self::Session(PlantedSessionFault::ResendWithoutSequence)),
        ("forgotten-receive-state", Self::Session(PlantedSessionFault::ForgottenReceiveState)),
        ("acknowledge-before-apply", Self::Session(PlantedSessionFault::AcknowledgeBeforeApply)),
        ("not-resumed", Self::Session(PlantedSessionFault::NotResumed)),
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

    /// The bug, if it is in the PE machine or the coordinator.
    pub fn in_pe(self) -> pe::PlantedFault {
        match self {
            Self::Pe(fault) => fault,
            Self::None | Self::Session(_) => pe::PlantedFault::None,
        }
    }

    /// The bug, if it is in the session machine or the transport.
    pub fn in_session(self) -> PlantedSessionFault {
        match self {
            Self::Session(fault) => fault,
            Self::None | Self::Pe(_) => PlantedSessionFault::None,
        }
    }
}
