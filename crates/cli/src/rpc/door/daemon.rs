//! A daemon: opens a door and answers, until it is told to end.

use super::hall::Hall;
use super::token::{DoorError, Key, Token, key_path};
use super::wire::{Answer, Question, TextCall, ask, hear, say};
use gridspan_rpc::calls::{Catalogue, GridRpc, Offer, RpcError, ServerCard};
use quinn::{Connection, Endpoint, Incoming, VarInt};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// So many servers are tried for a call at most.
const ATTEMPTS: usize = 3;
/// How long calls may go on when the daemon is told to end.
const GRACE: Duration = Duration::from_secs(10);
/// How often it looks whether they have ended.
const GLANCE: Duration = Duration::from_millis(20);

/// What a daemon is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DoorOptions {
    /// Where it listens. With port 0 the system chooses one.
    pub(crate) listen: SocketAddr,
    /// Where it writes its token.
    pub(crate) token: PathBuf,
    /// Whether it takes over the certificates and the address of a daemon that had the same token before, and leaves
    /// its own for the next.
    pub(crate) is_kept: bool,
}

/// A door that is open.
#[derive(Debug)]
pub(super) struct DoorPlan {
    options: DoorOptions,
    endpoint: Endpoint,
}

/// How a server is reached.
enum Way<C: Catalogue> {
    /// It is of this process.
    Here(Arc<GridRpc<C>>),
    /// It has joined.
    There(Connection),
}

impl<C: Catalogue> Clone for Way<C> {
    fn clone(&self) -> Self {
        match self {
            Self::Here(rpc) => Self::Here(rpc.clone()),
            Self::There(connection) => Self::There(connection.clone()),
        }
    }
}

struct Daemon<C: Catalogue> {
    hall: Mutex<Hall<Way<C>>>,
    /// Questions that are being answered.
    open: AtomicUsize,
}

impl DoorPlan {
    /// Opens the door, and writes its token. Needs a runtime of tokio.
    pub(super) fn open(options: DoorOptions) -> Result<Self, DoorError> {
        let kept = key_path(&options.token);
        let is_there = options.is_kept && options.token.exists();
        let before = if is_there { Key::read(&kept)? } else { None };
        let (token, key, endpoint) = match before {
            Some(key) => {
                let endpoint = Endpoint::server(key.server()?, key.address());
                (None, key, endpoint.map_err(DoorError::Listen)?)
            }
            None => {
                // The certificates do not name the address, which is known once the socket is there.
                let (token, key) = Token::new(options.listen)?;
                let endpoint = Endpoint::server(key.server()?, options.listen);
                let endpoint = endpoint.map_err(DoorError::Listen)?;
                let address = endpoint.local_addr().map_err(DoorError::Listen)?;
                (Some(token.at(address)), key.at(address), endpoint)
            }
        };
        if options.is_kept {
            key.write(&kept)?;
        }
        if let Some(token) = token {
            token.write(&options.token)?;
        }
        Ok(Self { options, endpoint })
    }

    /// Where the door is.
    pub(super) fn address(&self) -> Result<SocketAddr, DoorError> {
        self.endpoint.local_addr().map_err(DoorError::Listen)
    }
}

/// Answers at the door until `end` resolves, and then what is being asked. `own` are the servers of this process: what
/// they are called, and how to call them.
pub(super) async fn daemon<C: Catalogue>(
    plan: DoorPlan,
    own: Option<(ServerCard, Arc<GridRpc<C>>)>,
    end: impl Future<Output = ()>,
) -> Result<(), DoorError> {
    let DoorPlan { options, endpoint } = plan;
    let mut hall = Hall::new();
    if let Some((card, rpc)) = own {
        hall.join(card, Way::Here(rpc));
    }
    let daemon = Arc::new(Daemon { hall: Mutex::new(hall), open: AtomicUsize::new(0) });
    let mut end = std::pin::pin!(end);
    loop {
        tokio::select! {
            () = &mut end => break,
            incoming = endpoint.accept() => match incoming {
                Some(incoming) => drop(tokio::spawn(daemon.clone().receive(incoming))),
                None => break,
            },
        }
    }
    endpoint.set_server_config(None);
    let begun = Instant::now();
    while daemon.open.load(Ordering::SeqCst) > 0 && begun.elapsed() < GRACE {
        tokio::time::sleep(GLANCE).await;
    }
    endpoint.close(VarInt::from_u32(0), b"the daemon has ended");
    endpoint.wait_idle().await;
    if !options.is_kept {
        // Somebody may have removed it.
        let _ = std::fs::remove_file(&options.token);
    }
    Ok(())
}

