//! What can limit a run.

use serde::Serialize;
use std::collections::BTreeMap;

/// Minimum share of the time of all PEs for a limit.
pub(super) const SHARE_MIN: f64 = 0.02;

/// The kinds of limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LimitKind {
    /// A PE, or a node, is slower than others.
    SlowPe,
    /// All PEs of a site are slower than others.
    SlowSite,
    /// Threads of other programs use the processors of a node; or threads of the job itself, if the
    /// number of processors of the host is unknown.
    ForeignLoad,
    /// A host has more PEs than hardware threads for them.
    TooManyPes,
    /// The latency of a link.
    SlowLink,
    /// The bandwidth of a link.
    NarrowLink,
    /// Lost packets of a link.
    LossyLink,
    /// Messages took longer than their link explains.
    LinkDelay,
    /// One actor has more work than a PE should have.
    HotActor,
    /// The handlers of a PE take longer than those of the same types elsewhere.
    SlowHandlers,
    /// PEs have different loads.
    Imbalance,
    /// Sites have different loads.
    SiteImbalance,
    /// One PE has more to do than the others, but it is not always the same one.
    MovingImbalance,
    /// The cost of messages is large beside the computation of their handlers.
    SmallGrains,
    /// PEs are busy with the runtime itself.
    Runtime,
    /// PEs are busy with sending and receiving many bytes.
    MessageVolume,
    /// A rebalance made the job slower.
    BadPlan,
    /// The job stood still for rebalances.
    Rebalances,
    /// There are fewer actors than PEs.
    TooFewActors,
    /// Actors wait for main.
    Main,
    /// One PE sends more messages to another than that PE can handle.
    Flood,
    /// There were too few tasks.
    StarvedTasks,
    /// Each handler waits for the handler before it.
    SerialChain,
    /// The job stood still for checkpoints.
    Checkpoints,
    /// The job stood still after losses.
    Losses,
}

impl LimitKind {
    /// What to do.
    pub(crate) fn advice(self) -> &'static str {
        match self {
            Self::SlowPe | Self::SlowSite => {
                "Give slower PEs less work: `--balance auto` uses measured speeds. Or leave them out."
            }
            Self::ForeignLoad => {
                "Use no more PEs than cores, move the job or the other programs, or let `--balance auto` \
                 move actors away."
            }
            Self::TooManyPes => {
                "Use no more PEs than the host has hardware threads: fewer nodes there, fewer PEs for \
                 each, or more hosts."
            }
            Self::SlowLink => {
                "Use more actors for each PE, so that others work while messages travel; place actors \
                 that talk to each other at one site (`--balance grid-cut`); send earlier."
            }
            Self::NarrowLink => {
                "Send less between sites: place actors that talk at one site (`--balance grid-cut`), \
                 send smaller or fewer messages, or spread them over the step."
            }
            Self::LossyLink => {
                "Find out where packets are lost (`gridctl topo --json` has the losses of links); until \
                 then let fewer messages cross the link."
            }
            Self::LinkDelay => {
                "Look at the link with `gridctl topo`: other traffic may use it, or its latency varies."
            }
            Self::HotActor => {
                "Split the actor, since a PE handles its messages one after the other."
            }
            Self::SlowHandlers => {
                "Let the runtime measure the speeds of PEs and move actors: `--balance auto`, with sync \
                 points."
            }
            Self::Imbalance | Self::SiteImbalance => {
                "Let the runtime move actors: `--balance auto`, with sync points."
            }
            Self::MovingImbalance => {
                "Balance more often, or use more actors for each PE, so that their loads average out."
            }
            Self::SmallGrains => {
                "Do more in each handler, or combine messages to one receiver into one."
            }
            Self::Runtime => {
                "Make fewer checkpoints, move fewer actors, and give actors less state. `gridctl trace` \
                 shows when the runtime works."
            }
            Self::MessageVolume => {
                "Send less: place actors that talk on one node (`--balance grid-cut`), or publish data \
                 that many read."
            }
            Self::BadPlan => {
                "Use another strategy, and leave `--balance-gate` on, which undoes plans that do not \
                 pay."
            }
            Self::Rebalances => "Use fewer sync points, or a strategy that moves fewer actors.",
            Self::TooFewActors => "Split the work into more actors, a few for each PE.",
            Self::Main => {
                "Let actors go on without main: send between actors, reduce to an actor, or let main \
                 wait for several steps at once."
            }
            Self::Flood => {
                "Send less often, spread the messages over more receivers, or wait for answers."
            }
            Self::StarvedTasks => "Split the work into more tasks, early; or use fewer PEs.",
            Self::SerialChain => {
                "Let independent parts of the work begin without waiting for each other."
            }
            Self::Checkpoints => {
                "Make fewer checkpoints: `--checkpoint-every auto` balances their cost."
            }
            Self::Losses => "Make checkpoints more often if losses are frequent (`--node-mtbf`).",
        }
    }
}

