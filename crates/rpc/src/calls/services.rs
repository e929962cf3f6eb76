//! The API with which `main` starts the servers of a job and their registry.

use super::catalogue::Catalogue;
use super::config::{Config, FOREVER};
use super::directory::ServerCard;
use super::error::RpcError;
use super::membership::Membership;
use super::registry::{Registry, RegistryMessage};
use super::request::SessionMessage;
use super::server::{Opening, Server, ServerMessage};
use super::session_manager::{SessionManager, SessionManagerInit};
use crate::group::Room;
use crate::group::order::GroupMessage;
use gridspan_runtime::{
    Collection, CollectionRef, Grid, GridError, Ix1, Layout, Links, Member, PeId, Per, Placement,
    PlacementMap, Reply, Time,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Puts actors on the PE of `main`.
pub(super) const BESIDE_MAIN: PlacementMap = PlacementMap::new("rpc beside main", |_, _| PeId(0));

/// A server to start.
///
/// ```
/// use gridspan_rpc::calls::ServerPlan;
/// use gridspan_runtime::PeId;
///
/// let plan = ServerPlan::new("delft/fast", PeId(3)).with_speed(2.0).with_offers(["square"]);
/// assert!(plan.is_direct);
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ServerPlan {
    /// Name of the server, which must be unique.
    pub name: String,
    /// PE on which the server computes.
    pub pe: PeId,
    /// Speed of the server: a call takes its work divided by the speed.
    pub speed: f64,
    /// Whether the server sends data to other servers. If not, the data of groups goes through the
    /// client.
    pub is_direct: bool,
    /// The functions that it offers; an empty list means all of the catalogue.
    pub offers: Vec<String>,
    /// Space for the data of groups.
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

    /// Sets the speed: a call takes its work divided by the speed.
    pub fn with_speed(mut self, speed: f64) -> Self {
        self.speed = speed;
        self
    }

    /// Sets whether the server sends data to other servers.
    pub fn with_direct(mut self, is_direct: bool) -> Self {
        self.is_direct = is_direct;
        self
    }

    /// Sets the names of the functions that it offers; none means all of the catalogue.
    pub fn with_offers(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.offers = names.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the space for the data of groups.
    pub fn with_room(mut self, room: Room) -> Self {
        self.room = room;
        self
    }
}

/// The registry and the servers of a catalogue. Clones share them.
///
/// ```
/// # use gridspan_rpc::calls::*;
/// # use gridspan_runtime::{Grid, Job, driver};
/// # const SQUARE: Function<u64, u64> = Function::new("square", |n, _| Ok(n * n));
/// # struct Numbers;
/// # impl Catalogue for Numbers {
/// #     fn functions() -> Functions { Functions::new().with(&SQUARE) }
/// # }
/// # async fn example(grid: &Grid) -> Result<(), RpcError> {
/// use gridspan_runtime::PeId;
///
/// let services: Services<Numbers> = Services::new(grid).await?;
/// services.join(ServerPlan::new("only", PeId(1))).await?;
/// let mut client = GridRpc::new(&services);
/// # client.initialize(&Config::default())?;
/// # let square = client.handle(&SQUARE).await?;
/// # assert_eq!(client.call(&square, &12).await?, 144);
/// # Ok(())
/// # }
/// # let job = with_rpc::<Numbers>(Job::new("numbers")).main(async |grid: Grid| {
/// #     example(&grid).await.map_err(|error| error.to_string().into())
/// # });
/// # driver::embedded::run(job, 2).unwrap();
/// ```
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

/// A reference to [`Services`], for the value that main gives to [`Grid::progress`]. Its encoding
/// contains the state of the services at that call, even if the reference was made earlier.
///
/// ```
/// # use gridspan_rpc::calls::*;
/// # use gridspan_runtime::{CheckpointEvery, Checkpoints, Grid, Job, driver};
/// # const SQUARE: Function<u64, u64> = Function::new("square", |n, _| Ok(n * n));
/// # struct Numbers;
/// # impl Catalogue for Numbers {
/// #     fn functions() -> Functions { Functions::new().with(&SQUARE) }
/// # }
/// # async fn example(grid: &Grid) -> Result<(), RpcError> {
/// let restored = grid.restored::<(u64, ServicesRef<Numbers>)>().await?;
/// let (first, services) = match restored {
///     Some((first, reference)) => (first, Services::restored(grid, &reference)),
///     None => (0, Services::on_all_pes(grid).await?),
/// };
/// let mut client = GridRpc::new(&services);
/// client.initialize(&Config::default())?;
/// let square = client.handle(&SQUARE).await?;
/// for n in first..5 {
///     grid.progress(&(n, services.reference())).await?;
///     assert_eq!(client.call(&square, &n).await?, n * n);
/// }
/// # Ok(())
/// # }
/// # let job = with_rpc::<Numbers>(Job::new("numbers")).main(async |grid: Grid| {
/// #     example(&grid).await.map_err(|error| error.to_string().into())
/// # });
/// # let job = job.checkpoints(Checkpoints::every(CheckpointEvery::Points(1)));
/// # driver::embedded::run(job, 2).unwrap();
/// ```
pub struct ServicesRef<C: Catalogue> {
    registries: CollectionRef<Registry>,
    servers: CollectionRef<Server<C>>,
    session_managers: CollectionRef<SessionManager<C>>,
    membership: Arc<Mutex<Membership>>,
}

impl<C: Catalogue> Clone for ServicesRef<C> {
    fn clone(&self) -> Self {
        Self { membership: self.membership.clone(), ..*self }
    }
}

/// A [`ServicesRef`] as it is encoded.
#[derive(Serialize, Deserialize)]
#[serde(bound = "")]
struct StoredServices<C: Catalogue> {
    registries: CollectionRef<Registry>,
    servers: CollectionRef<Server<C>>,
    session_managers: CollectionRef<SessionManager<C>>,
    membership: Membership,
}

impl<C: Catalogue> Serialize for ServicesRef<C> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Self { registries, servers, session_managers, .. } = *self;
        let membership = locked(&self.membership).for_checkpoint();
        StoredServices { registries, servers, session_managers, membership }.serialize(to)
    }
}

