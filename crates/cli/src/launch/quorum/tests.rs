//! Tests of the rule, and a model of several launchers that follow it.

use super::*;
use gridspan::keeper::LauncherId;
use gridspan_topology::dice::Dice;

fn set(bits: u32) -> BTreeSet<NodeId> {
    (0..32).filter(|bit| bits & (1 << bit) != 0).map(NodeId).collect()
}

fn all(number: u32) -> Vec<NodeId> {
    (0..number).map(NodeId).collect()
}

/// Whether a part of the members goes on without a witness.
fn goes_on(number: u32, part: u32, ended: u32) -> bool {
    let rule = Rule { ended: &set(ended), witness: None };
    rule.has_quorum(0, &all(number), |node| part & (1 << node.0) != 0)
}

#[test]
fn two_disjoint_parts_never_both_go_on() {
    for number in 1..=7 {
        let whole = (1_u32 << number) - 1;
        for ended in 0..=whole {
            for one in 0..=whole {
                let goes_on = |part: u32| goes_on(number, part, ended);
                assert!(!goes_on(one) || !goes_on(whole & !one), "{number} {ended:b} {one:b}");
                // If a part may go on, so may each part that contains it.
                assert!(!goes_on(one & (whole >> 1)) || goes_on(one));
            }
        }
    }
}

#[test]
fn with_a_witness_two_disjoint_parts_never_both_go_on() {
    for number in 1..=5 {
        let (members, whole) = (all(number), (1_u32 << number) - 1);
        let pairs = (0..=whole).flat_map(|ended| (0..=whole).map(move |settled| (ended, settled)));
        for (ended, settled) in pairs {
            // The witness may have settled on anything, even for another run.
            let halves = Halves::from([(3, set(settled))]);
            let rule = Rule { ended: &set(ended), witness: Some(&halves) };
            let goes_on = |part: u32| rule.has_quorum(3, &members, |it| part & (1 << it.0) != 0);
            for one in 0..=whole {
                assert!(!goes_on(one) || !goes_on(whole & !one), "{ended:b} {settled:b} {one:b}");
                assert!(!goes_on(one & settled) || goes_on(one));
            }
        }
    }
}

#[test]
fn a_majority_goes_on_and_half_with_the_first_member() {
    let agreed = goes_on;
    assert!(agreed(1, 0b1, 0) && !agreed(1, 0, 0));
    assert!(agreed(2, 0b01, 0) && !agreed(2, 0b10, 0));
    assert!(agreed(3, 0b110, 0) && !agreed(3, 0b001, 0));
    assert!(agreed(4, 0b0011, 0) && !agreed(4, 0b1100, 0) && agreed(4, 0b1110, 0));
    assert!(agreed(4, 0b1100, 0b0011), "the user is the witness");
    assert!(agreed(4, 0b0100, 0b0011) && !agreed(4, 0b1000, 0b0011), "half of the others");
    assert!(!agreed(2, 0, 0b11), "no member is left");
}

#[test]
fn exactly_half_ask_the_witness_which_settles_on_one_half() {
    let (none, mut halves) = (BTreeSet::new(), Halves::new());
    let tally = |halves: &Halves, part: u32| {
        let rule = Rule { ended: &none, witness: Some(halves) };
        rule.tally(2, &all(4), |node| part & (1 << node.0) != 0)
    };
    assert_eq!(tally(&halves, 0b0001), Tally::TooFew);
    assert_eq!(tally(&halves, 0b1101), Tally::Enough);
    // With a witness, the first member does not decide.
    assert_eq!(tally(&halves, 0b0011), Tally::Half(set(0b0011)));
    assert_eq!(tally(&halves, 0b1100), Tally::Half(set(0b1100)));
    halves.insert(2, set(0b1100));
    assert_eq!(tally(&halves, 0b1100), Tally::Enough);
    assert_eq!(tally(&halves, 0b0011), Tally::TooFew);
    assert_eq!(tally(&halves, 0b0110), Tally::TooFew, "half of that half");
    assert_eq!(tally(&halves, 0b1011), Tally::Enough);
}

