//! Whoever begins a group: gives orders to servers, and data to those that ask for it.

use super::budget::Budget;
use super::token::DoorError;
use super::visitor::Visitor;
use super::wire::{Answer, Listed, Order, Question, Times, Trouble, ask, hear};
use super::workshop::{fetch, give};
use bytes::Bytes;
use quinn::Connection;
use ring::rand::{SecureRandom, SystemRandom};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// A question for data is short.
const QUESTION_BYTES_MAX: usize = 1 << 20;

/// A group, and connections to its servers. Once it is dropped, they forget the group.
pub(crate) struct Owner {
    group: u64,
    connections: Vec<Connection>,
}

impl Owner {
    /// Begins a group on servers behind a door, of which those that cannot be reached are left out. `data` is what it has
    /// itself: so many bytes each.
    pub(crate) async fn begin(
        visitor: &Visitor,
        servers: &mut Vec<Listed>,
        data: BTreeMap<u32, u64>,
    ) -> Result<Self, DoorError> {
        let mut dice = [0; 8];
        let no_dice = |_| DoorError::Listen(io::Error::other("the system has no random numbers"));
        SystemRandom::new().fill(&mut dice).map_err(no_dice)?;
        let (group, data) = (u64::from_le_bytes(dice), Arc::new(data));
        let (mut connections, mut there) = (Vec::new(), Vec::new());
        for server in servers.drain(..) {
            match visitor.connect_to(server.address).await {
                Ok(connection) => {
                    tokio::spawn(answer(connection.clone(), group, data.clone()));
                    connections.push(connection);
                    there.push(server);
                }
                Err(error) => tracing::warn!(server = server.card.name, %error, "left out"),
            }
        }
        *servers = there;
        Ok(Self { group, connections })
    }

    /// The group's number.
    pub(crate) fn group(&self) -> u64 {
        self.group
    }

    /// How long it takes to a server and back.
    pub(crate) fn rtt(&self, server: usize) -> Duration {
        self.connections[server].rtt()
    }

    /// Has a server execute a task.
    pub(crate) fn order(
        &self,
        server: usize,
        order: Order,
    ) -> impl Future<Output = Result<Result<Times, Trouble>, DoorError>> + Send + 'static {
        let connection = self.connections[server].clone();
        async move {
            match ask(&connection, &Question::Task(order)).await? {
                Answer::Done(outcome) => Ok(outcome),
                _ => Err(DoorError::Malformed("another answer than that to a task".to_owned())),
            }
        }
    }

    /// Brings data from a server, as large as it must be.
    pub(crate) fn fetch(
        &self,
        server: usize,
        data: u32,
        bytes: u64,
    ) -> impl Future<Output = Option<Bytes>> + Send + 'static {
        let (connection, group) = (self.connections[server].clone(), self.group);
        async move { fetch(&connection, group, data, bytes).await }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.connections.iter().for_each(|connection| connection.close(0_u32.into(), b""));
    }
}

/// Gives data to a server that asks for it.
async fn answer(connection: Connection, group: u64, data: Arc<BTreeMap<u32, u64>>) {
    let budget = Budget::new(QUESTION_BYTES_MAX);
    while let Ok((mut send, mut receive)) = connection.accept_bi().await {
        let (data, budget) = (data.clone(), budget.clone());
        tokio::spawn(async move {
            let Ok((Question::Give { group: of, data: asked }, _claim)) =
                hear(&mut receive, &budget).await
            else {
                return;
            };
            let bytes = data.get(&asked).filter(|_| of == group);
            // What the client would have is made as it is sent.
            let bytes = bytes.map(|bytes| Bytes::from(vec![0; *bytes as usize]));
            // Who asked may be gone.
            let _ = give(bytes, &mut send).await;
        });
    }
}
