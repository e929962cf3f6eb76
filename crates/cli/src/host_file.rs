//! Host files of other launchers and of batch systems.
//!
//! | from | a line |
//! | --- | --- |
//! | Open MPI | `n1 slots=4 max_slots=8` |
//! | MPICH | `n1:4` |
//! | PBS (`$PBS_NODEFILE`), LSF (`$LSB_DJOB_HOSTFILE`) | `n1`, once for each slot |
//!
//! One parser reads all forms, since a line has the same meaning in each form that allows it. The
//! parser adds up the slots of a host that several lines name. Each host becomes one node with a PE
//! for each slot.

use gridspan::bounded_file::read_text;
use gridspan_topology::{GridSpec, HostSpec, Link, MAX_PES, SiteError, SiteSpec};
use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::path::Path;
use thiserror::Error;

/// Largest size of a host file in bytes: 64 for each PE of the largest grid, since batch systems
/// write a line for each slot.
const BYTES_MAX: u64 = 64 * MAX_PES as u64;

/// A host, and how many PEs it may run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HostSlots {
    name: String,
    slots: u32,
}

/// Error of a line. Nothing was started; the message says what to write.
#[derive(Debug, PartialEq, Eq, Error)]
#[error("{line}: {problem}")]
pub(crate) struct HostFileError {
    /// The line, from 1.
    line: usize,
    problem: HostFileProblem,
}

/// What is wrong with a line.
#[derive(Debug, PartialEq, Eq, Error)]
pub(crate) enum HostFileProblem {
    /// A number of slots is missing, zero or malformed.
    #[error("`{}` has no number of slots; write one from 1", .word.escape_debug())]
    Number { word: String },
    /// A word after the host has no meaning here.
    #[error(
        "`{}` is unknown; write `HOST slots=N max_slots=N` or `HOST:N`, or only the host for one slot",
        .word.escape_debug()
    )]
    Unknown { word: String },
    /// The host has more slots than its limit.
    #[error("the host has {slots} slots, and max_slots={most}; write fewer slots")]
    AboveMost {
        slots: u32,
        /// The limit.
        most: u32,
    },
    /// The name cannot be that of a host.
    #[error(transparent)]
    Name(#[from] SiteError),
    /// A host has no number in a list of pairs.
    #[error("`{}` has no number of slots after it", .host.escape_debug())]
    NoPair { host: String },
    /// No line names a host.
    #[error("there is no host; write one per line")]
    NoHosts,
}

/// Reads a file of bounded size.
pub(crate) fn read(path: &Path) -> io::Result<String> {
    read_text(path, BYTES_MAX)
}

/// Parses a host file of any of the forms.
pub(crate) fn parse(text: &str) -> Result<Vec<HostSlots>, HostFileError> {
    let mut hosts = Merged::default();
    for (line, content) in (1..).zip(text.lines()) {
        let parsed = parse_line(content).and_then(|host| host.map_or(Ok(()), |it| hosts.add(it)));
        parsed.map_err(|problem| HostFileError { line, problem })?;
    }
    hosts.finish()
}

/// Parses hosts and numbers in turn: `n1 4 n2 8`, as in `$LSB_MCPU_HOSTS`.
pub(crate) fn parse_pairs(text: &str) -> Result<Vec<HostSlots>, HostFileError> {
    let failed = |problem| HostFileError { line: 1, problem };
    let mut hosts = Merged::default();
    let mut words = text.split_whitespace();
    while let Some(name) = words.next() {
        let no_pair = || failed(HostFileProblem::NoPair { host: name.to_owned() });
        let word = words.next().ok_or_else(no_pair)?;
        let slots = number(word, word).map_err(failed)?;
        hosts.add(HostSlots { name: name.to_owned(), slots }).map_err(failed)?;
    }
    hosts.finish()
}

/// Returns the grid of these hosts: one site of this name.
pub(crate) fn grid(site: &str, hosts: Vec<HostSlots>) -> Result<GridSpec, SiteError> {
    let hosts = hosts.into_iter().map(|host| HostSpec::new(host.name, host.slots)).collect();
    GridSpec::new(vec![SiteSpec::new(site, hosts, Link::lan())])
}

/// The hosts so far, in the order of their first lines.
#[derive(Default)]
struct Merged {
    hosts: Vec<HostSlots>,
    places: BTreeMap<String, usize>,
}

impl Merged {
    fn add(&mut self, host: HostSlots) -> Result<(), HostFileProblem> {
        if let Some(&place) = self.places.get(&host.name) {
            let slots = &mut self.hosts[place].slots;
            *slots = slots.saturating_add(host.slots);
            return Ok(());
        }
        // This checks only the name. The grid that the caller makes checks the sums of the slots.
        grid("hosts", vec![HostSlots { slots: 1, ..host.clone() }])?;
        self.places.insert(host.name.clone(), self.hosts.len());
        self.hosts.push(host);
        Ok(())
    }

    fn finish(self) -> Result<Vec<HostSlots>, HostFileError> {
        match self.hosts.is_empty() {
            true => Err(HostFileError { line: 1, problem: HostFileProblem::NoHosts }),
            false => Ok(self.hosts),
        }
    }
}

