//! The servers of a job and their registry, as `main` starts and ends them.

use super::catalogue::Catalogue;
use super::config::{Config, FOREVER};
use super::directory::ServerCard;
use super::error::RpcError;
use super::membership::Membership;
use super::registry::{Registry, RegistryMessage};
use super::server::{Opening, Server, ServerMessage};
use super::session_manager::{SessionManager, SessionManagerInit};
use crate::group::Room;
use crate::group::order::GroupMessage;
use gridspan_runtime::{
    Collection, Grid, GridError, Ix1, Layout, Links, Member, PeId, Per, Placement, Reply, Time,
};
use serde::de::DeserializeOwned;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

/// The placement map of what should be where `main` is.
pub(super) const BESIDE_MAIN: &str = "rpc beside main";

/// A server that is to be started.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerPlan {
    /// What it is called; each differently.
    pub name: String,
    /// The PE that it computes on.
    pub pe: PeId,
    /// How fast it is: a call takes its work divided by it.
    pub speed: f64,
    /// Whether it sends data to other servers; otherwise groups go to it by way of the client.
    pub is_direct: bool,
    /// The functions that it offers; all of the catalogue if none is named.
    pub offers: Vec<String>,
    /// How much it keeps for groups.
    pub room: Room,
}

impl ServerPlan {
    /// A server of speed 1 that offers all functions.
    pub fn new(name: impl Into<String>, pe: PeId) -> Self {
        Self {
            name: name.into(),
            pe,
            speed: 1.0,
            is_direct: true,
            offers: Vec::new(),
            room: Room::default(),
        }
    }
}

/// The registry and the servers of a catalogue. Clones are of the same.
pub struct Services<C: Catalogue> {
    grid: Grid,
    registries: Collection<Registry>,
    servers: Collection<Server<C>>,
    session_managers: Collection<SessionManager<C>>,
    membership: Arc<Mutex<Membership>>,
}

impl<C: Catalogue> Clone for Services<C> {
    fn clone(&self) -> Self {
        Self {
            grid: self.grid.clone(),
            registries: self.registries.clone(),
            servers: self.servers.clone(),
            session_managers: self.session_managers.clone(),
            membership: self.membership.clone(),
        }
    }
}

/// Why the grid did not do what a call needs.
pub(super) fn from_grid(error: &GridError) -> RpcError {
    match error {
        GridError::Ask(gridspan_runtime::AskError::Timeout) => RpcError::CommunicationFailed,
        error => RpcError::Other { reason: error.to_string() },
    }
}

impl<C: Catalogue> Services<C> {
    /// Starts a registry beside `main`, without servers.
    pub async fn new(grid: &Grid) -> Result<Self, RpcError> {
        let registries = grid.create_placed::<Registry>(Placement::BySite, Ix1::range(1), |_| ());
        let registries = registries.await.map_err(|error| from_grid(&error))?;
        let registry = registries.member(Ix1(0)).reference();
        let servers = grid.create_group::<Server<C>>(Per::Pe, |_| ());
        let servers = servers.await.map_err(|error| from_grid(&error))?;
        // Desks come later: then a collection could not be made before all PEs that compute have
        // paused.
        let beside_main = || Placement::Custom(BESIDE_MAIN.to_owned());
        let nobody = Vec::<Ix1>::new();
        let start = |_| SessionManagerInit::new(registry, servers.reference(), &Config::default());
        let session_managers =
            grid.create_placed::<SessionManager<C>>(beside_main(), nobody, start).await;
        let session_managers = session_managers.map_err(|error| from_grid(&error))?;
        Ok(Self {
            grid: grid.clone(),
            registries,
            servers,
            session_managers,
            membership: Arc::default(),
        })
    }

    /// Starts a registry, and a server on every PE but that of `main` (on that if it is the only
    /// one), called after their site and PE, such as `delft/pe3`.
    pub async fn on_all_pes(grid: &Grid) -> Result<Self, RpcError> {
        let services = Self::new(grid).await?;
        let layout = grid.layout();
        let first = u32::from(layout.pe_count() > 1);
        for pe in layout.pes().skip(first as usize) {
            let name = format!("{}/{pe}", layout.site_name(layout.site_of(pe)));
            services.join(ServerPlan::new(name, pe)).await?;
        }
        Ok(services)
    }

    pub(super) fn registry(&self) -> Member<Registry> {
        self.registries.member(Ix1(0))
    }

    fn membership(&self) -> MutexGuard<'_, Membership> {
        self.membership.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A number that no other group has.
    pub(crate) fn next_group(&self) -> u32 {
        self.membership().begin()
    }

