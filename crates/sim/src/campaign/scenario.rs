//! The scenario of a seed: a grid, its faults, and the settings of the job.

use super::carriers::Carrier;
use super::forwarder::Forwarder;
use super::latecomers::Latecomer;
use super::numbered::Numbered;
use super::partners::{Base, Bound};
use super::pools::Comb;
use super::random_actor::RandomActor;
use super::random_replication::RandomlyReplicated;
use super::reader::Reader;
use super::{Planted, ledger, script};
use crate::faults::{FaultPlan, PauseFaults, QuicFaults, SessionFaults};
use crate::guests::{Departure, GuestPlan};
use crate::options::SimOptions;
use crate::report::SimError;
use crate::simulation::Simulation;
use gridspan_balance::StrategyName;
use gridspan_balance::stealing::{STEALING_POLICIES, StealingPolicyName};
use gridspan_runtime::{CreateAt, Ix1, Ix5, Ix6, Job, Layout, Placement};
use gridspan_topology::dice::Dice;
use gridspan_topology::{GridSpec, Latency, Link, SiteId};
use std::time::Duration;

/// One in this number of seeds is over QUIC, because such a run costs a few times as much.
const QUIC_EVERY: u64 = 10;
/// Remainder of the seeds over QUIC.
const QUIC_AT: u64 = 3;

/// Fraction of seeds in which main awaits phases.
const PHASES: f64 = 0.5;
/// Fraction of seeds with collections that are bound to each other.
const PARTNERS: f64 = 0.3;
/// Fraction of seeds in which main moves the coordinator.
const MOVING: f64 = 0.3;
/// Fraction of seeds with members that are created on demand.
const ON_DEMAND: f64 = 0.3;
/// The indices of the main collections in successive seeds: the number of their dimensions, and a
/// divisor of the initial number of members.
const INDICES: [(u32, u32); 3] =
    [(Ix1::DIMENSIONS, Ix1::BLOCK), (Ix5::DIMENSIONS, Ix5::BLOCK), (Ix6::DIMENSIONS, Ix6::BLOCK)];
/// In one in this number of seeds, the coordinator is on the last node instead of beside main.
const ELSEWHERE_EVERY: u64 = 4;

/// Everything that a seed determines before the run.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The seed.
    pub seed: u64,
    /// The bug that was planted, if any.
    pub planted: Planted,
    /// Virtual time during which the job starts new actions.
    pub duration: Duration,
    /// The sites, nodes, PEs and links.
    pub grid: GridSpec,
    /// The faults.
    pub faults: FaultPlan,
    /// The balancing strategy.
    pub strategy: &'static str,
    /// Interval at which the job is balanced in addition to sync points, if any.
    pub every: Option<Duration>,
    /// Number of dimensions of the indices in the first and second collection: 1, 5 or 6.
    pub dimensions: u32,
    /// Number of members of the first collection, which stay for the whole run.
    pub old: u32,
    /// Initial number of members of the second collection.
    pub young: u32,
    /// Number of deterministic actors.
    pub forwarders: u32,
    /// Whether deterministic actors get replicas at random.
    pub has_replicas: bool,
    /// The probability that an arriving member is refused.
    pub refusal: f64,
    /// The stealing policy; `None` for a job without tasks.
    pub stealing: Option<&'static str>,
    /// Guests that join to work on tasks, and the ways in which they leave.
    pub guests: Vec<GuestPlan>,
    /// Node on which the coordinator starts; in most runs that of main.
    pub coordinator: u32,
    /// Whether main moves the coordinator to other nodes at random.
    pub moves_coordinator: bool,
    /// Whether main awaits the completion of phases at random.
    pub has_phases: bool,
    /// Where members are created on demand, if there are any.
    pub on_demand: Option<CreateAt>,
    /// Whether there are collections that are bound to each other.
    pub has_partners: bool,
}

