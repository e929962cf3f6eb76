//! The launcher's side of a task of Slurm that runs a node: its connection, once there is one.
//!
//! A task is awaited from the start of its `srun` until its agent has enrolled. Until then, its
//! input is queued. Its output goes through two pipes, so that the launcher reads it like that of a
//! process on this machine.

use super::event::{Event, Exit};
use crate::task::{BEAT, Frame, TO_LAUNCHER_BYTES_MAX, Watched};
use gridspan_runtime::net::SecureStream;
use gridspan_topology::NodeId;
use rustix::process::Signal;
use signal_hook::consts::SIGKILL;
use std::io::{self, PipeReader, PipeWriter, Write, pipe};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// A task, awaited or connected.
pub(super) struct Task {
    node: NodeId,
    orders: Sender<Frame>,
    events: Sender<Event>,
    state: Mutex<State>,
}

enum State {
    Awaited {
        /// Frames for the agent.
        orders: Receiver<Frame>,
        /// Pipes for its standard output and standard error.
        streams: [PipeWriter; 2],
    },
    Connected {
        stream: Arc<SecureStream>,
        /// Whether the launcher has ended the connection.
        is_killed: bool,
    },
    /// The node or the connection has ended like this.
    Ended(Exit),
    /// The task ended like this before its agent enrolled.
    NotEnrolled(Exit),
}

/// The connection to an agent that has enrolled.
pub(super) struct Connection {
    pub(super) stream: Arc<SecureStream>,
    /// Frames for the agent.
    orders: Receiver<Frame>,
    /// Pipes for its standard output and standard error.
    streams: [PipeWriter; 2],
}

impl Task {
    /// Awaits the task of a node. Also returns the pipes from which its output is read.
    pub(super) fn new(
        node: NodeId,
        events: Sender<Event>,
    ) -> io::Result<(Arc<Self>, [PipeReader; 2])> {
        let ((out, to_out), (err, to_err)) = (pipe()?, pipe()?);
        let (send, orders) = channel();
        let state = Mutex::new(State::Awaited { orders, streams: [to_out, to_err] });
        Ok((Arc::new(Self { node, orders: send, events, state }), [out, err]))
    }

    /// Passes on input, signals and output until the connection has ended.
    pub(super) fn attend(&self, connection: Connection) {
        let Connection { stream, orders, streams } = connection;
        let exit = match write(&stream, orders, BEAT) {
            Ok(()) => self.receive(&stream, streams),
            Err(error) => {
                tracing::error!(%error, "cannot write to a task");
                None
            }
        };
        // The agent keeps its side open until then, so that no output is lost.
        stream.shutdown();
        let mut state = self.lock();
        let is_killed = matches!(*state, State::Connected { is_killed: true, .. });
        let lost = if is_killed { Exit::Signal(SIGKILL) } else { Exit::Unknown };
        *state = State::Ended(exit.unwrap_or(lost));
        drop(state);
        // The launcher may have ended already.
        let _ = self.events.send(Event::ChildrenChanged);
    }

    /// Connects the task with its agent; [`attend`](Self::attend) must follow. Ends the connection,
    /// and returns `None`, if the task is not awaited any more.
    pub(super) fn connect(&self, stream: SecureStream) -> Option<Connection> {
        let stream = Arc::new(stream);
        let mut state = self.lock();
        if !matches!(*state, State::Awaited { .. }) {
            drop(state);
            stream.shutdown();
            return None;
        }
        let connected = State::Connected { stream: stream.clone(), is_killed: false };
        match std::mem::replace(&mut *state, connected) {
            State::Awaited { orders, streams } => Some(Connection { stream, orders, streams }),
            _ => None,
        }
    }

    pub(super) fn node(&self) -> NodeId {
        self.node
    }

    /// Whether its agent has yet to enrol.
    pub(super) fn is_awaited(&self) -> bool {
        matches!(*self.lock(), State::Awaited { .. })
    }

    /// Whether the task ended before its agent enrolled.
    pub(super) fn is_given_up(&self) -> bool {
        matches!(*self.lock(), State::NotEnrolled(_))
    }

