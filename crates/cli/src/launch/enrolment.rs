//! Accepts the tasks of Slurm that run nodes: one thread waits for their connections, and another
//! one serves each connection.

use super::admissions::Admissions;
use super::event::Event;
use super::task::{Connection, Task};
use super::unenrolled::{AllUnenrolled, Unenrolled};
use crate::task::{Frame, HELLO_BYTES_MAX, Hello};
use gridspan_runtime::net::{EnrolmentListener, EnrolmentSecret, Unsecured};
use gridspan_topology::NodeId;
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Maximum time for a connection to enrol.
const PATIENCE: Duration = Duration::from_secs(5);
/// Interval at which the accepting thread checks whether to end, or whether it may accept again.
const LOOK: Duration = Duration::from_millis(100);

/// The open port for tasks.
pub(super) struct Enrolment {
    shared: Arc<Shared>,
    port: u16,
}

struct Shared {
    listener: EnrolmentListener,
    expected: Mutex<Expected>,
    events: Sender<Event>,
    unenrolled: Arc<AllUnenrolled>,
    is_over: AtomicBool,
}

/// The tasks that may enrol.
#[derive(Default)]
struct Expected {
    admissions: Admissions,
    /// The task of each node, and the answer to its agent: the program, in JSON.
    tasks: BTreeMap<NodeId, (Arc<Task>, Vec<u8>)>,
}

impl Enrolment {
    /// Accepts tasks from now on.
    pub(super) fn start(listener: EnrolmentListener, events: Sender<Event>) -> io::Result<Self> {
        let port = listener.port()?;
        let (expected, unenrolled, is_over) = Default::default();
        let shared = Arc::new(Shared { listener, expected, events, unenrolled, is_over });
        let accepting = shared.clone();
        let accept = move || accept(&accepting);
        thread::Builder::new().name("enrolment".to_owned()).spawn(accept)?;
        Ok(Self { shared, port })
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// Expects the task of a node. The answer to its agent is this program.
    pub(super) fn await_task(&self, node: NodeId, task: Arc<Task>, program: Vec<u8>) {
        let mut expected = self.shared.lock();
        // A task of an older `srun` must not enrol as this one.
        expected.admissions.supersede(node);
        expected.tasks.insert(node, (task, program));
    }

    /// Lets one task on the host of each of these nodes enrol with this secret.
    pub(super) fn expect(&self, secret: EnrolmentSecret, nodes: &[(NodeId, &str)]) {
        self.shared.lock().admissions.expect(secret, nodes);
    }

    /// Refuses further tasks with this secret.
    pub(super) fn close(&self, secret: &EnrolmentSecret) {
        self.shared.lock().admissions.close(secret);
    }
}

impl Drop for Enrolment {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
    }
}

