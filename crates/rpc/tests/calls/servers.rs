//! Groups on servers that are late, lost, or distant.

use gridspan_rpc::calls::{
    Catalogue, Config, Function, Functions, GridRpc, RpcError, ServerPlan, Services, Work, with_rpc,
};
use gridspan_rpc::group::Mapper;
use gridspan_runtime::{Grid, Job, JobError, Numbers, PeId, driver};
use gridspan_sim::{SimOptions, SimReport, Simulation};
use gridspan_topology::{Bandwidth, GridSpec, Latency, Link};
use gridspan_workflow::heuristics::{HeftC, Heuristic, MinCompletionTime};
use gridspan_workflow::simulate::{Perturbations, execute};
use gridspan_workflow::stragglers::StragglerPolicy;
use gridspan_workflow::{Endpoint, GraphBuilder, MapError, Mapping, Platform, TaskGraph};
use std::cell::Cell;
use std::pin::pin;
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
/// Takes a hundredth of a second.
const QUICK: Function<(Bytes,), (Bytes,)> = Function::new("quick", |(bytes,), work: &mut Work| {
    work.emulate(Duration::from_millis(10));
    Ok((bytes,))
})
.computes("0.01")
.gives(&["in0"]);
/// Adds two vectors byte by byte.
const ADD: Function<(Bytes, Bytes), (Bytes,)> =
    Function::new("add", |(one, other), work: &mut Work| {
        work.emulate(Duration::from_secs(1));
        let sum = one.iter().zip(other.iter()).map(|(a, b)| a.wrapping_add(*b));
        Ok((sum.collect::<Vec<u8>>().into(),))
    });
/// Returns the first of two, after a second.
const JOIN: Function<(Bytes, Bytes), (Bytes,)> =
    Function::new("join", |(one, _), work: &mut Work| {
        work.emulate(Duration::from_secs(1));
        Ok((one,))
    })
    .computes("1")
    .gives(&["in0"]);
/// Keeps a server busy with a single call.
const BUSY: Function<u64, ()> = Function::new("busy", |ms, work: &mut Work| {
    work.emulate(Duration::from_millis(ms));
    Ok(())
});

struct Steps;

impl Catalogue for Steps {
    fn functions() -> Functions {
        Functions::new()
            .with_parts(&STEP)
            .with_parts(&QUICK)
            .with_parts(&ADD)
            .with_parts(&JOIN)
            .with(&BUSY)
    }
}

fn job(
    main: impl AsyncFnOnce(Grid, Services<Steps>) -> Result<(), RpcError> + Send + 'static,
) -> Job {
    with_rpc::<Steps>(Job::new("servers")).main(async move |grid: Grid| {
        let services = Services::on_all_pes(&grid).await?;
        main(grid, services).await.map_err(JobError::from)
    })
}

fn run(
    place: &str,
    main: impl AsyncFnOnce(Grid, Services<Steps>) -> Result<(), RpcError> + Send + 'static,
) -> SimReport {
    let spec = GridSpec::from_emulate(place).unwrap();
    let report = Simulation::new(job(main), spec, SimOptions::default()).unwrap().run();
    assert_eq!(report.outcome, Ok(()));
    report
}

fn bytes(value: u8) -> Bytes {
    vec![value; 64].into()
}

#[test]
fn a_server_with_a_name_in_use_or_an_unknown_function_is_refused() {
    run("1x2", async |_, services| {
        let before = services.list().await?;
        let taken = before[0].name.clone();
        let again = services.join(ServerPlan::new(taken.clone(), PeId(0))).await;
        let reason = again.unwrap_err().to_string();
        assert!(reason.contains("choose another name"), "{reason}");
        assert!(reason.contains(&taken), "{reason}");
        let misspelt = ServerPlan::new("third", PeId(0)).with_offers(["stp"]);
        let reason = services.join(misspelt).await.unwrap_err().to_string();
        assert!(reason.contains("`stp`, which is not in the catalogue"), "{reason}");
        assert_eq!(services.list().await?, before, "neither has started");
        Ok(())
    });
}

