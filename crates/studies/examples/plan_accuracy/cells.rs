//! The predictions that are verified: jobs, where they are recorded, and where they are predicted.

/// A job that is recorded, and predicted on other grids.
pub(crate) struct Scenario {
    /// Name of the built-in job.
    pub(crate) job: &'static str,
    /// Description of the job in the table.
    pub(crate) about: &'static str,
    /// Its recordings.
    pub(crate) recorded: &'static [Recorded],
    /// The predictions from them.
    pub(crate) cells: &'static [Cell],
    /// Factors of latency with which each prediction's grid is simulated. The truth is the run with
    /// the median time.
    pub(crate) latencies: &'static [f64],
}

/// Only the latency of the grid: a small change of it changes the time of the job only a little.
const ONE: &[f64] = &[1.0];
/// Which tasks are stolen depends on when messages arrive: a twentieth of latency more or less
/// changes the time of a job by a few percent.
const FIVE: &[f64] = &[0.95, 0.975, 1.0, 1.025, 1.05];

/// A run that is recorded.
pub(crate) struct Recorded {
    /// Its grid.
    pub(crate) place: &'static str,
    /// Arguments of the job.
    pub(crate) arguments: &'static str,
    /// The size of its problem; 0 if sizes are not predicted.
    pub(crate) size: f64,
}

/// A prediction.
pub(crate) struct Cell {
    /// The grid.
    pub(crate) place: &'static str,
    /// Arguments of the job.
    pub(crate) arguments: &'static str,
    /// Number of steps, divided by that of the recording.
    pub(crate) times: f64,
    /// The size of the problem; 0 for that of the recording.
    pub(crate) size: f64,
    /// Whether the tests hold it to the bound.
    pub(crate) is_held: bool,
}

const fn recorded(place: &'static str, arguments: &'static str) -> Recorded {
    Recorded { place, arguments, size: 0.0 }
}

/// A prediction for the problem and the steps of the recording.
const fn on(place: &'static str, arguments: &'static str) -> Cell {
    Cell { place, arguments, times: 1.0, size: 0.0, is_held: true }
}

impl Cell {
    const fn times(self, times: f64) -> Self {
        Self { times, ..self }
    }

    const fn of_size(self, size: f64) -> Self {
        Self { size, ..self }
    }

    /// A prediction that is printed, and that no test holds to the bound.
    const fn shown(self) -> Self {
        Self { is_held: false, ..self }
    }
}

const MD: &str = "--quiet --work charge --atoms 4000 --cost 4 --cells 4 --steps 10";
const MD_LONG: &str = "--quiet --work charge --atoms 4000 --cost 4 --cells 4 --steps 30";
/// `leanmd` makes whole crystals, of 4 n³ atoms: n is 10 here, and 13 and 16 below.
const MD_SMALL: &str =
    "--quiet --work charge --system uniform --cutoff 2.5 --cells 4 --atoms 4000 --steps 8";
const MD_MIDDLE: &str =
    "--quiet --work charge --system uniform --cutoff 2.5 --cells 4 --atoms 8788 --steps 8";
const MD_LARGE: &str =
    "--quiet --work charge --system uniform --cutoff 2.5 --cells 4 --atoms 16384 --steps 8";
const SWEEPS: &str = "--n 1024 --blocks 8 --iterations 12 --report-every 0";
const SWEEPS_LONG: &str = "--n 1024 --blocks 8 --iterations 48 --report-every 0";
const SWEEPS_SMALL: &str = "--n 512 --blocks 8 --iterations 12 --report-every 0";
const SWEEPS_LARGE: &str = "--n 2048 --blocks 8 --iterations 12 --report-every 0";
const RANKS: &str = "--ranks 16 --size 128 --steps 12 --check 0 --compute 200ns";
const TREE: &str = "--tree T1";
const HYDRO: &str = "--n 12 --steps 4 --window 4 --form group";

