//! Large broadcasts and multicasts, with their trees.

use super::places::Places;
use gridspan_record::{RecordedHop, Recording, What};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Maximum number of broadcasts that are listed.
const LISTED_MAX: usize = 1000;
/// Maximum number of plans whose trees are shown.
const PLANS_MAX: usize = 4;
/// Maximum number of trees of a plan that are shown.
const TREES_MAX: usize = 3;
/// Maximum number of nodes of a tree that are shown, which limits the height of a drawing.
const NODES_MAX: usize = 80;

/// A broadcast.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct BroadcastRow {
    /// When it began.
    pub(crate) at_ns: u64,
    /// Name of the node that sent it.
    pub(crate) root: String,
    /// Size in bytes.
    pub(crate) bytes: u64,
    /// Number of nodes that it reached.
    pub(crate) reached: u64,
    /// Version of its plan; 0 if its tree follows the layout alone.
    pub(crate) plan: u64,
    /// Time until the last node had all of it.
    pub(crate) took_ns: u64,
    /// Name of the node that had it last, if that is known.
    pub(crate) last: Option<String>,
}

/// The trees of a plan, with the times of its slowest broadcast.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct PlanTrees {
    /// Name of the node at the root of the trees.
    pub(crate) root: String,
    /// Version of the plan.
    pub(crate) plan: u64,
    /// Number of broadcasts that used the plan.
    pub(crate) count: u64,
    /// Mean time of these broadcasts.
    pub(crate) mean_ns: u64,
    /// When the slowest one began.
    pub(crate) at_ns: u64,
    /// The bytes of the slowest one.
    pub(crate) bytes: u64,
    /// The time of the slowest one.
    pub(crate) took_ns: u64,
    pub(crate) trees: Vec<BroadcastTree>,
    /// Number of trees that are not shown.
    pub(crate) more_trees: usize,
}

/// A tree.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct BroadcastTree {
    /// Its nodes in depth-first order: each follows the one from which it receives.
    pub(crate) nodes: Vec<TreeNode>,
    /// Number of nodes that are not shown.
    pub(crate) more_nodes: usize,
}

/// A node of a tree.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct TreeNode {
    /// Its name.
    pub(crate) name: String,
    /// The number of its site.
    pub(crate) site: usize,
    /// Position of the node from which it receives; `None` for the root.
    pub(crate) parent: Option<usize>,
    /// Whether the parent is at another site.
    pub(crate) is_from_elsewhere: bool,
    /// Time until it had the whole broadcast: 0 for the root, `None` for a node that only forwards.
    pub(crate) after_ns: Option<u64>,
}

/// The large broadcasts of a job.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Broadcasts {
    /// The first broadcasts, in the order of time; at most 1000.
    pub(crate) rows: Vec<BroadcastRow>,
    /// Number of all broadcasts, including those that are not listed.
    pub(crate) count: usize,
    /// The sum of their times, which may overlap.
    pub(crate) sum_ns: u64,
    /// The slowest broadcast, even if it is not listed.
    pub(crate) slowest: Option<BroadcastRow>,
    /// The plans with the largest sums of times, the largest first.
    pub(crate) plans: Vec<PlanTrees>,
    /// Number of plans with known trees that are not shown.
    pub(crate) more_plans: usize,
}

/// A broadcast of a recording.
#[derive(Clone, Copy)]
struct Sent<'a> {
    at_ns: u64,
    root: u32,
    bytes: u64,
    reached: u64,
    plan: u64,
    took_ns: u64,
    hops: &'a [RecordedHop],
}

/// The broadcasts that used a plan.
#[derive(Default)]
struct Use<'a> {
    count: u64,
    sum_ns: u64,
    /// The slowest one of those with known trees.
    slowest: Option<Sent<'a>>,
}

