//! Draws a tree of a broadcast: a row for each node, at the time at which the node had the whole
//! broadcast.

use super::chart::{AXIS, COLOURS, WIDTH, begin, label, ticks, time_axis};
use super::html::{escaped, time};
use crate::report::analysis::broadcasts::{BroadcastTree, TreeNode};
use crate::text::{cut, put};

/// Space left of the root.
const LEFT: f64 = 20.0;
/// Space for the names of nodes right of the last ones.
const NAMES: f64 = 170.0;
/// Height of a row.
const ROW: f64 = 17.0;
/// Maximum number of letters of the name of a node.
const LETTERS_MAX: usize = 24;

/// Draws a tree. The scale ends at `most_ns`. Edges between sites are thick.
pub(crate) fn tree(tree: &BroadcastTree, most_ns: u64) -> String {
    let length = WIDTH - LEFT - NAMES;
    let most_ns = tree.nodes.iter().filter_map(|node| node.after_ns).fold(most_ns, u64::max);
    let axis = time_axis(most_ns);
    let most = most_ns.max(1) as f64;
    let bottom = tree.nodes.len() as f64 * ROW + 6.0;
    let mut svg = begin(bottom + AXIS, "a tree of a broadcast");
    for tick in ticks(most / axis.unit) {
        let x = LEFT + tick * axis.unit / most * length;
        put(&mut svg, format_args!("<path class=\"grid\" d=\"M{x:.1} 0V{bottom:.1}\"/>"));
        put(
            &mut svg,
            format_args!(
                "<text class=\"t\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\n",
                bottom + 13.0,
                label(tick)
            ),
        );
    }
    put(
        &mut svg,
        format_args!(
            "<text class=\"t unit\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\n",
            LEFT + length / 2.0,
            bottom + 28.0,
            escaped(axis.title)
        ),
    );
    let mut places: Vec<[f64; 2]> = Vec::with_capacity(tree.nodes.len());
    for (row, node) in tree.nodes.iter().enumerate() {
        let parent = node.parent.and_then(|parent| places.get(parent).copied());
        // A node without a time only passes the broadcast on. It stands below its parent.
        let own = node.after_ns.map(|after| LEFT + after as f64 / most * length);
        let x = own.or(parent.map(|[x, _]| x)).unwrap_or(LEFT);
        let y = row as f64 * ROW + 10.0;
        if let Some([from_x, from_y]) = parent {
            let class = if node.is_from_elsewhere { "edge far" } else { "edge" };
            put(
                &mut svg,
                format_args!(
                    "<path class=\"{class}\" d=\"M{from_x:.1} {from_y:.1}V{y:.1}H{x:.1}\"/>"
                ),
            );
        }
        put(
            &mut svg,
            format_args!(
                "<circle class=\"k{}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\"><title>{}</title>\
                 </circle><text class=\"t\" x=\"{:.1}\" y=\"{:.1}\">{}</text>\n",
                node.site % COLOURS,
                escaped(&described(node, tree)),
                x + 8.0,
                y + 4.0,
                escaped(&cut(&node.name, LETTERS_MAX, '…'))
            ),
        );
        places.push([x, y]);
    }
    svg += "</svg>\n";
    svg
}

fn described(node: &TreeNode, tree: &BroadcastTree) -> String {
    let parent = node.parent.and_then(|parent| tree.nodes.get(parent));
    match (parent, node.after_ns) {
        (None, _) => format!("{}: the broadcast begins here", node.name),
        (Some(parent), Some(ns)) => {
            format!("{}: all of it after {}, from {}", node.name, time(ns), parent.name)
        }
        (Some(parent), None) => format!("{}: passes it on, from {}", node.name, parent.name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_node_has_a_row_and_an_edge_from_its_parent() {
        let node = |name: &str, parent, is_from_elsewhere, after_ns| TreeNode {
            name: name.to_owned(),
            site: 7,
            parent,
            is_from_elsewhere,
            after_ns,
        };
        let nodes = vec![
            node("<a>", None, false, Some(0)),
            node("b", Some(0), true, None),
            node("c", Some(1), false, Some(4_000_000)),
        ];

        let svg = tree(&BroadcastTree { nodes, more_nodes: 0 }, 1_000_000);

        assert_eq!((svg.matches("<circle").count(), svg.matches("class=\"edge").count()), (3, 2));
        // The node in between has the place of the first one; the last is at the end of the axis.
        assert!(svg.contains("class=\"edge far\" d=\"M20.0 10.0V27.0H20.0\""), "{svg}");
        assert!(svg.contains("class=\"edge\" d=\"M20.0 27.0V44.0H730.0\""), "{svg}");
        assert!(svg.contains("<title>b: passes it on, from &lt;a&gt;</title>"), "{svg}");
        assert!(svg.contains(">time, ms</text>") && svg.contains("class=\"k1\""), "{svg}");
    }
}
