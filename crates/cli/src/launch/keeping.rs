//! Keeps the bridge to a kept node open: one thread starts `ssh` and reads the frames of the
//! bridge; if `ssh` ends while the node runs, it starts `ssh` again, with longer and longer pauses.
//! Another thread writes frames, so that a connection that is stuck stalls nothing else. A third
//! one sends heartbeats, and ends a connection without answers to them.

use super::bridge_command::{BridgeCommand, await_frames, kill};
use super::bridge_state::{END_PATIENCE, Frame, Shared, Status};
use super::event::{Event, Exit};
use super::mirror::{Mirror, Origins};
use super::pacing::spread_of;
use super::reader::Reader;
use super::report::{Report, Stream};
use super::slots::{Slot, Slots};
use crate::small_thread::spawn;
use gridspan::keeper::{BridgeRefusal, BridgeTask, FromBridge, ToBridge, read_frame, write_frame};
use std::io::{self, BufReader};
use std::process::{Child, ChildStdin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// First pauses before a connection is opened again.
const PAUSES: [Duration; 5] = [
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(4),
    Duration::from_secs(8),
];
/// Time after which a connection counts as steady, so that the next pause is short again.
const STEADY: Duration = Duration::from_secs(10);
/// Interval between heartbeats.
const BEAT: Duration = Duration::from_secs(2);
/// Number of intervals without an answer after which a connection is given up: a lost packet or a
/// busy host costs a few seconds.
const SILENT_BEATS: u32 = 8;
/// The same before the first answer: `ssh` and the program may start slowly.
const SILENT_BEATS_AT_START: u32 = 30;

/// Keeps a bridge open.
pub(super) struct Keeping {
    pub(super) shared: Arc<Shared>,
    pub(super) command: BridgeCommand,
    /// The content of the first order.
    pub(super) content: Vec<u8>,
    pub(super) mirror: Mirror,
    pub(super) slots: Arc<Slots>,
}

/// How a connection ended.
enum End {
    /// `ssh` ended like this before the keeper answered.
    Unanswered(Exit),
    Refused(BridgeRefusal),
    Broken,
}

impl Keeping {
    /// Opens connections until the process of the node has ended, or the launcher wants no other.
    /// `notes` creates a reader of the standard error of `ssh`.
    pub(super) fn run(mut self, mut first: Option<Child>, notes: impl Fn() -> Reader) {
        let (mut tries, mut told) = (0, None);
        loop {
            let begun = Instant::now();
            let slot = match first {
                Some(_) => None,
                None => self.slots.take(self.command.entry.as_deref()),
            };
            let opened = first.take().map_or_else(|| self.command.open(), Ok);
            let end = match opened {
                Ok(ssh) => self.carry(ssh, slot, &notes),
                Err(error) => {
                    tracing::warn!(%error, "cannot start a bridge");
                    End::Unanswered(Exit::Unknown)
                }
            };
            if self.shared.is_settled() {
                return;
            }
            let is_start = self.command.order.task == BridgeTask::Start;
            match end {
                End::Unanswered(exit) if is_start => return self.shared.end(exit),
                End::Refused(BridgeRefusal::Other(launcher)) => {
                    let status = Status::TakenOver(launcher, Instant::now());
                    self.shared.lock().status = status;
                    return self.shared.tell(Event::BridgeChanged);
                }
                End::Refused(BridgeRefusal::Failed(reason)) => {
                    if told.as_ref() != Some(&reason) {
                        self.shared.warn(&format!("its host says: {reason}"));
                    }
                    told = Some(reason);
                    if is_start {
                        return self.shared.end(Exit::Code(1));
                    }
                }
                // The node is unknown, or this build does not know the reason.
                End::Refused(_) => return self.shared.end(Exit::Unknown),
                End::Broken if begun.elapsed() > STEADY || tries == 0 => {
                    let text = "the connection to its host broke; it is opened again";
                    self.shared.warn(text);
                    tries = 0;
                }
                End::Unanswered(_) | End::Broken => {}
            }
            self.command.order.task =
                next_task(&self.command.order.task, self.mirror.known_positions());
            self.content.clear();
            let pause = PAUSES.get(tries).copied().unwrap_or_else(|| self.shared.long_pause());
            if !self.shared.pause(pause + spread_of(self.shared.node)) {
                return;
            }
            tries += 1;
        }
    }

    /// Carries frames over a connection until it ends.
    fn carry(&mut self, mut ssh: Child, slot: Option<Slot>, notes: &impl Fn() -> Reader) -> End {
        let pipes = (ssh.stdin.take(), ssh.stdout.take(), ssh.stderr.take());
        let (Some(stdin), Some(stdout), Some(stderr)) = pipes else {
            return End::Unanswered(Exit::Unknown);
        };
        if !self.shared.begin(ssh) {
            return End::Unanswered(self.shared.finish());
        }
        let (send, frames) = channel();
        // This cannot fail: the receiver exists.
        let _ = send
            .send((ToBridge::Order(self.command.order.clone()), self.content.as_slice().into()));
        let pulse = Arc::new(Pulse::default());
        let (shared, origins) = (self.shared.clone(), self.mirror.origins());
        let (beats, of_beats) = (send.clone(), pulse.clone());
        let (mut reader, (noted, all_noted)) = (notes(), channel::<()>());
        let begun = spawn("frames", move || write_frames(stdin, &frames))
            .and_then(|()| spawn("beats", move || beat(&shared, &origins, &beats, &of_beats)))
            .and_then(|()| {
                spawn("notes", move || {
                    reader.pass_on(stderr);
                    drop(noted);
                })
            });
        let end = match begun {
            Ok(()) => self.read(BufReader::new(stdout), &send, &pulse, slot),
            Err(error) => {
                self.shared.warn(&format!("cannot read from its bridge: {error}"));
                Some(End::Broken)
            }
        };
        pulse.is_over.store(true, Ordering::Release);
        drop(send);
        let exit = self.shared.finish();
        // The messages of `ssh` may explain its end. The wait has a limit, since a process that
        // `ssh` has started may keep the stream open.
        let _ = all_noted.recv_timeout(END_PATIENCE);
        end.unwrap_or(End::Unanswered(exit))
    }

    /// Reads the frames of a bridge. Returns how the connection ended; `None` if the exit of `ssh`
    /// tells it.
    fn read(
        &mut self,
        mut from: BufReader<impl io::Read>,
        frames: &Sender<Frame>,
        pulse: &Pulse,
        mut slot: Option<Slot>,
    ) -> Option<End> {
        match await_frames(&mut from) {
            Ok(Ok(())) => {}
            Ok(Err(printed)) => {
                for line in printed.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
                    let (node, stream) = (self.shared.node, Stream::Stdout);
                    let report = Report::Output { node, stream, text: line.to_vec() };
                    self.shared.outlets.reports.push_waiting(report, line.len());
                }
                return None;
            }
            Err(_) => return None,
        }
        let mut end = None;
        while let Ok(Some((frame, content))) = read_frame(&mut from) {
            pulse.is_heard.store(true, Ordering::Release);
            match frame {
                FromBridge::Attends(attendance) => {
                    if let Err(error) = self.mirror.begin(&attendance) {
                        self.shared.warn(&format!("cannot copy what it prints: {error}"));
                        return Some(End::Broken);
                    }
                    end = Some(End::Broken);
                    slot = None;
                    pulse.has_answered.store(true, Ordering::Release);
                    self.shared.attend(&attendance, frames);
                }
                FromBridge::Refuses(refusal) => return Some(End::Refused(refusal)),
                FromBridge::Output(_) if !self.shared.takes_output() => {}
                FromBridge::Output(stream) => {
                    if let Err(error) = self.mirror.append(stream, &content) {
                        // Nothing is lost: the bridge sends the output again.
                        self.shared.warn(&format!("cannot copy what it prints: {error}"));
                        return Some(End::Broken);
                    }
                }
                FromBridge::Taken(number) => self.shared.take(number),
                FromBridge::Saved(number) => {
                    self.shared.tell(Event::Saved { node: self.shared.node, number });
                }
                FromBridge::Ended(exit) => self.shared.end(exit.into()),
                // The node does not depend on frames that this build does not know.
                _ => {}
            }
        }
        drop(slot);
        end
    }
}

