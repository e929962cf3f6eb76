//! Which part of a job may go on when it has broken into several.
//!
//! A launcher may begin another run of the job only if more than half of the members of the last
//! run have accepted it: if their keepers have saved the run durably for this launcher. Exactly
//! half are enough if the first member is among them, on whose node the coordinator is. So of two
//! parts at most one goes on. It does not matter whether the *nodes* of the members
//! still run.
//!
//! The user can be a witness: members that have ended for good, as the user says, do not count.
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
use std::collections::BTreeSet;

/// Whether enough of the members of a run have agreed.
pub(super) fn has_quorum(
    members: &[NodeId],
    ended: &BTreeSet<NodeId>,
    has_agreed: impl Fn(NodeId) -> bool,
) -> bool {
    let voters: Vec<NodeId> =
        members.iter().copied().filter(|member| !ended.contains(member)).collect();
    let votes = voters.iter().filter(|&&voter| has_agreed(voter)).count();
    let has_first = voters.first().is_some_and(|&first| has_agreed(first));
    2 * votes > voters.len() || 2 * votes == voters.len() && has_first
}

/// Returns what is missing if the members of these runs have not agreed.
pub(super) fn shortage(
    runs: &[(u64, Vec<NodeId>)],
    ended: &BTreeSet<NodeId>,
    has_agreed: impl Fn(NodeId) -> bool,
    name: impl Fn(NodeId) -> String,
) -> Option<String> {
    let lacks = |run: &&(u64, Vec<NodeId>)| !has_quorum(&run.1, ended, &has_agreed);
    let (_, members) = runs.iter().find(lacks)?;
    let voters: Vec<NodeId> =
        members.iter().copied().filter(|member| !ended.contains(member)).collect();
    let votes = voters.iter().filter(|&&voter| has_agreed(voter)).count();
    let missing: Vec<String> =
        voters.iter().filter(|&&voter| !has_agreed(voter)).map(|&voter| name(voter)).collect();
    let needed = match (voters.first(), 2 * votes == voters.len()) {
        (Some(&first), true) => format!("more than half of them, or half with {}", name(first)),
        _ => "more than half of them".to_owned(),
    };
    Some(format!(
        "{votes} of the {} members of the job agree, but it takes {needed}; {} cannot be reached",
        voters.len(),
        crate::names::abbreviated(missing.iter().map(String::as_str))
    ))
}

