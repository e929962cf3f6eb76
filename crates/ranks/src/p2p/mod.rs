//! Messages between two ranks.

mod buffered;
mod persistent;
mod probe;
mod receive;
mod send;
pub(crate) mod wait;

pub use persistent::{PersistentRecv, PersistentSend};
pub use probe::MatchedMessage;