impl Scenario {
    /// The scenario of a seed.
    pub fn new(seed: u64, duration: Duration, planted: Planted) -> Self {
        let mut dice = Dice::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x7363_656e_6172_696f);
        let over_quic = Self::is_over_quic(seed);
        let grid = grid(&mut dice, if over_quic { 2 } else { 1 });
        let mut faults = faults(&mut dice, planted);
        if over_quic {
            // Separate dice, so that the rest of the scenario does not depend on them.
            let mut dice = Dice::new(seed ^ 0x7175_6963);
            (faults.sessions, faults.quic) = (None, Some(quic_faults(&mut dice, planted)));
        }
        let stealing = dice.chance(0.4).then(|| dice.one_of(STEALING_POLICIES));
        let guests = match stealing {
            // Separate dice, so that the rest of the scenario does not depend on them.
            Some(_) => guests(&mut Dice::new(seed ^ 0x6775_6573_7473), &grid, duration),
            None => Vec::new(),
        };
        let elsewhere = seed.is_multiple_of(ELSEWHERE_EVERY);
        let coordinator = if elsewhere { grid.layout().node_count() - 1 } else { 0 };
        // Separate dice, so that the rest of the scenario does not depend on them.
        let moves_coordinator = Dice::new(seed ^ 0x6d6f_7665).chance(MOVING);
        let has_phases = Dice::new(seed ^ 0x0069_7465_6d73).chance(PHASES);
        let mut late = Dice::new(seed ^ 0x6c61_7465);
        let places = [CreateAt::Home, CreateAt::Sender];
        let on_demand = late.chance(ON_DEMAND).then(|| late.one_of(&places));
        let has_partners = Dice::new(seed ^ 0x626f_756e_6421).chance(PARTNERS);
        let (dimensions, block) = INDICES[(seed % INDICES.len() as u64) as usize];
        Self {
            dimensions,
            coordinator,
            moves_coordinator,
            has_phases,
            on_demand,
            has_partners,
            guests,
            stealing,
            seed,
            planted,
            duration,
            grid,
            faults,
            strategy: dice.one_of(&[
                "none",
                "rotate",
                "random",
                "refine",
                "greedy",
                "leader-cut",
                "replicate",
            ]),
            old: (3 + dice.below(18_u32)).next_multiple_of(block),
            young: (2 + dice.below(10_u32)).next_multiple_of(block),
            refusal: if dice.chance(0.3) { 0.2 } else { 0.0 },
            every: dice.one_of(&[None, Some(300), Some(2_000)]).map(Duration::from_millis),
            forwarders: 1 + dice.below(4_u32),
            has_replicas: dice.chance(0.7),
        }
    }

    /// Whether the nodes of a seed's grid communicate over QUIC in virtual time, through the
    /// production transport. Other seeds have modelled links.
    pub fn is_over_quic(seed: u64) -> bool {
        seed % QUIC_EVERY == QUIC_AT
    }

    /// The simulation of the job. The model must have been installed on this thread.
    pub(super) fn simulation(&self, log: bool) -> Result<Simulation, SimError> {
        let job = match self.dimensions {
            Ix5::DIMENSIONS => self.job::<Ix5>(),
            Ix6::DIMENSIONS => self.job::<Ix6>(),
            _ => self.job::<Ix1>(),
        };
        let options = SimOptions {
            seed: self.seed,
            faults: Some(self.faults.clone()),
            guests: self.guests.clone(),
            log,
            // Long enough for the longest timeout.
            time_limit: self.duration + Duration::from_secs(200),
            ..SimOptions::default()
        };
        Simulation::new(job, self.grid.clone(), options)
    }

    /// The job, with an index of type `I` for the members of the main collections.
    fn job<I: Numbered>(&self) -> Job {
        let job = Job::new("campaign")
            .actor::<RandomActor<I>>()
            .actor::<Reader>()
            .deterministic::<Forwarder>();
        let job = job.seed(self.seed).planted_fault(self.planted.in_pe());
        let job = job.coordinator_on(self.coordinator);
        let job = if self.has_phases { job.actor::<Carrier>() } else { job };
        let job = match self.on_demand {
            Some(at) => job.on_demand::<Latecomer>(at, |_| ()),
            None => job,
        };
        let job = if self.has_partners { job.actor::<Base>().actor::<Bound>() } else { job };
        let job = match self.stealing {
            Some(policy) => {
                let policy: StealingPolicyName =
                    policy.parse().expect("the scenario draws known names");
                let job = job.tasks::<Comb>().search::<Comb>().stealing(policy);
                job.tolerate_lost_guests(true)
            }
            None => job,
        };
        let name = self.strategy;
        let strategy: StrategyName = name.parse().expect("the scenario draws known names");
        // Replicas cannot be added to the plans of site leaders.
        let job = match self.has_replicas && name != "leader-cut" {
            true => job.strategy(RandomlyReplicated(strategy)),
            false => job.strategy(strategy),
        };
        let job = match self.every {
            Some(every) => job.balance_every(every),
            None => job,
        };
        let mut dice = Dice::new(self.seed);
        let placements =
            [Placement::Block, Placement::RoundRobin, Placement::BySite, Placement::Scatter];
        let plan = script::Plan {
            duration: self.duration,
            old: self.old,
            young: self.young,
            forwarders: self.forwarders,
            refusal: self.refusal,
            placement: placements[dice.below(4_usize)],
            has_tasks: self.stealing.is_some(),
            phases: self.has_phases.then(|| Dice::new(self.seed ^ 0x0063_6172_7269)),
            late: self.on_demand.map(|_| Dice::new(self.seed ^ 0x6465_6d61_6e64)),
            partners: self.has_partners.then(|| Dice::new(self.seed ^ 0x7061_7274_6e65)),
            moves: self.moves_coordinator.then(|| Dice::new(self.seed ^ 0x7068_6173_6573)),
        };
        job.main(async move |grid| script::run::<I>(grid, plan).await)
    }

    /// Installs the model of this scenario on this thread.
    pub(super) fn install_model(&self) {
        ledger::install(Dice::new(!self.seed), self.strategy != "none" || self.has_replicas);
    }
}

