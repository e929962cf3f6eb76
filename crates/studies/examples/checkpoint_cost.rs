//! The cost of a checkpoint on two processes of this machine, which keep copies for each other.
//!
//! ```text
//! cargo run --release -p gridspan-studies --example checkpoint_cost -- --rounds 7
//! ```
//!
//! Each process has one PE with actors of 1 MB. Their state is a block of numbers, which is encoded
//! at once, or a list of records, which are encoded one by one. All values are medians over the
//! rounds. A round makes two checkpoints. The first, which gives `stopped` and `CPU`, is made while
//! nothing else runs. During the second, an actor on each PE sends itself messages, and records how
//! long each of them waits.
//!
//! - `encoding` is the time to encode the actors of the larger PE, measured without the runtime.
//! - `stopped` is the time for which PEs handle no messages. They encode their actors after that,
//!   between handlers.
//! - `wait` is the longest wait of one of the actor's messages, minus the longest wait in an
//!   equally long time without a checkpoint.
//! - `stored` is the time from the end of the stop until all parts are in both places.
//! - `of bulk` is the rate of the copies, from the beginning of the stop until they are stored,
//!   divided by the rate of plain messages. For the latter, both processes send each other as many
//!   bytes at the same time, in messages of 1 MB.
//! - `slower` is the share by which the PE handles fewer of the actor's messages than in an equally
//!   long time without a checkpoint.
//! - `CPU` is the processor time of both processes for each MB of state.
//!
//! With `--overhead`, a second table shows what checkpoints cost a busy job. The job makes a
//! checkpoint in each interval `after`, which is a twentieth of the interval of Daly (2006) for the
//! cost of a checkpoint and nodes that fail once a day. The cost is the time of the stop plus the
//! time in which a PE encodes and copies its part, in the idle job. `overhead` is the share by
//! which PEs handle fewer of the actor's messages than in an equally long time without a
//! checkpoint: the median of the rounds, with its interval of 95 % (`gridspan_jobs::paired`).
//! Intervals with and without a checkpoint take turns, in an order that is reversed from round to
//! round. `cost over interval` is what the model expects: the cost divided by `after`.
//!
//! With `--small-actors N`, each PE also has N actors of a few bytes.
//!
//! With `--copies 1`, no process sends copies: `stored` then ends when each part is in one place,
//! and `of bulk` is no rate of copies.

use clap::Parser;
use gridspan::embed::{self, Runner};
use gridspan::prelude::*;
use gridspan::topology::GridSpec;
use gridspan::{CheckpointEvery, CheckpointReport, Checkpoints, Numbers, Progress};
use gridspan_jobs::paired::MedianEstimate;
use gridspan_studies::process_seconds;
use std::process::{Command, ExitCode};
use std::time::Instant;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// Numbers in the state of an actor.
const NUMBERS: usize = (1 << 20) / size_of::<f64>();
/// Megabytes of state on each PE.
const SIZES: [u32; 3] = [4, 16, 64];
const PES: u32 = 2;
/// Time limit for a checkpoint.
const PATIENCE: Duration = Duration::from_secs(60);
/// Mean time between failures of a node.
const NODE_MTBF: Duration = Duration::from_secs(24 * 3_600);
/// The overhead is measured at Daly's interval divided by this number. At the interval itself, it
/// would be too small to be measured.
const INTERVAL_DIVISOR: f64 = 20.0;

#[derive(Clone, Copy, Parser)]
#[command(about = "Measures what a checkpoint costs, on two processes")]
struct Options {
    /// Number of checkpoints for each row.
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Number of nodes that keep each part. With 1, no process sends copies.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=2))]
    copies: u32,
    /// Number of actors of a few bytes that each PE has besides.
    #[arg(long, default_value_t = 0)]
    small_actors: u32,
    /// Also measure the overhead of checkpoints at a twentieth of Daly's interval.
    #[arg(long)]
    overhead: bool,
}

