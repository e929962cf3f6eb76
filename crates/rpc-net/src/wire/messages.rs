//! Requests to a registry, and responses: JSON, with one stream for each request.
//!
//! Input from outside is bounded before it is in memory: each text, and all waiting bytes of one
//! connection.

use crate::wire::budget::{Budget, Claim};
use crate::wire::token::RemoteError;
use gridspan_rpc::calls::{RpcError, ServerCard, Signature};
use gridspan_rpc::trace::TraceContext;
use gridspan_topology::{LinkEstimate, LinkSample};
use quinn::{Connection, RecvStream, SendStream};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// Size in bytes of the longest text that is accepted.
const TEXT_BYTES_MAX: usize = 256 << 20;
/// Largest number of servers that are tried for a call.
pub(crate) const ATTEMPTS: u32 = 3;
/// Largest number of waiting bytes of one connection: two texts of the largest size.
pub(crate) const WAITING_BYTES_MAX: usize = 2 * TEXT_BYTES_MAX;
/// Number of bytes of a text that are taken from the network at once.
const CHUNK_BYTES: usize = 1 << 20;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Request {
    /// List the servers.
    List,
    /// Send the changes of servers, and of the links between them, since these versions.
    ServerUpdate(KnownVersions),
    /// Call a function.
    Call(TextCall),
    /// Cancel the call of this number. Its answer still comes, once the server no longer works on
    /// it.
    Cancel(u64),
    /// Accept this server: send it calls through this connection, and tasks of groups to its
    /// address, up to this number at once.
    Join(ServerCard, u32),
    /// Record a joined server's observations of the links from others to it, and send the links
    /// that it should measure.
    LinkReport(Vec<LinkObservation>),
    /// Answer, to measure a round trip.
    Echo,
    /// Send this number of bytes. They are the whole answer, without JSON.
    Pour(u64),
    /// Execute a task of a group. [`BEGUN`] precedes the answer.
    Task(Order),
    /// Send data of a group. The answer is a byte that states whether the data is here, and then
    /// the data, without JSON.
    Give { group: u64, data: u32 },
    /// Free data of a group that is no longer needed.
    Free {
        group: u64,
        /// The data, as ranges of the first number and the number after the last.
        data: Vec<(u32, u32)>,
    },
    /// End a group.
    End(u64),
}

/// Byte that precedes the answer to a task, sent when the task starts.
pub(crate) const BEGUN: u8 = b'!';

/// A server's observation of the link from another one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct LinkObservation {
    /// The other server, by its number at the registry.
    pub(crate) from: u32,
    pub(crate) sample: LinkSample,
}

/// Another server. The receiver measures the link from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Peer {
    pub(crate) number: u32,
    /// Its address; `None` for a server in the registry's process.
    pub(crate) address: Option<SocketAddr>,
    /// Whether to measure the link's bandwidth, too.
    pub(crate) wants_rate: bool,
}

/// A task of a group, with its arguments and results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Order {
    /// Unique number of the group, derived from a random number of the client.
    pub(crate) group: u64,
    /// Priority: of the tasks that could start, the one with the lowest place starts first.
    pub(crate) place: u32,
    pub(crate) work: Work,
    /// The arguments, in order.
    #[serde(deserialize_with = "crate::wire::lists::bounded")]
    pub(crate) inputs: Vec<Input>,
    /// The results, in order.
    #[serde(deserialize_with = "crate::wire::lists::bounded")]
    pub(crate) outputs: Vec<u32>,
    /// The context of the client's span, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "crate::wire::traceparent")]
    pub(crate) traceparent: Option<TraceContext>,
}

/// The work of a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Work {
    /// Computes for a time, and returns results of the given sizes.
    Emulated {
        /// Time on a server of speed 1, in seconds.
        work_s: f64,
        /// Sizes of the results, in bytes.
        #[serde(deserialize_with = "crate::wire::lists::bounded")]
        bytes: Vec<u64>,
    },
    /// Calls the function of this name, which has this signature for the caller.
    Function(String, Signature),
}

/// An argument of a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Input {
    /// Its number in the group.
    pub(crate) data: u32,
    /// Its size, in bytes.
    pub(crate) bytes: u64,
    pub(crate) from: Source,
}

/// The source of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Source {
    /// The client that gave the order.
    Client,
    Server {
        address: SocketAddr,
        /// Whether it is a daemon, and not a server that has joined one.
        is_registry: bool,
    },
}

