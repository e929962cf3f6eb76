//! The output of a job's nodes as files: for each node one of standard output, and one of standard
//! error.

use super::report::{AddedNode, Report, Stream};
use gridspan_topology::NodeId;
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The endings of the files of standard output and standard error.
const ENDINGS: [&str; 2] = ["out", "err"];

/// The files of all nodes. They are opened for each batch of lines, so that the number of nodes is
/// not limited by the number of open files.
#[derive(Debug)]
pub(super) struct NodeLogs {
    folder: PathBuf,
    /// By node.
    names: Vec<String>,
}

impl NodeLogs {
    /// Creates the folder, and an empty file for each stream of the nodes with these names, in
    /// place of those of an earlier job.
    pub(super) fn create(folder: &Path, names: Vec<String>) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        let mut logs = Self { folder: folder.to_owned(), names: Vec::new() };
        names.into_iter().try_for_each(|name| logs.add(name))?;
        Ok(logs)
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Appends the output of nodes to their files, and adds the files of new nodes.
    pub(super) fn take(&mut self, reports: &[Report]) -> io::Result<()> {
        let mut texts: BTreeMap<(NodeId, &str), Vec<u8>> = BTreeMap::new();
        for report in reports {
            match report {
                Report::Added { nodes } => {
                    nodes.iter().map(AddedNode::name).try_for_each(|name| self.add(name))?;
                }
                Report::Output { node, stream, text } => {
                    let text_of = texts.entry((*node, ending(*stream))).or_default();
                    text_of.extend_from_slice(text);
                    text_of.push(b'\n');
                }
                _ => {}
            }
        }
        for ((node, ending), text) in texts {
            let Some(name) = self.names.get(node.index()) else { continue };
            let file = OpenOptions::new().append(true).create(true).open(self.path(name, ending));
            file?.write_all(&text)?;
        }
        Ok(())
    }

    fn add(&mut self, name: String) -> io::Result<()> {
        for ending in ENDINGS {
            File::create(self.path(&name, ending))?;
        }
        self.names.push(name);
        Ok(())
    }

    fn path(&self, name: &str, ending: &str) -> PathBuf {
        self.folder.join(format!("{}.{ending}", name.replace('/', "-")))
    }
}

fn ending(stream: Stream) -> &'static str {
    let [out, err] = ENDINGS;
    match stream {
        Stream::Stdout => out,
        Stream::Stderr => err,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::roster::{NewNode, Roster};
    use gridspan_topology::{GridSpec, HostSpec};

    fn output(node: u32, stream: Stream, text: &str) -> Report {
        Report::Output { node: NodeId(node), stream, text: text.into() }
    }

    #[test]
    fn each_stream_of_each_node_has_a_file() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("new").join("logs");
        let mut roster = Roster::from(GridSpec::from_emulate("2x1").unwrap());
        let mut logs = NodeLogs::create(&folder, roster.names()).unwrap();
        let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap();

        let first = output(0, Stream::Stdout, "one");
        logs.take(&[first, output(1, Stream::Stderr, "bad"), output(0, Stream::Stdout, "two")])
            .unwrap();
        let more = [NewNode { site: "b".to_owned(), host: HostSpec::new("x", 1) }];
        let nodes = roster.add(&more).unwrap().into_iter();
        let nodes = nodes.map(|node| AddedNode::new(&roster, node)).collect();
        let last = [Report::Added { nodes }, output(2, Stream::Stdout, "new"), Report::Stopping];
        logs.take(&last).unwrap();
        logs.take(&[output(0, Stream::Stdout, "three"), output(9, Stream::Stdout, "?")]).unwrap();

        assert_eq!(read("a-0.out"), "one\ntwo\nthree\n");
        assert_eq!((read("b-1.err"), read("b-2.out")), ("bad\n".to_owned(), "new\n".to_owned()));
        for empty in ["a-0.err", "b-1.out", "b-2.err"] {
            assert_eq!(read(empty), "", "{empty}");
        }
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 6);
        NodeLogs::create(&folder, vec!["a/0".to_owned()]).unwrap();
        assert_eq!(read("a-0.out"), "", "another job begins");
    }
}
