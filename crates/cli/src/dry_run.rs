//! `gridctl run --dry-run`: which PEs would run where.

use crate::error::CliError;
use crate::hosts::quoted;
use gridspan_topology::{GridSpec, NodeId};
use serde::Serialize;
use std::ffi::{OsStr, OsString};
use std::io::Write;

/// One node of a plan.
#[derive(Debug, Serialize)]
pub(crate) struct PlannedNode<'a> {
    /// Its site.
    pub(crate) site: &'a str,
    /// Its host.
    pub(crate) host: &'a str,
    /// Its number.
    pub(crate) node: u32,
    /// The first of its PEs.
    pub(crate) first_pe: u32,
    /// Number of its PEs.
    pub(crate) pes: u32,
}

impl<'a> PlannedNode<'a> {
    /// Returns the place where `node` of `spec` would run.
    pub(crate) fn new(spec: &'a GridSpec, node: NodeId) -> Self {
        let place = spec.layout().place(node);
        Self {
            site: spec.layout().site_name(place.site),
            host: spec.host(node),
            node: node.0,
            first_pe: place.pes.start,
            pes: place.pes.len() as u32,
        }
    }

    fn pe_range(&self) -> String {
        match self.pes {
            1 => self.first_pe.to_string(),
            pes => format!("{}-{}", self.first_pe, self.first_pe + pes - 1),
        }
    }
}

/// Prints one line per node, in columns or as JSON.
pub(crate) fn print(spec: &GridSpec, json: bool, to: &mut impl Write) -> Result<(), CliError> {
    let nodes: Vec<_> = spec.layout().nodes().map(|node| PlannedNode::new(spec, node)).collect();
    let text = if json { lines(&nodes) } else { table(&nodes) };
    to.write_all(text.as_bytes()).map_err(CliError::system("print the plan"))
}

/// Prints commands that would start nodes: one per line in text that a shell understands, or as
/// JSON.
pub(crate) fn print_commands(
    commands: &[Vec<OsString>],
    json: bool,
    to: &mut impl Write,
) -> Result<(), CliError> {
    let mut text = String::new();
    for command in commands {
        if json {
            let words: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
            let line = serde_json::json!({ "version": 1, "event": "command", "words": words });
            text += &line.to_string();
        } else {
            let words: Vec<_> = command.iter().map(|word| quoted(word)).collect();
            text += &words.join(OsStr::new(" ")).to_string_lossy();
        }
        text.push('\n');
    }
    to.write_all(text.as_bytes()).map_err(CliError::system("print the plan"))
}

fn lines(nodes: &[PlannedNode<'_>]) -> String {
    let mut text = String::new();
    for node in nodes {
        text += &serde_json::json!({ "version": 1, "event": "planned", "place": node }).to_string();
        text.push('\n');
    }
    text
}

fn table(nodes: &[PlannedNode<'_>]) -> String {
    let width = |title: &str, of: fn(&PlannedNode<'_>) -> usize| {
        nodes.iter().map(of).chain([title.len()]).max().unwrap_or(0)
    };
    let site = width("SITE", |node| node.site.len());
    let host = width("HOST", |node| node.host.len());
    let mut text = format!("{:site$}  {:host$}  {:>5}  PES\n", "SITE", "HOST", "NODE");
    for (at, node) in nodes.iter().enumerate() {
        // The site is left out if it is the one of the line above.
        let is_same_site = at > 0 && nodes[at - 1].site == node.site;
        let shown = if is_same_site { "" } else { node.site };
        let (node_number, pes) = (node.node, node.pe_range());
        text += &format!("{shown:site$}  {:host$}  {node_number:>5}  {pes}\n", node.host);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_a_line_for_every_node_and_names_each_site_once() {
        let spec = GridSpec::from_emulate("2x2x3").unwrap();
        let mut text = vec![];
        print(&spec, false, &mut text).unwrap();
        let expected = "\
SITE  HOST   NODE  PES
a     a1        0  0-2
      a2        1  3-5
b     b1        2  6-8
      b2        3  9-11
";
        assert_eq!(String::from_utf8(text).unwrap(), expected);
    }

    #[test]
    fn commands_are_printed_for_shells_and_for_scripts() {
        let command = ["srun", "--nodes=2", "/opt/my tools/gridctl"].map(OsString::from).to_vec();
        let printed = |json| {
            let mut text = vec![];
            print_commands(std::slice::from_ref(&command), json, &mut text).unwrap();
            String::from_utf8(text).unwrap()
        };
        assert_eq!(printed(false), "srun --nodes=2 '/opt/my tools/gridctl'\n");
        let line: serde_json::Value = serde_json::from_str(&printed(true)).unwrap();
        assert_eq!(
            (&line["event"], &line["words"][2]),
            (&"command".into(), &"/opt/my tools/gridctl".into())
        );
    }

    #[test]
    fn json_has_a_line_with_a_version_for_every_node() {
        let spec = GridSpec::from_emulate("1x2").unwrap();
        let mut text = vec![];
        print(&spec, true, &mut text).unwrap();
        let lines: Vec<serde_json::Value> =
            text.split(|&b| b == b'\n').filter_map(|l| serde_json::from_slice(l).ok()).collect();
        assert_eq!(lines.len(), 2);
        assert_eq!((&lines[1]["version"], &lines[1]["place"]["host"]), (&1.into(), &"a2".into()));
    }
}
