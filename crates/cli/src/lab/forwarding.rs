//! The loop that moves packets between the devices and the router, and handles signals.

use super::router::{MTU, Router};
use super::signal_pipes::SignalPipes;
use gridspan_topology::Time;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::setpriority_process;
use rustix::thread::set_current_timer_slack;
use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::ops::ControlFlow;
use std::time::Instant;

/// Maximum number of packets that are read from a device in one turn.
const BATCH: usize = 64;
/// The highest priority of setpriority(2).
const PRIORITY: i32 = -20;

/// Forwards packets between the devices of the hosts, in the order of the router's hosts, until
/// `attend` returns `Break` for a signal.
///
/// # Errors
///
/// If reading from a device, or waiting, fails.
pub(super) fn forward<T>(
    router: &mut Router,
    devices: &[File],
    signals: &SignalPipes,
    mut attend: impl FnMut(i32) -> ControlFlow<T>,
) -> io::Result<T> {
    be_punctual();
    let began = Instant::now();
    let now = || Time::ZERO + began.elapsed();
    let of_devices = devices.iter().map(|device| PollFd::new(device, PollFlags::IN));
    let mut polled: Vec<PollFd<'_>> = of_devices.chain(signals.polled()).collect();
    loop {
        while let Some(due) = router.poll_transmit(now()) {
            // A device drops a packet that it cannot take, as a network card does.
            let _ = rustix::io::write(&devices[due.to], &due.bytes);
        }
        let patience = router.poll_timeout().map(|due| due.since(now()));
        // A timeout that is too long for the system counts as none.
        let timeout = patience.and_then(|patience| Timespec::try_from(patience).ok());
        match poll(&mut polled, timeout.as_ref()) {
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(errno) => return Err(errno.into()),
        }
        let (of_devices, of_signals) = polled.split_at(devices.len());
        for (host, device) in devices.iter().enumerate() {
            if !of_devices[host].revents().is_empty() {
                read_packets(device, |packet| router.handle_packet(now(), host, packet))?;
            }
        }
        for (position, pipe) in of_signals.iter().enumerate() {
            if !pipe.revents().is_empty()
                && let ControlFlow::Break(end) = attend(signals.take(position)?)
            {
                return Ok(end);
            }
        }
    }
}

/// Reads packets that a host has sent through its device.
fn read_packets(device: &File, mut handle: impl FnMut(&[u8])) -> io::Result<()> {
    let mut packet = [0_u8; MTU];
    for _ in 0..BATCH {
        match rustix::io::read(device, packet.as_mut_slice()) {
            // From now on, `poll` would always report the device as ready.
            Ok(0) => {
                let text = "a device of the lab has ended";
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, text));
            }
            Ok(bytes) => handle(&packet[..bytes]),
            Err(Errno::AGAIN) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

/// Reduces the delay of timers of this thread, as far as the system allows it. By default the
/// system wakes threads up to 50 µs late, to wake several at once.
fn be_punctual() {
    let _ = set_current_timer_slack(NonZeroU64::new(1));
    // Only root may set the priority.
    let _ = setpriority_process(None, PRIORITY);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_has_ended_is_an_error() {
        // It is always ready, and has no bytes.
        let device = File::open("/dev/null").unwrap();
        let read = read_packets(&device, |packet| panic!("{packet:?}"));
        assert_eq!(read.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