    /// Has servers forget a group that has ended, and drop what is still on its way.
    pub(crate) fn forget_group(&self, group: u32, servers: impl IntoIterator<Item = u32>) {
        let floor = self.membership().end(group);
        for server in servers {
            let over = GroupMessage::End { group, floor };
            self.tell_server(server, ServerMessage::Group(over));
        }
    }

    /// Who has what a server kept: itself, or who took over from it; nobody if that is lost.
    pub(crate) fn heir_of(&self, number: u32) -> Option<u32> {
        self.membership().standing(number)
    }

    /// How many servers have ever left.
    pub(crate) fn departures(&self) -> usize {
        self.membership().departures()
    }

    /// The sites, nodes and PEs of the job.
    pub(crate) fn layout(&self) -> &Layout {
        self.grid.layout()
    }

    /// What is known of the links between groups of nodes.
    pub(crate) async fn links(&self) -> Result<Links, RpcError> {
        self.grid.links().await.map_err(|error| from_grid(&error))
    }

    /// The job's time, in seconds; zero once it ends.
    pub(crate) async fn now_s(&self) -> f64 {
        self.grid.now().await.map_or(0.0, |now| now.since(Time::default()).as_secs_f64())
    }

    /// Waits.
    pub(crate) async fn sleep(&self, pause: Duration) {
        // It ends early only with the job.
        let _ = self.grid.sleep(pause).await;
    }

