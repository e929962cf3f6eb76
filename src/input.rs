//! The standard input of a node, if a launcher forwards it.
//!
//! A process that `ssh` or `srun` has started cannot inherit the standard input of the launcher.
//! Several processes that inherit it would each read a part of it. So the launcher sends the input
//! as [lines](InputLine) of its channels to the nodes, between other lines.
//!
//! # Start
//!
//! The launcher sends [`InputLine::Begin`] before the bundle of the node. The node makes a pipe its
//! standard input, before its main begins, and answers with [`Control::InputTaken`] of 0 bytes. The
//! launcher reads no input before this answer, so that a node that does not start consumes none.
//!
//! # Steady state
//!
//! The launcher sends parts, a thread writes them to the pipe, and the node says how many bytes it
//! has written. The launcher is never ahead by more than [`INPUT_WINDOW_BYTES`]. So a program that
//! reads slowly, or not at all, costs neither side more memory than that, and does not delay other
//! lines.
//!
//! A program may hold the lock of standard output while it waits for input. Control lines do not
//! wait for that lock; otherwise the program would wait for the launcher, and the launcher for the
//! control line.
//!
//! # End
//!
//! [`InputLine::End`] closes the pipe when all is written. If the program has closed its standard
//! input, the node says so, and the launcher sends no more.

use crate::control::Control;
use crate::variables::LAUNCHER;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use gridspan_runtime::Warning;
use gridspan_runtime::net::bootstrap::INPUT;
use std::io::{self, Write, pipe};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

/// Largest number of bytes that the launcher has sent and the node has not yet passed on: what a
/// link of 1 Gbit/s carries in 2 ms.
pub const INPUT_WINDOW_BYTES: u64 = 256 << 10;
/// Largest number of bytes of one line.
pub const INPUT_PART_BYTES_MAX: usize = 32 << 10;

const BEGIN: &str = "begin ";
const PART: &str = "part ";
const END: &str = "end";

/// A line about standard input, from the launcher to a node.
///
/// ```
/// use gridspan::input::InputLine;
///
/// let part = InputLine::Part(b"1 2 3\n".to_vec());
/// let line = part.to_line();
/// let text = line.trim_end().strip_prefix("input ").unwrap();
/// assert_eq!(InputLine::parse(text), Some(part));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InputLine {
    /// Input follows for this process. The launcher numbers the processes of a node from 1.
    Begin(u64),
    /// The next bytes.
    Part(Vec<u8>),
    /// There are no more bytes.
    End,
}

impl InputLine {
    /// Returns the line that the launcher writes.
    pub fn to_line(&self) -> String {
        match self {
            Self::Begin(number) => format!("{INPUT}{BEGIN}{number}\n"),
            Self::Part(bytes) => format!("{INPUT}{PART}{}\n", STANDARD.encode(bytes)),
            Self::End => format!("{INPUT}{END}\n"),
        }
    }

    /// Parses a line without its prefix and its end; `None` if this build knows no such line.
    pub fn parse(text: &str) -> Option<Self> {
        if let Some(number) = text.strip_prefix(BEGIN) {
            return number.parse().ok().map(Self::Begin);
        }
        match text.strip_prefix(PART) {
            Some(part) => STANDARD.decode(part).ok().map(Self::Part),
            None => (text == END).then_some(Self::End),
        }
    }
}

/// The standard input of this process, if a launcher forwards it.
#[derive(Default)]
pub(crate) struct ForwardedInput {
    open: Option<OpenInput>,
}

struct OpenInput {
    number: u64,
    /// Parts for the thread that writes them. The thread closes the pipe once this is dropped and
    /// it has written all of them.
    parts: Sender<Vec<u8>>,
    /// Number of bytes that wait for the thread.
    waiting: Arc<AtomicU64>,
}

impl ForwardedInput {
    /// Handles the text of a line, without waiting for the program to read.
    pub(crate) fn handle(&mut self, text: &str) {
        match InputLine::parse(text) {
            Some(InputLine::Begin(number)) => self.begin(number),
            Some(InputLine::Part(bytes)) => self.add(bytes),
            Some(InputLine::End) => self.open = None,
            None => self.give_up("the node cannot read a line of it"),
        }
    }

    fn begin(&mut self, number: u64) {
        match open(number) {
            Ok(open) => {
                self.open = Some(open);
                tell(number, 0, false);
            }
            Err(error) => {
                warn(&error.to_string());
                tell(number, 0, true);
            }
        }
    }

