//! Servers that are stuck and then lost while main waits for their answers: groups of calls go on
//! without them.

use crate::checkpoints::{FIRST, every_point, halted, restart};
use futures_util::future::join;
use gridspan_rpc::calls::{
    Catalogue, Config, Function, Functions, GridRpc, RpcError, ServerPlan, Services, ServicesRef,
    Work, with_rpc,
};
use gridspan_rpc::group::{CallGroup, GroupRef, Mapper, Room};
use gridspan_runtime::{Grid, Job, JobError, PeId, Time};
use gridspan_sim::{SimOptions, Simulation};
use gridspan_topology::GridSpec;
use gridspan_workflow::heuristics::HeftC;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Adds a number to a list.
const GROW: Function<(Vec<u64>,), (Vec<u64>,)> = Function::new("grow", |(mut numbers,), work| {
    work.emulate(Duration::from_millis(60));
    numbers.push(numbers.len() as u64);
    Ok((numbers,))
});
const SUM: Function<(Vec<u64>,), (u64,)> =
    Function::new("sum", |(numbers,), _| Ok((numbers.iter().sum(),)));
/// Keeps a server busy with a single call.
const BUSY: Function<u64, ()> = Function::new("busy", |seconds, work: &mut Work| {
    work.emulate(Duration::from_secs(seconds));
    Ok(())
});

struct Growing;

impl Catalogue for Growing {
    fn functions() -> Functions {
        Functions::new().with_parts(&GROW).with_parts(&SUM).with(&BUSY)
    }
}

/// Time for which a server is stuck: longer than anything else takes.
const STUCK_S: u64 = 60;
/// Number of calls in the chain.
const STEPS: u64 = 24;

/// Makes a server busy, and waits until it is.
async fn make_stuck(grid: &Grid, rpc: &GridRpc<Growing>, server: &str) -> Result<(), RpcError> {
    let busy = rpc.handle_on(&BUSY, server).await?;
    rpc.call_async(&busy, &STUCK_S).await?;
    grid.sleep(Duration::from_millis(100)).await?;
    Ok(())
}

async fn seconds_since(grid: &Grid, begin: Time) -> Result<f64, RpcError> {
    Ok(grid.now().await?.since(begin).as_secs_f64())
}

/// Loses a server after a second.
async fn lose_soon(
    grid: &Grid,
    services: &Services<Growing>,
    server: &str,
) -> Result<(), RpcError> {
    grid.sleep(Duration::from_secs(1)).await?;
    services.lose(server).await
}

/// The time at which a server is stuck in the resumed group.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Stuck {
    /// Main asks the servers which data they have.
    AtTheStart,
    /// Main notifies the servers that a call makes dropped data again.
    WithinTheGroup,
}

/// The sum, and the seconds that the resumed group took.
type Notes = Arc<Mutex<Option<(u64, f64)>>>;

/// Makes a checkpoint in the middle of a chain of calls, and goes on from there.
async fn grow(grid: &Grid, notes: &Notes, stuck: Stuck, room: &Room) -> Result<(), RpcError> {
    let (services, before) = match grid.restored::<(ServicesRef<Growing>, GroupRef)>().await? {
        Some((services, group)) => (Services::restored(grid, &services), Some(group)),
        None => {
            let services: Services<Growing> = Services::new(grid).await?;
            for pe in grid.layout().pes() {
                let plan = ServerPlan::new(format!("on {pe}"), pe).with_room(room.clone());
                services.join(plan).await?;
            }
            (services, None)
        }
    };
    let is_again = before.is_some();
    let mut rpc = GridRpc::new(&services);
    rpc.initialize(&Config::default())?;
    let calls = async |group: &CallGroup<'_, Services<Growing>>| {
        let mut numbers = group.value(&vec![1_u64])?;
        for step in 1..=STEPS {
            (numbers,) = group.call(&GROW, (numbers,));
            if step == STEPS / 2 {
                group.run().await?;
                if !is_again {
                    grid.progress(&(services.reference(), group.reference())).await?;
                    grid.sleep(Duration::from_secs(60)).await?;
                } else if stuck == Stuck::WithinTheGroup {
                    make_stuck(grid, &rpc, "on pe3").await?;
                }
            }
        }
        let (sum,) = group.call(&SUM, (numbers,));
        group.get(&sum).await
    };
    let mapper = Mapper::new(&services);
    let Some(before) = before else {
        return mapper.map(&HeftC::default(), calls).await.map(|_| ());
    };
    if stuck == Stuck::AtTheStart {
        make_stuck(grid, &rpc, "on pe3").await?;
    }
    let begin = grid.now().await?;
    let resumed = async {
        let sum = mapper.resume(&before, &HeftC::default(), calls).await?;
        let took_s = seconds_since(grid, begin).await?;
        *notes.lock().unwrap() = Some((sum, took_s));
        Ok::<_, RpcError>(())
    };
    let (resumed, lost) = join(resumed, lose_soon(grid, &services, "on pe3")).await;
    resumed.and(lost)
}

