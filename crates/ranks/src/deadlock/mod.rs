//! Detection of deadlocks of a part of the ranks, while others run.
//!
//! **Looking.** Main lets all ranks look at themselves once in each period. A rank that has not
//! changed for some periods, and waits for what others may send, tells rank 0 for which of them it
//! waits (`watch`). It also tells rank 0 when it goes on or ends. So ranks that wait for a short
//! time only send nothing.
//!
//! **Suspicion.** Rank 0 looks for ranks that none can wake (`graph`). What they told may be old,
//! and messages may be on their way to them.
//!
//! **Confirmation.** Each of them exchanges markers with the ranks for which it waits (`detector`).
//! Messages from one rank to another keep their order, so a message that was on its way has come
//! when the marker comes. If it lets a receive go on, or only changes what it waits for, the number
//! of the rank's changes differs, and the suspicion ends. A message may also make the actor of a
//! waiting rank send another: it accepts an offer, or tells that a message was matched. Such an
//! answer comes before the marker of the second round. A rank whose data are on their way does not
//! count as one that waits. After two rounds without a change nothing can change any more.
//!
//! Deadlocks of all ranks are noticed by main, also those that depend on windows and on the name
//! server.

mod detector;
mod graph;
mod report;
mod watch;

pub(crate) use detector::{Detector, Flush, Verdict};
pub(crate) use graph::WaitState;
pub(crate) use report::text;
pub(crate) use watch::WaitWatch;
