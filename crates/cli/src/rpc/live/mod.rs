//! A workflow on real servers: those behind a door, over the links that there are. Computing is emulated, and data is as
//! large as was recorded.
//!
//! Servers fetch data from each other. The client gives orders when arguments are made, and has the files at first that no
//! task writes; what was on a server that is lost is made again.

mod course;

use super::door::{Input, Listed, Order, Owner, Source, Times, Trouble, Visitor};
use super::scene::{Scene, workflow};
use super::trial::Trial;
use crate::args::RpcRunArgs;
use crate::error::CliError;
use course::{Course, Stuck};
use gridspan_rpc::heuristics::by_name;
use gridspan_rpc::judge::{Execution, Surprises, TaskRun, Transfer};
use gridspan_rpc::workflow::Workflow;
use gridspan_rpc::{
    Client, DataId, Endpoint, Mapping, Platform, Server, ServerId, Site, TaskGraph, TaskId,
};
use gridspan_topology::{Latency, Link};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// What maps where no heuristic is named.
const DEFAULT: &str = "heft-c";

/// Executes the workflow on the servers behind a door, by one heuristic after the other.
pub(super) async fn run(
    visitor: &Visitor,
    args: &RpcRunArgs,
) -> Result<(Scene, Vec<Trial>), CliError> {
    let mut servers = visitor.list().await?;
    let Workflow { name, graph, recorded_s } = workflow(args)?;
    let external = graph.data().iter().zip(0..).filter(|(data, _)| data.producer.is_none());
    let external: BTreeMap<u32, u64> =
        external.map(|(data, number)| (number, data.bytes)).collect();
    let owner = Owner::begin(visitor, &mut servers, external.clone()).await?;
    if servers.is_empty() {
        return Err(CliError::NobodyServes);
    }
    let latency = (0..servers.len()).map(|server| owner.rtt(server)).max().unwrap_or_default() / 2;
    drop(owner);
    let scene = Scene {
        name,
        recorded_s,
        graph,
        platform: platform(&servers, latency),
        source: format!("the door at {}", visitor.address()),
        surprises: Surprises::default(),
        is_real: true,
    };
    let mut trials = Vec::new();
    let names = args.heuristic.iter().map(String::as_str);
    for name in names.chain(args.heuristic.is_empty().then_some(DEFAULT)) {
        let heuristic = by_name(name, args.seed).map_err(|_| CliError::Individual)?;
        let begin = Instant::now();
        let mapping = heuristic.map(&scene.graph, &scene.platform)?;
        let mapped_in = begin.elapsed();
        let mut still = servers.clone();
        let owner = Owner::begin(visitor, &mut still, external.clone()).await?;
        if still != servers {
            return Err(CliError::Stuck { task: scene.name });
        }
        let execution = execute(&scene.graph, &mapping, &servers, visitor, &owner).await?;
        let predicted_s = Some(mapping.predicted_s).filter(|time_s| *time_s > 0.0);
        trials.push(Trial {
            name: name.to_owned(),
            predicted_s,
            mapped_in,
            between_sites: execution.bytes_between_sites(&scene.graph, &scene.platform),
            of_client: execution.bytes_of_client(&scene.graph),
            execution,
        });
    }
    Ok((scene, trials))
}

/// The servers as the heuristics see them: near each other, as far away as the farthest of them, over links that nobody has
/// measured.
fn platform(servers: &[Listed], latency: Duration) -> Platform {
    let link = Link::lan().with_latency(Latency::from_micros(latency.as_micros() as u64));
    let server = |listed: &Listed| Server {
        name: listed.card.name.clone(),
        site: 0,
        cores: listed.cores,
        speed: listed.card.speed / f64::from(listed.cores.max(1)),
        is_direct: true,
    };
    let site = Site { name: "here".to_owned(), lan: link, uplink: link };
    Platform::new(servers.iter().map(server).collect(), vec![site], Client { site: Some(0), link })
}

/// Something that has happened.
enum Event {
    /// A server has answered an order, which it got at that time.
    Answered(TaskId, ServerId, f64, Result<Result<Times, Trouble>, super::door::DoorError>),
    /// The client has asked for data, since that time, and got it or not.
    Brought(DataId, ServerId, f64, bool),
}

struct Run<'a> {
    graph: &'a TaskGraph,
    mapping: &'a Mapping,
    servers: &'a [Listed],
    visitor: &'a Visitor,
    owner: &'a Owner,
    course: Course<'a>,
    /// From where tasks were told to fetch their arguments last.
    sources: BTreeMap<(TaskId, DataId), Endpoint>,
    events: JoinSet<Event>,
    begin: Instant,
    execution: Execution,
}