#[test]
fn half_of_the_members_go_on_with_most_of_the_majority_of_which_the_witness_was_told() {
    let none = BTreeSet::new();
    let halves = Halves::from([(2, set(0b0111))]);
    let rule = Rule { ended: &none, witness: Some(&halves) };
    let tally = |part: u32| rule.tally(2, &all(4), |node| part & (1 << node.0) != 0);
    assert_eq!(tally(0b0110), Tally::Enough);
    assert_eq!(tally(0b1001), Tally::TooFew, "n0 alone is not most of it");
    let (runs, has_agreed) = ([(0, all(4))], |node: NodeId| [0, 3].contains(&node.0));
    let text = shortage(rule, (2, &runs), has_agreed, |it| format!("n{}", it.0)).unwrap();
    let expected = "or half with most of the majority on which the witness has settled, n[0-2]; ";
    assert!(text.contains(expected), "{text}");
}

#[test]
fn a_half_that_the_witness_has_let_go_on_is_not_overruled_by_the_end_of_some_of_it() {
    let (ended, mut halves) = (set(0b0001), Halves::new());
    let tally = |halves: &Halves, number: u32, part: u32| {
        let rule = Rule { ended: &ended, witness: Some(halves) };
        rule.tally(2, &all(number), |node| part & (1 << node.0) != 0)
    };
    assert_eq!(tally(&halves, 4, 0b1000), Tally::TooFew);
    assert_eq!(tally(&halves, 4, 0b1100), Tally::Half(set(0b1100)));
    assert_eq!(tally(&halves, 4, 0b1110), Tally::Enough, "more than half of all");
    assert_eq!(tally(&halves, 5, 0b01100), Tally::Half(set(0b01100)));
    halves.insert(2, set(0b0011));
    assert_eq!(tally(&halves, 4, 0b1100), Tally::TooFew);
    assert_eq!(tally(&halves, 4, 0b0110), Tally::Enough, "one of them has gone on");
    assert_eq!(tally(&halves, 4, 0b1110), Tally::Enough);
    halves.insert(2, set(0b1100));
    assert_eq!(tally(&halves, 4, 0b1100), Tally::Enough);

    let runs = [(0, all(4))];
    halves.insert(2, set(0b0011));
    let rule = Rule { ended: &ended, witness: Some(&halves) };
    let text = shortage(rule, (2, &runs), |it| it.0 >= 2, |it| format!("n{}", it.0)).unwrap();
    assert!(
        text.starts_with(
            "2 of the 3 members of the job agree, but it takes more than half of all 4, with \
             those that have ended, or a part of the half on which the witness has settled, n"
        ),
        "{text}"
    );
}

#[test]
fn a_majority_of_which_the_witness_was_told_is_not_overruled_by_the_end_of_some_of_it() {
    // The members are D, A, B, C and E. A, B and C have gone on; then A has ended.
    let (ended, mut halves) = (set(0b00010), Halves::new());
    let tally = |halves: &Halves, part: u32| {
        let rule = Rule { ended: &ended, witness: Some(halves) };
        rule.tally(2, &all(5), |node| part & (1 << node.0) != 0)
    };
    let [others, rest] = [0b10001, 0b01100];
    assert_eq!(tally(&halves, others), Tally::Half(set(others)), "without a report");
    halves.insert(2, set(0b01110));
    assert_eq!(tally(&halves, others), Tally::TooFew);
    assert_eq!(tally(&halves, rest), Tally::Enough);
    assert_eq!(tally(&halves, others | 0b00100), Tally::Enough, "B knows of the run");
    let (runs, rule) = ([(0, all(5))], Rule { ended: &ended, witness: Some(&halves) });
    let has_agreed = |node: NodeId| others & (1 << node.0) != 0;
    let text = shortage(rule, (2, &runs), has_agreed, |it| format!("n{}", it.0)).unwrap();
    let expected =
        "or a part of the majority on which the witness has settled, n[1-3]; n[2-3] cannot";
    assert!(text.contains(expected), "{text}");
}

#[test]
fn the_witness_is_not_asked_for_a_part_that_cannot_go_on() {
    let (none, mut halves) = (BTreeSet::new(), Halves::new());
    let runs = [(0, all(4)), (3, vec![NodeId(2), NodeId(3)])];
    let open = |halves: &Halves, part: u32| {
        let rule = Rule { ended: &none, witness: Some(halves) };
        open_half(rule, (5, &runs), |node| part & (1 << node.0) != 0)
    };
    assert_eq!(open(&halves, 0b0011), None, "no member of the second run agrees");
    assert_eq!(open(&halves, 0b0110), Some((5, set(0b0110))));
    assert_eq!(open(&halves, 0b0111), Some((6, set(0b0100))));
    halves.insert(5, set(0b0110));
    assert_eq!(open(&halves, 0b0110), Some((6, set(0b0100))));
    halves.insert(5, set(0b1001));
    assert_eq!(open(&halves, 0b0110), None, "the other half goes on");
}

