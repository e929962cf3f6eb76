//! A server that joins the door of a daemon, and joins again when that is back.

use super::token::{DoorError, Token};
use super::visitor::Visitor;
use super::wire::{Answer, Question, ask, hear, say};
use gridspan_rpc::calls::{Catalogue, GridRpc, RpcError, ServerCard};
use quinn::{Connection, VarInt};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How long to wait before looking for a door again, at first and at most.
const PAUSE: Duration = Duration::from_millis(200);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// How long calls may go on when the server is told to end.
const GRACE: Duration = Duration::from_secs(10);
const GLANCE: Duration = Duration::from_millis(20);

/// Serves behind a door until `end` resolves. `told` hears each time the server has joined. Fails if nobody answers
/// at the door the first time.
pub(super) async fn join<C: Catalogue>(
    token: Token,
    card: ServerCard,
    rpc: Arc<GridRpc<C>>,
    end: impl Future<Output = ()>,
    mut told: impl FnMut(),
) -> Result<(), DoorError> {
    let mut end = std::pin::pin!(end);
    let visitor = Visitor::new(token)?;
    let mut connection = Some(enter(&visitor, &card).await?);
    let open = Arc::new(AtomicUsize::new(0));
    let mut pause = PAUSE;
    loop {
        let Some(joined) = connection.take() else {
            tokio::select! {
                () = &mut end => return Ok(()),
                () = tokio::time::sleep(pause) => {}
            }
            pause = (pause * 2).min(PAUSE_MAX);
            connection = enter(&visitor, &card).await.ok();
            continue;
        };
        told();
        pause = PAUSE;
        tokio::select! {
            () = &mut end => {
                let begun = Instant::now();
                while open.load(Ordering::SeqCst) > 0 && begun.elapsed() < GRACE {
                    tokio::time::sleep(GLANCE).await;
                }
                joined.close(VarInt::from_u32(0), b"the server has left");
                visitor.leave().await;
                return Ok(());
            }
            () = serve(&joined, &rpc, &open) => {}
        }
    }
}

async fn enter(visitor: &Visitor, card: &ServerCard) -> Result<Connection, DoorError> {
    let connection = visitor.connect().await?;
    match ask(&connection, &Question::Join(card.clone())).await? {
        Answer::Joined => Ok(connection),
        _ => Err(DoorError::Malformed("another answer than that to joining".to_owned())),
    }
}

/// Executes the calls that come, until the connection ends.
async fn serve<C: Catalogue>(
    connection: &Connection,
    rpc: &Arc<GridRpc<C>>,
    open: &Arc<AtomicUsize>,
) {
    while let Ok((mut send, mut receive)) = connection.accept_bi().await {
        let (rpc, open) = (rpc.clone(), open.clone());
        open.fetch_add(1, Ordering::SeqCst);
        tokio::spawn(async move {
            if let Ok(Question::Call(call)) = hear(&mut receive).await {
                let outcome = rpc.call_text(&call.function, &call.arguments).await;
                // The door may be gone.
                let _ = say(&mut send, &Answer::Called(outcome)).await;
                let _ = send.stopped().await;
            } else {
                let refused =
                    RpcError::RpcRefused { reason: "a server takes calls only".to_owned() };
                let _ = say(&mut send, &Answer::Called(Err(refused))).await;
            }
            open.fetch_sub(1, Ordering::SeqCst);
        });
    }
}
