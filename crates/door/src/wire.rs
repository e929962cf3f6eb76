//! What is asked at a door, and answered: JSON, one stream for each question.
//!
//! What comes from outside is bounded before it is in memory: each text, and all that one
//! connection has waiting.

use super::budget::{Budget, Claim};
use super::token::DoorError;
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
pub(super) const ATTEMPTS: u32 = 3;
/// What one connection may have waiting: a text of the largest size, and another.
pub(super) const WAITING_BYTES_MAX: usize = 2 * TEXT_BYTES_MAX;
/// So much of a text is taken from the network at once.
const CHUNK_BYTES: usize = 1 << 20;

/// What somebody wants.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Question {
    /// Which servers are there?
    List,
    /// What is new of servers, and of the ways between them, for whoever knows this?
    News(Known),
    /// Call a function.
    Call(TextCall),
    /// The call of this number is not wanted any more. It is answered all the same, once nothing is
    /// done for it.
    Cancel(u64),
    /// Send calls to me, through this connection, and tasks of groups to my address: so many at
    /// once.
    Join(ServerCard, u32),
    /// This is what a server that has joined has seen of the ways from others to it; which should
    /// it measure?
    Survey(Vec<Sighting>),
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
pub(super) const BEGUN: u8 = b'!';

/// What a server has seen of the way from another to it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Sighting {
    /// The other, by its number at the door.
    pub(super) from: u32,
    pub(super) sample: LinkSample,
}

/// Another server, the way from which is to be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Peer {
    pub(super) number: u32,
    /// Where it is, if that is not at the door.
    pub(super) address: Option<SocketAddr>,
    /// Whether nothing has shown for long what the way can carry.
    pub(super) wants_rate: bool,
}

/// A task of a group, and what it computes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Order {
    /// A number that no other group has: dice of who begins it.
    pub(super) group: u64,
    /// Of those that could begin, the one with the lowest place does.
    pub(super) place: u32,
    /// What to do.
    pub(super) work: Work,
    /// The arguments, in order.
    #[serde(deserialize_with = "super::parts::bounded")]
    pub(super) inputs: Vec<Input>,
    /// The results, in order.
    #[serde(deserialize_with = "super::parts::bounded")]
    pub(super) outputs: Vec<u32>,
}

/// What a task does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Work {
    /// Computes for a time, and gives results of so many bytes each.
    Emulated {
        /// How long on a server of speed 1, in seconds.
        work_s: f64,
        /// How large the results are, in bytes.
        #[serde(deserialize_with = "super::parts::bounded")]
        bytes: Vec<u64>,
    },
    /// Calls the function of this name, which takes and gives this for the caller.
    Function(String, Signature),
}

/// An argument of a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Input {
    /// Its number in the group.
    pub(super) data: u32,
    /// How large it is.
    pub(super) bytes: u64,
    /// Who has it.
    pub(super) from: Source,
}

/// Where an argument is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Source {
    /// With whoever gave the order.
    Client,
    /// On a server.
    Server {
        /// Where that is.
        address: SocketAddr,
        /// Whether it is a daemon, and has not joined one.
        is_door: bool,
    },
}

/// When a task was executed, in seconds since its order came.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Times {
    /// When it began to compute.
    pub(super) start_s: f64,
    /// When it was done.
    pub(super) end_s: f64,
    /// The arguments that came from elsewhere.
    pub(super) fetched: Vec<Fetched>,
    /// How large the results are, in bytes.
    pub(super) sizes: Vec<u64>,
}

/// An argument that came from elsewhere.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Fetched {
    /// Its number in the group.
    pub(super) data: u32,
    /// When it was asked for.
    pub(super) start_s: f64,
    /// When it was there.
    pub(super) end_s: f64,
}

/// Why a task was not executed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Trouble {
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
pub(super) struct TextCall {
    /// What the daemon calls it, where it passes it on.
    #[serde(default)]
    pub(super) number: u64,
    pub(super) function: String,
    /// The arguments in JSON.
    pub(super) arguments: String,
    /// How long one server has to answer.
    pub(super) timeout: Duration,
}

/// A server behind a door.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Listed {
    /// What it says of itself.
    pub card: ServerCard,
    /// How many calls it has from here.
    pub calls: u32,
    /// How long they compute, in seconds, as far as is known.
    pub load_s: f64,
    /// How many calls, or tasks of groups, it executes at the same time.
    pub cores: u32,
    /// Where it is, if that is not at the door.
    pub address: Option<SocketAddr>,
    /// What is known of the ways from others to it, which are named by their numbers.
    pub links: Vec<(u32, LinkEstimate)>,
}

impl Listed {
    /// What is the same whenever the same server is listed: where it is, and its name.
    pub(super) fn identity(&self) -> (Option<SocketAddr>, String) {
        (self.address, self.card.name.clone())
    }
}

/// What somebody knows of the servers behind a door: nothing by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Known {
    /// Of which door; one that begins anew is another.
    pub(super) door: u64,
    /// As of which version which servers there are, and what ways are like.
    pub(super) servers: u64,
    pub(super) ways: u64,
}