#[test]
fn a_shortage_names_the_missing_members_and_what_is_needed() {
    let runs = [(0, all(4)), (3, vec![NodeId(2), NodeId(3)])];
    let none = BTreeSet::new();
    let text = |witness: Option<&Halves>, part: u32| {
        let has_agreed = |node: NodeId| part & (1 << node.0) != 0;
        let rule = Rule { ended: &none, witness };
        shortage(rule, (5, &runs), has_agreed, |node| format!("n{}", node.0))
    };
    assert_eq!(text(None, 0b1111), None);
    assert_eq!(
        text(None, 0b1100).unwrap(),
        "2 of the 4 members of the job agree, but it takes more than half of them, or half \
         with n0; n[0-1] cannot be reached"
    );
    assert!(text(None, 0b0011).unwrap().starts_with("0 of the 2 members"));
    assert!(text(None, 0b0001).unwrap().contains("takes more than half of them; "));
    let open = Halves::new();
    assert!(text(Some(&open), 0b1100).unwrap().contains("or half and the witness; n[0-1]"));
    let settled = Halves::from([(5, set(0b0011))]);
    let text = text(Some(&settled), 0b1100).unwrap();
    assert!(text.contains("the half on which the witness has settled, n[0-1]; "), "{text}");
}

#[test]
fn the_rule_is_said_where_a_site_is_vital() {
    let note = |shape: &str, witness| {
        let spec = GridSpec::from_emulate(shape).unwrap();
        let members: Vec<NodeId> = spec.layout().nodes().collect();
        super::note(&spec, &members, witness)
    };
    let [none, elsewhere] = [WitnessPlace::None, WitnessPlace::Elsewhere];
    assert!(note("2x2", none).unwrap().starts_with("a loss of site a stops the job"));
    assert_eq!(note("2x2", elsewhere), None);
    assert_eq!(note("3x2", none), None);
    assert_eq!(note("1x4", none), None);
}

#[test]
fn a_witness_at_a_site_with_half_of_the_nodes_ends_with_it() {
    let text = "[site.a]\nhosts = [\"a1\", \"a2\"]\n[site.b]\nhosts = [\"b1\", \"me@b2\"]\n\
                [site.c]\nhosts = [\"c1\"]\n";
    let spec = GridSpec::from_toml(text).unwrap();
    let note = |members: &[NodeId], host: &str| {
        super::note(&spec, members, WitnessPlace::of_host(&spec, host))
    };
    let five = all(5);
    let four = &five[..4];
    for host in ["b1", "b2"] {
        let note = note(four, host).unwrap();
        assert!(note.starts_with("a loss of site b stops the job, since the witness"), "{note}");
    }
    assert_eq!(note(four, "c1"), None, "a spare node has no vote");
    assert_eq!(note(four, "d1"), None);
    assert_eq!(note(&five, "b1"), None, "three of five are left");
}

/// What a keeper has accepted, as stored on its disk.
#[derive(Clone, Default)]
struct Keeper {
    launcher: LauncherId,
    saved: Option<Record>,
}

/// The runs of the job that a launcher has proposed, and the last that has begun.
#[derive(Clone, Debug, PartialEq)]
struct Record {
    runs: Vec<(u64, Vec<NodeId>)>,
    agreed: usize,
    epoch: u64,
}

struct Launcher {
    id: LauncherId,
    record: Record,
    /// Members that had ended when it began.
    ended: BTreeSet<NodeId>,
}

/// A planted bug, which the model has to find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Planted {
    None,
    /// The witness forgets on which half it has settled, and lets the other half go on, too.
    WitnessGrantsTwice,
    /// Keepers save what an earlier launcher sends after they have accepted a later one.
    EarlierLauncherSaved,
}

/// Keepers, and what the witness has settled if there is one.
struct Places {
    bug: Planted,
    keepers: Vec<Keeper>,
    witness: Option<Halves>,
    /// Whether majorities that go on report this to the witness.
    is_told: bool,
}

