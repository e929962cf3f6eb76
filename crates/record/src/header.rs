//! The header of a recording: the places, processing elements and links of a job.

use serde::{Deserialize, Serialize};

/// Version of the format. A reader also accepts earlier versions, which lack the fields whose
/// documentation names a later version, and refuses all others.
pub const VERSION: u32 = 3;
/// The earliest version that a reader accepts.
pub(crate) const VERSION_MIN: u32 = 1;

/// The properties of a job that are known before it runs.
///
/// ```
/// use gridspan_record::{Header, RecordedNode, RecordedPe};
///
/// let header = Header {
///     sites: vec!["lyon".to_owned()],
///     nodes: vec![RecordedNode { site: 0, host: "d01".to_owned(), name: "lyon-0".to_owned() }],
///     pes: vec![RecordedPe::default(); 2],
///     ..Header::default()
/// };
/// assert_eq!(header.pes[1].speed, 1.0);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// [`VERSION`], or an earlier one.
    pub version: u32,
    /// Name of the job.
    pub job: String,
    /// The arguments after `gridctl`.
    pub command: Vec<String>,
    /// What ran the job.
    pub driver: DriverKind,
    /// The seed of the job's random numbers.
    pub seed: u64,
    /// When the job started, in milliseconds since 1970; `None` if simulated.
    pub started_unix_ms: Option<u64>,
    /// Names of the sites, by number.
    pub sites: Vec<String>,
    /// The nodes, by number.
    pub nodes: Vec<RecordedNode>,
    /// The PEs, by number.
    pub pes: Vec<RecordedPe>,
    /// Links between sites, and inside of sites (`from == to`).
    pub links: Vec<RecordedLink>,
    /// The hosts whose processors are known, since version 2. Empty in virtual time.
    #[serde(default)]
    pub hosts: Vec<RecordedHost>,
    /// Identifies the build of the program that ran, in 16 hexadecimal digits: a hash of its size
    /// and of samples of its file. `None` if it is unknown, as in recordings of earlier programs.
    #[serde(default)]
    pub build: Option<String>,
    /// Version of the `gridctl` that made the recording; `None` if it is unknown, too.
    #[serde(default)]
    pub gridctl: Option<String>,
}

impl Default for Header {
    fn default() -> Self {
        Self {
            version: VERSION,
            job: String::new(),
            command: Vec::new(),
            driver: DriverKind::default(),
            seed: 0,
            started_unix_ms: None,
            sites: Vec::new(),
            nodes: Vec::new(),
            pes: Vec::new(),
            links: Vec::new(),
            hosts: Vec::new(),
            build: None,
            gridctl: None,
        }
    }
}

/// What ran a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DriverKind {
    /// Threads of one process.
    #[default]
    Threads,
    /// Processes that are connected by the network.
    Processes,
    /// Virtual time.
    Simulated,
}

/// A node of a recorded job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedNode {
    /// Number of its site.
    pub site: u32,
    /// Its host. Nodes of one host have the same clock.
    pub host: String,
    /// Its name in messages to people.
    pub name: String,
}

/// The processors of a host of a recorded job.
///
/// ```
/// use gridspan_record::RecordedHost;
///
/// let host = RecordedHost { name: "d01".to_owned(), cores: 4, hardware_threads: 8 };
/// assert!(host.hardware_threads >= host.cores);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedHost {
    /// Its name, as in [`RecordedNode::host`].
    pub name: String,
    /// Number of cores that the processes of the job could use. A container's quota limits it.
    pub cores: u32,
    /// Number of hardware threads that they could use at once.
    pub hardware_threads: u32,
}

/// A processing element of a recorded job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecordedPe {
    /// Number of its node.
    pub node: u32,
    /// Its speed relative to an ordinary PE, which has 1.0.
    pub speed: f64,
}

impl Default for RecordedPe {
    fn default() -> Self {
        Self { node: 0, speed: 1.0 }
    }
}

/// One direction of a link between two sites, or the network inside of a site.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RecordedLink {
    /// Number of the sending site.
    pub from: u32,
    /// Number of the receiving site.
    pub to: u32,
    /// Latency one way, in microseconds.
    pub latency_us: f64,
    /// Bandwidth; `None` if it is unknown or unlimited.
    pub bytes_per_second: Option<f64>,
    /// Probability that a packet is lost.
    pub loss: f64,
}
