//! The messages between `gridctl check` and its agents on the hosts: one JSON object per line.
//!
//! A line of an agent begins with [`MARK`], because the shell of a host may print other text. The
//! first request is [`Request::Begin`], which an agent answers by [`Reply::Facts`]. The others
//! follow in the order of [`Request`].

use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, BufReader, Read};
use std::net::{IpAddr, SocketAddr};

/// Version of the messages. Agents of another version refuse.
pub(super) const VERSION: u32 = 1;
/// Beginning of each line of an agent.
pub(super) const MARK: &str = "gridctl-check ";
/// Longest line in bytes: a report of what 64 peers sent to eight ports needs less than half of it.
const LINE_BYTES_MAX: u64 = 256 << 10;
/// Largest number of bytes that a shell may print besides the lines of an agent.
const NOISE_BYTES_MAX: usize = 1 << 20;
/// Largest number of characters of a text from a host.
const TEXT_CHARS_MAX: usize = 200;
/// Largest load of a host. A larger one is cut to it, so that it takes few characters in a table.
const LOAD_MAX: f64 = 1e6;
/// Largest number of ports of a host that are checked.
pub(super) const PORTS_MAX: usize = 8;
/// Sizes of the datagrams in bytes: one that passes wherever UDP does, the smallest that QUIC needs
/// (RFC 9000, section 14), and the largest that nodes use on a routed path.
pub(super) const SIZES: [u16; 3] = [100, 1200, 1452];

/// A request to an agent.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "lowercase")]
pub(super) enum Request {
    /// Open ports, and look at the host.
    Begin(Order),
    /// Say the time.
    Clock { number: u32 },
    /// Send datagrams.
    Send { peers: Vec<Peer> },
    /// Say which datagrams have come.
    Report,
}

/// What an agent needs to know.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Order {
    pub(super) version: u32,
    /// Number of its host.
    pub(super) host: u32,
    /// Address at which it receives datagrams.
    pub(super) listen: IpAddr,
    /// Ports at which it receives them; 0 if the system chooses one.
    pub(super) ports: Vec<u16>,
    /// Text by which datagrams of this check are recognised.
    pub(super) token: String,
    /// Seconds for which the agent must live, since it may have to wait for other hosts. Another
    /// build may leave it out.
    #[serde(default)]
    pub(super) life_s: u64,
}

/// A host to which an agent sends datagrams.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Peer {
    /// Its number.
    pub(super) host: u32,
    pub(super) addresses: Vec<SocketAddr>,
}

/// An answer of an agent.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "lowercase")]
pub(super) enum Reply {
    /// There is no gridctl on the host. The shell sends this answer.
    Missing {
        /// Whether the program is there.
        has_program: bool,
    },
    /// The request cannot be answered.
    Refused {
        reason: String,
        /// Whether the gridctl of the host has another version of the messages.
        #[serde(default)]
        is_other_version: bool,
    },
    /// The state of the host.
    Facts(Box<Facts>),
    /// The time since 1970.
    Clock { number: u32, time_ns: u64 },
    /// All datagrams are sent.
    Sent(Sent),
    /// The datagrams that have come.
    Received { arrivals: Vec<Arrival> },
}

/// What an agent finds on its host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Facts {
    /// Version of gridctl.
    pub(super) version: String,
    pub(super) program: ProgramState,
    /// Cores that a process may use.
    pub(super) cores: u32,
    /// Number of runnable threads, as a mean over a minute; `None` if the system does not say, or
    /// counts the threads on other cores, too.
    pub(super) load: Option<f64>,
    pub(super) memory_bytes: Option<u64>,
    pub(super) free_memory_bytes: Option<u64>,
    /// Free bytes of the file system of the folder in which nodes run.
    pub(super) free_disk_bytes: Option<u64>,
    pub(super) ports: Vec<PortState>,
}

/// State of a program on a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub(super) enum ProgramState {
    /// It can be executed. The digest is SHA-256, in hexadecimal digits.
    Executable { digest: String },
    /// There is no such file.
    Missing,
    /// It is not a file, or this user may not execute it.
    NotExecutable,
    /// It cannot be read.
    Unreadable { reason: String },
}

/// State of a UDP port of a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PortState {
    pub(super) port: u16,
    /// The reason why datagrams cannot be received there.
    pub(super) error: Option<String>,
}

/// What an agent has sent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Sent {
    /// Datagrams that the system did not send.
    pub(super) refusals: Vec<Refusal>,
    /// Whether the network may have sent large datagrams in fragments, so that their arrival says
    /// nothing about the size of packets.
    pub(super) may_fragment: bool,
}

/// A datagram that the system did not send.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Refusal {
    /// The host to which it was sent.
    pub(super) host: u32,
    pub(super) bytes: u16,
    pub(super) reason: String,
}

/// Datagrams of one host that came to one port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Arrival {
    /// The host that sent them.
    pub(super) from: u32,
    /// Position of the port among those of the order.
    pub(super) port: u16,
    /// The source address that they had.
    pub(super) address: IpAddr,
    /// Their sizes.
    pub(super) bytes: Vec<u16>,
}

