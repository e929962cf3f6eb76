//! A topology for people: a tree of groups, then tables of the links between the coarsest of them.

use super::topology::{LinkView, Topology};
use crate::quantity::{
    UNKNOWN, bandwidth, bandwidth_range, count, digits, milliseconds, rtt_range,
};
use crate::style::{Branches, Style};
use crate::table::{Align, Table};
use gridspan_topology::{Bandwidth, GroupId, Pipes};

/// Largest number of groups shown below one group; `--json` prints all.
const CHILDREN_MAX: usize = 32;
/// Largest number of single nodes below one group that get a line each.
const SINGLES_MAX: usize = 8;
/// Largest number of columns of a table of links, which fits a wide terminal.
const COLUMNS_MAX: usize = 12;

/// Renders the topology as text.
pub(crate) fn render(topology: &Topology, style: Style) -> String {
    let hierarchy = &topology.hierarchy;
    let (nodes, levels) = (hierarchy.nodes().len(), hierarchy.depth());
    let mut text = format!(
        "{} in {}, {}\n\n",
        count(nodes, "node"),
        count(levels, "level"),
        topology.source.title()
    );
    text += &tree(topology, style);
    text += &links(topology, style);
    for &group in &topology.coarsest() {
        if let Some((pipes, rate)) = topology.uplink(group) {
            let rate = bandwidth(rate);
            let name = topology.names.group(group);
            text += &match pipes {
                Pipes::Shared => format!("\nthe nodes of {name} share one uplink of {rate}"),
                Pipes::Separate => {
                    format!("\neach node of {name} has its own uplink; two together carry {rate}")
                }
            };
        }
    }
    for warning in &topology.warnings {
        text += &format!("\nwarning: {warning}");
    }
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

fn tree(topology: &Topology, style: Style) -> String {
    let columns = ["GROUP", "NODES", "ROUND TRIP", "BANDWIDTH", "CONFIDENCE", "MEMBERS"];
    let right = [1, 4];
    let mut table = Table::new(columns.map(str::to_owned).to_vec(), |column| {
        if right.contains(&column) { Align::Right } else { Align::Left }
    });
    let tree = Tree { topology, branches: style.branches() };
    tree.add(&mut table, tree.shown(topology.hierarchy.root()), ["", ""]);
    table.render(style.is_coloured)
}

struct Tree<'a> {
    topology: &'a Topology,
    branches: &'a Branches,
}

impl Tree<'_> {
    /// Returns the smallest group with the same members: a level that does not divide them is not
    /// shown.
    fn shown(&self, mut group: GroupId) -> GroupId {
        while let [only] = self.topology.hierarchy.group(group).children() {
            group = *only;
        }
        group
    }

    /// Returns the groups to show below a group. A group that has only single nodes as children,
    /// and is not the root, is shown without children, like a group of the closest level.
    fn children(&self, number: GroupId) -> Vec<GroupId> {
        let hierarchy = &self.topology.hierarchy;
        let group = hierarchy.group(number);
        let children: Vec<GroupId> =
            group.children().iter().map(|&child| self.shown(child)).collect();
        let is_several = |child: &GroupId| hierarchy.group(*child).members().len() > 1;
        let is_worth_it = group.parent().is_none() || children.iter().any(is_several);
        if is_worth_it { children } else { vec![] }
    }

    /// Adds a group with the prefix `own`, and those below it with the prefix `below`.
    fn add(&self, table: &mut Table, number: GroupId, [own, below]: [&str; 2]) {
        let (hierarchy, names) = (&self.topology.hierarchy, &self.topology.names);
        let group = hierarchy.group(number);
        let name = if own.is_empty() { "all" } else { names.group(number) };
        let members = group.members();
        let list = names.list(members);
        let children = self.children(number);
        table.row(vec![
            format!("{own}{name}"),
            members.len().to_string(),
            group.rtt().map_or(UNKNOWN.to_owned(), |range| rtt_range(&range)),
            group.bandwidth().map_or(UNKNOWN.to_owned(), |range| bandwidth_range(&range)),
            format!("{:.2}", group.confidence()),
            if children.is_empty() && list != name { list } else { String::new() },
        ]);
        let is_single = |child: &GroupId| hierarchy.group(*child).members().len() == 1;
        let (singles, mut shown): (Vec<GroupId>, Vec<GroupId>) =
            children.into_iter().partition(is_single);
        let (mut summed, mut left) = (vec![], 0);
        if singles.len() <= SINGLES_MAX {
            shown.extend(singles);
            shown.sort_by_key(|&child| hierarchy.group(child).members().first().copied());
        } else {
            summed = singles.iter().map(|&child| hierarchy.group(child).members()[0]).collect();
        }
        if shown.len() > CHILDREN_MAX {
            left = shown.len() - CHILDREN_MAX;
            shown.truncate(CHILDREN_MAX);
        }
        let lines = shown.len() + usize::from(left > 0) + usize::from(!summed.is_empty());
        let prefixes = |line: usize| self.branches.child(below, line + 1 == lines);
        for (line, &child) in shown.iter().enumerate() {
            let [own, below] = prefixes(line);
            self.add(table, child, [&own, &below]);
        }
        if left > 0 {
            let more = count(left, "more group");
            table.row(vec![format!("{}{more}", prefixes(shown.len())[0])]);
        }
        if !summed.is_empty() {
            let name = format!("{}single nodes", prefixes(lines - 1)[0]);
            let mut row = vec![name, summed.len().to_string()];
            row.extend([UNKNOWN, UNKNOWN, UNKNOWN].map(str::to_owned));
            row.push(names.list(&summed));
            table.row(row);
        }
    }
}

