//! Balancing of large grids: each site's leader cuts its own part, and no place holds all of the
//! object graph.
//!
//! [`Leader`] is what the leader of a site decides, [`Top`] what the one above all leaders does;
//! both are state machines that take and give [`Note`]s. [`LeaderCut`] runs all of them in one
//! place, from a snapshot.
//!
//! **Start.** A leader gets what the PEs of its site have measured ([`SiteView`]). It tells the top
//! how fast its PEs are and how much they have done, and each other leader which of its actors talk
//! to theirs: so both ends of an edge between two sites are known by name to the two leaders
//! concerned, and to nobody else. The top answers with terms: what part of all work each PE should
//! do.
//!
//! **Cutting over sites.** In rounds. A leader gathers its actors into a bounded number of
//! clusters, tells the leaders that share edges with it the number of the cluster of each actor
//! they know by name, and the top its clusters and the edges between them and to those of others.
//! The top cuts this coarse graph over the sites as `grid-cut` does in its first phase, and tells
//! where each cluster should go. In the next round, what is far from the cut is one vertex that
//! stays, so that there are more vertices for what is near: the band about the cut (C. Chevalier,
//! F. Pellegrini, PT-Scotch, 2008), in which clusters become smaller and smaller, and actors in the
//! end.
//!
//! **Cutting inside sites.** Leaders hand over who is to come to another site, with whom it talks
//! to. Each then cuts what its site will have over its PEs, the second phase of `grid-cut`, and
//! tells the top what its PEs would have to do and what would cross to other sites. The top adds
//! that up to a prediction for the gate.
//!
//! **Failure.** What a leader does not know by name, since it has moved meanwhile, is not part of
//! the cut, as in snapshots. A note that does not fit is ignored.

mod cluster;
mod cut;
mod forecast;
mod handover;
mod leader;
mod note;
mod outlook;
mod site_graph;
mod strategy;
mod top;

pub use leader::{Leader, Resettled, Said};
pub use note::{LeaderActor, Note, SiteTalk, SiteView};
pub use strategy::{LeaderCut, Traced};
pub use top::{GridView, Top};

#[cfg(test)]
mod tests;
