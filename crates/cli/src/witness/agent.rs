//! gridctl on the host of a witness: answers one request of a launcher on standard input.

use super::marked_place::MarkedPlace;
use super::protocol::{Answer, MARK, Order, Question, read_line};
use std::io::{self, BufRead, Write};
use std::path::PathBuf;

/// Answers a request. `own_folder` is the folder for requests that name none.
pub(super) fn serve(
    input: impl BufRead,
    mut output: impl Write,
    own_folder: impl FnOnce() -> io::Result<PathBuf>,
) -> io::Result<()> {
    let line = read_line(input)?;
    let answer = match Order::parse(&line) {
        Ok(order) => carry_out(order, own_folder)
            .unwrap_or_else(|error| Answer::Refused { reason: error.to_string() }),
        Err(refusal) => refusal,
    };
    writeln!(output, "{MARK}{}", serde_json::to_string(&answer)?)?;
    output.flush()
}

fn carry_out(order: Order, own_folder: impl FnOnce() -> io::Result<PathBuf>) -> io::Result<Answer> {
    let folder = order.folder.map_or_else(own_folder, Ok)?;
    let place = MarkedPlace::new(folder, order.job);
    Ok(match order.question {
        Question::Begin => {
            place.begin()?;
            Answer::Begun
        }
        Question::Settle { run, half } => Answer::Settled { half: Some(place.settle(run, &half)?) },
        Question::Settled { run } => Answer::Settled { half: place.settled(run)? },
    })
}

#[cfg(test)]
mod tests {
    use super::super::protocol::{VERSION, read_answer};
    use super::*;
    use std::path::Path;

    fn answer_to(line: &str, own: &Path) -> Answer {
        let mut output = Vec::new();
        serve(line.as_bytes(), &mut output, || Ok(own.to_owned())).unwrap();
        read_answer(&output[..]).unwrap().unwrap()
    }

    fn answer(folder: Option<&Path>, question: Question, own: &Path) -> Answer {
        let (folder, job) = (folder.map(Path::to_owned), "ring-7.a1.5".to_owned());
        let order = Order { version: VERSION, folder, job, question };
        answer_to(&(serde_json::to_string(&order).unwrap() + "\n"), own)
    }

    fn settle(half: &str) -> Question {
        Question::Settle { run: 3, half: half.to_owned() }
    }

    fn settled(half: &str) -> Answer {
        Answer::Settled { half: Some(half.to_owned()) }
    }

    #[test]
    fn of_two_halves_the_first_is_settled_in_the_folder_of_the_user() {
        let own = tempfile::tempdir().unwrap();
        let ask = |question| answer(None, question, own.path());
        let before = ask(settle("[0]"));
        assert!(matches!(&before, Answer::Refused { reason } if reason.contains("not know")));
        assert_eq!(ask(Question::Begin), Answer::Begun);
        assert_eq!(ask(Question::Settled { run: 3 }), Answer::Settled { half: None });
        assert_eq!(ask(settle("[0]")), settled("[0]"));
        assert_eq!(ask(settle("[1]")), settled("[0]"));
        assert_eq!(ask(Question::Settled { run: 3 }), settled("[0]"));
        assert!(own.path().join("witness-ring-7.a1.5/run-3").exists());
    }

    #[test]
    fn a_named_folder_is_used_instead_and_created() {
        let (own, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let named = other.path().join("new");
        assert_eq!(answer(Some(&named), Question::Begin, own.path()), Answer::Begun);
        assert_eq!(answer(Some(&named), settle("[1]"), own.path()), settled("[1]"));
        assert_eq!(std::fs::read_dir(own.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_is_no_request_is_refused() {
        let own = tempfile::tempdir().unwrap();
        for line in ["", "\n", "dance\n", "{\"version\":1}\n"] {
            let refused = answer_to(line, own.path());
            assert!(matches!(refused, Answer::Refused { .. }), "{line}: {refused:?}");
        }
        assert_eq!(answer_to("{\"version\":77}\n", own.path()), Answer::Version);
    }
}
