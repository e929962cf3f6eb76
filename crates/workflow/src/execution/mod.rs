//! How a task graph is executed where it was mapped (paper 5, section 3.1): one implementation for
//! each of the two roles, whoever carries it out.
//!
//! | role | is | in |
//! | --- | --- | --- |
//! | client | [`Dispatcher`]: what is ordered of whom, where data is, and what is done again | groups in a job, groups behind a registry, and [simulated](crate::simulate) executions |
//! | server | [`TaskQueue`]: orders that wait for data, and which goes first | servers in a job, task servers behind a registry, and simulated servers |
//!
//! Both are synchronous and read no clock. A driver tells the dispatcher what happens
//! ([`DispatchEvent`]), carries out what it says then ([`DispatchCommand`]), and does all I/O.
//!
//! **Start.** With [`Delivery::Sent`] every server gets its orders at once, and the client is not
//! on the path of any task: an order names for each result the servers that wait for it, and
//! whoever makes or has data sends it there. With [`Delivery::Fetched`], for servers that others
//! reach but that reach not all others, a task is ordered once its arguments exist, and the order
//! says from whom its server fetches each.
//!
//! **Steady state.** A server begins an order when its arguments are there, of several the one with
//! the lowest place. `Done` tells the dispatcher where results are. What a server cannot have from
//! another goes through the client, as much at a time as the client has room for. Whenever a task
//! is done, and at every `Look`, tasks of slow servers may be moved, or begun a second time, by
//! [`stragglers`](crate::stragglers).
//!
//! **Failure.** A function that fails fails all that depends on its task, and nothing else. A task
//! whose server is lost, refuses it, or lacks an argument, is ordered elsewhere, up to a bound.
//! Data that is lost is made again as far as somebody needs it, and servers that wait for it get
//! it. What a server has [handed over](DispatchEvent::HandedOver) is its heir's. A task that cannot
//! be executed any more fails with what each server said.
//!
//! **End.** [`Dispatcher::is_over`]: all tasks are done or have failed, and the client has the
//! results that it asked for.

mod attempts;
mod copies;
mod dispatcher;
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

/// How data comes to a server that needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// Whoever makes it, or has it, sends it.
    Sent,
    /// The server fetches it from where its order says.
    Fetched,
}

/// What happens to a group.
#[derive(Clone, Debug, PartialEq)]
pub enum DispatchEvent {
    /// A server computes for an attempt.
    Begun(AttemptId),
    /// A server has executed an attempt.
    Done {
        /// The attempt.
        attempt: AttemptId,
        /// How long it computed, in seconds, if its server can tell.
        took_s: Option<f64>,
        /// How large the results are, in bytes.
        sizes: Vec<u64>,
        /// What the server has fetched for it.
        fetched: Vec<DataId>,
    },
    /// The function has failed, which it would elsewhere as well; why.
    Failed(AttemptId, String),
    /// A server that is there does not execute an attempt; why.
    Refused(AttemptId, String),
    /// A server could not fetch arguments.
    Lacks {
        /// The attempt.
        attempt: AttemptId,
        /// What is with servers that it does not reach.
        unreached: Vec<DataId>,
        /// What is not where it was said to be.
        missing: Vec<DataId>,
    },
    /// A server was told to send data to others, and has, or does not have it.
    Sent {
        /// The data.
        data: DataId,
        /// The server.
        from: ServerId,
        /// The others.
        to: Vec<ServerId>,
        /// Whether it has sent it.
        is_sent: bool,
    },
    /// The client has asked a server for data, and has it, or not.
    Fetched {
        /// The data.
        data: DataId,
        /// The server.
        from: ServerId,
        /// Whether other servers are to have it from the client.
        is_relay: bool,
        /// How large it is, if it has come.
        bytes: Option<u64>,
    },
    /// A server is lost; why.
    Lost(ServerId, String),
    /// A server has left, and another, if the group knows it, has taken over all that it had and
    /// had to do.
    HandedOver(ServerId, Option<ServerId>),
    /// It is time to look for servers that are slow.
    Look,
    /// Nothing will happen any more.
    GivenUp,
}

/// What a driver has to do.
#[derive(Clone, Debug, PartialEq)]
pub enum DispatchCommand {
    /// Order a task of a server.
    Order {
        /// The attempt.
        attempt: AttemptId,
        /// The task.
        task: TaskId,
        /// The server.
        server: ServerId,
        /// Where it fetches each argument from, where it does.
        inputs: Vec<(DataId, Endpoint)>,
        /// The servers to which it sends each result, where it does.
        readers: Vec<(DataId, Vec<ServerId>)>,
    },
    /// Nobody waits for an attempt any more, which its server may hear.
    Withdraw(AttemptId),
    /// The client, or a server that has data, is to send it to others.
    Send {
        /// The data.
        data: DataId,
        /// Who has it.
        from: Endpoint,
        /// The others.
        to: Vec<ServerId>,
    },
    /// Bring data to the client.
    Fetch {
        /// The data.
        data: DataId,
        /// The server that has it.
        from: ServerId,
        /// Whether other servers are to have it from the client.
        is_relay: bool,
    },
    /// No server will have this from the client any more.
    Drop(DataId),
    /// A server has made data, or has it, or will soon.
    Has {
        /// The data.
        data: DataId,
        /// The server.
        server: ServerId,
        /// Whether it has made it.
        is_maker: bool,
    },
    /// A server does not have data.
    HasNot(DataId, ServerId),
    /// The second server does not reach the first.
    Apart(ServerId, ServerId),
    /// A task has failed: the first, or one that depends on it; why.
    Failed {
        /// The task.
        task: TaskId,
        /// The first.
        first: TaskId,
        /// Why that failed.
        failure: TaskFailure,
    },
}