impl<'de, C: Catalogue> Deserialize<'de> for ServicesRef<C> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let StoredServices { registries, servers, session_managers, membership } =
            StoredServices::deserialize(from)?;
        let membership = Arc::new(Mutex::new(membership));
        Ok(Self { registries, servers, session_managers, membership })
    }
}

fn locked(membership: &Mutex<Membership>) -> MutexGuard<'_, Membership> {
    membership.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Converts an error of the grid; a timeout becomes [`RpcError::CommunicationFailed`].
pub(super) fn from_grid(error: &GridError) -> RpcError {
    match error {
        GridError::Ask(gridspan_runtime::AskError::Timeout) => RpcError::CommunicationFailed,
        error => RpcError::Grid(error.clone()),
    }
}

impl<C: Catalogue> Services<C> {
    /// Starts a registry beside `main`, without servers.
    ///
    /// # Errors
    ///
    /// [`RpcError::Grid`] if [`with_rpc`](crate::calls::with_rpc) has not prepared the job for this
    /// catalogue, or if the job is ending.
    pub async fn new(grid: &Grid) -> Result<Self, RpcError> {
        let registries = grid.create_placed::<Registry>(Placement::BySite, Ix1::range(1), |_| ());
        let registries = registries.await.map_err(|error| from_grid(&error))?;
        let registry = registries.member(Ix1(0)).reference();
        let servers = grid.create_group::<Server<C>>(Per::Pe, |_| ());
        let servers = servers.await.map_err(|error| from_grid(&error))?;
        // Session managers are inserted later. Their collection is created now, because creating it
        // later would have to wait until every PE that computes pauses.
        let beside_main = Placement::Custom(BESIDE_MAIN);
        let no_members = Vec::<Ix1>::new();
        let start = |_| SessionManagerInit::new(registry, servers.reference(), &Config::default());
        let session_managers =
            grid.create_placed::<SessionManager<C>>(beside_main, no_members, start).await;
        let session_managers = session_managers.map_err(|error| from_grid(&error))?;
        Ok(Self {
            grid: grid.clone(),
            registries,
            servers,
            session_managers,
            membership: Arc::new(Mutex::new(Membership::new(grid.layout().pe_count()))),
        })
    }

