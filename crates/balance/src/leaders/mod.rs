//! Balancing of large grids: each site's leader cuts its part, and no node holds the whole object
//! graph.
//!
//! [`Leader`] decides for a site, and [`Top`] for all leaders; both are state machines that take
//! and return messages ([`Note`]). [`LeaderCut`] runs all of them on one node, from a snapshot.
//!
//! **Start.** A leader receives the measurements of the PEs of its site ([`SiteView`]). It reports
//! the speeds and loads of its PEs to the top. It tells each other leader how many messages, and
//! how many bytes, its actors have sent to the actors of that leader. So only the two leaders
//! concerned know both actors of an edge between two sites. The top answers with terms: the part of
//! all work that each PE should do.
//!
//! **Undo.** The top may want the last plan undone. Each leader then takes back the moves to its
//! site and inside it. If one of the moved actors cannot move now, for example a rank between its
//! migration points, its leader says so in its report. Then the leaders plan as usual, and the undo
//! waits.
//!
//! **Cutting over sites.** This proceeds in rounds. A leader gathers its actors into a bounded
//! number of clusters. To each leader with which it shares edges, it sends the cluster number of
//! each of its actors at those edges. It sends to the top its clusters, the edges among them, and
//! the edges to clusters of other leaders. The top cuts this coarse graph over the sites, as
//! `grid-cut` does in its first phase, and sends the leaders the target site of each cluster. In
//! the next round, a leader merges its actors that are far from the cut into one fixed vertex for
//! each target site. This leaves more vertices for the actors near the cut, the *band*
//! (C. Chevalier, F. Pellegrini, PT-Scotch, 2008). In the band, clusters become smaller with each
//! round, and finally single actors.
//!
//! **Cutting inside sites.** A leader hands over the actors that should go to another site, with
//! their edges, to the leader of that site. Each leader then cuts the future actors of its site
//! over its PEs, as `grid-cut` does in its second phase. It reports to the top the resulting work
//! of its PEs and the traffic to other sites. The top adds these up to a prediction, from which the
//! gate decides whether the plan pays.
//!
//! **Failure.** An actor that moves during the measurement may be unknown to every leader; the cut
//! then leaves it out, as a snapshot does. Leaders and the top ignore a note that they do not
//! expect, such as one of another round.

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

pub use leader::{AddressedNotes, Leader, Resettled};
pub use note::{LeaderActor, Note, SiteTalk, SiteView};
pub use strategy::{LeaderCut, Traced};
pub use top::{GridView, Top};

#[cfg(test)]
mod tests;