async fn execute(
    graph: &TaskGraph,
    mapping: &Mapping,
    servers: &[Listed],
    visitor: &Visitor,
    owner: &Owner,
) -> Result<Execution, CliError> {
    let course = Course::new(graph, mapping, servers.len());
    let (events, sources) = (JoinSet::new(), BTreeMap::new());
    let (begin, execution) = (Instant::now(), Execution::default());
    let mut run =
        Run { graph, mapping, servers, visitor, owner, course, sources, events, begin, execution };
    loop {
        run.go_on();
        if run.course.is_over() {
            break;
        }
        match run.events.join_next().await {
            Some(Ok(event)) => run.happens(event)?,
            // Nothing goes on, and not all is done: tasks have panicked.
            Some(Err(_)) | None => return Err(CliError::Stuck { task: "the workflow".to_owned() }),
        }
    }
    run.execution.makespan_s = run.now_s();
    run.execution.runs.sort_by(|one, other| one.end_s.total_cmp(&other.end_s));
    run.execution.transfers.sort_by(|one, other| one.end_s.total_cmp(&other.end_s));
    Ok(run.execution)
}

impl Run<'_> {
    fn now_s(&self) -> f64 {
        self.begin.elapsed().as_secs_f64()
    }

    /// Orders what can be, and asks for what is wanted.
    fn go_on(&mut self) {
        let now_s = self.now_s();
        for (task, server) in self.course.take_orders() {
            let order = self.order(task);
            let order = self.owner.order(server.index(), order);
            self.events.spawn(async move { Event::Answered(task, server, now_s, order.await) });
        }
        for (data, server) in self.course.take_wishes() {
            let bytes = self.graph.datum(data).bytes;
            let brought = self.owner.fetch(server.index(), data.0, bytes);
            self.events
                .spawn(async move { Event::Brought(data, server, now_s, brought.await.is_some()) });
        }
    }

    fn order(&mut self, task: TaskId) -> Order {
        let of = self.graph.task(task);
        for &data in &of.inputs {
            self.sources.insert((task, data), self.course.source(data));
        }
        let input = |&data: &DataId| Input {
            data: data.0,
            bytes: self.graph.datum(data).bytes,
            from: match self.course.source(data) {
                Endpoint::Client => Source::Client,
                Endpoint::Server(server) => {
                    let address = self.servers[server.index()].address;
                    let is_door = address.is_none();
                    let address = address.unwrap_or(self.visitor.address());
                    Source::Server { address, is_door }
                }
            },
        };
        let outputs = of.outputs.iter().map(|&data| (data.0, self.graph.datum(data).bytes));
        Order {
            group: self.owner.group(),
            place: self.mapping.places[task.index()],
            work_s: of.work_s,
            inputs: of.inputs.iter().map(input).collect(),
            outputs: outputs.collect(),
        }
    }

    fn happens(&mut self, event: Event) -> Result<(), CliError> {
        let end_s = self.now_s();
        match event {
            Event::Answered(task, server, ordered_s, answer) => {
                if !self.course.is_current(task, server) {
                    return Ok(());
                }
                match answer {
                    Err(error) => {
                        tracing::info!(server = %self.servers[server.index()].card.name, %error, "lost");
                        self.execution.moved += 1;
                        self.course.lost(server)?;
                    }
                    Ok(Err(Trouble::Failed(reason))) => {
                        return Err(CliError::Failed {
                            task: self.graph.task(task).name.clone(),
                            reason,
                        });
                    }
                    Ok(Err(Trouble::Missing(data))) => {
                        self.course.again(task)?;
                        data.into_iter().try_for_each(|data| self.course.missing(DataId(data)))?;
                    }
                    Ok(Ok(times)) => self.done(task, server, ordered_s, &times),
                }
            }
            Event::Brought(data, server, start_s, is_there) => {
                if !is_there {
                    self.course.missing(data)?;
                    return Ok(());
                }
                let from = Endpoint::Server(server);
                let transfer = Transfer { data, from, to: Endpoint::Client, start_s, end_s };
                self.execution.transfers.push(transfer);
                self.course.granted(data);
            }
        }
        Ok(())
    }

    fn done(&mut self, task: TaskId, server: ServerId, ordered_s: f64, times: &Times) {
        let (start_s, end_s) = (ordered_s + times.start_s, ordered_s + times.end_s);
        self.execution.runs.push(TaskRun { task, server, start_s, end_s });
        let mut has = Vec::new();
        for fetched in &times.fetched {
            let (data, to) = (DataId(fetched.data), Endpoint::Server(server));
            if let Some(from) = self.sources.remove(&(task, data)) {
                let (start_s, end_s) = (ordered_s + fetched.start_s, ordered_s + fetched.end_s);
                self.execution.transfers.push(Transfer { data, from, to, start_s, end_s });
                has.push(data);
            }
        }
        self.course.done(task, server, has);
    }
}

impl From<Stuck> for CliError {
    fn from(stuck: Stuck) -> Self {
        Self::Stuck { task: stuck.task }
    }
}
