//! Names of nodes and groups: by site, cluster and host where these are known.

use gridspan_topology::{GridSpec, GroupId, Hierarchy, NodeId};
use std::collections::BTreeSet;

/// Number of characters after which a list of names is cut; `--json` prints the whole list.
const LIST_CHARACTERS_MAX: usize = 48;
/// Largest number of sites in the name of a group; further sites are counted.
const SITES_MAX: usize = 3;

/// Name of the group of all nodes.
const WHOLE: &str = "all";

/// The names of all nodes and groups.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    nodes: Vec<String>,
    groups: Vec<String>,
}

impl Names {
    /// Creates the names in a grid. Nodes have the names of their hosts. If any host runs several
    /// nodes, all nodes are named after their site and number.
    pub(crate) fn of_grid(hierarchy: &Hierarchy, spec: &GridSpec) -> Self {
        let layout = spec.layout();
        let hosts: BTreeSet<&str> = spec.hosts().map(|(_, host)| host).collect();
        let is_unique = hosts.len() == spec.hosts().len();
        let node = |(node, host): (NodeId, &str)| match is_unique {
            true => host.to_owned(),
            false => format!("{}/{}", layout.site_name(layout.site_of_node(node)), node.0),
        };
        let nodes: Vec<String> = spec.hosts().map(node).collect();
        let groups = groups(hierarchy, |members| in_grid(spec, members), &nodes);
        Self { nodes, groups }
    }

    /// Creates the names of groups from those of nodes, without a grid.
    pub(crate) fn of_nodes(hierarchy: &Hierarchy, nodes: Vec<String>) -> Self {
        let groups = groups(hierarchy, |_| None, &nodes);
        Self { nodes, groups }
    }

    /// Returns the name of a node.
    pub(crate) fn node(&self, node: NodeId) -> &str {
        self.nodes.get(node.index()).map_or("?", String::as_str)
    }

    /// Returns the name of a group.
    pub(crate) fn group(&self, group: GroupId) -> &str {
        self.groups.get(group.index()).map_or("?", String::as_str)
    }

    /// Abbreviates the names of nodes, such as `d[01-16]`.
    pub(crate) fn list(&self, nodes: &[NodeId]) -> String {
        abbreviated(nodes.iter().map(|&node| self.node(node)))
    }
}

/// Names groups after their site, cluster or node. Other groups are numbered within their parent,
/// such as `2` and `2.1`; an only child has the name of its parent.
fn groups(
    hierarchy: &Hierarchy,
    named: impl Fn(&[NodeId]) -> Option<String>,
    nodes: &[String],
) -> Vec<String> {
    let mut names: Vec<String> = vec![];
    // Parents come before their children.
    for number in (0..hierarchy.depth()).flat_map(|level| hierarchy.groups_at(level)) {
        let group = hierarchy.group(number);
        let node = |node: &NodeId| nodes.get(node.index()).cloned();
        let name = match (group.name(), group.parent(), group.members()) {
            (Some(name), ..) => Some(name.to_owned()),
            (None, None, _) => Some(WHOLE.to_owned()),
            (None, Some(_), members) => named(members).or_else(|| match members {
                [only] => node(only),
                _ => None,
            }),
        };
        let numbered = || {
            let parent = group.parent()?;
            let children = hierarchy.group(parent).children();
            let above = names.get(parent.index()).map_or(WHOLE, String::as_str);
            let position = 1 + children.iter().position(|&child| child == number)?;
            Some(match (children, above) {
                ([_], above) => above.to_owned(),
                (_, WHOLE) => position.to_string(),
                (_, above) => format!("{above}.{position}"),
            })
        };
        let name = name.or_else(numbered).unwrap_or_default();
        names.push(name);
    }
    names
}

/// Returns the name of a group: that of its site or cluster, or those of several sites, such as
/// `a+b`. Returns `None` for a part of a site that is not a cluster.
fn in_grid(spec: &GridSpec, members: &[NodeId]) -> Option<String> {
    let layout = spec.layout();
    let sites: BTreeSet<_> = members.iter().map(|&node| layout.site_of_node(node)).collect();
    let mut sites_in_turn = sites.iter();
    let first = *sites_in_turn.next()?;
    if sites.len() > 1 {
        let others = sites_in_turn.take(SITES_MAX - 1).map(|&site| layout.site_name(site));
        let mut name =
            others.fold(layout.site_name(first).to_owned(), |all, site| all + "+" + site);
        if sites.len() > SITES_MAX {
            name += &format!("+{}", sites.len() - SITES_MAX);
        }
        return Some(name);
    }
    let site = layout.site_name(first);
    if layout.nodes_in(first).count() == members.len() {
        return Some(site.to_owned());
    }
    let cluster = spec.cluster_of(members[0])?;
    let in_cluster = |&node: &NodeId| spec.cluster_of(node) == Some(cluster);
    let is_whole = layout.nodes_in(first).filter(in_cluster).eq(members.iter().copied());
    is_whole.then(|| format!("{site}.{}", spec.cluster_name(cluster)))
}

