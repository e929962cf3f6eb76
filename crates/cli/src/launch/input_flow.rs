//! Forwards the standard input of the launcher to processes that cannot inherit it: the process of
//! one node, or those of all nodes.
//!
//! A thread reads the standard input and sends it in control lines ([`gridspan::input`]), once the
//! processes have said that they take input. All get the same bytes, and the slowest one sets the
//! pace: the thread reads no more before each has room. For each process at most
//! [`INPUT_WINDOW_BYTES`] are on their way, or less if there are many processes. The thread does
//! not wait for processes that have ended or take no more. If the launcher starts another process
//! of a node, the new process gets the rest of the input and its end.

use super::line_queue::LineQueue;
use gridspan::input::{INPUT_PART_BYTES_MAX, INPUT_WINDOW_BYTES, InputLine};
use gridspan_topology::NodeId;
use std::collections::BTreeMap;
use std::io::{self, Read};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::Duration;

/// Time between two reads of a non-blocking input.
const PAUSE: Duration = Duration::from_millis(10);
/// Largest number of bytes on their way to all processes together, unless one part for each process
/// is more.
const ALL_BYTES_MAX: u64 = 64 << 20;

/// The flow of standard input to the present processes of nodes.
pub(super) struct InputFlow {
    state: Mutex<State>,
    changed: Condvar,
}

/// The flows to all nodes that get the input.
#[derive(Default)]
struct State {
    flows: BTreeMap<NodeId, Flow>,
    /// Whether nodes that start later get the rest of the input, too.
    is_for_all: bool,
    /// Largest number of bytes on their way to a process.
    window_bytes: u64,
}

/// The state of the flow to one process.
#[derive(Default)]
struct Flow {
    /// Number of the process of its node, from 1; 0 before the first one starts.
    number: u64,
    /// Lines for the process. Weak, so that the pipe to it closes when the owner drops the queue.
    lines: Weak<LineQueue>,
    /// Number of bytes sent to it.
    sent: u64,
    /// Number of bytes that it has taken; `None` until it says that it takes input.
    taken: Option<u64>,
    /// Whether it takes no more bytes, or has ended.
    is_closed: bool,
    /// Whether the end of the input was sent to it.
    is_ended: bool,
}

impl State {
    /// The flows to processes that may take more, including those that have not started yet.
    fn open(&mut self) -> impl Iterator<Item = &mut Flow> {
        self.flows.values_mut().filter(|flow| !flow.is_closed)
    }

    /// Whether there is an open process, and all open ones take this number of bytes now.
    fn has_room(&self, bytes: u64) -> bool {
        let mut open = self.flows.values().filter(|flow| !flow.is_closed).peekable();
        open.peek().is_some() && open.all(|flow| flow.has_room(bytes, self.window_bytes))
    }
}

impl Flow {
    /// Whether the process takes this number of bytes now.
    fn has_room(&self, bytes: u64, window_bytes: u64) -> bool {
        let takes = |taken: u64| self.sent.saturating_sub(taken) + bytes <= window_bytes;
        !self.is_closed && self.taken.is_some_and(takes)
    }

    /// Whether the process waits for the end of the input.
    fn lacks_end(&self) -> bool {
        !self.is_closed && !self.is_ended && self.taken.is_some()
    }

    fn tell(&self, line: &InputLine) {
        // The process may have ended.
        if let Some(lines) = self.lines.upgrade() {
            lines.tell(line.to_line());
        }
    }
}

impl InputFlow {
    /// A flow to this node only. No input is read before the node takes it; a spare node may start
    /// late, or never.
    pub(super) fn to_node(node: NodeId) -> Self {
        Self::new([node].into_iter(), false)
    }

    /// A flow to `members`, with which the job starts, and to all nodes that start later. No input
    /// is read before all members take it.
    pub(super) fn to_all(members: impl Iterator<Item = NodeId>) -> Self {
        Self::new(members, true)
    }

    fn new(nodes: impl Iterator<Item = NodeId>, is_for_all: bool) -> Self {
        let flows: BTreeMap<NodeId, Flow> = nodes.map(|node| (node, Flow::default())).collect();
        let each = ALL_BYTES_MAX / flows.len().max(1) as u64;
        let window_bytes = each.clamp(INPUT_PART_BYTES_MAX as u64, INPUT_WINDOW_BYTES);
        Self {
            state: Mutex::new(State { flows, is_for_all, window_bytes }),
            changed: Condvar::new(),
        }
    }

