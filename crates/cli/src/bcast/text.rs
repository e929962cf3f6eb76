//! Predictions for people: a table for each size, and trees as indented text.

use super::inputs::Inputs;
use super::prediction::{Prediction, Predictions, TreeView};
use crate::quantity::{UNKNOWN, bytes, count, digits, time};
use crate::style::{Branches, Style};
use crate::table::{Align, Table};
use gridspan_bcast::{Sending, Sharing};
use gridspan_topology::NodeId;
use std::time::Duration;

/// Renders the predictions as text.
pub(super) fn render(inputs: &Inputs, sizes: &[Predictions], tree: bool, style: Style) -> String {
    let mut text = heading(inputs);
    for size in sizes {
        text += &format!(
            "\n{}: no broadcast can be complete before {}\n",
            bytes(size.bytes),
            seconds(size.bound_s)
        );
        text += &table(size, style);
        if let Some(fastest) = size.fastest().filter(|_| tree) {
            for (number, tree) in fastest.trees.iter().enumerate() {
                text += &format!("\n{}", tree_title(fastest, number, tree));
                text += &tree_text(inputs, tree, style);
            }
        }
    }
    text
}

/// Formats a time in seconds with its unit.
pub(super) fn seconds(time_s: f64) -> String {
    Duration::try_from_secs_f64(time_s).map_or_else(|_| UNKNOWN.to_owned(), time)
}

/// Returns the ratio of the predicted time to the bound; `None` if the bound is zero.
pub(super) fn over_bound(prediction: &Prediction, bound_s: f64) -> Option<f64> {
    (bound_s > 0.0).then(|| prediction.time_s / bound_s)
}

/// Describes the links that transfers between sites share.
pub(super) fn sharing(sharing: Sharing) -> &'static str {
    match sharing {
        Sharing::ClusterPairs => "each pair of clusters has its own link",
        Sharing::SitePairs => "each pair of sites has its own link",
        Sharing::SiteUplinks => "each site has one link to all others",
    }
}

/// Formats the segments of a message, such as `62 of 16.4 kB`.
pub(super) fn segments(prediction: &Prediction) -> String {
    match prediction.segments {
        1 => "whole".to_owned(),
        segments => format!("{segments} of {}", bytes(prediction.draft.segment_bytes)),
    }
}

fn heading(inputs: &Inputs) -> String {
    format!(
        "{} in {} at {}, as {} describes them\nfrom {}; {}; {} to begin a message\n",
        count(inputs.nodes(), "node"),
        count(inputs.sites.len(), "cluster"),
        count(inputs.spec.layout().site_count() as usize, "site"),
        inputs.source,
        inputs.name(inputs.root.0),
        sharing(inputs.sharing),
        time(inputs.initiation)
    )
}

fn table(size: &Predictions, style: Style) -> String {
    let titles =
        ["STRATEGY", "TIME", "/ BOUND", "TREES", "DEPTH", "CROSSINGS", "SEGMENTS", "PLANNED IN"];
    let align = |column| if column == 0 { Align::Left } else { Align::Right };
    let mut table = Table::new(titles.map(str::to_owned).into(), align);
    for prediction in &size.all {
        table.row(vec![
            prediction.strategy.to_owned(),
            seconds(prediction.time_s),
            over_bound(prediction, size.bound_s).map_or_else(|| UNKNOWN.to_owned(), digits),
            prediction.trees.len().to_string(),
            prediction.depth().to_string(),
            digits(prediction.crossings()),
            segments(prediction),
            time(prediction.planning),
        ]);
    }
    table.render(style.is_coloured)
}

fn tree_title(prediction: &Prediction, number: usize, tree: &TreeView) -> String {
    let how = match prediction.draft.sending {
        Sending::Serial => "each node sends to one after the other",
        Sending::Concurrent => "each segment is passed on as it comes",
    };
    let name = prediction.strategy;
    match prediction.trees.len() {
        1 => format!("{name}: {how}\n"),
        trees => format!(
            "{name}, tree {} of {trees} with {:.1} % of the message: {how}\n",
            number + 1,
            tree.share * 100.0
        ),
    }
}

fn tree_text(inputs: &Inputs, tree: &TreeView, style: Style) -> String {
    let titles = ["NODE", "FIRST SENT", "COMPLETE", "CLUSTER"];
    let right = [1, 2];
    let mut table = Table::new(titles.map(str::to_owned).into(), |column| {
        if right.contains(&column) { Align::Right } else { Align::Left }
    });
    let root = inputs.root.0;
    let cluster = inputs.cluster_name(inputs.network.cluster_of(root));
    table.row(vec![inputs.name(root).to_owned(), String::new(), String::new(), cluster]);
    let lines = Lines { inputs, tree, branches: style.branches() };
    lines.add_children(&mut table, root, "");
    table.render(style.is_coloured)
}

struct Lines<'a> {
    inputs: &'a Inputs,
    tree: &'a TreeView,
    branches: &'a Branches,
}

impl Lines<'_> {
    /// Adds the nodes to which a node sends, in order, each with its subtree. A chain, as returned
    /// by `chain`, is one line, since it would otherwise need a level for each node.
    fn add_children(&self, table: &mut Table, node: u32, above: &str) {
        let edges = self.tree.from(node);
        let (several, last) = (edges.len() > 1, edges.len().saturating_sub(1));
        for (place, first) in edges.enumerate() {
            let (chain, end) = self.chain(first.to);
            let number = if several { format!("{}. ", place + 1) } else { String::new() };
            let [own, below] = self.branches.child(above, place == last);
            let cluster = self.inputs.network.cluster_of(first.to);
            let mut complete = seconds(first.span_s.1);
            if let Some(end_s) = end {
                complete = format!("{complete} to {}", seconds(end_s));
            }
            let names = self.inputs.names.list(&chain);
            let what = if chain.len() > 1 { " in a chain" } else { "" };
            let name = self.inputs.cluster_name(cluster);
            let is_wide = self.inputs.is_wide_area(first.from, first.to);
            table.row(vec![
                format!("{own}{number}{names}{what}"),
                seconds(first.span_s.0),
                complete,
                if is_wide { format!("{name}, from another site") } else { name },
            ]);
            let last = chain.last().map_or(first.to, |node| node.0);
            self.add_children(table, last, &below);
        }
    }

    /// Returns the longest chain from this node in which each node sends only to the next and all
    /// are in one cluster. If the chain has several nodes, also returns the time in seconds at
    /// which the last is complete.
    fn chain(&self, first: u32) -> (Vec<NodeId>, Option<f64>) {
        let network = &self.inputs.network;
        let (mut chain, mut end) = (vec![NodeId(first)], None);
        let mut node = first;
        loop {
            let mut edges = self.tree.from(node);
            match (edges.next(), edges.next()) {
                (Some(only), None) if network.cluster_of(only.to) == network.cluster_of(first) => {
                    (node, end) = (only.to, Some(only.span_s.1));
                    chain.push(NodeId(node));
                }
                _ => return (chain, end),
            }
        }
    }
}