    /// Asks a server of this number.
    pub(crate) async fn ask_server<T: DeserializeOwned + Send + 'static>(
        &self,
        number: u32,
        question: impl FnOnce(Reply<T>) -> ServerMessage + Send + 'static,
    ) -> Result<T, RpcError> {
        let server = self.servers.member(Ix1(number as i32));
        server.ask(FOREVER, question).await.map_err(|error| from_grid(&error))
    }

    /// Tells a server of this number.
    pub(crate) fn tell_server(&self, number: u32, message: ServerMessage) {
        self.servers.member(Ix1(number as i32)).send(message);
    }

    /// A session manager for a client, and its number.
    pub(super) fn session_manager(&self, config: &Config) -> (u32, Member<SessionManager<C>>) {
        let number = self.membership().client();
        let registry = self.registry().reference();
        let start = SessionManagerInit::new(registry, self.servers.reference(), config);
        self.session_managers.insert_on(Ix1(number as i32), start, PeId(0));
        (number, self.session_managers.member(Ix1(number as i32)))
    }

    /// Starts a server. It can be called when this resolves.
    pub async fn join(&self, plan: ServerPlan) -> Result<(), RpcError> {
        if !self.grid.layout().contains(plan.pe) {
            let reason = format!("there is no {} to start `{}` on", plan.pe, plan.name);
            return Err(RpcError::Other { reason });
        }
        if !(plan.speed > 0.0 && plan.speed.is_finite()) {
            let reason = format!("`{}` cannot have a speed of {}", plan.name, plan.speed);
            return Err(RpcError::Other { reason });
        }
        let ServerPlan { name, pe, speed, is_direct, offers, room } = plan;
        let server = self.server_on(pe);
        let opening = Opening { name, speed, is_direct, offers, room };
        let card = server.ask(FOREVER, move |reply| ServerMessage::Open(opening, reply)).await;
        let card = card.map_err(|error| from_grid(&error))?;
        let (number, registry) = (card.number, self.registry());
        // Before the registry lists it: should nobody wait for its answer, the server can still be
        // named.
        self.membership().name(number, card.name.clone());
        let joined = registry.ask(FOREVER, move |reply| RegistryMessage::Join(card, reply));
        joined.await.map_err(|error| {
            self.membership().forget_name(number);
            from_grid(&error)
        })
    }

    /// A server on a PE that has not been open yet: the one of the group, and then others at
    /// indices whose home is that PE as well, so that what is sent to them passes by no other PE.
    fn server_on(&self, pe: PeId) -> Member<Server<C>> {
        let round = self.membership().start(pe);
        let index = Ix1((pe.0 + round * self.grid.layout().pe_count()) as i32);
        if round > 0 {
            self.servers.insert_on(index, (), pe);
        }
        self.servers.member(index)
    }

    /// The servers that take calls.
    pub async fn list(&self) -> Result<Vec<ServerCard>, RpcError> {
        let listed = self.registry().ask(FOREVER, RegistryMessage::List).await;
        listed.map_err(|error| from_grid(&error))
    }

    /// How long all single calls compute that servers have to do, in seconds, as far as the
    /// registry knows.
    pub async fn load_s(&self) -> Result<f64, RpcError> {
        let load_s = self.registry().ask(FOREVER, RegistryMessage::Load).await;
        load_s.map_err(|error| from_grid(&error))
    }

    /// Has the registry begin anew, with nothing: servers register with it again, and what clients
    /// ask waits until they have, or ten seconds. A server that is at a longer call is not there
    /// until that has ended; groups whose data it has wait for it. How long functions take, and how
    /// much servers have to do, is learned again.
    pub async fn restart_registry(&self) -> Result<(), RpcError> {
        let standing = self.membership().standing_servers(self.grid.layout().pe_count());
        let (awaited, registry) = (standing.clone(), self.registry());
        let restarted = registry.ask(FOREVER, |reply| RegistryMessage::Restart(awaited, reply));
        restarted.await.map_err(|error| from_grid(&error))?;
        let registry = registry.reference();
        for server in standing.into_keys() {
            self.tell_server(server, ServerMessage::Register(registry));
        }
        Ok(())
    }

    /// How many bytes all servers keep for groups and of calls, those that have left among them.
    pub async fn kept_bytes(&self) -> Result<u64, RpcError> {
        let servers = self.membership().ever_started(self.grid.layout().pe_count());
        let mut bytes = 0;
        for number in servers {
            let question = |reply| ServerMessage::Group(GroupMessage::Kept(reply));
            bytes += self.ask_server(number, question).await?;
        }
        Ok(bytes)
    }

    /// Has a server take no more calls; those that wait there are made elsewhere. What it keeps and
    /// has to do for groups goes to another server that offers all that it does, one at the same
    /// site if there is one. If there is none, or the server speaks with the client only, it is
    /// lost as with [`lose`](Self::lose). Resolves once the server knows, which is after the call
    /// that it executes, and the other has all. Windows of groups are not mapped meanwhile. If this
    /// is dropped before it resolves, the server may be off the list without having heard of it:
    /// then it can be lost only.
    pub async fn leave(&self, name: &str) -> Result<(), RpcError> {
        self.end_server(name, true).await
    }

    /// The same, but for groups nobody takes over: what only this server has is lost, and windows
    /// are mapped without it at once. For servers that have gone wrong, and those whose leaving
    /// has.
    pub async fn lose(&self, name: &str) -> Result<(), RpcError> {
        self.end_server(name, false).await
    }

    async fn end_server(&self, name: &str, hands_over: bool) -> Result<(), RpcError> {
        // Not by the registry's list, on which one that is stuck may not be.
        let number = self.membership().named(name);
        let number = number.ok_or_else(|| RpcError::ServerNotFound { server: name.to_owned() })?;
        let registry = self.registry();
        self.membership().begin_leave();
        let mut leaving = Leaving { services: self, number, outcome: None };
        // First nobody new is sent there, nor named as heir to another.
        let question = move |reply| RegistryMessage::Leave { number, hands_over, reply };
        let heir = registry.ask(FOREVER, question).await.map_err(|error| from_grid(&error))??;
        // The heir may have been lost since.
        let heir = heir.filter(|&heir| self.heir_of(heir).is_some());
        leaving.outcome = Some(heir);
        if heir.is_none() {
            // What it keeps is lost from now on.
            self.membership().leave(number, None);
            // Nor has anybody to wait for that: it may be stuck.
            drop(leaving);
        }
        let left = self.ask_server(number, move |reply| ServerMessage::Leave(heir, reply)).await;
        self.registry().send(RegistryMessage::Left(number));
        left
    }

    /// The servers that take calls, at a time when none of them is handing over.
    pub(crate) async fn settled_list(&self) -> Result<Vec<ServerCard>, RpcError> {
        loop {
            let before = poll_fn(|cx| self.poll_settled(cx)).await;
            let cards = self.list().await?;
            if poll_fn(|cx| self.poll_settled(cx)).await == before {
                return Ok(cards);
            }
        }
    }

    fn poll_settled(&self, cx: &std::task::Context<'_>) -> Poll<u64> {
        self.membership().settled(cx.waker()).map_or(Poll::Pending, Poll::Ready)
    }
}

/// A server hands over as long as this lives.
struct Leaving<'a, C: Catalogue> {
    services: &'a Services<C>,
    number: u32,
    /// Who takes over, once the registry has let the server go.
    outcome: Option<Option<u32>>,
}

impl<C: Catalogue> Drop for Leaving<'_, C> {
    fn drop(&mut self) {
        self.services.membership().end_leave(self.number, self.outcome);
    }
}
