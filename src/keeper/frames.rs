//! The frames between a launcher and the bridge to a node.
//!
//! A frame consists of the lengths of its header and its content, the header in JSON, and the
//! content, which is opaque. The bridge prints [`BRIDGE_BEGINS`] before its first frame, so that
//! the launcher can skip what the program, or the shell that starts it, has printed earlier.

use super::launcher_id::LauncherId;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{self, Read, Write};

/// The version of the frames; launcher and bridge must agree.
pub const BRIDGE_VERSION: u32 = 2;
/// What a bridge prints before its first frame.
pub const BRIDGE_BEGINS: &str = "\u{1e}gridspan bridge\n";
/// Longest header in bytes. The longest part is the name of a launcher, with a path in it.
const HEADER_BYTES_MAX: usize = 64 << 10;
/// Longest content in bytes: a line for a node has at most 64 MiB.
const CONTENT_BYTES_MAX: usize = 65 << 20;

/// What a launcher sends to a bridge. Its first frame is an order.
///
/// ```
/// use gridspan::keeper::{ToBridge, read_frame, write_frame};
///
/// let mut bytes = Vec::new();
/// write_frame(&mut bytes, &ToBridge::Line(1), b"recover\n")?;
/// let read = read_frame::<ToBridge>(&mut &bytes[..])?;
/// assert_eq!(read, Some((ToBridge::Line(1), b"recover\n".to_vec())));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ToBridge {
    /// Carry out this order. The content of the order to start a node is its `start.json`.
    Order(BridgeOrder),
    /// Write the content, a line, to the node. Lines have consecutive numbers, from 1, and the
    /// launcher sends the next one when this one is taken.
    Line(u64),
    /// Send a signal to the processes of the node.
    Signal(NodeSignal),
    /// Save the content as `state.json`. Saves have increasing numbers.
    Save(u64),
    /// The launcher attends to the node, and has read this many bytes of its two streams.
    Read([u64; 2]),
    /// Remove the folder of the node, which has ended, and end.
    Forget,
}

/// What a bridge sends to a launcher. Its first frame answers the order.
///
/// ```
/// use gridspan::keeper::{FromBridge, NodeExit, read_frame, write_frame};
///
/// let ended = FromBridge::Ended(NodeExit::Signal(9));
/// let mut bytes = Vec::new();
/// write_frame(&mut bytes, &ended, b"")?;
/// assert_eq!(read_frame(&mut &bytes[..])?, Some((ended, vec![])));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum FromBridge {
    /// The keeper has accepted the launcher, and the bridge passes on the output of the node.
    Attends(Attendance),
    /// The bridge does not carry out the order.
    Refuses(BridgeRefusal),
    /// The answer to [`BridgeTask::Look`] and [`BridgeTask::Accept`]; the content is `state.json`.
    Kept(KeptNode),
    /// The node has printed the content on this stream: 0 is standard output, 1 standard error.
    Output(usize),
    /// The node has got the line with this number, or has ended without it.
    Taken(u64),
    /// The state of this number is saved, durably.
    Saved(u64),
    /// The answer to [`ToBridge::Read`].
    Alive,
    /// The node has ended, and the bridge has sent all of its output.
    Ended(NodeExit),
}

/// What a launcher orders a bridge to do.
///
/// ```
/// use gridspan::keeper::{BRIDGE_VERSION, BridgeOrder, BridgeTask, LauncherId};
///
/// let order = BridgeOrder {
///     version: BRIDGE_VERSION,
///     launcher: LauncherId { epoch: 1, name: "71@a1".to_owned() },
///     job: "ring-71".to_owned(),
///     node: "b-2".to_owned(),
///     log_limit: 64 << 20,
///     task: BridgeTask::Start,
/// };
/// assert!(order.check().is_ok());
/// assert!(BridgeOrder { node: "../b".to_owned(), ..order }.check().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BridgeOrder {
    /// [`BRIDGE_VERSION`].
    pub version: u32,
    /// The launcher.
    pub launcher: LauncherId,
    /// Name of the job, and of a folder.
    pub job: String,
    /// Name of the node, and of a folder in that of the job.
    pub node: String,
    /// Number of bytes of each stream that stay on the host after the launcher has read them. The
    /// host keeps at most about twice as many.
    pub log_limit: u64,
    /// What to do.
    pub task: BridgeTask,
}

