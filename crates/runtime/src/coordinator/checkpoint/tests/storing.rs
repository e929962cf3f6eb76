//! Tests of captured checkpoints whose parts are encoded, stored and copied, or are not.

use super::*;

#[test]
fn a_checkpoint_of_which_a_part_is_not_encoded_in_time_is_given_up_while_the_job_goes_on() {
    let mut job = Coordination::new();
    job.ask(3);
    for round in 1..=2 {
        [MAIN_PE, PE_1].into_iter().for_each(|pe| job.drained(pe, round));
    }
    job.look();
    job.encoded(MAIN_PE, 1);
    job.say(MAIN_PE, CheckpointMessage::Kept { checkpoint: 1, part: MAIN_PE });

    job.pass_until(STEP_MAX.as_secs());

    let warning = job.warning_about("checkpoint 1").expect("it is given up");
    assert!(warning.contains("no part was encoded, stored or copied for 300 s"), "{warning}");
    assert!(warning.contains("those of pe1 are missing"), "{warning}");
    job.look();
    // What arrives from now on belongs to no checkpoint.
    job.encoded(PE_1, 1);
    job.say(PE_1, CheckpointMessage::Kept { checkpoint: 1, part: PE_1 });
    assert_eq!(job.look(), (vec![], vec![]));
    job.ask(4);
    job.assert_told("drain 2.1");
}

#[test]
fn a_pe_whose_part_is_stored_but_not_reported_is_named() {
    let mut job = Coordination::new();
    job.ask(3);
    for round in 1..=2 {
        [MAIN_PE, PE_1].into_iter().for_each(|pe| job.drained(pe, round));
    }
    for part in [MAIN_PE, PE_1] {
        job.say(part, CheckpointMessage::Kept { checkpoint: 1, part });
    }
    job.encoded(MAIN_PE, 1);

    job.pass_until(STEP_MAX.as_secs());

    let warning = job.warning_about("checkpoint 1").expect("it is given up");
    assert!(warning.contains("those of pe1 are missing"), "{warning}");
}

#[test]
fn a_checkpoint_that_is_made_in_time_is_not_given_up_later() {
    let mut job = Coordination::new();
    job.ask(3);
    for round in 1..=2 {
        [MAIN_PE, PE_1].into_iter().for_each(|pe| job.drained(pe, round));
    }
    let (_, answers) = job.look();
    assert_eq!(answers, [(3, Ok(1))]);
    for pe in [MAIN_PE, PE_1] {
        job.encoded(pe, 1);
        job.say(pe, CheckpointMessage::Kept { checkpoint: 1, part: pe });
    }
    // Another one begins just before the deadline of the first.
    job.pass_until(STEP_MAX.as_secs() - 1);
    job.look();
    job.ask(4);
    job.assert_told("drain 2.1");

    job.pass_until(STEP_MAX.as_secs() + 1);

    assert_eq!(job.look(), (vec![], vec![]));
    job.pass_until(2 * STEP_MAX.as_secs());
    job.assert_given_up(2, 4, "pe0");
}

#[test]
fn a_checkpoint_whose_parts_are_not_stored_in_time_is_given_up() {
    let mut job = Coordination::new();
    half_stored(&mut job, 3, 1);
    job.pass_until(STEP_MAX.as_secs() - 1);
    job.look();
    job.ask(4);
    job.assert_refused(4, "the checkpoint before is still being encoded or stored");

    job.pass_until(STEP_MAX.as_secs());

    let warning = job.warning_about("checkpoint 1").expect("it is given up");
    assert!(warning.contains("is given up, and the one before stays the last"), "{warning}");
    assert!(warning.contains("for 300 s, and those of pe1 are missing; look at"), "{warning}");
    job.look();
    // A late part does not complete it, and another checkpoint begins.
    job.say(PE_1, CheckpointMessage::Kept { checkpoint: 1, part: PE_1 });
    assert_eq!(job.look(), (vec![], vec![]));
    half_stored(&mut job, 5, 2);
    // The second one has twice as much time, counted from the last part that was kept.
    job.pass_until(3 * STEP_MAX.as_secs() - 1);
    assert_eq!(job.warning_about("checkpoint 2"), None);
    job.look();
    job.say(PE_1, CheckpointMessage::Kept { checkpoint: 2, part: PE_1 });
    let (messages, _) = job.look();
    assert!(messages.iter().any(|(_, text)| text.starts_with("Complete")), "{messages:?}");
    // The second one needed more time than the first had, so the third has twice as much time, too.
    half_stored(&mut job, 6, 3);
    job.pass_until(4 * STEP_MAX.as_secs());
    assert_eq!(job.warning_about("checkpoint 3"), None);
    job.say(PE_1, CheckpointMessage::Kept { checkpoint: 3, part: PE_1 });
    job.look();
    // After a checkpoint that is stored at once, the first deadline applies again.
    half_stored(&mut job, 7, 4);
    job.say(PE_1, CheckpointMessage::Kept { checkpoint: 4, part: PE_1 });
    job.look();
    half_stored(&mut job, 8, 5);
    job.pass_until(5 * STEP_MAX.as_secs());
    let warning = job.warning_about("checkpoint 5").expect("it is given up");
    assert!(warning.contains("for 300 s"), "{warning}");
}

#[test]
fn a_pe_that_cannot_confirm_its_part_is_named_with_its_handler() {
    // The handler begins soon after the part is encoded, or long after that.
    for (begins, names_handler) in [(1, true), (STEP_MAX.as_secs() - 9, false)] {
        let mut job = Coordination::new();
        half_stored(&mut job, 3, 1);
        job.pass_until(begins);
        let handler = Some(("a handler of Idle".to_owned(), 0));
        job.tell(PE_1, Control::Inside { handler });

        job.pass_until(STEP_MAX.as_secs());

        let warning = job.warning_about("checkpoint 1").expect("it is given up");
        let handler = "are missing; pe1 (node0 at site a) has been inside a handler of Idle";
        assert_eq!(warning.contains(handler), names_handler, "{warning}");
        assert_eq!(warning.contains("are missing; look at"), !names_handler, "{warning}");
    }
}

#[test]
fn a_checkpoint_of_which_a_part_is_not_kept_is_given_up_while_others_are_encoded() {
    let mut job = Coordination::new();
    job.ask(3);
    for round in 1..=2 {
        [MAIN_PE, PE_1].into_iter().for_each(|pe| job.drained(pe, round));
    }
    job.look();
    let reason = "the disk is full".to_owned();
    job.say(PE_1, CheckpointMessage::NotKept { checkpoint: 1, reason });

    let warning = job.warning_about("checkpoint 1").expect("it is given up");
    assert!(warning.contains("the disk is full"), "{warning}");
    job.assert_told("resume 1");
    job.encoded(MAIN_PE, 1);
    assert_eq!(job.look(), (vec![], vec![]));
    job.ask(4);
    job.assert_told("drain 2.1");
}

#[test]
fn a_list_of_parts_that_is_too_large_gives_the_checkpoint_up() {
    let mut job = Coordination::new();
    half_stored(&mut job, 3, 1);
    let segments = vec![1 << 20; MANIFEST_BYTES_MAX];
    let part = PartSummary { segments, ..PartSummary::default() };
    job.say(PE_1, CheckpointMessage::Encoded { checkpoint: 1, part, took: Duration::ZERO });
    job.say(PE_1, CheckpointMessage::Kept { checkpoint: 1, part: PE_1 });

    let warning = job.warning_about("checkpoint 1").expect("it is given up");
    assert!(warning.contains("for the list of parts"), "{warning}");
    job.assert_told("resume 1");
}
