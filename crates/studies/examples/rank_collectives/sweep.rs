//! A sweep over grids, ranks for each PE and lengths, in virtual time.
//!
//! **Cases.** A case has a value of each of five lists. The lengths of the lists have no common
//! divisor, so that in a long sweep all pairs of values of two lists occur equally often, without
//! randomness. In a grid of one site, the links between its nodes have the rate of the case and a
//! fiftieth of its latency.
//!
//! **Cells.** A cell is an operation in a case. The sweep measures it with the algorithm of the
//! library, *ours*, twice: in the first run of the ranks, in which they assume default latencies
//! and bandwidths, and after a migration point, at which they have learned what the runtime has
//! measured. For comparison, it also measures flat algorithms. It leaves out an algorithm that
//! takes too many messages or too much memory, and the whole cell if that algorithm is ours.

use crate::measurement::{Algorithm, Measurement};
use Algorithm::{
    AllBlocksAtOnce, Allgather, Allreduce, Alltoall, Barrier, Binomial, BlocksOfEveryone,
    Dissemination, DoublingBlocks, Everyone, HalvingAndDoubling, InLogSteps, Pairwise,
    PairwiseSums, RecursiveDoubling, ReduceScatter, Ring, RingOfBlocks,
};
use gridspan_topology::{Bandwidth, GridSpec, Latency, Layout, Link};
use std::collections::BTreeMap;
use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

/// Nodes of one PE at each site.
const SITES: [&[u32]; 11] = [
    &[8],
    &[2, 2],
    &[16, 4],
    &[64],
    &[5, 2],
    &[8, 8, 8],
    &[13],
    &[4, 4, 4, 4],
    &[32, 8, 2],
    &[3, 3],
    &[64, 16, 4, 2],
];
const LATENCIES_US: [u64; 7] = [50, 20_000, 1_000, 100_000, 200, 50_000, 5_000];
const MBITS_PER_S: [u64; 4] = [1_000, 10, 10_000, 100];
const RANKS_OF_PE: [u32; 3] = [1, 4, 16];
const BYTES: [usize; 5] = [8, 16 << 10, 4 << 20, 512, 256 << 10];
/// Divisor of the latency for links inside a site.
const SITE_DIVISOR: u64 = 50;

/// Number of cases, and of those that `--quick` runs.
const CASES: usize = 132;
const QUICK_CASES: usize = 11;
/// Maximum number of messages of a measurement, in a sweep and in a quick one.
const MESSAGES_MAX: u64 = 60_000;
const QUICK_MESSAGES_MAX: u64 = 10_000;
/// Maximum number of bytes that all ranks hold for an operation.
const HELD_MAX: u64 = 768 << 20;
/// Maximum number of bytes that all ranks send in a measurement.
const SENT_MAX: u64 = 4 << 30;
/// Number of cells that are named at the end, of each kind.
const WORST: usize = 10;

/// An operation: its name, its number of repetitions in a row, and its algorithms, of which ours is
/// the first.
struct Operation {
    name: &'static str,
    repetitions: u32,
    algorithms: &'static [Algorithm],
}

/// `alltoall` is measured alone and four times in a row: in a row, exchanges overlap, because a
/// rank that has all its blocks begins the next one.
const OPERATIONS: [Operation; 5] = [
    Operation {
        name: "allreduce",
        repetitions: 3,
        algorithms: &[Allreduce, RecursiveDoubling, HalvingAndDoubling, Ring, Binomial, Everyone],
    },
    Operation {
        name: "alltoall, one",
        repetitions: 1,
        algorithms: &[Alltoall, Pairwise, AllBlocksAtOnce, InLogSteps],
    },
    Operation {
        name: "alltoall, four",
        repetitions: 4,
        algorithms: &[Alltoall, Pairwise, AllBlocksAtOnce, InLogSteps],
    },
    Operation {
        name: "allgather",
        repetitions: 3,
        algorithms: &[Allgather, DoublingBlocks, RingOfBlocks, BlocksOfEveryone],
    },
    Operation { name: "barrier", repetitions: 3, algorithms: &[Barrier, Dissemination] },
];

/// A grid, and what its ranks send.
struct Case {
    number: usize,
    sites: &'static [u32],
    latency_us: u64,
    mbits_per_s: u64,
    ranks_of_pe: u32,
    bytes: usize,
}

/// The times of an operation in a case.
struct Cell {
    text: String,
    /// The time of ours over that of the best of the others: in the first run, and later.
    over_best: Option<[f64; 2]>,
}

