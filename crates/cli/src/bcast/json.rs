//! Predictions for scripts: one JSON object.
//!
//! | key | value |
//! | --- | --- |
//! | `version` | 1; changes when a script could break |
//! | `grid` | the path or short form that describes the grid |
//! | `nodes` | for each node: `node` (its number), `name`, `site`, `cluster` |
//! | `root` | the number of the node that broadcasts |
//! | `sharing` | the links that transfers between sites share: `cluster-pairs`, `site-pairs` or `site-uplinks` |
//! | `initiation_s` | the time that a node takes to start a message or a segment |
//! | `messages` | for each size: `bytes`, `bound_s`, `plans` |
//! | `plans` | `strategy`, `time_s`, `over_bound` (null if the bound is zero), `segment_bytes` (null if the message travels whole), `segments`, `depth` (edges from the root to the farthest node), `crossings` (edges between sites, each weighted by its share of the message), `planning_s`, `trees` |
//! | `trees` | `share` of the message, `depth`, `crossings` (number of edges between sites), `edges` in the order of sending: `from`, `to`, `begin_s`, `complete_s` |

use super::inputs::Inputs;
use super::prediction::{Prediction, Predictions, TreeView};
use super::text::over_bound;
use gridspan_bcast::Sharing;
use serde_json::{Value, json};

/// The version of the object.
const VERSION: u32 = 1;

/// Renders the predictions as one line of JSON.
pub(super) fn render(inputs: &Inputs, sizes: &[Predictions]) -> String {
    let sharing = match inputs.sharing {
        Sharing::ClusterPairs => "cluster-pairs",
        Sharing::SitePairs => "site-pairs",
        Sharing::SiteUplinks => "site-uplinks",
    };
    let document = json!({
        "version": VERSION,
        "grid": inputs.source,
        "nodes": (0..inputs.nodes() as u32).map(|number| node(inputs, number)).collect::<Vec<_>>(),
        "root": inputs.root,
        "sharing": sharing,
        "initiation_s": inputs.initiation.as_secs_f64(),
        "messages": sizes.iter().map(message).collect::<Vec<_>>(),
    });
    format!("{document}\n")
}

fn node(inputs: &Inputs, node: u32) -> Value {
    let cluster = inputs.network.cluster_of(node);
    json!({
        "node": node,
        "name": inputs.name(node),
        "site": inputs.site_name(inputs.sites[cluster]),
        "cluster": inputs.cluster_name(cluster),
    })
}

fn message(size: &Predictions) -> Value {
    let plan = |prediction| plan(prediction, size.bound_s);
    json!({
        "bytes": size.bytes,
        "bound_s": size.bound_s,
        "plans": size.all.iter().map(plan).collect::<Vec<_>>(),
    })
}

fn plan(prediction: &Prediction, bound_s: f64) -> Value {
    json!({
        "strategy": prediction.strategy,
        "time_s": prediction.time_s,
        "over_bound": over_bound(prediction, bound_s),
        // A message of one segment is not cut, though its draft has a segment size.
        "segment_bytes": (prediction.segments > 1).then_some(prediction.draft.segment_bytes),
        "segments": prediction.segments,
        "depth": prediction.depth(),
        "crossings": prediction.crossings(),
        "planning_s": prediction.planning.as_secs_f64(),
        "trees": prediction.trees.iter().map(tree).collect::<Vec<_>>(),
    })
}

fn tree(tree: &TreeView) -> Value {
    let edges = tree.edges.iter().map(|edge| {
        let (begin_s, complete_s) = edge.span_s;
        json!({ "from": edge.from, "to": edge.to, "begin_s": begin_s, "complete_s": complete_s })
    });
    json!({
        "share": tree.share,
        "depth": tree.depth,
        "crossings": tree.crossings,
        "edges": edges.collect::<Vec<_>>(),
    })
}
