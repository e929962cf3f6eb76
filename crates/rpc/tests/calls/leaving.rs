//! Failed attempts leave no data on servers, and the data of servers that leave is handed over.

use gridspan_rpc::calls::{
    Catalogue, Config, Function, Functions, GridRpc, RpcError, ServerPlan, Services, Work, with_rpc,
};
use gridspan_rpc::group::{CallGroup, Lazy, Mapper, Room};
use gridspan_runtime::{Grid, Job, JobError, Numbers, PeId};
use gridspan_sim::{SimOptions, Simulation};
use gridspan_topology::GridSpec;
use gridspan_workflow::heuristics::{HeftC, MinCompletionTime};
use gridspan_workflow::stragglers::StragglerPolicy;
use gridspan_workflow::{GraphBuilder, ServerId};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::pin::{Pin, pin};
use std::sync::Mutex;
use std::task::Poll;
use std::time::Duration;

type Bytes = Numbers<u8>;

/// Takes a second of computing.
const STEP: Function<(Bytes,), (Bytes,)> =
    Function::new("step", |(bytes,): (Bytes,), work: &mut Work| {
        work.emulate(Duration::from_secs(1));
        Ok((bytes.iter().map(|byte| byte.wrapping_add(1)).collect::<Vec<u8>>().into(),))
    })
    .computes("1")
    .gives(&["in0"]);
/// Makes a vector of a given length, in no time.
const MAKE: Function<(u64, u8), (Bytes,)> =
    Function::new("make", |(bytes, value), _| Ok((vec![value; bytes as usize].into(),)));
/// Takes ten seconds in the first call with each vector whose first byte is a multiple of 50, and
/// one second in all other calls.
const MOODY: Function<(Bytes,), (Bytes,)> =
    Function::new("moody", |(bytes,): (Bytes,), work: &mut Work| {
        let is_new = bytes[0].is_multiple_of(50) && MOODS.lock().unwrap().insert(bytes.to_vec());
        work.emulate(Duration::from_secs(if is_new { 10 } else { 1 }));
        Ok((bytes,))
    })
    .computes("1")
    .gives(&["in0"]);
static MOODS: Mutex<BTreeSet<Vec<u8>>> = Mutex::new(BTreeSet::new());

/// Returns the number of bytes, and the first byte.
const LOOK: Function<(Bytes,), ((u64, u8),)> = Function::new("look", |(bytes,), _| {
    Ok(((bytes.len() as u64, bytes.first().copied().unwrap_or_default()),))
});
/// Keeps a server busy with a single call.
const BUSY: Function<u64, ()> = Function::new("busy", |ms, work: &mut Work| {
    work.emulate(Duration::from_millis(ms));
    Ok(())
});
/// A function whose cost can be computed only for vectors that are not empty.
const PICKY: Function<(Vec<f64>,), (f64,)> =
    Function::new("picky", |(vector,): (Vec<f64>,), _| Ok((vector.iter().sum(),))).costs(
        "first",
        &["first"],
        |(vector,)| vec![vector[0]],
    );

struct All;

impl Catalogue for All {
    fn functions() -> Functions {
        let functions = Functions::new().with_parts(&STEP).with_parts(&MAKE).with_parts(&LOOK);
        functions.with(&BUSY).with_parts(&PICKY).with_parts(&MOODY)
    }
}

fn run(
    place: &str,
    main: impl AsyncFnOnce(Grid, Services<All>) -> Result<(), RpcError> + Send + 'static,
) {
    let job = with_rpc::<All>(Job::new("leaving")).main(async move |grid: Grid| {
        let services = Services::new(&grid).await?;
        main(grid, services).await.map_err(JobError::from)
    });
    let spec = GridSpec::from_emulate(place).unwrap();
    let report = Simulation::new(job, spec, SimOptions::default()).unwrap().run();
    assert_eq!(report.outcome, Ok(()));
}

/// Starts servers on all PEs except that of the client.
async fn open(grid: &Grid, services: &Services<All>) -> Result<(), RpcError> {
    for pe in grid.layout().pes().skip(1) {
        services.join(ServerPlan::new(pe.to_string(), pe)).await?;
    }
    Ok(())
}

/// Runs all futures concurrently to their ends.
async fn all<T>(futures: Vec<Pin<Box<dyn Future<Output = T> + '_>>>) -> Vec<T> {
    let mut futures: Vec<_> = futures.into_iter().map(|future| (future, None)).collect();
    std::future::poll_fn(|cx| {
        for (future, outcome) in futures.iter_mut().filter(|(_, outcome)| outcome.is_none()) {
            if let Poll::Ready(ended) = future.as_mut().poll(cx) {
                *outcome = Some(ended);
            }
        }
        match futures.iter().all(|(_, outcome)| outcome.is_some()) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    })
    .await;
    futures.into_iter().filter_map(|(_, outcome)| outcome).collect()
}

