//! The execution of a mapped task graph (Brady et al. (2010), section 3.1): one implementation for
//! each of the two roles, used by all drivers.
//!
//! - **Client**: [`Dispatcher`] orders tasks from servers, records where data is, and repeats
//!   tasks. Groups in a job, groups behind a registry, and [simulated](crate::simulate) executions
//!   use it.
//! - **Server**: [`TaskQueue`] holds orders that wait for data, and chooses the next one. Servers
//!   in a job, task servers behind a registry, and simulated servers use it.
//!
//! Both are synchronous and read no clock. A driver passes events to the dispatcher
//! ([`DispatchEvent`]), executes its commands ([`DispatchCommand`]), and does all I/O.
//!
//! **Start.** With [`Delivery::Sent`] every server receives its orders at once, and the client is
//! not on the path of any task: an order names for each result the servers that wait for it, and
//! the server that makes or has data sends it there. With [`Delivery::Fetched`], the client orders
//! a task once its arguments exist, and the order names the source from which the server fetches
//! each argument. It suits servers that do not reach all others.
//!
//! **Steady state.** A server begins an order when its arguments are there; of several such orders
//! it begins the one with the lowest place. `Done` reports to the dispatcher where results are. The
//! client relays data that a server cannot receive from another, up to a limit of memory. Whenever
//! a task is done, and at every `Look`, [`stragglers`](crate::stragglers) may move tasks of slow
//! servers, or begin them a second time.
//!
//! **Failure.** A function that fails causes all tasks that depend on its task to fail, and no
//! others. A task whose server is lost, refuses it, or lacks an argument is ordered elsewhere, up
//! to a bound. Lost data that is still needed is produced again and sent to the servers that wait
//! for it. Data that a lost server had to pass on is sent again by another holder; if none is
//! known, its receivers are asked whether they have it. The data and orders that a server has
//! [handed over](DispatchEvent::HandedOver) belong to its successor. A task that can no longer be
//! executed fails with the reason given by each server.
//!
//! **End.** [`Dispatcher::is_over`]: all tasks are done or have failed, and the client has the
//! results that it requested.

mod attempts;
mod copies;
mod dispatcher;
mod input_waits;
mod outcome;
mod reasons;
mod relays;
mod routes;
mod state;
mod task_queue;
mod task_states;
#[cfg(test)]
mod tests;

pub use dispatcher::Dispatcher;
pub use outcome::{Execution, TaskRun, Transfer};
pub use reasons::TaskFailure;
pub use routes::site_routes;
pub use task_queue::TaskQueue;

use crate::id::{DataId, Endpoint, ServerId, TaskId};

/// The number of an attempt to execute a task.
pub type AttemptId = usize;

/// How data reaches a server that needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// The server that makes the data, or has it, sends it.
    Sent,
    /// The server fetches it from the source that its order names.
    Fetched,
}

/// An event in the execution of a group.
#[derive(Clone, Debug, PartialEq)]
pub enum DispatchEvent {
    /// A server has begun to compute an attempt.
    Begun(AttemptId),
    /// A server has executed an attempt.
    Done {
        /// The attempt.
        attempt: AttemptId,
        /// Time of the computation in seconds, if its server measures it.
        took_s: Option<f64>,
        /// Sizes of the results in bytes.
        sizes: Vec<u64>,
        /// Data that the server has fetched for the attempt.
        fetched: Vec<DataId>,
    },
    /// The function has failed, as it would on another server; with the reason.
    Failed(AttemptId, String),
    /// A server that is not lost does not execute an attempt; with the reason.
    Refused(AttemptId, String),
    /// A server could not fetch arguments.
    Lacks {
        /// The attempt.
        attempt: AttemptId,
        /// Data of servers that this one does not reach.
        unreached: Vec<DataId>,
        /// Data that was not found where it was expected.
        missing: Vec<DataId>,
    },
    /// A server has executed a command to send data to others, or does not have it.
    Sent {
        /// The data.
        data: DataId,
        /// The server.
        from: ServerId,
        /// The receivers.
        to: Vec<ServerId>,
        /// Whether the server has sent the data.
        is_sent: bool,
    },
    /// The client has received requested data from a server, or the server does not have it.
    Fetched {
        /// The data.
        data: DataId,
        /// The server.
        from: ServerId,
        /// Whether the client relays it to other servers.
        is_relay: bool,
        /// Size in bytes, if it has arrived.
        bytes: Option<u64>,
    },
    /// A server is lost; with the reason.
    Lost(ServerId, String),
    /// Data may not reach servers to which it is sent, because a lost server had to pass it on.
    Stranded {
        /// The data.
        data: DataId,
        /// The receivers beyond the lost server.
        to: Vec<ServerId>,
    },
    /// A server has left, and another has taken over all its data and orders. The second value is
    /// that successor; `None` if it is not a server of the mapping.
    HandedOver(ServerId, Option<ServerId>),
    /// It is time to look for servers that are slow.
    Look,
    /// No further event will occur.
    GivenUp,
}

/// A command to the driver.
#[derive(Clone, Debug, PartialEq)]
pub enum DispatchCommand {
    /// Send a server the order to execute a task.
    Order {
        /// The attempt.
        attempt: AttemptId,
        /// The task.
        task: TaskId,
        /// The server.
        server: ServerId,
        /// The source of each argument, if the server fetches them.
        inputs: Vec<(DataId, Endpoint)>,
        /// The receivers of each result, if the server sends them.
        readers: Vec<(DataId, Vec<ServerId>)>,
    },
    /// An attempt is no longer needed; its server may be notified.
    Withdraw(AttemptId),
    /// Make the client, or a server that has data, send it to others.
    Send {
        /// The data.
        data: DataId,
        /// The holder.
        from: Endpoint,
        /// The receivers; none if the server only has to report whether it has the data.
        to: Vec<ServerId>,
    },
    /// Fetch data to the client.
    Fetch {
        /// The data.
        data: DataId,
        /// The server that has it.
        from: ServerId,
        /// Whether the client relays it to other servers.
        is_relay: bool,
    },
    /// Release relayed data, which no server will request from the client again.
    Drop(DataId),
    /// A server has made data, or has it, or will have it soon.
    Has {
        /// The data.
        data: DataId,
        /// The server.
        server: ServerId,
        /// Whether the server has made the data.
        is_maker: bool,
    },
    /// A server does not have data.
    HasNot(DataId, ServerId),
    /// The second server does not reach the first.
    Apart(ServerId, ServerId),
    /// A task has failed, either by itself or because it depends on one that failed.
    Failed {
        /// The task.
        task: TaskId,
        /// The task that failed first.
        first: TaskId,
        /// The reason for the first failure.
        failure: TaskFailure,
    },
}
