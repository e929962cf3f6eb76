//! Messages between a launcher and gridctl on the host of a witness: one request and one answer, as
//! JSON objects, each on a line.
//!
//! The line of the answer begins with [`MARK`], because the shell of a host may print other text.

use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, BufReader, Read};
use std::path::PathBuf;

/// Hidden verb of gridctl on the host of a witness.
pub(super) const VERB: &str = "__witness";
/// Version of the messages. An agent of another version refuses.
pub(super) const VERSION: u32 = 1;
/// Beginning of the line of an answer.
pub(super) const MARK: &str = "gridctl-witness ";
/// Longest line in bytes, enough for a half of 100,000 nodes.
pub(super) const LINE_BYTES_MAX: u64 = 1 << 20;
/// Largest output in bytes: what a shell prints before the answer, and the answer.
const OUTPUT_BYTES_MAX: u64 = LINE_BYTES_MAX + (64 << 10);
/// Longest name of a job, in bytes: it is a part of the name of a folder.
const JOB_BYTES_MAX: usize = 240;

/// A request to the witness of a job.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Order {
    pub(super) version: u32,
    /// The folder; `None` for one in the state folder of the user.
    pub(super) folder: Option<PathBuf>,
    /// A name of the job that no other job has.
    pub(super) job: String,
    pub(super) question: Question,
}

/// What a request asks of the witness.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "lowercase")]
pub(super) enum Question {
    /// Leave the mark of the job.
    Begin,
    /// Settle on this half of run number `run`, unless another half is settled.
    Settle { run: usize, half: String },
    /// Return the settled half.
    Settled { run: usize },
}

/// An answer of the witness.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "lowercase")]
pub(super) enum Answer {
    /// The mark is left.
    Begun,
    /// This half is settled; `None`: no half is.
    Settled { half: Option<String> },
    /// The settled half is unknown, or the place cannot be used.
    Refused { reason: String },
    /// This gridctl has another version of the messages.
    Version,
}

/// The part of a request that all versions have.
#[derive(Deserialize)]
struct Versioned {
    version: u32,
}

impl Order {
    /// Reads a request. If the request is invalid, returns the answer of the agent.
    pub(super) fn parse(line: &[u8]) -> Result<Self, Answer> {
        let refused = |reason: String| Answer::Refused { reason };
        let unreadable = |error: serde_json::Error| refused(error.to_string());
        let Versioned { version } = serde_json::from_slice(line).map_err(unreadable)?;
        if version != VERSION {
            return Err(Answer::Version);
        }
        let order: Self = serde_json::from_slice(line).map_err(unreadable)?;
        let is_name = |c: char| !c.is_control() && c != '/';
        if order.job.len() > JOB_BYTES_MAX || !order.job.chars().all(is_name) {
            return Err(refused("the name of the job cannot name a folder".to_owned()));
        }
        if order.folder.as_ref().is_some_and(|folder| !folder.is_absolute()) {
            return Err(refused("the path of the folder is not absolute".to_owned()));
        }
        Ok(order)
    }
}

/// Reads the answer of an agent; `None` if the output ends without one, or is too long.
pub(super) fn read_answer(from: impl Read) -> Option<Result<Answer, String>> {
    let mut from = BufReader::new(from.take(OUTPUT_BYTES_MAX));
    let (mark, mut line) = (MARK.as_bytes(), Vec::new());
    loop {
        line.clear();
        // An output that cannot be read has ended.
        if from.read_until(b'\n', &mut line).unwrap_or(0) == 0 {
            return None;
        }
        // A shell may have printed text without a line end before.
        if let Some(at) = line.windows(mark.len()).position(|bytes| bytes == mark) {
            let answer = serde_json::from_slice(&line[at + mark.len()..]);
            return Some(answer.map_err(|error| error.to_string()));
        }
    }
}

/// Reads the line of a request, up to [`LINE_BYTES_MAX`].
pub(super) fn read_line(from: impl BufRead) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    from.take(LINE_BYTES_MAX).read_until(b'\n', &mut line)?;
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(job: &str, folder: Option<&str>) -> Order {
        let question = Question::Settle { run: 2, half: "[0,1]".to_owned() };
        Order { version: VERSION, folder: folder.map(PathBuf::from), job: job.to_owned(), question }
    }

    #[test]
    fn a_request_is_read_as_it_was_written() {
        let sent = order("ring-7.a1.5", Some("/data/witness"));
        let line = serde_json::to_vec(&sent).unwrap();
        assert_eq!(Order::parse(&line), Ok(sent));
    }

    #[test]
    fn requests_of_other_versions_and_with_other_names_are_refused() {
        let other = br#"{"version":2,"places":["a"]}"#;
        assert_eq!(Order::parse(other), Err(Answer::Version));
        let long = "x".repeat(300);
        let wrong = [order("a/../../b", None), order("a\n", None), order(&long, None)];
        let relative = order("ring-7.a1.5", Some("witness"));
        let lines = wrong.into_iter().chain([relative]).map(|it| serde_json::to_vec(&it).unwrap());
        for line in lines.chain([b"".to_vec(), b"{}".to_vec(), b"\xff".to_vec()]) {
            let refused = Order::parse(&line);
            assert!(matches!(refused, Err(Answer::Refused { .. })), "{refused:?}");
        }
    }

    #[test]
    fn an_answer_is_found_behind_what_a_shell_prints() {
        let text = format!("welcome\nno end{MARK}{{\"say\":\"settled\",\"half\":\"[1]\"}}\nbye\n");
        let half = Some("[1]".to_owned());
        assert_eq!(read_answer(text.as_bytes()), Some(Ok(Answer::Settled { half })));
        assert_eq!(read_answer(&b"welcome\n"[..]), None);
        let cut = format!("{MARK}{{\"say\":\"set");
        assert!(matches!(read_answer(cut.as_bytes()), Some(Err(_))));
        assert_eq!(read_answer(io::repeat(b'x')), None, "endless text");
    }
}
