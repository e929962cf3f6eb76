//! Requests of the launcher to a node: lines of the pipe that stays open.

use crate::message::telemetry::TelemetryLease;
use gridspan_topology::NodeId;
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, BufReader, Read};
use std::sync::mpsc::{Receiver, channel};

/// The line that makes a guest leave, and ends a founder that has stopped.
pub const LEAVE: &str = "leave\n";

/// The byte that cancels itself and all bytes before it in the line. A launcher that takes over a
/// node sends it first, since an earlier launcher that was killed may have left the beginning of a
/// line. No line of a launcher contains this byte.
pub const CANCEL: u8 = 0x18;

/// The line that makes a node stop, report which parts of checkpoints it has, and wait for another
/// bundle.
pub const RECOVER: &str = "recover\n";

/// Longest line of the launcher in bytes: the grid file of the largest job takes a tenth of it.
pub(super) const LINE_BYTES_MAX: u64 = 64 << 20;

/// What the launcher requests while the node runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LauncherRequest {
    /// Leave the job.
    Leave,
    /// Stop, and wait for another bundle.
    Recover,
    /// Stop the job after a checkpoint.
    Pause(PauseOrder),
    /// Find out what the job waits for. The number identifies the request.
    Diagnose(u64),
    /// Send the launcher the latest sample of the job's counters.
    Sample(SampleOrder),
    /// Pass on standard input: the text of a line that begins with [`INPUT`].
    Input(String),
    /// Another node is lost.
    Lost(LossNotice),
}

/// The order to stop the job after a checkpoint.
///
/// ```
/// use gridspan_runtime::net::bootstrap::PauseOrder;
///
/// let order = PauseOrder { number: 1, leaving: Vec::new(), is_end: true };
/// assert!(order.to_line().unwrap().starts_with("pause "));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PauseOrder {
    /// Number of the order, by which the launcher recognises the answer.
    pub number: u64,
    /// The nodes of the present run that will leave; their parts are copied to other nodes.
    pub leaving: Vec<NodeId>,
    /// Whether the job ends after the checkpoint.
    pub is_end: bool,
}

/// The beginning of the line of a [`PauseOrder`].
const PAUSE: &str = "pause ";

impl PauseOrder {
    /// Returns the order as the line that the launcher writes to the node of main.
    ///
    /// # Errors
    ///
    /// If the order cannot be encoded as JSON.
    pub fn to_line(&self) -> Result<String, serde_json::Error> {
        Ok(format!("{PAUSE}{}", to_line(self)?))
    }

    fn of_line(line: &[u8]) -> Option<Self> {
        serde_json::from_slice(line.strip_prefix(PAUSE.as_bytes())?).ok()
    }
}

/// The beginning of the line that requests a diagnosis.
const DIAGNOSE: &str = "diagnose ";

/// Returns the line with which the launcher requests each node to find out what the job waits for.
pub fn diagnose_line(number: u64) -> String {
    format!("{DIAGNOSE}{number}\n")
}

/// Reads the number in a [`diagnose_line`].
fn diagnose_number(line: &[u8]) -> Option<u64> {
    let number = line.strip_prefix(DIAGNOSE.as_bytes())?.strip_suffix(b"\n")?;
    str::from_utf8(number).ok()?.parse().ok()
}

/// The request for a sample of the job's counters, to the node of main.
///
/// ```
/// use gridspan_runtime::message::telemetry::TelemetryLease;
/// use gridspan_runtime::net::bootstrap::SampleOrder;
///
/// let lease = TelemetryLease { period_ms: 1000, focus: None };
/// let order = SampleOrder { number: 1, lease };
/// assert!(order.to_line().unwrap().starts_with("sample "));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SampleOrder {
    /// Number of the request, by which the launcher recognises the answer.
    pub number: u64,
    /// For how long, and how often, samples are taken from now on.
    pub lease: TelemetryLease,
}

/// The beginning of the line of a [`SampleOrder`].
const SAMPLE: &str = "sample ";

impl SampleOrder {
    /// Returns the order as the line that the launcher writes to the node of main.
    ///
    /// # Errors
    ///
    /// If the order cannot be encoded as JSON.
    pub fn to_line(&self) -> Result<String, serde_json::Error> {
        Ok(format!("{SAMPLE}{}", to_line(self)?))
    }

