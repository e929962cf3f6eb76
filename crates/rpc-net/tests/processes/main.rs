//! Groups and single calls between processes: a registry, servers that offer functions of this
//! program, and a client. Some tests kill processes.
#![cfg(target_os = "linux")]
#![allow(missing_docs, clippy::unwrap_used)]

mod apart;
mod clients;
mod far;
mod lost;
mod memory;
mod nat;
mod spill;
mod verbs;

use gridspan_rpc::calls::{Catalogue, Function, Functions, RpcError};
use gridspan_rpc::group::Room;
use gridspan_rpc_net::{
    Client, DaemonOptions, ListedServer, Remote, Role, ServeOptions, Token, serve,
};
use gridspan_runtime::Numbers as Block;
use gridspan_workflow::heuristics::{HeftC, RandomMapping};
use gridspan_workflow::stragglers::StragglerPolicy;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// Longest time that a test waits for anything.
const LIMIT: Duration = Duration::from_secs(60);
/// Variable that gives a process of these tests its role.
const ROLE: &str = "GRIDSPAN_TEST_ROLE";
/// Variable that gives a process of these tests the path of its token.
const TOKEN: &str = "GRIDSPAN_TEST_TOKEN";

/// Creates a file of the given name with its server's name as extension. Then waits until the given
/// file exists, so that tests control when the call ends. Returns its second argument.
const HOLD: Function<(PathBuf, u64), (u64,)> = Function::new("hold", |(file, value), _| {
    fs::write(file.with_extension(std::env::var(ROLE).unwrap()), "").unwrap();
    while !file.exists() {
        thread::sleep(Duration::from_millis(5));
    }
    Ok((value,))
});
/// As `hold`, but only on one server.
const HOLD_ON: Function<(String, PathBuf, u64), (u64,)> =
    Function::new("hold on", |(server, file, value), _| {
        while std::env::var(ROLE).is_ok_and(|own| own == server) && !file.exists() {
            thread::sleep(Duration::from_millis(5));
        }
        Ok((value,))
    });
/// Memory of a server with the name `small`.
const SMALL_BYTES: u64 = 1 << 20;
type Numbers = Vec<u64>;
const FILL: Function<(u64,), (Numbers,)> =
    Function::new("fill", |(count,), _| Ok(((0..count).collect(),)));
const ADD: Function<(Numbers, Numbers), (Numbers,)> = Function::new("add", |(one, other), _| {
    Ok((one.iter().zip(&other).map(|(one, other)| one + other).collect(),))
});
/// As `sum`, but runs only after the call that makes its second argument.
const SUM_AFTER: Function<(Numbers, u64), (u64,)> =
    Function::new("sum after", |(numbers, _), _| Ok((numbers.iter().sum(),)));
const SUM: Function<(Numbers,), (u64,)> =
    Function::new("sum", |(numbers,), _| Ok((numbers.iter().sum(),)));
/// Takes a moment, and returns the name of its server.
const WHERE: Function<(u64,), (String,)> = Function::new("where", |_, _| {
    thread::sleep(Duration::from_millis(10));
    Ok((std::env::var(ROLE).unwrap(),))
})
.computes("0.01");
/// Returns the largest number, or 0.
const LARGEST: Function<(Block<f64>,), (f64,)> =
    Function::new("largest", |(block,), _| Ok((block.iter().copied().fold(0.0, f64::max),)));
const REFUSE: Function<(u64,), (u64,)> = Function::new("refuse", |_, _| Err("never".to_owned()));

struct All;

impl Catalogue for All {
    fn functions() -> Functions {
        let functions = Functions::new().with_parts(&HOLD).with_parts(&HOLD_ON).with_parts(&FILL);
        functions
            .with_parts(&ADD)
            .with_parts(&SUM)
            .with_parts(&SUM_AFTER)
            .with_parts(&WHERE)
            .with_parts(&REFUSE)
            .with_parts(&LARGEST)
    }
}

