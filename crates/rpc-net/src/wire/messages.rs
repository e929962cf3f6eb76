//! What is asked at a registry, and answered: JSON, one stream for each request.
//!
//! What comes from outside is bounded before it is in memory: each text, and all that one
//! connection has waiting.

use crate::wire::budget::{Budget, Claim};
use crate::wire::token::RemoteError;
use gridspan_rpc::calls::{RpcError, ServerCard, Signature};
use gridspan_topology::{LinkEstimate, LinkSample};
use quinn::{Connection, RecvStream, SendStream};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::time::Duration;

/// Longer texts are refused.
const TEXT_BYTES_MAX: usize = 256 << 20;
/// So many servers are tried for a call at most.
pub(crate) const ATTEMPTS: u32 = 3;
/// What one connection may have waiting: a text of the largest size, and another.
pub(crate) const WAITING_BYTES_MAX: usize = 2 * TEXT_BYTES_MAX;
/// So much of a text is taken from the network at once.
const CHUNK_BYTES: usize = 1 << 20;

/// What somebody wants.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Request {
    /// Which servers are there?
    List,
    /// What is new of servers, and of the links between them, for whoever knows this?
    ServerUpdate(KnownVersions),
    /// Call a function.
    Call(TextCall),
    /// The call of this number is not wanted any more. It is answered all the same, once nothing is
    /// done for it.
    Cancel(u64),
    /// Send calls to me, through this connection, and tasks of groups to my address: so many at
    /// once.
    Join(ServerCard, u32),
    /// This is what a server that has joined has seen of the links from others to it; which should
    /// it measure?
    LinkReport(Vec<LinkObservation>),
    /// Are you there?
    Echo,
    /// Send so many bytes. They are answered by themselves, not in JSON.
    Pour(u64),
    /// Execute a task of a group. Before the answer comes [`BEGUN`].
    Task(Order),
    /// What is this data of a group? It is answered by itself, not in JSON.
    Give {
        /// The group.
        group: u64,
        /// The data.
        data: u32,
    },
    /// Nobody needs this data of a group any more.
    Free {
        /// The group.
        group: u64,
        /// The data, as the first and what comes after the last of each range.
        data: Vec<(u32, u32)>,
    },
    /// A group has ended.
    End(u64),
}

/// Comes before the answer to a task, when it begins.
pub(crate) const BEGUN: u8 = b'!';

/// What a server has seen of the link from another to it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct LinkObservation {
    /// The other, by its number at the registry.
    pub(crate) from: u32,
    pub(crate) sample: LinkSample,
}

/// Another server, the link from which is to be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Peer {
    pub(crate) number: u32,
    /// Where it is, if that is not at the registry.
    pub(crate) address: Option<SocketAddr>,
    /// Whether nothing has shown for long what the link can carry.
    pub(crate) wants_rate: bool,
}

/// A task of a group, and what it computes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Order {
    /// A number that no other group has: dice of who begins it.
    pub(crate) group: u64,
    /// Of those that could begin, the one with the lowest place does.
    pub(crate) place: u32,
    /// What to do.
    pub(crate) work: Work,
    /// The arguments, in order.
    #[serde(deserialize_with = "crate::wire::lists::bounded")]
    pub(crate) inputs: Vec<Input>,
    /// The results, in order.
    #[serde(deserialize_with = "crate::wire::lists::bounded")]
    pub(crate) outputs: Vec<u32>,
}

/// What a task does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Work {
    /// Computes for a time, and gives results of so many bytes each.
    Emulated {
        /// How long on a server of speed 1, in seconds.
        work_s: f64,
        /// How large the results are, in bytes.
        #[serde(deserialize_with = "crate::wire::lists::bounded")]
        bytes: Vec<u64>,
    },
    /// Calls the function of this name, which takes and gives this for the caller.
    Function(String, Signature),
}

/// An argument of a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Input {
    /// Its number in the group.
    pub(crate) data: u32,
    /// How large it is.
    pub(crate) bytes: u64,
    /// Who has it.
    pub(crate) from: Source,
}

/// Where an argument is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Source {
    /// With whoever gave the order.
    Client,
    /// On a server.
    Server {
        /// Where that is.
        address: SocketAddr,
        /// Whether it is a daemon, and has not joined one.
        is_registry: bool,
    },
}

/// When a task was executed, in seconds since its order came.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Times {
    /// When it began to compute.
    pub(crate) start_s: f64,
    /// When it was done.
    pub(crate) end_s: f64,
    /// The arguments that came from elsewhere.
    pub(crate) fetched: Vec<Fetched>,
    /// How large the results are, in bytes.
    pub(crate) sizes: Vec<u64>,
}

/// An argument that came from elsewhere.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Fetched {
    /// Its number in the group.
    pub(crate) data: u32,
    /// When it was asked for.
    pub(crate) start_s: f64,
    /// When it was there.
    pub(crate) end_s: f64,
}

/// Why a task was not executed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum TaskError {
    /// These arguments are not where they were said to be.
    Missing(Vec<u32>),
    /// The servers that have these arguments cannot be reached from here; and others are not where
    /// they were said to be.
    Unreached {
        /// What is with servers that cannot be reached.
        unreached: Vec<u32>,
        /// What is not where it was said to be.
        missing: Vec<u32>,
    },
    /// The function has failed, which it would elsewhere as well.
    Failed(String),
    /// The server does not do it; another may.
    Refused(String),
}

