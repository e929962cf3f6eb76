//! Files to which the processes of detached jobs append, kept small.
//!
//! # Moving out
//!
//! A process has its file open as long as it lives, so another file cannot take its place.
//! Therefore a launcher counts the bytes that it has read of the file. When they reach the limit,
//! it copies the last lines of these bytes, up to the limit, to `NAME.old`, which it replaces. Then
//! it frees the space of these bytes in `NAME`: a hole stays, so that later bytes keep their
//! positions. The first line of `NAME.old` says how many earlier bytes were dropped. A launcher
//! moves out only what it has read, so no control line is lost. Therefore a file grows while no
//! launcher attends to its job.
//!
//! # Failure
//!
//! `NAME.old` is replaced as a whole before space is freed. A launcher that is killed in between
//! leaves bytes in both files; readers and the next launcher take them from `NAME.old`. If nothing
//! can be moved out, for example because the file system cannot free a part of a file, a warning
//! says so, and `NAME` grows.

use crate::output::write_all;
use crate::private;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// The first line of `NAME.old`: the texts before and after the number of dropped bytes.
const HEAD: [&str; 2] = ["[gridctl dropped ", " bytes before this line]\n"];
/// Upper bound of the length of the first line, in bytes.
const HEAD_BYTES_MAX: usize = 128;
/// Number of bytes read at once.
const READ_BYTES: usize = 32 << 10;

/// What was moved out of a file.
struct Older {
    file: File,
    /// Length in bytes of the first line.
    head: u64,
    /// Number of earlier bytes of the process, which were dropped.
    dropped: u64,
    /// Position after the last byte, in the output of the process.
    end: u64,
}

impl Older {
    /// Opens what was moved out of the file at `path`; `None` if nothing was.
    fn open(path: &Path) -> io::Result<Option<Self>> {
        let Some(file) = open_if_there(&older_path(path))? else { return Ok(None) };
        let mut head = [0; HEAD_BYTES_MAX];
        let read = file.read_at(&mut head, 0)?;
        let line = head[..read].split_inclusive(|&byte| byte == b'\n').next().unwrap_or_default();
        let number = |line: &str| {
            let number = line.strip_prefix(HEAD[0])?.strip_suffix(HEAD[1])?;
            number.parse::<u64>().ok()
        };
        let Some(dropped) = str::from_utf8(line).ok().and_then(number) else {
            let path = older_path(path);
            let text = format!("{} was changed; remove it", path.display());
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        };
        let head = line.len() as u64;
        let bytes = file.metadata()?.len().saturating_sub(head);
        Ok(Some(Self { file, head, dropped, end: dropped.saturating_add(bytes) }))
    }

    /// Position of the first byte that was not moved out of the file at `path`.
    fn end_of(path: &Path) -> io::Result<u64> {
        Ok(Self::open(path)?.map_or(0, |older| older.end))
    }
}

/// Keeps a file small.
pub(crate) struct LogLimit {
    path: PathBuf,
    bytes: u64,
    /// Position of the first byte that was not moved out.
    begin: u64,
    /// Position up to which the file must have been read before something is moved out.
    due: u64,
}

impl LogLimit {
    /// Limits the file at `path` to about this number of bytes.
    pub(crate) fn new(path: &Path, bytes: u64) -> io::Result<Self> {
        let begin = Older::end_of(path)?;
        Ok(Self { path: path.to_owned(), bytes, begin, due: begin.saturating_add(bytes) })
    }

    /// Notes that the file has been read up to this position, which is the end of a line.
    pub(crate) fn note(&mut self, read: u64) {
        if read < self.due {
            return;
        }
        if let Err(error) = self.move_out(read) {
            // The job goes on even if its files grow.
            let path = self.path.display();
            tracing::warn!(%error, "{path} grows, since nothing can be moved out of it");
        }
        self.due = read.saturating_add(self.bytes);
    }

    /// Notes that all of the file has been read.
    pub(crate) fn note_all(&mut self) {
        match fs::metadata(&self.path) {
            Ok(metadata) => self.note(metadata.len()),
            Err(error) => tracing::debug!(%error, "cannot find the size of the output"),
        }
    }

    fn move_out(&mut self, end: u64) -> io::Result<()> {
        let mut from = BufReader::new(File::open(&self.path)?);
        let begin = match end - self.begin > self.bytes {
            // More than the limit was read at once, of which only the last lines are kept.
            true => {
                let before = end - self.bytes - 1;
                from.seek(SeekFrom::Start(before))?;
                end.min(before + from.skip_until(b'\n')? as u64)
            }
            false => from.seek(SeekFrom::Start(self.begin))?,
        };
        let older = older_path(&self.path);
        let new = with_ending(&older, ".new");
        let mut to = private::file().create(true).truncate(true).open(&new)?;
        let [before, after] = HEAD;
        write!(to, "{before}{begin}{after}")?;
        io::copy(&mut from.take(end - begin), &mut to)?;
        fs::rename(new, older)?;
        self.begin = end;
        free(&self.path, end)
    }
}

