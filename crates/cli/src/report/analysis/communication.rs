//! Matrices of messages. Those of actor types, actors and nodes come from the messages of kept
//! spans; that of sites comes from counts over the whole run.

use super::history::History;
use super::kinds::Kinds;
use super::places::Places;
use super::traffic::Traffic;
use gridspan_record::{OTHER, SpanCause};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of rows of a matrix; the rest is one row.
const ROWS_MAX: usize = 24;
/// Name of the row for all others.
const OTHERS: &str = "others";

/// Messages from one row to another one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Cell {
    /// Messages; estimated if spans were dropped.
    pub(crate) messages: f64,
    /// Bytes of those that left their PE.
    pub(crate) bytes: f64,
}

/// A matrix of messages.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Matrix {
    /// Names of the rows and columns, those with the most messages first.
    pub(crate) names: Vec<String>,
    /// By sender and receiver.
    pub(crate) cells: Vec<Vec<Cell>>,
}

/// The messages of a job, as matrices.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Communication {
    /// By actor types; `main` also stands for the runtime.
    pub(crate) types: Matrix,
    /// By actors: those with the most messages, and all others together.
    pub(crate) actors: Matrix,
    /// By nodes.
    pub(crate) nodes: Matrix,
    /// By sites, in messages between PEs, each of which may carry several messages of actors.
    pub(crate) sites: Matrix,
    /// Number of messages for which each recorded message counts. The matrix of sites counts all
    /// messages.
    pub(crate) weight: f64,
}

/// Sums by sender and receiver.
type Sums<K> = BTreeMap<(K, K), Cell>;

impl Communication {
    /// The communication of a job.
    pub(crate) fn of(
        history: &History<'_>,
        kinds: &Kinds,
        places: &Places,
        traffic: &Traffic,
    ) -> Self {
        let weight = if history.share > 0.0 { 1.0 / history.share } else { 1.0 };
        // `None` is main.
        let mut types: Sums<Option<usize>> = BTreeMap::new();
        let mut nodes: Sums<usize> = BTreeMap::new();
        for (pe, known) in history.pes.iter().enumerate() {
            for span in known.spans.iter().map(|kept| kept.span).filter(|span| span.kind != OTHER) {
                let Some(cause) = &span.cause else { continue };
                let to = kinds.place(pe, span.kind);
                // The sender's type is known if its span was kept.
                if let Some(from) = sender(history, kinds, cause) {
                    add(&mut types, (from, Some(to)), cause, weight);
                }
                let ends = (places.node_of(cause.pe as usize), places.node_of(pe));
                add(&mut nodes, ends, cause, weight);
            }
        }
        let of_type = |kind: &Option<usize>| {
            kind.map_or_else(|| "main".to_owned(), |kind| kinds.name(kind).to_owned())
        };
        let sites: Sums<usize> = traffic
            .links
            .iter()
            .filter(|(_, link)| link.messages > 0)
            .map(|(ends, link)| {
                let (messages, bytes) = (link.messages as f64, link.bytes as f64);
                (*ends, Cell { messages, bytes })
            })
            .collect();
        Self {
            types: Matrix::of(&types, of_type),
            actors: actors(history, kinds, weight),
            nodes: Matrix::of(&nodes, |node| places.node_label(*node).to_owned()),
            sites: Matrix::of(&sites, |site| places.site_name(*site).to_owned()),
            weight,
        }
    }
}

/// An actor: its type, and its number in spans. `None` is main.
type ActorKey = Option<(usize, u64)>;

/// Returns the sender and the receiver of each message whose sender is known.
fn messages<'a>(
    history: &'a History<'a>,
    kinds: &'a Kinds,
) -> impl Iterator<Item = ([ActorKey; 2], &'a SpanCause)> {
    history.pes.iter().enumerate().flat_map(move |(pe, known)| {
        known.spans.iter().filter_map(move |kept| {
            let span = kept.span;
            let cause = span.cause.as_ref().filter(|_| span.kind != OTHER)?;
            let from = match cause.span {
                None => None,
                Some(number) => {
                    let sender = history.find(cause.pe, number)?.1.span;
                    Some((kinds.place(cause.pe as usize, sender.kind), sender.actor))
                }
            };
            Some(([from, Some((kinds.place(pe, span.kind), span.actor))], cause))
        })
    })
}

