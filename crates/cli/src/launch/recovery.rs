//! The recovery of a job whose nodes were lost: the checkpoint that it goes back to, and the nodes
//! that take over the members of lost ones.
//!
//! Only the launcher decides which nodes go on, so that two parts of a job cannot both go on. If
//! nodes can reach each other but not the launcher, they end, as if the launcher had ended.
//!
//! A *run* of the job is the time between two recoveries or changes of its nodes. In each run the
//! members have consecutive node numbers, site by site; the launcher numbers them as the roster
//! does.

use crate::job_folder::Saved;
use crate::names::abbreviated;
use crate::roster::Roster;
use gridspan::control::Holdings;
use gridspan_runtime::net::bootstrap::RestoreOrder;
use gridspan_runtime::{EncodedManifest, Image, PeId, RestorePlan};
use gridspan_topology::{Layout, NodeId};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of times that the job goes back to one checkpoint. A program that ends its node
/// each time would do so for ever.
const AGAIN_MAX: u32 = 5;
/// Number of runs whose members are known: the nodes have checkpoints of the last few runs only,
/// and keepers have yet to agree to few runs.
const KEPT: usize = 64;

/// The runs of a job so far.
pub(super) struct Runs {
    roster: Roster,
    /// The checkpoint with which each run began, 0 for the first, and its members by node number.
    /// Runs before the last [`KEPT`] have no members here: each state for another launcher has all
    /// runs, and a job may have thousands.
    runs: Vec<(u64, Vec<NodeId>)>,
    /// Number of times that the job went back to the last checkpoint.
    again: u32,
}

/// How a job goes on.
#[derive(Debug, PartialEq)]
pub(super) struct GoOn {
    /// The number of the checkpoint; 0 if the job begins again, since there is none.
    pub(super) checkpoint: u64,
    pub(super) order: Option<RestoreOrder>,
    /// Nodes whose parts are in the memory of no remaining node: their parts are read from the
    /// place where the job stores its checkpoints.
    pub(super) read: Vec<String>,
    /// Whether the loss of another node could end the job until copies are made again or the next
    /// checkpoint is complete, although several nodes are left: parts of the checkpoint are on one
    /// node only, or the job begins again without a checkpoint.
    pub(super) lacks_copies: bool,
}

impl Runs {
    /// The first run, of all nodes but the spare ones.
    pub(super) fn new(roster: impl Into<Roster>, spares: &[NodeId]) -> Self {
        let roster = roster.into();
        let members = roster.nodes().filter(|node| !spares.contains(node)).collect();
        Self { roster, runs: vec![(0, members)], again: 0 }
    }

    /// The runs that another launcher has saved.
    pub(super) fn resume(roster: impl Into<Roster>, saved: &Saved) -> Self {
        Self { roster: roster.into(), runs: saved.runs.clone(), again: saved.again }
    }

    pub(super) fn save(&self, saved: &mut Saved) {
        (saved.runs, saved.again) = (self.runs.clone(), self.again);
    }

    /// All nodes of the job.
    pub(super) fn roster(&self) -> &Roster {
        &self.roster
    }

    /// Notes that the job has more nodes, which are not members yet.
    pub(super) fn set_roster(&mut self, roster: Roster) {
        self.roster = roster;
    }

    /// The members of the present run, by their node numbers in it.
    pub(super) fn members(&self) -> &[NodeId] {
        self.runs.last().map_or(&[], |(_, members)| members)
    }

    /// The checkpoint with which the present run began; 0 if it began without one.
    pub(super) fn checkpoint(&self) -> u64 {
        self.runs.last().map_or(0, |(began, _)| *began)
    }

    /// Begins another run with these members, in the order of the roster. `holdings` are the parts
    /// of checkpoints that each node has.
    ///
    /// # Errors
    ///
    /// The reason why the job cannot go on.
    pub(super) fn begin(
        &mut self,
        members: Vec<NodeId>,
        holdings: &BTreeMap<NodeId, Holdings>,
    ) -> Result<GoOn, String> {
        if holdings.values().any(|it| !it.is_restartable) {
            return Err("its main cannot begin again; define it by `restartable_main`".to_owned());
        }
        let all = || holdings.values().flat_map(|holdings| &holdings.checkpoints);
        let known = all().filter_map(|it| Some((it.number, it.manifest.as_ref()?)));
        let known = known.max_by_key(|(number, _)| *number);
        let last = self.checkpoint();
        if known.is_none() && last > 0 {
            return Err(format!("no node that is left knows checkpoint {last}"));
        }
        let number = known.map_or(0, |(number, _)| number);
        let is_again = number == last && self.runs.len() > 1;
        self.again = if is_again { self.again + 1 } else { 0 };
        if self.again >= AGAIN_MAX {
            return Err(match number {
                0 => format!("it began again {AGAIN_MAX} times, and made no checkpoint"),
                _ => format!(
                    "it went back to checkpoint {number} {AGAIN_MAX} times, and made no other since"
                ),
            });
        }
        let order = known.map(|(_, manifest)| self.order(number, manifest, &members, holdings));
        let (order, read) = order.transpose()?.unzip();
        let is_stored = all().any(|it| it.number == number && it.is_stored);
        let settings = holdings.values().find_map(|it| it.settings).unwrap_or_default();
        let is_single = |RestoreOrder { plan, .. }: &RestoreOrder| {
            plan.holders.iter().any(|holders| holders.len() == 1)
        };
        let keeps_copies = settings.copies > 1 && members.len() > 1 && !is_stored;
        let lacks_copies = keeps_copies && order.as_ref().is_none_or(is_single);
        self.runs.push((number, members));
        let old = self.runs.len().saturating_sub(KEPT);
        self.runs.iter_mut().take(old).for_each(|(_, members)| *members = Vec::new());
        Ok(GoOn { checkpoint: number, order, read: read.unwrap_or_default(), lacks_copies })
    }