    /// A reference for [`Grid::progress`], with which a main that begins again from the checkpoint
    /// [gets the services back](Self::restored).
    pub fn reference(&self) -> ServicesRef<C> {
        ServicesRef {
            registries: self.registries.reference(),
            servers: self.servers.reference(),
            session_managers: self.session_managers.reference(),
            membership: self.membership.clone(),
        }
    }

    /// The services of a checkpoint, in a main that begins again from it, on any number of PEs.
    /// Servers move with their PEs, and calls go on. Clients and groups that had no reference end
    /// here. The reference then refers to these services.
    pub fn restored(grid: &Grid, reference: &ServicesRef<C>) -> Self {
        let [clients, groups] = locked(&reference.membership).restore();
        let services = Self {
            grid: grid.clone(),
            registries: grid.collection(reference.registries),
            servers: grid.collection(reference.servers),
            session_managers: grid.collection(reference.session_managers),
            membership: reference.membership.clone(),
        };
        for client in clients {
            services.session_manager_of(client).send(SessionMessage::Close(None));
            services.end_client(client);
        }
        let started = services.membership().ever_started();
        for group in groups {
            services.forget_group(group, started.iter().copied());
        }
        services
    }

    /// Starts a registry, and a server on every PE except that of `main` (which gets one if it is
    /// the only PE). The servers are named after their site and PE, such as `delft/pe3`.
    ///
    /// # Errors
    ///
    /// Those of [`new`](Self::new).
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