/// Something that limited the run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Limit {
    pub(crate) kind: LimitKind,
    /// Where: PEs, nodes, sites or links by name.
    pub(crate) place: String,
    /// Share of the time of all PEs that it took.
    pub(crate) share: f64,
    /// What it is, as a clause for use within a sentence.
    pub(crate) clause: String,
    /// The numbers that support it.
    pub(crate) evidence: String,
    /// What to do.
    pub(crate) advice: &'static str,
}

impl Limit {
    /// A limit of this kind.
    pub(crate) fn new(kind: LimitKind, place: String, share: f64, clause: String) -> Self {
        Self { kind, place, share, clause, evidence: String::new(), advice: kind.advice() }
    }

    /// Sets the numbers that support it.
    pub(crate) fn because(self, evidence: String) -> Self {
        Self { evidence, ..self }
    }
}

/// Maximum number of places that are named.
const NAMED_MAX: usize = 3;
/// Minimum share of a named place, as a part of the greatest share.
const NAMED_PART_MIN: f64 = 0.25;

/// The names of places with their shares, the greatest first.
pub(crate) fn by_share(
    shares: &BTreeMap<usize, f64>,
    name: impl Fn(usize) -> String,
) -> Vec<(String, f64)> {
    let mut sorted: Vec<(usize, f64)> = shares.iter().map(|(at, share)| (*at, *share)).collect();
    sorted.sort_by(|a, b| b.1.total_cmp(&a.1));
    sorted.into_iter().map(|(at, share)| (name(at), share)).collect()
}

/// Number of places, given the greatest first, whose shares are not small beside the greatest.
fn great(places: &[(String, f64)]) -> usize {
    let greatest = places.first().map_or(0.0, |(_, share)| *share);
    places.iter().filter(|(_, share)| *share >= NAMED_PART_MIN * greatest).count()
}

/// Whether [`named`] names several places, so that the verb is in the plural.
pub(crate) fn names_several(places: &[(String, f64)]) -> bool {
    great(places) > 1
}

/// Names the places with the greatest shares, given the greatest first.
pub(crate) fn named(places: &[(String, f64)]) -> String {
    let great = great(places);
    let shown = great.min(NAMED_MAX);
    let mut names: Vec<String> = places.iter().take(shown).map(|(name, _)| name.clone()).collect();
    if great > shown {
        names.push(format!("{} more", great - shown));
    }
    match names.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} and {last}", others.join(", ")),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_greatest_places_are_named_and_the_others_counted() {
        let places = |shares: &[f64]| {
            let place = |(at, share): (usize, &f64)| (format!("PE {at}"), *share);
            named(&shares.iter().enumerate().map(place).collect::<Vec<_>>())
        };
        assert_eq!(places(&[0.5]), "PE 0");
        assert_eq!(places(&[0.5, 0.1]), "PE 0");
        assert_eq!(places(&[0.5, 0.4]), "PE 0 and PE 1");
        assert_eq!(places(&[0.5, 0.4, 0.4, 0.3, 0.2]), "PE 0, PE 1, PE 2 and 2 more");
        assert_eq!(places(&[]), "");
    }

    #[test]
    fn several_places_are_those_that_are_named_whatever_their_names() {
        let place = |name: &str, share| (name.to_owned(), share);
        let own = place("PE 0 (salt and pepper/0)", 0.5);

        assert!(!names_several(&[own.clone(), place("PE 1", 0.1)]));
        assert!(names_several(&[own, place("PE 1", 0.4)]));
    }
}