/// Runs a future for a limited time; returns whether it had not ended by then.
async fn cut_short(grid: &Grid, after: Duration, something: impl Future) -> bool {
    let (mut something, mut over) = (pin!(something), pin!(grid.sleep(after)));
    std::future::poll_fn(|cx| {
        if something.as_mut().poll(cx).is_ready() {
            return Poll::Ready(false);
        }
        over.as_mut().poll(cx).map(|_| true)
    })
    .await
}

#[test]
fn data_of_servers_that_leave_together_goes_to_those_that_stay() {
    run("1x1x4", async |grid, services| {
        open(&grid, &services).await?;
        let (mapper, other) = (Mapper::new(&services), services.clone());
        let heuristic = HeftC::default();
        let kept = mapper.map(&heuristic, async |group| {
            let mut made = Vec::new();
            for value in 0..6 {
                let (bytes, value) = (group.value(&1000)?, group.value(&value)?);
                let (one,) = group.call(&MAKE, (&bytes, &value));
                made.push(group.call(&STEP, (&one,)).0);
            }
            group.run().await?;
            let leave = |name| Box::pin(other.leave(name)) as Pin<Box<dyn Future<Output = _>>>;
            assert_eq!(all(vec![leave("pe1"), leave("pe2")]).await, [Ok(()), Ok(())]);
            for (value, one) in (1..).zip(&made) {
                assert_eq!(group.get(one).await?[..], [value; 1000]);
            }
            // The last two have only each other, so one of them has no successor.
            other.join(ServerPlan::new("new", PeId(1))).await?;
            assert_eq!(all(vec![leave("new"), leave("pe3")]).await, [Ok(()), Ok(())]);
            Ok(())
        });
        kept.await?;
        assert_eq!((services.list().await?.len(), services.kept_bytes().await?), (0, 0));
        Ok(())
    });
}

#[test]
fn a_server_leaves_once() {
    run("1x1x3", async |grid, services| {
        open(&grid, &services).await?;
        let leave = || Box::pin(services.leave("pe1")) as Pin<Box<dyn Future<Output = _>>>;
        let left = all::<Result<(), RpcError>>(vec![leave(), leave()]).await;
        assert_eq!(left.iter().filter(|left| left.is_ok()).count(), 1, "{left:?}");
        let errors: Vec<_> = left.iter().filter_map(|left| left.as_ref().err()).collect();
        assert!(errors[0].to_string().contains("is already leaving"), "{left:?}");
        assert!(matches!(leave().await, Err(RpcError::ServerNotFound { .. })));
        Ok(())
    });
}

#[test]
fn a_server_whose_leave_was_given_up_while_it_was_busy_hands_over_or_is_lost() {
    run("1x1x4", async |grid, services| {
        services.join(ServerPlan::new("first", PeId(1))).await?;
        let mut rpc = GridRpc::new(&services);
        rpc.initialize(&Config::default())?;
        let give_up_leave = async |name: &str| {
            let busy = rpc.handle_on(&BUSY, name).await?;
            rpc.call_async(&busy, &5_000).await?;
            grid.sleep(Duration::from_millis(100)).await.unwrap();
            assert!(cut_short(&grid, Duration::from_secs(1), services.leave(name)).await);
            Ok::<(), RpcError>(())
        };
        let (mapper, heuristic) = (Mapper::new(&services), HeftC::default());
        let kept = mapper.map(&heuristic, async |group| {
            let (bytes, value) = (group.value(&1000)?, group.value(&7)?);
            let (one,) = group.call(&MAKE, (&bytes, &value));
            let (other,) = group.call(&MAKE, (&bytes, &value));
            group.run().await?;
            services.join(ServerPlan::new("second", PeId(2))).await?;
            give_up_leave("first").await?;
            // The second server has nothing yet.
            assert_eq!(group.get(&one).await?[..], [7; 1000]);
            let (look,) = group.call(&LOOK, (&other,));
            assert_eq!(group.get(&look).await?, (1000, 7));
            Ok(())
        });
        kept.await?;
        // The window has waited for the handover.
        assert!(matches!(services.leave("first").await, Err(RpcError::ServerNotFound { .. })));
        services.join(ServerPlan::new("third", PeId(3))).await?;
        give_up_leave("second").await?;
        assert_eq!(services.leave("second").await, Ok(()), "it waits for the handover");
        services.join(ServerPlan::new("fourth", PeId(1))).await?;
        give_up_leave("third").await?;
        assert_eq!(services.lose("third").await, Ok(()), "the handover is not finished");
        Ok(())
    });
}