/// Frees the space of the first `bytes` bytes of a file. Its length stays the same.
#[cfg(target_os = "linux")]
fn free(path: &Path, bytes: u64) -> io::Result<()> {
    use rustix::fs::{FallocateFlags, fallocate};
    let file = private::file().open(path)?;
    Ok(fallocate(file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, 0, bytes)?)
}

#[cfg(not(target_os = "linux"))]
fn free(_path: &Path, _bytes: u64) -> io::Result<()> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "detached jobs need Linux"))
}

/// Reads a file from its beginning, including what was moved out of it, while a process appends to
/// it.
pub(crate) struct LogReader {
    path: PathBuf,
    file: Option<File>,
    /// Position in the output of the process.
    at: u64,
}

/// What comes next in a file.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    /// This number of bytes; 0 if there are none yet.
    Bytes(usize),
    /// This number of bytes were dropped.
    Dropped(u64),
}

impl LogReader {
    /// Reads the file at this path, which need not exist yet.
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, file: None, at: 0 }
    }

    /// Copies all bytes that have come between the last call and this one, and flushes them. Passes
    /// the numbers of dropped ones to `on_dropped`.
    pub(crate) fn copy_new(
        &mut self,
        to: &mut impl Write,
        mut on_dropped: impl FnMut(u64),
    ) -> io::Result<()> {
        let mut buffer = vec![0; READ_BYTES];
        // Bytes that come from now on are left for the next call: a process may print faster than
        // they can be written, so that a copy of all of them would not end.
        let end = self.end()?;
        while self.at < end {
            match self.next(&mut buffer)? {
                Next::Bytes(0) => break,
                Next::Bytes(read) => write_all(to, &buffer[..read])?,
                Next::Dropped(bytes) => on_dropped(bytes),
            }
        }
        Ok(())
    }

    /// Position after the last byte that the process has printed so far.
    fn end(&self) -> io::Result<u64> {
        let length = match fs::metadata(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
            metadata => metadata?.len(),
        };
        Ok(length.max(Older::end_of(&self.path)?))
    }

    fn next(&mut self, to: &mut [u8]) -> io::Result<Next> {
        loop {
            let older = Older::open(&self.path)?;
            if let Some(older) = older.filter(|older| self.at < older.end) {
                if self.at < older.dropped {
                    let dropped = older.dropped - self.at;
                    self.at = older.dropped;
                    return Ok(Next::Dropped(dropped));
                }
                let read = older.file.read_at(to, older.head + self.at - older.dropped)?;
                self.at += read as u64;
                return Ok(Next::Bytes(read));
            }
            if self.file.is_none() {
                self.file = open_if_there(&self.path)?;
            }
            let Some(file) = &self.file else { return Ok(Next::Bytes(0)) };
            let read = file.read_at(to, self.at)?;
            // Bytes that were moved out meanwhile may have been freed before this read.
            if read > 0 && Older::end_of(&self.path)? > self.at {
                continue;
            }
            self.at += read as u64;
            return Ok(Next::Bytes(read));
        }
    }
}

fn open_if_there(path: &Path) -> io::Result<Option<File>> {
    match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        opened => opened.map(Some),
    }
}