impl Broadcasts {
    /// The broadcasts of a recording.
    pub(crate) fn of(recording: &Recording, places: &Places) -> Self {
        let mut all: Vec<Sent<'_>> = sent(recording).collect();
        all.sort_by_key(|sent| sent.at_ns);
        let mut uses: BTreeMap<(u32, u64), Use<'_>> = BTreeMap::new();
        for sent in &all {
            let of_plan = uses.entry((sent.root, sent.plan)).or_default();
            of_plan.count += 1;
            of_plan.sum_ns = of_plan.sum_ns.saturating_add(sent.took_ns);
            let is_slower = of_plan.slowest.is_none_or(|slowest| slowest.took_ns < sent.took_ns);
            if is_slower && !sent.hops.is_empty() {
                of_plan.slowest = Some(*sent);
            }
        }
        let mut known: Vec<(&Use<'_>, Sent<'_>)> =
            uses.values().filter_map(|of_plan| Some((of_plan, of_plan.slowest?))).collect();
        known.sort_by_key(|(of_plan, _)| Reverse(of_plan.sum_ns));
        let plans = known.iter().take(PLANS_MAX);
        let plans = plans.map(|(of_plan, slowest)| plan_trees(of_plan, slowest, places)).collect();
        let more_plans = known.len().saturating_sub(PLANS_MAX);
        let rows: Vec<BroadcastRow> =
            all.iter().take(LISTED_MAX).map(|sent| row(sent, places)).collect();
        let slowest = all.iter().min_by_key(|sent| Reverse(sent.took_ns));
        Self {
            slowest: slowest.map(|sent| row(sent, places)),
            rows,
            count: all.len(),
            sum_ns: all.iter().map(|sent| sent.took_ns).fold(0, u64::saturating_add),
            plans,
            more_plans,
        }
    }
}

fn sent(recording: &Recording) -> impl Iterator<Item = Sent<'_>> {
    recording.events.iter().filter_map(|event| match &event.what {
        What::Broadcast { root, bytes, reached, plan, duration_ns, hops } => Some(Sent {
            at_ns: event.at_ns,
            root: *root,
            bytes: *bytes,
            reached: *reached,
            plan: *plan,
            took_ns: *duration_ns,
            hops,
        }),
        _ => None,
    })
}

fn row(sent: &Sent<'_>, places: &Places) -> BroadcastRow {
    // If the recording has only a part of the trees, no hop may have this time.
    let last = sent.hops.iter().find(|hop| hop.after_ns == Some(sent.took_ns));
    let name = |node: u32| places.node_label(node as usize).to_owned();
    BroadcastRow {
        at_ns: sent.at_ns,
        root: name(sent.root),
        bytes: sent.bytes,
        reached: sent.reached,
        plan: sent.plan,
        took_ns: sent.took_ns,
        last: last.map(|hop| name(hop.to)),
    }
}

fn plan_trees(of_plan: &Use<'_>, slowest: &Sent<'_>, places: &Places) -> PlanTrees {
    let mut by_tree: BTreeMap<u32, Vec<RecordedHop>> = BTreeMap::new();
    for hop in slowest.hops {
        by_tree.entry(hop.tree).or_default().push(*hop);
    }
    let more_trees = by_tree.len().saturating_sub(TREES_MAX);
    let trees = by_tree.values().take(TREES_MAX);
    PlanTrees {
        root: places.node_label(slowest.root as usize).to_owned(),
        plan: slowest.plan,
        count: of_plan.count,
        mean_ns: of_plan.sum_ns / of_plan.count.max(1),
        at_ns: slowest.at_ns,
        bytes: slowest.bytes,
        took_ns: slowest.took_ns,
        trees: trees.map(|hops| tree(slowest.root, hops, places)).collect(),
        more_trees,
    }
}

