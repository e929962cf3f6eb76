//! Forwards an output stream of the node until it ends.
//!
//! A process that outlives the node can keep the stream open for ever. So after the end of the
//! node, forwarding is limited in time and bytes. The time that the launcher takes to read does not
//! count: a slow launcher loses no output, because the output of the node is in the pipe.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// Maximum number of bytes that are forwarded at once.
const READ_BYTES: usize = 32 << 10;
/// Total time for which the stream may be silent after the end of the node.
const DRAIN_MAX: Duration = Duration::from_secs(1);
/// Interval at which the silence is measured.
const LOOK: Duration = Duration::from_millis(20);
/// Number of bytes that may follow the end of the node: the capacity of the largest pipe of a user
/// without privileges.
const DRAIN_BYTES_MAX: usize = 1 << 20;

/// A stream that another thread forwards.
pub(crate) struct Output {
    /// Disconnected once that thread has ended.
    ended: Receiver<()>,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    /// Whether the thread is writing.
    is_busy: AtomicBool,
    /// Whether the node has ended.
    is_over: AtomicBool,
}

impl Output {
    /// Starts a thread that forwards the stream to `write`, until the stream ends or `write` fails.
    pub(crate) fn start(
        from: impl Read + Send + 'static,
        write: impl FnMut(&[u8]) -> io::Result<()> + Send + 'static,
    ) -> io::Result<Self> {
        let (open, ended) = channel::<()>();
        let state = Arc::new(State::default());
        let own = state.clone();
        let pass = move || {
            let _open = open;
            pass_on(from, write, &own);
        };
        thread::Builder::new().name("output".to_owned()).spawn(pass)?;
        Ok(Self { ended, state })
    }

    /// Waits until the output of the node, which has ended, is forwarded.
    pub(super) fn drain(&self) {
        self.drain_unless(|| false);
    }

    /// Like [`drain`](Self::drain), but waits no longer once `is_stopped` returns true.
    pub(crate) fn drain_unless(&self, mut is_stopped: impl FnMut() -> bool) {
        self.state.is_over.store(true, Ordering::SeqCst);
        let mut silence = Duration::ZERO;
        while silence < DRAIN_MAX && !is_stopped() {
            if self.ended.recv_timeout(LOOK) == Err(RecvTimeoutError::Disconnected) {
                return;
            }
            if !self.state.is_busy.load(Ordering::SeqCst) {
                silence += LOOK;
            }
        }
    }
}

fn pass_on(mut from: impl Read, mut write: impl FnMut(&[u8]) -> io::Result<()>, state: &State) {
    let mut buffer = vec![0; READ_BYTES];
    let mut late = 0;
    while late < DRAIN_BYTES_MAX {
        let read = match from.read(&mut buffer) {
            Ok(0) => return,
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => return,
        };
        state.is_busy.store(true, Ordering::SeqCst);
        if write(&buffer[..read]).is_err() {
            return;
        }
        state.is_busy.store(false, Ordering::SeqCst);
        if state.is_over.load(Ordering::SeqCst) {
            late += read;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Write, pipe};
    use std::sync::Mutex;
    use std::time::Instant;

    #[test]
    fn a_slow_launcher_loses_no_output_of_a_node_that_has_ended() {
        let (from, mut to) = pipe().unwrap();
        let passed = Arc::new(Mutex::new(Vec::new()));
        let all = passed.clone();
        let write = move |bytes: &[u8]| {
            thread::sleep(DRAIN_MAX * 3 / 2);
            all.lock().unwrap().extend_from_slice(bytes);
            Ok(())
        };
        let output = Output::start(from, write).unwrap();
        // More than is forwarded at once, and less than a pipe holds.
        let said = vec![b'x'; READ_BYTES + 1000];
        to.write_all(&said).unwrap();
        drop(to);

        output.drain();

        assert!(*passed.lock().unwrap() == said);
    }

    #[test]
    fn one_that_is_stopped_does_not_wait_for_a_reader_that_reads_nothing() {
        let (from, mut to) = pipe().unwrap();
        let (release, held) = channel::<()>();
        let (begun, is_begun) = channel();
        let write = move |_: &[u8]| {
            begun.send(()).unwrap();
            // It returns when the test ends.
            let _ = held.recv();
            Ok(())
        };
        let output = Output::start(from, write).unwrap();
        to.write_all(b"x").unwrap();
        is_begun.recv().unwrap();

        // Without the stop, the wait would not end.
        let mut looks = 0;
        output.drain_unless(|| {
            looks += 1;
            looks > 3
        });

        assert_eq!(looks, 4);
        drop(release);
    }

    #[test]
    fn a_process_that_is_left_behind_does_not_hold_the_agent() {
        let (from, _to) = pipe().unwrap();
        let begin = Instant::now();
        Output::start(from, |_| Ok(())).unwrap().drain();
        assert!(begin.elapsed() >= DRAIN_MAX, "silence");

        let passed = Arc::new(Mutex::new(0));
        let all = passed.clone();
        let write = move |bytes: &[u8]| {
            *all.lock().unwrap() += bytes.len();
            Ok(())
        };
        let begins = Arc::new(AtomicBool::new(false));
        let output = Output::start(Endless(begins.clone()), write).unwrap();
        output.state.is_over.store(true, Ordering::SeqCst);
        begins.store(true, Ordering::SeqCst);
        output.drain();
        let passed = *passed.lock().unwrap();
        assert!((DRAIN_BYTES_MAX..=DRAIN_BYTES_MAX + READ_BYTES).contains(&passed), "{passed}");
    }

    /// A stream that never ends once it has begun.
    struct Endless(Arc<AtomicBool>);

    impl Read for Endless {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            while !self.0.load(Ordering::SeqCst) {
                thread::sleep(Duration::from_millis(1));
            }
            Ok(buffer.len())
        }
    }
}
