//! `gridctl run --metrics`: the counters of a running job for Prometheus.
//!
//! | module | purpose |
//! | --- | --- |
//! | `address` | where metrics are served |
//! | `listener`, `peer` | the socket, and the user of a client |
//! | `server` | requests by HTTP, within limits |
//! | `scraper` | asks the launcher for a sample, as `gridctl top` does |
//! | `families`, `exposition` | the metrics, and their text format |
//!
//! The server has its own thread, which asks the launcher over the socket of the job (see
//! `request`), so that a slow client does not delay the job. The job takes samples only during the
//! lease of a scrape, which lasts a few seconds.

mod address;
mod exposition;
mod families;
mod listener;
mod peer;
mod scraper;
mod server;

pub(crate) use address::MetricsAddress;

use crate::error::CliError;
use listener::Listener;
use scraper::Scraper;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use tokio::runtime::{Builder, Runtime};

/// Metrics that are served until this process ends. Dropping this removes the file of the socket.
pub(crate) struct MetricsServer {
    place: String,
    socket: Option<PathBuf>,
}

/// Checks that metrics could be served at an address.
pub(crate) fn check(address: &MetricsAddress) -> Result<(), CliError> {
    open(address).map(drop)
}

/// Serves the metrics of the job of this name, once it runs.
pub(crate) fn serve(address: &MetricsAddress, job: &str) -> Result<MetricsServer, CliError> {
    let (listener, runtime, server) = open(address)?;
    let scraper = Arc::new(Scraper::new(job));
    thread::Builder::new()
        .name("metrics".to_owned())
        .spawn(move || runtime.block_on(server::serve(listener, scraper)))
        .map_err(CliError::system("start a thread"))?;
    Ok(server)
}

fn open(address: &MetricsAddress) -> Result<(Listener, Runtime, MetricsServer), CliError> {
    let failed = |error: io::Error| CliError::Metrics { address: address.to_string(), error };
    let runtime = Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let context = runtime.enter();
    let listener = Listener::open(address).map_err(failed)?;
    drop(context);
    let place = listener.place(address).map_err(failed)?;
    let socket = match address {
        MetricsAddress::Tcp(_) => None,
        MetricsAddress::Unix(path) => Some(path.clone()),
    };
    Ok((listener, runtime, MetricsServer { place, socket }))
}

impl MetricsServer {
    /// Where a client finds the metrics.
    pub(crate) fn place(&self) -> &str {
        &self.place
    }
}

impl Drop for MetricsServer {
    fn drop(&mut self) {
        if let Some(path) = &self.socket {
            // Another process may have removed it.
            let _ = fs::remove_file(path);
        }
    }
}