/// The task of a bridge.
///
/// ```
/// use gridspan::keeper::BridgeTask;
///
/// // From the position at which the previous launcher stopped reading.
/// let task = BridgeTask::Attend { from: None };
/// assert_ne!(task, BridgeTask::Look);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum BridgeTask {
    /// Kill the process that the node may have, start another one, and attend to it.
    Start,
    /// Attend to a node that was started, from these positions of its streams on.
    Attend {
        /// The positions; `None` for those in the file `read`.
        from: Option<[u64; 2]>,
    },
    /// Report the state of the node, change nothing, and end.
    Look,
    /// Accept the launcher, report the state of the node, and end.
    Accept,
}

/// The state of a node at the time when a bridge begins to attend to it.
///
/// ```
/// use gridspan::keeper::Attendance;
///
/// let new = Attendance { process: 4711, lengths: [0, 0], from: [0, 0], taken: 0 };
/// assert_eq!(new.lengths, new.from, "a node that was just started has printed nothing");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attendance {
    /// The process of the node.
    pub process: u32,
    /// The lengths of the node's streams in bytes.
    pub lengths: [u64; 2],
    /// The positions in the streams at which the bridge begins to pass them on.
    pub from: [u64; 2],
    /// Number of lines that the node has got.
    pub taken: u64,
}

/// The state of a node, as its keeper knows it.
///
/// ```
/// use gridspan::keeper::{KeptNode, LauncherId};
///
/// let launcher = LauncherId { epoch: 3, name: "71@a1".to_owned() };
/// let unattended = KeptNode { launcher, attended_ms: None, runs: true };
/// assert!(unattended.attended_ms.is_none());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptNode {
    /// The launcher that the keeper has accepted.
    pub launcher: LauncherId,
    /// The time in milliseconds since the last heartbeat of the launcher; `None` if no bridge runs.
    pub attended_ms: Option<u64>,
    /// Whether the process of the node runs.
    pub runs: bool,
}

/// Why a bridge does not carry out an order.
///
/// ```
/// use gridspan::keeper::BridgeRefusal;
///
/// let refusal = BridgeRefusal::Failed("the disk is full".to_owned());
/// assert_ne!(refusal, BridgeRefusal::Unknown);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum BridgeRefusal {
    /// The keeper has accepted this launcher, whose epoch is not smaller.
    Other(LauncherId),
    /// No such node was started here.
    Unknown,
    /// The system refused an operation, for this reason.
    Failed(String),
}

/// How the process of a node ended.
///
/// ```
/// use gridspan::keeper::NodeExit;
///
/// assert_ne!(NodeExit::Code(0), NodeExit::Unknown);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum NodeExit {
    /// With this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
    /// Another bridge has started the process, and the system reports the end only to that one.
    Unknown,
}

/// A signal to the processes of a node.
///
/// ```
/// use gridspan::keeper::NodeSignal;
///
/// assert_ne!(NodeSignal::Term, NodeSignal::Kill);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NodeSignal {
    /// SIGTERM.
    Term,
    /// SIGKILL.
    Kill,
}

impl BridgeOrder {
    /// Checks the version and the names, which become paths.
    ///
    /// # Errors
    ///
    /// If the order is of another version, or a name is not that of a single file.
    pub fn check(&self) -> io::Result<()> {
        if self.version != BRIDGE_VERSION {
            return Err(invalid("launcher and node are not of one build"));
        }
        let is_name = |name: &str| {
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
            let is_short = (1..=200).contains(&name.len());
            is_short && !name.starts_with('.') && name.bytes().all(is_plain)
        };
        match is_name(&self.job) && is_name(&self.node) {
            true => Ok(()),
            false => Err(invalid("the name of the job or node is invalid")),
        }
    }
}

