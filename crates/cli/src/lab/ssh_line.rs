//! The command line of `ssh`, as launchers write it: options, a host, and a command for its shell.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use thiserror::Error;

/// Options without a value that have no effect between hosts of a lab.
const WITHOUT_VALUE: &[u8] = b"46AaCgKkqsTtvXxYy";
/// Options with a value that have no effect between hosts of a lab: commands reach these hosts
/// directly, and as the same user.
const WITH_VALUE: &[u8] = b"BbcEeFIiJlmopPS";

/// A command for a host.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SshLine {
    /// The host, without a user.
    pub(super) host: String,
    /// The command for the shell of the host; `None` for a shell that reads commands.
    pub(super) command: Option<OsString>,
    /// Whether the command has no standard input.
    pub(super) is_without_input: bool,
}

/// The command line cannot be carried out. Nothing was started.
#[derive(Debug, PartialEq, Eq, Error)]
pub(super) enum SshLineError {
    /// An option needs a connection, of which there is none between hosts of a lab.
    #[error("the ssh of a lab has no option `-{0}`")]
    Option(char),
    /// An option lacks its value.
    #[error("the option `-{0}` needs a value")]
    NoValue(char),
    /// There is no host.
    #[error("there is no host; write `ssh HOST COMMAND`")]
    NoHost,
}

impl SshLine {
    /// Parses the arguments of `ssh`. Options may follow the host, too.
    pub(super) fn parse(arguments: &[OsString]) -> Result<Self, SshLineError> {
        let mut words = arguments.iter().map(OsString::as_os_str);
        let mut host = None;
        let mut command: Vec<&OsStr> = Vec::new();
        let mut is_without_input = false;
        while let Some(word) = words.next() {
            match word.as_bytes() {
                b"--" => {
                    host = host.or_else(|| words.next());
                    command.extend(words.by_ref());
                }
                [b'-', letters @ ..] if !letters.is_empty() => {
                    is_without_input |= skip_options(letters, &mut words)?;
                }
                _ if host.is_none() => host = Some(word),
                _ => {
                    command.push(word);
                    command.extend(words.by_ref());
                }
            }
        }
        let host = host.ok_or(SshLineError::NoHost)?.to_string_lossy();
        let host = host.rsplit_once('@').map_or(&*host, |(_, host)| host).to_owned();
        if host.is_empty() {
            return Err(SshLineError::NoHost);
        }
        let command = (!command.is_empty()).then(|| joined(&command));
        Ok(Self { host, command, is_without_input })
    }
}

/// Checks the options of one word. Skips the next word if it is the value of the last option.
/// Returns whether an option closes the standard input of the command.
fn skip_options<'a>(
    letters: &[u8],
    words: &mut impl Iterator<Item = &'a OsStr>,
) -> Result<bool, SshLineError> {
    let mut is_without_input = false;
    for (at, &letter) in letters.iter().enumerate() {
        if letter == b'n' {
            is_without_input = true;
        } else if WITH_VALUE.contains(&letter) {
            let is_next = at + 1 == letters.len();
            if is_next && words.next().is_none() {
                return Err(SshLineError::NoValue(char::from(letter)));
            }
            break;
        } else if !WITHOUT_VALUE.contains(&letter) {
            return Err(SshLineError::Option(char::from(letter)));
        }
    }
    Ok(is_without_input)
}

/// Joins the words of a command with blanks, as `ssh` does.
fn joined(words: &[&OsStr]) -> OsString {
    let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    OsString::from_vec(words.join(&b' '))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<SshLine, SshLineError> {
        let words: Vec<OsString> = text.split('|').map(OsString::from).collect();
        SshLine::parse(&words)
    }

    fn line(host: &str, command: &str) -> SshLine {
        let command = Some(command.into());
        SshLine { host: host.to_owned(), command, is_without_input: false }
    }

    #[test]
    fn the_lines_of_launchers_are_understood() {
        // As Open MPI 4.1, MPICH 4.0 and gridctl write them.
        let open_mpi = parse("-x|a2|  orted -mca ess \"env\"").unwrap();
        assert_eq!(open_mpi, line("a2", "  orted -mca ess \"env\""));
        let hydra = parse("-x|b1|\"/usr/bin/hydra_pmi_proxy\"|--control-port|a1:34215").unwrap();
        assert_eq!(hydra, line("b1", "\"/usr/bin/hydra_pmi_proxy\" --control-port a1:34215"));
        let gridctl = parse("-o|BatchMode=yes|-J|head|ann@b2|--|sh|-c|'exec \"$@\"'|sh").unwrap();
        assert_eq!(gridctl, line("b2", "sh -c 'exec \"$@\"' sh"));
    }

    #[test]
    fn options_may_share_a_word_hold_their_value_and_follow_the_host() {
        for text in ["-tt|-p22|a1|ls|-l", "-qp|22|a1|-x|ls|-l", "-oPort=22|--|a1|ls|-l"] {
            assert_eq!(parse(text), Ok(line("a1", "ls -l")), "{text}");
        }
        let quiet = parse("-qn|a1|cat").unwrap();
        assert!(quiet.is_without_input);
        assert_eq!(parse("a1").unwrap().command, None);
    }

    #[test]
    fn lines_without_meaning_in_a_lab_are_refused() {
        assert_eq!(parse("-f|-N|a1"), Err(SshLineError::Option('f')));
        assert_eq!(parse("-O|exit|a1"), Err(SshLineError::Option('O')));
        assert_eq!(parse("a1|-L|1:a:1"), Err(SshLineError::Option('L')));
        assert_eq!(parse("a1|-p"), Err(SshLineError::NoValue('p')));
        assert_eq!(SshLine::parse(&[]), Err(SshLineError::NoHost));
        assert_eq!(parse("-x|--"), Err(SshLineError::NoHost));
    }

    #[test]
    fn no_sequence_of_words_makes_the_parser_panic_or_find_an_empty_host() {
        let words = ["", "-", "--", "-o", "-nx", "-f", "a@", "@b", "c"].map(OsString::from);
        let mut lines: Vec<Vec<OsString>> = vec![vec![]];
        for _ in 0..4 {
            let longer = lines.iter().flat_map(|line| {
                words.iter().map(move |word| [line.as_slice(), std::slice::from_ref(word)].concat())
            });
            lines = longer.collect();
            for line in &lines {
                let parsed = SshLine::parse(line);
                assert!(parsed.is_err() || parsed.is_ok_and(|it| !it.host.is_empty()), "{line:?}");
            }
        }
        assert_eq!(lines.len(), 9_usize.pow(4));
    }
}
