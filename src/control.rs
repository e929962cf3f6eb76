//! What a process of a job tells the launcher that started it, in lines of its standard output.
//!
//! # Form
//!
//! A control line begins with [`MARK`], whose first character programs do not print, then a word, a
//! space and JSON. The line that says where a node listens is of the same form and defined in
//! [`gridspan_runtime::net::bootstrap`]. All other lines are the program's own.
//!
//! # Failure
//!
//! A line that begins like one and makes no sense is passed on as output, so that nothing is lost
//! when launcher and program are of different builds.

use crate::advice;
use crate::links::LinkReport;
use crate::simulated::Summary;
use gridspan_balance::BalanceReport;
use gridspan_runtime::{GuestEvent, Job, JobError, NodeId};
use gridspan_topology::Layout;
use serde::{Deserialize, Serialize};
use std::io::{self, Write};

/// Begins every control line.
pub const MARK: &str = "\u{1e}gridspan ";
/// The longest text of a failure, which no reader wants to be longer.
const TEXT_BYTES_MAX: usize = 8 << 10;

/// What a control line says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Control {
    /// The job failed.
    Failed(Failure),
    /// The job was simulated.
    Simulated(Summary),
    /// Actors have been moved, and what that has brought is known.
    Balanced(BalanceReport),
    /// What has become of a node that joined the running job.
    Guest(GuestEvent),
    /// Something is odd about the job, which goes on.
    Warning(String),
    /// What is known of the links. Comes every two seconds, and when some have changed.
    Links(LinkReport),
}

/// How a job failed, as one of its processes knows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// What happened.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
    /// Where it arose.
    pub node: Option<NodeId>,
    /// The nodes that were lost, for a reason that the launcher may know better. None if the job
    /// failed otherwise.
    #[serde(default)]
    pub lost: Vec<NodeId>,
    /// Whether it is that something else listens where the node should.
    #[serde(default)]
    pub is_port_taken: bool,
}

impl Control {
    /// Prints the line at once.
    pub fn print(&self, to: &mut impl Write) -> io::Result<()> {
        let json = serde_json::to_string(self)?;
        writeln!(to, "{MARK}{json}")?;
        to.flush()
    }

    /// Prints the line to standard output.
    pub fn tell(&self) {
        // Without a launcher there is nobody to tell.
        let _ = self.print(&mut io::stdout().lock());
    }

    /// Reads what follows [`MARK`] in a line; none if that is no control line.
    pub fn parse(text: &[u8]) -> Option<Self> {
        serde_json::from_slice(text).ok()
    }
}

impl Failure {
    /// A failure whose text is cut where it would be too long for one line.
    pub fn new(message: &str, hint: Option<&str>, node: Option<NodeId>) -> Self {
        let mut end = message.len().min(TEXT_BYTES_MAX);
        while !message.is_char_boundary(end) {
            end -= 1;
        }
        let message = message[..end].to_owned();
        Self {
            message,
            hint: hint.map(str::to_owned),
            node,
            lost: Vec::new(),
            is_port_taken: false,
        }
    }

    /// What an error says.
    pub(crate) fn of(error: &JobError, layout: &Layout) -> Self {
        let node = advice::culprit(error, layout);
        let mut failure = Self::new(&error.to_string(), advice::hint(error), node);
        if let JobError::NodeLost { node, others, .. } = error {
            failure.lost = others.iter().copied().chain([*node]).collect();
        }
        failure
    }

    /// Whether it is that other nodes were lost.
    pub fn is_loss(&self) -> bool {
        !self.lost.is_empty()
    }
}

/// The job, which tells the launcher what it knows of its links and guests, whom it has moved, and
/// why it does not go on.
pub(crate) fn telling(job: Job) -> Job {
    telling_moves(job, |report| Control::Balanced(report.clone()).tell())
        .on_warning(|text| Control::Warning(text.to_owned()).tell())
        .on_guests(|event| Control::Guest(event.clone()).tell())
        .on_links(|links, changes| Control::Links(LinkReport::new(links, changes)).tell())
}

/// The job, which has `tell` told of each rebalance that has moved somebody.
pub(crate) fn telling_moves(
    job: Job,
    tell: impl Fn(&BalanceReport) + Send + Sync + 'static,
) -> Job {
    job.on_balance(move |report| {
        if report.moved > 0 {
            tell(report);
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_can_be_parsed() {
        let failed = Control::Failed(Failure::new("no\nluck", Some("try again"), Some(NodeId(3))));
        let mut line = vec![];

        failed.print(&mut line).unwrap();

        assert_eq!(line.iter().filter(|&&byte| byte == b'\n').count(), 1);
        let text = line.strip_prefix(MARK.as_bytes()).unwrap();
        assert_eq!(Control::parse(text), Some(failed));
        assert_eq!(Control::parse(b"nonsense"), None);
    }

    #[test]
    fn a_long_message_is_cut_between_characters() {
        let failure = Failure::new(&"ä".repeat(TEXT_BYTES_MAX), None, None);
        assert_eq!(failure.message.len(), TEXT_BYTES_MAX);
        let failure = Failure::new(&format!("x{}", "ä".repeat(TEXT_BYTES_MAX)), None, None);
        assert_eq!(failure.message.len(), TEXT_BYTES_MAX - 1);
    }
}