/// The messages and bytes that an algorithm needs for one operation.
struct Needs {
    messages: u64,
    held_bytes: u64,
    sent_bytes: u64,
}

/// Runs the sweep, and prints a line for each cell, and the worst ones.
pub(crate) fn run(is_quick: bool) -> Result<(), String> {
    let (count, messages_max) = match is_quick {
        true => (QUICK_CASES, QUICK_MESSAGES_MAX),
        false => (CASES, MESSAGES_MAX),
    };
    let begin = Instant::now();
    let (next, measured) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    let lock = || measured.lock().unwrap_or_else(PoisonError::into_inner);
    let work = || loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if number >= count {
            return;
        }
        let cells = Case::new(number).cells(messages_max);
        let mut measured = lock();
        measured.insert(number, cells);
        let (done, seconds) = (measured.len(), begin.elapsed().as_secs());
        eprintln!("{done} of {count} cases, {seconds} s");
    };
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    let mut cells = Vec::new();
    for of_case in measured.into_inner().unwrap_or_else(PoisonError::into_inner).into_values() {
        cells.extend(of_case?);
    }
    print(&cells);
    Ok(())
}

fn print(cells: &[Cell]) {
    println!("{}{:>9}{:>9}", header(), "first", "later");
    let line = |cell: &Cell| {
        let over = cell.over_best.map(|over| over.map(|over| format!("{over:.2}")));
        let [first, later] = over.unwrap_or_else(|| ["-", "-"].map(str::to_owned));
        println!("{}{first:>9}{later:>9}", cell.text);
    };
    cells.iter().for_each(line);
    println!("first, later: ours in the first run, and with known links, over the best of others");
    for (title, at) in [("in the first run", 0), ("with known links", 1)] {
        let mut compared: Vec<(f64, &Cell)> =
            cells.iter().filter_map(|cell| Some((cell.over_best?[at], cell))).collect();
        compared.sort_by(|(one, _), (other, _)| other.total_cmp(one));
        let slower = compared.iter().filter(|(over, _)| *over > 1.0).count();
        let median = compared.get(compared.len() / 2).map_or(f64::NAN, |(over, _)| *over);
        println!(
            "\n{title}: slower than the best of the others in {slower} of {} cells, median \
             {median:.2}; the worst cells",
            compared.len()
        );
        println!("{}{:>9}{:>9}", header(), "first", "later");
        compared.iter().take(WORST).for_each(|(_, cell)| line(cell));
    }
}

fn header() -> String {
    format!(
        "{:>4}  {:<12}{:>11}{:>9}{:>6}{:>15}{:>9}{:>11}{:>11}{:>30}",
        "case",
        "PEs",
        "latency us",
        "Mbit/s",
        "each",
        "operation",
        "bytes",
        "first ms",
        "later ms",
        "best of the others, ms"
    )
}

impl Case {
    fn new(number: usize) -> Self {
        Self {
            number,
            sites: SITES[number % SITES.len()],
            latency_us: LATENCIES_US[number % LATENCIES_US.len()],
            mbits_per_s: MBITS_PER_S[number % MBITS_PER_S.len()],
            ranks_of_pe: RANKS_OF_PE[number % RANKS_OF_PE.len()],
            bytes: BYTES[number % BYTES.len()],
        }
    }

    fn ranks(&self) -> u32 {
        self.sites.iter().sum::<u32>() * self.ranks_of_pe
    }

    /// The latency between two sites, or between two nodes of the only one.
    fn link_latency_us(&self) -> u64 {
        if self.sites.len() == 1 { self.latency_us / SITE_DIVISOR } else { self.latency_us }
    }

    fn spec(&self) -> Result<GridSpec, String> {
        let site = |(name, nodes): (char, &u32)| (name.to_string(), vec![1; *nodes as usize]);
        let layout = Layout::new(('a'..).zip(self.sites).map(site).collect());
        let spec = GridSpec::from_layout(&layout).map_err(|error| error.to_string())?;
        let link = |link: Link| {
            link.with_latency(Latency::from_micros(self.link_latency_us()))
                .with_bandwidth(Bandwidth::from_bits_per_second(self.mbits_per_s * 1_000_000))
        };
        Ok(match self.sites.len() {
            1 => spec.with_lan(link(Link::lan())),
            _ => spec.with_wan(link(Link::wan())),
        })
    }

