//! Which part of a job may go on when it has broken into several.
//!
//! A launcher may begin another run of the job only if more than half of the members of the last
//! run have accepted it: if their keepers have saved the run durably for this launcher. Exactly
//! half are enough if the first member is among them, on whose node the coordinator is. So of two
//! parts at most one goes on. It does not matter whether the *nodes* of the members
//! still run.
//!
//! The user can be a witness: members that have ended for good, as the user says, do not count. The
//! user thereby also says that no other part of the job has gone on with them before they ended.
//!
//! So can a place that all launchers reach. Then the first member decides nothing: exactly half of
//! the members are enough if the witness has settled on them. It settles on one half of each run,
//! the first that a launcher asks for, and for good. That half and any majority have a member in
//! common, as any two majorities have.
//!
//! If members are enough only because others have ended, the witness is asked as well: it may have
//! settled on a half that has gone on, and of which only some have ended. So those that agree must
//! be that half, or have one of its members. If all of it has ended, nodes that it has added may
//! still go on, so that only the user can let the witness settle again.
//!
//! # Several launchers
//!
//! Another launcher takes over in two phases, as in Paxos (Lamport 1998). First, keepers accept it,
//! and say what they have saved; from then on they save nothing for launchers before it. Of what
//! they have saved, the record of the latest launcher holds. If runs were proposed after the last
//! one that is known to have begun, each of them may have begun, so that the launcher needs a
//! quorum of each. Only then does it save anything. Each launcher that saves anything thus knows
//! all runs that have begun, and those before it can begin no further one.

use gridspan_topology::{GridSpec, NodeId};
use std::collections::{BTreeMap, BTreeSet};

/// The half of the members of each run, by the position of the run, on which the witness has
/// settled, as far as is known.
pub(super) type Halves = BTreeMap<usize, BTreeSet<NodeId>>;

/// How the votes of the members of a run are counted.
#[derive(Clone, Copy)]
pub(super) struct Rule<'a> {
    /// Members that have ended for good, as the user says.
    pub(super) ended: &'a BTreeSet<NodeId>,
    /// What the witness has settled, if the job has one.
    pub(super) witness: Option<&'a Halves>,
}

/// The outcome of a vote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Tally {
    /// Enough of the members have agreed.
    Enough,
    /// These have, which are enough if the witness settles on them; what it settles is not known.
    Half(BTreeSet<NodeId>),
    TooFew,
}

impl Rule<'_> {
    /// The members of a run that count.
    fn voters(self, members: &[NodeId]) -> Vec<NodeId> {
        members.iter().copied().filter(|member| !self.ended.contains(member)).collect()
    }

    /// Counts the votes of the members of the run at a position.
    pub(super) fn tally(
        self,
        run: usize,
        members: &[NodeId],
        has_agreed: impl Fn(NodeId) -> bool,
    ) -> Tally {
        let voters = self.voters(members);
        let agreed: BTreeSet<NodeId> =
            voters.iter().copied().filter(|&it| has_agreed(it)).collect();
        if agreed.is_empty() || 2 * agreed.len() < voters.len() {
            return Tally::TooFew;
        }
        let is_enough = match self.witness.map(|halves| halves.get(&run)) {
            None => {
                let has_first = voters.first().is_some_and(|first| agreed.contains(first));
                2 * agreed.len() > voters.len() || has_first
            }
            // The witness may have settled on a half that has ended since.
            Some(_) if 2 * agreed.len() > members.len() => true,
            Some(None) => return Tally::Half(agreed),
            Some(Some(settled)) => {
                let has_ended = voters.len() < members.len();
                *settled == agreed || (has_ended && !settled.is_disjoint(&agreed))
            }
        };
        if is_enough { Tally::Enough } else { Tally::TooFew }
    }

    /// Whether enough of the members of the run at a position have agreed.
    pub(super) fn has_quorum(
        self,
        run: usize,
        members: &[NodeId],
        has_agreed: impl Fn(NodeId) -> bool,
    ) -> bool {
        self.tally(run, members, has_agreed) == Tally::Enough
    }
}

/// The first of these runs about which the witness is to be asked, with the members of it that
/// agree. The first of the runs is at position `first`.
///
/// There is none if those of another run are too few in any case: the witness would settle in vain,
/// and the other half could not go on.
pub(super) fn open_half(
    rule: Rule<'_>,
    (first, runs): (usize, &[(u64, Vec<NodeId>)]),
    has_agreed: impl Fn(NodeId) -> bool,
) -> Option<(usize, BTreeSet<NodeId>)> {
    let mut open = None;
    for (run, (_, members)) in (first..).zip(runs) {
        match rule.tally(run, members, &has_agreed) {
            Tally::Enough => {}
            Tally::Half(half) => {
                open.get_or_insert((run, half));
            }
            Tally::TooFew => return None,
        }
    }
    open
}

