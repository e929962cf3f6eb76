//! Reads recordings with texts that are safe to print.
//!
//! Names, failures and warnings in a recording may come from any source. Terminals interpret
//! control characters, and long texts would hide the rest of a report.

use gridspan_record::{RebalanceTrigger, RecordError, RecordedEvent, Recording, What};
use std::path::Path;

/// Maximum number of characters of a text.
const TEXT_MAX: usize = 200;
/// What stands for the rest of a text that was cut.
const REST: &str = "…";

/// Reads a recording. Replaces control characters in its texts, and cuts long texts.
pub(crate) fn read(folder: &Path) -> Result<Recording, RecordError> {
    let mut recording = Recording::read(folder)?;
    clean(&mut recording);
    Ok(recording)
}

/// Makes the texts of a recording safe to print.
pub(crate) fn clean(recording: &mut Recording) {
    let header = &mut recording.header;
    let names = header.nodes.iter_mut().flat_map(|node| [&mut node.name, &mut node.host]);
    let hosts = header.hosts.iter_mut().map(|host| &mut host.name);
    let names = names.chain(hosts).chain(&mut header.build).chain(&mut header.gridctl);
    let all = [&mut header.job].into_iter().chain(&mut header.command).chain(&mut header.sites);
    all.chain(names).for_each(clean_text);
    recording.pes.iter_mut().flat_map(|record| &mut record.types).for_each(clean_text);
    recording.events.iter_mut().for_each(clean_event);
    if let Some(ending) = &mut recording.ending {
        ending.failure.iter_mut().chain(&mut ending.verified).for_each(clean_text);
    }
}

fn clean_event(event: &mut RecordedEvent) {
    match &mut event.what {
        What::Balanced { trigger, strategy, .. } => {
            if let RebalanceTrigger::Other(text) = trigger {
                clean_text(text);
            }
            clean_text(strategy);
        }
        What::Warning { text } => clean_text(text),
        _ => {}
    }
}

fn clean_text(text: &mut String) {
    if text.contains(char::is_control) {
        *text = text.replace(char::is_control, "?");
    }
    cut(text);
}

/// Cuts a text to the length that reports show.
pub(crate) fn cut(text: &mut String) {
    if let Some((end, _)) = text.char_indices().nth(TEXT_MAX) {
        text.truncate(end);
        text.push_str(REST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gridspan_record::{JobEnding, PeRecord, RecordedNode};

    #[test]
    fn texts_have_no_control_characters_and_are_short() {
        let bad = || "a\u{1b}[31m\r\n".to_owned();
        let mut recording = Recording::default();
        recording.header.job = bad();
        recording.header.command = vec![bad()];
        (recording.header.build, recording.header.gridctl) = (Some(bad()), Some(bad()));
        recording.header.sites = vec![bad()];
        recording.header.nodes = vec![RecordedNode { name: bad(), ..RecordedNode::default() }];
        recording.pes = vec![PeRecord { types: vec![bad()], ..PeRecord::default() }];
        let what = What::Warning { text: "ä".repeat(1000) };
        recording.events = vec![RecordedEvent { at_ns: 1, what }];
        let (failure, verified) = (Some(bad()), Some(bad()));
        let rest = JobEnding::default();
        recording.ending = Some(JobEnding { at_ns: 2, exit_code: 1, failure, verified, ..rest });

        clean(&mut recording);

        let Recording { header, pes, events, ending, .. } = recording;
        let ending = ending.unwrap();
        let texts = [
            &header.job,
            &header.command[0],
            &header.sites[0],
            &header.nodes[0].name,
            &pes[0].types[0],
            header.build.as_ref().unwrap(),
            header.gridctl.as_ref().unwrap(),
            ending.failure.as_ref().unwrap(),
            ending.verified.as_ref().unwrap(),
        ];
        assert_eq!(texts, ["a?[31m??"; 9]);
        let What::Warning { text } = &events[0].what else { panic!("{events:?}") };
        assert_eq!(*text, "ä".repeat(200) + "…");
    }
}