    /// Receives frames from the agent. Returns how the node has ended, if the agent reports it.
    fn receive(&self, stream: &SecureStream, streams: [PipeWriter; 2]) -> Option<Exit> {
        let [mut out, mut err] = streams;
        let mut from = Watched::new(stream);
        loop {
            let passed = match Frame::read(&mut from, TO_LAUNCHER_BYTES_MAX) {
                Ok(Some(Frame::Stdout(bytes))) => out.write_all(&bytes),
                Ok(Some(Frame::Stderr(bytes))) => err.write_all(&bytes),
                Ok(Some(Frame::Leaving)) => {
                    // The launcher may have ended already.
                    let _ = self.events.send(Event::Leaving { node: self.node });
                    Ok(())
                }
                Ok(Some(Frame::Alive)) => Ok(()),
                Ok(Some(Frame::Exited(code))) => return Some(Exit::Code(code)),
                Ok(Some(Frame::Killed(signal))) => return Some(Exit::Signal(signal)),
                Ok(Some(_) | None) => return None,
                Err(error) => Err(error),
            };
            if let Err(error) = passed {
                tracing::debug!(%error, node = self.node.0, "the connection to a task has ended");
                return None;
            }
        }
    }

    /// Ends an awaited task with this exit, since its `srun` has ended.
    pub(super) fn end_awaited(&self, exit: Exit) {
        let mut state = self.lock();
        if matches!(*state, State::Awaited { .. }) {
            *state = State::NotEnrolled(exit);
        }
    }

    /// How the node has ended, once it has.
    pub(super) fn exit(&self) -> Option<Exit> {
        match *self.lock() {
            State::Ended(exit) | State::NotEnrolled(exit) => Some(exit),
            _ => None,
        }
    }

