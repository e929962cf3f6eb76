//! A server that joins the door of a daemon, and joins again when that is back.

use super::attend::{answer as say_to, attend, heard};
use super::bench::Bench;
use super::budget::Budget;
use super::counted::Counted;
use super::entrance::{Entrance, Place};
use super::groups::Groups;
use super::questions::Questions;
use super::survey::survey;
use super::token::{DoorError, Token};
use super::visitor::Visitor;
use super::wire::{Answer, Question, TextCall, WAITING_BYTES_MAX, ask};
use super::workshop::{Own, Workshop};
use gridspan_rpc::calls::{Catalogue, RpcError, ServerCard};
use quinn::{Connection, Endpoint, VarInt};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;

/// How long to wait before looking for a door again, at first and at most.
const PAUSE: Duration = Duration::from_millis(200);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// How long calls may go on when the server is told to end.
const GRACE: Duration = Duration::from_secs(10);
/// How long a door may take to let it in.
const PATIENCE: Duration = Duration::from_secs(20);

/// Serves behind a door until `end` resolves, and tasks of groups for whoever has the token. `told`
/// hears each time the server has joined. Fails if nobody answers at the door the first time.
pub(super) async fn join<C: Catalogue>(
    token: Token,
    own: Own<C>,
    end: impl Future<Output = ()>,
    mut told: impl FnMut(),
) -> Result<(), DoorError> {
    let (server, names) = (token.server()?, token.names());
    let visitor = Visitor::new(token)?;
    visitor.endpoint().set_server_config(Some(server));
    let open = Counted::default();
    let workshop = Arc::new(Workshop::new(&own, visitor.endpoint().clone(), names));
    tokio::spawn(receive(visitor.endpoint().clone(), workshop.clone(), open.clone()));
    let address = visitor.address();
    let Own { card, bench, pes } = own;
    let mut end = std::pin::pin!(end);
    let mut connection = tokio::select! {
        () = &mut end => return Ok(()),
        entered = enter(&visitor, &card, pes) => Some(entered?),
    };
    let mut pause = PAUSE;
    loop {
        let Some(joined) = connection.take() else {
            let enter_again = async {
                tokio::time::sleep(pause).await;
                enter(&visitor, &card, pes).await.ok()
            };
            tokio::select! {
                () = &mut end => return Ok(()),
                entered = enter_again => connection = entered,
            }
            pause = (pause * 2).min(PAUSE_MAX);
            continue;
        };
        told();
        pause = PAUSE;
        tokio::select! {
            () = &mut end => {
                open.over(GRACE).await;
                joined.close(VarInt::from_u32(0), b"the server has left");
                visitor.leave().await;
                return Ok(());
            }
            () = serve(&joined, &bench, &open) => {}
            () = survey(&joined, &workshop, address) => {}
        }
    }
}

async fn enter(visitor: &Visitor, card: &ServerCard, pes: u32) -> Result<Connection, DoorError> {
    let entering = async {
        let connection = visitor.connect().await?;
        let answer = ask(&connection, &Question::Join(card.clone(), pes)).await?;
        Ok((connection, answer))
    };
    let (connection, answer) = visitor.within(PATIENCE, entering).await?;
    match answer {
        Answer::Joined => Ok(connection),
        Answer::Refused(why) => Err(DoorError::Unwelcome(why)),
        _ => Err(DoorError::Malformed("another answer than that to joining".to_owned())),
    }
}

/// Lets in whoever has the token, for tasks of groups.
async fn receive<C: Catalogue>(endpoint: Endpoint, workshop: Arc<Workshop<C>>, open: Counted) {
    let entrance = Entrance::default();
    while let Some(incoming) = endpoint.accept().await {
        let (entrance, workshop, open) = (entrance.clone(), workshop.clone(), open.clone());
        tokio::spawn(async move {
            let Some((place, connection)) = entrance.admit(incoming).await else { return };
            work(&connection, &Arc::new(place), &workshop, &open).await;
        });
    }
}

/// Executes tasks for one connection, to its end.
async fn work<C: Catalogue>(
    connection: &Connection,
    place: &Arc<Place>,
    workshop: &Arc<Workshop<C>>,
    open: &Counted,
) {
    let (groups, budget) =
        (Arc::new(Mutex::new(Groups::default())), Budget::new(WAITING_BYTES_MAX));
    let mut questions = Questions::new(connection);
    while let Ok((mut send, mut receive, of_guest)) = questions.next().await {
        let (workshop, groups) = (workshop.clone(), groups.clone());
        let (connection, budget, open) = (connection.clone(), budget.clone(), open.begin());
        let in_use = place.begin();
        tokio::spawn(async move {
            let _open = (open, of_guest);
            if let Some((question, _claim)) = heard((&mut send, &mut receive), &budget).await {
                let of_guest = (&connection, &*groups);
                // What else may be asked is for doors.
                attend(question, Some(&workshop), of_guest, &mut send).await;
            }
            in_use.end(!lock(&groups).is_empty());
        });
    }
    workshop.forget(&groups);
}

/// So many calls that were taken back before they came are known at most.
const EARLY_MAX: usize = 1000;

/// The calls that are being executed, by number: dropping its sender takes a call back.
#[derive(Debug, Default)]
struct Calls {
    wanted: BTreeMap<u64, oneshot::Sender<()>>,
    /// Taken back before they came, for streams overtake each other.
    early: BTreeSet<u64>,
}

impl Calls {
    /// A call comes; what resolves when it is taken back, which it may be already.
    fn begin(&mut self, number: u64) -> oneshot::Receiver<()> {
        let (wanted, unwanted) = oneshot::channel();
        if !self.early.remove(&number) {
            self.wanted.insert(number, wanted);
        }
        unwanted
    }

    fn cancel(&mut self, number: u64) {
        if self.wanted.remove(&number).is_none() {
            self.early.insert(number);
            if self.early.len() > EARLY_MAX {
                self.early.pop_first();
            }
        }
    }
}

/// Executes the calls that come, until the connection ends. What has not ended then is taken back.
async fn serve<C: Catalogue>(connection: &Connection, bench: &Arc<Bench<C>>, open: &Counted) {
    let calls = Arc::new(Mutex::new(Calls::default()));
    let budget = Budget::new(WAITING_BYTES_MAX);
    let mut questions = Questions::new(connection);
    while let Ok((mut send, mut receive, of_door)) = questions.next().await {
        let (bench, calls, budget) = (bench.clone(), calls.clone(), budget.clone());
        let open = open.begin();
        tokio::spawn(async move {
            let _open = (open, of_door);
            if let Some((question, _claim)) = heard((&mut send, &mut receive), &budget).await {
                say_to(&mut send, &answer(question, &bench, &calls).await).await;
            }
        });
    }
    lock(&calls).wanted.clear();
}

async fn answer<C: Catalogue>(
    question: Question,
    bench: &Bench<C>,
    calls: &Mutex<Calls>,
) -> Answer {
    match question {
        Question::Call(TextCall { number, function, arguments, .. }) => {
            let unwanted = lock(calls).begin(number);
            let unwanted = async { drop(unwanted.await) };
            let outcome = bench.call(&function, &arguments, unwanted).await;
            lock(calls).wanted.remove(&number);
            Answer::Called(outcome)
        }
        Question::Cancel(number) => {
            lock(calls).cancel(number);
            Answer::Noted
        }
        _ => {
            let reason = "a server takes calls only".to_owned();
            Answer::Called(Err(RpcError::RpcRefused { reason }))
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
