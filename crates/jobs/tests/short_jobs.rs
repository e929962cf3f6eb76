//! Jobs that last for less than a wide-area latency do not wait for far sites.

use gridspan_jobs::fib::Fib;
use gridspan_jobs::queens::Board;
use gridspan_kernels::queens::solutions;
use gridspan_runtime::Job;
use gridspan_sim::{SimOptions, Simulation};
use gridspan_topology::GridSpec;
use std::sync::mpsc;
use std::time::Duration;

/// Returns the virtual time of Fibonacci number 24 on a grid.
fn fib(grid: &str) -> Duration {
    let (tell, told) = mpsc::channel();
    let job = Job::new("fib").tasks::<Fib>().main(async move |grid| {
        let pool = grid.task_pool().await?;
        let begin = grid.now().await?;
        assert_eq!(pool.run(Fib(24)).await?, 46_368);
        tell.send(grid.now().await?.since(begin)).map_err(|_| "nothing listens".into())
    });
    run(job, grid);
    told.recv().expect("the job has sent its time")
}

/// Returns the virtual time of ten queens on a grid.
fn queens(grid: &str) -> Duration {
    let (tell, told) = mpsc::channel();
    let job = Job::new("queens").search::<Board>().main(async move |grid| {
        let pool = grid.search_pool().await?;
        let begin = grid.now().await?;
        assert_eq!(Some(pool.run(Board::empty(10, 5)).await?.solutions()), solutions(10));
        tell.send(grid.now().await?.since(begin)).map_err(|_| "nothing listens".into())
    });
    run(job, grid);
    told.recv().expect("the job has sent its time")
}

fn run(job: Job, grid: &str) {
    let spec = GridSpec::from_emulate(grid).expect("the grid is valid");
    let simulation = Simulation::new(job, spec, SimOptions::default());
    simulation.expect("the job can run").run().outcome.expect("the job succeeds");
}

#[test]
fn a_short_job_takes_no_longer_on_many_sites_than_on_one() {
    for (sites, nodes, wan_ms) in [(4, 16, 20), (2, 8, 50), (2, 1, 5), (8, 4, 100)] {
        for time in [fib, queens] {
            let alone = time(&format!("1x{nodes},lan=50us"));
            let wide = time(&format!("{sites}x{nodes},wan={wan_ms}ms,lan=50us"));
            let most = alone.mul_f64(1.05) + Duration::from_millis(1);
            assert!(wide <= most, "{sites}x{nodes}, {wan_ms} ms: {wide:?}, alone {alone:?}");
        }
    }
}
