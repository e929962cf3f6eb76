//! A process that serves a registry: its own, as a daemon, or that of a daemon, as a member.

use crate::server::daemon::{DaemonOptions, OpenedDaemon, daemon};
use crate::server::executor::Executor;
use crate::server::member::join;
use crate::server::task_server::LocalServers;
use crate::wire::token::{RemoteError, Token};
use gridspan_rpc::calls::{
    Catalogue, Config, GridRpc, RpcError, ServerCard, ServerPlan, Services, with_rpc,
};
use gridspan_rpc::group::Room;
use gridspan_runtime::{Grid, Job, JobError, driver};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;

/// Timeout of calls to the process's own servers: practically none, because the registry limits the
/// time of each call.
const PATIENCE: Duration = Duration::from_secs(365 * 86_400);

/// Role of a process at a registry.
#[derive(Clone, Debug)]
pub enum Role {
    /// Opens a registry, and serves at it.
    Daemon(DaemonOptions),
    /// Opens a registry for servers of other processes.
    Registry(DaemonOptions),
    /// Serves for the registry that a token names.
    Member(Token),
}

/// Options of a process that serves.
#[derive(Clone, Debug)]
pub struct ServeOptions {
    /// Name of the server.
    pub name: String,
    /// Number of PEs on which it executes calls, one at a time on each.
    pub pes: u32,
    /// Speed of each PE: a call takes its time at speed 1, divided by this speed.
    pub speed: f64,
    /// Room for the data of groups that others execute on it, in memory and on disk.
    pub room: Room,
    /// Role of the process.
    pub role: Role,
}

/// Serves the functions of a catalogue until `end` receives a message, or its sender is dropped.
/// Calls `on_ready` with the address of the registry: once it is open or, for a member, each time
/// the process has joined it.
///
/// # Errors
///
/// [`RemoteError::Listen`] if the system does not give the process its threads, an endpoint at the
/// address, or random numbers; [`RemoteError::Servers`] if the job of the process's own servers
/// fails; [`RemoteError::Identity`] if certificates cannot be made or used.
///
/// For a registry, [`RemoteError::Token`] if the file of the token or of its key cannot be read or
/// written; [`RemoteError::Nowhere`] if it would listen at all addresses and advertise none;
/// [`RemoteError::Elsewhere`] if an earlier registry with the token had another address. For a
/// server, [`RemoteError::Unwelcome`] if the registry refuses it, such as for its name or speed.
/// For a member that cannot join the first time, [`RemoteError::Away`], [`RemoteError::Stale`] or
/// [`RemoteError::Malformed`].
pub fn serve<C: Catalogue>(
    options: ServeOptions,
    end: oneshot::Receiver<()>,
    on_ready: impl Fn(SocketAddr) + Send + Sync + 'static,
) -> Result<(), RemoteError> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(RemoteError::Listen)?;
    let ended = async { drop(end.await) };
    if let Role::Registry(registry) = options.role {
        return runtime.block_on(serve_registry::<C>(registry, None, ended, on_ready));
    }
    // Carries the outcome of serving out of the job.
    let outcome = Arc::new(Mutex::new(Ok(())));
    let (of_job, pes) = (outcome.clone(), options.pes);
    let job = with_rpc::<C>(Job::new("serve")).main(async move |grid: Grid| {
        let own = start::<C>(&grid, &options).await.map_err(JobError::failed)?;
        let (resolve, over) = oneshot::channel();
        runtime.spawn(async move {
            let served = match options.role {
                Role::Member(token) => {
                    let address = token.address;
                    join(token, own, ended, || on_ready(address)).await
                }
                // `Role::Registry` does not come here: a registry without servers has no job.
                Role::Daemon(registry) | Role::Registry(registry) => {
                    serve_registry(registry, Some(own), ended, on_ready).await
                }
            };
            *of_job.lock().unwrap_or_else(PoisonError::into_inner) = served;
            // The job may have ended for another reason.
            let _ = resolve.send(());
        });
        let served = over.await;
        runtime.shutdown_background();
        served.map_err(|_| JobError::failed("the task that serves panicked"))
    });
    let ran = driver::embedded::run(job, pes.saturating_add(1));
    ran.map_err(|error| RemoteError::Servers(error.to_string()))?;
    std::mem::replace(&mut *outcome.lock().unwrap_or_else(PoisonError::into_inner), Ok(()))
}

/// Opens a registry and serves at it, with the servers of this process if it has any, until `end`
/// resolves. Calls `on_ready` with the address once the registry is open.
async fn serve_registry<C: Catalogue>(
    options: DaemonOptions,
    own: Option<LocalServers<C>>,
    end: impl Future<Output = ()>,
    on_ready: impl Fn(SocketAddr),
) -> Result<(), RemoteError> {
    let opened = OpenedDaemon::open(options)?;
    on_ready(opened.address()?);
    daemon(opened, own, end).await
}

/// Starts servers on all PEs but the first, and returns them with their client.
async fn start<C: Catalogue>(
    grid: &Grid,
    options: &ServeOptions,
) -> Result<LocalServers<C>, RpcError> {
    let services: Services<C> = Services::new(grid).await?;
    for pe in grid.layout().pes().skip(1) {
        // Errors contain this name, the first part of which identifies this process to readers.
        services.join(ServerPlan::new(format!("{}/{pe}", options.name), pe)).await?;
    }
    let mut rpc = GridRpc::new(&services);
    rpc.initialize(&Config::default().with_timeout(PATIENCE))?;
    let mut card = ServerCard::new(options.name.clone(), C::functions().signatures());
    card.speed = options.speed * f64::from(options.pes);
    card.is_direct = false;
    let executor = Arc::new(Executor::new(rpc, options.pes, options.speed));
    Ok(LocalServers { card, executor, pes: options.pes, room: options.room.clone() })
}
