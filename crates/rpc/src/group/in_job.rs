//! Groups on the servers of a job.

use super::map::failed;
use super::order::{DataKey, GroupData, GroupMessage, Piece};
use super::platforms::{Declared, platform};
use super::server_pool::{AssumedLinks, Encoded, Freed, ServerPool};
use crate::block::Arriving;
use crate::calls::{Catalogue, RpcError, ServerCard, ServerMessage, Services};
use futures_util::future::join_all;
use gridspan_workflow::Platform;
use std::collections::BTreeSet;
use std::time::Duration;

/// Interval at which a group checks whether a server that has its data has registered.
const PAUSE: Duration = Duration::from_millis(50);

impl<C: Catalogue> ServerPool for Services<C> {
    async fn cards(&self) -> Result<Vec<ServerCard>, RpcError> {
        self.settled_list().await
    }

    async fn pause(&self) {
        self.sleep(PAUSE).await;
    }

    async fn platform(
        &self,
        cards: &[ServerCard],
        assumed: &AssumedLinks,
        observed_speed: &dyn Fn(u32) -> f64,
    ) -> Result<Platform, RpcError> {
        let links = match assumed.measures {
            true => Some(self.links().await?),
            false => None,
        };
        let declared = Declared { lan: assumed.lan, wan: assumed.wan };
        Ok(platform(self.layout(), cards, declared, links.as_ref(), observed_speed))
    }

    fn standing(&self, server: u32) -> Option<u32> {
        self.successor_of(server)
    }

    fn begin_group(&self) -> u32 {
        self.next_group()
    }

    fn free(&self, group: u32, data: &Freed, servers: &BTreeSet<u32>) {
        for &server in servers {
            let message = GroupMessage::Free { group, data: data.0.clone() };
            self.tell_server(server, ServerMessage::Group(message));
        }
    }

    async fn take_back(
        &self,
        group: u32,
        data: &Freed,
        servers: &BTreeSet<u32>,
    ) -> Result<(), RpcError> {
        let told = servers.iter().map(|&server| {
            let data = data.0.clone();
            let message = move |reply| GroupMessage::TakeBack { group, data, reply };
            self.ask_standing(server, move |reply| ServerMessage::Group(message(reply)))
        });
        // A server that was lost meanwhile gets no data, so it need not accept any.
        let told: Result<Vec<Option<()>>, RpcError> = join_all(told).await.into_iter().collect();
        told.map(|_| ())
    }

    fn end_group(&self, group: u32, servers: BTreeSet<u32>) {
        // Servers that have left pass the message on to their successors.
        self.forget_group(group, servers);
    }

    async fn fetch(&self, group: u32, data: u32, server: u32) -> Result<Encoded, RpcError> {
        let key = DataKey { group, data };
        let first = fetch_piece(self, server, key, 0).await?;
        let (count, bytes) = (first.count, first.bytes.map_err(failed)?);
        let mut arriving =
            Arriving::new(count).ok_or_else(|| failed(format!("the data has {count} segments")))?;
        let mut whole = arriving.arrive(0, bytes);
        let rest = (1..count).map(|index| fetch_piece(self, server, key, index));
        for piece in join_all(rest).await {
            let Piece { index, bytes, .. } = piece?;
            whole = whole.or(arriving.arrive(index as usize, bytes.map_err(failed)?));
        }
        whole.map(Encoded).ok_or_else(|| failed("the data is not complete".to_owned()))
    }
}

/// Returns the data of a group that goes on after a restoration, for each server whose data is not
/// lost. A server that has left reports the data of its successor, and what it has dropped itself.
/// Omits servers that are lost before they answer: data that only they had is produced again.
pub(super) async fn group_data<C: Catalogue>(
    services: &Services<C>,
    group: u32,
) -> Result<Vec<(u32, GroupData)>, RpcError> {
    let ask = |server| async move {
        let question = move |reply| ServerMessage::Group(GroupMessage::Resume(group, reply));
        let data: Option<GroupData> = services.ask_standing(server, question).await?;
        Ok::<_, RpcError>(data.map(|data| (server, data)))
    };
    let answers = join_all(services.servers_with_data().into_iter().map(ask)).await;
    answers.into_iter().filter_map(Result::transpose).collect()
}

async fn fetch_piece<C: Catalogue>(
    services: &Services<C>,
    server: u32,
    key: DataKey,
    index: u32,
) -> Result<Piece, RpcError> {
    let question = move |reply| ServerMessage::Group(GroupMessage::Fetch(key, index, reply));
    let piece = services.ask_standing(server, question).await?;
    piece.ok_or_else(|| failed("the server that has the data has left".to_owned()))
}