impl Shared {
    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    fn lock(&self) -> MutexGuard<'_, Expected> {
        self.expected.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Accepts connections until the launcher needs no more.
fn accept(shared: &Arc<Shared>) {
    while !shared.is_over() {
        match shared.listener.accept(LOOK) {
            Ok(None) => {}
            Ok(Some(connection)) => {
                while !shared.unenrolled.make_room(Instant::now()) && !shared.is_over() {
                    thread::sleep(LOOK);
                }
                if let Err(error) = begin(shared, connection) {
                    tracing::error!(%error, "cannot attend to a task");
                }
            }
            Err(error) => {
                // For example, too many files are open; the task tries again.
                tracing::error!(%error, "cannot accept a task");
                thread::sleep(LOOK);
            }
        }
    }
}

/// Starts a thread that serves a connection.
fn begin(shared: &Arc<Shared>, connection: Unsecured) -> io::Result<()> {
    let unenrolled = shared.unenrolled.add(connection.closer()?, Instant::now());
    let shared = shared.clone();
    let attend = move || attend(shared, unenrolled, connection);
    thread::Builder::new().name("task".to_owned()).spawn(attend).map(drop)
}

/// Serves a connection until it ends.
fn attend(shared: Arc<Shared>, unenrolled: Unenrolled, connection: Unsecured) {
    let enrolled = enrol(&shared, connection);
    // A running task needs neither.
    drop((shared, unenrolled));
    match enrolled {
        Ok(Some((task, connection))) => task.attend(connection),
        Ok(None) => {}
        Err(error) => tracing::debug!(%error, "a connection was not a task"),
    }
}

/// Lets a task enrol. Returns `None` if it is refused.
fn enrol(shared: &Shared, connection: Unsecured) -> io::Result<Option<(Arc<Task>, Connection)>> {
    let until = Instant::now() + PATIENCE;
    let stream = connection.secure(until)?;
    let said = Frame::read(&mut stream.reader(Some(until)), HELLO_BYTES_MAX)?;
    let Some(Frame::Hello(json)) = said else { return Err(io::ErrorKind::InvalidData.into()) };
    let hello: Hello = serde_json::from_slice(&json)?;
    let admitted = {
        let mut expected = shared.lock();
        match expected.admissions.admit(&hello) {
            Ok(node) => Ok((node, expected.tasks.get(&node).cloned())),
            Err(refusal) => Err((refusal, expected.admissions.free(&hello.secret))),
        }
    };
    let (node, task) = match admitted {
        Ok(admitted) => admitted,
        Err((refusal, free)) => {
            tracing::warn!(%refusal, "a task is refused");
            if let Some(event) = refusal.event(free) {
                // The launcher may have ended already.
                let _ = shared.events.send(event);
            }
            stream.write_all(&Frame::Refused(refusal.to_string()).to_bytes())?;
            // The agent closes the connection once it has read this.
            let _ = Frame::read(&mut stream.reader(Some(until)), 0);
            return Ok(None);
        }
    };
    let Some((task, program)) = task else { return Ok(None) };
    // The launcher must not get the key of a task that it no longer expects.
    let Some(connection) = task.connect(stream) else { return Ok(None) };
    match connection.stream.write_all(&Frame::Welcome(program).to_bytes()) {
        // The launcher may have ended already.
        Ok(()) => drop(shared.events.send(Event::Enrolled { node, key: hello.key })),
        // The task notices the end.
        Err(_) => connection.stream.shutdown(),
    }
    Ok(Some((task, connection)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::unenrolled::UNENROLLED_MAX;
    use gridspan_runtime::net::{Authority, EnrolmentToken, NodeKey};
    use std::net::{Ipv4Addr, TcpStream};
    use std::sync::mpsc::{Receiver, channel};

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(10)
    }

    /// An open port for the task of node 2 on host `n1`, and the token of its `srun`.
    fn enrolment() -> (Enrolment, EnrolmentToken, Receiver<Event>) {
        let (events, incoming) = channel();
        let authority = Authority::new("ring").unwrap();
        let listener = EnrolmentListener::bind(&authority).unwrap();
        let enrolment = Enrolment::start(listener, events.clone()).unwrap();
        let token = EnrolmentToken::new(EnrolmentSecret::new().unwrap(), &authority);
        let (task, _streams) = Task::new(NodeId(2), events).unwrap();
        enrolment.await_task(NodeId(2), task, b"program".to_vec());
        enrolment.expect(token.secret.clone(), &[(NodeId(2), "n1")]);
        (enrolment, token, incoming)
    }

    /// Enrols as this task of host `n1`, and returns the answer.
    fn answer(enrolment: &Enrolment, token: &EnrolmentToken, hello: &Hello) -> Option<Frame> {
        let address = (Ipv4Addr::LOCALHOST, enrolment.port()).into();
        let stream = token.connect(address, soon()).unwrap();
        let json = serde_json::to_vec(hello).unwrap();
        stream.write_all(&Frame::Hello(json).to_bytes()).unwrap();
        Frame::read(&mut stream.reader(Some(soon())), 1000).unwrap()
    }

    #[test]
    fn a_task_is_told_its_program_and_the_launcher_its_key() {
        let (enrolment, token, incoming) = enrolment();
        let key = NodeKey::new().unwrap().public();
        let hello = Hello::new(token.secret.clone(), (0, 0), "n1".to_owned(), key.clone());

        assert_eq!(answer(&enrolment, &token, &hello), Some(Frame::Welcome(b"program".to_vec())));

        let event = incoming.recv_timeout(Duration::from_secs(10)).unwrap();
        assert_eq!(event, Event::Enrolled { node: NodeId(2), key });
        let again = answer(&enrolment, &token, &hello);
        assert!(matches!(again, Some(Frame::Refused(_))), "{again:?}");
    }

    #[test]
    fn a_task_whose_place_another_process_has_taken_ends_the_job() {
        let (enrolment, token, incoming) = enrolment();
        let enrol = |task| {
            let key = NodeKey::new().unwrap().public();
            let hello = Hello::new(token.secret.clone(), (task, 0), "n1".to_owned(), key);
            answer(&enrolment, &token, &hello)
        };
        let next = || incoming.recv_timeout(Duration::from_secs(10)).unwrap();

        let impostor = enrol(7);
        assert!(matches!(impostor, Some(Frame::Welcome(_))), "{impostor:?}");
        let event = next();
        assert!(matches!(event, Event::Enrolled { node: NodeId(2), .. }), "{event:?}");
        let genuine = enrol(0);

        assert!(matches!(genuine, Some(Frame::Refused(_))), "{genuine:?}");
        // The connection of the impostor has ended, too.
        let is_end = |event: &Event| *event != Event::ChildrenChanged;
        let event = std::iter::repeat_with(next).find(is_end);
        assert_eq!(event, Some(Event::EnrolledTwice { node: NodeId(2) }));
    }

    #[test]
    fn a_task_that_another_srun_replaces_is_refused_without_harm() {
        let (enrolment, token, incoming) = enrolment();
        let (task, _streams) = Task::new(NodeId(2), channel().0).unwrap();
        enrolment.await_task(NodeId(2), task, b"program".to_vec());
        let key = NodeKey::new().unwrap().public();
        let hello = Hello::new(token.secret.clone(), (0, 0), "n1".to_owned(), key);

        let old = answer(&enrolment, &token, &hello);

        assert!(matches!(old, Some(Frame::Refused(_))), "{old:?}");
        assert_eq!(incoming.try_recv().ok(), None);
    }

    #[test]
    fn connections_that_say_nothing_or_nonsense_stop_no_task() {
        let (enrolment, token, _incoming) = enrolment();
        let address = (Ipv4Addr::LOCALHOST, enrolment.port());
        let silent: Vec<_> =
            (0..UNENROLLED_MAX + 6).map(|_| TcpStream::connect(address).unwrap()).collect();
        let stream = token.connect(address.into(), soon()).unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        let closed = Frame::read(&mut stream.reader(Some(soon())), 1000);
        assert!(closed.unwrap_or(None).is_none());

        let key = NodeKey::new().unwrap().public();
        let hello = Hello::new(token.secret.clone(), (0, 0), "n1".to_owned(), key);
        let answer = answer(&enrolment, &token, &hello);
        assert!(matches!(answer, Some(Frame::Welcome(_))), "{answer:?}");
        drop(silent);
    }
}
