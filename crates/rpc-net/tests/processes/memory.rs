//! Memory of a registry for open and for closed connections.

use super::{Grid, Process, within_limit};
use std::fs;

const CONNECTIONS: u64 = 200;
/// Number of connections before memory is measured: the first ones allocate memory that others
/// reuse.
const WARM_UP: u64 = 40;
/// Largest memory of a connection without requests, in bytes: twice the measured size.
const CONNECTION_BYTES_MAX: u64 = 72 << 10;

/// Returns the resident memory of a process, in bytes.
fn resident(process: &Process) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", process.0.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_connections_take_little_memory_which_is_reused() {
    let grid = Grid::new(&[]);
    let registry = grid.registry.as_ref().unwrap();
    within_limit(async {
        let client = grid.client();
        let mut kept = Vec::new();
        for _ in 0..WARM_UP {
            kept.push(client.connect_to(None).await.unwrap());
        }
        let before = resident(registry);
        let mut after = Vec::new();
        for _ in 0..2 {
            let mut all = Vec::new();
            for _ in 0..CONNECTIONS {
                all.push(client.connect_to(None).await.unwrap());
            }
            after.push(resident(registry).saturating_sub(before) / CONNECTIONS);
            all.into_iter().for_each(|connection| connection.close(0_u32.into(), b""));
        }
        println!("bytes for each connection: {after:?}");
        assert!(after.iter().all(|&bytes| bytes < CONNECTION_BYTES_MAX), "{after:?}");
    })
    .await;
}