/// Returns the messages between the actors that send and receive most. The function finds these
/// actors first, so it need not keep the pairs of all actors.
fn actors(history: &History<'_>, kinds: &Kinds, weight: f64) -> Matrix {
    let mut counts: BTreeMap<ActorKey, u64> = BTreeMap::new();
    for actor in messages(history, kinds).flat_map(|(ends, _)| ends) {
        *counts.entry(actor).or_default() += 1;
    }
    let mut most: Vec<(ActorKey, u64)> = counts.into_iter().collect();
    most.sort_by_key(|(_, count)| Reverse(*count));
    if most.len() > ROWS_MAX {
        most.truncate(ROWS_MAX - 1);
    }
    let shown: BTreeSet<ActorKey> = most.into_iter().map(|(actor, _)| actor).collect();
    // `None` stands for all others.
    let row = |actor: ActorKey| Some(actor).filter(|actor| shown.contains(actor));
    let mut sums: Sums<Option<ActorKey>> = BTreeMap::new();
    for ([from, to], cause) in messages(history, kinds) {
        add(&mut sums, (row(from), row(to)), cause, weight);
    }
    Matrix::of(&sums, |row| row.map_or_else(|| OTHERS.to_owned(), |it| actor_name(it, kinds)))
}

/// The name of an actor: its type without path and parameters, and the last digits of its number.
fn actor_name(actor: ActorKey, kinds: &Kinds) -> String {
    let Some((kind, number)) = actor else { return "main".to_owned() };
    let name = kinds.name(kind).split('<').next().unwrap_or_default();
    let name = name.rsplit("::").next().unwrap_or_default();
    match number {
        0 => name.to_owned(),
        _ => format!("{name} {:06x}", number & 0xff_ffff),
    }
}

/// Returns the type that sent a message, or `Some(None)` for main. `None` if it is not known.
fn sender(history: &History<'_>, kinds: &Kinds, cause: &SpanCause) -> Option<Option<usize>> {
    let Some(number) = cause.span else { return Some(None) };
    let (_, kept) = history.find(cause.pe, number)?;
    Some(Some(kinds.place(cause.pe as usize, kept.span.kind)))
}

fn add<K: Ord>(sums: &mut Sums<K>, ends: (K, K), cause: &SpanCause, weight: f64) {
    let cell = sums.entry(ends).or_default();
    cell.messages += weight;
    cell.bytes += weight * f64::from(cause.bytes);
}

