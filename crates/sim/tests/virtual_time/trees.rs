//! Broadcasts take the trees that `gridctl bcast` shows.

use gridspan_bcast::strategies::{Request, by_name};
use gridspan_bcast::{Mode, NetworkEstimate, SearchBudget, Sharing};
use gridspan_runtime::{Actor, Context, Ix1, Job, Op, Per, Time, To};
use gridspan_sim::{LogEntry, SimOptions, Simulation};
use gridspan_topology::dice::Dice;
use gridspan_topology::{ClusterSpec, GridSpec, HostSpec, Link, NodeId, SiteSpec};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::mpsc;

/// Size of a message in bytes. It is one segment. A message below 4 KiB would go to the coordinator
/// first, and from there to all.
const BYTES: usize = 8000;

/// Tag of frames that carry segments of a broadcast from node 0.
const FROM_FIRST: u16 = 3;
/// Tag of frames that carry segments of a broadcast from another node. Node 0 then sends the number
/// of the broadcast to all nodes.
const FROM_OTHER: u16 = 5;

/// A member on each node.
#[derive(Serialize, Deserialize)]
struct Listener;

#[derive(Clone, Serialize, Deserialize)]
enum Message {
    /// Command to one member: broadcast.
    Begin,
    /// The broadcast, with its start time in nanoseconds.
    Data(u64, Vec<u8>),
}

impl Actor for Listener {
    type Index = Ix1;
    type Init = ();
    type Message = Message;

    fn create((): (), _cx: &mut Context<'_, Self>) -> Self {
        Self
    }

    fn handle(&mut self, message: Message, cx: &mut Context<'_, Self>) {
        match message {
            Message::Begin => {
                let all = cx.collection();
                cx.broadcast(&all, Message::Data(cx.now().as_nanos(), vec![1; BYTES]));
            }
            Message::Data(began, _) => cx.contribute(Op::Max, began, To::main()),
        }
    }
}

/// The edges that one broadcast from a node takes, according to the frames of a simulated job.
fn taken(grid: &GridSpec, mode: Mode, root: u32) -> BTreeSet<(u32, u32)> {
    let (out, began) = mpsc::channel();
    let job = Job::new("trees").broadcasts(mode).actor::<Listener>().main(async move |grid| {
        let members = grid.create_group::<Listener>(Per::Node, |_| ()).await?;
        members.member(Ix1(root as i32)).send(Message::Begin);
        let began: u64 = members.reduction(Op::Max).await?;
        out.send(Time(began)).map_err(|_| "the test has ended")?;
        Ok(())
    });
    let options = SimOptions::default().with_log(true);
    let report = Simulation::new(job, grid.clone(), options).unwrap().run();
    assert_eq!(report.outcome, Ok(()));
    let began = began.recv().unwrap();
    let node_of = |pe| grid.layout().node_of(pe).0;
    let tag = if root == 0 { FROM_FIRST } else { FROM_OTHER };
    let is_segment = |entry: &&LogEntry| entry.time > began && entry.kind >> 8 == tag;
    let segments = report.log.iter().filter(is_segment);
    let edges: Vec<_> = segments.map(|entry| (node_of(entry.from), node_of(entry.to))).collect();
    let taken: BTreeSet<_> = edges.iter().copied().collect();
    assert_eq!(taken.len(), edges.len(), "each edge carries one segment: {edges:?}");
    taken
}

/// The edges that `gridctl bcast` shows for a strategy.
fn shown(grid: &GridSpec, strategy: &str, root: u32) -> BTreeSet<(u32, u32)> {
    let estimate = NetworkEstimate::from_grid(grid, 2e-5, Sharing::SitePairs);
    let sites: Vec<u32> = (0..estimate.clusters()).map(|at| estimate.site_of(at)).collect();
    let network = estimate.network();
    let request = Request { network: &network, sites: &sites, root, bytes: BYTES as u64, seed: 1 };
    let draft = by_name(strategy).unwrap().draft(&request, &SearchBudget::unlimited());
    assert_eq!(draft.stripes.len(), 1);
    draft.stripes[0].edges.iter().copied().collect()
}

/// A random grid of up to four sites of up to six hosts, each in one of up to three clusters or in
/// none, in any order.
fn any_grid(dice: &mut Dice) -> GridSpec {
    let sites = (0..1 + dice.below(4_u32)).map(|site| {
        let clusters = dice.below(4_u32);
        let hosts = (0..1 + dice.below(6_u32)).map(|host| {
            let cluster = dice.below(clusters + 1);
            let name = format!("s{site}h{host}");
            match cluster < clusters {
                true => HostSpec::new(name, 1).with_cluster(cluster),
                false => HostSpec::new(name, 1),
            }
        });
        let mut spec = SiteSpec::new(format!("s{site}"), hosts.collect(), Link::lan());
        let named = |cluster| ClusterSpec::new(format!("c{cluster}"), Link::lan());
        spec.clusters = (0..clusters).map(named).collect();
        spec
    });
    GridSpec::new(sites.collect()).unwrap()
}

#[test]
fn on_any_grid_broadcasts_take_the_tree_that_the_planner_shows() {
    let mut dice = Dice::new(17);
    for number in 0..250 {
        let grid = any_grid(&mut dice);
        let root = dice.below(grid.layout().node_count());
        let mut modes = vec![(Mode::Layout, "hierarchical")];
        if number % 20 == 0 {
            modes.extend([(Mode::Binomial, "binomial"), (Mode::Star, "star")]);
        }
        for (mode, strategy) in modes {
            let (taken, shown) = (taken(&grid, mode, root), shown(&grid, strategy, root));
            assert_eq!(taken, shown, "grid {number}, {strategy} from {root}: {grid:?}");
        }
    }
}

/// `from>to` for each edge that a broadcast takes, sorted.
fn named(grid: &GridSpec, root: &str) -> Vec<String> {
    let node = grid.hosts().find(|(_, host)| *host == root).unwrap().0;
    let name = |node| grid.host(NodeId(node));
    let edges = taken(grid, Mode::Planned, node.0);
    edges.into_iter().map(|(from, to)| format!("{}>{}", name(from), name(to))).collect()
}

#[test]
fn a_broadcast_enters_each_site_once_and_each_cluster_once() {
    let two_clusters = GridSpec::from_toml(
        "[site.a.cluster.x]\nhosts = [\"x[1-2]\"]\n[site.a.cluster.y]\nhosts = [\"y[1-4]\"]\n\
         [site.b]\nhosts = [\"b[1-2]\"]\n",
    )
    .unwrap();
    let from_x1 = ["x1>x2", "x1>y1", "x1>b1", "y1>y2", "y1>y3", "y3>y4", "b1>b2"];
    assert_eq!(named(&two_clusters, "x1"), from_x1);
    let from_y4 = ["x1>x2", "y2>y3", "y4>x1", "y4>y1", "y4>y2", "y4>b1", "b1>b2"];
    assert_eq!(named(&two_clusters, "y4"), from_y4);
    let from_b2 = ["x1>x2", "x1>y1", "y1>y2", "y1>y3", "y3>y4", "b2>x1", "b2>b1"];
    assert_eq!(named(&two_clusters, "b2"), from_b2);

    // Hosts that are in no cluster count as one cluster.
    let loners = GridSpec::from_toml(
        "[site.a]\nhosts = [\"l[1-2]\"]\n[site.a.cluster.x]\nhosts = [\"x[1-2]\"]\n",
    )
    .unwrap();
    assert_eq!(named(&loners, "l1"), ["l1>l2", "l1>x1", "x1>x2"]);
}
