//! A daemon: opens a door and answers, until it is told to end.

use super::budget::Budget;
use super::hall::Hall;
use super::token::{DoorError, Key, Token, key_path};
use super::wire::{Answer, Question, TextCall, Trouble, WAITING_BYTES_MAX, ask, hear, say};
use super::workshop::{Groups, Own, Workshop};
use gridspan_rpc::calls::{Catalogue, GridRpc, Offer, RpcError, ServerCard};
use quinn::{Connection, Endpoint, Incoming, RecvStream, SendStream, VarInt};
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Semaphore, oneshot};

/// So many servers are tried for a call at most.
const ATTEMPTS: usize = 3;
/// So many others may be connected; further ones are told to come again.
const CONNECTIONS_MAX: usize = 1024;
/// How long calls may go on when the daemon is told to end.
const GRACE: Duration = Duration::from_secs(10);
/// How often it looks whether they have ended.
const GLANCE: Duration = Duration::from_millis(20);

/// What a daemon is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DoorOptions {
    /// Where it listens. With port 0 the system chooses one.
    pub(crate) listen: SocketAddr,
    /// By which address others reach it, if not by that.
    pub(crate) advertise: Option<IpAddr>,
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
    /// What the certificates of daemons, and of those that join them, name.
    names: [String; 2],
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
    /// Of calls that were passed on.
    numbers: AtomicU64,
    connections: Arc<Semaphore>,
    /// If it executes anything itself.
    workshop: Option<Arc<Workshop<C>>>,
}

/// Who is at the other end of a connection.
struct Guest {
    connection: Connection,
    /// As which server it has joined.
    joined: Mutex<Option<u32>>,
    groups: Groups,
}

impl DoorPlan {
    /// Opens the door, and writes its token. Needs a runtime of tokio.
    pub(super) fn open(options: DoorOptions) -> Result<Self, DoorError> {
        let kept = key_path(&options.token);
        let is_there = options.is_kept && options.token.exists();
        let before = if is_there { Key::read(&kept)? } else { None };
        let (token, key, mut endpoint) = match before {
            Some(key) => {
                let endpoint = Endpoint::server(key.server()?, key.address());
                (None, key, endpoint.map_err(DoorError::Listen)?)
            }
            None => {
                let ip = options.advertise.unwrap_or(options.listen.ip());
                if ip.is_unspecified() {
                    return Err(DoorError::Nowhere(options.listen));
                }
                // The certificates do not name the address, which is known once the socket is there.
                let (token, key) = Token::new(options.listen)?;
                let endpoint = Endpoint::server(key.server()?, options.listen);
                let endpoint = endpoint.map_err(DoorError::Listen)?;
                let address = endpoint.local_addr().map_err(DoorError::Listen)?;
                (Some(token.at((ip, address.port()).into())), key.at(address), endpoint)
            }
        };
        endpoint.set_default_client_config(key.client()?);
        if options.is_kept {
            key.write(&kept)?;
        }
        if let Some(token) = token {
            token.write(&options.token)?;
        }
        Ok(Self { options, endpoint, names: key.names() })
    }

    /// Where the door is.
    pub(super) fn address(&self) -> Result<SocketAddr, DoorError> {
        self.endpoint.local_addr().map_err(DoorError::Listen)
    }
}