/// Times of a task in seconds since its order came, and sizes of its results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Times {
    /// Start of computing.
    pub(crate) start_s: f64,
    /// End of computing.
    pub(crate) end_s: f64,
    /// The fetched arguments.
    pub(crate) fetched: Vec<Fetched>,
    /// Sizes of the results, in bytes.
    pub(crate) sizes: Vec<u64>,
}

/// A fetched argument.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Fetched {
    /// Its number in the group.
    pub(crate) data: u32,
    /// Time of the request.
    pub(crate) start_s: f64,
    /// Time of the arrival.
    pub(crate) end_s: f64,
}

/// Reason why a task was not executed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum TaskError {
    /// These arguments are not at the stated sources.
    Missing(Vec<u32>),
    /// The servers that have some arguments cannot be reached from this one; other arguments are
    /// not at the stated sources.
    Unreached {
        /// Arguments on servers that cannot be reached.
        unreached: Vec<u32>,
        /// Arguments that are not at the stated sources.
        missing: Vec<u32>,
    },
    /// The function has failed, as it would elsewhere.
    Failed(String),
    /// The server refuses the task; another may accept it.
    Refused(String),
}

/// A call in text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct TextCall {
    /// Number that the daemon gives a call that it forwards.
    #[serde(default)]
    pub(crate) number: u64,
    pub(crate) function: String,
    /// The arguments in JSON.
    pub(crate) arguments: String,
    /// Time that one server has to answer.
    pub(crate) timeout: Duration,
    /// The context of the client's span, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "crate::wire::traceparent")]
    pub(crate) traceparent: Option<TraceContext>,
}

/// A server of a registry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ListedServer {
    /// The server's description of itself.
    pub card: ServerCard,
    /// Number of calls from the registry that it has not ended.
    pub calls: u32,
    /// Estimated time that these calls compute, in seconds.
    pub load_s: f64,
    /// Number of calls, or tasks of groups, that it executes at the same time.
    pub cores: u32,
    /// Its address; `None` for a server in the registry's process.
    pub address: Option<SocketAddr>,
    /// Known links from other servers to it, by the numbers of these servers.
    pub links: Vec<(u32, LinkEstimate)>,
}

impl ListedServer {
    /// Returns the address and the name, which are the same whenever the same server is listed.
    pub(crate) fn identity(&self) -> (Option<SocketAddr>, String) {
        (self.address, self.card.name.clone())
    }
}

/// The versions of a registry's servers and links that a client knows: none by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KnownVersions {
    /// Number of the registry, which changes when the registry is restarted.
    pub(crate) registry: u64,
    /// Version of the list of servers.
    pub(crate) servers: u64,
    /// Version of the links.
    pub(crate) links: u64,
}

/// Changes of servers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ServerUpdate {
    /// The versions that the receiver knows afterwards.
    pub(crate) known: KnownVersions,
    /// All servers, without their links, if any has come or gone.
    pub(crate) servers: Option<Vec<ListedServer>>,
    /// The changed links, by the numbers of their sending and receiving servers.
    pub(crate) links: Vec<((u32, u32), LinkEstimate)>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Response {
    Servers(Vec<ListedServer>),
    ServerUpdate(ServerUpdate),
    /// The results in JSON, or the error.
    Called(Result<String, RpcError>),
    Joined,
    /// The registry does not let the server join, for this reason.
    Refused(String),
    /// The call is cancelled, or the request is noted.
    Noted,
    /// The servers from which links should be measured.
    Peers(Vec<Peer>),
    /// The outcome of a task.
    Done(Result<Times, TaskError>),
}

/// Sends a request, and waits for the response.
pub(crate) async fn request_response(
    connection: &Connection,
    request: &Request,
) -> Result<Response, RemoteError> {
    let address = connection.remote_address();
    let streams = connection.open_bi().await;
    let (mut send, mut receive) = streams.map_err(|error| RemoteError::away(address, &error))?;
    if write_message(&mut send, request).await.is_err() {
        // A receiver that refuses a request does not read all of it, but answers.
        drop(send);
    }
    let answered = read_message(&mut receive, &Budget::new(TEXT_BYTES_MAX)).await;
    answered.map(|(response, _)| response).map_err(|error| match connection.close_reason() {
        Some(reason) => RemoteError::away(connection.remote_address(), &reason),
        None => error,
    })
}