/// Runs the processes that tests start: they are this program, restricted to this test.
#[test]
fn a_process_of_another_test() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let token = PathBuf::from(std::env::var(TOKEN).unwrap());
    let token_folder = token.parent().unwrap().to_owned();
    let (_keep, end) = oneshot::channel();
    let role_of = match role.as_str() {
        "registry" => {
            let listen = Some("127.0.0.1:0".parse().unwrap());
            Role::Registry(DaemonOptions { listen, advertise: None, token, is_kept: true })
        }
        _ => Role::Member(Token::read(&token).unwrap()),
    };
    let room = match role.as_str() {
        "small" => Room::default().with_memory_bytes(SMALL_BYTES).with_folder(token_folder),
        _ => Room::default(),
    };
    let options = ServeOptions { name: role, pes: 1, speed: 1.0, room, role: role_of };
    serve::<All>(options, end, |_| println!("it is there")).unwrap();
}

struct Process(Child);

impl Process {
    fn start(role: &str, token: &Path) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "a_process_of_another_test", "--nocapture"]);
        command.env(ROLE, role).env(TOKEN, token).stdout(Stdio::piped());
        let mut process = Self(command.spawn().unwrap());
        let output = BufReader::new(process.0.stdout.take().unwrap());
        let mut lines = output.lines().map_while(Result::ok);
        assert!(lines.any(|line| line.contains("it is there")), "{role} should have begun");
        // The system ends a process that writes to a pipe without a reader.
        thread::spawn(move || lines.for_each(drop));
        process
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The process may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Grid {
    folder: tempfile::TempDir,
    registry: Option<Process>,
    servers: Vec<Process>,
}

impl Grid {
    fn new(servers: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut grid = Self { folder, registry: None, servers: Vec::new() };
        grid.registry = Some(Process::start("registry", &grid.token()));
        for name in servers {
            grid.join(name, &grid.token());
        }
        grid
    }

    fn join(&mut self, name: &str, token: &Path) {
        self.servers.push(Process::start(name, token));
    }