/// What is new of servers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct News {
    /// What whoever hears this knows then.
    pub(super) known: Known,
    /// All servers, without their links, if any has come or gone.
    pub(super) servers: Option<Vec<Listed>>,
    /// The ways of which something was seen, by the numbers of the servers that they go from and
    /// to.
    pub(super) ways: Vec<((u32, u32), LinkEstimate)>,
}

/// What comes of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Answer {
    Servers(Vec<Listed>),
    News(News),
    /// The results in JSON, or why there are none.
    Called(Result<String, RpcError>),
    Joined,
    /// A server that may not join, and why.
    Refused(String),
    /// The call is taken back, or what else was told is noted.
    Noted,
    /// The others whose ways should be measured.
    Peers(Vec<Peer>),
    /// How a task went.
    Done(Result<Times, Trouble>),
}

/// Asks, and waits for the answer.
pub(super) async fn ask(connection: &Connection, question: &Question) -> Result<Answer, DoorError> {
    let address = connection.remote_address();
    let streams = connection.open_bi().await;
    let (mut send, mut receive) = streams.map_err(|error| DoorError::away(address, &error))?;
    if say(&mut send, question).await.is_err() {
        // Who refuses a question does not hear all of it, and says so.
        drop(send);
    }
    let answered = hear(&mut receive, &Budget::new(TEXT_BYTES_MAX)).await;
    answered.map(|(answer, _)| answer).map_err(|error| match connection.close_reason() {
        Some(reason) => DoorError::away(connection.remote_address(), &reason),
        None => error,
    })
}

/// Says all there is to say on a stream.
pub(super) async fn say<T: Serialize>(to: &mut SendStream, what: &T) -> Result<(), DoorError> {
    let malformed = |error: String| DoorError::Malformed(error);
    let text = serde_json::to_vec(what).map_err(|error| malformed(error.to_string()))?;
    to.write_all(&text).await.map_err(|error| malformed(error.to_string()))?;
    to.finish().map_err(|error| malformed(error.to_string()))
}

/// Hears all that is said on a stream, and what that takes of a budget.
pub(super) async fn hear<T: DeserializeOwned>(
    from: &mut RecvStream,
    budget: &Budget,
) -> Result<(T, Claim), DoorError> {
    hear_after(&[], from, budget).await
}

/// The same after what has been heard already.
pub(super) async fn hear_after<T: DeserializeOwned>(
    before: &[u8],
    from: &mut RecvStream,
    budget: &Budget,
) -> Result<(T, Claim), DoorError> {
    let (mut text, mut claim) = (before.to_vec(), budget.claim());
    loop {
        let chunk = from.read_chunk(CHUNK_BYTES, true).await;
        let chunk = chunk.map_err(|error| DoorError::Malformed(error.to_string()))?;
        let Some(chunk) = chunk else { break };
        if text.len() + chunk.bytes.len() > TEXT_BYTES_MAX || !claim.grow(chunk.bytes.len()) {
            return Err(DoorError::TooMuch);
        }
        text.extend_from_slice(&chunk.bytes);
    }
    Ok((read(&text)?, claim))
}

/// Understands a text.
pub(super) fn read<T: DeserializeOwned>(text: &[u8]) -> Result<T, DoorError> {
    serde_json::from_slice(text).map_err(|error| DoorError::Malformed(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::PARTS_MAX;
    use proptest::prelude::*;

    fn question() -> Question {
        let inputs = vec![Input { data: 1, bytes: 8, from: Source::Client }];
        let work = Work::Function("f".to_owned(), Signature::of::<(), ()>());
        let order = Order { group: 7, place: 0, work, inputs, outputs: vec![2] };
        Question::Task(order)
    }

    #[test]
    fn questions_are_understood_as_they_were_asked() {
        let text = serde_json::to_vec(&question()).unwrap();

        let Ok(Question::Task(order)) = read(&text) else { panic!("it is a task") };

        assert_eq!(order.outputs, [2]);
        let deep = [b"[".repeat(100_000), b"]".repeat(100_000)].concat();
        assert!(read::<Question>(&deep).is_err());
    }

    #[test]
    fn an_order_with_more_parts_than_a_task_has_is_refused() {
        let input = Input { data: 1, bytes: 8, from: Source::Client };
        let order = |inputs: usize, outputs: usize| {
            let (inputs, outputs) = (vec![input.clone(); inputs], vec![2; outputs]);
            let work = Work::Function("f".to_owned(), Signature::of::<(), ()>());
            let order = Order { group: 7, place: 0, work, inputs, outputs };
            read::<Question>(&serde_json::to_vec(&Question::Task(order)).unwrap())
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
            let refused = |error: DoorError| assert!(error.to_string().contains("understood"));
            read::<Question>(&bytes).map_or_else(refused, drop);
            read::<Answer>(&bytes).map_or_else(refused, drop);
        }

        #[test]
        fn a_question_of_which_something_is_changed_is_one_or_is_refused(
            at in any::<prop::sample::Index>(),
            other in prop::collection::vec(any::<u8>(), 0..8),
        ) {
            let text = serde_json::to_vec(&question()).unwrap();
            let at = at.index(text.len());
            let end = (at + other.len()).min(text.len());
            let text = [&text[..at], &other, &text[end..]].concat();
            if let Ok(Question::Task(order)) = read(&text) {
                prop_assert!(order.inputs.len() + order.outputs.len() <= text.len());
            }
        }
    }
}