    /// Directs the input to a process that has just started, over its `lines`, if its node gets the
    /// input. The caller must do this before it sends the process the bundle of its node.
    pub(super) fn direct(&self, node: NodeId, lines: Weak<LineQueue>) {
        let mut state = self.lock();
        if state.is_for_all || state.flows.contains_key(&node) {
            let flow = state.flows.entry(node).or_default();
            let number = flow.number + 1;
            *flow = Flow { number, lines, ..Flow::default() };
            flow.tell(&InputLine::Begin(number));
        }
    }

    /// Records that a process of a node has taken this number of bytes, and whether it takes no
    /// more. Ignores earlier processes.
    pub(super) fn taken(&self, node: NodeId, number: u64, taken: u64, is_closed: bool) {
        let mut state = self.lock();
        if let Some(flow) = state.flows.get_mut(&node).filter(|flow| flow.number == number) {
            // A node that says that it has taken more than was sent does not get a larger window.
            flow.taken = Some(taken.min(flow.sent).max(flow.taken.unwrap_or(0)));
            flow.is_closed |= is_closed;
            self.changed.notify_all();
        }
    }

    /// Records that the present process of a node has ended, or that none starts, so that others do
    /// not wait for it.
    pub(super) fn ended(&self, node: NodeId) {
        if let Some(flow) = self.lock().flows.get_mut(&node) {
            flow.is_closed = true;
            self.changed.notify_all();
        }
    }

    /// Sends the bytes of a stream, and its end. Never returns, since another process may start as
    /// long as the launcher runs.
    pub(super) fn forward(&self, mut from: impl Read) {
        // If no process starts, the input must stay unread.
        drop(self.await_that(|state| state.has_room(1)));
        let mut buffer = vec![0; INPUT_PART_BYTES_MAX];
        loop {
            match from.read(&mut buffer) {
                Ok(0) => break,
                Ok(read) => self.send(&buffer[..read]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // Another process that shares the input may have made it non-blocking.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => thread::sleep(PAUSE),
                Err(error) => {
                    tracing::warn!(%error, "the standard input cannot be read any further");
                    break;
                }
            }
        }
        loop {
            let mut state = self.await_that(|state| state.flows.values().any(Flow::lacks_end));
            for flow in state.open().filter(|flow| flow.lacks_end()) {
                flow.tell(&InputLine::End);
                flow.is_ended = true;
            }
        }
    }

    fn send(&self, bytes: &[u8]) {
        let count = bytes.len() as u64;
        let mut state = self.await_that(|state| state.has_room(count));
        let part = InputLine::Part(bytes.to_vec());
        for flow in state.open() {
            flow.tell(&part);
            flow.sent += count;
        }
    }

    fn await_that(&self, is_so: impl Fn(&State) -> bool) -> MutexGuard<'_, State> {
        let waited = self.changed.wait_while(self.lock(), |state| !is_so(state));
        waited.unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;
    use std::sync::Arc;
    use std::sync::mpsc::{Receiver, RecvTimeoutError};

    /// Longest wait for a line.
    const LIMIT: Duration = Duration::from_secs(60);

    /// A process of node 0.
    struct Process {
        lines: Arc<LineQueue>,
        incoming: Receiver<String>,
    }

    /// Directs the input to another process of node 0.
    fn process(flow: &InputFlow) -> Process {
        process_of(NodeId(0), flow)
    }

    fn process_of(node: NodeId, flow: &InputFlow) -> Process {
        let (lines, incoming) = LineQueue::new(Arc::default());
        let process = Process { lines: Arc::new(lines), incoming };
        flow.direct(node, Arc::downgrade(&process.lines));
        process
    }

    fn to_first() -> Arc<InputFlow> {
        Arc::new(InputFlow::to_node(NodeId(0)))
    }

    fn next(process: &Process) -> InputLine {
        let line = process.incoming.recv_timeout(LIMIT).unwrap();
        InputLine::parse(line.trim_end().strip_prefix("input ").unwrap()).unwrap()
    }

    fn part(process: &Process) -> Vec<u8> {
        match next(process) {
            InputLine::Part(bytes) => bytes,
            other => panic!("{other:?}"),
        }
    }

    /// Forwards these bytes in a thread, which ends with this process.
    fn forward(flow: &Arc<InputFlow>, bytes: Vec<u8>) {
        let flow = flow.clone();
        thread::spawn(move || flow.forward(Cursor::new(bytes)));
    }

    fn assert_nothing(process: &Process) {
        let more = process.incoming.recv_timeout(Duration::from_millis(100));
        assert_eq!(more, Err(RecvTimeoutError::Timeout));
    }

    #[test]
    fn no_more_is_sent_than_the_process_has_room_for() {
        let flow = to_first();
        let all: Vec<u8> = (0..INPUT_WINDOW_BYTES * 2 + 5).map(|at| at as u8).collect();
        let process = process(&flow);
        assert_eq!(next(&process), InputLine::Begin(1));
        forward(&flow, all.clone());
        assert_nothing(&process);

        flow.taken(NodeId(0), 1, 0, false);
        let mut got = Vec::new();
        while (got.len() as u64) < INPUT_WINDOW_BYTES {
            got.extend(part(&process));
        }
        assert_eq!(got.len() as u64, INPUT_WINDOW_BYTES);
        assert_nothing(&process);
        while got.len() < all.len() {
            flow.taken(NodeId(0), 1, got.len() as u64, false);
            got.extend(part(&process));
        }

        assert!(got == all, "the bytes have come in order");
        flow.taken(NodeId(0), 1, got.len() as u64, false);
        assert_eq!(next(&process), InputLine::End);
        assert_nothing(&process);
    }

    /// A non-blocking input that has no bytes at the first read.
    struct Late(bool);

    impl Read for Late {
        fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
            match std::mem::replace(&mut self.0, true) {
                true => Cursor::new(b"late").read(to),
                false => Err(io::ErrorKind::WouldBlock.into()),
            }
        }
    }

