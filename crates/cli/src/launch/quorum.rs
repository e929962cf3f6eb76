//! Which part of a job may go on when the job has broken into several.
//!
//! A launcher may begin another run of the job only if more than half of the members of the last
//! run agree: their keepers have saved the new run durably for this launcher. Exactly half are
//! enough if the first member, with the coordinator, is among them. So of two parts at most one
//! goes on. Only the keepers count: the *nodes* of the members may have ended.
//!
//! The user can be a witness: members that have ended for good, as the user says, do not count. The
//! user thereby also says that no other part of the job has gone on with them before they ended.
//!
//! A place that all launchers reach can be a witness, too. Then exactly half of the members are
//! enough only if the witness has settled on them, whether the first member is among them or not.
//! It settles for good on one half of each run: the first that a launcher asks for. That half and
//! any majority have a common member, as any two majorities have.
//!
//! If the members that agree are enough only because others have ended, the launcher asks the
//! witness as well. The witness may have settled on a half that has gone on, and of which only some
//! members have ended. So the members that agree must be that half, or include a member of it. If
//! all members of that half have ended, nodes that have joined it may still run. Then only the user
//! can let the witness settle again.
//!
//! The launcher of a majority does not need the witness, and begins its run at once. Then it tells
//! the witness, which settles on this majority if it has settled on nothing. From then on, members
//! that are enough only because others have ended must include a member of that majority, even if
//! they are fewer than half of all. Every member of the majority has saved the run that has begun.
//! So a part with such a member knows that run, and needs a quorum of it, too. A part without such
//! a member does not go on. If the launcher of the majority cannot reach the witness, or the
//! witness has settled on others before, the user's word alone decides, as without a witness.
//!
//! Exactly half of the members are enough, too, if they include more than half of those on which
//! the witness has settled. This matters if the launcher of a majority ends before keepers know
//! that its run has begun: half of the members can then go on.
//!
//! # Several launchers
//!
//! Another launcher takes over in two phases, as in Paxos (Lamport 1998). First, keepers accept it,
//! and report the state that they have saved; from then on they refuse states of earlier launchers.
//! Of the reported states, the one of the latest launcher holds. It has the last run that is known
//! to have begun, and runs that were proposed after it. Each of these may have begun, too, so that
//! the launcher needs a quorum of each. Second, once it has these quorums, it saves its own state
//! at the keepers. So each launcher that saves a state knows all runs that have begun, and earlier
//! launchers can begin no further run.

use gridspan_topology::{GridSpec, NodeId, SiteId};
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
    /// These have agreed, and are enough if the witness settles on them. Its decision is not known
    /// yet.
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
            // The half on which the witness has settled may have ended since.
            Some(_) if 2 * agreed.len() > members.len() => true,
            Some(None) => return Tally::Half(agreed),
            Some(Some(settled)) => {
                let has_ended = voters.len() < members.len();
                let of_settled = agreed.intersection(settled).count();
                let meets = match 2 * agreed.len() > voters.len() {
                    true => of_settled > 0,
                    // Exactly half agree. If the other half includes as many settled members, the
                    // first of these decides.
                    false => {
                        let left: Vec<_> =
                            voters.iter().filter(|voter| settled.contains(voter)).collect();
                        let has_first = left.first().is_some_and(|first| agreed.contains(first));
                        2 * of_settled > left.len() || (2 * of_settled == left.len() && has_first)
                    }
                };
                2 * of_settled > settled.len() || (has_ended && meets)
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

/// The first of these runs for which the witness must be asked, with its members that agree. The
/// first of the runs is at position `first`.
///
/// Returns `None` if too few members of another of these runs agree, whatever the witness answers:
/// it would settle in vain, and the other half could then not go on.
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

/// Returns the missing votes if too few members of these runs have agreed. The first of the runs is
/// at position `first`.
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
    let missing: Vec<NodeId> = voters.iter().copied().filter(|&it| !has_agreed(it)).collect();
    let (count, votes) = (voters.len(), voters.len() - missing.len());
    let needed = needed(rule, run, members, votes, &name);
    let missing = match missing.is_empty() {
        true => String::new(),
        false => format!("; {} cannot be reached", names(missing, &name)),
    };
    Some(format!("{votes} of the {count} members of the job agree, but it takes {needed}{missing}"))
}