/// Returns what is missing if the members of these runs, the first of which is at position `first`,
/// have not agreed.
pub(super) fn shortage(
    rule: Rule<'_>,
    (first, runs): (usize, &[(u64, Vec<NodeId>)]),
    has_agreed: impl Fn(NodeId) -> bool,
    name: impl Fn(NodeId) -> String,
) -> Option<String> {
    let lacks = |(run, (_, members)): &(usize, &(u64, Vec<NodeId>))| {
        !rule.has_quorum(*run, members, &has_agreed)
    };
    let (run, (_, members)) = (first..).zip(runs).find(lacks)?;
    let voters = rule.voters(members);
    let votes = voters.iter().filter(|&&voter| has_agreed(voter)).count();
    let names = |nodes: Vec<NodeId>| {
        let names: Vec<String> = nodes.into_iter().map(&name).collect();
        crate::names::abbreviated(names.iter().map(String::as_str))
    };
    let most = match rule.witness.filter(|_| voters.len() < members.len()) {
        Some(_) => format!("more than half of all {}, with those that have ended", members.len()),
        None => "more than half of them".to_owned(),
    };
    let is_open = votes > 0 && 2 * votes >= voters.len();
    let needed = match (voters.first(), rule.witness) {
        (Some(_), Some(halves)) if is_open => match halves.get(&run) {
            Some(half) => {
                let half = names(half.iter().copied().collect());
                let which = match voters.len() < members.len() {
                    true => "a part of the half",
                    false => "the half",
                };
                format!("{most}, or {which} on which the witness has settled, {half}")
            }
            None => format!("{most}, or half and the witness"),
        },
        (Some(&first), None) if is_open => format!("{most}, or half with {}", name(first)),
        _ => most,
    };
    let missing: Vec<NodeId> = voters.iter().copied().filter(|&it| !has_agreed(it)).collect();
    let missing = match missing.is_empty() {
        true => String::new(),
        false => format!("; {} cannot be reached", names(missing)),
    };
    let count = voters.len();
    Some(format!("{votes} of the {count} members of the job agree, but it takes {needed}{missing}"))
}

/// Returns which sites the job does not survive without the user's help, as a sentence, if there
/// are several sites and at least one of them is such a site.
pub(super) fn note(spec: &GridSpec, members: &[NodeId], has_witness: bool) -> Option<String> {
    let layout = spec.layout();
    let site = |node: NodeId| layout.site_of_node(node);
    let sites: BTreeSet<_> = members.iter().map(|&member| site(member)).collect();
    let (none, nothing) = (BTreeSet::new(), Halves::new());
    let rule = Rule { ended: &none, witness: has_witness.then_some(&nothing) };
    let ends_with = |lost| rule.tally(0, members, |member| site(member) != lost) == Tally::TooFew;
    let vital = sites.iter().copied().filter(|&lost| ends_with(lost));
    let vital: Vec<&str> = vital.map(|site| layout.site_name(site)).collect();
    if sites.len() < 2 || vital.is_empty() {
        return None;
    }
    let names = vital.join(" or ");
    let (rest, advice) = match has_witness {
        true => ("", ""),
        false => (", or half without the first one", "; `--witness DIR` helps in the latter case"),
    };
    Some(format!(
        "a loss of site {names} stops the job, since fewer than half of the nodes would be left{rest}; \
         `gridctl attach --ended SITE` lets it go on{advice}"
    ))
}

