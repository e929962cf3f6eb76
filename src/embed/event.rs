//! The events of a running job.

use gridspan_balance::BalanceReport;
use gridspan_runtime::{CheckpointReport, Warning};
use gridspan_topology::LinkChange;
#[cfg(feature = "net")]
use gridspan_topology::NodeId;

/// An event in a running job.
///
/// ```
/// use gridspan::embed::Event;
/// use gridspan::Warning;
///
/// fn line(event: &Event) -> String {
///     match event {
///         Event::Balanced(report) => format!("rebalanced: {report}"),
///         Event::LinksChanged(changes) => format!("{} links have changed", changes.len()),
///         Event::Warning(Warning::Stalled { waits }) => format!("no progress: {waits}"),
///         Event::Warning(warning) => format!("warning: {warning}"),
///         _ => String::new(),
///     }
/// }
/// # let slow = Warning::Process { reason: "slow".to_owned() };
/// # assert_eq!(line(&Event::Warning(slow)), "warning: slow");
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// The report of a rebalance; see [`Job::on_balance`](gridspan_runtime::Job::on_balance).
    Balanced(BalanceReport),
    /// Main has [reported](crate::Grid::report_progress) that a part of its work is done.
    Progress {
        /// Work that is done, in units of the program's choice.
        done: u64,
        /// All work.
        total: u64,
    },
    /// A checkpoint is complete; see [`Job::on_checkpoint`](gridspan_runtime::Job::on_checkpoint).
    Checkpoint(CheckpointReport),
    /// The estimates of links have changed.
    LinksChanged(Vec<LinkChange>),
    /// A problem of the job, which continues. See
    /// [`Job::on_warning`](gridspan_runtime::Job::on_warning).
    Warning(Warning),
    /// A node process has printed a line on its standard output. Lines over 64 KiB are divided, and
    /// bytes that are not UTF-8 are replaced.
    #[cfg(feature = "net")]
    Output {
        /// The node.
        node: NodeId,
        /// The line, without its end.
        line: String,
    },
}

impl Event {
    pub(super) fn is_output(&self) -> bool {
        #[cfg(feature = "net")]
        return matches!(self, Self::Output { .. });
        #[cfg(not(feature = "net"))]
        false
    }
}