    /// How `members` continue from a checkpoint, and the names of the nodes whose parts are read
    /// from the place where the job stores its checkpoints.
    fn order(
        &self,
        number: u64,
        manifest: &EncodedManifest,
        members: &[NodeId],
        holdings: &BTreeMap<NodeId, Holdings>,
    ) -> Result<(RestoreOrder, Vec<String>), String> {
        let image = Image::new(manifest.0.clone()).map_err(|error| error.to_string())?;
        let before = image.layout();
        let run = self.runs.iter().rev().find(|(began, _)| *began < number);
        // A checkpoint from a folder may be of another grid.
        let run = run.filter(|(_, were)| were.len() as u32 == before.node_count());
        let were: Vec<Option<NodeId>> = match run {
            Some((_, were)) => were.iter().copied().map(Some).collect(),
            None => before.nodes().map(|_| None).collect(),
        };
        let spec = self.roster.part(members).ok_or("no node is left")?;
        let position =
            |node: &NodeId| members.iter().position(|member| member == node).map(NodeId::from);
        let held = held_parts(number, holdings);
        let has_parts = |holder: &NodeId, of: NodeId| {
            held.get(holder).is_some_and(|parts| has_all(parts, before, of))
        };
        let holder = |(old, was): (NodeId, &Option<NodeId>)| {
            let candidates = was.iter().chain(holdings.keys());
            candidates.filter(|it| has_parts(it, old)).find_map(position)
        };
        let successor = |was: &Option<NodeId>| was.as_ref().and_then(position);
        let name = |node: &NodeId| match were.get(node.index()) {
            Some(Some(was)) => self.roster.name(*was),
            _ => node.to_string(),
        };
        let successors: Vec<_> = were.iter().map(successor).collect();
        let mut holders: Vec<_> = before.nodes().zip(&were).map(holder).collect();
        let mut all = holdings.values().flat_map(|it| &it.checkpoints);
        let mut read = Vec::new();
        if all.any(|it| it.number == number && it.is_stored) {
            // Any node can read any part, so the missing parts are divided among the members.
            let readers = members.len() as u32;
            for (old, holder) in before.nodes().zip(&mut holders) {
                if holder.is_none() {
                    *holder = successors[old.index()].or(Some(NodeId(old.0 % readers)));
                    read.push(name(&old));
                }
            }
        }
        let plan = RestorePlan::recovery(&image, &spec, &successors, &holders);
        let plan = plan.map_err(|missing| {
            let settings = holdings.values().find_map(|it| it.settings);
            let grid = run.and_then(|(_, were)| self.roster.part(were));
            let had = |node: &NodeId| {
                let known = settings.zip(grid.as_ref());
                let partners = known.map(|(settings, grid)| settings.partners_in(grid, *node));
                let partners: Vec<String> = partners.iter().flatten().map(name).collect();
                let on = abbreviated(partners.iter().map(String::as_str));
                match partners.len() {
                    0 => name(node),
                    1 => format!("{} (its copy was on {on})", name(node)),
                    _ => format!("{} (its copies were on {on})", name(node)),
                }
            };
            let names: Vec<String> = missing.iter().map(had).collect();
            format!(
                "no node that is left has a copy of the part of {} in checkpoint {number}",
                names.join(", ")
            )
        })?;
        let having = all_holders(before, &held, members);
        let plan = plan.held_by(before, |old| having[old.index()].clone());
        let plan = plan.going_back_again(self.again > 0);
        let reads_stored = !read.is_empty();
        Ok((RestoreOrder { manifest: manifest.clone(), plan, reads_stored }, read))
    }
}

/// The parts of a checkpoint that each node has.
fn held_parts(
    number: u64,
    holdings: &BTreeMap<NodeId, Holdings>,
) -> BTreeMap<NodeId, BTreeSet<PeId>> {
    let parts = |of: &Holdings| -> BTreeSet<PeId> {
        let held = of.checkpoints.iter().filter(|it| it.number == number);
        held.flat_map(|it| it.parts.iter().copied()).collect()
    };
    holdings.iter().map(|(&node, of)| (node, parts(of))).collect()
}