impl Places {
    /// Whether enough members of the runs agree. Asks the witness if they suffice only with it.
    fn agree(
        &mut self,
        first: usize,
        runs: &[(u64, Vec<NodeId>)],
        agrees: &BTreeSet<NodeId>,
        ended: &BTreeSet<NodeId>,
    ) -> bool {
        if self.bug == Planted::WitnessGrantsTwice {
            self.witness.iter_mut().for_each(Halves::clear);
        }
        let none = BTreeSet::new();
        let has_agreed = |node: NodeId| agrees.contains(&node);
        // If the user says that the others have ended, fewer than half may go on. Even if the user
        // is right, the others may have gone on with further members before they ended. Only a
        // witness with a report of this knows it. Without reports, the model leaves this case out.
        let is_half = |(_, members): &(u64, Vec<NodeId>)| {
            2 * members.iter().filter(|&&it| has_agreed(it)).count() >= members.len()
        };
        let ended = if self.is_told || runs.iter().all(is_half) { ended } else { &none };
        loop {
            let rule = Rule { ended, witness: self.witness.as_ref() };
            let open = open_half(rule, (first, runs), has_agreed);
            let (Some((run, half)), Some(halves)) = (open, &mut self.witness) else { break };
            halves.entry(run).or_insert(half);
        }
        let rule = Rule { ended, witness: self.witness.as_ref() };
        (first..).zip(runs).all(|(run, (_, members))| rule.has_quorum(run, members, has_agreed))
    }
}

/// Lets a launcher propose a run to the keepers of `reach`. Returns whether the run begins.
fn try_to_go_on(
    launcher: &mut Launcher,
    places: &mut Places,
    reach: &BTreeSet<NodeId>,
    next: Vec<NodeId>,
) -> bool {
    let mut proposed = launcher.record.clone();
    proposed.runs.push((0, next));
    proposed.epoch = launcher.id.epoch;
    let mut saved = BTreeSet::new();
    let is_any_saved = places.bug == Planted::EarlierLauncherSaved;
    for node in reach {
        let keeper = &mut places.keepers[node.index()];
        if keeper.launcher == launcher.id || is_any_saved {
            keeper.saved = Some(proposed.clone());
            saved.insert(*node);
        }
    }
    let before = &proposed.runs[proposed.agreed..proposed.runs.len() - 1];
    let begins = places.agree(proposed.agreed, before, &saved, &launcher.ended);
    let majorities = (proposed.agreed..).zip(before).filter_map(|(run, (_, members))| {
        let of_run = members.iter().copied().filter(|node| saved.contains(node));
        let agreed: BTreeSet<NodeId> = of_run.collect();
        (2 * agreed.len() > members.len()).then_some((run, agreed))
    });
    if let Some(halves) = places.witness.as_mut().filter(|_| begins && places.is_told) {
        for (run, majority) in majorities {
            halves.entry(run).or_insert(majority);
        }
    }
    launcher.record = proposed;
    if begins {
        launcher.record.agreed = launcher.record.runs.len() - 1;
    }
    begins
}

/// Returns a launcher that takes over with the keepers of `reach`, if it may.
fn take_over(
    places: &mut Places,
    (reach, ended): (&BTreeSet<NodeId>, &BTreeSet<NodeId>),
    name: u64,
    epoch: u64,
) -> Option<Launcher> {
    let id = LauncherId { epoch, name: name.to_string() };
    let keepers = &mut places.keepers;
    let accepted: BTreeSet<NodeId> = reach
        .iter()
        .copied()
        .filter(|node| keepers[node.index()].launcher.yields_to(&id))
        .collect();
    accepted.iter().for_each(|node| keepers[node.index()].launcher = id.clone());
    let records = accepted.iter().filter_map(|node| keepers[node.index()].saved.clone());
    // A later launcher knew all runs that had begun before it, and no run of an earlier launcher
    // has begun since.
    let newest = records.max_by_key(|it| (it.epoch, it.runs.len()))?;
    let may = places.agree(newest.agreed, &newest.runs[newest.agreed..], &accepted, ended);
    may.then(|| Launcher { id, record: newest, ended: ended.clone() })
}

/// The keepers of a job that has begun with all nodes, and its first launcher.
fn beginning(nodes: u32, has_witness: bool) -> (Places, Launcher) {
    let id = LauncherId { epoch: 1, name: "first".to_owned() };
    let record = Record { runs: vec![(0, all(nodes))], agreed: 0, epoch: 1 };
    let keeper = Keeper { launcher: id.clone(), saved: Some(record.clone()) };
    let keepers = vec![keeper; nodes as usize];
    let witness = has_witness.then(Halves::new);
    let places = Places { bug: Planted::None, keepers, witness, is_told: false };
    (places, Launcher { id, record, ended: BTreeSet::new() })
}

