//! Errors of reading and writing recordings.

use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// Error of a recording. Reading changes nothing; a failed write leaves a part of the files.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The folder has no `recording.json`.
    #[error(
        "{} is not a recording: it has no recording.json; give the folder of `--record`",
        .folder.display()
    )]
    NotARecording {
        /// The folder.
        folder: PathBuf,
    },
    /// The folder has files already.
    #[error("the folder {} is not empty; give another one, or remove its files", .folder.display())]
    NotEmpty {
        /// The folder.
        folder: PathBuf,
    },
    /// The recording is of another version of the format.
    #[error(
        "the recording has format {found}, and this program reads formats up to {expected}; use the \
         gridctl that made it"
    )]
    Version {
        /// The version of the recording.
        found: u32,
        /// The latest version that this program reads.
        expected: u32,
    },
    /// A file ends within a record.
    #[error("{} is truncated at byte {at}; remove it to read the rest", .path.display())]
    Truncated {
        /// The file.
        path: PathBuf,
        /// Where the last complete record ends.
        at: u64,
    },
    /// The checksum of a record is wrong.
    #[error("{} is damaged: the record at byte {at} has a wrong checksum", .path.display())]
    Checksum {
        /// The file.
        path: PathBuf,
        /// Where the record begins.
        at: u64,
    },
    /// The content of a file makes no sense.
    #[error("{} is damaged: {problem}", .path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// A file is larger than a reader accepts.
    #[error("{} has {bytes} bytes, more than {limit}; record less", .path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its size.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// The job has too many places and links.
    #[error(
        "the places and links of the job take {bytes} bytes, more than {limit} in a recording; \
         record a job at fewer sites"
    )]
    HeaderTooLarge {
        /// Their size.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// The operating system reports an error.
    #[error("{}: {error}", .path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The error.
        error: io::Error,
    },
}