/// Three coordinates, three velocities, and a number.
#[derive(Clone, Serialize, Deserialize)]
struct Record {
    id: u64,
    place: [f64; 3],
    velocity: [f64; 3],
}

#[derive(Serialize, Deserialize)]
enum State {
    Block(Numbers<f64>),
    Records(Vec<Record>),
}

impl State {
    fn new(is_block: bool) -> Self {
        let number = |at: usize| (at as f64).sqrt();
        if is_block {
            return Self::Block((0..NUMBERS).map(number).collect::<Vec<_>>().into());
        }
        let triple = |at| [number(at), number(at + 1), number(at + 2)];
        // Small ids take one to three bytes.
        let record =
            |at: usize| Record { id: at as u64, place: triple(at), velocity: triple(at + 3) };
        Self::Records((0..(1 << 20) / 50).map(record).collect())
    }
}

/// An actor of a few bytes.
#[derive(Serialize, Deserialize)]
struct Small(u64);

impl Actor for Small {
    type Index = Ix1;
    type Init = ();
    type Message = ();

    fn create((): (), cx: &mut Context<'_, Self>) -> Self {
        Self(u64::from(cx.pe().0))
    }

    fn handle(&mut self, (): (), _cx: &mut Context<'_, Self>) {}
}

/// An actor with state.
#[derive(Serialize, Deserialize)]
struct Holder {
    state: State,
    received: u32,
}

#[derive(Clone, Serialize, Deserialize)]
enum ToHolder {
    /// Contribute the time to encode the state, in seconds, by PE.
    Encode,
    /// Send 1 MB to a holder on the other PE, given the number of holders.
    Send(u32),
    Take(Numbers<f64>),
}

impl Actor for Holder {
    type Index = Ix1;
    type Init = bool;
    type Message = ToHolder;

    fn create(is_block: bool, _cx: &mut Context<'_, Self>) -> Self {
        Self { state: State::new(is_block), received: 0 }
    }

    fn handle(&mut self, message: ToHolder, cx: &mut Context<'_, Self>) {
        match message {
            ToHolder::Encode => {
                let mut by_pe = vec![0.0; PES as usize];
                let began = Instant::now();
                let encoded = postcard::to_allocvec(&self.state);
                by_pe[cx.pe().0 as usize] = began.elapsed().as_secs_f64();
                std::hint::black_box(encoded).unwrap_or_default();
                cx.contribute(Sum, by_pe, To::main());
            }
            ToHolder::Send(holders) => {
                let other = Ix1((cx.index().0 + holders as i32 / 2) % holders as i32);
                let numbers = vec![1.0; NUMBERS].into();
                cx.send(&cx.collection().at(other), ToHolder::Take(numbers));
            }
            ToHolder::Take(numbers) => {
                self.received += numbers.len() as u32;
                cx.contribute(Sum, u64::from(self.received), To::main());
            }
        }
    }

    fn heap_bytes(message: &ToHolder) -> usize {
        match message {
            ToHolder::Encode | ToHolder::Send(_) => 0,
            ToHolder::Take(numbers) => size_of_val::<[f64]>(numbers),
        }
    }
}

/// An actor that sends itself messages, one on each PE.
#[derive(Serialize, Deserialize)]
struct Ticker {
    is_busy: bool,
    handled: u64,
    #[serde(skip)]
    last: Option<Instant>,
    longest_s: f64,
}

#[derive(Clone, Serialize, Deserialize)]
enum ToTicker {
    Begin,
    Tick,
    /// Contribute the longest wait, in seconds, and the number of messages.
    End,
    /// Contribute the processor time of the process, in seconds.
    TellTime,
}

impl Actor for Ticker {
    type Index = Ix1;
    type Init = ();
    type Message = ToTicker;

    fn create((): (), _cx: &mut Context<'_, Self>) -> Self {
        Self { is_busy: false, handled: 0, last: None, longest_s: 0.0 }
    }

