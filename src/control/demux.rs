//! The form of control lines within the output of a process, and how to separate them from it.
//!
//! Control lines and the lines of the program are written to one stream by threads that do not wait
//! for each other. The system does not divide a write of up to [`PIECE_BYTES_MAX`] bytes: no other
//! write to the same pipe gets in between. So a longer control line is written in pieces, each of
//! which is a line of the stream. After the mark, the first piece has `<`, the last one `>`, and
//! those between them `+`. A control line that is one piece has none of these.
//!
//! A piece may follow a part of a line of the program, whose rest follows the piece. The reader
//! puts the parts together.

use std::mem;

/// The start of every control line, and of each of its pieces.
pub const MARK: &str = "\u{1e}gridspan ";
/// Maximum length of a piece, in bytes, with mark and line end: `PIPE_BUF` of Linux, and elsewhere
/// the minimum that POSIX guarantees; see pipe(7).
const PIECE_BYTES_MAX: usize = if cfg!(target_os = "linux") { 4096 } else { 512 };
/// Maximum length of a control line of several pieces, in bytes: enough for the links of a thousand
/// groups.
const CONTROL_BYTES_MAX: usize = 16 << 20;
/// Maximum length of a line of the program that is kept until its rest comes, in bytes.
const LINE_BYTES_MAX: usize = 64 << 10;

const FIRST: u8 = b'<';
const MIDDLE: u8 = b'+';
const LAST: u8 = b'>';

/// Returns the pieces of a control line, each with mark and line end. The text has no line end.
pub(super) fn pieces(text: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let room = PIECE_BYTES_MAX - MARK.len() - 1;
    // A control line of several pieces has one more byte in each.
    let part = if text.len() <= room { room } else { room - 1 };
    let count = text.len().div_ceil(part);
    text.chunks(part).enumerate().map(move |(at, part)| {
        let kind: &[u8] = match at {
            _ if count == 1 => &[],
            0 => &[FIRST],
            _ if at + 1 == count => &[LAST],
            _ => &[MIDDLE],
        };
        [MARK.as_bytes(), kind, part, b"\n"].concat()
    })
}