#[test]
fn servers_register_with_a_restarted_registry_and_clients_go_on() {
    run("2x2,wan=20ms", async |grid, services| {
        let before = services.list().await?;
        let mut rpc = GridRpc::new(&services);
        rpc.initialize(&Config::default())?;
        let handle = rpc.handle(&QUICK).await?;
        let going = rpc.call_async(&handle, &(bytes(1),)).await?;
        let (mapper, heuristic) = (Mapper::new(&services), HeftC::default());
        let value = mapper.map(&heuristic, async |group| {
            let (one,) = group.call(&STEP, (group.value(&bytes(1))?,));
            group.run().await?;

            services.restart_registry().await?;

            let (two,) = group.call(&STEP, (one,));
            group.get(&two).await
        });
        assert_eq!(value.await?[0], 3);
        assert_eq!(rpc.wait(&going).await?.0, bytes(1));
        // The registry answers requests when all servers have registered again.
        services.restart_registry().await?;
        assert_eq!(services.list().await?, before);
        assert_eq!(rpc.call(&handle, &(bytes(7),)).await?.0, bytes(7));
        // The registry neither lists nor awaits a server that leaves at the same time.
        let mut leaving = pin!(services.leave(&before[0].name));
        let mut restarting = pin!(services.restart_registry());
        let mut ended = [false, false];
        std::future::poll_fn(|cx| {
            ended[0] = ended[0] || leaving.as_mut().poll(cx).map(Result::unwrap).is_ready();
            ended[1] = ended[1] || restarting.as_mut().poll(cx).map(Result::unwrap).is_ready();
            if ended == [true, true] { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        let _ = grid.sleep(Duration::from_secs(1)).await;
        assert_eq!(services.list().await?, before[1..]);
        rpc.finalize().await
    });
}

/// Returns the seconds that nine tasks of one second each take on three servers, one of which may
/// be busy with other calls.
async fn nine(grid: &Grid, mapper: &Mapper<Services<Steps>>) -> Result<f64, RpcError> {
    let begin = grid.now().await.unwrap();
    mapper
        .map(&HeftC::default(), async |group| {
            let mut results = Vec::new();
            for value in 0..9 {
                let value = group.value(&bytes(value))?;
                results.push(group.call(&STEP, (&value,)).0);
            }
            for (value, result) in (1..).zip(&results) {
                assert_eq!(group.get(result).await?, bytes(value));
            }
            Ok(())
        })
        .await?;
    Ok(grid.now().await.unwrap().since(begin).as_secs_f64())
}

#[test]
fn tasks_of_a_late_server_are_executed_by_others() {
    run("1x1x4", async |grid, services| {
        let mut other = GridRpc::new(&services);
        other.initialize(&Config::default())?;
        let busy = other.handle_on(&BUSY, "a/pe1").await?;
        let mut took_s = Vec::new();
        for policy in [StragglerPolicy::None, StragglerPolicy::Steal, StragglerPolicy::StealAndCopy]
        {
            for _ in 0..20 {
                other.call_async(&busy, &1000).await?;
            }
            took_s.push(nine(&grid, &Mapper::new(&services).with_straggler_policy(policy)).await?);
            other.wait_all().await?;
            grid.sleep(Duration::from_secs(30)).await.unwrap();
            assert_eq!(services.kept_bytes().await?, 0, "{policy:?}");
        }
        // Three tasks wait behind 20 s of calls; the two other servers could do all nine in 5 s.
        assert!(took_s[0] > 20.0, "{took_s:?}");
        assert!(took_s[2] < 8.0, "{took_s:?}");
        Ok(())
    });
}

#[test]
fn no_task_is_executed_twice_if_no_server_is_late() {
    run("1x1x4", async |grid, services| {
        let took_s = nine(
            &grid,
            &Mapper::new(&services).with_straggler_policy(StragglerPolicy::StealAndCopy),
        )
        .await?;
        assert!((3.0..3.1).contains(&took_s), "{took_s}");
        Ok(())
    });
}

/// Maps like [`HeftC`], and records its input and its mapping.
#[derive(Default)]
struct Kept(Mutex<Option<(TaskGraph, Platform, Mapping)>>);

impl Heuristic for Kept {
    fn name(&self) -> &'static str {
        "kept"
    }

    fn map(&self, graph: &TaskGraph, platform: &Platform) -> Result<Mapping, MapError> {
        let mapping = HeftC::default().map(graph, platform)?;
        *self.0.lock().unwrap() = Some((graph.clone(), platform.clone(), mapping.clone()));
        Ok(mapping)
    }
}

/// Data size, in bytes, at which a transfer between sites at 12 Mbit/s takes longer than a task.
const LARGE: usize = 2_000_000;

/// Returns the seconds that a group takes in the job and in its simulated execution. The group
/// joins its results in pairs until one is left, so that data has to go from server to server.
async fn both(grid: &Grid, mapper: &Mapper<Services<Steps>>) -> Result<(f64, f64), RpcError> {
    let kept = Kept::default();
    let took_s = mapper
        .map(&kept, async |group| {
            let mut level = Vec::new();
            for value in 0..8 {
                let value: Bytes = vec![value; LARGE].into();
                level.push(group.call(&STEP, (&group.value(&value)?,)).0);
            }
            while level.len() > 1 {
                let pair = |pair: &[_]| group.call(&JOIN, (&pair[0], &pair[1])).0;
                level = level.chunks(2).map(pair).collect();
            }
            let begin = grid.now().await.unwrap();
            group.run().await?;
            Ok(grid.now().await.unwrap().since(begin).as_secs_f64())
        })
        .await?;
    let (graph, platform, mapping) = kept.0.lock().unwrap().take().unwrap();
    let surprises = Perturbations::default();
    let simulated = execute(&graph, &platform, &mapping, &surprises, StragglerPolicy::None);
    assert!(simulated.transfers.len() > 8, "data goes from server to server");
    Ok((took_s, simulated.makespan_s))
}

/// Each grid has at most two sites, so that the uplinks of the sites and the link between them are
/// the same. In the job, unlike in the simulated execution, orders and answers have latencies, data
/// travels in segments, and concurrent transfers share links in a slightly different way.
#[test]
fn a_group_takes_as_long_as_its_simulated_execution() {
    for (place, mbit) in [
        ("1x1x4", 10_000),
        ("2x2,wan=20ms,rate=24mbit", 24),
        ("2x2,wan=20ms,rate=12mbit", 12),
        ("2x2,wan=40ms,rate=5mbit", 5),
        ("2x3,wan=5ms,rate=50mbit", 50),
    ] {
        run(place, async move |grid, services| {
            let latency = Latency::from_millis(20);
            let wan = Link::new(latency, Bandwidth::from_bits_per_second(mbit * 1_000_000));
            let mapper = Mapper::new(&services).with_links(Link::lan(), wan);
            let (took_s, simulated_s) = both(&grid, &mapper).await?;
            let ratio = took_s / simulated_s;
            assert!((0.85..1.02).contains(&ratio), "{place}: {took_s}, {simulated_s}");
            Ok(())
        });
    }
}

/// Loses a server while a group runs.
async fn losing<T>(
    grid: &Grid,
    services: &Services<Steps>,
    name: &str,
    after: Duration,
    group: impl Future<Output = T>,
) -> T {
    let (mut group, mut outcome, is_lost) = (pin!(group), None, Cell::new(false));
    let mut losing = pin!(async {
        grid.sleep(after).await.unwrap();
        // The loss counts from now on, though the server may learn of it later.
        is_lost.set(true);
        services.lose(name).await.unwrap();
    });
    let mut has_left = false;
    std::future::poll_fn(|cx| {
        has_left = has_left || losing.as_mut().poll(cx).is_ready();
        if outcome.is_none()
            && let Poll::Ready(ended) = group.as_mut().poll(cx)
        {
            assert!(is_lost.get(), "the group ended before the server was lost");
            outcome = Some(ended);
        }
        match has_left && outcome.is_some() {
            true => Poll::Ready(outcome.take().unwrap()),
            false => Poll::Pending,
        }
    })
    .await
}

#[test]
fn results_that_are_lost_within_a_window_are_made_again() {
    for after_ms in [0, 500, 1500, 2500, 3500] {
        run("1x1x3", async move |grid, services| {
            let mapper = Mapper::new(&services);
            let heuristic = HeftC::default();
            let going = mapper.map(&heuristic, async |group| {
                let [one, two] = [group.value(&bytes(1))?, group.value(&bytes(2))?];
                let (mut one,) = group.call(&STEP, (&one,));
                let (mut two,) = group.call(&STEP, (&two,));
                for _ in 0..3 {
                    (one,) = group.call(&ADD, (&one, &two));
                    (two,) = group.call(&STEP, (&two,));
                }
                Ok((group.get(&one).await?, group.get(&two).await?))
            });
            let after = Duration::from_millis(after_ms);
            let got = losing(&grid, &services, "a/pe2", after, going).await;
            // 2 + 3 + 4 + 5, and 3 + 3.
            assert_eq!(got, Ok((bytes(14), bytes(6))), "{after_ms}");
            grid.sleep(Duration::from_secs(2)).await.unwrap();
            assert_eq!(services.kept_bytes().await?, 0);
            Ok(())
        });
    }
}

#[test]
fn a_group_without_servers_fails_with_the_reason() {
    run("1x1x2", async |grid, services| {
        let mapper = Mapper::new(&services);
        let heuristic = HeftC::default();
        let going = mapper.map(&heuristic, async |group| {
            let value = group.value(&bytes(1))?;
            let (one,) = group.call(&STEP, (&value,));
            let (two,) = group.call(&STEP, (&one,));
            group.get(&two).await
        });
        let failed = losing(&grid, &services, "a/pe1", Duration::from_millis(500), going).await;
        let error = failed.unwrap_err().to_string();
        assert!(error.contains("its server has left"), "{error}");
        Ok(())
    });
}

/// Runs eight short tasks on data of the client.
async fn short(mapper: Mapper<Services<Steps>>) -> Result<(), RpcError> {
    mapper
        .map(&MinCompletionTime, async |group| {
            for value in 0..8 {
                let value = group.value::<Bytes>(&vec![value; 100_000].into())?;
                group.call(&QUICK, (&value,));
            }
            Ok(())
        })
        .await
}

#[test]
fn measured_links_keep_short_tasks_near() {
    let bytes_between_sites = |is_measured: bool| {
        let report = run("2x2,wan=200ms", async move |_, services| {
            let perfect = Mapper::new(&services).with_links(Link::perfect(), Link::perfect());
            short(if is_measured { perfect.measured() } else { perfect }).await
        });
        report.wide_area_bytes
    };
    let [told, measured] = [false, true].map(bytes_between_sites);

    assert!(told > 100_000, "some go to the other site: {told}");
    assert!(measured < 100_000, "none does: {measured}");
}

/// Two chains of three steps on data of the client, and their sum.
fn outline() -> TaskGraph {
    let mut graph = GraphBuilder::default();
    let mut ends = Vec::new();
    let mut chains: Vec<_> =
        (0..2).map(|chain| graph.external(chain.to_string(), 64, vec![Endpoint::Client])).collect();
    for _ in 0..3 {
        for data in &mut chains {
            let task = graph.task("step", 1.0);
            graph.read(task, *data);
            *data = graph.write(task, "state", 64);
        }
    }
    ends.append(&mut chains);
    let sum = graph.task("add", 1.0);
    ends.into_iter().for_each(|data| graph.read(sum, data));
    graph.write(sum, "sum", 64);
    graph.build().unwrap()
}

#[test]
fn a_given_graph_spreads_calls_that_are_awaited_one_by_one() {
    run("1x1x3", async |grid, services| {
        let mapper = Mapper::new(&services);
        let names: Vec<String> = services.list().await?.into_iter().map(|card| card.name).collect();
        // Each window has a step of each chain, and each chain has its own server.
        let begin = grid.now().await.unwrap();
        let sum = mapper
            .map_along(&HeftC::default(), &outline(), async |group| {
                let mut chains = [group.value(&bytes(1))?, group.value(&bytes(2))?];
                for _ in 0..3 {
                    let [one, two] = chains;
                    chains = [group.call(&STEP, (&one,)).0, group.call(&STEP, (&two,)).0];
                    assert!(group.get(&chains[0]).await?[0] > 0);
                }
                let [one, two] = chains;
                let (sum,) = group.call(&ADD, (&one, &two));
                // A call that is not in the graph.
                let (more,) = group.call(&STEP, (&sum,));
                Ok((group.get(&sum).await?, group.get(&more).await?))
            })
            .await?;
        let took_s = grid.now().await.unwrap().since(begin).as_secs_f64();
        assert_eq!((sum, names.len()), ((bytes(9), bytes(10)), 2));
        assert!((5.0..5.1).contains(&took_s), "three steps, a sum and a step: {took_s}");
        Ok(())
    });
}

#[test]
fn measured_groups_run_on_one_node() {
    let main = async |_: Grid, services: Services<Steps>| {
        short(Mapper::new(&services).measured().with_straggler_policy(StragglerPolicy::Steal)).await
    };
    assert_eq!(driver::embedded::run(job(main), 3), Ok(()));
}

/// A group with large data and measured links, and a call on every server, over QUIC between four
/// nodes.
#[test]
fn groups_and_calls_run_over_quic() {
    let main = async |_: Grid, services: Services<Steps>| {
        let large: Bytes = vec![7; 5 << 20].into();
        let mapper =
            Mapper::new(&services).measured().with_straggler_policy(StragglerPolicy::StealAndCopy);
        let got = mapper
            .map(&HeftC::default(), async |group| {
                let value = group.value(&large)?;
                let mut results = Vec::new();
                for _ in 0..4 {
                    let (one,) = group.call(&STEP, (&value,));
                    let (two,) = group.call(&QUICK, (&value,));
                    results.push(group.call(&ADD, (&one, &two)).0);
                }
                let mut got = Vec::new();
                for result in &results {
                    got.push(group.get(result).await?);
                }
                Ok(got)
            })
            .await?;
        assert!(got.len() == 4 && got.iter().all(|bytes| bytes.iter().all(|&byte| byte == 15)));
        let mut rpc = GridRpc::new(&services);
        rpc.initialize(&Config::default())?;
        for card in services.list().await? {
            let handle = rpc.handle_on(&STEP, &card.name).await?;
            assert_eq!(rpc.call(&handle, &(bytes(1),)).await?.0, bytes(2));
        }
        assert_eq!(services.kept_bytes().await?, 0);
        Ok(())
    };
    let spec = GridSpec::from_emulate("2x2,wan=5ms").unwrap();
    assert_eq!(driver::embedded::run_emulated(job(main), &spec), Ok(()));
}