    fn handle(&mut self, message: ToTicker, cx: &mut Context<'_, Self>) {
        match message {
            ToTicker::Begin => {
                *self = Self { is_busy: true, ..Self::create((), cx) };
                cx.send(&cx.me(), ToTicker::Tick);
            }
            ToTicker::Tick if self.is_busy => {
                let now = Instant::now();
                let wait = self.last.map_or(0.0, |last| now.duration_since(last).as_secs_f64());
                (self.last, self.longest_s) = (Some(now), self.longest_s.max(wait));
                self.handled += 1;
                cx.send(&cx.me(), ToTicker::Tick);
            }
            ToTicker::Tick => {}
            ToTicker::End => {
                self.is_busy = false;
                cx.contribute(Max, self.longest_s, To::main());
                cx.contribute(Sum, self.handled, To::main());
            }
            ToTicker::TellTime => cx.contribute(Sum, process_seconds(), To::main()),
        }
    }
}

fn job(copies: u32) -> Job {
    let checkpoints = Checkpoints::every(CheckpointEvery::Points(1)).with_node_mtbf(NODE_MTBF);
    let checkpoints = checkpoints.with_copies(copies);
    let job = Job::new("checkpoint-cost").actor::<Holder>().actor::<Small>().actor::<Ticker>();
    job.checkpoints(checkpoints)
}

/// A job with some state on its PEs.
struct Measured<'a> {
    grid: &'a Grid,
    holders: Collection<Holder>,
    tickers: Collection<Ticker>,
    reports: UnboundedReceiver<CheckpointReport>,
    megabytes: u32,
}

/// The median values of a row: times in seconds, and ratios.
#[derive(Default)]
struct Row {
    encoding: f64,
    stopped: f64,
    /// Cost of a checkpoint: the time of the stop plus that of encoding and copying.
    cost: f64,
    wait: f64,
    stored: [f64; 2],
    of_bulk: [f64; 2],
    slower: f64,
    processor_per_mb: f64,
    overhead: Option<Overhead>,
}

/// The overhead of checkpoints at an interval.
#[derive(Clone, Copy)]
struct Overhead {
    /// From the beginning of a checkpoint to that of the next, in seconds.
    interval: f64,
    /// Share of the work that is not done, in percent.
    percent: MedianEstimate,
    /// Cost over interval, in percent.
    expected_percent: f64,
}