    /// Measures the operations.
    fn cells(&self, messages_max: u64) -> Result<Vec<Cell>, String> {
        let spec = self.spec()?;
        let mut cells = Vec::new();
        for operation in &OPERATIONS {
            if let Some(cell) = self.cell(&spec, operation, messages_max)? {
                cells.push(cell);
            }
        }
        Ok(cells)
    }

    /// Measures an operation; `None` if it takes too much.
    fn cell(
        &self,
        spec: &GridSpec,
        operation: &Operation,
        messages_max: u64,
    ) -> Result<Option<Cell>, String> {
        let Operation { name, repetitions, algorithms } = *operation;
        let bytes = if name == "barrier" { 0 } else { self.bytes };
        let ranks = self.ranks();
        let is_fit = |algorithm: &Algorithm| {
            let needs = needs(*algorithm, ranks, bytes);
            needs.is_some_and(|needs| {
                needs.messages * u64::from(repetitions) <= messages_max
                    && needs.held_bytes <= HELD_MAX
                    && needs.sent_bytes * u64::from(repetitions) <= SENT_MAX
            })
        };
        let Some((ours, others)) = algorithms.split_first().filter(|(ours, _)| is_fit(ours)) else {
            return Ok(None);
        };
        let mean_ms = |algorithm: Algorithm, knows_links: bool| {
            let measurement = Measurement { algorithm, bytes, repetitions, knows_links };
            let failed = |error: String| format!("case {}: {error}", self.number);
            measurement.mean_ms(spec, ranks, false).map_err(failed)
        };
        let mine = [mean_ms(*ours, false)?, mean_ms(*ours, true)?];
        let mut best: Option<(f64, Algorithm)> = None;
        for other in others.iter().filter(|other| is_fit(other)) {
            let ms = mean_ms(*other, false)?;
            if best.is_none_or(|(least, _)| ms < least) {
                best = Some((ms, *other));
            }
        }
        let pes: Vec<String> = self.sites.iter().map(u32::to_string).collect();
        let shown = best.map_or_else(|| "-".to_owned(), |(ms, other)| format!("{other:?} {ms:.3}"));
        let text = format!(
            "{:>4}  {:<12}{:>11}{:>9}{:>6}{name:>15}{bytes:>9}{:>11.3}{:>11.3}{shown:>30}",
            self.number,
            pes.join("+"),
            self.link_latency_us(),
            self.mbits_per_s,
            self.ranks_of_pe,
            mine[0],
            mine[1],
        );
        let over_best = best.map(|(least, _)| mine.map(|ms| ms / least));
        Ok(Some(Cell { text, over_best }))
    }
}

/// Returns what an algorithm needs for one operation of these ranks; `None` if the algorithm does
/// not support their number. Ours combine on each PE, and then by site.
fn needs(algorithm: Algorithm, ranks: u32, bytes: usize) -> Option<Needs> {
    let (n, bytes) = (u64::from(ranks), bytes as u64);
    let (steps, all) = (u64::from(ranks.ilog2()) + 1, n * n);
    let is_for_powers = matches!(algorithm, HalvingAndDoubling | DoublingBlocks);
    if is_for_powers && !ranks.is_power_of_two() {
        return None;
    }
    let (messages, held_bytes, sent_bytes) = match algorithm {
        Allreduce | Binomial => (4 * n, 3 * n * bytes, 4 * n * bytes),
        HalvingAndDoubling => (2 * n * steps, 3 * n * bytes, 2 * n * bytes),
        RecursiveDoubling => (n * steps, 3 * n * bytes, n * steps * bytes),
        Ring => (2 * all, 3 * n * bytes, 2 * n * bytes),
        Everyone => (all, all * bytes, all * bytes),
        ReduceScatter | PairwiseSums => (all, 3 * n * bytes, n * bytes),
        Alltoall | Pairwise | AllBlocksAtOnce => (all, 3 * all * bytes, all * bytes),
        InLogSteps => (n * steps, 3 * all * bytes, all * steps * bytes),
        Allgather => (4 * n, 2 * all * bytes, all * bytes),
        DoublingBlocks => (n * steps, 2 * all * bytes, all * bytes),
        RingOfBlocks | BlocksOfEveryone => (all, 2 * all * bytes, all * bytes),
        Barrier => (4 * n, 0, 0),
        Dissemination => (n * steps, 0, 0),
    };
    Some(Needs { messages, held_bytes, sent_bytes })
}
