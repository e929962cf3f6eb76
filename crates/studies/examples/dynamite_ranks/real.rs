//! Runs of a program on node processes of this machine, each of which has one processor for all its
//! PEs. Linux only.

use crate::foreign_load::{Hogs, pin, threads};
use crate::programs::{Cluster, Program, printed_seconds};
use gridspan_studies::children;
use gridspan_topology::PeId;
use std::collections::BTreeMap;
use std::error::Error;
use std::io::{self, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Largest number of nodes, as in the paper.
const NODES_MAX: usize = 8;
/// Number of ranks for each node, if no nodes can be left idle.
const RANKS_PER_NODE: usize = 4;
/// Maximum time to wait until the nodes have started.
const BEGIN_MAX: Duration = Duration::from_secs(10);
/// Interval between checks for the end of the program and of a stay.
const LOOK: Duration = Duration::from_millis(5);

/// The nodes of this machine.
pub(crate) struct Nodes {
    pub(crate) nodes: usize,
    /// PEs of a node, which share its processor.
    pub(crate) pes: usize,
    pub(crate) ranks: usize,
    /// Difference of the numbers of two nodes that the load visits one after the other; the first
    /// is node 0.
    distance: usize,
}

impl Nodes {
    /// One node for each processor, in place of this cluster. With four and more, every second one
    /// is idle, as in table 1 of the paper; with fewer, each has several ranks. If the PEs of a
    /// node share its processor, each PE has one rank, and there are at most as many nodes as in
    /// the paper.
    pub(crate) fn of(cluster: &Cluster) -> Result<Self, Box<dyn Error>> {
        let nodes = thread::available_parallelism()?.get().min(NODES_MAX);
        let Cluster { pes, distance, .. } = *cluster;
        match nodes {
            0 | 1 => Err("two processors are needed: one for the load, and one to move to".into()),
            _ if pes > 1 => {
                let nodes = nodes.min(cluster.nodes);
                Ok(Self { nodes, pes, ranks: nodes * pes, distance })
            }
            2 | 3 => Ok(Self { nodes, pes, ranks: RANKS_PER_NODE * nodes, distance: 1 }),
            // The number of nodes is even, and every second node has a rank.
            _ => Ok(Self { nodes: nodes / 2 * 2, pes, ranks: nodes / 2, distance: 2 }),
        }
    }

    /// The time that a program prints, in seconds, under a load that stays on each node for `stay`
    /// seconds.
    pub(crate) fn seconds(
        &self,
        gridctl: &Path,
        program: &Program,
        strategy: &str,
        stay: Option<f64>,
        repeat: u32,
    ) -> Result<f64, Box<dyn Error>> {
        let mut command = Command::new(gridctl);
        command.args(["run", "--balance", strategy]);
        match self.pes {
            1 => command.args(["-n", &self.nodes.to_string()]),
            // Links within a site are not emulated.
            pes => {
                let grid = format!("1x{}x{pes}", self.nodes);
                command.args(["--driver", "cluster", "--emulate", &grid])
            }
        };
        command.args(program.words(self.ranks, repeat));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut launcher = Launcher::new(command.spawn()?);
        self.pin_all(&mut launcher.process)?;
        self.load(&mut launcher.process, stay)?;
        launcher.printed(program.name)
    }

    /// The names of the threads of a node's PEs.
    fn pe_threads(&self, node: usize) -> Vec<String> {
        let pes = node * self.pes..(node + 1) * self.pes;
        pes.map(|pe| PeId(pe as u32).to_string()).collect()
    }

    /// Pins the threads of each node process to the processor with the number of the node.
    fn pin_all(&self, launcher: &mut Child) -> Result<(), Box<dyn Error>> {
        let begin = Instant::now();
        let mut found = BTreeMap::new();
        while found.len() < self.nodes {
            if begin.elapsed() > BEGIN_MAX || launcher.try_wait()?.is_some() {
                return Err(format!("{} of {} nodes have started", found.len(), self.nodes).into());
            }
            for process in children(launcher.id()) {
                let names = threads(process);
                let has = |pe: &String| names.iter().any(|(_, name)| name == pe);
                let has_started = |node: &usize| self.pe_threads(*node).iter().all(has);
                found.extend((0..self.nodes).find(has_started).map(|node| (node, process)));
            }
            thread::sleep(LOOK);
        }
        for (node, process) in found {
            let pes = self.pe_threads(node);
            // A thread that starts later inherits the processor. A thread other than that of a PE
            // may have ended, so a failure to pin it is ignored.
            for (thread, name) in threads(process) {
                let pinned = pin(Some(thread), node);
                if pes.contains(&name) {
                    pinned?;
                }
            }
        }
        Ok(())
    }

    /// Moves the load from node to node until the program has ended.
    fn load(&self, launcher: &mut Child, stay: Option<f64>) -> Result<(), Box<dyn Error>> {
        let begin = Instant::now();
        let (mut turn, mut hogs) = (0, Hogs::none());
        while launcher.try_wait()?.is_none() {
            if let Some(stay) = stay
                && begin.elapsed().as_secs_f64() >= stay * turn as f64
            {
                drop(std::mem::replace(&mut hogs, Hogs::none()));
                hogs = Hogs::start(1, turn * self.distance % self.nodes, stay)?;
                turn += 1;
            }
            thread::sleep(LOOK);
        }
        drop(hogs);
        Ok(())
    }
}

/// A process of `gridctl run`. Dropping this ends it and its nodes.
struct Launcher {
    process: Child,
    /// Threads that read the output and the errors, since a full pipe would stop the process.
    readers: [Option<JoinHandle<io::Result<String>>>; 2],
}

impl Launcher {
    /// Begins to read the output of a process.
    fn new(mut process: Child) -> Self {
        let readers = [read(process.stdout.take()), read(process.stderr.take())];
        Self { process, readers }
    }

    /// The time that the program has printed. Fails if the program has failed.
    fn printed(mut self, name: &str) -> Result<f64, Box<dyn Error>> {
        let status = self.process.wait()?;
        let mut texts = [String::new(), String::new()];
        for (reader, text) in self.readers.iter_mut().zip(&mut texts) {
            if let Some(reader) = reader.take() {
                *text = reader.join().map_err(|_| "a reader of the program has panicked")??;
            }
        }
        let [output, errors] = texts;
        match status.success() {
            true => printed_seconds(&output),
            false => Err(format!("{name} ended with {status}:\n{output}{errors}").into()),
        }
    }
}

impl Drop for Launcher {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Reads a stream of a process to its end, in a thread.
fn read(stream: Option<impl Read + Send + 'static>) -> Option<JoinHandle<io::Result<String>>> {
    stream.map(|stream| thread::spawn(move || io::read_to_string(stream)))
}
