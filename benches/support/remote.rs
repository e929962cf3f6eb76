//! The job of the call benches: empty functions in a second process, and functions of large data on
//! the nodes of one process.

use crate::nodes::{Cores, run_job};
use crate::suite::Sample;
use gridspan_rpc::calls::{
    Catalogue, Config, Function, Functions, GridRpc, RpcError, ServerPlan, Services, with_rpc,
};
use gridspan_rpc::group::Mapper;
use gridspan_runtime::driver::embedded;
use gridspan_runtime::{
    Actor, Context, Grid, Ix1, Job, JobError, Layout, Numbers, PeId, Per, Reply,
};
use gridspan_sim::{SimOptions, Simulation};
use gridspan_topology::GridSpec;
use gridspan_workflow::heuristics::{HeftC, MinCompletionTime};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::sync::mpsc;
use std::time::{Duration, Instant};

type Bytes = Numbers<u8>;

const EMPTY: Function<(), ()> = Function::new("empty", |(), _| Ok(()));
/// Increments each byte: some work on all of the data that is moved.
const NEXT: Function<(Bytes,), (Bytes,)> = Function::new("next", |(bytes,): (Bytes,), _| {
    Ok((bytes.iter().map(|byte| byte.wrapping_add(1)).collect::<Vec<u8>>().into(),))
})
.computes("1e-9 * in0")
.gives(&["in0"]);
/// Sums the bytes. Its declared time makes the mapper spread the calls over all servers.
const SUM: Function<(Bytes,), (u64,)> = Function::new("sum", |(bytes,): (Bytes,), _| {
    Ok((bytes.iter().map(|&byte| u64::from(byte)).sum(),))
})
.computes("1000")
.gives(&["8"]);

/// Number of calls in a chain.
const LINKS: u8 = 10;
/// Timeout, longer than any measurement takes.
const PATIENCE: Duration = Duration::from_secs(300);

struct Remote;

impl Catalogue for Remote {
    fn functions() -> Functions {
        Functions::new().with(&EMPTY).with_parts(&NEXT).with_parts(&SUM)
    }
}

/// An actor that answers each ask immediately.
#[derive(Serialize, Deserialize)]
struct Echo;

impl Actor for Echo {
    type Index = Ix1;
    type Init = ();
    type Message = Reply<()>;

    fn create((): (), _cx: &mut Context<'_, Self>) -> Self {
        Self
    }

    fn handle(&mut self, reply: Reply<()>, cx: &mut Context<'_, Self>) {
        cx.reply(reply, ());
    }
}

/// Number of non-blocking calls that are under way at once.
pub(crate) const UNDER_WAY: usize = 1_000;

/// The kind of empty request to the other process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Empty {
    /// Calls, one after the other.
    Calls,
    /// Calls that do not block.
    Sessions,
    /// Asks to an actor.
    Asks,
}

/// How a chain is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Chain {
    /// As a group on two servers.
    Mapped,
    /// As a group on one server.
    Pinned,
    /// Call by call on two servers in turns.
    Bridged,
}

/// Returns the definition of the job, the same on all nodes.
pub(crate) fn job() -> Job {
    with_rpc::<Remote>(Job::new("remote").actor::<Echo>())
}

fn nodes(count: usize) -> GridSpec {
    let layout = Layout::new(vec![("here".to_owned(), vec![1; count])]);
    GridSpec::from_layout(&layout).expect("the layout is small")
}

/// Measures `count` empty requests to a server in a second process.
pub(crate) fn empty(what: Empty, count: u64, cores: Cores) -> Sample {
    let (send, receive) = mpsc::channel();
    let job = job().main(async move |grid: Grid| {
        let echoes = grid.create_group::<Echo>(Per::Pe, |_| ()).await?;
        let services: Services<Remote> =
            Services::on_all_pes(&grid).await.map_err(JobError::from)?;
        let mut rpc = GridRpc::new(&services);
        rpc.initialize(&Config::default()).map_err(JobError::from)?;
        let handle = rpc.handle(&EMPTY).await.map_err(JobError::from)?;
        for round in [count / 10, count] {
            let begin = Instant::now();
            match what {
                Empty::Calls => {
                    for _ in 0..round {
                        rpc.call(&handle, &()).await.map_err(JobError::from)?;
                    }
                }
                Empty::Sessions => {
                    let mut sessions = VecDeque::new();
                    for _ in 0..round {
                        let session = rpc.call_async(&handle, &()).await;
                        sessions.push_back(session.map_err(JobError::from)?);
                        if sessions.len() == UNDER_WAY
                            && let Some(oldest) = sessions.pop_front()
                        {
                            rpc.wait(&oldest).await.map_err(JobError::from)?;
                        }
                    }
                    for session in sessions {
                        rpc.wait(&session).await.map_err(JobError::from)?;
                    }
                }
                Empty::Asks => {
                    for _ in 0..round {
                        echoes.member(Ix1(1)).ask(PATIENCE, |reply| reply).await?;
                    }
                }
            }
            // The first round warms up; the bench takes the last.
            let _ = send.send(begin.elapsed());
        }
        Ok(())
    });
    run_job(job, &nodes(2), false, cores);
    let elapsed = receive.iter().last().expect("main has sent it");
    Sample { elapsed, operations: count }
}