const MANY: u64 = 30;
const LARGE: u64 = 5 << 20;

#[test]
fn a_server_that_hands_over_more_than_its_memory_still_serves_the_data() {
    run("2x2,rate=1gbit", async |grid, services| {
        let room = Room::default().with_memory_bytes(8 << 20);
        services.join(ServerPlan::new("full", PeId(1)).with_room(room)).await?;
        let (mapper, other) = (Mapper::new(&services), services.clone());
        let handed = mapper.map(&MinCompletionTime, async |group| {
            let (bytes, mut made) = (group.value(&LARGE)?, Vec::new());
            for value in 0..MANY {
                let value = group.value(&(value as u8))?;
                made.push(group.call(&MAKE, (&bytes, &value)).0);
            }
            group.run().await?;
            other.join(ServerPlan::new("successor", PeId(2))).await?;
            let begin = grid.now().await.unwrap();
            let leaving = async { other.leave("full").await.map(|()| 0.0) };
            let asking = async {
                for (value, one) in (0..).zip(&made) {
                    assert_eq!(group.get(one).await?[..], vec![value; LARGE as usize]);
                }
                Ok(grid.now().await.unwrap().since(begin).as_secs_f64())
            };
            let ended = all::<Result<f64, RpcError>>(vec![Box::pin(leaving), Box::pin(asking)]);
            assert!(ended.await.iter().all(Result::is_ok));
            // The successor has all data, and a call can use it.
            assert!(other.kept_bytes().await? >= MANY * LARGE);
            let (look,) = group.call(&LOOK, (&made[3],));
            assert_eq!(group.get(&look).await?, (LARGE, 3));
            Ok(())
        });
        handed.await
    });
}

#[test]
fn lost_data_is_made_again_only_where_its_function_is_offered() {
    run("1x1x5", async |grid, services| {
        let plan = |name: &str, pe, speed, offers: &[&str]| {
            ServerPlan::new(name, PeId(pe)).with_speed(speed).with_offers(offers.iter().copied())
        };
        services.join(plan("maker", 1, 1.0, &["step"])).await?;
        services.join(plan("other", 2, 0.5, &["step"])).await?;
        services.join(plan("reader", 3, 1.0, &["look", "busy"])).await?;
        // It would be a hundred times as fast as `other`, but does not offer the step.
        services.join(plan("next", 4, 50.0, &["look"])).await?;
        let mut rpc = GridRpc::new(&services);
        rpc.initialize(&Config::default())?;
        let busy = rpc.handle_on(&BUSY, "reader").await?;
        rpc.call_async(&busy, &10_000).await?;
        let mapper = Mapper::new(&services);
        let begin = grid.now().await.unwrap();
        let mut graph = GraphBuilder::default();
        let look = graph.task("look", 1.0);
        graph.restrict(look, vec![ServerId(2)]);
        let heuristic = HeftC::default();
        let graph = graph.build().unwrap();
        let took_s = Cell::new(0.0);
        let going = async {
            let group = mapper.map_along(&heuristic, &graph, async |group| {
                let value = group.value::<Bytes>(&vec![1; 10].into())?;
                let (one,) = group.call(&STEP, (&value,));
                let (look,) = group.call(&LOOK, (&one,));
                group.get(&look).await
            });
            let looked = group.await;
            took_s.set(grid.now().await.unwrap().since(begin).as_secs_f64());
            looked
        };
        let losing = async {
            // After 1.5 s, the step is done. Then its server is lost, and also the server of the
            // call that reads the result.
            grid.sleep(Duration::from_millis(1_500)).await.unwrap();
            services.lose("maker").await.unwrap();
            services.lose("reader").await.unwrap();
            Ok((0, 0))
        };
        let got = all::<Result<_, RpcError>>(vec![Box::pin(going), Box::pin(losing)]).await;
        assert_eq!(got[0], Ok((10, 2)));
        let took_s = took_s.get();
        assert!((3.5..4.0).contains(&took_s), "1.5 s until the loss, and 2 s: {took_s}");
        Ok(())
    });
}

/// Parallel chains of calls. A [`MOODY`] call is slow with a new value whose first byte is a
/// multiple of 50.
fn chains(
    group: &CallGroup<'_, Services<All>>,
    seeds: &[(u8, u8)],
) -> Result<Vec<Lazy<Bytes>>, RpcError> {
    let mut results = Vec::new();
    for &(first, second) in seeds {
        let value = group.value::<Bytes>(&[vec![first, second], vec![0; 998]].concat().into())?;
        let (one,) = group.call(&MOODY, (&value,));
        let (two,) = group.call(&STEP, (&one,));
        results.push(group.call(&MOODY, (&two,)).0);
    }
    Ok(results)
}