/// An item of the output of a process.
///
/// ```
/// use gridspan::control::{Control, MARK, OutputDemux, OutputItem};
///
/// let line = format!("{MARK}\"recovers\"");
/// let mut controls = Vec::new();
/// OutputDemux::default().line(line.as_bytes(), &mut |item| match item {
///     OutputItem::Control(line) => controls.extend(Control::parse(&line[MARK.len()..])),
///     OutputItem::Line(_) => {}
/// });
/// assert_eq!(controls, [Control::Recovers]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputItem<'a> {
    /// A line of the program, without its end.
    Line(&'a [u8]),
    /// A whole control line, from [`MARK`] on, without its end.
    Control(&'a [u8]),
}

/// Separates the control lines of a process from the lines of its program. It keeps at most 16 MiB
/// of a control line, and 64 KiB of a line of the program.
///
/// ```
/// use gridspan::control::{MARK, OutputDemux, OutputItem};
///
/// let (mut demux, mut lines) = (OutputDemux::default(), Vec::new());
/// let mut on_item = |item: OutputItem<'_>| {
///     if let OutputItem::Line(line) = item {
///         lines.push(String::from_utf8_lossy(line).into_owned());
///     }
/// };
/// // A control line comes after a part of a line of the program.
/// demux.line(format!("one h{MARK}\"recovers\"").as_bytes(), &mut on_item);
/// demux.line(b"alf", &mut on_item);
/// demux.pass_on(&mut on_item);
/// assert_eq!(lines, ["one half"]);
/// ```
#[derive(Clone, Debug, Default)]
pub struct OutputDemux {
    /// The first part of a line of the program, which a control line has followed.
    unfinished: Vec<u8>,
    /// Whether a part of the present line of the program was passed on as a line.
    was_cut: bool,
    /// The pieces of a control line so far, from the mark on.
    control: Vec<u8>,
}

impl OutputDemux {
    /// Takes a line of the stream, without its end, and passes on each item that it completes.
    pub fn line(&mut self, line: &[u8], on_item: &mut impl FnMut(OutputItem<'_>)) {
        let Some(at) = find_mark(line) else { return self.end_line(line, on_item) };
        self.add_unfinished(&line[..at], on_item);
        let (mark, text) = line[at..].split_at(MARK.len());
        match text.split_first() {
            Some((&FIRST, part)) => self.control = [mark, part].concat(),
            Some((&MIDDLE, part)) => {
                self.continue_control(part);
            }
            Some((&LAST, part)) => {
                if self.continue_control(part) {
                    on_item(OutputItem::Control(&mem::take(&mut self.control)));
                }
            }
            _ => {
                self.control.clear();
                on_item(OutputItem::Control(&line[at..]));
            }
        }
    }

    /// Passes on a line of the program whose rest has not come, as a line. Call it at the end of
    /// the stream.
    pub fn pass_on(&mut self, on_item: &mut impl FnMut(OutputItem<'_>)) {
        if !self.unfinished.is_empty() {
            self.was_cut = true;
            on_item(OutputItem::Line(&mem::take(&mut self.unfinished)));
        }
    }

    /// Whether some pieces of a control line have come, but not its last one.
    pub fn is_inside_control(&self) -> bool {
        !self.control.is_empty()
    }

    /// Adds the first part of a line of the program.
    fn add_unfinished(&mut self, part: &[u8], on_item: &mut impl FnMut(OutputItem<'_>)) {
        if self.unfinished.len() + part.len() > LINE_BYTES_MAX {
            self.pass_on(on_item);
        }
        if part.len() > LINE_BYTES_MAX {
            self.was_cut = true;
            return on_item(OutputItem::Line(part));
        }
        self.unfinished.extend_from_slice(part);
    }

    /// Adds the rest of a line of the program.
    fn end_line(&mut self, rest: &[u8], on_item: &mut impl FnMut(OutputItem<'_>)) {
        if self.unfinished.is_empty() && !self.was_cut {
            return on_item(OutputItem::Line(rest));
        }
        self.add_unfinished(rest, on_item);
        let was_cut = mem::take(&mut self.was_cut);
        let line = mem::take(&mut self.unfinished);
        // An empty rest of a line that was cut is no line.
        if !was_cut || !line.is_empty() {
            on_item(OutputItem::Line(&line));
        }
    }

    /// Adds a piece that is not the first one. Returns whether the first one has come: the reader
    /// of a file may begin in the middle of a control line.
    fn continue_control(&mut self, part: &[u8]) -> bool {
        if self.control.len() + part.len() > CONTROL_BYTES_MAX {
            self.control.clear();
        }
        if self.control.is_empty() {
            return false;
        }
        self.control.extend_from_slice(part);
        true
    }
}

/// Returns the position of the last mark of a line. A piece has one mark and reaches to the end of
/// its line, so that an earlier mark is output of the program.
fn find_mark(line: &[u8]) -> Option<usize> {
    let mark = MARK.as_bytes();
    (0..line.len()).rev().find(|&at| line[at] == mark[0] && line[at..].starts_with(mark))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An item that was passed on.
    #[derive(Debug, PartialEq)]
    enum Passed {
        Line(String),
        Control(String),
    }

    fn line(text: &str) -> Passed {
        Passed::Line(text.to_owned())
    }

    fn control(text: &str) -> Passed {
        Passed::Control(text.to_owned())
    }

    /// The items of a stream.
    fn items(stream: &[u8]) -> Vec<Passed> {
        let (mut demux, mut passed) = (OutputDemux::default(), vec![]);
        let mut on_item = |item: OutputItem<'_>| {
            passed.push(match item {
                OutputItem::Line(line) => Passed::Line(String::from_utf8_lossy(line).into_owned()),
                OutputItem::Control(line) => {
                    let text = line.strip_prefix(MARK.as_bytes()).unwrap();
                    Passed::Control(String::from_utf8_lossy(text).into_owned())
                }
            });
        };
        let ended = stream.strip_suffix(b"\n").unwrap_or(stream);
        ended.split(|&byte| byte == b'\n').for_each(|line| demux.line(line, &mut on_item));
        demux.pass_on(&mut on_item);
        passed
    }

    /// Texts of one piece, of two, and of many.
    fn texts() -> Vec<String> {
        let room = PIECE_BYTES_MAX - MARK.len() - 1;
        [1, room - 1, room, room + 1, 2 * room, 100_000].map(|length| "x".repeat(length)).into()
    }

    #[test]
    fn pieces_are_short_and_give_the_control_line_again() {
        for text in texts() {
            let pieces: Vec<Vec<u8>> = pieces(text.as_bytes()).collect();

            let are_lines = |piece: &Vec<u8>| {
                piece.len() <= PIECE_BYTES_MAX
                    && piece.starts_with(MARK.as_bytes())
                    && piece.iter().position(|&byte| byte == b'\n') == Some(piece.len() - 1)
            };
            assert!(pieces.iter().all(are_lines));
            assert_eq!(pieces.len() == 1, text.len() < PIECE_BYTES_MAX - MARK.len());
            assert_eq!(items(&pieces.concat()), [control(&text)]);
        }
    }

    #[test]
    fn a_line_of_the_program_is_whole_wherever_the_pieces_are() {
        let text = "y".repeat(3 * PIECE_BYTES_MAX);
        let pieces: Vec<Vec<u8>> = pieces(text.as_bytes()).collect();
        let printed = b"first\nsecond\n";
        for before in 0..=printed.len() {
            for between in before..=printed.len() {
                let [first, others @ ..] = &pieces[..] else { panic!("there are several") };
                let stream = [
                    &printed[..before],
                    first,
                    &printed[before..between],
                    &others.concat(),
                    &printed[between..],
                ];

                let (lines, controls): (Vec<_>, Vec<_>) = items(&stream.concat())
                    .into_iter()
                    .partition(|item| matches!(item, Passed::Line(_)));

                assert_eq!(lines, [line("first"), line("second")], "{before} {between}");
                assert_eq!(controls, [control(&text)], "{before} {between}");
            }
        }
    }

    #[test]
    fn a_line_that_was_passed_on_unfinished_ends_without_an_empty_line() {
        let mut demux = OutputDemux::default();
        let mut lines = vec![];
        let mut on_item = |item: OutputItem<'_>| {
            if let OutputItem::Line(line) = item {
                lines.push(String::from_utf8_lossy(line).into_owned());
            }
        };
        for rest in ["", "rest"] {
            demux.line(format!("part{MARK}1").as_bytes(), &mut on_item);
            demux.pass_on(&mut on_item);
            demux.line(rest.as_bytes(), &mut on_item);
            demux.line(b"", &mut on_item);
        }
        assert_eq!(lines, ["part", "", "part", "rest", ""]);
    }

    #[test]
    fn the_rest_of_a_control_line_without_its_beginning_is_dropped() {
        let mark = MARK;
        let stream = format!(
            "{mark}+abc\n{mark}>def\n{mark}<new\n{mark}<1\n{mark}>2\n{mark}<3\n{mark}4\n\
             {mark}>5\none\n"
        );
        assert_eq!(items(stream.as_bytes()), [control("12"), control("4"), line("one")]);
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let part = "z".repeat(LINE_BYTES_MAX - 1);
        let stream = format!("{part}{MARK}1\n{part}{MARK}2\nend\n");
        let expected = [control("1"), line(&part), control("2"), line(&part), line("end")];
        assert_eq!(items(stream.as_bytes()), expected);

        let long = "z".repeat(LINE_BYTES_MAX + 1);
        let stream = format!("a{MARK}1\n{long}{MARK}2\n\n{long}\n");
        let expected = [control("1"), line("a"), line(&long), control("2"), line(&long)];
        assert_eq!(items(stream.as_bytes()), expected);

        let mut demux = OutputDemux::default();
        let piece = format!("{MARK}+{}", "p".repeat(1 << 20));
        demux.line(format!("{MARK}<").as_bytes(), &mut |_| {});
        for _ in 0..CONTROL_BYTES_MAX >> 20 {
            demux.line(piece.as_bytes(), &mut |_| {});
        }
        assert!(!demux.is_inside_control(), "it is given up");
    }

    #[test]
    fn other_separators_are_output() {
        assert_eq!(items("a\u{1e}b\n\n".as_bytes()), [line("a\u{1e}b"), line("")]);
        assert_eq!(items(format!("\u{1e}{MARK}1\n").as_bytes()), [control("1"), line("\u{1e}")]);
        let of_program = format!("a{MARK}b");
        let stream = format!("{of_program}{MARK}1\n");
        assert_eq!(items(stream.as_bytes()), [control("1"), line(&of_program)]);
    }
}
