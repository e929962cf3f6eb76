//! The actors before and after the rebalance with the largest gain, with the bytes between their
//! places.

use super::html::{Cell, Panel, Table, escaped, share, time};
use super::placement::placement;
use crate::quantity::{bytes, count, digits};
use crate::report::analysis::Analysis;
use crate::report::analysis::graph::{RebalanceGraph, RegionKind};

/// Renders the graph, if a rebalance moved actors.
pub(crate) fn panel(analysis: &Analysis) -> Option<Panel> {
    let graph = analysis.graph.as_ref()?;
    let tables = vec![moves(graph), links(graph), regions(graph)];
    let (title, conclusion) = ("Actors before and after a rebalance", conclusion(graph));
    Some(Panel { id: "graph", title, conclusion, body: body(graph), tables })
}

/// The word for the kind of the regions.
fn region_word(graph: &RebalanceGraph) -> &'static str {
    match graph.region_kind {
        RegionKind::Site => "site",
        RegionKind::Node => "node",
        RegionKind::Pe => "PE",
    }
}

fn conclusion(graph: &RebalanceGraph) -> String {
    let rebalance = &graph.rebalance;
    let gain = match rebalance.gain() {
        Some(gain) => format!("has the largest gain, {}", share(gain)),
        None => "moved the most actors; no gain is known".to_owned(),
    };
    let moved = count(usize::try_from(rebalance.moved).unwrap_or(usize::MAX), "actor");
    let at = time(rebalance.at_ns);
    let mut text = format!(
        "The rebalance by {} at {at} {gain}. It moved {moved}; the recording has the places of {} \
         before and after, of which {} moved.",
        rebalance.strategy,
        count(graph.actors_known, "actor"),
        graph.moved_known
    );
    if let Some(group) = graph.moves.first() {
        let way = way(graph, group.from, group.to);
        let actors = count(group.actors, "actor");
        text += &format!(" The largest group, {actors} of type {}, went {way}.", group.kind);
    }
    if let (Some(window_ns), false) = (graph.window_ns, graph.region_kind == RegionKind::Pe) {
        let sum = |side: usize| graph.links.iter().map(|link| link.bytes[side]).sum::<f64>();
        text += &format!(
            " From {0} to {0} went {1} in the {2} before it, and {3} in the {2} after it{4}.",
            region_word(graph),
            bytes(sum(0) as u64),
            time(window_ns),
            bytes(sum(1) as u64),
            if graph.are_bytes_estimated { ", as estimated from the kept spans" } else { "" }
        );
        if graph.has_others() {
            text += " Bytes between two of the others do not count.";
        }
    }
    if let [Some(before), Some(after)] = graph.unevenness {
        text += &format!(
            " The busiest PE had {} times the mean work of a PE before, and {} times after.",
            digits(before),
            digits(after)
        );
    }
    text
}

/// The direction of a move, such as `from a to b`.
fn way(graph: &RebalanceGraph, from: usize, to: usize) -> String {
    let name = |region: usize| graph.regions.get(region).map_or("?", |it| it.name.as_str());
    match from == to {
        true => format!("from PE to PE inside {}", name(from)),
        false => format!("from {} to {}", name(from), name(to)),
    }
}

fn body(graph: &RebalanceGraph) -> String {
    let most = graph.dots.iter().map(|dot| dot.actors).max().unwrap_or(0);
    let dot = match most {
        0 | 1 => "A dot is an actor".to_owned(),
        most => format!("A dot is up to {most} actors"),
    };
    let lines = match graph.region_kind {
        RegionKind::Pe => "The sizes of messages inside of a process are not known.",
        RegionKind::Site | RegionKind::Node => {
            "Lines are bytes in both directions, with the same scale on both sides."
        }
    };
    let note = format!(
        "{dot}; its area is the time in handlers, and its colour stands for its {} before the \
         rebalance. Those that moved have an outline. {lines}",
        region_word(graph)
    );
    format!("{}<p><small>{}</small></p>\n", placement(graph), escaped(&note))
}

fn moves(graph: &RebalanceGraph) -> Table {
    let titles = [
        ("TYPE", "type"),
        ("FROM", "from"),
        ("TO", "to"),
        ("ACTORS", "actors"),
        ("HANDLERS BEFORE", "busy_before_ns"),
    ];
    let mut table = Table::new("graph-moves", &titles);
    for group in &graph.moves {
        table.row(vec![
            Cell::text(&group.kind),
            Cell::text(&graph.regions[group.from].name),
            Cell::text(&graph.regions[group.to].name),
            Cell::count(group.actors as u64),
            Cell::time(group.load_ns),
        ]);
    }
    table
}

fn links(graph: &RebalanceGraph) -> Table {
    let titles = [
        ("FROM", "from"),
        ("TO", "to"),
        ("BYTES BEFORE", "bytes_before"),
        ("BYTES AFTER", "bytes_after"),
    ];
    let mut table = Table::new("graph-bytes", &titles);
    for link in &graph.links {
        let [before, after] = link.bytes.map(|bytes| Cell::bytes(bytes as u64));
        table.row(vec![
            Cell::text(&graph.regions[link.from].name),
            Cell::text(&graph.regions[link.to].name),
            before,
            after,
        ]);
    }
    table
}

fn regions(graph: &RebalanceGraph) -> Table {
    let titles = [
        ("PLACE", "place"),
        ("ACTORS BEFORE", "actors_before"),
        ("ACTORS AFTER", "actors_after"),
        ("IN HANDLERS BEFORE", "busy_share_before"),
        ("IN HANDLERS AFTER", "busy_share_after"),
    ];
    let mut table = Table::new("graph-places", &titles);
    for region in &graph.regions {
        let [before, after] = region.actors.map(|actors| Cell::count(actors as u64));
        let [busy_before, busy_after] =
            region.busy_share.map(|share| Cell::optional(share, Cell::share));
        table.row(vec![Cell::text(&region.name), before, after, busy_before, busy_after]);
    }
    table
}
