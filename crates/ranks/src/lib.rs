//! Message passing between migratable ranks, as in MPI.

mod actor;
mod cartesian;
mod collective;
mod comm;
mod content;
mod element;
mod error;
mod group;
mod local;
mod matching;
pub mod ops;
mod p2p;
mod packet;
mod places;
mod program;
mod request;
mod scope;
mod selector;
mod tree;
mod world;

pub use cartesian::{Cartesian, dims_create};
pub use comm::Comm;
pub use element::Element;
pub use group::RankGroup;
pub use ops::Operator;
pub use error::{CallSite, RankError};
pub use p2p::{MatchedMessage, PersistentRecv, PersistentSend};
pub use program::{Continuation, EagerLimit, Rank};
pub use request::{CommRequest, test_all, test_any, test_some, wait_all, wait_any, wait_some};
pub use selector::{
    ANY_SOURCE, ANY_TAG, Destination, PROC_NULL, ProcNull, SourceSelector, Status, TagSelector,
};
pub use world::{RankFunctions, job, run, run_then};
