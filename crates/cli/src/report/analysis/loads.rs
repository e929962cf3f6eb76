//! The actors that computed on each PE, and the PEs that sent their messages, from the kept spans.

use super::history::History;
use super::kinds::Kinds;
use gridspan_record::{OTHER, TASK};
use std::collections::{BTreeMap, BTreeSet};

/// The actor that computed most on a PE.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct TopActor {
    /// Its hash.
    pub(crate) actor: u64,
    /// Its type, as a position in [`Kinds::rows`].
    pub(crate) kind: usize,
    /// Its share of the time of the PE's handlers.
    pub(crate) share: f64,
}

/// The work of one PE.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct PeLoad {
    /// The actor that computed most.
    pub(crate) top_actor: Option<TopActor>,
    /// The other PE that sent most of the handled messages, and its share of them.
    pub(crate) top_sender: Option<(usize, f64)>,
    /// Mean number of messages that a handler of the top sender sent to this PE, over the handlers
    /// that sent any; 0 without a top sender.
    pub(crate) burst: f64,
    /// Number of runs of handlers and tasks.
    pub(crate) spans: usize,
}

/// The work of all PEs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Loads {
    /// By number of PE.
    pub(crate) pes: Vec<PeLoad>,
    /// Number of actors that computed.
    pub(crate) actors: usize,
}

impl Loads {
    /// The loads of this history.
    pub(crate) fn of(history: &History<'_>, kinds: &Kinds) -> Self {
        let mut actors = BTreeSet::new();
        let pes = (0..history.pes.len()).map(|pe| load(history, kinds, pe, &mut actors)).collect();
        Self { pes, actors: actors.len() }
    }
}

fn load(history: &History<'_>, kinds: &Kinds, pe: usize, actors: &mut BTreeSet<u64>) -> PeLoad {
    let spans = &history.pes[pe].spans;
    let mut by_actor: BTreeMap<u64, (f64, u16)> = BTreeMap::new();
    // Number of messages from each PE, and the spans that sent them.
    let mut by_sender: BTreeMap<usize, (usize, BTreeSet<u64>)> = BTreeMap::new();
    let (mut busy, mut count) = (0.0, 0);
    for span in spans.iter().map(|kept| kept.span).filter(|span| span.kind != OTHER) {
        busy += span.duration_ns as f64;
        count += 1;
        if span.kind != TASK {
            by_actor.entry(span.actor).or_insert((0.0, span.kind)).0 += span.duration_ns as f64;
            actors.insert(span.actor);
        }
        if let Some((cause, number)) = span.cause.as_ref().and_then(|it| Some((it, it.span?))) {
            let (messages, senders) = by_sender.entry(cause.pe as usize).or_default();
            *messages += 1;
            senders.insert(number);
        }
    }
    let most = by_actor.into_iter().max_by(|a, b| a.1.0.total_cmp(&b.1.0));
    let top_actor = most.filter(|_| busy > 0.0).map(|(actor, (ns, kind))| TopActor {
        actor,
        kind: kinds.place(pe, kind),
        share: ns / busy,
    });
    let others = by_sender.into_iter().filter(|(sender, _)| *sender != pe);
    let top = others.max_by_key(|(_, (messages, _))| *messages);
    let burst = top.as_ref().map_or(0.0, |(_, (all, senders))| *all as f64 / senders.len() as f64);
    let top_sender = top.map(|(sender, (messages, _))| (sender, messages as f64 / count as f64));
    PeLoad { top_actor, top_sender, burst, spans: count }
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::{MS, complete, from, recording, span};
    use super::super::places::Places;
    use super::*;
    use gridspan_record::Span;

    #[test]
    fn the_greatest_actor_and_sender_of_each_pe_are_found() {
        let mut recording = recording(1, 2);
        let of = |number: u64, actor: u64, times: [u64; 2]| Span {
            actor,
            cause: from(1, number, [0, 0]),
            ..span(0, number, times)
        };
        let runtime = Span { kind: OTHER, ..span(0, 3, [9, 10]) };
        recording.pes[0].spans =
            vec![of(0, 7, [0, 6]), of(1, 8, [6, 8]), span(0, 2, [8, 9]), runtime];
        complete(&mut recording, 10);
        let places = Places::of(&recording);
        let history = History::of(&recording, &places, [0, 10 * MS]);

        let loads = Loads::of(&history, &Kinds::of(&recording));

        assert_eq!(loads.actors, 3);
        let load = &loads.pes[0];
        assert_eq!(load.top_actor.map(|top| (top.actor, top.kind)), Some((7, 0)));
        assert!(load.top_actor.is_some_and(|top| (top.share - 6.0 / 9.0).abs() < 1e-9));
        let (sender, share) = load.top_sender.unwrap();
        assert!(sender == 1 && (share - 2.0 / 3.0).abs() < 1e-9);
        assert_eq!((load.burst, load.spans), (1.0, 3));
        assert_eq!(loads.pes[1], PeLoad::default());
    }
}
