//! The strategy `leader-cut`, which runs all leaders and the top on one node, for snapshots of all
//! actors.

use super::leader::{AddressedNotes, Leader};
use super::note::{LeaderActor, Note, SiteTalk, SiteView};
use super::top::{GridView, Top};
use crate::cost::figures::Figures;
use crate::plan::{Move, Plan};
use crate::snapshot::speeds::SpeedEstimate;
use crate::snapshot::{ActorLoad, Snapshot};
use crate::strategies::strategy::Strategy;
use gridspan_topology::{PeId, SiteId};
use std::collections::VecDeque;

/// Cuts as `grid-cut` does, but each site cuts its part. In the runtime, each site's leader does
/// that, and no node holds the whole graph; with a snapshot, one node does all of it.
///
/// ```
/// use gridspan_balance::{MakeStrategy, LeaderCut, Strategy};
///
/// assert_eq!(LeaderCut::default().make(7).name(), "leader-cut"); // with the seed of the job
/// ```
#[derive(Clone, Debug)]
pub struct LeaderCut {
    seed: u64,
    vertices: Option<u32>,
}

impl Default for LeaderCut {
    fn default() -> Self {
        Self::new(0)
    }
}

/// Called for each note with its sender and receiver; `None` is the top.
pub type Traced<'a> = &'a mut dyn FnMut(Option<SiteId>, Option<SiteId>, &Note);

impl LeaderCut {
    /// Creates the strategy with the default bound on the vertices at the top.
    pub fn new(seed: u64) -> Self {
        Self { seed, vertices: None }
    }

    /// Sets the approximate greatest number of vertices of the coarse graph at the top, for plans
    /// from a snapshot. The leaders of a running job use the default.
    #[must_use]
    pub fn vertices(mut self, vertices: u32) -> Self {
        self.vertices = Some(vertices);
        self
    }

    /// Returns the plan, and its figures from the sums of all sites.
    pub fn run(&self, snapshot: &Snapshot, trace: Traced<'_>) -> (Plan, Option<Figures>) {
        let Snapshot { layout, hierarchy, links, .. } = snapshot;
        let (layout_of_all, hierarchy) = (layout.clone(), hierarchy.clone());
        // The speeds of a snapshot are estimates already.
        let speeds = SpeedEstimate::default();
        let grid = GridView { layout: layout_of_all, hierarchy, links: links.clone(), speeds };
        let mut top = Top::new(grid, self.seed, false);
        if let Some(vertices) = self.vertices {
            top = top.vertices(vertices);
        }
        let mut leaders = Vec::new();
        let mut queue: VecDeque<(Option<SiteId>, Option<SiteId>, Note)> = VecDeque::new();
        let post = |queue: &mut VecDeque<_>, from, notes: AddressedNotes| {
            queue.extend(notes.into_iter().map(|(to, note)| (from, to, note)));
        };
        for view in views(snapshot) {
            let from = Some(view.site);
            let (leader, notes) = Leader::new(layout, view, Vec::new(), self.seed);
            leaders.push(leader);
            post(&mut queue, from, notes);
        }
        let mut decision = None;
        while let Some((from, to, note)) = queue.pop_front() {
            trace(from, to, &note);
            match (from, to.and_then(|site| leaders.get_mut(site.index()))) {
                (from, Some(leader)) => post(&mut queue, to, leader.handle(from, note)),
                (Some(from), None) => {
                    let (notes, decided) = top.handle(from, note);
                    post(&mut queue, None, notes);
                    decision = decision.or(decided);
                }
                (None, None) => {}
            }
        }
        let moves = leaders.iter().flat_map(|leader| leader.moves());
        let mut moves: Vec<Move> = moves.map(|resettled| resettled.step).collect();
        moves.sort_by_key(|step| step.actor);
        (Plan::of(moves), decision)
    }
}

impl Strategy for LeaderCut {
    fn name(&self) -> &'static str {
        "leader-cut"
    }

    fn seed(&mut self, seed: u64) {
        self.seed = seed;
    }

    fn plan(&mut self, snapshot: &Snapshot) -> Plan {
        self.run(snapshot, &mut |_, _, _| ()).0
    }

    fn is_led(&self) -> bool {
        true
    }
}

/// Returns the view of each leader.
pub(super) fn views(snapshot: &Snapshot) -> Vec<SiteView> {
    let layout = &snapshot.layout;
    let view = |site: SiteId| {
        let pes = layout.pes_in(site).map(|pe| snapshot.pes[pe as usize]).collect();
        SiteView { site, pes, members: Vec::new(), talks: Vec::new(), handled: 0 }
    };
    let mut views: Vec<SiteView> = layout.sites().map(view).collect();
    let site = |pe: PeId| layout.site_of(pe);
    for &load in &snapshot.actors {
        let load = ActorLoad { pace: None, ..load };
        views[site(load.pe).index()].members.push(LeaderActor { load, epoch: 0 });
    }
    for edge in &snapshot.edges {
        let [from, to] = [edge.from, edge.to].map(|end| &snapshot.actors[end as usize]);
        let talk = SiteTalk {
            from: from.id,
            to: to.id,
            at: site(to.pe),
            messages: edge.messages,
            bytes: edge.bytes,
        };
        views[site(from.pe).index()].talks.push(talk);
    }
    views
}