#[test]
fn failed_attempts_leave_no_data_in_a_running_group() {
    run("1x1x4", async |grid, services| {
        open(&grid, &services).await?;
        let mapper = Mapper::new(&services).with_straggler_policy(StragglerPolicy::StealAndCopy);
        mapper
            .map(&HeftC::default(), async |group| {
                for window in 0..10 {
                    let begin = grid.now().await.unwrap();
                    let value = |first| group.value::<Bytes>(&vec![first, window].into());
                    let firsts = [50, 1, 2];
                    let values = firsts.map(value).into_iter().collect::<Result<Vec<_>, _>>()?;
                    let made = values.iter().map(|value| group.call(&MOODY, (value,)).0);
                    for (first, result) in firsts.into_iter().zip(made.collect::<Vec<_>>()) {
                        assert_eq!(group.get(&result).await?[..], [first, window]);
                    }
                    let took_s = grid.now().await.unwrap().since(begin).as_secs_f64();
                    assert!(took_s < 5.0, "the slow one was begun again elsewhere: {took_s}");
                    // The handles of the slow call are dropped now, and its copies end during the
                    // next window.
                    drop(values);
                    chains(group, &[(3, window)])?;
                    group.run().await?;
                    grid.sleep(Duration::from_secs(20)).await.unwrap();
                    assert_eq!(services.kept_bytes().await?, 0, "after window {window}");
                }
                Ok(())
            })
            .await
    });
}

#[test]
fn groups_with_stolen_copied_and_lost_tasks_leave_no_data() {
    run("2x2,wan=20ms", async |grid, services| {
        open(&grid, &services).await?;
        let mut ended = [0, 0];
        for round in 0..96_u64 {
            let seeds = [(99, round as u8), (50, round as u8), (1, 0), (2, 0)];
            let seeds = &seeds[..1 + (round % 4) as usize];
            let mapper =
                Mapper::new(&services).with_straggler_policy(StragglerPolicy::StealAndCopy);
            let heuristic = HeftC::default();
            let going = mapper.map(&heuristic, async |group| {
                for result in &chains(group, seeds)? {
                    group.get(result).await?;
                }
                Ok(())
            });
            let after = Duration::from_millis(100 + 237 * round % 16_000);
            if round % 4 == 1 {
                let name = services.list().await?[(round % 3) as usize].name.clone();
                let losing = async {
                    grid.sleep(after).await.unwrap();
                    services.lose(&name).await
                };
                let ended = all::<Result<(), RpcError>>(vec![Box::pin(going), Box::pin(losing)]);
                assert_eq!(ended.await, [Ok(()), Ok(())]);
                let number = services.list().await?.iter().map(|card| card.number % 4).sum::<u32>();
                // The number of a server modulo 4 is its PE. The PEs of all three add up to 6.
                services.join(ServerPlan::new(format!("new{round}"), PeId(6 - number))).await?;
            } else {
                ended[usize::from(cut_short(&grid, after, going).await)] += 1;
            }
            grid.sleep(Duration::from_secs(30)).await.unwrap();
            assert_eq!(services.kept_bytes().await?, 0, "after group {round}");
        }
        assert!(ended.iter().all(|&count| count > 5), "some end, and some are dropped: {ended:?}");
        Ok(())
    });
}

#[test]
fn a_cost_that_panics_fails_its_call_and_the_server_goes_on() {
    run("1x1x2", async |grid, services| {
        open(&grid, &services).await?;
        let mapper = Mapper::new(&services);
        let sum = async |vector: Vec<f64>| {
            mapper
                .map(&MinCompletionTime, async |group| {
                    let (sum,) = group.call(&PICKY, (group.value(&vector)?,));
                    group.get(&sum).await
                })
                .await
        };
        let error = sum(vec![]).await.unwrap_err().to_string();
        assert!(error.contains("the scalars of the cost"), "{error}");
        assert_eq!(sum(vec![1.0, 2.0]).await, Ok(3.0));
        let mut rpc = GridRpc::new(&services);
        rpc.initialize(&Config::default())?;
        let handle = rpc.handle(&PICKY).await?;
        let error = rpc.call(&handle, &(vec![],)).await.unwrap_err().to_string();
        assert!(error.contains("the scalars of the cost"), "{error}");
        assert_eq!(rpc.call(&handle, &(vec![2.0],)).await, Ok((2.0,)));
        Ok(())
    });
}
