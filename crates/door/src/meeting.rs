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

/// So many are connected to at once: one that does not answer keeps no other from that.
const CONNECTING_AT_ONCE: usize = 64;
/// So many are measured at once: what is measured at the same time shares the client's own way.
const MEASURED_AT_ONCE: usize = 4;
/// A server that is not reached, or not measured, within this time is left out.
const PATIENCE: Duration = Duration::from_secs(10);

/// A server that was reached.
pub(super) type Met = (Listed, Contact, LinkSample);

/// Reaches servers for a visitor, each of which may fetch what is supplied. Clones share their
/// turns.
#[derive(Clone)]
pub(super) struct Meeting {
    visitor: Visitor,
    supplied: Supply,
    connecting: Arc<Semaphore>,
    measuring: Arc<Semaphore>,
}

impl Meeting {
    pub(super) fn new(visitor: Visitor, supplied: Supply) -> Self {
        let [connecting, measuring] =
            [CONNECTING_AT_ONCE, MEASURED_AT_ONCE].map(|count| Arc::new(Semaphore::new(count)));
        Self { visitor, supplied, connecting, measuring }
    }

    /// Reaches a server, and measures the way to it.
    pub(super) async fn with(&self, listed: &Listed) -> Option<(Contact, LinkSample)> {
        match self.reach(listed).await {
            Ok((connection, sample)) => {
                tokio::spawn(supply(connection.clone(), self.supplied.clone()));
                let (is_door, address) = (listed.address.is_none(), listed.address);
                let address = address.unwrap_or(self.visitor.address());
                let source = Source::Server { address, is_door };
                Some((Contact { connection, source }, sample))
            }
            Err(error) => {
                tracing::warn!(server = listed.card.name, %error, "left out");
                None
            }
        }
    }

    async fn reach(&self, listed: &Listed) -> Result<(Connection, LinkSample), DoorError> {
        let connection = {
            // They are never closed.
            let _place = self.connecting.acquire().await;
            let connecting = self.visitor.connect_to(listed.address);
            self.visitor.within(PATIENCE, connecting).await?
        };
        let _place = self.measuring.acquire().await;
        let measure = async { Ok(measured(&connection, true).await.unwrap_or_default()) };
        let sample = self.visitor.within(PATIENCE, measure).await?;
        Ok((connection, sample))
    }

    /// Reaches servers, in the order in which they are listed; those that cannot be reached are
    /// left out.
    pub(super) async fn with_all(&self, servers: Vec<Listed>) -> Vec<Met> {
        let mut meeting = JoinSet::new();
        for (position, listed) in servers.into_iter().enumerate() {
            let own = self.clone();
            meeting.spawn(async move { (position, own.with(&listed).await, listed) });
        }
        let mut all = Vec::new();
        while let Some(met) = meeting.join_next().await {
            match met {
                Ok((position, Some((contact, sample)), listed)) => {
                    all.push((position, (listed, contact, sample)));
                }
                Ok((_, None, _)) => {}
                Err(error) => tracing::warn!(%error, "left out"),
            }
        }
        all.sort_by_key(|(position, _)| *position);
        all.into_iter().map(|(_, met)| met).collect()
    }
}

/// Tells a server something, which may be lost; nothing if all ends already.
pub(super) fn tell(connection: &Connection, question: Question) {
    let connection = connection.clone();
    if let Ok(runtime) = Handle::try_current() {
        runtime.spawn(async move { drop(ask(&connection, &question).await) });
    }
}
