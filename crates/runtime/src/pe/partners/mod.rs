//! Partners: the members of bound collections that have the same index, and so live on one PE; see
//! `follow`.

mod bonds;
mod follow;
mod state;
mod waiting;

pub(super) use follow::{create_first, follow, insert};
pub(super) use state::Followers;