    #[test]
    fn an_input_that_does_not_wait_is_read_later() {
        let flow = to_first();
        let process = process(&flow);
        assert_eq!(next(&process), InputLine::Begin(1));
        flow.taken(NodeId(0), 1, 0, false);
        thread::spawn(move || flow.forward(Late(false).take(4)));

        assert_eq!(part(&process), b"late");
        assert_eq!(next(&process), InputLine::End);
    }

    #[test]
    fn a_node_that_says_too_much_gets_no_more_ahead() {
        let flow = to_first();
        let process = process(&flow);
        assert_eq!(next(&process), InputLine::Begin(1));
        flow.taken(NodeId(0), 1, u64::MAX, false);
        forward(&flow, vec![7; INPUT_WINDOW_BYTES as usize + 1]);
        let mut got = 0;
        while got < INPUT_WINDOW_BYTES {
            got += part(&process).len() as u64;
        }
        assert_eq!(got, INPUT_WINDOW_BYTES);
        assert_nothing(&process);
    }

    #[test]
    fn another_process_gets_the_rest_and_the_end() {
        let flow = to_first();
        let first = process(&flow);
        assert_eq!(next(&first), InputLine::Begin(1));
        // It has ended before it took anything.
        let second = process(&flow);
        assert_eq!(next(&second), InputLine::Begin(2));
        forward(&flow, vec![7; INPUT_PART_BYTES_MAX * 2]);
        flow.taken(NodeId(0), 1, 0, false);
        assert_nothing(&second);
        flow.taken(NodeId(0), 2, 0, false);
        assert_eq!(part(&second).len() + part(&second).len(), INPUT_PART_BYTES_MAX * 2);
        assert_eq!(next(&second), InputLine::End);

        let third = process(&flow);
        assert_eq!(next(&third), InputLine::Begin(3));
        flow.taken(NodeId(0), 3, 0, false);

        assert_eq!(next(&third), InputLine::End);
        assert!(first.incoming.try_recv().is_err() && second.incoming.try_recv().is_err());
        let ends = Arc::downgrade(&first.lines);
        drop(first);
        assert!(ends.upgrade().is_none(), "nothing keeps the pipe of a process open");
    }

    #[test]
    fn a_process_that_takes_no_more_gets_no_more() {
        let flow = to_first();
        let process = process(&flow);
        assert_eq!(next(&process), InputLine::Begin(1));
        flow.taken(NodeId(0), 1, 0, true);
        forward(&flow, vec![7; 10]);
        assert_nothing(&process);
    }

