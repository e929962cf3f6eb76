//! The rows of the page of figures.

/// The table of the page that a row is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowTable {
    /// Figures that depend on the machine.
    Measured,
    /// Figures that are the same in every run: of virtual time, or computed from seeds.
    Computed,
}

/// A row of the page: one figure, or several that are separated by slashes, and lines below it for
/// further baselines.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The first cell, unique on the page.
    pub figure: &'static str,
    /// The table that the row is in.
    pub table: RowTable,
    /// The suite of its records.
    pub suite: &'static str,
    /// The titles of its records.
    pub titles: &'static [&'static str],
    /// The names of the baselines, a line for each.
    pub baselines: &'static [&'static str],
}

impl Row {
    const fn measured(
        figure: &'static str,
        suite: &'static str,
        titles: &'static [&'static str],
        baselines: &'static [&'static str],
    ) -> Self {
        Self { figure, table: RowTable::Measured, suite, titles, baselines }
    }

    const fn computed(
        figure: &'static str,
        suite: &'static str,
        titles: &'static [&'static str],
        baselines: &'static [&'static str],
    ) -> Self {
        Self { figure, table: RowTable::Computed, suite, titles, baselines }
    }
}

const TONIC: &[&str] = &["tonic unary, as many under way"];

/// All rows, in the order of the page.
pub const ROWS: &[Row] = &[
    Row::measured(
        "`local`: same-PE send and handling, ring of 1,000",
        "local",
        &["ring of 1000"],
        &["queue and virtual call"],
    ),
    Row::measured(
        "`local`: stream between PEs, messages",
        "local",
        &["stream between PEs"],
        &["tokio mpsc", "kameo", "ractor"],
    ),
    Row::measured(
        "`local`: one way between PEs",
        "local",
        &["one way between PEs"],
        &["tokio mpsc", "kameo", "ractor"],
    ),
    Row::measured(
        "`local`: a million idle actors, memory / creation",
        "local",
        &["a million idle actors, memory with a state of 8 B", "a million idle actors, creation"],
        &[],
    ),
    Row::measured(
        "`local`: migrations, 150 B / 1 MB",
        "local",
        &["migrations of 64 actors of 150 B", "migrations of 8 actors of 1 MB"],
        &[],
    ),
    Row::measured(
        "`network`: ask round trip, both ends on one core",
        "network",
        &["ask, one core"],
        &["quinn streams", "tonic unary", "tonic both ways"],
    ),
    Row::measured(
        "`network`: ask round trip, one core each",
        "network",
        &["ask, two cores"],
        &["quinn streams", "tonic unary", "tonic both ways"],
    ),
    Row::measured(
        "`network`: 64 B one way, one core each",
        "network",
        &["64 B one way, two cores"],
        &["tonic stream", "TCP in batches"],
    ),
    Row::measured(
        "`network`: 64 B one way, both ends on one core",
        "network",
        &["64 B one way, one core"],
        &["tonic stream", "TCP in batches"],
    ),
    Row::measured(
        "`network`: bulk, one core each",
        "network",
        &["bulk, two cores"],
        &["quinn, 6,500 B packets", "quinn, 65,000 B packets", "quinn as it comes"],
    ),
    Row::measured(
        "`wide_area`: bulk at 25 ms each way and 1 % loss",
        "wide_area",
        &["bulk at 50 ms and 1 % loss"],
        &["quinn with BBR", "quinn with Cubic"],
    ),
    Row::measured(
        "`wide_area`: 1 MB there and back at 20 ms RTT, warm",
        "wide_area",
        &["1 MB echo at 20 ms"],
        &[],
    ),
    Row::measured(
        "`topology`: inference from the full matrix of 256 nodes",
        "topology",
        &["time, full matrix of 256"],
        &["UPGMA + gap"],
    ),
    Row::measured(
        "`topology`: inference from samples of 4,096 nodes in 8 x 8 clusters",
        "topology",
        &["time, sampled of 4096"],
        &[],
    ),
    Row::measured(
        "`balance`: 102,885 actors of molecular dynamics cut into 128 parts",
        "balance",
        &["cutter, 102885 actors"],
        &["METIS k-way"],
    ),
    Row::measured(
        "`tasks`: fib, a task on one / two PEs",
        "tasks",
        &["fib, a task, one PE", "fib, a task, two PEs"],
        &["rayon"],
    ),
    Row::measured(
        "`tasks`: nodes of uts T1 on two PEs",
        "tasks",
        &["uts T1, nodes, two PEs"],
        &["rayon", "without tasks", "a tree for each thread, without tasks"],
    ),
    Row::measured(
        "`gridctl bench bcast --rounds 100`: 8 B / 1 kB / 1 MB to 2 processes",
        "bcast",
        &["2 nodes, 8 B", "2 nodes, 1000 B", "2 nodes, 1000000 B"],
        &["binomial tree of messages"],
    ),
    Row::measured(
        "`gridctl bench bcast --rounds 100`: the same to 4 processes",
        "bcast",
        &["4 nodes, 8 B", "4 nodes, 1000 B", "4 nodes, 1000000 B"],
        &["binomial tree of messages"],
    ),
    Row::measured(
        "`gridctl bench bcast --rounds 100`: the same to 8 processes",
        "bcast",
        &["8 nodes, 8 B", "8 nodes, 1000 B", "8 nodes, 1000000 B"],
        &["binomial tree of messages"],
    ),
    Row::measured(
        "`calls`: empty call, both ends on one core",
        "calls",
        &["empty call, one core"],
        &["tonic unary"],
    ),
    Row::measured(
        "`calls`: empty calls, 1,000 under way at once, one core each",
        "calls",
        &["empty calls, two cores"],
        TONIC,
    ),
    Row::measured(
        "`calls`: the same, both ends on one core",
        "calls",
        &["empty calls, one core"],
        TONIC,
    ),
    Row::measured(
        "`calls`: 10 calls, one after the other on 50 MB, two servers",
        "calls",
        &["chain of 10"],
        &["pinned to one server", "through the client"],
    ),
    Row::measured(
        "`simulator`: events, ring of 128 / all to all of 128 / ring of 4,096 PEs",
        "simulator",
        &["events, ring of 128", "events, all-to-all of 128", "events, ring of 4096"],
        &[],
    ),
    Row::measured(
        "`simulator`: real time of a step of molecular dynamics on 128 PEs",
        "simulator",
        &["leanmd on 128, real time of a step"],
        &[],
    ),
    Row::computed(
        "`topology`: closest groups found (ARI) in a full matrix of 256 nodes on three levels, each \
         2.2 times the one below",
        "topology",
        &["full matrix, hard 3-level, 256 nodes"],
        &["fixed 0.3/3 ms", "UPGMA + gap"],
    ),
    Row::computed(
        "`topology`: the same of 4,096 nodes in 8 x 8 clusters, from samples",
        "topology",
        &["sampled, 8x8, 4096 nodes"],
        &[],
    ),
    Row::computed(
        "`balance`: weight of the cut, molecular dynamics / meshes",
        "balance",
        &["cut of molecular dynamics, 2 to 128 parts", "cut of meshes, 2 to 128 parts"],
        &["METIS k-way"],
    ),
    Row::computed(
        "`calls`: a fresh call over a wide area",
        "calls",
        &["fresh call over a wide area"],
        &[],
    ),
    Row::computed(
        "`stealing`: efficiency on 1,024 nodes, four sites 20 ms apart",
        "stealing",
        &["efficiency, 1024 nodes on four sites"],
        &["transitive"],
    ),
    Row::computed(
        "`stealing`: messages between these sites",
        "stealing",
        &["messages between sites, 1024 nodes on four sites"],
        &["transitive"],
    ),
];