/// Says which members of the run at a position would be enough, if `votes` members have agreed.
fn needed(
    rule: Rule<'_>,
    run: usize,
    members: &[NodeId],
    votes: usize,
    name: &impl Fn(NodeId) -> String,
) -> String {
    let voters = rule.voters(members);
    let most = match rule.witness.filter(|_| voters.len() < members.len()) {
        Some(_) => format!("more than half of all {}, with those that have ended", members.len()),
        None => "more than half of them".to_owned(),
    };
    let is_open = votes > 0 && 2 * votes >= voters.len();
    match (voters.first(), rule.witness) {
        (Some(_), Some(halves)) if is_open => match halves.get(&run) {
            Some(settled) => {
                let is_half = 2 * settled.len() <= members.len();
                let what = match (voters.len() < members.len(), is_half) {
                    (true, true) => "a part of the half",
                    (true, false) => "a part of the majority",
                    (false, true) => "the half",
                    (false, false) => "half with most of the majority",
                };
                let settled = names(settled.iter().copied(), name);
                format!("{most}, or {what} on which the witness has settled, {settled}")
            }
            None => format!("{most}, or half and the witness"),
        },
        (Some(&first), None) if is_open => format!("{most}, or half with {}", name(first)),
        _ => most,
    }
}

fn names(nodes: impl IntoIterator<Item = NodeId>, name: &impl Fn(NodeId) -> String) -> String {
    let names: Vec<String> = nodes.into_iter().map(name).collect();
    crate::names::abbreviated(names.iter().map(String::as_str))
}

/// Where the witness of a job is, if it has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WitnessPlace {
    None,
    /// It is on no host of the job, as far as is known.
    Elsewhere,
    /// It is on a host of this site.
    At(SiteId),
}

impl WitnessPlace {
    /// The place of a witness on a host, which may have nodes of the job.
    pub(super) fn of_host(spec: &GridSpec, host: &str) -> Self {
        // A user for `ssh` may precede the name.
        let is_host = |name: &str| name.rsplit_once('@').map_or(name, |(_, name)| name) == host;
        let node = spec.hosts().find(|(_, name)| is_host(name)).map(|(node, _)| node);
        node.map_or(Self::Elsewhere, |node| Self::At(spec.layout().site_of_node(node)))
    }
}

/// Returns a sentence about the sites whose loss the job does not survive without the user's help;
/// `None` if there is one site only, or no such site.
pub(super) fn note(spec: &GridSpec, members: &[NodeId], witness: WitnessPlace) -> Option<String> {
    let layout = spec.layout();
    let site = |node: NodeId| layout.site_of_node(node);
    let sites: BTreeSet<_> = members.iter().map(|&member| site(member)).collect();
    let (none, nothing) = (BTreeSet::new(), Halves::new());
    let has_witness = witness != WitnessPlace::None;
    let rule = Rule { ended: &none, witness: has_witness.then_some(&nothing) };
    let without = |lost| rule.tally(0, members, |member| site(member) != lost);
    let vital = sites.iter().copied().filter(|&lost| without(lost) == Tally::TooFew);
    let vital: Vec<&str> = vital.map(|site| layout.site_name(site)).collect();
    if sites.len() < 2 {
        return None;
    }
    if vital.is_empty() {
        return match witness {
            WitnessPlace::At(lost) if matches!(without(lost), Tally::Half(_)) => Some(format!(
                "a loss of site {} stops the job, since the witness is there, and half of the nodes; \
                 name a witness at another site",
                layout.site_name(lost)
            )),
            _ => None,
        };
    }
    let names = vital.join(" or ");
    let (rest, advice) = match has_witness {
        true => ("", ""),
        false => (", or half without the first one", "; `--witness` helps in the latter case"),
    };
    Some(format!(
        "a loss of site {names} stops the job, since fewer than half of the nodes would be left{rest}; \
         `gridctl attach --ended SITE` lets it go on{advice}"
    ))
}

#[cfg(test)]
mod tests;