/// Splits a name that ends in a number into its stem, its digits, and their value.
fn numbered(name: &str) -> Option<(&str, &str, u64)> {
    let digits = name.len() - name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    let (stem, number) = name.split_at(name.len() - digits);
    Some((stem, number, number.parse().ok()?))
}

/// Abbreviates a list of names: `d[01-16]` for consecutive ones, and `u1, u3` for others. Of a long
/// list, only the beginning and the number of further names remain.
pub(crate) fn abbreviated<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut pieces: Vec<(String, usize)> = vec![];
    let mut names = names.peekable();
    while let Some(name) = names.next() {
        let (mut last, mut count) = (name, 1);
        if let Some((stem, digits, mut number)) = numbered(name) {
            let follows = |next: &&str, number: u64| {
                numbered(next).is_some_and(|(other, width, value)| {
                    let is_padded = digits.starts_with('0') || width.starts_with('0');
                    other == stem
                        && Some(value) == number.checked_add(1)
                        && (!is_padded || width.len() == digits.len())
                })
            };
            while let Some(next) = names.next_if(|next| follows(next, number)) {
                (last, count, number) = (next, count + 1, number.saturating_add(1));
            }
            if let (2.., Some((_, end, _))) = (count, numbered(last)) {
                pieces.push((format!("{stem}[{digits}-{end}]"), count));
                continue;
            }
        }
        pieces.push((name.to_owned(), count));
    }
    cut(&pieces)
}

fn cut(pieces: &[(String, usize)]) -> String {
    let mut text = String::new();
    for (at, (piece, _)) in pieces.iter().enumerate() {
        if at > 0 && text.len() + piece.len() > LIST_CHARACTERS_MAX {
            let rest: usize = pieces[at..].iter().map(|(_, count)| count).sum();
            return format!("{text}, {rest} more");
        }
        text += if at > 0 { ", " } else { "" };
        text += piece;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn short(names: &[&str]) -> String {
        abbreviated(names.iter().copied())
    }

    #[test]
    fn consecutive_numbers_become_a_range() {
        assert_eq!(short(&["d01", "d02", "d03"]), "d[01-03]");
        assert_eq!(short(&["d9", "d10", "e1", "x"]), "d[9-10], e1, x");
        assert_eq!(short(&["d1", "d3"]), "d1, d3");
        assert_eq!(short(&["d09", "d010"]), "d09, d010", "the width of padded numbers is fixed");
        assert_eq!(short(&["99999999999999999999", "1"]), "99999999999999999999, 1");
        assert_eq!(short(&[]), "");
    }

    #[test]
    fn a_long_list_is_cut_and_the_rest_is_counted() {
        let names: Vec<String> = (0..100).map(|n| format!("host-{}", n * 2)).collect();
        let text = short(&names.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(text, "host-0, host-2, host-4, host-6, host-8, host-10, 94 more");
    }

    #[test]
    fn groups_are_named_after_sites_and_clusters() {
        let spec = GridSpec::from_toml(
            "[site.a.cluster.x]\nhosts = [\"x[1-2]\"]\n[site.a.cluster.y]\nhosts = [\"y1\"]\n\
             [site.b]\nhosts = [\"b1\"]",
        )
        .unwrap();
        let nodes = |numbers: &[u32]| numbers.iter().map(|&n| NodeId(n)).collect::<Vec<_>>();
        let name = |numbers: &[u32]| in_grid(&spec, &nodes(numbers));
        assert_eq!(name(&[0, 1, 2]).as_deref(), Some("a"));
        assert_eq!(name(&[0, 1]).as_deref(), Some("a.x"));
        assert_eq!(name(&[0, 2]), None);
        assert_eq!(name(&[2, 3]).as_deref(), Some("a+b"));
    }
}
