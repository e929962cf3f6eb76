//! `gridctl doctor`: why a running job is slow, or does not go on.

use crate::args::DoctorArgs;
use crate::error::CliError;
use crate::nodes::{answered_soon, find, unexpected};
use crate::output;
use crate::progress::Progress;
use crate::request::{Answer, Request};
use gridspan_runtime::{Diagnosis, Wait, WaitKind};
use serde::Serialize;
use std::io;
use std::process::ExitCode;

/// Name of the operation in errors.
const PRINT: &str = "print the diagnosis";

/// The answer as one object.
#[derive(Serialize)]
struct Document<'a> {
    job: &'a str,
    /// The kind of the most likely cause, if there is one.
    kind: Option<WaitKind>,
    /// The cause in one sentence, or that there is none.
    cause: String,
    #[serde(flatten)]
    diagnosis: &'a Diagnosis,
}

/// Asks a job what it waits for, and prints the answer.
pub(crate) fn run(args: &DoctorArgs) -> Result<ExitCode, CliError> {
    let job = find(args.job.as_deref())?;
    let progress = Progress::begin(format!("asking {}", job.id), None);
    let answer = answered_soon(&job, &Request::Diagnose);
    progress.end();
    let Answer::Diagnosis(diagnosis) = answer? else {
        return Err(unexpected());
    };
    let text = match args.json {
        true => {
            json(&job.id, &diagnosis).map_err(io::Error::from).map_err(CliError::system(PRINT))?
        }
        false => text(&diagnosis),
    };
    output::print(&text, PRINT)
}

/// The cause, and one line for each wait.
fn text(diagnosis: &Diagnosis) -> String {
    let mut text = format!("{}\n", diagnosis.summary());
    for wait in diagnosis.waits.iter().map(Wait::sentence) {
        text += &format!("- {wait}\n");
    }
    text
}

fn json(job: &str, diagnosis: &Diagnosis) -> Result<String, serde_json::Error> {
    let kind = diagnosis.cause().map(|wait| wait.kind);
    let document = Document { job, kind, cause: diagnosis.summary(), diagnosis };
    Ok(serde_json::to_string(&document)? + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn diagnosis() -> Diagnosis {
        let mut diagnosis = Diagnosis::default();
        (diagnosis.pes, diagnosis.handled) = (2, Some(0));
        let asked = "main asked Cell 0x1 of collection 0 9 s ago";
        let question = Wait::new(WaitKind::Question, 1).for_seconds(9).such_as(asked);
        for mut wait in [question, Wait::new(WaitKind::Checkpoint, 1)] {
            wait.is_lasting = true;
            diagnosis.waits.add(wait);
        }
        diagnosis
    }

    #[test]
    fn the_first_line_is_the_cause_and_each_wait_has_a_line() {
        let question = "1 question has no answer: main asked Cell 0x1 of collection 0 9 s ago";
        let checkpoint = "all PEs stand still until a checkpoint is made";
        let wanted = format!("{question}\n- {question}\n- {checkpoint}\n");
        assert_eq!(text(&diagnosis()), wanted);
    }

    #[test]
    fn the_document_has_the_same_content() {
        let document: Value = serde_json::from_str(&json("ring-7", &diagnosis()).unwrap()).unwrap();
        assert_eq!(document["job"], "ring-7");
        assert_eq!(document["kind"], "question");
        assert!(document["cause"].as_str().unwrap().starts_with("1 question has no answer"));
        assert_eq!((&document["pes"], &document["handled"]), (&json!(2), &json!(0)));
        assert_eq!(document["waits"][0]["seconds"], 9);
        assert_eq!(document["waits"][1]["kind"], "checkpoint");

        let mut nothing = Diagnosis::default();
        (nothing.pes, nothing.busy) = (2, 2);
        let document: Value = serde_json::from_str(&json("ring-7", &nothing).unwrap()).unwrap();
        assert_eq!((&document["kind"], &document["waits"]), (&Value::Null, &json!([])));
    }
}