    fn token(&self) -> PathBuf {
        self.folder.path().join("grid.token")
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn remote(&self) -> Remote {
        Remote::new(Token::read(&self.token()).unwrap()).unwrap()
    }

    fn client(&self) -> Client {
        Client::new(Token::read(&self.token()).unwrap()).unwrap()
    }

    /// Waits until the registry lists the expected servers.
    async fn listed(&self, is_it: impl Fn(&[ListedServer]) -> bool) {
        let (client, begun) = (self.client(), Instant::now());
        while !client.list().await.is_ok_and(|listed| is_it(&listed)) {
            assert!(begun.elapsed() < LIMIT, "it should have happened");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

/// Awaits a future, with a time limit.
async fn within_limit<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(LIMIT, future).await.unwrap()
}

const COUNT: u64 = 100_000;

/// Adds vectors of the numbers from 0 on the servers. The client fetches only the sum of all
/// numbers. Returns this sum, and the number of bytes that the client kept.
async fn sum(remote: &Remote) -> Result<(u64, u64), RpcError> {
    let (mapper, dice) = (remote.mapper(), RandomMapping::new(3));
    let group = mapper.map(&dice, async |group| {
        let count = group.value(&COUNT)?;
        let (one,) = group.call(&FILL, (&count,));
        let (other,) = group.call(&FILL, (&count,));
        let (both,) = group.call(&ADD, (&one, &other));
        let (twice,) = group.call(&ADD, (&both, &both));
        let (sum,) = group.call(&SUM, (twice,));
        Ok((group.get(&sum).await?, group.held_bytes()))
    });
    group.await
}

/// Four times the sum of the numbers below `COUNT` (Gauss).
const SUM_OF_ALL: u64 = 4 * (COUNT * (COUNT - 1) / 2);

#[tokio::test]
async fn data_of_a_group_goes_from_server_to_server_and_the_client_gets_requested_results() {
    let grid = Grid::new(&["one", "other"]);

    let (sum, held) = within_limit(sum(&grid.remote())).await.unwrap();

    assert_eq!(sum, SUM_OF_ALL);
    assert!(held < 100, "{held} bytes: a number of the client, and its result");
}

#[tokio::test]
async fn a_failure_fails_dependent_calls_and_names_its_reason() {
    let grid = Grid::new(&["one", "other"]);
    let remote = grid.remote();
    let failed: Result<u64, RpcError> =
        within_limit(remote.mapper().map(&HeftC::default(), async |group| {
            let value = group.value(&1_u64)?;
            let (never,) = group.call(&REFUSE, (&value,));
            let (after,) = group.call(&FILL, (never,));
            let (beside,) = group.call(&FILL, (&value,));
            let (sum,) = group.call(&SUM, (&beside,));
            assert_eq!(group.get(&sum).await?, 0, "it does not depend on what failed");
            assert_eq!(group.get(&beside).await?, [0]);
            group.get(&after).await.map(|numbers| numbers.len() as u64)
        }))
        .await;

    let Err(RpcError::SessionFailed { reason }) = failed else { panic!("{failed:?}") };
    let names = ["one", "other"].map(|name| format!("`refuse` on `{name}/pe1`: never"));
    assert!(names.contains(&reason), "{reason}");
}

#[tokio::test]
async fn the_work_of_a_server_killed_during_a_group_is_repeated_by_another() {
    const NAMES: [&str; 3] = ["one", "other", "third"];
    let mut grid = Grid::new(&NAMES);
    let (remote, file) = (grid.remote(), grid.file("go"));
    let (mapper, dice) = (remote.mapper(), RandomMapping::new(1));
    within_limit(async {
        let group = mapper.map(&dice, async |group| {
            let count = group.value(&COUNT)?;
            let parts: Vec<_> = (0..6).map(|_| group.call(&FILL, (&count,)).0).collect();
            let (go,) = group.call(&HOLD, (group.value(&file)?, count));
            let (mut all,) = group.call(&FILL, (go,));
            for part in parts {
                (all,) = group.call(&ADD, (all, part));
            }
            let (sum,) = group.call(&SUM, (all,));
            group.get(&sum).await
        });
        let kill = async {
            let holder = loop {
                let holds = |name: &&str| file.with_extension(name).exists();
                if let Some(place) = NAMES.iter().position(holds) {
                    break place;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            };
            // The server's data and its current call are lost.
            drop(grid.servers.remove(holder));
            fs::write(&file, "").unwrap();
        };
        let (sum, ()) = tokio::join!(group, kill);
        assert_eq!(sum, Ok(7 * (COUNT * (COUNT - 1) / 2)));
    })
    .await;
    assert_eq!(within_limit(sum(&remote)).await.unwrap().0, SUM_OF_ALL, "on the remaining servers");
}

#[tokio::test]
async fn tasks_of_a_stuck_server_are_executed_by_others() {
    let grid = Grid::new(&["one", "stuck"]);
    let (remote, never) = (grid.remote(), grid.file("never"));
    let mapper = remote.mapper().with_straggler_policy(StragglerPolicy::StealAndCopy);

    let sum: u64 = within_limit(mapper.map(&HeftC::default(), async |group| {
        let (server, file) = (group.value(&"stuck".to_owned())?, group.value(&never)?);
        let mut results = Vec::new();
        for number in 0..8_u64 {
            let number = group.value(&number)?;
            results.push(group.call(&HOLD_ON, (&server, &file, number)).0);
        }
        let mut sum = 0;
        for result in &results {
            sum += group.get(result).await?;
        }
        Ok(sum)
    }))
    .await
    .unwrap();

    assert_eq!(sum, 28);
}

#[tokio::test]
async fn a_group_continues_without_its_registry_and_servers_find_the_next_one() {
    let mut grid = Grid::new(&["one", "other"]);
    let remote = grid.remote();
    within_limit(async {
        let (mapper, heuristic) = (remote.mapper(), HeftC::default());
        let group = mapper.map(&heuristic, async |group| {
            let count = group.value(&COUNT)?;
            let (numbers,) = group.call(&FILL, (&count,));
            group.run().await?;
            grid.registry = None;
            let (twice,) = group.call(&ADD, (&numbers, &numbers));
            let (sum,) = group.call(&SUM, (&twice,));
            assert_eq!(group.get(&sum).await?, SUM_OF_ALL / 2);

            grid.registry = Some(Process::start("registry", &grid.token()));
            grid.listed(|listed| listed.len() == 2).await;
            let (again,) = group.call(&SUM, (numbers,));
            group.get(&again).await
        });
        assert_eq!(group.await.unwrap(), SUM_OF_ALL / 4);
    })
    .await;
    // A new client can use the new registry.
    assert_eq!(within_limit(sum(&grid.remote())).await.unwrap().0, SUM_OF_ALL);
}

#[tokio::test]
async fn abandoned_calls_are_not_started() {
    let grid = Grid::new(&["one"]);
    let (go, never) = (grid.file("go"), grid.file("never"));
    within_limit(async {
        let arguments = |file: &Path| serde_json::to_string(&(file, 7)).unwrap();
        let call = async |file: &Path, timeout: Duration| {
            grid.client().call("hold", &arguments(file), timeout).await
        };
        let calls = async |count: u32| grid.listed(|listed| listed[0].calls == count).await;
        let mut first = Box::pin(call(&go, LIMIT));
        tokio::select! {
            _ = &mut first => panic!("its file does not exist yet"),
            () = calls(1) => {}
        }
        // Two calls wait behind the first: one of a caller that goes away, and one with a short
        // timeout.
        let away = call(&never, LIMIT);
        tokio::select! {
            _ = away => panic!("it cannot have begun"),
            _ = &mut first => panic!("its file does not exist yet"),
            () = calls(2) => {}
        }
        let late = call(&never, Duration::from_millis(100)).await.unwrap();
        assert_eq!(late, Err(RpcError::CommunicationFailed));
        // Both leave the queue while the server executes the first call.
        calls(1).await;

        fs::write(&go, "").unwrap();

        assert_eq!(first.await.unwrap(), Ok("[7]".to_owned()));
        let next = call(&go, LIMIT).await.unwrap();
        assert_eq!(next, Ok("[7]".to_owned()), "the calls with `never` were not started");
        calls(0).await;
    })
    .await;
}

#[tokio::test]
async fn a_waiting_caller_finds_the_next_registry() {
    let mut grid = Grid::new(&["one"]);
    let go = grid.file("go");
    let arguments = serde_json::to_string(&(&go, 7)).unwrap();
    let client = grid.client();
    let call = client.call("hold", &arguments, LIMIT);
    let restart = async {
        grid.listed(|listed| listed[0].calls == 1).await;
        grid.registry = None;
        grid.registry = Some(Process::start("registry", &grid.token()));
        // The server has found the registry, and has received the call again.
        grid.listed(|listed| listed.first().is_some_and(|server| server.calls == 1)).await;
        fs::write(&go, "").unwrap();
    };

    let (response, ()) = within_limit(async { tokio::join!(call, restart) }).await;

    assert_eq!(response.unwrap(), Ok("[7]".to_owned()));
}

#[tokio::test]
async fn links_between_servers_are_measured_and_listed() {
    let grid = Grid::new(&["one", "other"]);
    within_limit(grid.listed(|listed| {
        let is_known = |listed: &ListedServer| {
            listed.links.iter().any(|(_, link)| {
                // Both are on one machine, which may be busy.
                link.latency.duration() < Duration::from_secs(1) && link.bandwidth.is_some()
            })
        };
        listed.len() == 2 && listed.iter().all(is_known)
    }))
    .await;
}