/// Whether these include all parts of a node of the image.
fn has_all(parts: &BTreeSet<PeId>, before: &Layout, of: NodeId) -> bool {
    before.place(of).pes.clone().all(|pe| parts.contains(&PeId(pe)))
}

/// For each node of the image, the members that have all its parts, by their numbers in the next
/// run. The time grows with the number of parts that members have, not with the square of the
/// number of nodes.
fn all_holders(
    before: &Layout,
    held: &BTreeMap<NodeId, BTreeSet<PeId>>,
    members: &[NodeId],
) -> Vec<Vec<NodeId>> {
    let mut holders = vec![Vec::new(); before.node_count() as usize];
    for (position, member) in members.iter().enumerate() {
        let Some(parts) = held.get(member) else { continue };
        let known = parts.iter().filter(|part| part.0 < before.pe_count());
        let owners: BTreeSet<NodeId> = known.map(|&part| before.node_of(part)).collect();
        for owner in owners.into_iter().filter(|&owner| has_all(parts, before, owner)) {
            holders[owner.index()].push(NodeId::from(position));
        }
    }
    holders
}

#[cfg(test)]
mod tests {
    use super::*;
    use gridspan_runtime::{Checkpoints, Holding};
    use gridspan_topology::GridSpec;

    #[test]
    fn an_error_names_the_nodes_that_had_a_missing_part_and_its_copy() {
        let grid = GridSpec::from_emulate("2x2,wan=1ms").unwrap();
        let left = [2, 3].map(NodeId);
        let mut runs = Runs::new(grid.clone(), &[]);
        let mut named = |settings: Option<Checkpoints>| {
            let manifest = Some(EncodedManifest::without_actors(3, grid.layout().clone()));
            let parts = [2, 3].map(PeId).to_vec();
            let held = Holding { number: 3, manifest, parts, is_stored: false };
            let mut holdings = Holdings::new(vec![held], true);
            holdings.settings = settings;
            let error = runs.begin(left.to_vec(), &BTreeMap::from([(left[0], holdings)]));
            let error = error.unwrap_err();
            let begin = "no node that is left has a copy of the part of ";
            let names =
                error.strip_prefix(begin).and_then(|it| it.strip_suffix(" in checkpoint 3"));
            names.unwrap_or_else(|| panic!("{error}")).to_owned()
        };
        let two = Checkpoints::default();

        let near = "a/0 (its copy was on a/1), a/1 (its copy was on a/0)";
        assert_eq!(named(Some(two)), near);
        let apart = "a/0 (its copy was on b/2), a/1 (its copy was on b/3)";
        assert_eq!(named(Some(two.protecting_sites(true))), apart);
        let three = "a/0 (its copies were on a/1, b/2), a/1 (its copies were on a/0, b/2)";
        assert_eq!(named(Some(two.with_copies(3))), three);
        for settings in [Some(two.with_copies(1)), None] {
            assert_eq!(named(settings), "a/0, a/1");
        }
    }

    #[test]
    fn the_next_run_knows_which_members_have_each_part() {
        let grid = GridSpec::from_emulate("1x3").unwrap();
        let members: Vec<NodeId> = grid.layout().nodes().collect();
        let mut runs = Runs::new(grid.clone(), &[]);
        let held = |parts: [u32; 2]| {
            let manifest = Some(EncodedManifest::without_actors(4, grid.layout().clone()));
            let parts = parts.map(PeId).to_vec();
            Holdings::new(vec![Holding { number: 4, manifest, parts, is_stored: false }], true)
        };
        // Each node also had the part of the one before it, and the middle one is lost.
        let (first, last) = (members[0], members[2]);
        let holdings = BTreeMap::from([(first, held([0, 2])), (last, held([1, 2]))]);

        let GoOn { order, .. } = runs.begin(vec![first, last], &holdings).unwrap();

        let holders = [vec![NodeId(0)], vec![NodeId(1)], vec![NodeId(0), NodeId(1)]];
        assert_eq!(order.unwrap().plan.holders, holders);
    }

    #[test]
    fn the_members_of_runs_long_ago_are_not_saved() {
        let grid = GridSpec::from_emulate("1x2").unwrap();
        let members: Vec<NodeId> = grid.layout().nodes().collect();
        let mut runs = Runs::new(grid.clone(), &[]);
        for number in 1..=200 {
            let manifest = Some(EncodedManifest::without_actors(number, grid.layout().clone()));
            let parts = vec![PeId(0), PeId(1)];
            let held = Holding { number, manifest, parts, is_stored: false };
            let holdings = BTreeMap::from([(members[0], Holdings::new(vec![held], true))]);
            runs.begin(members.clone(), &holdings).unwrap();
        }
        let mut saved = Saved::default();

        runs.save(&mut saved);

        let known = saved.runs.iter().rev().take_while(|(_, of_run)| *of_run == members);
        assert_eq!((saved.runs.len(), known.count()), (201, KEPT));
        assert_eq!(saved.runs[0], (0, Vec::new()), "the positions of runs are their numbers");
    }
}