impl Measured<'_> {
    /// Makes a checkpoint, and waits until it is stored.
    async fn checkpoint(&mut self) -> Result<CheckpointReport, JobError> {
        // The previous checkpoint may not be stored yet.
        while !matches!(self.grid.progress(&()).await?, Progress::Taken { .. }) {
            self.grid.sleep(Duration::from_millis(20)).await?;
        }
        tokio::select! {
            report = self.reports.recv() => report.ok_or("the job reports no checkpoint".into()),
            over = self.grid.sleep(PATIENCE) => {
                over?;
                Err(format!("a checkpoint was not stored in {} s", PATIENCE.as_secs()).into())
            }
        }
    }

    /// The rate at which both processes send each other messages of the total size of their state,
    /// in bytes a second in each direction.
    async fn bulk_rate(&self) -> Result<f64, JobError> {
        let began = Instant::now();
        self.holders.broadcast(ToHolder::Send(PES * self.megabytes));
        let _: u64 = self.holders.reduction(Sum).await?;
        Ok(f64::from(self.megabytes << 20) / began.elapsed().as_secs_f64())
    }

    async fn processor_time(&self) -> Result<f64, JobError> {
        self.tickers.broadcast(ToTicker::TellTime);
        Ok(self.tickers.reduction(Sum).await?)
    }

    /// The longest wait of a message, in seconds, and the number of messages.
    async fn end_ticks(&self) -> Result<(f64, u64), JobError> {
        self.tickers.broadcast(ToTicker::End);
        Ok((self.tickers.reduction(Max).await?, self.tickers.reduction(Sum).await?))
    }

    async fn row(&mut self, rounds: usize) -> Result<Row, JobError> {
        let mut all: Vec<Row> = Vec::new();
        for _ in 0..rounds {
            self.holders.broadcast(ToHolder::Encode);
            let by_pe: Vec<f64> = self.holders.reduction(Sum).await?;
            let mut row =
                Row { encoding: by_pe.iter().copied().fold(0.0, f64::max), ..Row::default() };
            let bulk = self.bulk_rate().await?;
            let before = self.processor_time().await?;
            let idle = self.checkpoint().await?;
            let used = self.processor_time().await? - before;
            row.processor_per_mb = used / f64::from(PES * self.megabytes);
            row.stopped = idle.stopped.as_secs_f64();
            row.cost = (idle.stopped + idle.work).as_secs_f64();

            self.tickers.broadcast(ToTicker::Begin);
            let began = Instant::now();
            let busy = self.checkpoint().await?;
            let took = began.elapsed();
            let (wait, handled) = self.end_ticks().await?;
            self.tickers.broadcast(ToTicker::Begin);
            self.grid.sleep(took).await?;
            let (usual, undisturbed) = self.end_ticks().await?;
            row.wait = wait - usual;
            row.slower = 1.0 - handled as f64 / undisturbed.max(1) as f64;
            for (at, report) in [idle, busy].iter().enumerate() {
                let took = report.stopped + report.stored;
                row.stored[at] = report.stored.as_secs_f64();
                row.of_bulk[at] = report.bytes as f64 / f64::from(PES) / took.as_secs_f64() / bulk;
            }
            all.push(row);
        }
        let median = |value: fn(&Row) -> f64| {
            let mut values: Vec<f64> = all.iter().map(value).collect();
            values.sort_by(f64::total_cmp);
            values.get(values.len() / 2).copied().unwrap_or_default()
        };
        Ok(Row {
            encoding: median(|row| row.encoding),
            stopped: median(|row| row.stopped),
            cost: median(|row| row.cost),
            wait: median(|row| row.wait),
            stored: [median(|row| row.stored[0]), median(|row| row.stored[1])],
            of_bulk: [median(|row| row.of_bulk[0]), median(|row| row.of_bulk[1])],
            slower: median(|row| row.slower),
            processor_per_mb: median(|row| row.processor_per_mb),
            overhead: None,
        })
    }

    /// The overhead of checkpoints of this cost, in seconds.
    async fn overhead(&mut self, cost: f64, rounds: usize) -> Result<Overhead, JobError> {
        let to_loss = self.checkpoint().await?.time_to_loss.as_secs_f64();
        // Daly's equation 37. The cost is so small that the omitted terms are below a thousandth.
        let interval = ((2.0 * cost * to_loss).sqrt() - cost) / INTERVAL_DIVISOR;
        let mut percents = Vec::new();
        for round in 0..rounds {
            let mut turns = [true, false];
            if round % 2 == 1 {
                turns.reverse();
            }
            let mut rates = [0.0; 2];
            for has_checkpoint in turns {
                let rate = self.rate(Duration::from_secs_f64(interval), has_checkpoint).await?;
                rates[usize::from(has_checkpoint)] = rate;
            }
            let [undisturbed, rate] = rates;
            percents.push((1.0 - rate / undisturbed) * 100.0);
        }
        let expected_percent = cost / interval * 100.0;
        Ok(Overhead { interval, percent: MedianEstimate::of(&percents), expected_percent })
    }

    /// The messages of busy actors that are handled in a second, over an interval that begins with
    /// a checkpoint or has none.
    async fn rate(&mut self, interval: Duration, has_checkpoint: bool) -> Result<f64, JobError> {
        self.tickers.broadcast(ToTicker::Begin);
        let began = Instant::now();
        if has_checkpoint {
            self.checkpoint().await?;
        }
        self.grid.sleep(interval.saturating_sub(began.elapsed())).await?;
        let seconds = began.elapsed().as_secs_f64();
        let (_, handled) = self.end_ticks().await?;
        Ok(handled as f64 / seconds)
    }
}

