//! A server that keeps more data of groups than its memory may hold.

use super::{ADD, COUNT, FILL, Grid, Process, SMALL_BYTES, SUM, within_limit};
use gridspan_workflow::heuristics::HeftC;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// Returns the total size of the unnamed files in a folder that a process has open, in bytes;
/// `None` if there is none.
fn unnamed_bytes(process: &Process, folder: &Path) -> Option<u64> {
    let open = fs::read_dir(format!("/proc/{}/fd", process.0.id())).unwrap();
    let is_there = |path: &Path| {
        let file = fs::read_link(path).unwrap_or_default();
        file.starts_with(folder) && !file.exists()
    };
    let open = open.map(|entry| entry.unwrap().path()).filter(|path| is_there(path));
    open.map(|path| fs::metadata(path).map_or(0, |file| file.len())).reduce(|one, all| one + all)
}

#[tokio::test]
async fn data_beyond_the_memory_of_a_server_goes_to_a_file_that_is_emptied_after_the_group() {
    let mut grid = Grid::new(&["small"]);
    let remote = grid.remote();
    let folder = grid.folder.path().to_owned();
    within_limit(async {
        let heuristic = HeftC::default();
        let server = &grid.servers[0];
        assert_eq!(unnamed_bytes(server, &folder), None);
        let group = remote.map(&heuristic, async |group| {
            let count = group.value(&COUNT)?;
            let mut parts: Vec<_> = (0..40).map(|_| group.call(&FILL, (&count,)).0).collect();
            group.run().await?;
            // A number takes one to three bytes, so that all take more than ten times the memory.
            let bytes = unnamed_bytes(server, &folder).unwrap_or(0);
            assert!(bytes > 10 * SMALL_BYTES, "{bytes} bytes are on disk");
            while let Some(other) = parts.pop() {
                let Some(one) = parts.pop() else {
                    let (sum,) = group.call(&SUM, (&other,));
                    return group.get(&sum).await;
                };
                parts.insert(0, group.call(&ADD, (one, other)).0);
            }
            Ok(0)
        });
        assert_eq!(group.await, Ok(40 * (COUNT * (COUNT - 1) / 2)));
        while unnamed_bytes(server, &folder) != Some(0) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
    grid.servers.clear();
    let left = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name());
    let left: Vec<_> = left.collect();
    assert!(left.iter().all(|name| name.to_string_lossy().starts_with("grid.")), "{left:?}");
}