/// The path of what was moved out of a file.
fn older_path(path: &Path) -> PathBuf {
    with_ending(path, ".old")
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    path.push(ending);
    path.into()
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;
    use std::fs::OpenOptions;
    use std::os::unix::fs::MetadataExt;

    fn appended(path: &Path, bytes: &[u8]) {
        let mut file = OpenOptions::new().append(true).create(true).open(path).unwrap();
        file.write_all(bytes).unwrap();
    }

    /// What a reader finds, with the numbers of dropped bytes.
    fn found(reader: &mut LogReader) -> (String, Vec<u64>) {
        let (mut text, mut dropped) = (vec![], vec![]);
        reader.copy_new(&mut text, |bytes| dropped.push(bytes)).unwrap();
        (String::from_utf8(text).unwrap(), dropped)
    }

    fn new_reader(path: &Path) -> LogReader {
        LogReader::new(path.to_owned())
    }

    #[test]
    fn what_was_read_is_moved_out_twice_and_the_first_part_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a-0.out");
        let mut early = new_reader(&path);
        assert_eq!(found(&mut early), (String::new(), vec![]));
        appended(&path, b"one\ntwo\n");
        let mut limit = LogLimit::new(&path, 8).unwrap();
        limit.note(4);
        assert!(!older_path(&path).exists(), "less than the limit");

        limit.note(8);

        assert_eq!(
            fs::read_to_string(older_path(&path)).unwrap(),
            "[gridctl dropped 0 bytes before this line]\none\ntwo\n"
        );
        appended(&path, b"three\nfour\n");
        assert_eq!(found(&mut new_reader(&path)), ("one\ntwo\nthree\nfour\n".to_owned(), vec![]));
        assert_eq!(found(&mut early).0, "one\ntwo\nthree\nfour\n");
        limit.note(14);
        limit.note_all();
        assert_eq!(found(&mut new_reader(&path)), ("four\n".to_owned(), vec![14]));
        appended(&path, b"five\n");
        assert_eq!(found(&mut early), ("five\n".to_owned(), vec![]), "nothing twice");
    }

    #[test]
    fn a_reader_that_is_late_is_told_how_much_it_missed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("output");
        appended(&path, b"0123456\n");
        let mut late = new_reader(&path);
        assert_eq!(found(&mut late).0, "0123456\n");
        let mut limit = LogLimit::new(&path, 8).unwrap();
        for _ in 0..3 {
            limit.note_all();
            appended(&path, b"abcdefg\n");
        }
        limit.note_all();
        appended(&path, b"end\n");

        assert_eq!(found(&mut late), ("abcdefg\nend\n".to_owned(), vec![16]));
    }

    #[test]
    fn of_much_that_was_read_at_once_the_last_lines_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("output");
        let mut limit = LogLimit::new(&path, 8).unwrap();
        appended(&path, b"one\ntwo\nthree\n");
        limit.note_all();
        assert_eq!(found(&mut new_reader(&path)), ("three\n".to_owned(), vec![8]));
        appended(&path, b"a long line\n");
        limit.note_all();
        assert_eq!(found(&mut new_reader(&path)), (String::new(), vec![26]));
    }

    /// An output. At each write to it, the process prints another line.
    struct Slow<'a> {
        process: &'a Path,
        text: Vec<u8>,
    }

    impl Write for Slow<'_> {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            assert!(self.text.len() < 100, "the copy does not end");
            self.text.extend_from_slice(bytes);
            appended(self.process, b"more\n");
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_copy_ends_although_the_process_prints_as_fast_as_it_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a-0.out");
        appended(&path, b"one\n");
        let (mut reader, mut slow) = (new_reader(&path), Slow { process: &path, text: vec![] });
        for expected in ["one\n", "one\nmore\n", "one\nmore\nmore\n"] {
            reader.copy_new(&mut slow, |_| {}).unwrap();
            assert_eq!(String::from_utf8_lossy(&slow.text), expected);
        }
    }

    #[test]
    fn a_limited_file_takes_little_space_and_its_process_goes_on_writing_to_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a-0.err");
        let mut process = OpenOptions::new().append(true).create(true).open(&path).unwrap();
        let line = [[b'x'; 1023].as_slice(), b"\n"].concat();
        let mut limit = LogLimit::new(&path, 64 << 10).unwrap();
        for number in 1..=1024 {
            process.write_all(&line).unwrap();
            limit.note(number * 1024);
        }
        process.write_all(b"last\n").unwrap();

        let blocks = |path: &Path| fs::metadata(path).unwrap().blocks() * 512;
        assert_eq!(fs::metadata(&path).unwrap().len(), (1 << 20) + 5);
        assert!(blocks(&path) <= 128 << 10, "{}", blocks(&path));
        assert!(fs::metadata(older_path(&path)).unwrap().len() <= (64 << 10) + 128);
        let (text, dropped) = found(&mut new_reader(&path));
        assert!(text.ends_with("x\nlast\n") && text.starts_with('x'));
        assert_eq!(dropped.iter().sum::<u64>() + text.len() as u64, (1 << 20) + 5);
    }

    #[test]
    fn another_launcher_goes_on_where_the_first_one_was_killed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a-0.out");
        appended(&path, b"12345678");
        // Its launcher was killed before it freed the space.
        fs::write(older_path(&path), "[gridctl dropped 0 bytes before this line]\n1234").unwrap();
        assert_eq!(found(&mut new_reader(&path)).0, "12345678");
        let mut limit = LogLimit::new(&path, 4).unwrap();
        limit.note(8);
        assert_eq!(found(&mut new_reader(&path)), ("5678".to_owned(), vec![4]));
        fs::write(older_path(&path), "something else\n").unwrap();
        assert!(new_reader(&path).copy_new(&mut vec![], |_| {}).is_err());
    }
}
