//! The map of a grid: positions of sites, clusters and nodes in the picture of a tree.

use crate::bcast::inputs::Inputs;
use crate::svg::width_of;
use std::f64::consts::{PI, TAU};

/// Pairs of a number of nodes and a step: the distance in pixels between neighbours on a map of up
/// to that number of nodes.
const STEPS: [(usize, f64); 3] = [(96, 34.0), (400, 22.0), (usize::MAX, 13.0)];
/// Smallest step at which nodes are named.
const NAMED_STEP: f64 = 30.0;
/// Padding around the nodes of a cluster, and around the clusters of a site.
const PADDING: f64 = 9.0;
/// Height of the name of a cluster or site.
const TITLE: f64 = 17.0;
/// Space for links between the boxes of sites, in pixels; half of it is always kept free.
const SPACE: f64 = 70.0;
/// Font size of the names of nodes.
pub(super) const NAME_SIZE: f64 = 8.0;
/// Font size of the names of clusters and sites.
pub(super) const TITLE_SIZE: f64 = 11.0;

/// A rectangle with a name.
#[derive(Clone, Debug)]
pub(super) struct Frame {
    pub(super) name: String,
    /// The upper left corner.
    pub(super) at: [f64; 2],
    pub(super) size: [f64; 2],
}

/// Positions of all drawn items; the upper left corner is the origin.
pub(super) struct Map {
    pub(super) width: f64,
    pub(super) height: f64,
    /// Distance between neighbouring nodes.
    pub(super) step: f64,
    pub(super) sites: Vec<Frame>,
    /// Clusters of sites that have several clusters.
    pub(super) clusters: Vec<Frame>,
    /// Position of each node.
    pub(super) nodes: Vec<[f64; 2]>,
    /// Labels below the nodes; `None` where there is no room.
    pub(super) names: Option<Vec<String>>,
    /// Whether the labels are numbers, because names would be too long.
    pub(super) is_numbered: bool,
}

/// A site before it is placed; the positions of its items are relative to its corner.
struct Block {
    frame: Frame,
    clusters: Vec<Frame>,
    nodes: Vec<(u32, [f64; 2])>,
}

impl Map {
    pub(super) fn new(inputs: &Inputs) -> Self {
        let count = inputs.nodes();
        let step = STEPS.iter().find(|(most, _)| count <= *most).map_or(13.0, |(_, step)| *step);
        let mut blocks: Vec<Block> = inputs
            .spec
            .layout()
            .sites()
            .map(|site| block(inputs, site.0, step))
            .filter(|block| !block.nodes.is_empty())
            .collect();
        let [width, height] = arrange(&mut blocks);
        let mut nodes = vec![[0.0; 2]; count];
        let (mut sites, mut clusters) = (vec![], vec![]);
        for Block { frame, clusters: inner, nodes: placed } in blocks {
            let [x, y] = frame.at;
            let moved = |at: [f64; 2]| [at[0] + x, at[1] + y];
            placed.into_iter().for_each(|(node, at)| nodes[node as usize] = moved(at));
            clusters.extend(inner.into_iter().map(|one| Frame { at: moved(one.at), ..one }));
            sites.push(frame);
        }
        let fits = |name: &str| width_of(name, NAME_SIZE) <= step;
        let is_numbered = !(0..count as u32).all(|node| fits(inputs.name(node)));
        let name = |node: u32| match is_numbered {
            true => node.to_string(),
            false => inputs.name(node).to_owned(),
        };
        let names = (step >= NAMED_STEP).then(|| (0..count as u32).map(name).collect());
        Self { width, height, step, sites, clusters, nodes, names, is_numbered }
    }

    /// Returns the radius of a node.
    pub(super) fn radius(&self) -> f64 {
        (self.step * 0.22).max(3.0)
    }
}

fn block(inputs: &Inputs, site: u32, step: f64) -> Block {
    let clusters: Vec<usize> =
        (0..inputs.sites.len()).filter(|&cluster| inputs.sites[cluster] == site).collect();
    let is_single = clusters.len() == 1;
    let mut block = Block {
        frame: Frame { name: inputs.site_name(site).to_owned(), at: [0.0; 2], size: [0.0; 2] },
        clusters: vec![],
        nodes: vec![],
    };
    let columns = (clusters.len() as f64).sqrt().ceil() as usize;
    let [mut right, mut y] = [0.0_f64, TITLE];
    for row in clusters.chunks(columns.max(1)) {
        let [mut x, mut low] = [PADDING, y];
        for &cluster in row {
            let title = if is_single { 0.0 } else { TITLE };
            let members = inputs.network.members(cluster);
            let (places, size) = rows(members.len(), step);
            let name = inputs.cluster_name(cluster);
            let own = name.split_once('.').map_or(name.as_str(), |(_, own)| own).to_owned();
            let width = (size[0] + 2.0 * PADDING).max(width_of(&own, TITLE_SIZE) + 2.0 * PADDING);
            let height = title + size[1] + PADDING;
            let nodes = members.iter().zip(places);
            let moved = |[a, b]: [f64; 2]| [x + PADDING + a, y + title + b];
            block.nodes.extend(nodes.map(|(&node, at)| (node, moved(at))));
            if !is_single {
                block.clusters.push(Frame { name: own, at: [x, y], size: [width, height] });
            }
            x += width + PADDING;
            low = low.max(y + height);
        }
        right = right.max(x);
        y = low + PADDING;
    }
    let title = width_of(&block.frame.name, TITLE_SIZE + 1.0) + 2.0 * PADDING;
    block.frame.size = [right.max(title), y];
    block
}

