//! Forwards the standard input of the launcher to a process of node 0 that cannot inherit it.
//!
//! A thread reads the standard input and sends it in lines ([`gridspan::input`]), once the process
//! has said that it takes input, and at most [`INPUT_WINDOW_BYTES`] ahead of it. If the launcher
//! starts another process as node 0, that gets the rest of the input and its end.

use super::line_queue::LineQueue;
use gridspan::input::{INPUT_PART_BYTES_MAX, INPUT_WINDOW_BYTES, InputLine};
use std::io::{self, Read};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::Duration;

/// Time between two reads of a non-blocking input.
const PAUSE: Duration = Duration::from_millis(10);

/// The flow of standard input to the present process of node 0.
#[derive(Default)]
pub(super) struct InputFlow {
    state: Mutex<Flow>,
    changed: Condvar,
}

/// The state of the flow to one process.
#[derive(Default)]
struct Flow {
    /// Number of the process, from 1.
    number: u64,
    /// Lines for the process. Weak, because the pipe to it must close when others drop them.
    lines: Weak<LineQueue>,
    /// Number of bytes sent to it.
    sent: u64,
    /// Number of bytes that it has taken; `None` until it says that it takes input.
    taken: Option<u64>,
    /// Whether it takes no more bytes.
    is_closed: bool,
    /// Whether the end of the input was sent to it.
    is_ended: bool,
}

impl Flow {
    /// Whether the process takes this number of bytes now.
    fn has_room(&self, bytes: u64) -> bool {
        let takes = |taken: u64| self.sent.saturating_sub(taken) + bytes <= INPUT_WINDOW_BYTES;
        !self.is_closed && self.taken.is_some_and(takes)
    }

    fn tell(&self, line: &InputLine) {
        // The process may have ended.
        if let Some(lines) = self.lines.upgrade() {
            lines.tell(line.to_line());
        }
    }
}

impl InputFlow {
    /// Directs the input to a process that has just started, by its `lines`. The caller sends the
    /// bundle to the process afterwards.
    pub(super) fn direct(&self, lines: Weak<LineQueue>) {
        let mut state = self.lock();
        let number = state.number + 1;
        *state = Flow { number, lines, ..Flow::default() };
        state.tell(&InputLine::Begin(number));
    }

    /// Records that a process has taken this number of bytes, and whether it takes no more. Ignores
    /// earlier processes.
    pub(super) fn taken(&self, number: u64, taken: u64, is_closed: bool) {
        let mut state = self.lock();
        if state.number == number {
            // A node that says that it has taken more than was sent does not get a larger window.
            state.taken = Some(taken.min(state.sent).max(state.taken.unwrap_or(0)));
            state.is_closed |= is_closed;
            self.changed.notify_all();
        }
    }

    /// Sends the bytes of a stream, and its end. Never returns, since another process may start as
    /// long as the launcher runs.
    pub(super) fn forward(&self, mut from: impl Read) {
        // Read nothing before a process takes input: it may not start.
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
            let mut state = self.await_that(|state| state.has_room(0) && !state.is_ended);
            state.tell(&InputLine::End);
            state.is_ended = true;
        }
    }

    fn send(&self, bytes: &[u8]) {
        let count = bytes.len() as u64;
        let mut state = self.await_that(|state| state.has_room(count));
        state.tell(&InputLine::Part(bytes.to_vec()));
        state.sent += count;
    }

    fn await_that(&self, is_so: impl Fn(&Flow) -> bool) -> MutexGuard<'_, Flow> {
        let waited = self.changed.wait_while(self.lock(), |state| !is_so(state));
        waited.unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, Flow> {
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

    /// Directs the input to another process.
    fn process(flow: &InputFlow) -> Process {
        let (lines, incoming) = LineQueue::new(Arc::default());
        let process = Process { lines: Arc::new(lines), incoming };
        flow.direct(Arc::downgrade(&process.lines));
        process
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
        let flow = Arc::<InputFlow>::default();
        let all: Vec<u8> = (0..INPUT_WINDOW_BYTES * 2 + 5).map(|at| at as u8).collect();
        let process = process(&flow);
        assert_eq!(next(&process), InputLine::Begin(1));
        forward(&flow, all.clone());
        assert_nothing(&process);

        flow.taken(1, 0, false);
        let mut got = Vec::new();
        while (got.len() as u64) < INPUT_WINDOW_BYTES {
            got.extend(part(&process));
        }
        assert_eq!(got.len() as u64, INPUT_WINDOW_BYTES);
        assert_nothing(&process);
        while got.len() < all.len() {
            flow.taken(1, got.len() as u64, false);
            got.extend(part(&process));
        }

        assert!(got == all, "the bytes have come in order");
        flow.taken(1, got.len() as u64, false);
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
        let flow = Arc::<InputFlow>::default();
        let process = process(&flow);
        assert_eq!(next(&process), InputLine::Begin(1));
        flow.taken(1, 0, false);
        thread::spawn(move || flow.forward(Late(false).take(4)));

        assert_eq!(part(&process), b"late");
        assert_eq!(next(&process), InputLine::End);
    }

    #[test]
    fn a_node_that_says_too_much_gets_no_more_ahead() {
        let flow = Arc::<InputFlow>::default();
        let process = process(&flow);
        assert_eq!(next(&process), InputLine::Begin(1));
        flow.taken(1, u64::MAX, false);
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
        let flow = Arc::<InputFlow>::default();
        let first = process(&flow);
        assert_eq!(next(&first), InputLine::Begin(1));
        // It has ended before it took anything.
        let second = process(&flow);
        assert_eq!(next(&second), InputLine::Begin(2));
        forward(&flow, vec![7; INPUT_PART_BYTES_MAX * 2]);
        flow.taken(1, 0, false);
        assert_nothing(&second);
        flow.taken(2, 0, false);
        assert_eq!(part(&second).len() + part(&second).len(), INPUT_PART_BYTES_MAX * 2);
        assert_eq!(next(&second), InputLine::End);

        let third = process(&flow);
        assert_eq!(next(&third), InputLine::Begin(3));
        flow.taken(3, 0, false);

        assert_eq!(next(&third), InputLine::End);
        assert!(first.incoming.try_recv().is_err() && second.incoming.try_recv().is_err());
        let ends = Arc::downgrade(&first.lines);
        drop(first);
        assert!(ends.upgrade().is_none(), "nothing keeps the pipe of a process open");
    }

    #[test]
    fn a_process_that_takes_no_more_gets_no_more() {
        let flow = Arc::<InputFlow>::default();
        let process = process(&flow);
        assert_eq!(next(&process), InputLine::Begin(1));
        flow.taken(1, 0, true);
        forward(&flow, vec![7; 10]);
        assert_nothing(&process);
    }
}