    /// Sends a signal to the node. SIGKILL ends the connection, and with it agent and node. A task
    /// that is asked to end before it has enrolled counts as ended.
    pub(super) fn signal(&self, signal: Signal) {
        let ends = signal == Signal::KILL || signal == Signal::TERM;
        let mut state = self.lock();
        match &mut *state {
            State::Awaited { .. } if ends => {
                *state = State::NotEnrolled(Exit::Signal(signal.as_raw()));
            }
            State::Connected { stream, is_killed } if signal == Signal::KILL => {
                *is_killed = true;
                stream.shutdown();
            }
            // If the task has ended, nothing reads the signal.
            _ => drop(self.orders.send(Frame::Signal(signal.as_raw()))),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Starts a thread that writes to an agent, and sends heartbeats at this interval.
fn write(stream: &Arc<SecureStream>, orders: Receiver<Frame>, beat: Duration) -> io::Result<()> {
    let stream = stream.clone();
    let write = move || {
        loop {
            let frame = match orders.recv_timeout(beat) {
                Ok(frame) => frame,
                Err(RecvTimeoutError::Timeout) => Frame::Alive,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            if stream.write_all(&frame.to_bytes()).is_err() {
                return;
            }
        }
    };
    thread::Builder::new().name("orders".to_owned()).spawn(write).map(drop)
}

/// Writes lines to a task, each in one call of `write`.
pub(super) struct TaskInput(pub(super) Arc<Task>);

impl Write for TaskInput {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let sent = self.0.orders.send(Frame::Input(line.to_vec()));
        sent.map_err(|_| io::ErrorKind::BrokenPipe)?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::fixtures::connection;
    use std::io::Read;

    fn text(mut from: PipeReader) -> String {
        let mut text = String::new();
        from.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn a_task_gets_what_was_written_before_and_passes_on_its_output_and_its_end() {
        let (events, incoming) = channel();
        let (task, [out, err]) = Task::new(NodeId(3), events).unwrap();
        TaskInput(task.clone()).write_all(b"bundle\n").unwrap();
        task.signal(Signal::USR1);
        let (launcher, agent) = connection();
        let attends = thread::spawn({
            let task = task.clone();
            move || task.attend(task.connect(launcher).unwrap())
        });

        let mut from = agent.reader(None);
        let read: Vec<Frame> =
            (0..2).map(|_| Frame::read(&mut from, 100).unwrap().unwrap()).collect();
        assert_eq!(
            read,
            [Frame::Input(b"bundle\n".to_vec()), Frame::Signal(Signal::USR1.as_raw())]
        );
        let said = [
            Frame::Stdout(b"one\n".to_vec()),
            Frame::Stderr(b"two\n".to_vec()),
            Frame::Leaving,
            Frame::Exited(3),
        ];
        said.iter().for_each(|frame| agent.write_all(&frame.to_bytes()).unwrap());

        attends.join().unwrap();
        assert_eq!((text(out).as_str(), text(err).as_str()), ("one\n", "two\n"));
        assert_eq!(task.exit(), Some(Exit::Code(3)));
        let expected = [Event::Leaving { node: NodeId(3) }, Event::ChildrenChanged];
        assert_eq!(incoming.try_iter().collect::<Vec<_>>(), expected);
        assert!(
            Frame::read(&mut from, 100).unwrap_or(None).is_none(),
            "the launcher has closed it"
        );
    }

    #[test]
    fn an_agent_gets_signs_of_life_between_orders() {
        let (launcher, agent) = connection();
        let (send, orders) = channel();
        write(&Arc::new(launcher), orders, Duration::from_millis(20)).unwrap();
        let mut from = agent.reader(None);
        let mut next = || Frame::read(&mut from, 100).unwrap();

        assert_eq!(next(), Some(Frame::Alive));
        send.send(Frame::Signal(15)).unwrap();
        let order = std::iter::repeat_with(&mut next).find(|frame| *frame != Some(Frame::Alive));

        assert_eq!(order, Some(Some(Frame::Signal(15))));
        assert_eq!(next(), Some(Frame::Alive));
    }

    #[test]
    fn a_connection_that_ends_without_a_reason_is_the_unknown_end_of_its_node() {
        for (is_killed, expected) in [(false, Exit::Unknown), (true, Exit::Signal(9))] {
            let (task, [out, _err]) = Task::new(NodeId(0), channel().0).unwrap();
            let (launcher, agent) = connection();
            let attends = thread::spawn({
                let task = task.clone();
                move || task.attend(task.connect(launcher).unwrap())
            });
            agent.write_all(&Frame::Stdout(b"it\n".to_vec()).to_bytes()).unwrap();
            // The task is connected once output has arrived.
            let mut first = [0; 3];
            let mut out = out;
            out.read_exact(&mut first).unwrap();
            match is_killed {
                true => task.signal(Signal::KILL),
                false => agent.shutdown(),
            }
            attends.join().unwrap();
            assert_eq!(task.exit(), Some(expected));
            assert!(!task.is_given_up());
        }
    }

    #[test]
    fn an_awaited_task_ends_with_its_srun_and_refuses_a_late_connection() {
        let (task, [out, err]) = Task::new(NodeId(0), channel().0).unwrap();
        assert!(task.is_awaited());
        task.end_awaited(Exit::NotStarted);
        task.end_awaited(Exit::Code(0));
        assert!(!task.is_awaited() && task.is_given_up());
        assert_eq!(task.exit(), Some(Exit::NotStarted));
        assert_eq!((text(out).as_str(), text(err).as_str()), ("", ""), "its streams have ended");
        let (launcher, agent) = connection();
        assert!(task.connect(launcher).is_none());
        assert!(Frame::read(&mut agent.reader(None), 100).unwrap_or(None).is_none());
        assert_eq!(task.exit(), Some(Exit::NotStarted));
        assert!(TaskInput(task).write_all(b"late\n").is_err());

        let (task, [out, _err]) = Task::new(NodeId(0), channel().0).unwrap();
        task.signal(Signal::TERM);
        assert_eq!((task.exit(), text(out).as_str()), (Some(Exit::Signal(15)), ""));
        assert!(task.is_given_up());
    }
}
