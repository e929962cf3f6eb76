//! A client reaches the servers behind a door, and measures the ways to them.

use super::errand::Contact;
use super::owner::{Supply, supply};
use super::survey::measured;
use super::token::DoorError;
use super::visitor::Visitor;
use super::wire::{Listed, Question, Source, ask};
use gridspan_topology::LinkSample;
use quinn::Connection;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// So many are reached at once: what is measured at the same time shares the client's own way.
const AT_ONCE: usize = 4;
/// A server that is not reached and measured within this time is left out.
const PATIENCE: Duration = Duration::from_secs(10);

/// A server that was reached.
pub(super) type Met = (Listed, Contact, LinkSample);

/// Reaches servers, in the order in which they are listed; those that cannot be reached are left out. Each may fetch what is
/// supplied.
pub(super) async fn meet(visitor: &Visitor, servers: Vec<Listed>, supplied: &Supply) -> Vec<Met> {
    let (mut meeting, places) = (JoinSet::new(), Arc::new(Semaphore::new(AT_ONCE)));
    for (position, listed) in servers.into_iter().enumerate() {
        let (visitor, places) = (visitor.clone(), places.clone());
        meeting.spawn(async move {
            // It is never closed.
            let _place = places.acquire_owned().await;
            let met = visitor.within(PATIENCE, meet_one(&visitor, &listed)).await;
            (position, listed, met)
        });
    }
    let mut all = Vec::new();
    while let Some(met) = meeting.join_next().await {
        match met {
            Ok((position, listed, Ok((contact, sample)))) => {
                tokio::spawn(supply(contact.connection.clone(), supplied.clone()));
                all.push((position, (listed, contact, sample)));
            }
            Ok((_, listed, Err(error))) => {
                tracing::warn!(server = listed.card.name, %error, "left out");
            }
            Err(error) => tracing::warn!(%error, "left out"),
        }
    }
    all.sort_by_key(|(position, _)| *position);
    all.into_iter().map(|(_, met)| met).collect()
}

async fn meet_one(visitor: &Visitor, listed: &Listed) -> Result<(Contact, LinkSample), DoorError> {
    let connection = visitor.connect_to(listed.address).await?;
    let sample = measured(&connection, true).await.unwrap_or_default();
    let (is_door, address) = (listed.address.is_none(), listed.address);
    let address = address.unwrap_or(visitor.address());
    Ok((Contact { connection, source: Source::Server { address, is_door } }, sample))
}

/// Tells a server something, which may be lost; nothing if all ends already.
pub(super) fn tell(connection: &Connection, question: Question) {
    let connection = connection.clone();
    if let Ok(runtime) = Handle::try_current() {
        runtime.spawn(async move { drop(ask(&connection, &question).await) });
    }
}