    /// The record of servers, clients and groups. Do not await while it is locked.
    pub(super) fn membership(&self) -> MutexGuard<'_, Membership> {
        locked(&self.membership)
    }

    /// Records that main goes on with this client if it begins again.
    pub(super) fn remember_client(&self, client: u32) {
        self.membership().remember_client(client);
    }

    /// The session manager of a client from before the restoration, if main has not gone on with
    /// the client yet.
    pub(super) fn claim_client(&self, client: u32) -> Option<Member<SessionManager<C>>> {
        self.membership().claim_client(client).then(|| self.session_manager_of(client))
    }

    pub(super) fn end_client(&self, client: u32) {
        self.membership().end_client(client);
    }

    fn session_manager_of(&self, client: u32) -> Member<SessionManager<C>> {
        self.session_managers.member(Ix1(client as i32))
    }

    /// Records that main goes on with this group if it begins again.
    pub(crate) fn remember_group(&self, group: u32) {
        self.membership().remember_group(group);
    }

    /// Whether this group is from before the restoration, and main goes on with it now.
    pub(crate) fn claim_group(&self, group: u32) -> bool {
        self.membership().claim_group(group)
    }

    /// The number before the first attempt of an order.
    pub(crate) fn first_attempt(&self) -> u32 {
        self.membership().first_attempt()
    }

    /// The numbers of the servers whose data is not lost: they have it, or their successors.
    pub(crate) fn servers_with_data(&self) -> Vec<u32> {
        let membership = self.membership();
        let started = membership.ever_started().into_iter();
        started.filter(|&number| membership.standing(number).is_some()).collect()
    }

    /// Starts a group and returns its number.
    pub(crate) fn next_group(&self) -> u32 {
        self.membership().begin()
    }

    /// Ends a group, and makes servers forget it and drop its data that is still on its way.
    pub(crate) fn forget_group(&self, group: u32, servers: impl IntoIterator<Item = u32>) {
        let floor = self.membership().end(group);
        for server in servers {
            let over = GroupMessage::End { group, floor };
            self.tell_server(server, ServerMessage::Group(over));
        }
    }

    /// The server that has the data of this one: itself, or its last successor; `None` if the data
    /// is lost.
    pub(crate) fn successor_of(&self, number: u32) -> Option<u32> {
        self.membership().standing(number)
    }

    /// Number of servers that have left.
    pub(crate) fn departures(&self) -> usize {
        self.membership().departures()
    }

    pub(crate) fn layout(&self) -> &Layout {
        self.grid.layout()
    }

    /// The estimates of the links between groups of nodes.
    pub(crate) async fn links(&self) -> Result<Links, RpcError> {
        self.grid.links().await.map_err(|error| from_grid(&error))
    }

    /// The job's time, in seconds; zero once it ends.
    pub(crate) async fn now_s(&self) -> f64 {
        self.grid.now().await.map_or(0.0, |now| now.since(Time::default()).as_secs_f64())
    }

    pub(crate) async fn sleep(&self, pause: Duration) {
        // The sleep ends early only if the job ends.
        let _ = self.grid.sleep(pause).await;
    }

    /// Asks the server of this number. Main asks again if it begins again from a checkpoint.
    pub(crate) async fn ask_server<T: DeserializeOwned + Send + 'static>(
        &self,
        number: u32,
        question: impl FnOnce(Reply<T>) -> ServerMessage + Send + 'static,
    ) -> Result<T, RpcError> {
        let server = self.servers.member(Ix1(number as i32));
        server.ask_repeatable(FOREVER, question).await.map_err(|error| from_grid(&error))
    }

    /// Asks the server of this number as [`ask_server`](Self::ask_server) does, but postpones
    /// checkpoints until the answer.
    pub(super) async fn ask_server_once<T: DeserializeOwned + Send + 'static>(
        &self,
        number: u32,
        question: impl FnOnce(Reply<T>) -> ServerMessage + Send + 'static,
    ) -> Result<T, RpcError> {
        let server = self.servers.member(Ix1(number as i32));
        server.ask(FOREVER, question).await.map_err(|error| from_grid(&error))
    }

    /// Sends a message to the server of this number.
    pub(crate) fn tell_server(&self, number: u32, message: ServerMessage) {
        self.servers.member(Ix1(number as i32)).send(message);
    }

    /// Starts a session manager for a client; returns the client's number and the session manager.
    pub(super) fn session_manager(&self, config: &Config) -> (u32, Member<SessionManager<C>>) {
        let number = self.membership().client();
        let registry = self.registry().reference();
        let start = SessionManagerInit::new(registry, self.servers.reference(), config);
        self.session_managers.insert_on(Ix1(number as i32), start, PeId(0));
        (number, self.session_manager_of(number))
    }

    /// Starts a server. Once this resolves, clients can call it.
    ///
    /// # Errors
    ///
    /// [`RpcError::Other`] if the job has no such PE, if the speed is not positive and finite, if a
    /// server of this name exists or is joining, or if the catalogue lacks a function that it is to
    /// offer; [`RpcError::Grid`] if the job is ending.
    pub async fn join(&self, plan: ServerPlan) -> Result<(), RpcError> {
        if !self.grid.layout().contains(plan.pe) {
            let reason = format!("there is no {} to start `{}` on", plan.pe, plan.name);
            return Err(RpcError::Other { reason });
        }
        if !(plan.speed > 0.0 && plan.speed.is_finite()) {
            let reason = format!("`{}` cannot have a speed of {}", plan.name, plan.speed);
            return Err(RpcError::Other { reason });
        }
        if !self.membership().reserve_name(&plan.name) {
            let reason = format!("there is a server `{}` already; choose another name", plan.name);
            return Err(RpcError::Other { reason });
        }
        let _reserved = ReservedName { services: self, name: plan.name.clone() };
        let functions = C::functions().signatures();
        if let Some(unknown) = plan.offers.iter().find(|name| !functions.contains_key(*name)) {
            let reason = format!(
                "`{}` cannot offer `{unknown}`, which is not in the catalogue; correct the name, or add the function",
                plan.name
            );
            return Err(RpcError::Other { reason });
        }
        let ServerPlan { name, pe, speed, is_direct, offers, room } = plan;
        let server = self.server_on(pe);
        let registry = self.registry().reference();
        let opening = Opening { name, speed, is_direct, offers, room, registry };
        let card = server.ask(FOREVER, move |reply| ServerMessage::Open(opening, reply)).await;
        let card = card.map_err(|error| from_grid(&error))?;
        let (number, registry) = (card.number, self.registry());
        // Record the name before the registry lists the server, so that the server can be named
        // even if this future is dropped before the registry answers.
        self.membership().name(number, card.name.clone());
        let joined = registry.ask(FOREVER, move |reply| RegistryMessage::Join(card, reply));
        joined.await.map_err(|error| {
            self.membership().forget_name(number);
            from_grid(&error)
        })
    }

    /// A server that has not been open yet, on this PE: first the PE's member of the group, then
    /// new members at indices whose home is this PE as well.
    fn server_on(&self, pe: PeId) -> Member<Server<C>> {
        let (number, is_new) = self.membership().start(pe, self.grid.layout().pe_count());
        let index = Ix1(number as i32);
        if is_new {
            self.servers.insert_on(index, (), pe);
        }
        self.servers.member(index)
    }

    /// The servers that take calls.
    ///
    /// # Errors
    ///
    /// [`RpcError::Grid`] if the job is ending.
    pub async fn list(&self) -> Result<Vec<ServerCard>, RpcError> {
        let listed = self.registry().ask_repeatable(FOREVER, RegistryMessage::List).await;
        let mut cards: Vec<ServerCard> = listed.map_err(|error| from_grid(&error))?;
        // A server whose site has gone may not have reported the present one yet.
        let sites = self.grid.layout().site_count();
        cards.iter_mut().filter(|card| card.site >= sites).for_each(|card| card.site = 0);
        Ok(cards)
    }

    /// The registry's estimate of the time of all single calls that servers still have to do, in
    /// seconds.
    ///
    /// # Errors
    ///
    /// [`RpcError::Grid`] if the job is ending.
    pub async fn load_s(&self) -> Result<f64, RpcError> {
        let load_s = self.registry().ask(FOREVER, RegistryMessage::Load).await;
        load_s.map_err(|error| from_grid(&error))
    }

    /// Restarts the registry without its data: servers register again, and clients' questions wait
    /// until they have, for at most ten seconds. A server in a longer call is unavailable until the
    /// call has ended; groups wait for it if it has their data. The registry learns the times of
    /// functions and the load of servers again.
    ///
    /// # Errors
    ///
    /// [`RpcError::Grid`] if the job is ending.
    pub async fn restart_registry(&self) -> Result<(), RpcError> {
        let standing = self.membership().standing_servers();
        let (awaited, registry) = (standing.clone(), self.registry());
        let restarted = registry.ask(FOREVER, |reply| RegistryMessage::Restart(awaited, reply));
        restarted.await.map_err(|error| from_grid(&error))?;
        let registry = registry.reference();
        for server in standing.into_keys() {
            self.tell_server(server, ServerMessage::Register(registry));
        }
        Ok(())
    }

    /// Number of bytes that all servers, including those that have left, keep for groups and calls.
    ///
    /// # Errors
    ///
    /// [`RpcError::Grid`] if the job is ending.
    pub async fn kept_bytes(&self) -> Result<u64, RpcError> {
        let servers = self.membership().ever_started();
        let mut bytes = 0;
        for number in servers {
            let question = |reply| ServerMessage::Group(GroupMessage::Kept(reply));
            bytes += self.ask_server(number, question).await?;
        }
        Ok(bytes)
    }
}

/// Reserves the name of a server that is joining until this value is dropped.
struct ReservedName<'a, C: Catalogue> {
    services: &'a Services<C>,
    name: String,
}

impl<C: Catalogue> Drop for ReservedName<'_, C> {
    fn drop(&mut self) {
        self.services.membership().release_name(&self.name);
    }
}
