//! Cuts the output of a process into lines, and cuts lines that are too long.

use gridspan::control::MARK;
use std::collections::VecDeque;

/// Length at which lines are cut, unless they contain a control line.
pub(super) const LINE_BYTES_MAX: usize = 64 << 10;
/// Length at which lines with a control line are cut: enough for the links of a thousand groups.
const CONTROL_BYTES_MAX: usize = 16 << 20;
/// First byte of a control line, which programs do not print.
const MARK_BYTE: u8 = MARK.as_bytes()[0];
/// Number of the last lines of a stream that are kept.
const KEPT_LINES: usize = 20;
/// Number of bytes kept of each of these lines.
const KEPT_BYTES: usize = 1 << 10;

/// Cuts a stream of bytes into lines of at most [`LINE_BYTES_MAX`], or of at most
/// [`CONTROL_BYTES_MAX`] if they contain a control line.
#[derive(Debug, Default)]
pub(crate) struct LineSplitter {
    partial: Vec<u8>,
    /// Whether `partial` has reached [`LINE_BYTES_MAX`] and may become longer, because it contains
    /// [`MARK_BYTE`].
    is_control: bool,
    /// Whether the last line was cut. A line end right after it ends that line, not an empty one.
    is_cut: bool,
}

impl LineSplitter {
    /// Takes more bytes, and passes on each line that they complete, without its line end.
    pub(crate) fn push(&mut self, mut bytes: &[u8], on_line: &mut impl FnMut(&[u8])) {
        while !bytes.is_empty() {
            let max = if self.is_control { CONTROL_BYTES_MAX } else { LINE_BYTES_MAX };
            let room = max - self.partial.len();
            let reach = &bytes[..bytes.len().min(room)];
            match reach.iter().position(|&byte| byte == b'\n') {
                Some(end) => {
                    self.complete(&reach[..end], on_line);
                    bytes = &bytes[end + 1..];
                }
                None => {
                    let taken = reach.len();
                    self.partial.extend_from_slice(reach);
                    bytes = &bytes[taken..];
                    if self.partial.len() == LINE_BYTES_MAX {
                        // The mark may follow a line that the program has not ended.
                        self.is_control = self.partial.contains(&MARK_BYTE);
                    }
                    let is_full = self.partial.len() == CONTROL_BYTES_MAX;
                    if is_full || (!self.is_control && self.partial.len() == LINE_BYTES_MAX) {
                        self.complete(&[], on_line);
                        self.is_cut = true;
                    }
                }
            }
        }
    }

    /// Number of bytes of the line that is not complete.
    pub(super) fn pending(&self) -> usize {
        self.partial.len()
    }

    /// Passes on the rest when the stream ends within a line.
    pub(crate) fn finish(&mut self, on_line: &mut impl FnMut(&[u8])) {
        if !self.partial.is_empty() {
            self.complete(&[], on_line);
        }
    }

    fn complete(&mut self, end: &[u8], on_line: &mut impl FnMut(&[u8])) {
        let line = if self.partial.is_empty() {
            end
        } else {
            self.partial.extend_from_slice(end);
            &self.partial
        };
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if !line.is_empty() || !self.is_cut {
            on_line(line);
        }
        self.partial.clear();
        (self.is_control, self.is_cut) = (false, false);
    }
}

/// The last lines of a stream.
#[derive(Debug, Default)]
pub(super) struct Tail {
    lines: VecDeque<String>,
}

impl Tail {
    /// Adds a line, and drops the oldest if there are too many.
    pub(super) fn push(&mut self, line: &[u8]) {
        if self.lines.len() == KEPT_LINES {
            self.lines.pop_front();
        }
        let kept = &line[..line.len().min(KEPT_BYTES)];
        self.lines.push_back(String::from_utf8_lossy(kept).into_owned());
    }

    /// Returns the lines, oldest first.
    pub(super) fn lines(&self) -> Vec<String> {
        self.lines.iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(chunks: &[&[u8]]) -> Vec<Vec<u8>> {
        let (mut splitter, mut lines) = (LineSplitter::default(), vec![]);
        let mut on_line = |line: &[u8]| lines.push(line.to_vec());
        for chunk in chunks {
            splitter.push(chunk, &mut on_line);
        }
        splitter.finish(&mut on_line);
        lines
    }

    #[test]
    fn lines_do_not_depend_on_the_chunks_that_are_read() {
        let expected: Vec<Vec<u8>> = vec![b"one".into(), b"".into(), b"two".into(), b"rest".into()];
        assert_eq!(split(&[b"one\n\ntwo\r\nrest"]), expected);
        assert_eq!(split(&[b"o", b"ne", b"\n", b"\ntw", b"o\r", b"\nre", b"st"]), expected);
    }

    #[test]
    fn a_long_control_line_is_not_cut() {
        let line = [b"no end".to_vec(), MARK.into(), vec![b'x'; 300_000]].concat();
        let text = [&line[..], b"\nnext\n"].concat();
        assert_eq!(split(&text.chunks(1000).collect::<Vec<_>>()), [line, b"next".to_vec()]);
    }

    #[test]
    fn a_line_without_end_is_cut_without_loss() {
        let chunk = vec![b'x'; 100_000];

        let lines = split(&[&chunk, &chunk]);

        assert_eq!(lines.iter().map(Vec::len).sum::<usize>(), 200_000);
        assert_eq!(lines[0].len(), LINE_BYTES_MAX);
        assert!(lines.iter().all(|line| line.len() <= LINE_BYTES_MAX));
    }

    #[test]
    fn no_empty_line_follows_a_line_of_the_maximum_length() {
        let longest = vec![b'x'; LINE_BYTES_MAX];
        for end in [&b"\n"[..], b"\r\n"] {
            let text = [&longest[..], end, end, b"next", end].concat();
            let expected = [longest.clone(), vec![], b"next".to_vec()];
            assert_eq!(split(&[&text]), expected);
            assert_eq!(split(&text.chunks(1000).collect::<Vec<_>>()), expected);
        }
    }

    #[test]
    fn the_tail_keeps_the_last_20_lines_and_1024_bytes_of_each() {
        let mut tail = Tail::default();
        for number in 0..100 {
            tail.push(format!("{number}{}", "x".repeat(10_000)).as_bytes());
        }
        let lines = tail.lines();
        assert_eq!(lines.len(), 20);
        assert!(lines[0].starts_with("80x") && lines[19].starts_with("99x"));
        assert!(lines.iter().all(|line| line.len() == 1024));
    }
}