/// A call in text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct TextCall {
    /// What the daemon calls it, where it passes it on.
    #[serde(default)]
    pub(crate) number: u64,
    pub(crate) function: String,
    /// The arguments in JSON.
    pub(crate) arguments: String,
    /// How long one server has to answer.
    pub(crate) timeout: Duration,
}

/// A server of a registry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ListedServer {
    /// What it says of itself.
    pub card: ServerCard,
    /// How many calls it has from here.
    pub calls: u32,
    /// How long they compute, in seconds, as far as is known.
    pub load_s: f64,
    /// How many calls, or tasks of groups, it executes at the same time.
    pub cores: u32,
    /// Where it is, if that is not at the registry.
    pub address: Option<SocketAddr>,
    /// What is known of the links from others to it, which are named by their numbers.
    pub links: Vec<(u32, LinkEstimate)>,
}

impl ListedServer {
    /// What is the same whenever the same server is listed: where it is, and its name.
    pub(crate) fn identity(&self) -> (Option<SocketAddr>, String) {
        (self.address, self.card.name.clone())
    }
}

/// What somebody knows of the servers of a registry: nothing by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KnownVersions {
    /// Of which registry; one that begins anew is another.
    pub(crate) registry: u64,
    /// As of which version which servers there are, and what links are like.
    pub(crate) servers: u64,
    pub(crate) links: u64,
}

/// What is new of servers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ServerUpdate {
    /// What whoever hears this knows then.
    pub(crate) known: KnownVersions,
    /// All servers, without their links, if any has come or gone.
    pub(crate) servers: Option<Vec<ListedServer>>,
    /// The links of which something was seen, by the numbers of the servers that they go from and
    /// to.
    pub(crate) links: Vec<((u32, u32), LinkEstimate)>,
}

/// What comes of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Response {
    Servers(Vec<ListedServer>),
    ServerUpdate(ServerUpdate),
    /// The results in JSON, or why there are none.
    Called(Result<String, RpcError>),
    Joined,
    /// A server that may not join, and why.
    Refused(String),
    /// The call is taken back, or what else was told is noted.
    Noted,
    /// The others whose links should be measured.
    Peers(Vec<Peer>),
    /// How a task went.
    Done(Result<Times, TaskError>),
}

/// Asks, and waits for the answer.
pub(crate) async fn request_response(
    connection: &Connection,
    request: &Request,
) -> Result<Response, RemoteError> {
    let address = connection.remote_address();
    let streams = connection.open_bi().await;
    let (mut send, mut receive) = streams.map_err(|error| RemoteError::away(address, &error))?;
    if write_message(&mut send, request).await.is_err() {
        // Who refuses a request does not hear all of it, and says so.
        drop(send);
    }
    let answered = read_message(&mut receive, &Budget::new(TEXT_BYTES_MAX)).await;
    answered.map(|(response, _)| response).map_err(|error| match connection.close_reason() {
        Some(reason) => RemoteError::away(connection.remote_address(), &reason),
        None => error,
    })
}

/// Says all there is to say on a stream.
pub(crate) async fn write_message<T: Serialize>(
    to: &mut SendStream,
    what: &T,
) -> Result<(), RemoteError> {
    let malformed = |error: String| RemoteError::Malformed(error);
    let text = serde_json::to_vec(what).map_err(|error| malformed(error.to_string()))?;
    to.write_all(&text).await.map_err(|error| malformed(error.to_string()))?;
    to.finish().map_err(|error| malformed(error.to_string()))
}

/// Hears all that is said on a stream, and what that takes of a budget.
pub(crate) async fn read_message<T: DeserializeOwned>(
    from: &mut RecvStream,
    budget: &Budget,
) -> Result<(T, Claim), RemoteError> {
    read_message_after(&[], from, budget).await
}

/// The same after what has been heard already.
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

/// Understands a text.
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
        let order = Order { group: 7, place: 0, work, inputs, outputs: vec![2] };
        Request::Task(order)
    }

    #[test]
    fn questions_are_understood_as_they_were_asked() {
        let text = serde_json::to_vec(&request()).unwrap();

        let Ok(Request::Task(order)) = read(&text) else { panic!("it is a task") };

        assert_eq!(order.outputs, [2]);
        let deep = [b"[".repeat(100_000), b"]".repeat(100_000)].concat();
        assert!(read::<Request>(&deep).is_err());
    }

    #[test]
    fn an_order_with_more_parts_than_a_task_has_is_refused() {
        let input = Input { data: 1, bytes: 8, from: Source::Client };
        let order = |inputs: usize, outputs: usize| {
            let (inputs, outputs) = (vec![input.clone(); inputs], vec![2; outputs]);
            let work = Work::Function("f".to_owned(), Signature::of::<(), ()>());
            let order = Order { group: 7, place: 0, work, inputs, outputs };
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
        fn whatever_comes_is_a_question_and_an_answer_or_is_refused(
            bytes in prop::collection::vec(any::<u8>(), 0..200)
        ) {
            let refused = |error: RemoteError| assert!(error.to_string().contains("understood"));
            read::<Request>(&bytes).map_or_else(refused, drop);
            read::<Response>(&bytes).map_or_else(refused, drop);
        }

        #[test]
        fn a_question_of_which_something_is_changed_is_one_or_is_refused(
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