impl Matrix {
    fn of<K: Ord + Copy>(sums: &Sums<K>, name: impl Fn(&K) -> String) -> Self {
        let mut weights: BTreeMap<K, f64> = BTreeMap::new();
        for ((from, to), cell) in sums {
            *weights.entry(*from).or_default() += cell.messages;
            *weights.entry(*to).or_default() += cell.messages;
        }
        let mut rows: Vec<(K, f64)> = weights.into_iter().collect();
        rows.sort_by(|a, b| b.1.total_cmp(&a.1));
        let is_cut = rows.len() > ROWS_MAX;
        let own = if is_cut { ROWS_MAX - 1 } else { rows.len() };
        let row: BTreeMap<K, usize> =
            rows.iter().enumerate().map(|(at, (key, _))| (*key, at.min(own))).collect();
        let mut names: Vec<String> = rows.iter().take(own).map(|(key, _)| name(key)).collect();
        names.extend(is_cut.then(|| OTHERS.to_owned()));
        let mut cells = vec![vec![Cell::default(); names.len()]; names.len()];
        for ((from, to), cell) in sums {
            let sum = &mut cells[row[from]][row[to]];
            sum.messages += cell.messages;
            sum.bytes += cell.bytes;
        }
        Self { names, cells }
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::{complete, from, from_main, recording, span};
    use super::super::profile::Profile;
    use super::*;
    use gridspan_record::{SentTo, Span};

    #[test]
    fn messages_are_counted_by_types_nodes_and_sites() {
        let mut recording = recording(2, 1);
        recording.pes[0].spans = vec![Span { cause: from_main([0, 0]), ..span(0, 0, [0, 2]) }];
        let next = |number, kind, cause| Span { kind, cause, ..span(1, number, [12, 13]) };
        recording.pes[1].spans = vec![
            next(0, 1, from(0, 0, [2, 12])),
            next(1, 1, from(0, 0, [2, 12])),
            next(2, 0, from(0, 99, [2, 12])),
        ];
        complete(&mut recording, 20);
        recording.pes[0].bins[2].sent = vec![SentTo { site: 1, messages: 1, bytes: 320 }];
        let places = Places::of(&recording);
        let profile = Profile::of(&recording, &places);
        let traffic = Traffic::of(&recording, &places, &profile);
        let history = History::of(&recording, &places, profile.active);

        let found = Communication::of(&history, &Kinds::of(&recording), &places, &traffic);

        let cell = |matrix: &Matrix, from: &str, to: &str| {
            let at = |name| matrix.names.iter().position(|known| known == name).unwrap();
            let Cell { messages, bytes } = matrix.cells[at(from)][at(to)];
            [messages, bytes]
        };
        assert_eq!(cell(&found.types, "Worker", "Sink"), [2.0, 200.0]);
        assert_eq!(cell(&found.types, "main", "Worker"), [1.0, 100.0]);
        // The actor of a span has the number of its PE plus one.
        assert_eq!(cell(&found.actors, "Worker 000001", "Sink 000002"), [2.0, 200.0]);
        assert_eq!(cell(&found.actors, "main", "Worker 000001"), [1.0, 100.0]);
        assert_eq!(cell(&found.nodes, "a/0", "b/1"), [3.0, 300.0]);
        assert_eq!(cell(&found.sites, "a", "b"), [1.0, 320.0]);
        assert_eq!(found.sites.names, ["a", "b"]);
    }

    #[test]
    fn actors_with_few_messages_are_one_row() {
        let mut recording = recording(1, 1);
        // Actor 7 sends once to each of 100 others, and they do not answer.
        let actor = |number: u64, actor, cause| Span {
            actor,
            cause,
            ..span(0, number, [number, number + 1])
        };
        let others = (1..=100).map(|number| actor(number, 1000 + number, from(0, 0, [0, number])));
        let first = actor(0, 7, from_main([0, 0]));
        recording.pes[0].spans = std::iter::once(first).chain(others).collect();
        complete(&mut recording, 110);
        let places = Places::of(&recording);
        let profile = Profile::of(&recording, &places);
        let history = History::of(&recording, &places, profile.active);

        let found = actors(&history, &Kinds::of(&recording), 1.0);

        assert_eq!(found.names.len(), ROWS_MAX);
        let at = |name: &str| found.names.iter().position(|known| known == name).unwrap();
        let [sender, others] = ["Worker 000007", OTHERS].map(at);
        let all: f64 = found.cells[sender].iter().map(|cell| cell.messages).sum();
        // The sender, main and the row for all others take three rows; the rest are receivers.
        let rest = 100.0 - (ROWS_MAX - 3) as f64;
        assert_eq!((all, found.cells[sender][others].messages), (100.0, rest));
    }

    #[test]
    fn many_rows_end_in_one_for_all_others() {
        let sums: Sums<usize> = (0..100)
            .map(|from| ((from, 0), Cell { messages: 1.0 + from as f64, bytes: 1.0 }))
            .collect();
        let matrix = Matrix::of(&sums, |number| number.to_string());
        assert_eq!((matrix.names.len(), matrix.cells.len()), (ROWS_MAX, ROWS_MAX));
        assert_eq!(matrix.names.last().map(String::as_str), Some(OTHERS));
        let bytes: f64 = matrix.cells.iter().flatten().map(|cell| cell.bytes).sum();
        assert_eq!(bytes, 100.0);
    }
}
