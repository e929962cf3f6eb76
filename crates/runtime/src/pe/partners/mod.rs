//! Partners: members of one index that are bound to each other, and so live on one PE; see
//! `follow`.

mod bonds;
mod follow;
mod state;
mod waiting;

pub(super) use follow::{create_first, follow, insert};
pub(super) use state::Followers;