    fn of_line(line: &[u8]) -> Option<Self> {
        serde_json::from_slice(line.strip_prefix(SAMPLE.as_bytes())?).ok()
    }
}

/// The notice to a node that the process of another node has ended.
///
/// ```
/// use gridspan_runtime::net::bootstrap::LossNotice;
/// use gridspan_runtime::NodeId;
///
/// let notice = LossNotice { node: NodeId(3), reason: "it was killed".to_owned() };
/// assert!(notice.to_line().unwrap().starts_with("lost "));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LossNotice {
    /// The node, by its number in the present run.
    pub node: NodeId,
    /// How its process ended.
    pub reason: String,
}

/// The beginning of the line of a [`LossNotice`].
const LOST: &str = "lost ";

impl LossNotice {
    /// Returns the notice as the line that the launcher writes.
    ///
    /// # Errors
    ///
    /// If the notice cannot be encoded as JSON.
    pub fn to_line(&self) -> Result<String, serde_json::Error> {
        Ok(format!("{LOST}{}", to_line(self)?))
    }

    fn of_line(line: &[u8]) -> Option<Self> {
        serde_json::from_slice(line.strip_prefix(LOST.as_bytes())?).ok()
    }
}

/// The beginning of the lines that bring the standard input of the launcher to a node that cannot
/// inherit it. The layers above read the rest of the line.
pub const INPUT: &str = "input ";

/// Reads the text of a line that begins with [`INPUT`].
fn input_text(line: &[u8]) -> Option<String> {
    let text = line.strip_prefix(INPUT.as_bytes())?.strip_suffix(b"\n")?;
    str::from_utf8(text).ok().map(str::to_owned)
}

/// The lines of the launcher after the start, for [`join`](super::join).
pub type LauncherLines = BufReader<Lines>;

/// Starts a thread that calls `on_request` when the launcher requests something, and `on_end` when
/// the launcher has ended. Passes all lines on to [`join`](super::join), except those of a
/// [`PauseOrder`], a [`SampleOrder`] or a [`LossNotice`], those that request a diagnosis, and those
/// with standard input.
///
/// # Errors
///
/// If the thread cannot be started.
pub fn watch_launcher(
    from: impl BufRead + Send + 'static,
    mut on_request: impl FnMut(LauncherRequest) + Send + 'static,
    on_end: impl FnOnce() + Send + 'static,
) -> io::Result<LauncherLines> {
    let (send, lines) = channel();
    let mut from = from;
    let watch = move || {
        loop {
            let mut line = Vec::new();
            match from.by_ref().take(LINE_BYTES_MAX + 1).read_until(b'\n', &mut line) {
                Ok(_) if line.last() != Some(&b'\n') => break,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => break,
            }
            if let Some(at) = line.iter().rposition(|&byte| byte == CANCEL) {
                line.drain(..=at);
            }
            let request = match &mut line {
                line if *line == LEAVE.as_bytes() => Some(LauncherRequest::Leave),
                // Checked before `RECOVER`, because the user's text may end with that word. A node
                // that gets such lines ends with its launcher, so no later launcher can append
                // `RECOVER` to an unfinished one.
                line if line.starts_with(INPUT.as_bytes()) => {
                    input_text(line).map(LauncherRequest::Input)
                }
                // A launcher that was killed may have left the beginning of a longer line.
                line if line.ends_with(RECOVER.as_bytes()) => {
                    line.drain(..line.len() - RECOVER.len());
                    Some(LauncherRequest::Recover)
                }
                line => PauseOrder::of_line(line)
                    .map(LauncherRequest::Pause)
                    .or_else(|| SampleOrder::of_line(line).map(LauncherRequest::Sample))
                    .or_else(|| LossNotice::of_line(line).map(LauncherRequest::Lost))
                    .or_else(|| diagnose_number(line).map(LauncherRequest::Diagnose)),
            };
            let is_for_join = !matches!(
                request,
                Some(
                    LauncherRequest::Pause(_)
                        | LauncherRequest::Sample(_)
                        | LauncherRequest::Diagnose(_)
                        | LauncherRequest::Input(_)
                        | LauncherRequest::Lost(_)
                )
            );
            if let Some(request) = request {
                on_request(request);
            }
            if is_for_join {
                // Without a reader, the line is dropped.
                let _ = send.send(line);
            }
        }
        on_end();
    };
    std::thread::Builder::new().name("launcher-watch".to_owned()).spawn(watch)?;
    Ok(BufReader::new(Lines { lines, line: Vec::new(), read: 0 }))
}