async fn measure(
    grid: Grid,
    (is_block, megabytes, options): (bool, u32, Options),
    reports: UnboundedReceiver<CheckpointReport>,
) -> Result<Row, JobError> {
    let indices = Ix1::range(PES * megabytes);
    let holders = grid.create::<Holder>(indices, |_| is_block).await?;
    grid.create::<Small>(Ix1::range(PES * options.small_actors), |_| ()).await?;
    let tickers = grid.create_group::<Ticker>(Per::Pe, |_| ()).await?;
    let mut measured = Measured { grid: &grid, holders, tickers, reports, megabytes };
    let mut row = measured.row(options.rounds).await?;
    if options.overhead {
        row.overhead = Some(measured.overhead(row.cost, options.rounds).await?);
    }
    Ok(row)
}

fn main() -> ExitCode {
    let options = Options::parse();
    if let Some(code) = embed::node(job(options.copies)) {
        return code;
    }
    match run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<(), Box<dyn std::error::Error>> {
    let program = std::env::current_exe()?;
    println!(
        "{:>8}{:>5}{:>10}{:>9}{:>9}{:>15}{:>13}{:>8}{:>10}",
        "", "", "", "", "", "stored", "of bulk", "", ""
    );
    println!(
        "{:>8}{:>5}{:>10}{:>9}{:>9}{:>8}{:>7}{:>7}{:>6}{:>8}{:>10}",
        "state",
        "MB",
        "encoding",
        "stopped",
        "wait",
        "idle",
        "busy",
        "idle",
        "busy",
        "slower",
        "CPU"
    );
    let mut overheads = Vec::new();
    for is_block in [true, false] {
        let state = if is_block { "block" } else { "records" };
        for megabytes in SIZES {
            let (tell, reports) = unbounded_channel();
            let job = job(options.copies).on_warning(|text| eprintln!("{text}")).on_checkpoint(
                move |report| {
                    // The job may have ended.
                    tell.send(report.clone()).unwrap_or_default();
                },
            );
            let grid = GridSpec::from_emulate("2x1")?;
            let program = program.clone();
            let copies = options.copies.to_string();
            let runner = Runner::on_processes(grid, move |_| {
                let mut command = Command::new(&program);
                command.args(["--copies", &copies]);
                command
            });
            let plan = (is_block, megabytes, *options);
            let row = runner.start(job, move |grid| measure(grid, plan, reports)).wait()?;
            let ms = |seconds: f64| format!("{:.1}", seconds * 1e3);
            println!(
                "{state:>8}{megabytes:>5}{:>7} ms{:>6} ms{:>6} ms{:>8}{:>7}{:>7.2}{:>6.2}{:>6.0} %{:>6} ms",
                ms(row.encoding),
                ms(row.stopped),
                ms(row.wait),
                ms(row.stored[0]),
                ms(row.stored[1]),
                row.of_bulk[0],
                row.of_bulk[1],
                row.slower * 100.0,
                ms(row.processor_per_mb)
            );
            overheads.extend(row.overhead.map(|overhead| (state, megabytes, overhead)));
        }
    }
    println!("MB are for each of two PEs; `stored` in ms; CPU for each MB");
    print_overheads(&overheads);
    Ok(())
}

/// Prints the second table, if there is anything in it.
fn print_overheads(overheads: &[(&str, u32, Overhead)]) {
    if overheads.is_empty() {
        return;
    }
    println!("\na checkpoint each twentieth of Daly's interval");
    println!(
        "{:>8}{:>5}{:>11}{:>26}{:>22}",
        "state", "MB", "after", "overhead in %", "cost over interval"
    );
    for (state, megabytes, overhead) in overheads {
        let Overhead { interval, percent, expected_percent } = overhead;
        println!(
            "{state:>8}{megabytes:>5}{interval:>9.2} s{:>26}{expected_percent:>20.2} %",
            percent.to_string()
        );
    }
}
