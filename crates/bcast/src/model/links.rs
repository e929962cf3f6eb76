//! The network of Gupta and Vadhiyar (2006): a latency and a bandwidth from each node to each
//! other.
//!
//! Nodes of one class have equal links, so the matrices have one row per class: one class for each
//! cluster of a grid (section 2.5), or one for each node where every pair differs.

/// Latencies and bandwidths from end to end, and the cost for a node to begin a message. Nodes are
/// numbered from 0.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkMatrix {
    class_of: Vec<u32>,
    classes: usize,
    /// Seconds from class to class, row by row.
    latency_s: Vec<f64>,
    /// The inverse of the bandwidth, in the same order.
    seconds_per_byte: Vec<f64>,
    initiation_s: Vec<f64>,
}

impl LinkMatrix {
    /// A matrix for nodes of the given classes. `link` gives the latency in seconds and the
    /// bandwidth in bytes per second from one class to another; `initiation_s` has the seconds that
    /// each node needs to begin a message. Panics if the two lists differ in length.
    pub fn new(
        class_of: Vec<u32>,
        initiation_s: Vec<f64>,
        mut link: impl FnMut(usize, usize) -> (f64, f64),
    ) -> Self {
        assert_eq!(class_of.len(), initiation_s.len(), "each node has a class and a cost");
        let classes = class_of.iter().max().map_or(0, |&last| last as usize + 1);
        let (mut latency_s, mut seconds_per_byte) = (Vec::new(), Vec::new());
        for from in 0..classes {
            for to in 0..classes {
                let (latency, bytes_per_second) = link(from, to);
                latency_s.push(latency);
                seconds_per_byte.push(1.0 / bytes_per_second.max(f64::MIN_POSITIVE));
            }
        }
        Self { class_of, classes, latency_s, seconds_per_byte, initiation_s }
    }

    /// Number of nodes.
    pub fn len(&self) -> usize {
        self.class_of.len()
    }

    /// Whether there are no nodes.
    pub fn is_empty(&self) -> bool {
        self.class_of.is_empty()
    }

    /// Number of classes.
    pub fn classes(&self) -> usize {
        self.classes
    }

    /// The class of a node.
    pub fn class_of(&self, node: usize) -> usize {
        self.class_of[node] as usize
    }

    /// Bytes per second from one node to another.
    pub fn bandwidth(&self, from: usize, to: usize) -> f64 {
        1.0 / self.seconds_per_byte[self.place(from, to)]
    }

    /// One-way latency from one node to another, in seconds.
    pub fn latency_s(&self, from: usize, to: usize) -> f64 {
        self.latency_s[self.place(from, to)]
    }

    /// Seconds that a node needs to begin a message.
    pub fn initiation_s(&self, node: usize) -> f64 {
        self.initiation_s[node]
    }

    /// Returns the matrix for some of the nodes, numbered in the order given.
    pub fn restricted_to(&self, nodes: &[u32]) -> Self {
        let mut seen: Vec<u32> = nodes.iter().map(|&node| self.class_of[node as usize]).collect();
        seen.sort_unstable();
        seen.dedup();
        let new = |class: u32| seen.partition_point(|&other| other < class) as u32;
        let of = |node: &u32| *node as usize;
        Self::new(
            nodes.iter().map(|node| new(self.class_of[of(node)])).collect(),
            nodes.iter().map(|node| self.initiation_s[of(node)]).collect(),
            |from, to| {
                let place = seen[from] as usize * self.classes + seen[to] as usize;
                (self.latency_s[place], 1.0 / self.seconds_per_byte[place])
            },
        )
    }

    fn place(&self, from: usize, to: usize) -> usize {
        self.class_of[from] as usize * self.classes + self.class_of[to] as usize
    }

    /// Seconds on the wire of a message of `bytes`, row by row from class to class.
    pub(super) fn transfers_s(&self, bytes: u64) -> impl Iterator<Item = f64> {
        self.seconds_per_byte.iter().map(move |each| each * bytes as f64)
    }

    pub(super) fn latencies_s(&self) -> &[f64] {
        &self.latency_s
    }

    pub(super) fn classes_of_nodes(&self) -> &[u32] {
        &self.class_of
    }

    pub(super) fn initiations_s(&self) -> &[f64] {
        &self.initiation_s
    }
}
