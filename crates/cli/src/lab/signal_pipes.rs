//! Signals as bytes in pipes, one pipe for each signal, so that one `poll` waits for them and for
//! packets.

use rustix::event::{PollFd, PollFlags};
use signal_hook::low_level::pipe::register;
use std::io::{self, PipeReader, pipe};

/// The pipes of the signals that are watched.
pub(super) struct SignalPipes {
    pipes: Vec<(i32, PipeReader)>,
}

impl SignalPipes {
    /// Begins to watch these signals, which then have no other effect.
    pub(super) fn watch(signals: &[i32]) -> io::Result<Self> {
        let watch = |&signal: &i32| {
            let (reader, writer) = pipe()?;
            register(signal, writer)?;
            Ok::<_, io::Error>((signal, reader))
        };
        Ok(Self { pipes: signals.iter().map(watch).collect::<io::Result<_>>()? })
    }

    /// Returns what to poll for, in the order of the signals.
    pub(super) fn polled(&self) -> impl Iterator<Item = PollFd<'_>> {
        self.pipes.iter().map(|(_, pipe)| PollFd::new(pipe, PollFlags::IN))
    }

    /// Returns the signal at a position, whose pipe has bytes, and removes them.
    pub(super) fn take(&self, position: usize) -> io::Result<i32> {
        let (signal, pipe) = &self.pipes[position];
        // A signal that arrives now leaves another byte, which may be read here.
        rustix::io::read(pipe, &mut [0_u8; 64])?;
        Ok(*signal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{Timespec, poll};
    use rustix::io::Errno;
    use rustix::process::{Signal, getpid, kill_process};
    use signal_hook::consts::{SIGUSR1, SIGUSR2};

    #[test]
    fn a_signal_makes_its_pipe_ready_until_it_is_taken() {
        let signals = SignalPipes::watch(&[SIGUSR2, SIGUSR1]).unwrap();
        let ready = |patience: Timespec| {
            let mut polled: Vec<_> = signals.polled().collect();
            while let Err(errno) = poll(&mut polled, Some(&patience)) {
                assert_eq!(errno, Errno::INTR);
            }
            polled.iter().map(|one| !one.revents().is_empty()).collect::<Vec<_>>()
        };
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        assert_eq!(ready(at_once), [false, false]);

        // Two signals may count as one.
        kill_process(getpid(), Signal::USR1).unwrap();
        kill_process(getpid(), Signal::USR1).unwrap();

        let patience = Timespec { tv_sec: 10, tv_nsec: 0 };
        assert_eq!(ready(patience), [false, true]);
        assert_eq!(signals.take(1).unwrap(), SIGUSR1);
    }
}