impl Reply {
    /// Limits texts and numbers, because they come from outside.
    fn bounded(self) -> Self {
        match self {
            Self::Refused { reason, is_other_version } => {
                Self::Refused { reason: plain(&reason), is_other_version }
            }
            Self::Facts(mut facts) => {
                facts.bound();
                Self::Facts(facts)
            }
            Self::Sent(mut sent) => {
                for refusal in &mut sent.refusals {
                    refusal.reason = plain(&refusal.reason);
                }
                Self::Sent(sent)
            }
            other => other,
        }
    }
}

impl Facts {
    fn bound(&mut self) {
        self.version = plain(&self.version);
        self.load = self.load.map(|load| load.clamp(0.0, LOAD_MAX));
        self.ports.truncate(PORTS_MAX);
        for port in &mut self.ports {
            port.error = port.error.as_deref().map(plain);
        }
        match &mut self.program {
            ProgramState::Executable { digest: text }
            | ProgramState::Unreadable { reason: text } => *text = plain(text),
            ProgramState::Missing | ProgramState::NotExecutable => {}
        }
    }
}

/// Returns the first characters of a text from outside, without those that terminals interpret.
pub(crate) fn plain(text: &str) -> String {
    let plain = |c: char| if c.is_control() { '?' } else { c };
    text.trim().chars().take(TEXT_CHARS_MAX).map(plain).collect()
}

/// Reads a line, up to [`LINE_BYTES_MAX`]. Returns whether there was anything.
pub(super) fn read_line(from: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    from.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', line)?;
    Ok(!line.is_empty())
}

/// Reads what an agent says in a line, or why that cannot be read. Returns `None` for a line of
/// another program.
fn parse(line: &[u8]) -> Option<Result<Reply, String>> {
    let mark = MARK.as_bytes();
    // A shell may have printed text without a line end before.
    let at = line.windows(mark.len()).position(|bytes| bytes == mark)?;
    let said = serde_json::from_slice::<Reply>(&line[at + mark.len()..]);
    Some(said.map(Reply::bounded).map_err(|error| plain(&error.to_string())))
}

/// Passes on what an agent says, until its output ends or `on_said` returns false.
pub(super) fn hear(from: impl Read, mut on_said: impl FnMut(Result<Reply, String>) -> bool) {
    let mut from = BufReader::new(from);
    let (mut line, mut noise) = (vec![], 0);
    // A stream that cannot be read has ended.
    while read_line(&mut from, &mut line).unwrap_or(false) {
        let goes_on = match parse(&line) {
            Some(said) => on_said(said),
            None => {
                noise += line.len();
                noise <= NOISE_BYTES_MAX || {
                    on_said(Err("its shell prints too much text".to_owned()));
                    false
                }
            }
        };
        if !goes_on {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(text: &[u8]) -> Vec<Result<Reply, String>> {
        let mut all = vec![];
        hear(text, |said| {
            all.push(said);
            true
        });
        all
    }

    fn facts() -> Facts {
        Facts {
            version: "0.1.0".to_owned(),
            program: ProgramState::Missing,
            cores: 4,
            load: Some(0.5),
            memory_bytes: None,
            free_memory_bytes: None,
            free_disk_bytes: Some(1),
            ports: vec![PortState { port: 7000, error: None }],
        }
    }

    #[test]
    fn text_of_shells_between_the_lines_of_an_agent_is_skipped() {
        let said = serde_json::to_string(&Reply::Facts(Box::new(facts()))).unwrap();
        let text = format!(
            "Welcome to d01!\r\n\n{{\"say\":\"clock\"}}\nno end{MARK}{said}\r\n\
             {MARK}{{\"say\":\"clock\",\"number\":1,\"time_ns\":2}}\nbye"
        );
        let expected =
            [Ok(Reply::Facts(Box::new(facts()))), Ok(Reply::Clock { number: 1, time_ns: 2 })];
        assert_eq!(heard(text.as_bytes()), expected);
    }

    #[test]
    fn what_an_agent_does_not_say_in_full_is_an_error() {
        for wrong in ["", "{}", "{\"say\":\"facts\"}", "[1", "{\"say\":\"clock\",\"number\":-1}"] {
            let all = heard(format!("{MARK}{wrong}\n").as_bytes());
            assert!(matches!(all[..], [Err(_)]), "{wrong}: {all:?}");
        }
        assert!(matches!(heard(&[MARK.as_bytes(), b"\xff\x00"].concat())[..], [Err(_)]));
    }

    #[test]
    fn endless_text_ends_the_reading() {
        let noise = std::io::repeat(b'x');
        let mut all = vec![];
        hear(noise, |said| {
            all.push(said);
            true
        });
        assert!(matches!(all[..], [Err(_)]), "{all:?}");
    }

    #[test]
    fn texts_and_numbers_from_outside_are_cut() {
        let mut wild = facts();
        wild.version = format!("\u{1b}[31m{}", "x".repeat(1000));
        wild.load = Some(1e300);
        wild.ports = vec![PortState { port: 1, error: Some("a\nb".to_owned()) }; 50];
        let said = serde_json::to_string(&Reply::Facts(Box::new(wild))).unwrap();
        let all = heard(format!("{MARK}{said}\n").as_bytes());
        let [Ok(Reply::Facts(facts))] = &all[..] else { panic!("{all:?}") };
        assert!(facts.version.starts_with("?[31mx") && facts.version.len() == 200);
        assert_eq!((facts.load, facts.ports.len()), (Some(1e6), PORTS_MAX));
        assert_eq!(facts.ports[0].error.as_deref(), Some("a?b"));
    }
}
