//! The dendrogram: groups join at the round trip between them.

use super::items::Items;
use super::{DENDROGRAM_WIDTH, LEFT, Layout, TOP};
use crate::svg::{Anchor, LogScale, Text, line, width_of};
use crate::text::put;
use crate::topo::topology::Topology;
use gridspan_topology::GroupId;

/// Space between the ends of the last branches and the heat map.
const GAP: f64 = 6.0;
const NAME_SIZE: f64 = 11.0;

struct Dendrogram<'a> {
    topology: &'a Topology,
    items: &'a Items,
    layout: &'a Layout,
    scale: LogScale,
    path: String,
    names: String,
}

/// Draws the dendrogram and its axis.
pub(super) fn draw(topology: &Topology, items: &Items, layout: &Layout, svg: &mut String) {
    let hierarchy = &topology.hierarchy;
    let groups = (0..hierarchy.depth()).flat_map(|level| hierarchy.groups_at(level));
    let joints = groups.filter_map(|group| Some(hierarchy.group(group).rtt()?.median));
    let scale = LogScale::over(joints.map(|rtt| rtt.as_secs_f64() * 1e3));
    axis(&scale, layout, svg);
    let (path, names) = (String::new(), String::new());
    let mut dendrogram = Dendrogram { topology, items, layout, scale, path, names };
    dendrogram.branch(hierarchy.root(), LEFT);
    put(
        svg,
        format_args!(
            "<path d=\"{}\" fill=\"none\" stroke=\"#345\" stroke-width=\"{}\"/>\n",
            dendrogram.path,
            if layout.cell < 6.0 { 0.8 } else { 1.3 }
        ),
    );
    *svg += &dendrogram.names;
}

fn x(place: f64) -> f64 {
    // Long round trips are at the left, short ones at the right.
    LEFT + (1.0 - place) * (DENDROGRAM_WIDTH - GAP)
}

fn axis(scale: &LogScale, layout: &Layout, svg: &mut String) {
    let bottom = layout.bottom() + 8.0;
    for tick in scale.ticks() {
        let x = x(tick.at);
        match tick.label {
            Some(label) => {
                line([x, TOP, x, bottom], "stroke=\"#e3e3e3\"", svg);
                line([x, bottom, x, bottom + 5.0], "stroke=\"#222\"", svg);
                Text::at(x, bottom + 17.0).size(10.0).anchor(Anchor::Middle).write(&label, svg);
            }
            None => line([x, bottom, x, bottom + 3.0], "stroke=\"#888\"", svg),
        }
    }
    let (left, right) = (x(1.0), x(0.0));
    line([left, bottom, right, bottom], "stroke=\"#222\"", svg);
    let title = "round trip between groups, ms (logarithmic)";
    Text::at((left + right) / 2.0, bottom + 34.0).anchor(Anchor::Middle).write(title, svg);
}

impl Dendrogram<'_> {
    /// Draws a group and its descendants to the right of the x coordinate `from`. Returns the y
    /// coordinate of its stem; `None` if it has no rows.
    fn branch(&mut self, number: GroupId, from: f64) -> Option<f64> {
        let (first, end) = self.items.range(number)?;
        let group = self.topology.hierarchy.group(number);
        let end_x = x(0.0);
        let children: Vec<GroupId> = group
            .children()
            .iter()
            .copied()
            .filter(|&child| self.items.range(child).is_some())
            .collect();
        if let [only] = children[..] {
            return self.branch(only, from);
        }
        if end - first == 1 {
            let y = self.layout.row(first);
            put(&mut self.path, format_args!("M{from:.1} {y:.1}H{end_x:.1}"));
            return Some(y);
        }
        let level = self.topology.hierarchy.levels().nth(group.level());
        let rtt = group.rtt().or_else(|| level?.rtt).map(|range| range.median);
        // A group never joins to the left of its parent, even if its median is larger.
        let joint = rtt.map_or(from, |rtt| x(self.scale.place(rtt.as_secs_f64() * 1e3))).max(from);
        let ends: Vec<f64> = if children.is_empty() {
            let rows = first..end;
            rows.map(|row| {
                let y = self.layout.row(row);
                put(&mut self.path, format_args!("M{joint:.1} {y:.1}H{end_x:.1}"));
                y
            })
            .collect()
        } else {
            children.into_iter().filter_map(|child| self.branch(child, joint)).collect()
        };
        let (top, bottom) = (*ends.first()?, *ends.last()?);
        let middle = (top + bottom) / 2.0;
        put(&mut self.path, format_args!("M{joint:.1} {top:.1}V{bottom:.1}"));
        put(&mut self.path, format_args!("M{from:.1} {middle:.1}H{joint:.1}"));
        self.name(number, [from, joint, middle], bottom - top);
        Some(middle)
    }

    /// Names a group on its stem, if there is room.
    fn name(&mut self, group: GroupId, [from, joint, y]: [f64; 3], height: f64) {
        let name = self.topology.names.group(group);
        let has_room = width_of(name, NAME_SIZE) + 8.0 < joint - from && height > 16.0;
        if has_room && group != self.topology.hierarchy.root() {
            Text::at(joint - 4.0, y - 4.0)
                .size(NAME_SIZE)
                .anchor(Anchor::End)
                .colour("#345")
                .write(name, &mut self.names);
        }
    }
}