/// Returns the tree that these edges form. A file may contain any edges, so an edge is left out if
/// the tree does not yet have the node where it begins, or already has the node where it ends.
fn tree(root: u32, hops: &[RecordedHop], places: &Places) -> BroadcastTree {
    let mut ways: BTreeMap<u32, (Option<u32>, Option<u64>)> = BTreeMap::new();
    ways.insert(root, (None, Some(0)));
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for hop in hops {
        if ways.contains_key(&hop.from) && !ways.contains_key(&hop.to) {
            ways.insert(hop.to, (Some(hop.from), hop.after_ns));
            children.entry(hop.from).or_default().push(hop.to);
        }
    }
    let (mut nodes, mut positions) = (Vec::new(), BTreeMap::new());
    let mut waiting = vec![root];
    while let Some(node) = waiting.pop() {
        let Some(&(from, after_ns)) = ways.get(&node) else { continue };
        if nodes.len() == NODES_MAX {
            break;
        }
        let site = |node: u32| places.site_of_node(node as usize);
        positions.insert(node, nodes.len());
        nodes.push(TreeNode {
            name: places.node_label(node as usize).to_owned(),
            site: site(node),
            parent: from.and_then(|from| positions.get(&from).copied()),
            is_from_elsewhere: from.is_some_and(|from| site(from) != site(node)),
            after_ns,
        });
        waiting.extend(children.get(&node).into_iter().flatten().rev());
    }
    BroadcastTree { more_nodes: ways.len() - nodes.len(), nodes }
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::{MS, complete, recording};
    use super::*;
    use gridspan_record::RecordedEvent;

    fn hop(from: u32, to: u32, tree: u32, after_ms: u64) -> RecordedHop {
        RecordedHop { from, to, tree, after_ns: Some(after_ms * MS) }
    }

    fn broadcast(at_ms: u64, plan: u64, took_ms: u64, hops: Vec<RecordedHop>) -> RecordedEvent {
        let (root, bytes, reached) = (0, 90_000, 3);
        let what = What::Broadcast { root, bytes, reached, plan, duration_ns: took_ms * MS, hops };
        RecordedEvent { at_ns: at_ms * MS, what }
    }

    fn broadcasts(events: Vec<RecordedEvent>) -> Broadcasts {
        let mut recording = recording(2, 2);
        complete(&mut recording, 100);
        recording.events = events;
        Broadcasts::of(&recording, &Places::of(&recording))
    }

    #[test]
    fn plans_have_the_trees_of_their_slowest_broadcast() {
        let slow = vec![hop(0, 2, 0, 30), hop(0, 1, 0, 2), hop(2, 3, 0, 32)];
        let fast = vec![hop(0, 1, 0, 1), hop(0, 2, 0, 10), hop(2, 3, 0, 12)];
        let striped = vec![hop(0, 2, 0, 5), hop(2, 3, 0, 6), hop(2, 1, 0, 7), hop(0, 3, 1, 6)];

        let found = broadcasts(vec![
            broadcast(40, 1, 7, striped),
            broadcast(10, 0, 32, slow),
            broadcast(20, 0, 12, fast),
            broadcast(30, 0, 99, vec![]),
        ]);

        let rows: Vec<_> =
            found.rows.iter().map(|row| (row.at_ns / MS, row.last.as_deref())).collect();
        let last = Some("b/3");
        assert_eq!(rows, [(10, last), (20, last), (30, None), (40, Some("a/1"))]);
        assert_eq!((found.count, found.sum_ns / MS), (4, 150));
        assert_eq!(found.slowest, Some(found.rows[2].clone()));
        assert_eq!((found.plans.len(), found.more_plans), (2, 0));
        let layout = &found.plans[0];
        assert_eq!((layout.plan, layout.count, layout.mean_ns), (0, 3, 143 * MS / 3));
        assert_eq!((layout.took_ns / MS, layout.trees.len()), (32, 1));
        let nodes: Vec<_> = layout.trees[0]
            .nodes
            .iter()
            .map(|node| (node.name.as_str(), node.parent, node.is_from_elsewhere))
            .collect();
        let expected = [
            ("a/0", None, false),
            ("b/2", Some(0), true),
            ("b/3", Some(1), false),
            ("a/1", Some(0), false),
        ];
        assert_eq!(nodes, expected);
        assert_eq!(found.plans[1].trees.len(), 2);
        assert_eq!(found.plans[1].trees[1].nodes.len(), 2);
    }

    #[test]
    fn edges_that_form_no_tree_are_left_out() {
        // A cycle that no edge enters, a second edge to a node, and an edge to the root.
        let hops = vec![hop(2, 3, 0, 1), hop(3, 2, 0, 1), hop(0, 1, 0, 1), hop(0, 1, 0, 5)];
        let hops = hops.into_iter().chain([hop(1, 0, 0, 1)]).collect();
        let found = broadcasts(vec![broadcast(1, 0, 5, hops)]);
        let names: Vec<_> =
            found.plans[0].trees[0].nodes.iter().map(|node| node.name.as_str()).collect();
        assert_eq!(names, ["a/0", "a/1"]);
    }

    #[test]
    fn large_trees_and_long_lists_are_cut() {
        let mut recording = recording(1, 200);
        complete(&mut recording, 10);
        let hops: Vec<RecordedHop> = (1..200).map(|to| hop(to - 1, to, 0, 1)).collect();
        let took_ms = |at: u64| if at == 1400 { 2 } else { 1 };
        let all = (0..1500).map(|at| broadcast(at, at % 9, took_ms(at), hops.clone()));
        recording.events = all.collect();
        let found = Broadcasts::of(&recording, &Places::of(&recording));
        assert_eq!((found.rows.len(), found.count), (LISTED_MAX, 1500));
        assert_eq!(found.slowest.as_ref().map(|row| row.at_ns), Some(1400 * MS));
        assert_eq!((found.plans.len(), found.more_plans), (PLANS_MAX, 5));
        let tree = &found.plans[0].trees[0];
        assert_eq!((tree.nodes.len(), tree.more_nodes), (NODES_MAX, 120));
        assert!(serde_json::to_string(&found).unwrap().len() < 400_000);
    }

    #[test]
    fn a_job_without_large_broadcasts_has_none() {
        assert_eq!(broadcasts(vec![]), Broadcasts::default());
    }
}