#[test]
fn a_group_is_resumed_without_a_server_that_is_stuck_and_lost() {
    // Without memory for data, the whole chain is made again.
    let nothing = Room::default().with_memory_bytes(0);
    for (stuck, room) in [
        (Stuck::AtTheStart, Room::default()),
        (Stuck::AtTheStart, nothing.clone()),
        (Stuck::WithinTheGroup, nothing),
    ] {
        let notes = Notes::default();
        let job = || {
            let (notes, room) = (notes.clone(), room.clone());
            let main = async move |grid: Grid| {
                grow(&grid, &notes, stuck, &room).await.map_err(JobError::from)
            };
            with_rpc::<Growing>(Job::new("growing"))
                .restartable_main(main)
                .checkpoints(every_point())
        };
        let (image, _) = halted(job(), 1, Time(5_000_000_000));
        restart(job(), 1, FIRST, image);

        let (sum, took_s) = notes.lock().unwrap().take().unwrap();
        assert_eq!(sum, 1 + (1..=STEPS).sum::<u64>(), "{stuck:?}");
        assert!((1.0..10.0).contains(&took_s), "{stuck:?}: it is lost after 1 s: {took_s} s");
    }
}

/// Runs main on four PEs of one node, with the servers `one` and `other` on the last two.
fn run(main: impl AsyncFnOnce(Grid, Services<Growing>) -> Result<(), RpcError> + Send + 'static) {
    run_at("1x1x4", main);
}

/// Runs main on the four PEs of a grid, with the servers `one` and `other` on the last two.
fn run_at(
    place: &str,
    main: impl AsyncFnOnce(Grid, Services<Growing>) -> Result<(), RpcError> + Send + 'static,
) {
    let job = with_rpc::<Growing>(Job::new("lost")).main(async move |grid: Grid| {
        let services = Services::new(&grid).await?;
        for (name, pe) in [("one", 2), ("other", 3)] {
            services.join(ServerPlan::new(name, PeId(pe))).await?;
        }
        main(grid, services).await.map_err(JobError::from)
    });
    let spec = GridSpec::from_emulate(place).unwrap();
    let report = Simulation::new(job, spec, SimOptions::default()).unwrap().run();
    assert_eq!(report.outcome, Ok(()));
}

#[test]
fn a_result_on_a_server_that_is_stuck_and_lost_is_reported_as_lost() {
    run(async |grid, services| {
        let mut rpc = GridRpc::new(&services);
        rpc.initialize(&Config::default())?;
        // From now on, all calls go to the server `other`.
        services.lose("one").await?;
        let mapper = Mapper::new(&services);
        let heuristic = HeftC::default();
        let group = mapper.map(&heuristic, async |group| {
            let (numbers,) = group.call(&GROW, (group.value(&vec![1_u64])?,));
            group.run().await?;
            make_stuck(&grid, &rpc, "other").await?;
            let begin = grid.now().await?;
            let fetched = async {
                let fetched = group.get(&numbers).await;
                Ok::<_, RpcError>((fetched, seconds_since(&grid, begin).await?))
            };
            let (fetched, lost) = join(fetched, lose_soon(&grid, &services, "other")).await;
            lost?;
            fetched
        });
        let (fetched, took_s) = group.await?;
        let error = fetched.unwrap_err().to_string();
        assert!(error.contains("its servers have left"), "{error}");
        assert!((1.0..2.0).contains(&took_s), "{took_s} s");
        Ok(())
    });
}

#[test]
fn a_window_goes_on_elsewhere_when_its_server_is_stuck_and_lost() {
    run(async |grid, services| {
        let mut rpc = GridRpc::new(&services);
        rpc.initialize(&Config::default())?;
        // Both are stuck, so that the call waits at one of them.
        for server in ["one", "other"] {
            make_stuck(&grid, &rpc, server).await?;
        }
        services.join(ServerPlan::new("slow", PeId(1)).with_speed(0.01)).await?;
        let mapper = Mapper::new(&services);
        let heuristic = HeftC::default();
        let begin = grid.now().await?;
        let going = async {
            let group = mapper.map(&heuristic, async |group| {
                let (numbers,) = group.call(&GROW, (group.value(&vec![1_u64])?,));
                group.get(&numbers).await
            });
            Ok::<_, RpcError>((group.await?, seconds_since(&grid, begin).await?))
        };
        let losing = async {
            let both =
                join(lose_soon(&grid, &services, "one"), lose_soon(&grid, &services, "other"));
            let (one, other) = both.await;
            one.and(other)
        };
        let (gone, lost) = join(going, losing).await;
        lost?;
        let (numbers, took_s) = gone?;
        assert_eq!(numbers, [1, 1]);
        assert!((7.0..7.5).contains(&took_s), "1 s, and 6 s at the slow one: {took_s} s");
        Ok(())
    });
}

#[test]
fn data_that_a_stuck_and_lost_server_had_to_pass_on_comes_another_way() {
    // The client is at one site, and both servers are at the other: the value goes to `one`, which
    // passes it on.
    run_at("2x2,wan=20ms", async |grid, services| {
        let mut rpc = GridRpc::new(&services);
        rpc.initialize(&Config::default())?;
        make_stuck(&grid, &rpc, "one").await?;
        let mapper = Mapper::new(&services);
        let heuristic = HeftC::default();
        let begin = grid.now().await?;
        let going = async {
            let group = mapper.map(&heuristic, async |group| {
                let value = group.value(&vec![1_u64])?;
                let (first,) = group.call(&GROW, (&value,));
                let (second,) = group.call(&GROW, (&value,));
                Ok([group.get(&first).await?, group.get(&second).await?])
            });
            Ok::<_, RpcError>((group.await?, seconds_since(&grid, begin).await?))
        };
        let (gone, lost) = join(going, lose_soon(&grid, &services, "one")).await;
        lost?;
        let (both, took_s) = gone?;
        assert_eq!(both, [vec![1_u64, 1], vec![1, 1]]);
        assert!((1.0..2.0).contains(&took_s), "it is lost after 1 s: {took_s} s");
        Ok(())
    });
}