/// Answers at the door until `end` resolves, and then what is being asked. `own` are the servers of this process.
pub(super) async fn daemon<C: Catalogue>(
    plan: DoorPlan,
    own: Option<Own<C>>,
    end: impl Future<Output = ()>,
) -> Result<(), DoorError> {
    let DoorPlan { options, endpoint, names } = plan;
    let mut hall = Hall::new();
    let workshop = own.as_ref().map(|own| Arc::new(Workshop::new(own, endpoint.clone(), names)));
    if let Some(Own { card, rpc, pes, .. }) = own {
        hall.join(card, (pes, None), Way::Here(rpc)).map_err(DoorError::Unwelcome)?;
    }
    let daemon = Arc::new(Daemon {
        hall: Mutex::new(hall),
        open: AtomicUsize::new(0),
        numbers: AtomicU64::new(0),
        connections: Arc::new(Semaphore::new(CONNECTIONS_MAX)),
        workshop,
    });
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
        let Ok(_place) = self.connections.clone().try_acquire_owned() else {
            return incoming.refuse();
        };
        // Who cannot prove that he has the token has been told so.
        let Ok(connection) = incoming.await else { return };
        let (joined, groups) = (Mutex::default(), Groups::default());
        let guest = Arc::new(Guest { connection, joined, groups });
        let budget = Budget::new(WAITING_BYTES_MAX);
        while let Ok((send, receive)) = guest.connection.accept_bi().await {
            let (daemon, guest, budget) = (self.clone(), guest.clone(), budget.clone());
            daemon.open.fetch_add(1, Ordering::SeqCst);
            tokio::spawn(async move {
                daemon.attend((send, receive), &budget, &guest).await;
                daemon.open.fetch_sub(1, Ordering::SeqCst);
            });
        }
        let gone = guest.joined.lock().unwrap_or_else(PoisonError::into_inner).take();
        gone.into_iter().for_each(|number| self.hall().leave(number));
        self.workshop.iter().for_each(|workshop| workshop.forget(&guest.groups));
    }

    /// Hears a question, and answers it.
    async fn attend(
        self: &Arc<Self>,
        (mut send, mut receive): (SendStream, RecvStream),
        budget: &Budget,
        guest: &Guest,
    ) {
        // What was heard counts until it is answered.
        let (answer, _claim) = match hear(&mut receive, budget).await {
            Ok((Question::Give { group, data }, _)) => {
                if let Some(workshop) = &self.workshop {
                    workshop.give(group, data, &mut send).await;
                }
                return;
            }
            Ok((question, claim)) => {
                let stopped = send.stopped();
                let answered = tokio::select! {
                    // Nobody waits for the answer any more.
                    _ = stopped => return,
                    answer = self.answer(question, guest) => answer,
                };
                (answered, Some(claim))
            }
            Err(error @ DoorError::TooMuch) => {
                let refused = RpcError::RpcRefused { reason: error.to_string() };
                (Answer::Called(Err(refused)), None)
            }
            Err(_) => return,
        };
        // The rest of a question that was not heard. He may be gone now.
        let _ = receive.stop(VarInt::from_u32(0));
        let _ = say(&mut send, &answer).await;
        let _ = send.stopped().await;
    }

    async fn answer(self: &Arc<Self>, question: Question, guest: &Guest) -> Answer {
        match question {
            Question::List => Answer::Servers(self.hall().list()),
            Question::Call(call) => Answer::Called(self.call(call).await),
            Question::Join(card, pes) => self.join(card, pes, guest),
            Question::Task(order) => match &self.workshop {
                Some(workshop) => workshop.task(order, &guest.connection, &guest.groups).await,
                None => {
                    let reason = "a registry executes nothing".to_owned();
                    Answer::Done(Err(Trouble::Failed(reason)))
                }
            },
            // Whoever calls goes away instead.
            Question::Cancel(_) | Question::Give { .. } => Answer::Cancelled,
        }
    }

    fn join(&self, card: ServerCard, pes: u32, guest: &Guest) -> Answer {
        let mut joined = guest.joined.lock().unwrap_or_else(PoisonError::into_inner);
        if joined.is_some() {
            return Answer::Refused("a server has joined here already".to_owned());
        }
        let seat = (pes, Some(guest.connection.remote_address()));
        match self.hall().join(card, seat, Way::There(guest.connection.clone())) {
            Ok(number) => {
                *joined = Some(number);
                Answer::Joined
            }
            Err(why) => Answer::Refused(why),
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

    /// Sends a call to a server. It counts as the server's load until that has answered, though in time or not. If nobody
    /// waits for it any more, or too long, it is taken back.
    async fn attempt(
        self: &Arc<Self>,
        offer: Offer,
        way: Way<C>,
        call: Arc<TextCall>,
    ) -> Result<String, RpcError> {
        let (daemon, timeout, begun) = (self.clone(), call.timeout, Instant::now());
        // Dropped when this ends.
        let (_wanted, unwanted) = oneshot::channel::<()>();
        // Locked while the hall is. Empty once the server has answered.
        let late = Arc::new(Mutex::new(Some(offer)));
        let of_task = late.clone();
        let going = tokio::spawn(async move {
            let number = daemon.numbers.fetch_add(1, Ordering::SeqCst);
            let outcome = way.call(&call, number, async { drop(unwanted.await) }).await;
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
    /// Calls, as long as `unwanted` does not resolve. Then the call is taken back, and this ends when nothing is done for it.
    async fn call(
        &self,
        call: &TextCall,
        number: u64,
        unwanted: impl Future<Output = ()>,
    ) -> Result<String, RpcError> {
        let connection = match self {
            Self::Here(rpc) => {
                return rpc.call_text_until(&call.function, &call.arguments, unwanted).await;
            }
            Self::There(connection) => connection,
        };
        let question = Question::Call(TextCall { number, ..call.clone() });
        let mut answer = pin!(ask(connection, &question));
        let answered = tokio::select! {
            answered = &mut answer => answered,
            () = unwanted => {
                // He may be gone, which the answer says as well.
                let _ = ask(connection, &Question::Cancel(number)).await;
                answer.await
            }
        };
        match answered {
            Ok(Answer::Called(outcome)) => outcome,
            Ok(_) => Err(RpcError::CommunicationFailed),
            Err(error) => Err(RpcError::Other { reason: error.to_string() }),
        }
    }
}
