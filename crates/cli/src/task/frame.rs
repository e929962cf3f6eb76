//! The frames between the agent of a task and the launcher: a byte for the kind, the length in four
//! bytes with the lowest first, and the content.

use std::io::{self, Read};

/// Longest content for an agent, in bytes: more than the longest line of a launcher.
pub(crate) const TO_AGENT_BYTES_MAX: usize = 65 << 20;
/// Longest content for the launcher, in bytes: more than an agent reads at once.
pub(crate) const TO_LAUNCHER_BYTES_MAX: usize = 64 << 10;

const HEAD_BYTES: usize = 5;

/// A message between an agent and the launcher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Frame {
    /// To the launcher, first: a [`Hello`](super::Hello) in JSON.
    Hello(Vec<u8>),
    /// To the agent, in answer: the program of the node, in JSON.
    Welcome(Vec<u8>),
    /// To the agent, in answer: why it is refused.
    Refused(String),
    /// To the agent: a line for the node.
    Input(Vec<u8>),
    /// To the agent: a signal for the node.
    Signal(i32),
    /// To the launcher: standard output of the node.
    Stdout(Vec<u8>),
    /// To the launcher: standard error of the node.
    Stderr(Vec<u8>),
    /// To the launcher: the task got SIGTERM.
    Leaving,
    /// To either side, regularly: the sender and its host are up.
    Alive,
    /// To the launcher, last: the exit code of the node.
    Exited(i32),
    /// To the launcher, last: the signal that has ended the node.
    Killed(i32),
}

impl Frame {
    /// Returns the frame as bytes.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let number;
        let content: &[u8] = match self {
            Self::Hello(bytes) | Self::Welcome(bytes) | Self::Input(bytes) => bytes,
            Self::Stdout(bytes) | Self::Stderr(bytes) => bytes,
            Self::Refused(text) => text.as_bytes(),
            Self::Signal(value) | Self::Exited(value) | Self::Killed(value) => {
                number = value.to_le_bytes();
                &number
            }
            Self::Leaving | Self::Alive => &[],
        };
        let length = u32::try_from(content.len()).unwrap_or(u32::MAX);
        let mut bytes = Vec::with_capacity(HEAD_BYTES + content.len());
        bytes.push(self.kind());
        bytes.extend_from_slice(&length.to_le_bytes());
        bytes.extend_from_slice(content);
        bytes
    }

    /// Reads a frame with a content of at most `bytes_max`; `None` if the stream ends before it.
    /// Fails if the stream ends within a frame, or has anything but frames.
    pub(crate) fn read(from: &mut impl Read, bytes_max: usize) -> io::Result<Option<Self>> {
        let mut kind = [0];
        loop {
            match from.read(&mut kind) {
                Ok(0) => return Ok(None),
                Ok(_) => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let mut length = [0; HEAD_BYTES - 1];
        from.read_exact(&mut length)?;
        let length = u32::from_le_bytes(length) as usize;
        if length > bytes_max {
            return Err(invalid("a message is too long"));
        }
        // The buffer grows with the bytes that have come, whatever length was announced.
        let mut content = Vec::new();
        from.take(length as u64).read_to_end(&mut content)?;
        if content.len() < length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Self::of(kind[0], content).map(Some)
    }

    fn kind(&self) -> u8 {
        match self {
            Self::Hello(_) => 1,
            Self::Welcome(_) => 2,
            Self::Refused(_) => 3,
            Self::Input(_) => 4,
            Self::Signal(_) => 5,
            Self::Stdout(_) => 6,
            Self::Stderr(_) => 7,
            Self::Leaving => 8,
            Self::Exited(_) => 9,
            Self::Killed(_) => 10,
            Self::Alive => 11,
        }
    }

    fn of(kind: u8, content: Vec<u8>) -> io::Result<Self> {
        Ok(match kind {
            1 => Self::Hello(content),
            2 => Self::Welcome(content),
            3 => Self::Refused(String::from_utf8_lossy(&content).into_owned()),
            4 => Self::Input(content),
            5 => Self::Signal(number(&content)?),
            6 => Self::Stdout(content),
            7 => Self::Stderr(content),
            8 => Self::Leaving,
            9 => Self::Exited(number(&content)?),
            10 => Self::Killed(number(&content)?),
            11 => Self::Alive,
            _ => return Err(invalid("a message is of an unknown kind")),
        })
    }
}

fn number(content: &[u8]) -> io::Result<i32> {
    let bytes = content.try_into().map_err(|_| invalid("a message has no number"))?;
    Ok(i32::from_le_bytes(bytes))
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{what}; use one build of gridctl"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<Frame> {
        vec![
            Frame::Hello(b"{}".to_vec()),
            Frame::Welcome(vec![]),
            Frame::Refused("no".to_owned()),
            Frame::Input(b"line\n".to_vec()),
            Frame::Signal(15),
            Frame::Stdout(vec![7; 40_000]),
            Frame::Stderr(b"\xff\n".to_vec()),
            Frame::Leaving,
            Frame::Exited(-3),
            Frame::Killed(9),
            Frame::Alive,
        ]
    }

    #[test]
    fn what_is_written_is_read() {
        let bytes: Vec<u8> = all().iter().flat_map(Frame::to_bytes).collect();
        let mut from = bytes.as_slice();
        let mut read = Vec::new();
        while let Some(frame) = Frame::read(&mut from, TO_LAUNCHER_BYTES_MAX).unwrap() {
            read.push(frame);
        }
        assert_eq!(read, all());
    }

    #[test]
    fn a_frame_that_is_cut_short_is_an_error() {
        for frame in all() {
            let bytes = frame.to_bytes();
            for end in [1, 3, bytes.len() - 1] {
                let read = Frame::read(&mut &bytes[..end], TO_LAUNCHER_BYTES_MAX);
                assert!(read.is_err(), "{frame:?} after {end} bytes");
            }
        }
    }

    #[test]
    fn other_bytes_are_refused() {
        let number = [&[5, 2, 0, 0, 0][..], &[1, 2]].concat();
        let long = [&[6][..], &u32::MAX.to_le_bytes()].concat();
        for bytes in
            [&[0, 0, 0, 0, 0][..], &[99, 0, 0, 0, 0], b"GET / HTTP/1.1\r\n", &number, &long]
        {
            assert!(Frame::read(&mut &*bytes, TO_LAUNCHER_BYTES_MAX).is_err(), "{bytes:?}");
        }
    }
}