/// Writes a whole message to a stream. Fails if the other side does not read all of it, or the
/// connection has ended.
pub(crate) async fn write_message<T: Serialize>(to: &mut SendStream, what: &T) -> io::Result<()> {
    let text = serde_json::to_vec(what)?;
    to.write_all(&text).await?;
    Ok(to.finish()?)
}

/// Reads a whole message from a stream, and claims its bytes from a budget.
pub(crate) async fn read_message<T: DeserializeOwned>(
    from: &mut RecvStream,
    budget: &Budget,
) -> Result<(T, Claim), RemoteError> {
    read_message_after(&[], from, budget).await
}

/// Reads a message of which `before` has been read already.
pub(crate) async fn read_message_after<T: DeserializeOwned>(
    before: &[u8],
    from: &mut RecvStream,
    budget: &Budget,
) -> Result<(T, Claim), RemoteError> {
    let (mut text, mut claim) = (before.to_vec(), budget.claim());
    loop {
        let chunk = from.read_chunk(CHUNK_BYTES, true).await;
        let chunk = chunk.map_err(|error| RemoteError::Malformed(error.to_string()))?;
        let Some(chunk) = chunk else { break };
        if text.len() + chunk.bytes.len() > TEXT_BYTES_MAX || !claim.grow(chunk.bytes.len()) {
            return Err(RemoteError::TooMuch);
        }
        text.extend_from_slice(&chunk.bytes);
    }
    Ok((read(&text)?, claim))
}

pub(crate) fn read<T: DeserializeOwned>(text: &[u8]) -> Result<T, RemoteError> {
    serde_json::from_slice(text).map_err(|error| RemoteError::Malformed(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::lists::PARTS_MAX;
    use proptest::prelude::*;

    fn request() -> Request {
        let inputs = vec![Input { data: 1, bytes: 8, from: Source::Client }];
        let work = Work::Function("f".to_owned(), Signature::of::<(), ()>());
        let (outputs, traceparent) = (vec![2], None);
        let order = Order { group: 7, place: 0, work, inputs, outputs, traceparent };
        Request::Task(order)
    }

    #[test]
    fn a_request_is_read_as_written_and_deep_nesting_is_refused() {
        let text = serde_json::to_vec(&request()).unwrap();

        let Ok(Request::Task(order)) = read(&text) else { panic!("it is a task") };

        assert_eq!(order.outputs, [2]);
        let deep = [b"[".repeat(100_000), b"]".repeat(100_000)].concat();
        assert!(read::<Request>(&deep).is_err());
    }

    #[test]
    fn an_order_with_too_many_arguments_or_results_is_refused() {
        let input = Input { data: 1, bytes: 8, from: Source::Client };
        let order = |inputs: usize, outputs: usize| {
            let (inputs, outputs) = (vec![input.clone(); inputs], vec![2; outputs]);
            let work = Work::Function("f".to_owned(), Signature::of::<(), ()>());
            let order = Order { group: 7, place: 0, work, inputs, outputs, traceparent: None };
            read::<Request>(&serde_json::to_vec(&Request::Task(order)).unwrap())
        };

        assert!(order(PARTS_MAX, PARTS_MAX).is_ok());
        for (inputs, outputs) in [(PARTS_MAX + 1, 1), (1, PARTS_MAX + 1)] {
            let error = order(inputs, outputs).unwrap_err().to_string();
            assert!(error.contains("a list of at most 100000"), "{error}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_are_read_or_refused(
            bytes in prop::collection::vec(any::<u8>(), 0..200)
        ) {
            let refused = |error: RemoteError| assert!(error.to_string().contains("understood"));
            read::<Request>(&bytes).map_or_else(refused, drop);
            read::<Response>(&bytes).map_or_else(refused, drop);
        }

        #[test]
        fn a_changed_request_is_read_or_refused(
            at in any::<prop::sample::Index>(),
            other in prop::collection::vec(any::<u8>(), 0..8),
        ) {
            let text = serde_json::to_vec(&request()).unwrap();
            let at = at.index(text.len());
            let end = (at + other.len()).min(text.len());
            let text = [&text[..at], &other, &text[end..]].concat();
            if let Ok(Request::Task(order)) = read(&text) {
                prop_assert!(order.inputs.len() + order.outputs.len() <= text.len());
            }
        }
    }
}
