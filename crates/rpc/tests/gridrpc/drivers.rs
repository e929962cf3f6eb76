//! The same calls on threads, and over a wide area.

use crate::fixture::{ADD, FAIL, Sums, code, job, servers};
use gridspan_rpc::calls::{Config, GridRpc, RpcError, Services};
use gridspan_runtime::{Grid, driver};
use gridspan_sim::{SimOptions, Simulation};
use gridspan_topology::GridSpec;

async fn calls(grid: Grid) -> Result<(), RpcError> {
    let mut rpc = GridRpc::new(&servers(&grid).await?);
    rpc.initialize(&Config::default())?;
    let handle = rpc.handle(&ADD).await?;
    let mut sessions = Vec::new();
    for number in 0..200 {
        sessions.push(rpc.call_async(&handle, &(number, 1)).await?);
    }
    for (number, session) in (0..).zip(&sessions) {
        assert_eq!(rpc.wait(session).await?, number + 1);
    }
    assert_eq!(code(rpc.call(&rpc.handle(&FAIL).await?, &()).await), 10);
    rpc.finalize().await
}

#[test]
fn calls_run_on_threads() {
    assert_eq!(driver::embedded::run(job(calls), 3), Ok(()));
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let run = || {
        let spec = GridSpec::from_emulate("3x1,wan=10ms,jitter=3ms,loss=1%").unwrap();
        let report = Simulation::new(job(calls), spec, SimOptions::with_seed(3)).unwrap().run();
        assert_eq!(report.outcome, Ok(()));
        report.log_hash
    };
    assert_eq!(run(), run());
}

#[test]
fn a_call_over_a_wide_area_takes_one_round_trip() {
    let main = async |grid: Grid| {
        let services: Services<Sums> = Services::on_all_pes(&grid).await?;
        let mut rpc = GridRpc::new(&services);
        rpc.initialize(&Config::default())?;
        let handle = rpc.handle(&ADD).await?;
        let begin = grid.now().await.unwrap();
        rpc.call(&handle, &(1, 2)).await?;
        let took_s = grid.now().await.unwrap().since(begin).as_secs_f64();
        assert!((0.064..0.0641).contains(&took_s), "{took_s}");
        Ok(())
    };
    let spec = GridSpec::from_emulate("2x1,wan=32ms").unwrap();
    let report = Simulation::new(job(main), spec, SimOptions::default()).unwrap().run();
    assert_eq!(report.outcome, Ok(()));
}