    /// Forwards bytes to nodes 0 and 1, which have taken nothing yet.
    fn two_nodes(bytes: Vec<u8>) -> (Arc<InputFlow>, [Process; 2]) {
        let flow = Arc::new(InputFlow::to_all([NodeId(0), NodeId(1)].into_iter()));
        let processes = [NodeId(0), NodeId(1)].map(|node| process_of(node, &flow));
        for process in &processes {
            assert_eq!(next(process), InputLine::Begin(1));
        }
        forward(&flow, bytes);
        (flow, processes)
    }

    #[test]
    fn all_processes_get_all_bytes_at_the_pace_of_the_slowest() {
        let window = INPUT_WINDOW_BYTES as usize;
        let all: Vec<u8> = (0..window + 5).map(|at| at as u8).collect();
        let (flow, [fast, slow]) = two_nodes(all.clone());
        flow.taken(NodeId(0), 1, 0, false);
        assert_nothing(&fast);
        flow.taken(NodeId(1), 1, 0, false);
        let mut got = [Vec::new(), Vec::new()];
        while got[0].len() < window {
            got[0].extend(part(&fast));
        }

        // One process has taken all, and waits for the other.
        flow.taken(NodeId(0), 1, INPUT_WINDOW_BYTES, false);
        assert_nothing(&fast);
        while got[1].len() < window {
            got[1].extend(part(&slow));
        }
        flow.taken(NodeId(1), 1, INPUT_WINDOW_BYTES, false);
        got[0].extend(part(&fast));
        got[1].extend(part(&slow));

        assert!(got[0] == all && got[1] == all, "both have the bytes in order");
        assert_eq!((next(&fast), next(&slow)), (InputLine::End, InputLine::End));
    }

    #[test]
    fn a_process_that_ends_or_takes_no_more_does_not_stop_the_others() {
        for is_closed in [true, false] {
            let (flow, [first, second]) = two_nodes(vec![7; 10]);
            flow.taken(NodeId(0), 1, 0, false);
            assert_nothing(&first);
            match is_closed {
                true => flow.taken(NodeId(1), 1, 0, true),
                // It has not said anything, as if it had not started.
                false => flow.ended(NodeId(1)),
            }

            assert_eq!(part(&first), [7; 10]);
            assert_eq!(next(&first), InputLine::End);
            assert_nothing(&second);

            // A process that starts later gets the rest, which is only the end.
            let later = [NodeId(1), NodeId(2)].map(|node| (node, process_of(node, &flow)));
            for ((node, process), number) in later.into_iter().zip([2, 1]) {
                assert_eq!(next(&process), InputLine::Begin(number));
                flow.taken(node, number, 0, false);
                assert_eq!(next(&process), InputLine::End);
            }
        }
    }

    #[test]
    fn only_the_named_node_gets_an_input_that_is_not_for_all() {
        for (reader, other) in [(0, 1), (1, 0)].map(|(one, two)| (NodeId(one), NodeId(two))) {
            let flow = Arc::new(InputFlow::to_node(reader));
            let without = process_of(other, &flow);
            assert_nothing(&without);
            flow.ended(other);
            let process = process_of(reader, &flow);
            assert_eq!(next(&process), InputLine::Begin(1));
            forward(&flow, vec![7; 3]);
            flow.taken(reader, 1, 0, false);
            assert_eq!(part(&process), [7; 3]);
            assert_nothing(&without);
        }
    }

    #[test]
    fn a_spare_node_that_joins_late_gets_all_of_the_input() {
        let flow = Arc::new(InputFlow::to_node(NodeId(1)));
        let other = process_of(NodeId(0), &flow);
        forward(&flow, vec![7; 3]);
        // It does not start with the job.
        flow.ended(NodeId(1));
        assert_nothing(&other);

        let spare = process_of(NodeId(1), &flow);
        assert_eq!(next(&spare), InputLine::Begin(1));
        flow.taken(NodeId(1), 1, 0, false);

        assert_eq!(part(&spare), [7; 3]);
        assert_eq!(next(&spare), InputLine::End);
        assert_nothing(&other);
    }

    #[test]
    fn the_bytes_on_their_way_to_many_nodes_are_bounded() {
        let window = |nodes: u32| {
            let flow = InputFlow::to_all((0..nodes).map(NodeId));
            flow.lock().window_bytes
        };
        assert_eq!([window(2), window(256)], [INPUT_WINDOW_BYTES; 2]);
        assert_eq!(window(1024), 64 << 10);
        assert_eq!(window(100_000), INPUT_PART_BYTES_MAX as u64);
    }
}