/// A random grid of up to three sites, and at least `sites_min`.
fn grid(dice: &mut Dice, sites_min: u64) -> GridSpec {
    let sites = (1 + dice.below(3)).max(sites_min);
    let mut layout = Vec::new();
    for site in 0..sites {
        let nodes = (0..1 + dice.below(3_u32)).map(|_| 1 + dice.below(3_u32)).collect();
        layout.push((format!("site{site}"), nodes));
    }
    let wan = Link::wan()
        .with_latency(Latency(dice.any_scale_up_to(Duration::from_millis(60))))
        .with_jitter(dice.any_scale_up_to(Duration::from_millis(10)))
        .with_loss(dice.one_of(&[0.0, 0.0, 0.01, 0.1]));
    let spec = GridSpec::from_layout(&Layout::new(layout));
    spec.unwrap_or_else(|_| GridSpec::single(2)).with_wan(wan)
}

/// Up to three guests. They join in the first quarter of `duration`, and most of them leave, are
/// killed or are mistakenly declared lost at a random time.
fn guests(dice: &mut Dice, grid: &GridSpec, duration: Duration) -> Vec<GuestPlan> {
    let sites: Vec<SiteId> = grid.layout().sites().collect();
    let moment = |dice: &mut Dice| Duration::from_millis(dice.below(duration.as_millis() as u64));
    let guest = |dice: &mut Dice| {
        let ways = [Departure::Leaves, Departure::Killed, Departure::Mistaken];
        let departs = dice.chance(0.8).then(|| (moment(dice), dice.one_of(&ways)));
        let joins = moment(dice) / 4;
        GuestPlan { site: dice.one_of(&sites), pes: 1 + dice.below(2_u32), joins, departs }
    };
    (0..dice.below(4_u32)).map(|_| guest(dice)).collect()
}

fn faults(dice: &mut Dice, planted: Planted) -> FaultPlan {
    let mut faults = FaultPlan {
        frame_delay: dice.one_of(&[0.0, 0.1, 0.3]),
        local_delay: dice.one_of(&[0.0, 0.1]),
        delay_max: dice.any_scale_up_to(Duration::from_millis(100)),
        reorder: dice.chance(0.7),
        ..FaultPlan::default()
    };
    let sessions = SessionFaults {
        disconnect: dice.one_of(&[0.002, 0.01]),
        outage_max: dice.any_scale_up_to(Duration::from_millis(300)),
        bulk_bytes: dice.one_of(&[64, 256, 1024]),
        duplicate: dice.one_of(&[0.05, 0.3]),
        partition: dice.one_of(&[0.0, 0.0, 0.1]),
        partition_max: Duration::from_secs(dice.one_of(&[2, 15])),
        planted: planted.in_session(),
        ..SessionFaults::default()
    };
    if dice.chance(0.5) {
        faults.sessions = Some(sessions);
    }
    if dice.chance(0.3) {
        let longest = Duration::from_millis(300);
        faults.pauses = Some(PauseFaults::new(0.0005, longest));
    }
    faults
}

/// Random faults of the network under QUIC. Partitions are shorter than the timeout for silent
/// nodes.
fn quic_faults(dice: &mut Dice, planted: Planted) -> QuicFaults {
    QuicFaults {
        bulk_bytes: dice.one_of(&[64, 256, 1024]),
        loss: dice.one_of(&[0.0, 0.005, 0.02]),
        duplicate: dice.one_of(&[0.0, 0.02, 0.1]),
        disconnect: dice.one_of(&[0.0005, 0.002]),
        partition: dice.one_of(&[0.0, 0.1, 0.3]),
        partition_max: Duration::from_millis(1_500),
        planted: planted.in_session(),
    }
}
