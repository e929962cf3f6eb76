//! How data of a window reaches the servers that need it: from the client, from who has it, or made
//! again.

use super::dispatch::{Ways, source};
use super::map::nowhere;
use super::order::{DataKey, DataPacket, GroupMessage, Held, Piece, Route, pieces};
use super::window_run::WindowRun;
use crate::calls::{Catalogue, RpcError, ServerMessage};
use gridspan_workflow::{DataId, Endpoint, ServerId};

impl<C: Catalogue> WindowRun<'_, '_, '_, C> {
    pub(super) fn key(&self, data: DataId) -> DataKey {
        self.group.key(self.names[data.index()])
    }

    /// Routes by the numbers of servers instead of their positions.
    pub(super) fn numbered(&self, routes: &[Route]) -> Vec<Route> {
        let number = |place| self.number(ServerId(place));
        routes.iter().map(|route| route.renamed(&number)).collect()
    }

    /// Has data that is there sent to the servers that need it.
    pub(super) async fn provide(&self, data: DataId, ways: &Ways) {
        let is_sent = match source(&self.graph, &self.mapping, data) {
            Some(Endpoint::Server(server)) => {
                let is_shared = ways.direct.is_empty()
                    || self.share(data, server, self.numbered(&ways.direct)).await;
                is_shared && self.bridge(data, server, &ways.bridged).await.is_ok()
            }
            _ => self.send_value(data, &ways.direct),
        };
        if is_sent {
            return self.note(data, None, &ways.direct);
        }
        self.ensure_all(data, &ways.direct).await;
        self.ensure_all(data, &ways.bridged).await;
    }

    /// Has data brought to all servers of routes, or word that it will never be.
    pub(super) async fn ensure_all(&self, data: DataId, routes: &[Route]) {
        for server in routes.iter().flat_map(Route::servers) {
            if let Err(error) = self.ensure(data, ServerId(server)).await {
                let routes = [Route::to(server)];
                self.send(data, &Err(error.to_string()), &routes);
            }
        }
    }

    /// Has a server send data to others; whether it has it.
    pub(super) async fn share(&self, data: DataId, from: ServerId, routes: Vec<Route>) -> bool {
        let packet = DataPacket { key: self.key(data), routes };
        let question = move |reply| ServerMessage::Group(GroupMessage::Share(packet, reply));
        let services = &self.group.mapper.services;
        services.ask_server(self.number(from), question).await.unwrap_or(false)
    }

    /// Remembers who has data, or will have it soon.
    pub(super) fn note(&self, data: DataId, maker: Option<ServerId>, routes: &[Route]) {
        let mut draft = self.group.draft.borrow_mut();
        let known = draft.known.entry(self.names[data.index()]).or_default();
        if let Some(maker) = maker.map(|server| self.number(server)) {
            known.maker = Some(maker);
            known.servers.insert(maker);
        }
        for route in self.numbered(routes) {
            known.servers.extend(route.servers());
        }
    }

    /// Sends a value of the client, if there is one.
    pub(super) fn send_value(&self, data: DataId, routes: &[Route]) -> bool {
        let value = self.group.draft.borrow().values.get(&self.names[data.index()]).cloned();
        value.map(|block| self.send(data, &Ok(block), routes)).is_some()
    }

    pub(super) fn send(&self, data: DataId, held: &Held, routes: &[Route]) {
        let routes = self.numbered(routes);
        for piece in pieces(self.key(data), 0, held) {
            for Route { to, then } in &routes {
                let piece = Piece { then: then.clone(), ..piece.clone() };
                let message = ServerMessage::Group(GroupMessage::Data(piece));
                self.group.mapper.services.tell_server(*to, message);
            }
        }
    }

    /// Brings data from the server that has it to the client, and sends it on from there.
    pub(super) async fn bridge(
        &self,
        data: DataId,
        from: ServerId,
        routes: &[Route],
    ) -> Result<(), RpcError> {
        if routes.is_empty() {
            return Ok(());
        }
        let held = self.group.fetch_from(self.number(from), self.names[data.index()]).await?;
        self.send(data, &Ok(held), routes);
        self.note(data, None, routes);
        Ok(())
    }

    /// Has data brought to a server: from the client, from who has it, or by making it again.
    pub(super) async fn ensure(&self, data: DataId, at: ServerId) -> Result<(), RpcError> {
        let producer = self.graph.datum(data).producer;
        let routes = [Route::to(at.0)];
        loop {
            if let Some(task) = producer {
                self.ended(task).await;
                if let Some(failure) = self.progress.borrow().failure(task) {
                    return Err(failure.clone());
                }
            }
            if self.send_value(data, &routes) {
                self.note(data, None, &routes);
                return Ok(());
            }
            for from in self.holders(data) {
                let is_there = match () {
                    () if from == at => true,
                    () if self.platform.is_direct(Endpoint::Server(from), Endpoint::Server(at)) => {
                        self.share(data, from, self.numbered(&routes)).await
                    }
                    () => self.bridge(data, from, &routes).await.is_ok(),
                };
                if is_there {
                    self.note(data, None, &routes);
                    return Ok(());
                }
            }
            let name = self.names[data.index()];
            let Some(task) = producer else { return Err(nowhere(name)) };
            let is_done = self.progress.borrow().is_done(task);
            if is_done {
                self.make_again(task, at, nowhere(name));
            }
        }
    }

    /// The servers that have data, the one that made it in front.
    pub(super) fn holders(&self, data: DataId) -> Vec<ServerId> {
        let draft = self.group.draft.borrow();
        let Some(known) = draft.known.get(&self.names[data.index()]) else { return Vec::new() };
        let numbers = known.maker.into_iter().chain(known.servers.iter().copied());
        let mut holders = Vec::new();
        for number in numbers.filter_map(|number| self.group.mapper.services.heir_of(number)) {
            let place = self.cards.iter().position(|card| card.number == number);
            let server = place.map(|place| ServerId(place as u32));
            holders.extend(server.filter(|server| !holders.contains(server)));
        }
        holders
    }
}