/// All scenarios.
pub(crate) const SCENARIOS: &[Scenario] = &[
    Scenario {
        job: "leanmd",
        about: "molecular dynamics",
        recorded: &[recorded("1x8", MD)],
        cells: &[
            on("2x4,wan=1ms", MD),
            on("2x4,wan=10ms", MD),
            on("2x2,wan=20ms", MD),
            on("4x2,wan=32ms", MD),
            on("2x4,wan=10ms,rate=20mbit", MD),
            on("2x4,wan=16ms", MD_LONG).times(3.0),
            on("2x8,wan=4ms", MD).shown(),
        ],
        latencies: ONE,
    },
    Scenario {
        job: "leanmd",
        about: "from 4,000 and 8,788 atoms to 16,384",
        recorded: &[
            Recorded { place: "1x8", arguments: MD_SMALL, size: 4000.0 },
            Recorded { place: "1x8", arguments: MD_MIDDLE, size: 8788.0 },
        ],
        cells: &[
            on("2x4,wan=4ms", MD_LARGE).of_size(16384.0),
            on("2x4,wan=16ms", MD_LARGE).of_size(16384.0),
        ],
        latencies: ONE,
    },
    Scenario {
        job: "stencil",
        about: "Jacobi sweeps of blocks",
        recorded: &[recorded("1x8", SWEEPS)],
        cells: &[
            on("2x4,wan=1ms", SWEEPS),
            on("2x4,wan=10ms", SWEEPS),
            on("2x2,wan=20ms", SWEEPS),
            on("4x2,wan=32ms", SWEEPS),
            on("2x4,wan=1ms,rate=50mbit", SWEEPS),
            on("2x4,wan=5ms", SWEEPS_LONG).times(4.0),
            on("2x8,wan=5ms", SWEEPS),
        ],
        latencies: ONE,
    },
    Scenario {
        job: "stencil",
        about: "from 512 and 1,024 points to 2,048",
        recorded: &[
            Recorded { place: "1x8", arguments: SWEEPS_SMALL, size: 512.0 },
            Recorded { place: "1x8", arguments: SWEEPS, size: 1024.0 },
        ],
        cells: &[
            on("2x4,wan=1ms", SWEEPS_LARGE).of_size(2048.0),
            on("2x4,wan=10ms", SWEEPS_LARGE).of_size(2048.0),
        ],
        latencies: ONE,
    },
    Scenario {
        job: "jacobi",
        about: "the same on ranks",
        recorded: &[recorded("2x4,wan=4ms", RANKS)],
        cells: &[
            on("2x4,wan=2ms", RANKS).shown(),
            on("2x4,wan=10ms", RANKS).shown(),
            on("2x2,wan=20ms", RANKS).shown(),
        ],
        latencies: ONE,
    },
    Scenario {
        job: "jacobi",
        about: "on ranks, whose collective operations take other ways on one site",
        recorded: &[recorded("1x8", RANKS)],
        cells: &[
            on("2x4,wan=2ms", RANKS).shown(),
            on("2x4,wan=10ms", RANKS).shown(),
            on("2x2,wan=20ms", RANKS).shown(),
        ],
        latencies: ONE,
    },
    Scenario {
        job: "uts",
        about: "tasks",
        recorded: &[recorded("2x2,wan=4ms", TREE), recorded("2x2,wan=10ms", TREE)],
        cells: &[
            on("2x2,wan=2ms", TREE),
            on("2x2,wan=7ms", TREE),
            on("2x3,wan=5ms", TREE).shown(),
            on("2x4,wan=5ms", TREE).shown(),
            on("4x2,wan=5ms", TREE).shown(),
        ],
        latencies: FIVE,
    },
    Scenario {
        job: "uts",
        about: "tasks at four sites",
        recorded: &[recorded("4x1,wan=4ms", TREE), recorded("4x1,wan=10ms", TREE)],
        cells: &[on("4x1,wan=7ms", TREE).shown(), on("4x2,wan=5ms", TREE).shown()],
        latencies: FIVE,
    },
    Scenario {
        job: "hydropad",
        about: "a workflow",
        recorded: &[recorded("2x3,wan=2ms", HYDRO)],
        cells: &[on("2x3,wan=4ms", HYDRO), on("2x3,wan=20ms", HYDRO)],
        latencies: ONE,
    },
];