/// Returns the task of the bridge that follows one with this task. `known`: the positions up to
/// which the streams of the node are copied, if a keeper has said where the copies begin in them.
fn next_task(task: &BridgeTask, known: Option<[u64; 2]>) -> BridgeTask {
    match (task, known) {
        (_, Some(from)) => BridgeTask::Attend { from: Some(from) },
        // The keeper has noted where the output of the process begins that it has started.
        (BridgeTask::Start, None) => BridgeTask::Attend { from: None },
        (task, None) => task.clone(),
    }
}

/// The heartbeats of a connection.
#[derive(Default)]
struct Pulse {
    /// Whether a frame has arrived since the last beat.
    is_heard: AtomicBool,
    /// Whether the keeper has accepted the launcher.
    has_answered: AtomicBool,
    is_over: AtomicBool,
}

/// Reports regularly how much of the output was read, and ends a connection that is silent.
fn beat(shared: &Shared, origins: &Origins, frames: &Sender<Frame>, pulse: &Pulse) {
    let mut silent = 0;
    loop {
        thread::sleep(BEAT);
        if pulse.is_over.load(Ordering::Acquire) {
            return;
        }
        silent = if pulse.is_heard.swap(false, Ordering::AcqRel) { 0 } else { silent + 1 };
        let has_answered = pulse.has_answered.load(Ordering::Acquire);
        let most = if has_answered { SILENT_BEATS } else { SILENT_BEATS_AT_START };
        if silent >= most {
            // The thread that reads notices it.
            shared.lock().ssh.iter().for_each(kill);
            return;
        }
        if let Some(read) = origins.read_so_far().filter(|_| has_answered)
            && frames.send((ToBridge::Read(read), Arc::default())).is_err()
        {
            return;
        }
    }
}

/// Writes frames until the connection ends.
fn write_frames(mut to: ChildStdin, frames: &Receiver<Frame>) {
    for (frame, content) in frames {
        if write_frame(&mut to, &frame, &content).is_err() {
            // The thread that reads notices it.
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bridge_that_has_not_answered_does_not_change_where_the_next_one_begins() {
        let attend = |from| BridgeTask::Attend { from };
        for task in [attend(None), attend(Some([3, 4])), BridgeTask::Start] {
            assert_eq!(next_task(&task, Some([7, 0])), attend(Some([7, 0])));
        }
        // Another machine has no copies yet, and would begin at 0.
        assert_eq!(next_task(&attend(None), None), attend(None));
        assert_eq!(next_task(&attend(Some([3, 4])), None), attend(Some([3, 4])));
        assert_eq!(next_task(&BridgeTask::Start, None), attend(None));
    }
}