/// Lines from another thread, as a stream of bytes.
pub struct Lines {
    lines: Receiver<Vec<u8>>,
    line: Vec<u8>,
    read: usize,
}

impl Read for Lines {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        if self.read == self.line.len() {
            // Without a sender there are no more lines.
            self.line = self.lines.recv().unwrap_or_default();
            self.read = 0;
        }
        let read = (self.line.len() - self.read).min(to.len());
        to[..read].copy_from_slice(&self.line[self.read..self.read + read]);
        self.read += read;
        Ok(read)
    }
}

/// Returns a value as one line of JSON.
pub(super) fn to_line(value: &impl Serialize) -> Result<String, serde_json::Error> {
    let mut line = serde_json::to_string(value)?;
    line.push('\n');
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;
    use std::time::Duration;

    #[test]
    fn a_loss_notice_is_read_as_it_was_written() {
        let notice = LossNotice { node: NodeId(3), reason: "it was \"killed\"\n".to_owned() };
        let line = notice.to_line().unwrap();
        assert_eq!(line.matches('\n').count(), 1);
        assert_eq!(LossNotice::of_line(line.as_bytes()), Some(notice));
        for wrong in ["lost 3\n", "lost \n", "los", "lost {\"node\":-1}\n"] {
            assert_eq!(LossNotice::of_line(wrong.as_bytes()), None, "{wrong:?}");
        }
    }

    #[test]
    fn the_end_of_the_launchers_pipe_is_detected() {
        let (send, receive) = std::sync::mpsc::channel();
        let end = move || send.send(()).unwrap();
        drop(watch_launcher(Cursor::new(b"whatever"), |_| (), end).unwrap());
        receive.recv_timeout(Duration::from_secs(10)).unwrap();
    }

    #[test]
    fn an_order_to_pause_is_a_line() {
        let order = PauseOrder { number: 7, leaving: vec![NodeId(3)], is_end: false };
        assert_eq!(PauseOrder::of_line(order.to_line().unwrap().as_bytes()), Some(order));
        for wrong in ["pause", "pause \n", "pause 1,2\n", "pauses {}\n", "pause {}\n"] {
            assert_eq!(PauseOrder::of_line(wrong.as_bytes()), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_request_for_a_diagnosis_is_a_line() {
        for number in [0, 7, u64::MAX] {
            assert_eq!(diagnose_number(diagnose_line(number).as_bytes()), Some(number));
        }
        for wrong in ["diagnose\n", "diagnose \n", "diagnose 7", "diagnose -1\n", "diagnoses 7\n"] {
            assert_eq!(diagnose_number(wrong.as_bytes()), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_request_for_a_sample_is_a_line() {
        let lease = TelemetryLease { period_ms: 500, focus: Some(NodeId(2)) };
        let order = SampleOrder { number: 9, lease };
        let line = order.to_line().unwrap();
        assert_eq!(SampleOrder::of_line(line.as_bytes()), Some(order));
        for wrong in ["sample", "sample \n", "sample 7\n", "samples {}\n", "sample {}\n"] {
            assert_eq!(SampleOrder::of_line(wrong.as_bytes()), None, "{wrong:?}");
        }
    }

    #[test]
    fn only_a_whole_leave_line_makes_a_guest_leave() {
        let (send, receive) = std::sync::mpsc::channel();
        let (told, lines) = (send.clone(), Cursor::new(b"leaves\nleave\nnow leave\nleave"));
        let end = move || send.send(None).unwrap();
        drop(watch_launcher(lines, move |it| told.send(Some(it)).unwrap(), end).unwrap());
        assert_eq!(receive.iter().collect::<Vec<_>>(), [Some(LauncherRequest::Leave), None]);
    }
}