/// Writes a frame in one piece, and flushes it.
///
/// # Errors
///
/// If `to` fails, or the frame is too long.
pub fn write_frame(mut to: impl Write, header: &impl Serialize, content: &[u8]) -> io::Result<()> {
    let header = serde_json::to_vec(header)?;
    if header.len() > HEADER_BYTES_MAX || content.len() > CONTENT_BYTES_MAX {
        return Err(invalid("a frame is too long"));
    }
    let length = |bytes: &[u8]| (bytes.len() as u32).to_be_bytes();
    let frame = [&length(&header)[..], &length(content)[..], &header, content].concat();
    to.write_all(&frame)?;
    to.flush()
}

/// Reads a frame; `None` at the end.
///
/// # Errors
///
/// If `from` fails or ends within a frame, and if a frame is too long or malformed.
pub fn read_frame<H: DeserializeOwned>(from: &mut impl Read) -> io::Result<Option<(H, Vec<u8>)>> {
    let lengths = read_bytes(from, 8)?;
    if lengths.is_empty() {
        return Ok(None);
    }
    let whole = |bytes: Vec<u8>, length: usize| match bytes.len() == length {
        true => Ok(bytes),
        false => Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
    };
    let lengths = whole(lengths, 8)?;
    let length = |at: usize| {
        let bytes = lengths[at..at + 4].try_into().unwrap_or_default();
        u32::from_be_bytes(bytes) as usize
    };
    let (header, content) = (length(0), length(4));
    if header > HEADER_BYTES_MAX || content > CONTENT_BYTES_MAX {
        return Err(invalid("a frame is too long; use launcher and node of one build"));
    }
    let header_bytes = whole(read_bytes(from, header)?, header)?;
    let content = whole(read_bytes(from, content)?, content)?;
    let header = serde_json::from_slice(&header_bytes)?;
    Ok(Some((header, content)))
}

/// Reads up to `length` bytes, fewer only at the end. The memory grows with the bytes that arrive,
/// not with the length that the other side has written.
fn read_bytes(from: &mut impl Read, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.by_ref().take(length as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn invalid(reason: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_follow_each_other_with_any_content() {
        let mut bytes = Vec::new();
        let content: Vec<u8> = (0..=255).collect();
        write_frame(&mut bytes, &FromBridge::Output(1), &content).unwrap();
        write_frame(&mut bytes, &FromBridge::Alive, b"").unwrap();
        let mut from = &bytes[..];
        assert_eq!(read_frame(&mut from).unwrap(), Some((FromBridge::Output(1), content)));
        assert_eq!(read_frame(&mut from).unwrap(), Some((FromBridge::Alive, vec![])));
        assert_eq!(read_frame::<FromBridge>(&mut from).unwrap(), None);
    }

    #[test]
    fn half_a_frame_and_nonsense_are_errors() {
        let mut bytes = Vec::new();
        write_frame(&mut bytes, &ToBridge::Line(7), b"leave\n").unwrap();
        for end in 1..bytes.len() {
            assert!(read_frame::<ToBridge>(&mut &bytes[..end]).is_err(), "{end} bytes");
        }
        assert!(read_frame::<FromBridge>(&mut &bytes[..]).is_err(), "another kind");
        for wrong in [[0xff; 64], [b'{'; 64], [0; 64]] {
            assert!(read_frame::<ToBridge>(&mut &wrong[..]).is_err());
        }
        // The lengths are valid, but the bytes that follow are too few.
        assert!(read_frame::<ToBridge>(&mut &[0, 0, 0, 2, 4, 0, 0, 0, b'{'][..]).is_err());
        assert!(write_frame(io::sink(), &ToBridge::Line(1), &vec![0; 66 << 20]).is_err());
    }

    #[test]
    fn names_become_paths_of_one_folder_only() {
        let order = |job: &str, version| BridgeOrder {
            version,
            launcher: LauncherId::default(),
            job: job.to_owned(),
            node: "a-0".to_owned(),
            log_limit: u64::MAX,
            task: BridgeTask::Look,
        };
        assert!(order("ring-31318", BRIDGE_VERSION).check().is_ok());
        assert!(order("ring-31318", BRIDGE_VERSION + 1).check().is_err());
        for wrong in ["", ".", "..", "../x", "a/b", "a\0b", "ä", &"x".repeat(201)] {
            assert!(order(wrong, BRIDGE_VERSION).check().is_err(), "{wrong:?}");
        }
    }
}