/// Renders the tables of the links between the coarsest groups.
fn links(topology: &Topology, style: Style) -> String {
    let groups = topology.coarsest();
    let shown = &groups[..groups.len().min(COLUMNS_MAX)];
    if shown.len() < 2 {
        return String::new();
    }
    let latency = |view: LinkView| view.latency.map(milliseconds);
    let mut text = section(topology, shown, style, "latency one way, ms", &latency);
    let known = |is_known: &dyn Fn(LinkView) -> bool| {
        shown.iter().any(|&from| shown.iter().any(|&to| is_known(topology.link(from, to))))
    };
    if known(&|view| view.bandwidth.is_some()) {
        let rate = |view: LinkView| view.bandwidth.map(megabits);
        text += &section(topology, shown, style, "bandwidth, Mbit/s", &rate);
    }
    if known(&|view| view.loss.is_some_and(|loss| loss > 0.0)) {
        let loss = |view: LinkView| view.loss.map(|loss| format!("{:.1}", loss * 100.0));
        text += &section(topology, shown, style, "packets lost, %", &loss);
    }
    if topology.is_live() && known(&|view| view.age.is_some()) {
        let age = |view: LinkView| view.age.map(|age| format!("{:.1}", age.as_secs_f64()));
        text += &section(topology, shown, style, "time since observed, s", &age);
    }
    if shown.len() < groups.len() {
        let more = count(groups.len() - shown.len(), "more group");
        text += &format!("\n{more}; --json has all\n");
    }
    text
}

fn megabits(bandwidth: Bandwidth) -> String {
    match bandwidth.is_unlimited() {
        true => "unlimited".to_owned(),
        false => digits(bandwidth.bits_per_second() as f64 * 1e-6),
    }
}

/// Renders one table: a row for each sending group, a column for each receiving group.
fn section(
    topology: &Topology,
    groups: &[GroupId],
    style: Style,
    title: &str,
    cell: &dyn Fn(LinkView) -> Option<String>,
) -> String {
    let name = |&group: &GroupId| format!("to {}", topology.names.group(group));
    let columns = std::iter::once(title.to_owned()).chain(groups.iter().map(name)).collect();
    let align = |column| if column == 0 { Align::Left } else { Align::Right };
    let mut table = Table::new(columns, align);
    for &from in groups {
        let cells = groups
            .iter()
            .map(|&to| cell(topology.link(from, to)).unwrap_or_else(|| UNKNOWN.to_owned()));
        let name = format!("from {}", topology.names.group(from));
        table.row(std::iter::once(name).chain(cells).collect());
    }
    format!("\n{}", table.render(style.is_coloured))
}