#[test]
fn the_other_half_does_not_go_on_when_a_node_of_the_first_has_ended() {
    let (mut places, mut launcher) = beginning(4, true);
    let half = vec![NodeId(0), NodeId(1)];
    assert!(try_to_go_on(&mut launcher, &mut places, &set(0b0011), half));
    let ended = set(0b0001);

    let other = take_over(&mut places, (&set(0b1100), &ended), 7, 2);

    assert!(other.is_none(), "n1 goes on");
    let both = take_over(&mut places, (&set(0b1110), &ended), 8, 3);
    assert_eq!(both.map(|launcher| launcher.record.runs.len()), Some(2), "it knows of that run");
}

#[test]
fn a_wrong_word_of_the_user_does_not_let_others_go_on_if_the_witness_was_told() {
    let majority: Vec<NodeId> = [0, 1, 2].map(NodeId).into();
    let (others, rest, ended) = (set(0b11000), set(0b00110), set(0b00001));
    for has_arrived in [true, false] {
        let (mut places, mut launcher) = beginning(5, true);
        places.is_told = true;
        assert!(try_to_go_on(&mut launcher, &mut places, &set(0b00111), majority.clone()));
        if !has_arrived {
            places.witness = Some(Halves::new());
        }

        let other = take_over(&mut places, (&others, &ended), 7, 2);

        assert_eq!(other.is_none(), has_arrived, "n1 and n2 go on");
        if has_arrived {
            let rest = take_over(&mut places, (&rest, &ended), 8, 3).expect("both have gone on");
            assert_eq!(rest.record.runs.len(), 2, "it knows of that run");
        }
    }
}

/// Launchers begin runs and take over at random. If there is a witness, nodes end, which later
/// launchers know. Returns how many runs have begun; an error if one begins without knowing all
/// that have begun before, so that two parts of the job run.
fn begin_runs(seed: u64, nodes: u32, has_witness: bool, bug: Planted) -> Result<u32, String> {
    let mut dice = Dice::new(seed);
    let (mut places, first) = beginning(nodes, has_witness);
    (places.bug, places.is_told) = (bug, seed.is_multiple_of(2));
    let mut last = first.record.runs.clone();
    let (mut launchers, mut ended) = (vec![first], BTreeSet::new());
    let (mut largest, mut begun) = (1_u64, 0);
    for step in 0..20 {
        if has_witness && dice.below(8_u32) == 0 && 2 * (ended.len() + 1) <= nodes as usize {
            ended.insert(NodeId(dice.below(nodes)));
        }
        // In each step, other keepers can be reached.
        let reach = &set(dice.below(1_u32 << nodes)) - &ended;
        let next = set(1 + dice.below((1_u32 << nodes) - 1));
        let next: Vec<NodeId> = next.into_iter().collect();
        if dice.below(3_u32) == 0 {
            let epoch = 1 + largest.min(1 + dice.below(8_u64));
            launchers.extend(take_over(&mut places, (&reach, &ended), step + 10, epoch));
            continue;
        }
        let one = dice.below(launchers.len());
        if try_to_go_on(&mut launchers[one], &mut places, &reach, next) {
            let Launcher { id, record, .. } = &launchers[one];
            if id.epoch < largest {
                return Err(format!("seed {seed}: epoch {} begins after {largest}", id.epoch));
            }
            if !record.runs.starts_with(&last) {
                return Err(format!("seed {seed}: {:?} begins beside {last:?}", record.runs));
            }
            (largest, begun) = (id.epoch, begun + 1);
            last = record.runs.clone();
        }
    }
    Ok(begun)
}

#[test]
fn no_launcher_begins_a_run_beside_another_or_after_a_later_launcher_has() {
    for (nodes, has_witness) in [(5, false), (4, false), (4, true), (2, true), (5, true)] {
        let begin = |seed| begin_runs(seed, nodes, has_witness, Planted::None).unwrap();
        let begun: u32 = (0..4000).map(begin).sum();
        assert!(begun > 2000, "only {begun} runs have begun with {nodes} nodes");
    }
}

#[test]
fn a_witness_that_grants_twice_and_a_launcher_of_an_earlier_epoch_are_found() {
    for bug in [Planted::WitnessGrantsTwice, Planted::EarlierLauncherSaved] {
        let found = (0..100).find_map(|seed| begin_runs(seed, 2, true, bug).err());
        println!("{bug:?} was found: {}", found.unwrap_or_else(|| panic!("{bug:?} was not found")));
    }
}