/// Returns which sites the job does not survive without the user's help, as a sentence, if there
/// are several sites and at least one of them is such a site.
pub(super) fn note(spec: &GridSpec, members: &[NodeId]) -> Option<String> {
    let layout = spec.layout();
    let site = |node: NodeId| layout.site_of_node(node);
    let sites: BTreeSet<_> = members.iter().map(|&member| site(member)).collect();
    let none = BTreeSet::new();
    let ends_with = |lost| !has_quorum(members, &none, |member| site(member) != lost);
    let vital = sites.iter().copied().filter(|&lost| ends_with(lost));
    let vital: Vec<&str> = vital.map(|site| layout.site_name(site)).collect();
    if sites.len() < 2 || vital.is_empty() {
        return None;
    }
    let names = vital.join(" or ");
    Some(format!(
        "a loss of site {names} stops the job, since fewer than half of the nodes would be left, or half without \
         the first one; `gridctl attach --ended SITE` lets it go on"
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

    #[test]
    fn two_disjoint_parts_never_both_go_on() {
        for number in 1..=7 {
            let (members, whole) = (all(number), (1_u32 << number) - 1);
            for ended in 0..=whole {
                for one in 0..=whole {
                    let other = whole & !one;
                    let goes_on = |part: u32| {
                        has_quorum(&members, &set(ended), |node| part & (1 << node.0) != 0)
                    };
                    assert!(!goes_on(one) || !goes_on(other), "{number} {ended:b} {one:b}");
                    // A larger part does not lose the right of a smaller one.
                    assert!(!goes_on(one & (whole >> 1)) || goes_on(one));
                }
            }
        }
    }

    #[test]
    fn a_majority_goes_on_and_half_with_the_first_member() {
        let agreed = |number, part: u32, ended| {
            has_quorum(&all(number), &set(ended), |node| part & (1 << node.0) != 0)
        };
        assert!(agreed(1, 0b1, 0) && !agreed(1, 0, 0));
        assert!(agreed(2, 0b01, 0) && !agreed(2, 0b10, 0));
        assert!(agreed(3, 0b110, 0) && !agreed(3, 0b001, 0));
        assert!(agreed(4, 0b0011, 0) && !agreed(4, 0b1100, 0) && agreed(4, 0b1110, 0));
        assert!(agreed(4, 0b1100, 0b0011), "the user is the witness");
        assert!(agreed(4, 0b0100, 0b0011) && !agreed(4, 0b1000, 0b0011), "half of the others");
        assert!(!agreed(2, 0, 0b11), "no member is left");
    }

    #[test]
    fn a_shortage_names_who_is_missing_and_what_is_needed() {
        let runs = [(0, all(4)), (3, vec![NodeId(2), NodeId(3)])];
        let text = |part: u32| {
            let has_agreed = |node: NodeId| part & (1 << node.0) != 0;
            shortage(&runs, &set(0), has_agreed, |node| format!("n{}", node.0))
        };
        assert_eq!(text(0b1111), None);
        assert_eq!(
            text(0b1100).unwrap(),
            "2 of the 4 members of the job agree, but it takes more than half of them, or half \
             with n0; n[0-1] cannot be reached"
        );
        assert!(text(0b0011).unwrap().starts_with("0 of the 2 members"));
        assert!(text(0b0001).unwrap().contains("takes more than half of them; "));
    }

    #[test]
    fn the_rule_is_said_where_a_site_is_vital() {
        let note = |shape: &str| {
            let spec = GridSpec::from_emulate(shape).unwrap();
            let members: Vec<NodeId> = spec.layout().nodes().collect();
            super::note(&spec, &members)
        };
        assert!(note("2x2").unwrap().starts_with("a loss of site a stops the job"));
        assert_eq!(note("3x2"), None);
        assert_eq!(note("1x4"), None);
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
    }

    const NODES: u32 = 5;

    /// A launcher begins a run, or another one takes over, with the keepers of `reach` only.
    /// Returns the run that begins.
    fn try_to_go_on(
        launcher: &mut Launcher,
        keepers: &mut [Keeper],
        reach: &BTreeSet<NodeId>,
        next: Vec<NodeId>,
    ) -> bool {
        let none = BTreeSet::new();
        let mut proposed = launcher.record.clone();
        proposed.runs.push((0, next));
        proposed.epoch = launcher.id.epoch;
        let mut saved = BTreeSet::new();
        for node in reach {
            let keeper = &mut keepers[node.index()];
            if keeper.launcher == launcher.id {
                keeper.saved = Some(proposed.clone());
                saved.insert(*node);
            }
        }
        let before = &proposed.runs[proposed.agreed..proposed.runs.len() - 1];
        let begins =
            before.iter().all(|(_, members)| has_quorum(members, &none, |it| saved.contains(&it)));
        launcher.record = proposed;
        if begins {
            launcher.record.agreed = launcher.record.runs.len() - 1;
        }
        begins
    }

    /// Returns a launcher that takes over with the keepers of `reach`, if it may.
    fn take_over(
        keepers: &mut [Keeper],
        reach: &BTreeSet<NodeId>,
        name: u64,
        epoch: u64,
    ) -> Option<Launcher> {
        let id = LauncherId { epoch, name: name.to_string() };
        let accepted: Vec<NodeId> = reach
            .iter()
            .copied()
            .filter(|node| keepers[node.index()].launcher.yields_to(&id))
            .collect();
        accepted.iter().for_each(|node| keepers[node.index()].launcher = id.clone());
        let records = accepted.iter().filter_map(|node| keepers[node.index()].saved.clone());
        // A later launcher knew all runs that had begun before, and none of an earlier one began
        // since.
        let newest = records.max_by_key(|it| (it.epoch, it.runs.len()))?;
        let none = BTreeSet::new();
        let runs = &newest.runs[newest.agreed..];
        let may = runs.iter().all(|(_, it)| has_quorum(it, &none, |node| accepted.contains(&node)));
        may.then_some(Launcher { id, record: newest })
    }

    #[test]
    fn no_launcher_begins_a_run_after_a_later_one_has() {
        let mut begun = 0;
        for seed in 0..4000 {
            let mut dice = Dice::new(seed);
            let first = LauncherId { epoch: 1, name: "first".to_owned() };
            let record = Record { runs: vec![(0, all(NODES))], agreed: 0, epoch: 1 };
            let keeper = Keeper { launcher: first.clone(), saved: Some(record.clone()) };
            let mut keepers = vec![keeper; NODES as usize];
            let mut launchers = vec![Launcher { id: first, record }];
            let mut largest = 1_u64;
            for step in 0..20 {
                // Each time other keepers can be reached.
                let reach = set(dice.below(1_u32 << NODES));
                let next = set(1 + dice.below((1_u32 << NODES) - 1));
                let next: Vec<NodeId> = next.into_iter().collect();
                if dice.below(3_u32) == 0 {
                    let epoch = 1 + largest.min(1 + dice.below(8_u64));
                    launchers.extend(take_over(&mut keepers, &reach, step + 10, epoch));
                    continue;
                }
                let one = dice.below(launchers.len());
                if try_to_go_on(&mut launchers[one], &mut keepers, &reach, next) {
                    let epoch = launchers[one].id.epoch;
                    assert!(epoch >= largest, "seed {seed}: {epoch} after {largest}");
                    (largest, begun) = (epoch, begun + 1);
                }
            }
        }
        assert!(begun > 4000, "only {begun} runs have begun");
    }
}