#[cfg(test)]
mod tests {
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
                    // A larger part does not lose the right of a smaller one.
                    assert!(!goes_on(one & (whole >> 1)) || goes_on(one));
                }
            }
        }
    }

    #[test]
    fn with_a_witness_two_disjoint_parts_never_both_go_on() {
        for number in 1..=6 {
            let (members, whole) = (all(number), (1_u32 << number) - 1);
            let none = BTreeSet::new();
            for settled in 0..=whole {
                // Whatever it has settled on, even for another run.
                let halves = Halves::from([(3, set(settled))]);
                let rule = Rule { ended: &none, witness: Some(&halves) };
                let goes_on =
                    |part: u32| rule.has_quorum(3, &members, |it| part & (1 << it.0) != 0);
                for one in 0..=whole {
                    assert!(!goes_on(one) || !goes_on(whole & !one), "{settled:b} {one:b}");
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
        // The first member decides nothing.
        assert_eq!(tally(&halves, 0b0011), Tally::Half(set(0b0011)));
        assert_eq!(tally(&halves, 0b1100), Tally::Half(set(0b1100)));
        halves.insert(2, set(0b1100));
        assert_eq!(tally(&halves, 0b1100), Tally::Enough);
        assert_eq!(tally(&halves, 0b0011), Tally::TooFew);
        assert_eq!(tally(&halves, 0b1011), Tally::Enough);
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
    fn a_shortage_names_who_is_missing_and_what_is_needed() {
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
        let note = |shape: &str, has_witness| {
            let spec = GridSpec::from_emulate(shape).unwrap();
            let members: Vec<NodeId> = spec.layout().nodes().collect();
            super::note(&spec, &members, has_witness)
        };
        assert!(note("2x2", false).unwrap().starts_with("a loss of site a stops the job"));
        assert_eq!(note("2x2", true), None);
        assert_eq!(note("3x2", false), None);
        assert_eq!(note("1x4", false), None);
    }

    /// What a keeper has accepted, as it is on its disk.
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

    /// Keepers, and what the witness has settled if there is one.
    struct Places {
        keepers: Vec<Keeper>,
        witness: Option<Halves>,
    }

    impl Places {
        /// Whether the members of runs agree. If they are enough only with the witness, it is asked.
        fn agree(
            &mut self,
            first: usize,
            runs: &[(u64, Vec<NodeId>)],
            agrees: &BTreeSet<NodeId>,
            ended: &BTreeSet<NodeId>,
        ) -> bool {
            let none = BTreeSet::new();
            let has_agreed = |node: NodeId| agrees.contains(&node);
            // Fewer than half have gone on with the user's word, which may be wrong even if the
            // members have ended: others may have gone on with them before.
            let is_half = |(_, members): &(u64, Vec<NodeId>)| {
                2 * members.iter().filter(|&&it| has_agreed(it)).count() >= members.len()
            };
            let ended = if runs.iter().all(is_half) { ended } else { &none };
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

    /// A launcher begins a run, or another one takes over, with the keepers of `reach` only.
    /// Returns the run that begins.
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
        for node in reach {
            let keeper = &mut places.keepers[node.index()];
            if keeper.launcher == launcher.id {
                keeper.saved = Some(proposed.clone());
                saved.insert(*node);
            }
        }
        let before = &proposed.runs[proposed.agreed..proposed.runs.len() - 1];
        let begins = places.agree(proposed.agreed, before, &saved, &launcher.ended);
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
        // A later launcher knew all runs that had begun before, and none of an earlier one began
        // since.
        let newest = records.max_by_key(|it| (it.epoch, it.runs.len()))?;
        let may = places.agree(newest.agreed, &newest.runs[newest.agreed..], &accepted, ended);
        may.then(|| Launcher { id, record: newest, ended: ended.clone() })
    }

    /// Launchers begin runs and take over at random. If there is a witness, nodes end, which later
    /// launchers know. Returns how many runs have begun.
    fn begin_runs(seed: u64, nodes: u32, has_witness: bool) -> u32 {
        let mut dice = Dice::new(seed);
        let first = LauncherId { epoch: 1, name: "first".to_owned() };
        let record = Record { runs: vec![(0, all(nodes))], agreed: 0, epoch: 1 };
        let keeper = Keeper { launcher: first.clone(), saved: Some(record.clone()) };
        let keepers = vec![keeper; nodes as usize];
        let mut places = Places { keepers, witness: has_witness.then(Halves::new) };
        let mut ended = BTreeSet::new();
        let mut launchers = vec![Launcher { id: first, record, ended: ended.clone() }];
        let (mut largest, mut begun) = (1_u64, 0);
        for step in 0..20 {
            if has_witness && dice.below(8_u32) == 0 && 2 * (ended.len() + 1) <= nodes as usize {
                ended.insert(NodeId(dice.below(nodes)));
            }
            // Each time other keepers can be reached.
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
                let epoch = launchers[one].id.epoch;
                assert!(epoch >= largest, "seed {seed}: {epoch} after {largest}");
                (largest, begun) = (epoch, begun + 1);
            }
        }
        begun
    }

    #[test]
    fn no_launcher_begins_a_run_after_a_later_one_has() {
        for (nodes, has_witness) in [(5, false), (4, false), (4, true), (2, true), (5, true)] {
            let begun: u32 = (0..4000).map(|seed| begin_runs(seed, nodes, has_witness)).sum();
            assert!(begun > 2000, "only {begun} runs have begun with {nodes} nodes");
        }
    }
}