impl<C: Catalogue> Daemon<C> {
    fn hall(&self) -> MutexGuard<'_, Hall<Way<C>>> {
        self.hall.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Attends to one connection, to its end.
    async fn receive(self: Arc<Self>, incoming: Incoming) {
        // Who cannot prove that he has the token has been told so.
        let Ok(connection) = incoming.await else { return };
        let joined = Arc::new(Mutex::new(BTreeSet::new()));
        while let Ok((mut send, mut receive)) = connection.accept_bi().await {
            let (daemon, connection, joined) = (self.clone(), connection.clone(), joined.clone());
            daemon.open.fetch_add(1, Ordering::SeqCst);
            tokio::spawn(async move {
                if let Ok(question) = hear(&mut receive).await {
                    let stopped = send.stopped();
                    let answered = tokio::select! {
                        // Nobody waits for the answer any more.
                        _ = stopped => None,
                        answer = daemon.answer(question, &connection, &joined) => Some(answer),
                    };
                    if let Some(answer) = answered {
                        // He may be gone now.
                        let _ = say(&mut send, &answer).await;
                        let _ = send.stopped().await;
                    }
                }
                daemon.open.fetch_sub(1, Ordering::SeqCst);
            });
        }
        let gone = std::mem::take(&mut *joined.lock().unwrap_or_else(PoisonError::into_inner));
        gone.into_iter().for_each(|number| self.hall().leave(number));
    }

    async fn answer(
        self: &Arc<Self>,
        question: Question,
        connection: &Connection,
        joined: &Mutex<BTreeSet<u32>>,
    ) -> Answer {
        match question {
            Question::List => Answer::Servers(self.hall().list()),
            Question::Call(call) => Answer::Called(self.call(call).await),
            Question::Join(card) => {
                let number = self.hall().join(card, Way::There(connection.clone()));
                joined.lock().unwrap_or_else(PoisonError::into_inner).insert(number);
                Answer::Joined
            }
        }
    }

    /// Has one server after the other try a call.
    async fn call(self: &Arc<Self>, call: TextCall) -> Result<String, RpcError> {
        let (bytes, call) = (call.arguments.len() as u64, Arc::new(call));
        let (mut tried, mut problem) = (BTreeSet::new(), RpcError::CommunicationFailed);
        for attempt in 0..ATTEMPTS {
            let placed = self.hall().place(&call.function, bytes, &tried);
            let (offer, way) = match placed {
                Ok(Some(placed)) => placed,
                Ok(None) => break,
                Err(error) if attempt == 0 => return Err(error),
                Err(_) => break,
            };
            tried.insert(offer.number);
            match self.attempt(offer, way, call.clone()).await {
                Err(RpcError::SessionFailed { reason }) => {
                    return Err(RpcError::SessionFailed { reason });
                }
                Err(error) => problem = error,
                results => return results,
            }
        }
        Err(problem)
    }

    /// Sends a call to a server. It counts as the server's load until that has answered, though in time or not.
    async fn attempt(
        self: &Arc<Self>,
        offer: Offer,
        way: Way<C>,
        call: Arc<TextCall>,
    ) -> Result<String, RpcError> {
        let (daemon, timeout, begun) = (self.clone(), call.timeout, Instant::now());
        // Locked while the hall is. Empty once the server has answered.
        let late = Arc::new(Mutex::new(Some(offer)));
        let of_task = late.clone();
        let going = tokio::spawn(async move {
            let outcome = way.call(&call).await;
            let mut hall = daemon.hall();
            if outcome.is_ok() {
                let (bytes, took_s) = (call.arguments.len() as u64, begun.elapsed().as_secs_f64());
                hall.observe(&call.function, offer.number, bytes, took_s);
            }
            let ended = of_task.lock().unwrap_or_else(PoisonError::into_inner).take();
            ended.into_iter().for_each(|offer| hall.ended(offer));
            outcome
        });
        match tokio::time::timeout(timeout, going).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Err(RpcError::CommunicationFailed),
            Err(_) => {
                let mut hall = self.hall();
                let mut late = late.lock().unwrap_or_else(PoisonError::into_inner);
                *late = late.take().map(|offer| hall.late(offer));
                Err(RpcError::CommunicationFailed)
            }
        }
    }
}

impl<C: Catalogue> Way<C> {
    async fn call(&self, call: &TextCall) -> Result<String, RpcError> {
        match self {
            Self::Here(rpc) => rpc.call_text(&call.function, &call.arguments).await,
            Self::There(connection) => match ask(connection, &Question::Call(call.clone())).await {
                Ok(Answer::Called(outcome)) => outcome,
                Ok(_) => Err(RpcError::CommunicationFailed),
                Err(error) => Err(RpcError::Other { reason: error.to_string() }),
            },
        }
    }
}