/// Parses a line; `None` if it has no host.
fn parse_line(line: &str) -> Result<Option<HostSlots>, HostFileProblem> {
    let content = line.split('#').next().unwrap_or_default();
    let mut words = content.split_whitespace();
    let Some(first) = words.next() else { return Ok(None) };
    let (name, mut slots) = name_and_slots(first)?;
    let mut most = None;
    for word in words {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        match key {
            "slots" if slots.is_none() => slots = Some(number(word, value)?),
            "max_slots" | "max-slots" if most.is_none() => most = Some(number(word, value)?),
            _ => return Err(HostFileProblem::Unknown { word: word.to_owned() }),
        }
    }
    let slots = slots.unwrap_or(1);
    match most {
        Some(most) if most < slots => Err(HostFileProblem::AboveMost { slots, most }),
        _ => Ok(Some(HostSlots { name: name.to_owned(), slots })),
    }
}

/// Splits `HOST:N`. A colon may also be part of an IPv6 address.
fn name_and_slots(word: &str) -> Result<(&str, Option<u32>), HostFileProblem> {
    match word.rsplit_once(':') {
        Some((name, slots)) if word.parse::<IpAddr>().is_err() => {
            Ok((name, Some(number(word, slots)?)))
        }
        _ => Ok((word, None)),
    }
}

/// Reads the number in a word.
fn number(word: &str, text: &str) -> Result<u32, HostFileProblem> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
    let number = text.parse().ok().filter(|&number| is_plain && number > 0);
    number.ok_or_else(|| HostFileProblem::Number { word: word.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns hosts with their slots, or the error.
    fn hosts(parsed: Result<Vec<HostSlots>, HostFileError>) -> String {
        let shown = |host: HostSlots| format!("{}={}", host.name, host.slots);
        match parsed {
            Ok(hosts) => hosts.into_iter().map(shown).collect::<Vec<_>>().join(" "),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn the_form_of_open_mpi_is_read() {
        // From the manual of mpirun(1), with additions that users write.
        let text = "# Two hosts\naa slots=2\n\nbb slots=2 max_slots=20  # fat\ncc\n\
                    dd max-slots=3 slots=3\r\naa slots=1\n";
        assert_eq!(hosts(parse(text)), "aa=3 bb=2 cc=1 dd=3");
    }

    #[test]
    fn the_form_of_mpich_is_read() {
        let text = "donner:2\nfoo.example:4 # comment\nshakey\nme@fish:1\n10.0.0.1:8\n";
        let expected = "donner=2 foo.example=4 shakey=1 me@fish=1 10.0.0.1=8";
        assert_eq!(hosts(parse(text)), expected);
        assert_eq!(hosts(parse("fe80::1\n::1\n")), "fe80::1=1 ::1=1");
    }

    #[test]
    fn a_file_with_a_line_for_each_slot_is_read() {
        assert_eq!(hosts(parse("n2\nn2\nn1\nn2\nn1\n")), "n2=3 n1=2");
        assert_eq!(hosts(parse_pairs("hostA 2 hostB 4 hostA 1")), "hostA=3 hostB=4");
    }

    #[test]
    fn a_bad_line_is_named_and_says_what_to_write() {
        let cases = [
            ("", "1: there is no host; write one per line"),
            ("# nothing\n", "1: there is no host; write one per line"),
            ("a\nb slots=x\n", "2: `slots=x` has no number of slots; write one from 1"),
            ("a slots\n", "1: `slots` has no number of slots; write one from 1"),
            ("a:0\n", "1: `a:0` has no number of slots; write one from 1"),
            ("a:+1\n", "1: `a:+1` has no number of slots; write one from 1"),
            (
                "a slots=4 max_slots=2",
                "1: the host has 4 slots, and max_slots=2; write fewer slots",
            ),
            ("\n-oProxyCommand=x\n", "2: `-oProxyCommand=x` is not a host name"),
            ("a b\n", "1: `b` is unknown; write `HOST slots=N"),
            ("a slots=1 slots=2\n", "1: `slots=2` is unknown"),
            ("a:1 slots=2\n", "1: `slots=2` is unknown"),
        ];
        for (text, expected) in cases {
            let error = hosts(parse(text));
            assert!(error.starts_with(expected), "{text:?}: {error}");
        }
        assert_eq!(hosts(parse_pairs("a 2 b")), "1: `b` has no number of slots after it");
        assert_eq!(hosts(parse_pairs("a b")), "1: `b` has no number of slots; write one from 1");
    }

    #[test]
    fn hosts_become_nodes_with_a_pe_for_each_slot() {
        let spec = grid("pbs", parse("n1\nn1\nn2:3").unwrap()).unwrap();
        let layout = spec.layout();
        assert_eq!((layout.node_count(), layout.pe_count()), (2, 5));
        assert_eq!(spec.host(gridspan_topology::NodeId(1)), "n2");
        let many = grid("pbs", parse("n1:4000000000\nn1:4000000000").unwrap());
        assert_eq!(many, Err(SiteError::TooManyPes));
    }

    #[test]
    fn a_file_that_is_too_large_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(BYTES_MAX + 1).unwrap();
        assert!(read(file.path()).unwrap_err().to_string().contains("larger"));
        file.as_file().set_len(3).unwrap();
        assert_eq!(read(file.path()).unwrap().len(), 3);
    }
}
