//! Connects a client to the servers of a registry, and measures the links to them.

use crate::client::by_name::Client;
use crate::client::task_client::{Supply, supply};
use crate::execution::events::Contact;
use crate::server::link_probes::measured;
use crate::wire::messages::{ListedServer, Request, Source, request_response};
use crate::wire::requests::LongRequests;
use crate::wire::token::RemoteError;
use gridspan_topology::LinkSample;
use quinn::Connection;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// Largest number of servers to which a client connects at once: many, so that a server that does
/// not answer does not delay the others.
const CONNECTING_AT_ONCE: usize = 64;
/// Largest number of servers that are measured at once, because measurements share the client's own
/// link.
const MEASURED_AT_ONCE: usize = 4;
/// Time limit for connecting to a server, and for measuring the link to it. A server that exceeds
/// one of them is left out.
const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) type Connected = (ListedServer, Contact, LinkSample);

/// Connects a client to servers, each of which may fetch the supplied data. Clones share the limits
/// on concurrency.
#[derive(Clone)]
pub(crate) struct Connector {
    client: Client,
    supplied: Supply,
    connecting: Arc<Semaphore>,
    measuring: Arc<Semaphore>,
}

impl Connector {
    pub(crate) fn new(client: Client, supplied: Supply) -> Self {
        let [connecting, measuring] =
            [CONNECTING_AT_ONCE, MEASURED_AT_ONCE].map(|count| Arc::new(Semaphore::new(count)));
        Self { client, supplied, connecting, measuring }
    }

    /// Connects to a server, and measures the link to it; `None` if that fails.
    pub(crate) async fn with(&self, listed: &ListedServer) -> Option<(Contact, LinkSample)> {
        match self.reach(listed).await {
            Ok((connection, sample)) => {
                tokio::spawn(supply(connection.clone(), self.supplied.clone()));
                let (is_registry, address) = (listed.address.is_none(), listed.address);
                let address = address.unwrap_or(self.client.address());
                let source = Source::Server { address, is_registry };
                Some((Contact { connection, source, orders: LongRequests::default() }, sample))
            }
            Err(error) => {
                tracing::warn!(server = listed.card.name, %error, "left out");
                None
            }
        }
    }

    async fn reach(&self, listed: &ListedServer) -> Result<(Connection, LinkSample), RemoteError> {
        let connection = {
            // The semaphores are never closed.
            let _place = self.connecting.acquire().await;
            let connecting = self.client.connect_to(listed.address);
            self.client.within(PATIENCE, connecting).await?
        };
        let _place = self.measuring.acquire().await;
        let measure = async { Ok(measured(&connection, true).await.unwrap_or_default()) };
        let sample = self.client.within(PATIENCE, measure).await?;
        Ok((connection, sample))
    }

    /// Connects to servers. Returns them in the order of the list, without those that cannot be
    /// reached.
    pub(crate) async fn with_all(&self, servers: Vec<ListedServer>) -> Vec<Connected> {
        let mut connector = JoinSet::new();
        for (position, listed) in servers.into_iter().enumerate() {
            let own = self.clone();
            connector.spawn(async move { (position, own.with(&listed).await, listed) });
        }
        let mut all = Vec::new();
        while let Some(met) = connector.join_next().await {
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

/// Sends a request to a server, without waiting for the answer. The request may be lost, and is not
/// sent outside of a tokio runtime.
pub(crate) fn tell(connection: &Connection, request: Request) {
    let connection = connection.clone();
    if let Ok(runtime) = Handle::try_current() {
        runtime.spawn(async move { drop(request_response(&connection, &request).await) });
    }
}
