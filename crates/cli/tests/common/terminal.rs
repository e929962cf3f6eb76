//! A pseudo-terminal in which gridctl runs, and what it shows.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::{Errno, read, write};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{
    Action, ControlModes, InputModes, LocalModes, OutputModes, Winsize, tcflow, tcgetattr,
    tcsetwinsize,
};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Longest time of each wait.
pub const TERMINAL_LIMIT: Duration = Duration::from_secs(60);
/// What a program sends to show the alternate screen, and to leave it.
pub const ALTERNATE: [&str; 2] = ["\u{1b}[?1049h", "\u{1b}[?1049l"];

const COLUMNS: usize = 80;
const ROWS: usize = 24;

/// The modes of a terminal.
#[derive(Debug, PartialEq, Eq)]
pub struct Modes {
    pub input: InputModes,
    pub output: OutputModes,
    pub control: ControlModes,
    pub local: LocalModes,
}

/// A terminal of 80 columns and 24 rows.
pub struct Terminal {
    /// The side of the user.
    master: OwnedFd,
    /// The side of programs. While it is open, the terminal keeps its modes.
    slave: OwnedFd,
    /// What programs have sent to it.
    bytes: Vec<u8>,
}

/// A program in a terminal. It is killed at the end of a test that fails.
pub struct Started(pub Child);

impl Drop for Started {
    fn drop(&mut self) {
        // The process has ended already if the test succeeded.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Started {
    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.0.id() as i32).unwrap();
        kill_process(pid, signal).unwrap();
    }
}

impl Terminal {
    /// Opens a terminal. Where the system has none, prints that and returns `None`.
    pub fn open() -> Option<Self> {
        Self::new()
            .inspect_err(|error| println!("skipped: there is no pseudo-terminal: {error}"))
            .ok()
    }

    fn new() -> Result<Self, Errno> {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
        grantpt(&master)?;
        unlockpt(&master)?;
        let name = ptsname(&master, Vec::<u8>::new())?;
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let slave = open(name.as_c_str(), flags, Mode::empty())?;
        let (ws_row, ws_col) = (ROWS as u16, COLUMNS as u16);
        tcsetwinsize(&slave, Winsize { ws_row, ws_col, ws_xpixel: 0, ws_ypixel: 0 })?;
        Ok(Self { master, slave, bytes: Vec::new() })
    }

    /// Starts gridctl in the terminal, as the leader of a session: gridctl asks the terminal of its
    /// session for the size, and the end of the terminal is a signal to that leader.
    pub fn start(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Started {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let side = || Stdio::from(self.slave.try_clone().unwrap());
        let mut command = Command::new("setsid");
        command.args(["--ctty", env!("CARGO_BIN_EXE_gridctl")]).args(arguments);
        command.env_clear().env("PATH", path).envs(variables.iter().copied());
        command.stdin(side()).stdout(side()).stderr(side());
        Started(command.spawn().expect("util-linux has `setsid`"))
    }

    /// The modes that programs have set.
    pub fn modes(&self) -> Modes {
        let found = tcgetattr(&self.slave).unwrap();
        Modes {
            input: found.input_modes,
            output: found.output_modes,
            control: found.control_modes,
            local: found.local_modes,
        }
    }

    /// Sends keys, as the user does.
    pub fn press(&self, keys: &str) {
        assert_eq!(write(&self.master, keys.as_bytes()), Ok(keys.len()));
    }

    /// Takes no more output: programs that write wait.
    pub fn stop_output(&self) {
        tcflow(&self.slave, Action::OOff).unwrap();
    }

    /// Waits until a line of the screen contains `text`.
    pub fn await_text(&mut self, text: &str) {
        self.await_line(text, |line| line.contains(text));
    }

    /// Waits until a line of the screen begins with `begin`.
    pub fn await_beginning(&mut self, begin: &str) {
        self.await_line(begin, |line| line.starts_with(begin));
    }

    fn await_line(&mut self, wanted: &str, is_it: impl Fn(&str) -> bool) {
        let begin = Instant::now();
        while !self.screen().iter().any(|line| is_it(line)) {
            let shown = || self.screen().join("\n");
            assert!(begin.elapsed() < TERMINAL_LIMIT, "`{wanted}` should be on\n{}", shown());
            self.take();
        }
    }

    /// Waits until the program has ended, and takes what it has sent until then.
    pub fn await_end(&mut self, started: &mut Started) -> ExitStatus {
        let begin = Instant::now();
        loop {
            self.take();
            if let Some(status) = started.0.try_wait().unwrap() {
                while self.take() {}
                return status;
            }
            let shown = || self.screen().join("\n");
            assert!(begin.elapsed() < TERMINAL_LIMIT, "it should have ended, with\n{}", shown());
        }
    }

    /// What programs have sent so far, with the sequences that move the cursor.
    pub fn sent(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }

    /// Takes what programs have sent, after waiting for it for up to 50 ms. Returns false if that
    /// is nothing. A program may wait until its output is taken.
    fn take(&mut self) -> bool {
        let patience = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
        let mut ready = [PollFd::new(&self.master, PollFlags::IN)];
        if !matches!(poll(&mut ready, Some(&patience)), Ok(1)) {
            return false;
        }
        let mut buffer = [0_u8; 4096];
        let taken = read(&self.master, &mut buffer).unwrap_or(0);
        self.bytes.extend_from_slice(&buffer[..taken]);
        taken > 0
    }

    /// The lines of the screen. Of the sequences, only those that move the cursor to a position
    /// count.
    fn screen(&self) -> Vec<String> {
        let mut cells = vec![[' '; COLUMNS]; ROWS];
        let (mut row, mut column) = (0_usize, 0_usize);
        for (at, part) in self.sent().split("\u{1b}[").enumerate() {
            let text = match part.find(|letter: char| letter.is_ascii_alphabetic()) {
                // The text before the first sequence.
                _ if at == 0 => part,
                Some(end) => {
                    if part[end..].starts_with('H') {
                        // Positions count from one, which is also what a missing number means.
                        let mut numbers = part[..end].split(';').map(|number| {
                            number.parse::<usize>().map_or(0, |number| number.saturating_sub(1))
                        });
                        row = numbers.next().unwrap_or(0);
                        column = numbers.next().unwrap_or(0);
                    }
                    &part[end + 1..]
                }
                // The last sequence has not come whole.
                None => "",
            };
            for letter in text.chars() {
                if let Some(cell) = cells.get_mut(row).and_then(|line| line.get_mut(column)) {
                    *cell = letter;
                }
                column += 1;
            }
        }
        let line = |cells: &[char; COLUMNS]| cells.iter().collect::<String>().trim_end().to_owned();
        cells.iter().map(line).collect()
    }
}
