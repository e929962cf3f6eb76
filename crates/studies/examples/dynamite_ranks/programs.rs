//! The programs, where they run, and the published slowdowns.

use std::error::Error;

/// A program of ranks.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) name: &'static str,
    /// The built-in job and its arguments, without the number of ranks.
    pub(crate) job: &'static str,
    /// Where it runs in virtual time. In real time this machine limits the nodes.
    pub(crate) cluster: Cluster,
    /// The published slowdowns in percent: without Dynamite, and with it.
    pub(crate) published: [f64; 2],
}

/// Nodes of one processor each, and the load that goes from node to node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cluster {
    pub(crate) ranks: usize,
    pub(crate) nodes: usize,
    /// PEs of a node, which share its processor: processes, in the paper.
    pub(crate) pes: usize,
    /// Distance between nodes that the load visits, beginning with the first node.
    pub(crate) distance: usize,
    /// Time for which the load stays on a node, as a share of the time of the program without load.
    pub(crate) stay: f64,
}

/// Table 1: four tasks on eight nodes for half an hour, and load for five minutes on each of the
/// nodes where tasks start. Ranks start on every second node.
const NAS: Cluster = Cluster { ranks: 4, nodes: 8, pes: 1, distance: 2, stay: 1.0 / 6.0 };
/// Table 2, row 2: three tasks on four nodes for 1880 s, and load for ten minutes on each node.
const SPARSE: Cluster = Cluster { ranks: 3, nodes: 4, pes: 1, distance: 1, stay: 600.0 / 1880.0 };
/// Table 2, row 2: three tasks on each of three nodes for 2468 s. A task is a process, so that a
/// process of another user gets a quarter of the processor, not half.
const REDUNDANT: Cluster =
    Cluster { ranks: 9, nodes: 3, pes: 3, distance: 1, stay: 600.0 / 2468.0 };

/// All programs. Those of NAS are of class W: nodes of the paper had 64 MB, less than a rank of
/// `mg` in class A needs, and a move of a rank takes about the same part of a stay as a move of a
/// task in the paper.
pub(crate) static PROGRAMS: [Program; 7] = [
    nas("cg", "nas cg --class W --migrate-every 1", [87.0, 24.0]),
    nas("ep", "nas ep --class W --migrate-every 1", [18.0, 9.0]),
    nas("ft", "nas ft --class W --migrate-every 1", [45.0, 20.0]),
    nas("is", "nas is --class W --migrate-every 1", [12.0, 16.0]),
    nas("mg", "nas mg --class W --migrate-every 1", [40.0, 6.0]),
    fem("fem, sparse", SPARSE, [75.0, 34.0]),
    fem("fem, redundant", REDUNDANT, [19.0, 25.0]),
];

const fn nas(name: &'static str, job: &'static str, published: [f64; 2]) -> Program {
    Program { name, job, cluster: NAS, published }
}

const fn fem(name: &'static str, cluster: Cluster, published: [f64; 2]) -> Program {
    Program { name, job: "fem --size 256 --migrate-every 25", cluster, published }
}

impl Program {
    /// The job and all its arguments.
    pub(crate) fn words(&self, ranks: usize, repeat: u32) -> Vec<String> {
        let words = self.job.split_ascii_whitespace().map(str::to_owned);
        let ranks = ["--ranks".to_owned(), ranks.to_string()];
        words.chain(ranks).chain(["--repeat".to_owned(), repeat.to_string()]).collect()
    }
}

/// The number of repetitions with which a program takes `wanted` seconds, if one takes `once`
/// seconds.
pub(crate) fn repetitions(wanted: f64, once: f64) -> u32 {
    (wanted / once.max(1e-6)).ceil().clamp(1.0, 1e6) as u32
}

/// The time that a program has printed, in seconds: the number before `s,`.
pub(crate) fn printed_seconds(text: &str) -> Result<f64, Box<dyn Error>> {
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let unit = words.iter().position(|word| *word == "s,").and_then(|at| at.checked_sub(1));
    match unit.map(|at| words[at].parse()) {
        Some(Ok(seconds)) => Ok(seconds),
        _ => Err(format!("no time was printed:\n{text}").into()),
    }
}
