//! Errors of a job whose actors break a rule of the runtime.

use gridspan_topology::PeId;
use serde::{Deserialize, Serialize};

/// A rule of the runtime that an actor broke. Correct the program.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Misuse {
    /// The operation of a reduction does not apply to the contributed values.
    #[error(
        "members of collection {collection} contributed values that {operation} cannot combine"
    )]
    CannotCombine {
        /// The collection.
        collection: u32,
        /// The operation.
        operation: String,
    },
    /// Two members contributed to one reduction with different operations or targets.
    #[error(
        "members of collection {collection} contributed to one reduction with {} to {} and with {} to {}; all must agree",
        .one.0, .one.1, .other.0, .other.1
    )]
    DifferentReductions {
        /// The collection.
        collection: u32,
        /// The operation and the target of one member.
        one: (String, String),
        /// The operation and the target of another member.
        other: (String, String),
    },
    /// Two members contributed different types or lengths to one reduction, or values to which its
    /// operation does not apply.
    #[error(
        "members of collection {collection} contributed values to one reduction that {operation} \
         cannot combine: their kinds or lengths differ, or {operation} does not apply to values of \
         their kind"
    )]
    DifferentValues {
        /// The collection.
        collection: u32,
        /// The operation.
        operation: String,
    },
    /// A member contributed a tuple that is too long, or contains a tuple.
    #[error(
        "{actor} contributed {value} with {operation}; a tuple has at most 16 elements, and none of them is a tuple"
    )]
    UnsoundTuple {
        /// The type of the actor.
        actor: String,
        /// The type of the value.
        value: String,
        /// The operation.
        operation: String,
    },
    /// The result of a reduction was sent to an actor that has no message for it.
    #[error("{actor} was sent the result of a reduction; implement `Actor::reduced` for it")]
    NotReduced {
        /// The type of the actor.
        actor: String,
    },
    /// A question with a tag was asked by an actor that has no message for the answer.
    #[error("{actor} asked a question with a tag; implement `Actor::answered` for the answer")]
    NotAnswered {
        /// The type of the actor.
        actor: String,
    },
    /// A member was inserted at an index that is taken.
    #[error(
        "collection {collection} already has a member {member}; destroy it first or choose another index"
    )]
    IndexTaken {
        /// The collection.
        collection: u32,
        /// The key of the index.
        member: String,
    },
    /// A member was inserted on a PE that the job does not have.
    #[error("a member cannot be inserted on {pe}: there is no such PE")]
    InsertedNowhere {
        /// The PE that was named.
        pe: PeId,
    },
    /// A member was to move to a PE that the job does not have.
    #[error("member {member} of collection {collection} cannot move to {pe}: there is no such PE")]
    MovedNowhere {
        /// The collection.
        collection: u32,
        /// The key of the member.
        member: String,
        /// The PE that was named.
        pe: PeId,
    },
    /// A member of a group was to move.
    #[error(
        "member {member} of collection {collection} cannot move to {pe}: members of groups stay where they are"
    )]
    MovedInGroup {
        /// The collection.
        collection: u32,
        /// The key of the member.
        member: String,
        /// The PE that was named.
        pe: PeId,
    },
    /// A member was inserted, although messages [create](crate::Job::on_demand) the members of its
    /// type.
    #[error(
        "members of {actor} are created on demand; send a message to {index} instead of inserting it"
    )]
    InsertedOnDemand {
        /// The type of the actor.
        actor: String,
        /// The index of the member.
        index: String,
    },
    /// A member was inserted into a bound collection, and the base collection has no such member.
    #[error(
        "a member {member} was inserted into a collection that is bound to collection {base}, which has no such member; \
         insert it there too"
    )]
    InsertedAlone {
        /// The key of the member.
        member: String,
        /// The base collection.
        base: u32,
    },
    /// A member contributed to a section of which it is not a member.
    #[error(
        "member {member} of collection {collection} contributed to section {section}, but is not a member of it"
    )]
    NotInSection {
        /// The key of the member.
        member: String,
        /// Its collection.
        collection: u32,
        /// The number that the program gave the section.
        section: u64,
    },
    /// A deterministic actor did what only other actors may do.
    #[error(
        "{actor} was declared deterministic and cannot {deed}: that would happen at each of its replicas; \
         let another actor do it, or declare it with `Job::actor`"
    )]
    NotAtReplicas {
        /// The type of the actor.
        actor: String,
        /// What it did.
        deed: String,
    },
    /// The replicas of a deterministic actor sent different messages.
    #[error(
        "{actor} was declared deterministic, but two replicas of an actor that had handled the same messages have not sent \
         the same ones; remove what makes them differ, such as state that is not its own or the order of \
         different senders' messages, or declare it with `Job::actor`"
    )]
    ReplicasDiffer {
        /// The type of the actor.
        actor: String,
    },
    /// Main created more collections than a job can have.
    #[error(
        "main created more than {limit} collections; use each for longer: each pool of tasks is \
         one too, also after it is closed, so run many roots in one pool"
    )]
    TooManyCollections {
        /// The largest number of collections.
        limit: u32,
    },
}
