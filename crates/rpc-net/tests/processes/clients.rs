//! Clients that declare a function with other types than its servers, and clients that start before
//! the servers have joined a restarted registry.

use super::{Grid, LARGEST, Process, SUM_OF_ALL, sum, within_limit};
use gridspan_rpc::calls::Function;
use gridspan_runtime::Numbers;
use gridspan_workflow::heuristics::HeftC;

/// Declares `largest` for integers, although the servers define it for floating-point numbers.
const OF_INTEGERS: Function<(Numbers<u64>,), (f64,)> =
    Function::new("largest", |_, _| Err("it is not executed here".into()));

#[tokio::test]
async fn numbers_of_another_type_are_refused() {
    let grid = Grid::new(&["one"]);
    let remote = grid.remote();
    let refused = within_limit(remote.mapper().map(&HeftC::default(), async |group| {
        let right = group.value(&Numbers::from(vec![1.0, 3.0, 2.0]))?;
        let (largest,) = group.call(&LARGEST, (&right,));
        assert_eq!(group.get(&largest).await?, 3.0);
        let wrong = group.value(&Numbers::from(vec![1_u64, 3, 2]))?;
        let (largest,) = group.call(&OF_INTEGERS, (&wrong,));
        group.get(&largest).await
    }))
    .await;

    let error = refused.unwrap_err().to_string();
    for part in ["`largest`", "`one`", "(Numbers<f64>) -> (f64)", "(Numbers<u64>) -> (f64)"] {
        assert!(error.contains(part), "{part}: {error}");
    }
}

#[tokio::test]
async fn a_new_client_waits_for_the_servers_of_a_registry_that_was_restarted() {
    let mut grid = Grid::new(&["one"]);
    grid.registry = None;
    grid.registry = Some(Process::start("registry", &grid.token()));

    let (sum, _) = within_limit(sum(&grid.remote())).await.unwrap();

    assert_eq!(sum, SUM_OF_ALL);
}
