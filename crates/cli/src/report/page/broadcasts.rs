//! Large broadcasts: their times, durations and trees.

use super::html::{Cell, Panel, Table, escaped, time};
use super::tree::tree;
use crate::quantity::{bytes, count};
use crate::report::analysis::Analysis;
use crate::report::analysis::broadcasts::{Broadcasts, PlanTrees};
use crate::text::put;

/// Renders the broadcasts, if there were any.
pub(crate) fn panel(analysis: &Analysis) -> Option<Panel> {
    let broadcasts = &analysis.broadcasts;
    if broadcasts.rows.is_empty() {
        return None;
    }
    let mut body: String = broadcasts.plans.iter().map(plan).collect();
    if broadcasts.more_plans > 0 {
        let more = count(broadcasts.more_plans, "other plan");
        put(&mut body, format_args!("<p><small>Trees of {more} are not shown.</small></p>\n"));
    }
    if !broadcasts.plans.is_empty() {
        body += "<p><small>A node is at the time at which it had the whole broadcast. Thick lines \
                 lead to other sites; each site has a colour.</small></p>\n";
    }
    let listed = broadcasts.rows.len();
    if listed < broadcasts.count {
        put(&mut body, format_args!("<p><small>The table has the first {listed}.</small></p>\n"));
    }
    let (title, conclusion) = ("Broadcasts", conclusion(broadcasts));
    let tables = vec![list(broadcasts), edges(broadcasts)];
    Some(Panel { id: "broadcasts", title, conclusion, body, tables })
}

fn conclusion(broadcasts: &Broadcasts) -> String {
    let mut text = format!(
        "{} of 30 kB and more took {} in sum; they may overlap.",
        count(broadcasts.count, "broadcast"),
        time(broadcasts.sum_ns)
    );
    if let Some(slowest) = &broadcasts.slowest {
        text += &format!(
            " The slowest one, of {} from {} at {}, took {}",
            bytes(slowest.bytes),
            slowest.root,
            time(slowest.at_ns),
            time(slowest.took_ns)
        );
        let last = slowest.last.as_ref().map(|node| format!("; {node} had it last"));
        text += &last.unwrap_or_default();
        text.push('.');
    }
    text
}

/// Renders the trees of a plan.
fn plan(plan: &PlanTrees) -> String {
    let name = plan_name(plan.plan);
    let broadcasts = count(usize::try_from(plan.count).unwrap_or(usize::MAX), "broadcast");
    let mut html = format!(
        "<p>From {}, by {name}: {broadcasts}, {} on average. The slowest one, of {} at {}, took \
         {}:</p>\n",
        escaped(&plan.root),
        time(plan.mean_ns),
        bytes(plan.bytes),
        time(plan.at_ns),
        time(plan.took_ns)
    );
    let trees = plan.trees.len() + plan.more_trees;
    for (number, of_plan) in plan.trees.iter().enumerate() {
        if trees > 1 {
            put(&mut html, format_args!("<p><small>Tree {} of {trees}</small></p>\n", number + 1));
        }
        html += &tree(of_plan, plan.took_ns);
        if of_plan.more_nodes > 0 {
            let more = count(of_plan.more_nodes, "more node");
            put(&mut html, format_args!("<p><small>{more} not shown</small></p>\n"));
        }
    }
    html
}

fn plan_name(version: u64) -> String {
    match version {
        0 => "the tree of the layout".to_owned(),
        version => format!("plan {version}"),
    }
}

fn list(broadcasts: &Broadcasts) -> Table {
    let titles = [
        ("AT", "at_ns"),
        ("FROM", "from"),
        ("BYTES", "bytes"),
        ("NODES", "nodes"),
        ("PLAN", "plan"),
        ("TOOK", "took_ns"),
        ("LAST NODE", "last_node"),
    ];
    let mut table = Table::new("broadcasts", &titles);
    for row in &broadcasts.rows {
        table.row(vec![
            Cell::time(row.at_ns),
            Cell::text(&row.root),
            Cell::bytes(row.bytes),
            Cell::count(row.reached),
            Cell::count(row.plan),
            Cell::time(row.took_ns),
            Cell::optional(row.last.as_deref(), Cell::text),
        ]);
    }
    table
}

fn edges(broadcasts: &Broadcasts) -> Table {
    let titles = [
        ("ROOT", "root"),
        ("PLAN", "plan"),
        ("TREE", "tree"),
        ("FROM", "from"),
        ("TO", "to"),
        ("ALL OF IT AFTER", "after_ns"),
    ];
    let mut table = Table::new("broadcast-trees", &titles);
    for plan in &broadcasts.plans {
        for (number, tree) in (1..).zip(&plan.trees) {
            for node in &tree.nodes {
                let Some(parent) = node.parent.and_then(|at| tree.nodes.get(at)) else { continue };
                table.row(vec![
                    Cell::text(&plan.root),
                    Cell::count(plan.plan),
                    Cell::count(number),
                    Cell::text(&parent.name),
                    Cell::text(&node.name),
                    Cell::optional(node.after_ns, Cell::time),
                ]);
            }
        }
    }
    table
}