    fn add(&mut self, bytes: Vec<u8>) {
        let Some(open) = &self.open else { return };
        let added = bytes.len() as u64;
        let waiting = open.waiting.fetch_add(added, Ordering::SeqCst) + added;
        if waiting > INPUT_WINDOW_BYTES {
            let window = INPUT_WINDOW_BYTES >> 10;
            let reason = format!("the launcher has sent more than the window of {window} KiB");
            return self.give_up(&reason);
        }
        // The thread has ended if the program reads no more.
        let _ = open.parts.send(bytes);
    }

    fn give_up(&mut self, reason: &str) {
        if let Some(open) = self.open.take() {
            warn(&format!("{reason}; use launcher and node of one build"));
            tell(open.number, 0, true);
        }
    }
}

/// Makes a pipe the standard input of this process, and starts a thread that writes to it.
fn open(number: u64) -> io::Result<OpenInput> {
    if std::env::var_os(LAUNCHER).is_none() {
        return Err(io::Error::other("it is the channel to the launcher"));
    }
    let (reader, writer) = pipe()?;
    rustix::stdio::dup2_stdin(&reader)?;
    let (parts, incoming) = channel();
    let waiting = Arc::<AtomicU64>::default();
    let of_thread = waiting.clone();
    let write = move || {
        write_parts(&incoming, writer, &of_thread, |taken, is_closed| {
            tell(number, taken, is_closed);
        });
    };
    thread::Builder::new().name("standard-input".to_owned()).spawn(write)?;
    Ok(OpenInput { number, parts, waiting })
}

/// Writes parts until there are no more, or the reader has closed the pipe. Calls `taken` with the
/// number of bytes that wait no longer, and with whether the pipe is closed. If it is closed, some
/// bytes of the last part may be lost.
fn write_parts(
    parts: &Receiver<Vec<u8>>,
    mut to: impl Write,
    waiting: &AtomicU64,
    mut taken: impl FnMut(u64, bool),
) {
    let mut handled = 0;
    for part in parts {
        let is_closed = to.write_all(&part).is_err();
        handled += part.len() as u64;
        waiting.fetch_sub(part.len() as u64, Ordering::SeqCst);
        taken(handled, is_closed);
        if is_closed {
            return;
        }
    }
}

fn tell(number: u64, taken: u64, is_closed: bool) {
    Control::InputTaken { number, taken, is_closed }.tell();
}

fn warn(reason: &str) {
    let reason = format!("this node has no standard input: {reason}");
    Control::Warning(Warning::Process { reason }).tell();
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn lines_are_read_as_written() {
        let all = (0..=255).collect::<Vec<u8>>();
        for line in [InputLine::Begin(3), InputLine::Part(all), InputLine::End] {
            let text = line.to_line();
            let inside = text.strip_prefix("input ").unwrap().strip_suffix('\n').unwrap();
            assert!(!inside.contains('\n') && inside.is_ascii(), "{inside}");
            assert_eq!(InputLine::parse(inside), Some(line));
        }
        for other in ["", "begin", "begin -1", "part !", "end ", "stop"] {
            assert_eq!(InputLine::parse(other), None, "{other}");
        }
    }

    #[test]
    fn parts_are_written_in_order_and_the_end_comes_after_all() {
        let (reader, writer) = pipe().unwrap();
        let (send, parts) = channel();
        let waiting = Arc::new(AtomicU64::new(6));
        let (of_thread, told) = (waiting.clone(), channel());
        let written = thread::spawn(move || {
            write_parts(&parts, writer, &of_thread, |taken, is_closed| {
                told.0.send((taken, is_closed)).unwrap();
            });
        });
        for part in ["ab", "cd", "ef"] {
            send.send(part.as_bytes().to_vec()).unwrap();
        }
        drop(send);

        let text = io::read_to_string(reader).unwrap();

        written.join().unwrap();
        assert_eq!(text, "abcdef");
        assert_eq!(told.1.iter().collect::<Vec<_>>(), [(2, false), (4, false), (6, false)]);
        assert_eq!(waiting.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn an_input_without_a_reader_ends() {
        let (mut reader, writer) = pipe().unwrap();
        let (send, parts) = channel();
        send.send(b"first".to_vec()).unwrap();
        let waiting = Arc::new(AtomicU64::new(10));
        let (of_thread, told) = (waiting, channel());
        let written = thread::spawn(move || {
            write_parts(&parts, writer, &of_thread, |taken, is_closed| {
                told.0.send((taken, is_closed)).unwrap();
            });
        });
        reader.read_exact(&mut [0; 5]).unwrap();
        assert_eq!(told.1.recv().unwrap(), (5, false));
        drop(reader);
        send.send(b"other".to_vec()).unwrap();

        assert_eq!(told.1.recv().unwrap(), (10, true));
        written.join().unwrap();
        assert!(send.send(Vec::new()).is_err(), "the thread has ended");
    }
}