/// Runs `what` twice in main, on `count` nodes of this process, and measures the second run.
fn on_nodes(
    count: usize,
    what: impl AsyncFn(&Services<Remote>) -> Result<(), RpcError> + Send + 'static,
) -> Sample {
    let (send, receive) = mpsc::channel();
    let job = job().main(async move |grid: Grid| {
        let services: Services<Remote> = Services::new(&grid).await.map_err(JobError::from)?;
        for pe in grid.layout().pes().skip(1) {
            services.join(ServerPlan::new(pe.to_string(), pe)).await.map_err(JobError::from)?;
        }
        for _ in 0..2 {
            let begin = Instant::now();
            what(&services).await.map_err(JobError::from)?;
            let _ = send.send(begin.elapsed());
        }
        Ok(())
    });
    embedded::run_emulated(job, &nodes(count)).expect("the job ends well");
    Sample { elapsed: receive.iter().last().expect("main has sent it"), operations: 1 }
}

/// Measures a chain of calls, each of which takes the bytes that the previous one returned.
pub(crate) fn chain(how: Chain, bytes: usize) -> Sample {
    let servers = if how == Chain::Pinned { 1 } else { 2 };
    on_nodes(1 + servers, async move |services| {
        let mut data: Bytes = vec![0; bytes].into();
        if how == Chain::Bridged {
            let mut rpc = GridRpc::new(services);
            rpc.initialize(&Config::default())?;
            for link in 0..LINKS {
                let server = PeId(1 + u32::from(link) % 2).to_string();
                (data,) = rpc.call(&rpc.handle_on(&NEXT, &server).await?, &(data,)).await?;
            }
        } else {
            let mapper = Mapper::new(services);
            data = mapper
                .map(&HeftC::default(), async |group| {
                    let mut state = group.value(&data)?;
                    for _ in 0..LINKS {
                        (state,) = group.call(&NEXT, (state,));
                    }
                    group.get(&state).await
                })
                .await?;
        }
        assert!(
            data.len() == bytes && data.iter().all(|&byte| byte == LINKS),
            "the chain is right"
        );
        Ok(())
    })
}

/// Measures calls with the same bytes on four servers, in one group or as separate calls that do
/// not block.
pub(crate) fn to_four(is_group: bool, bytes: usize) -> Sample {
    on_nodes(5, async move |services| {
        let data: Bytes = vec![1; bytes].into();
        let expected = bytes as u64;
        if is_group {
            let mapper = Mapper::new(services);
            let sums = mapper.map(&MinCompletionTime, async |group| {
                let value = group.value(&data)?;
                let lazies = [(); 4].map(|()| group.call(&SUM, (&value,)).0);
                let mut sums = Vec::new();
                for lazy in &lazies {
                    sums.push(group.get(lazy).await?);
                }
                Ok(sums)
            });
            assert_eq!(sums.await?, [expected; 4]);
        } else {
            let mut rpc = GridRpc::new(services);
            rpc.initialize(&Config::default())?;
            let mut sessions = Vec::new();
            for card in services.list().await? {
                let handle = rpc.handle_on(&SUM, &card.name).await?;
                sessions.push(rpc.call_async(&handle, &(data.clone(),)).await?);
            }
            for session in &sessions {
                assert_eq!(rpc.wait(session).await?, (expected,));
            }
        }
        Ok(())
    })
}

/// Returns the time, in round trips, of the first call to a server over a wide area, in virtual
/// time.
pub(crate) fn round_trips() -> f64 {
    const ONE_WAY_S: f64 = 0.02;
    let (send, receive) = mpsc::channel();
    let job = job().main(async move |grid: Grid| {
        let services: Services<Remote> =
            Services::on_all_pes(&grid).await.map_err(JobError::from)?;
        let mut rpc = GridRpc::new(&services);
        rpc.initialize(&Config::default()).map_err(JobError::from)?;
        let handle = rpc.handle(&EMPTY).await.map_err(JobError::from)?;
        let begin = grid.now().await?;
        rpc.call(&handle, &()).await.map_err(JobError::from)?;
        let took = grid.now().await?.since(begin);
        let _ = send.send(took.as_secs_f64() / (2.0 * ONE_WAY_S));
        Ok(())
    });
    let spec = GridSpec::from_emulate("2x1,wan=20ms").expect("a grid in short");
    let report = Simulation::new(job, spec, SimOptions::default()).expect("it can run").run();
    report.outcome.expect("the job ends well");
    receive.recv().expect("main has sent it")
}