/// Returns positions for `count` nodes, and the size of their area. Every other row runs backwards:
/// nodes with consecutive numbers, which chains mostly connect, are then neighbours on the map.
fn rows(count: usize, step: f64) -> (Vec<[f64; 2]>, [f64; 2]) {
    let columns = ((count * 2) as f64).sqrt().ceil().max(1.0) as usize;
    let columns = columns.min(count.max(1));
    let place = |number: usize| {
        let (row, column) = (number / columns, number % columns);
        let column = if row % 2 == 0 { column } else { columns - 1 - column };
        [(column as f64 + 0.5) * step, (row as f64 + 0.5) * step]
    };
    let size = [columns as f64 * step, count.div_ceil(columns) as f64 * step];
    ((0..count).map(place).collect(), size)
}

/// Places the blocks around an ellipse, the first at the top or the upper left, and returns the
/// total size.
fn arrange(blocks: &mut [Block]) -> [f64; 2] {
    let count = blocks.len();
    let most = |axis: usize| blocks.iter().map(|block| block.frame.size[axis]).fold(0.0, f64::max);
    let [wide, high] = [most(0) + SPACE, most(1) + SPACE];
    // With an even number of blocks, two share the top, since a single one would stand out.
    let first =
        if count.is_multiple_of(2) { -PI / 2.0 - PI / count.max(1) as f64 } else { -PI / 2.0 };
    let mut radius = if count < 2 { 0.0 } else { 0.3 };
    loop {
        for (number, block) in blocks.iter_mut().enumerate() {
            let angle = first + TAU * number as f64 / count as f64;
            let [width, height] = block.frame.size;
            block.frame.at = [
                radius * wide * angle.cos() - width / 2.0,
                radius * high * angle.sin() - height / 2.0,
            ];
        }
        if !overlap(blocks) {
            break;
        }
        radius *= 1.05;
    }
    let low =
        |axis: usize| blocks.iter().map(|block| block.frame.at[axis]).fold(f64::MAX, f64::min);
    let corner = [low(0), low(1)];
    let mut size = [0.0_f64; 2];
    for block in blocks {
        for axis in 0..2 {
            block.frame.at[axis] -= corner[axis];
            size[axis] = size[axis].max(block.frame.at[axis] + block.frame.size[axis]);
        }
    }
    size
}

/// Whether any two blocks leave too little space for links between them.
fn overlap(blocks: &[Block]) -> bool {
    let is_near = |one: &Frame, other: &Frame| {
        (0..2).all(|axis| {
            one.at[axis] < other.at[axis] + other.size[axis] + SPACE / 2.0
                && other.at[axis] < one.at[axis] + one.size[axis] + SPACE / 2.0
        })
    };
    blocks.iter().enumerate().any(|(number, one)| {
        blocks[number + 1..].iter().any(|other| is_near(&one.frame, &other.frame))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consecutive_nodes_are_neighbours_on_the_map() {
        let (places, size) = rows(8, 10.0);
        assert_eq!(size, [40.0, 20.0]);
        for pair in places.windows(2) {
            let distance = (pair[0][0] - pair[1][0]).abs() + (pair[0][1] - pair[1][1]).abs();
            assert_eq!(distance, 10.0);
        }
    }

    #[test]
    fn blocks_do_not_overlap() {
        for count in 1..20 {
            let block = |number: usize| Block {
                frame: Frame {
                    name: String::new(),
                    at: [0.0; 2],
                    size: [40.0 + 90.0 * (number % 3) as f64, 60.0 + 70.0 * (number % 4) as f64],
                },
                clusters: vec![],
                nodes: vec![],
            };
            let mut blocks: Vec<Block> = (0..count).map(block).collect();
            let size = arrange(&mut blocks);
            assert!(!overlap(&blocks));
            assert!(blocks.iter().all(|block| {
                (0..2).all(|axis| {
                    let end = block.frame.at[axis] + block.frame.size[axis];
                    block.frame.at[axis] >= 0.0 && end <= size[axis]
                })
            }));
        }
    }
}
