//! A node keeps running when its bridge ends, and the next bridge attends to it. The tests have no
//! harness, since the node and its bridges run this program, too.
#![allow(missing_docs, clippy::unwrap_used)]

use gridspan::embed;
use gridspan::keeper::{
    Attendance, BRIDGE_BEGINS, BRIDGE_VERSION, BridgeOrder, BridgeRefusal, BridgeTask, FromBridge,
    KeptNode, LauncherId, NodeExit, NodeSignal, ToBridge, read_frame, write_frame,
};
use gridspan::prelude::*;
use gridspan::topology::GridSpec;
use gridspan_runtime::net::Authority;
use gridspan_runtime::net::bootstrap::{Addresses, issue, listening_address};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio};
use std::thread;
use std::time::Duration;

/// Time limit of all tests together.
const LIMIT: Duration = Duration::from_secs(240);

fn job() -> Job {
    Job::new("kept").main(async |_grid: Grid| {
        println!("main is done");
        Ok(())
    })
}

/// The state folder of a host, which is removed at the end.
struct Host(PathBuf);

impl Host {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("gridspan-{name}-{}", std::process::id()));
        // An earlier test may have left it.
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    /// The folder that the keeper of the node uses.
    fn folder(&self) -> PathBuf {
        self.0.join("gridspan/kept-1.a1.5/b-2")
    }

    /// Starts a bridge for the launcher of an epoch.
    fn bridge(&self, epoch: u64, task: BridgeTask) -> Bridge {
        self.limited_bridge(epoch, task, u64::MAX)
    }

    /// Starts a bridge that limits the files of the node.
    fn limited_bridge(&self, epoch: u64, task: BridgeTask, log_limit: u64) -> Bridge {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .env("GRIDSPAN_DRIVER", "node")
            .env("GRIDSPAN_DETACHED", "bridge")
            .env("XDG_STATE_HOME", &self.0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let to = child.stdin.take().unwrap();
        let mut from = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        from.read_line(&mut line).unwrap();
        assert_eq!(line, BRIDGE_BEGINS);
        let order = BridgeOrder {
            version: BRIDGE_VERSION,
            launcher: LauncherId { epoch, name: format!("launcher {epoch}") },
            job: "kept-1.a1.5".to_owned(),
            node: "b-2".to_owned(),
            log_limit,
            task,
        };
        let mut bridge = Bridge { child, to, from };
        bridge.send(&ToBridge::Order(order), b"{}");
        bridge
    }

    fn look(&self) -> Result<(KeptNode, Vec<u8>), BridgeRefusal> {
        self.bridge(0, BridgeTask::Look).until(|frame, content| match frame {
            FromBridge::Kept(kept) => Some(Ok((kept.clone(), content.to_vec()))),
            FromBridge::Refuses(refusal) => Some(Err(refusal.clone())),
            _ => None,
        })
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The launcher's end of a bridge.
struct Bridge {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Bridge {
    fn send(&mut self, frame: &ToBridge, content: &[u8]) {
        write_frame(&mut self.to, frame, content).unwrap();
    }

    /// Reads frames until `wanted` returns a value for one.
    fn until<T>(&mut self, wanted: impl Fn(&FromBridge, &[u8]) -> Option<T>) -> T {
        loop {
            let (frame, content) = read_frame(&mut self.from).unwrap().expect("more frames");
            if let Some(found) = wanted(&frame, &content) {
                return found;
            }
        }
    }

    fn attendance(&mut self) -> Attendance {
        self.until(|frame, _| match frame {
            FromBridge::Attends(attendance) => Some(*attendance),
            other => panic!("{other:?}"),
        })
    }

    fn taken(&mut self, number: u64) {
        self.until(|frame, _| (*frame == FromBridge::Taken(number)).then_some(()));
    }

    /// Reads the node's standard output until it contains `wanted`.
    fn printed(&mut self, wanted: &str) -> String {
        self.printed_on(0, wanted)
    }

    fn printed_on(&mut self, stream: usize, wanted: &str) -> String {
        let mut all = String::new();
        while !all.contains(wanted) {
            let output = FromBridge::Output(stream);
            all += &self.until(|frame, content| {
                (*frame == output).then(|| String::from_utf8_lossy(content).into_owned())
            });
        }
        all
    }

    fn ended(&mut self) -> NodeExit {
        self.until(|frame, _| match frame {
            FromBridge::Ended(exit) => Some(*exit),
            _ => None,
        })
    }

    /// Whether the bridge has ended.
    fn is_over(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn is_alive(process: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

fn await_end(process: u32) {
    while is_alive(process) {
        thread::sleep(Duration::from_millis(5));
    }
}

fn bundle() -> String {
    let bundles = issue(&Authority::new("kept").unwrap(), &GridSpec::single(1)).unwrap();
    bundles[0].to_line().unwrap()
}

fn a_node_outlives_its_bridge_and_another_launcher_attends_to_it() {
    let host = Host::new("outlives");
    assert_eq!(host.look().unwrap_err(), BridgeRefusal::Unknown);
    let mut first = host.bridge(1, BridgeTask::Start);
    let process = first.attendance().process;
    first.send(&ToBridge::Line(1), bundle().as_bytes());
    let printed = first.printed("listening");
    first.send(&ToBridge::Save(1), b"state");
    first.until(|frame, _| (*frame == FromBridge::Saved(1)).then_some(()));
    let read = printed.len() as u64;
    first.send(&ToBridge::Read([read, 0]), b"");
    first.until(|frame, _| (*frame == FromBridge::Alive).then_some(()));
    let (kept, state) = host.look().unwrap();
    assert!(kept.runs && kept.attended_ms.unwrap() < 60_000 && state == b"state");

    drop(first);

    assert!(is_alive(process));
    let (kept, _) = host.look().unwrap();
    assert!(kept.runs && kept.attended_ms.is_none());
    let mut second = host.bridge(3, BridgeTask::Attend { from: None });
    let attendance = second.attendance();
    assert_eq!((attendance.process, attendance.taken), (process, 1));
    assert_eq!(attendance.from, [read, 0]);
    let mut again = host.bridge(3, BridgeTask::Attend { from: Some([0, 0]) });
    assert_eq!(again.attendance().from, [0, 0]);
    assert_eq!(again.printed(&printed), printed);
    assert!(second.is_over(), "a bridge replaces the one before");
    let address = printed.lines().find_map(listening_address).unwrap();
    let line = Addresses(vec![address]).to_line().unwrap();
    // A launcher that does not know that the node took the first line sends it again.
    again.send(&ToBridge::Line(1), b"nonsense\n");
    again.taken(1);
    again.send(&ToBridge::Line(2), line.as_bytes());
    assert!(again.printed("main is done").contains("main is done"));
    assert_eq!(again.ended(), NodeExit::Unknown, "another bridge has started it");
    assert!(!is_alive(process));
    again.send(&ToBridge::Forget, b"");
    again.child.wait().unwrap();
    assert!(!host.0.join("gridspan/kept-1.a1.5").exists());
}

fn a_launcher_of_a_smaller_epoch_is_refused_and_writes_nothing() {
    let host = Host::new("epochs");
    let mut first = host.bridge(1, BridgeTask::Start);
    let process = first.attendance().process;
    first.send(&ToBridge::Line(1), bundle().as_bytes());
    first.taken(1);
    let accepted = host.bridge(2, BridgeTask::Accept).until(|frame, _| match frame {
        FromBridge::Kept(kept) => Some(kept.launcher.epoch),
        _ => None,
    });
    assert_eq!(accepted, 2);

    let refusal = |task| {
        host.bridge(1, task).until(|frame, _| match frame {
            FromBridge::Refuses(BridgeRefusal::Other(other)) => Some(other.epoch),
            other => panic!("{other:?}"),
        })
    };
    assert_eq!(refusal(BridgeTask::Attend { from: None }), 2);
    assert_eq!(refusal(BridgeTask::Start), 2);
    first.child.wait().unwrap();
    assert!(is_alive(process));

    let mut second = host.bridge(2, BridgeTask::Attend { from: None });
    second.attendance();
    second.send(&ToBridge::Signal(NodeSignal::Kill), b"");
    second.ended();
    await_end(process);
}

fn another_process_takes_the_place_of_one_that_runs() {
    let host = Host::new("again");
    let mut first = host.bridge(1, BridgeTask::Start);
    let process = first.attendance().process;
    first.send(&ToBridge::Line(1), bundle().as_bytes());
    let printed = first.printed("listening");

    let mut second = host.bridge(1, BridgeTask::Start);

    let attendance = second.attendance();
    assert!(!is_alive(process) && is_alive(attendance.process));
    assert_eq!((attendance.from[0], attendance.taken), (printed.len() as u64, 0));
    // A node that has not yet got its first line ends together with its bridge.
    drop(second);
    await_end(attendance.process);
    let mut third = host.bridge(1, BridgeTask::Attend { from: None });
    third.attendance();
    assert_eq!(third.ended(), NodeExit::Unknown);
    third.send(&ToBridge::Line(1), b"no node reads it\n");
    third.taken(1);
}

fn a_node_that_cannot_join_ends_with_its_exit_code() {
    let host = Host::new("wrong");
    let mut bridge = host.bridge(1, BridgeTask::Start);
    bridge.send(&ToBridge::Line(1), b"nonsense\n");
    bridge.printed_on(1, "the bundle is malformed");
    assert_eq!(bridge.ended(), NodeExit::Code(2));
    assert!(host.folder().exists(), "until the launcher forgets it");
}

fn output_that_was_read_is_freed_on_the_host_except_for_its_last_part() {
    let host = Host::new("limit");
    let mut bridge = host.limited_bridge(1, BridgeTask::Start, 8);
    bridge.attendance();
    bridge.send(&ToBridge::Line(1), bundle().as_bytes());
    let printed = bridge.printed("listening");
    let out = host.folder().join("out");
    let read = |bridge: &mut Bridge, until: usize| {
        bridge.send(&ToBridge::Read([until as u64, 0]), b"");
        bridge.until(|frame, _| (*frame == FromBridge::Alive).then_some(()));
        fs::read(&out).unwrap()[..printed.len()].to_vec()
    };

    assert_eq!(read(&mut bridge, 15), printed.as_bytes(), "too little to free anything");
    let kept = read(&mut bridge, 20);

    assert_eq!((&kept[..12], &kept[12..]), (&[0; 12][..], &printed.as_bytes()[12..]));
    bridge.send(&ToBridge::Signal(NodeSignal::Kill), b"");
    bridge.ended();
}

fn main() -> ExitCode {
    if let Some(ended) = embed::node(job()) {
        return ended;
    }
    if !cfg!(target_os = "linux") {
        println!("skipped: keepers need Linux");
        return ExitCode::SUCCESS;
    }
    thread::spawn(|| {
        thread::sleep(LIMIT);
        println!("the tests should have ended");
        std::process::exit(1);
    });
    let tests: [(&str, fn()); 5] = [
        ("outlives", a_node_outlives_its_bridge_and_another_launcher_attends_to_it),
        ("epochs", a_launcher_of_a_smaller_epoch_is_refused_and_writes_nothing),
        ("again", another_process_takes_the_place_of_one_that_runs),
        ("wrong", a_node_that_cannot_join_ends_with_its_exit_code),
        ("limit", output_that_was_read_is_freed_on_the_host_except_for_its_last_part),
    ];
    let filter = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    for (name, test) in tests {
        if filter.as_ref().is_none_or(|filter| name.contains(filter.as_str())) {
            test();
            println!("{name}: ok");
        }
    }
    ExitCode::SUCCESS
}
