//! A process that serves for a registry: as a daemon of its own, or as a member of another's.

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

/// How long its own servers have to answer: the registry says how long each caller waits.
const PATIENCE: Duration = Duration::from_secs(365 * 86_400);

/// What a process does at a registry.
#[derive(Clone, Debug)]
pub enum Role {
    /// Opens one, and serves behind it.
    Daemon(DaemonOptions),
    /// Opens one for servers of other processes.
    Registry(DaemonOptions),
    /// Serves for the registry that a token names.
    Member(Token),
}

/// A process that serves.
#[derive(Clone, Debug)]
pub struct ServeOptions {
    /// What it is called.
    pub name: String,
    /// On how many PEs it executes calls, each one at a time.
    pub pes: u32,
    /// How fast each is: a call takes its work divided by it.
    pub speed: f64,
    /// How much it keeps of groups that others execute on it, in memory and on disk.
    pub room: Room,
    /// What it does.
    pub role: Role,
}

/// Serves the functions of a catalogue until `end` says something, or is dropped. `told` hears
/// where the registry is once it is open, and each time a member has joined.
pub fn serve<C: Catalogue>(
    options: ServeOptions,
    end: oneshot::Receiver<()>,
    told: impl Fn(SocketAddr) + Send + Sync + 'static,
) -> Result<(), RemoteError> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(RemoteError::Listen)?;
    let ended = async { drop(end.await) };
    if let Role::Registry(registry) = options.role {
        return runtime.block_on(async {
            let plan = OpenedDaemon::open(registry)?;
            told(plan.address()?);
            daemon::<C>(plan, None, ended).await
        });
    }
    // What the registry comes to leaves the job by way of this.
    let outcome = Arc::new(Mutex::new(Ok(())));
    let (of_job, pes) = (outcome.clone(), options.pes);
    let job = with_rpc::<C>(Job::new("serve")).main(async move |grid: Grid| {
        let own = start::<C>(&grid, &options)
            .await
            .map_err(|error| JobError::Failed(error.to_string()))?;
        let (resolve, over) = oneshot::channel();
        runtime.spawn(async move {
            let served = match options.role {
                Role::Member(token) => {
                    let address = token.address;
                    join(token, own, ended, || told(address)).await
                }
                Role::Daemon(registry) | Role::Registry(registry) => {
                    match OpenedDaemon::open(registry) {
                        Ok(plan) => {
                            plan.address().into_iter().for_each(&told);
                            daemon(plan, Some(own), ended).await
                        }
                        Err(error) => Err(error),
                    }
                }
            };
            *of_job.lock().unwrap_or_else(PoisonError::into_inner) = served;
            // The job may have ended for another reason.
            let _ = resolve.send(());
        });
        let _ = over.await;
        runtime.shutdown_background();
        Ok(())
    });
    let ran = driver::embedded::run(job, pes.saturating_add(1));
    ran.map_err(|error| RemoteError::Servers(error.to_string()))?;
    std::mem::replace(&mut *outcome.lock().unwrap_or_else(PoisonError::into_inner), Ok(()))
}

/// Servers on all PEs but the first, and a client of them.
async fn start<C: Catalogue>(
    grid: &Grid,
    options: &ServeOptions,
) -> Result<LocalServers<C>, RpcError> {
    let services: Services<C> = Services::new(grid).await?;
    for pe in grid.layout().pes().skip(1) {
        // Errors name it, and whoever reads them knows this process by the first part.
        services.join(ServerPlan::new(format!("{}/{pe}", options.name), pe)).await?;
    }
    let mut rpc = GridRpc::new(&services);
    rpc.initialize(&Config { timeout: PATIENCE, ..Config::default() })?;
    let card = ServerCard {
        number: 0,
        name: options.name.clone(),
        site: 0,
        speed: options.speed * f64::from(options.pes),
        is_direct: false,
        functions: C::functions().signatures(),
    };
    let executor = Arc::new(Executor::new(rpc, options.pes, options.speed));
    Ok(LocalServers { card, executor, pes: options.pes, room: options.room.clone() })
}
