//! Notices that the process at the other end of a connection, or the host there, has ended without
//! closing the connection.

use gridspan_runtime::net::SecureStream;
use std::io::{self, Read};
use std::time::{Duration, Instant};

/// Interval at which both sides send heartbeats.
pub(crate) const BEAT: Duration = Duration::from_secs(5);
/// Number of intervals without a byte after which the connection counts as ended. That is two
/// minutes: a user may stop a launcher with Ctrl-Z, and Slurm may suspend tasks, for a shorter
/// time.
const SILENT_BEATS_MAX: u32 = 24;

/// Reads from a connection. Fails with [`io::ErrorKind::TimedOut`] once nothing has come for two
/// minutes.
pub(crate) struct Watched<'a> {
    stream: &'a SecureStream,
    beat: Duration,
}

impl<'a> Watched<'a> {
    pub(crate) fn new(stream: &'a SecureStream) -> Self {
        Self { stream, beat: BEAT }
    }
}

impl Read for Watched<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        // The time for which this process itself was stopped counts as one interval.
        for _ in 0..SILENT_BEATS_MAX {
            match self.stream.reader(Some(Instant::now() + self.beat)).read(to) {
                Err(error) if error.kind() == io::ErrorKind::TimedOut => {}
                read => return read,
            }
        }
        Err(io::ErrorKind::TimedOut.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::Frame;
    use crate::task::fixtures::connection;
    use std::thread;

    #[test]
    fn a_silent_connection_ends_and_one_with_signs_of_life_does_not() {
        let (launcher, agent) = connection();
        let beat = Duration::from_millis(20);
        let begin = Instant::now();
        let mut from = Watched { stream: &agent, beat };

        let silence = Frame::read(&mut from, 100).unwrap_err();

        assert_eq!(silence.kind(), io::ErrorKind::TimedOut);
        assert!(begin.elapsed() >= beat * SILENT_BEATS_MAX);
        thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..2 * SILENT_BEATS_MAX {
                    thread::sleep(beat);
                    launcher.write_all(&Frame::Alive.to_bytes()).unwrap();
                }
                launcher.write_all(&Frame::Signal(15).to_bytes()).unwrap();
            });
            for _ in 0..2 * SILENT_BEATS_MAX {
                assert_eq!(Frame::read(&mut from, 100).unwrap(), Some(Frame::Alive));
            }
            assert_eq!(Frame::read(&mut from, 100).unwrap(), Some(Frame::Signal(15)));
        });
    }
}
