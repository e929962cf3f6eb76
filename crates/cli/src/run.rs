//! `gridctl run`: runs a job in real time.

use crate::args::{
    BalanceFlags, CheckpointFlags, DriverName, OnLossFlag, OnStall, RunArgs, StdinFlag, Switch,
};
use crate::error::{CliError, RunFlagError};
use crate::grid::{Described, Place, sharing};
use crate::hosts::{Hosts, all_here, is_loopback, ssh_command};
use crate::launch::{self, Launch, Membership, OnLoss, Processes, RecordPlan};
use crate::metrics::{self, MetricsServer};
use crate::program::Program;
use crate::slurm::Allocations;
use crate::standard_input::{ReaderStart, input_way, reading_node};
use crate::surroundings::Surroundings;
use crate::witness::{WitnessAddressError, WitnessLocation, check_meaning};
use crate::{detach, dry_run, logging, nodes, output};
use gridspan::binding::Binding;
use gridspan::variables::{
    BALANCE, BALANCE_DUMP, BALANCE_EVERY, BALANCE_GATE, BIND, BROADCAST, CHECKPOINT,
    CHECKPOINT_EVERY, COPIES, COPY_RATE, LOST_AFTER, NODE_MTBF, ON_STALL, PROTECT_SITES, RECORD,
    RESTART, SEED, STEALING, TIME_LIMIT, cores, record_value,
};
use gridspan::{CheckpointEvery, Checkpoints, Driver, Settings, Start};
use gridspan_topology::{GridSpec, NodeId};
use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Runs a job with these flags.
pub(crate) fn run(args: &RunArgs, verbose: u8) -> Result<ExitCode, CliError> {
    let program = Program::resolve(args.program.as_ref())?;
    // A launcher holds the lock until this function returns.
    let lock = args.background.as_deref().map(detach::lock).transpose()?;
    if matches!(lock, Some(None)) {
        return Ok(ExitCode::SUCCESS);
    }
    let mut place = match &args.background {
        Some(id) => detach::place(id)?,
        None => Place::of_run(&args.place, program.is_built_in())?,
    };
    let wants_input = args.process.stdin.as_ref().is_some_and(StdinFlag::needs_processes);
    let wants_report = args.process.metrics.is_some() || !args.only.is_empty();
    if args.guests > 0 || args.detach || wants_input || wants_report {
        // Guests join over the network; only separate processes outlive this one, have separate
        // memory and input, and print lines that are known to be theirs.
        place.driver = DriverName::Cluster;
    }
    let spec = place.grid.spec.clone();
    let is_here = place.is_emulated || place.tasks.is_none() && all_here(&spec);
    if args.background.is_none() && is_here {
        mention_sharing(&spec);
    }
    let (mut settings, on_loss) = all_settings(args)?;
    let unprotected = unprotected(&settings, on_loss, &place);
    if let Some(text) = unprotected.filter(|_| args.background.is_none()) {
        output::warn(text);
    }
    let shown = match args.only[..] {
        [] => None,
        _ => Some(nodes::named(&spec.clone().into(), &args.only)?),
    };
    let reader = reading_node(args.process.stdin.as_ref(), &spec)?;
    let surroundings = Surroundings::new(&args.variables, args.folder.clone())?;
    let spares = spares(&args.checkpoints.spare, &place)?;
    if args.guests > 0 && !args.tolerate_lost_guests && !spares.is_empty() {
        return Err(RunFlagError::SparesWithGuests.into());
    }
    let drain_deadline = args.checkpoints.drain_deadline;
    let membership = Membership { on_loss, spares, drain_deadline };
    // A single node has no links, and needs no launcher.
    let is_single = place.driver == DriverName::Embedded && spec.layout().node_count() == 1;
    let has_input = args.process.stdin != Some(StdinFlag::None);
    let is_recorded = args.recording.record.is_some();
    let is_alone = is_single && !args.json && has_input && !is_recorded && args.logs.is_none();
    let binding = settings.bind.unwrap_or(Binding::None);
    if args.dry_run {
        let processes = planned_processes(&place, args.place.ssh.as_deref(), settings, verbose);
        // Variables that users pass may be secret.
        let surroundings = surroundings.hidden();
        let launch = Launch::new(&program, &spec, processes);
        let id = launch::planned_job_name(&program);
        let launch = Launch { membership, surroundings, binding, id, ..launch };
        dry_run::print(&launch, is_alone, args.json, &mut io::stdout().lock())?;
        return Ok(ExitCode::SUCCESS);
    }
    if place.is_emulated || Hosts::is_first_here(&spec) {
        check_dump(&settings)?;
    }
    let record = recording(args, &spec, settings.seed)?;
    settings.record = record.as_ref().map(|record| record.settings(false));
    if is_alone {
        let variables = variables(&place.grid, &settings, verbose);
        let driver = Driver::Embedded(place.grid.spec);
        let start = Start::new(driver).with_settings(settings);
        let run = |job| launch::run_on_threads(job, &start, &program, &spec);
        return program.run_or_become(run, &variables, &surroundings);
    }
    if args.detach && place.tasks.is_some() {
        return Err(RunFlagError::DetachedTasks.into());
    }
    if args.detach && args.background.is_none() {
        args.process.metrics.iter().try_for_each(metrics::check)?;
        input_way(args.process.stdin.as_ref(), (reader, ReaderStart::Detached), false)?;
        // Mistakes show before anything is started.
        args.witness.as_deref().map_or(Ok(()), check_meaning)?;
        let has_witness = witness(args)?.is_some();
        return detach::start(&program, place, &surroundings, (args.json, has_witness));
    }
    let processes = processes(&place, args.place.ssh.as_deref(), settings, verbose)?;
    let launch = Launch::new(&program, &spec, processes);
    let launch = Launch { membership, surroundings, record, shown, ..launch };
    run_processes(args, reader, launch)
}

/// Runs a job as processes of this launcher, or attends to a detached job. `reader`: the node that
/// reads the standard input if only one does.
fn run_processes(args: &RunArgs, reader: NodeId, launch: Launch<'_>) -> Result<ExitCode, CliError> {
    let start = match args.detach {
        true => ReaderStart::Detached,
        false => ReaderStart::of(&launch.processes, reader),
    };
    let id = args.background.clone();
    let id = id.unwrap_or_else(|| launch::listed_job_name(launch.program));
    let metrics = serve_metrics(args, &id)?;
    let launch = Launch {
        json: args.json,
        is_listed: true,
        id,
        guests: args.guests,
        log_limit: args.log_limit,
        logs: args.logs.clone(),
        metrics: metrics.as_ref().map(|server| server.place().to_owned()),
        input: input_way(args.process.stdin.as_ref(), (reader, start), io::stdin().is_terminal())?,
        connect_timeout: args.process.connect_timeout,
        ..launch
    };
    match &args.background {
        Some(id) => {
            let ssh = ssh_command(args.place.ssh.as_deref());
            let witness = witness(args)?.map(|location| (location, ssh));
            detach::attend(id, &args.ended, witness, launch)
        }
        None => launch::run(launch).map(|ended| ExitCode::from(ended.code)),
    }
}

/// Serves the metrics of a job of this name while it runs, if the flags request it. A detached job
/// runs without them if they cannot be served where its launcher is now.
fn serve_metrics(args: &RunArgs, id: &str) -> Result<Option<MetricsServer>, CliError> {
    let Some(address) = &args.process.metrics else { return Ok(None) };
    match (metrics::serve(address, id), &args.background) {
        (Ok(server), _) => Ok(Some(server)),
        (Err(error), None) => Err(error),
        (Err(error), Some(_)) => {
            output::warn(&error.to_string());
            Ok(None)
        }
    }
}

/// Returns the recording that the flags request, if any. Refuses to record a job with guests, whose
/// launchers do not reach the recording's folder, or a detached job, which may have several
/// launchers.
fn recording(
    args: &RunArgs,
    spec: &GridSpec,
    seed: Option<u64>,
) -> Result<Option<RecordPlan>, CliError> {
    let flags = [("--detach", args.detach), ("--guests", args.guests > 0)];
    if let Some((flag, _)) = flags.into_iter().find(|(_, is_given)| *is_given)
        && args.recording.record.is_some()
    {
        return Err(RunFlagError::RecordedWith { flag }.into());
    }
    RecordPlan::new(&args.recording, spec, seed)
}

/// Tells the user that PEs share cores, if they do.
fn mention_sharing(spec: &GridSpec) {
    if let Some(note) = sharing(spec.layout().pe_count(), cores()) {
        // The note is optional, so an error is ignored.
        let _ = io::Write::write_all(&mut io::stderr(), format!("{note}\n").as_bytes());
    }
}

/// Returns the settings of all flags, and what happens when nodes are lost.
fn all_settings(args: &RunArgs) -> Result<(Settings, OnLoss), CliError> {
    let mut settings = settings(args.seed, &args.balance)?;
    settings.tolerates_lost_guests = args.tolerate_lost_guests.then_some(true);
    let on_stall = args.on_stall.map(|what| what == OnStall::Fail);
    settings.fails_on_stall = on_stall.or(settings.fails_on_stall);
    settings.time_limit = args.time_limit.or(settings.time_limit);
    settings.lost_after = args.lost_after.or(settings.lost_after);
    settings.bind = args.process.bind.map(Binding::from).or(settings.bind);
    let on_loss = checkpoints(&args.checkpoints, &mut settings)?;
    // Another launcher of a detached job would not know of losses that the job has tolerated.
    let repeats_tasks = matches!(on_loss, OnLoss::Shrink | OnLoss::AsProgram) && !args.detach;
    settings.repeats_tasks = Some(repeats_tasks);
    check_log(&args.checkpoints, on_loss, args.detach)?;
    Ok((settings, on_loss))
}

/// Refuses a limit for the log of lent tasks if the other flags make the job keep none.
fn check_log(
    flags: &CheckpointFlags,
    on_loss: OnLoss,
    is_detached: bool,
) -> Result<(), RunFlagError> {
    let flag = match on_loss {
        OnLoss::Fail => Some("--on-loss fail"),
        OnLoss::Replace => Some("--on-loss replace"),
        OnLoss::Shrink | OnLoss::AsProgram => is_detached.then_some("--detach"),
    };
    match flag.filter(|_| flags.log_bytes.is_some()) {
        Some(flag) => Err(RunFlagError::LogWith { flag }),
        None => Ok(()),
    }
}

/// Returns the nodes that are not started with the job.
fn spares(names: &[String], place: &Place) -> Result<Vec<NodeId>, CliError> {
    let spec = &place.grid.spec;
    let spares = nodes::named(&spec.clone().into(), names)?;
    if spares.is_empty() {
        return Ok(Vec::new());
    }
    match place.driver {
        DriverName::Embedded => Err(RunFlagError::SparesOfThreads.into()),
        DriverName::Cluster if spares.len() == spec.layout().node_count() as usize => {
            Err(RunFlagError::AllSpare.into())
        }
        DriverName::Cluster => Ok(spares.into_iter().collect()),
    }
}

/// Whether this is the address of a place in an object store.
fn is_address(path: &Path) -> bool {
    path.to_str().is_some_and(|text| text.contains("://"))
}

/// The path from the root, or the address.
fn absolute(path: &Option<PathBuf>) -> io::Result<Option<PathBuf>> {
    match path {
        Some(path) if is_address(path) => Ok(Some(path.clone())),
        path => path.as_ref().map(std::path::absolute).transpose(),
    }
}

/// Returns the location of the job's witness, if it has one.
fn witness(args: &RunArgs) -> Result<Option<WitnessLocation>, CliError> {
    let Some(place) = absolute(&args.witness).map_err(CliError::Output)? else { return Ok(None) };
    let location = WitnessLocation::parse(&place)?;
    match &location {
        WitnessLocation::Host(host) if is_loopback(&host.name) => {
            let text = host.to_string();
            Err(WitnessAddressError::Loopback { text }.into())
        }
        _ => Ok(Some(location)),
    }
}

/// Returns a warning if the job would not survive the loss of a node with these checkpoints, but
/// would with more copies.
fn unprotected(settings: &Settings, on_loss: OnLoss, place: &Place) -> Option<&'static str> {
    // The nodes of one process end together, and a job of one node has no other that could go on.
    let has_others =
        place.driver == DriverName::Cluster && place.grid.spec.layout().node_count() > 1;
    let is_kept_once = settings.checkpoints.is_some_and(|it| it.copies == 1);
    let is_unprotected = is_kept_once && settings.checkpoint_folder.is_none();
    (has_others && is_unprotected && on_loss != OnLoss::Fail).then_some(
        "with `--copies 1`, each part of a checkpoint ends with its node, so that the loss of any \
         node ends the job; add `--checkpoint DIR`, or keep two copies",
    )
}

/// Takes the settings of checkpoints from the flags, and returns what happens when nodes are lost.
fn checkpoints(flags: &CheckpointFlags, settings: &mut Settings) -> Result<OnLoss, CliError> {
    // Nodes may run in another folder than gridctl.
    let folder = flags.checkpoint.clone().or(settings.checkpoint_folder.take());
    let restart = flags.restart.clone().or(settings.restart.take());
    settings.checkpoint_folder = absolute(&folder).map_err(CliError::Output)?;
    settings.restart = absolute(&restart).map_err(CliError::Output)?;
    let of_environment = settings.checkpoints.unwrap_or_default();
    let every = flags.checkpoint_every.or(of_environment.every);
    // Without these flags the settings of the program hold.
    let has_times = flags.node_mtbf.is_some() || flags.copy_rate.is_some();
    let has_details = flags.protect_sites || flags.copies.is_some() || has_times;
    if let Some(every) = every.or(has_details.then_some(CheckpointEvery::Auto)) {
        let mut checkpoints = of_environment.with_every(every);
        if flags.protect_sites {
            checkpoints = checkpoints.protecting_sites(true);
        }
        if let Some(copies) = flags.copies {
            checkpoints = checkpoints.with_copies(copies);
        }
        if let Some(mtbf) = flags.node_mtbf {
            checkpoints = checkpoints.with_node_mtbf(mtbf);
        }
        if let Some(rate) = flags.copy_rate {
            checkpoints = checkpoints.with_copy_rate(rate);
        }
        if checkpoints.protects_site && checkpoints.copies < 2 {
            return Err(RunFlagError::NoCopyForSites.into());
        }
        settings.checkpoints = Some(checkpoints);
    }
    let on_loss = match flags.on_loss {
        Some(OnLossFlag::Fail) => OnLoss::Fail,
        None if settings.checkpoints.is_none() && settings.checkpoint_folder.is_none() => {
            OnLoss::AsProgram
        }
        None | Some(OnLossFlag::Shrink) => OnLoss::Shrink,
        Some(OnLossFlag::Replace) => OnLoss::Replace,
    };
    settings.recovers = (on_loss != OnLoss::AsProgram).then_some(on_loss.recovers());
    settings.log_bytes = flags.log_bytes.or(settings.log_bytes);
    Ok(on_loss)
}

/// Creates the file for the measurements of rebalances, if one is requested, so that an error is
/// reported before anything runs.
pub(crate) fn check_dump(settings: &Settings) -> Result<(), CliError> {
    let Some(path) = &settings.balance_dump else { return Ok(()) };
    let opened = OpenOptions::new().create(true).append(true).open(path);
    opened.map(drop).map_err(|error| CliError::Write { path: path.clone(), error })
}

/// Returns the processes of a job at a place.
pub(crate) fn processes(
    place: &Place,
    ssh: Option<&str>,
    settings: Settings,
    verbose: u8,
) -> Result<Processes, CliError> {
    let hosts = match may_reach_others(place) {
        true if place.is_taken_over => Hosts::of_started(&place.grid.spec, ssh),
        true => Hosts::of(&place.grid.spec, ssh)?,
        false => Hosts::here(),
    };
    Ok(processes_on(hosts, place, settings, verbose))
}

/// Returns the processes of a job that is not started. Warns of hosts whose address is not found.
fn planned_processes(
    place: &Place,
    ssh: Option<&str>,
    settings: Settings,
    verbose: u8,
) -> Processes {
    let (hosts, unknown) = match may_reach_others(place) {
        true => Hosts::look_up(&place.grid.spec, ssh),
        false => (Hosts::here(), vec![]),
    };
    for (host, error) in unknown {
        output::warn(&CliError::Address { host, error }.to_string());
    }
    processes_on(hosts, place, settings, verbose)
}

/// Whether gridctl may have to reach other hosts. With emulated links, this machine stands for all
/// hosts, and Slurm reaches its hosts itself.
fn may_reach_others(place: &Place) -> bool {
    place.driver == DriverName::Cluster && !place.is_emulated && place.tasks.is_none()
}

fn processes_on(hosts: Hosts, place: &Place, settings: Settings, verbose: u8) -> Processes {
    match place.driver {
        DriverName::Cluster => {
            let (is_emulated, variables) = (place.is_emulated, log_variable(verbose));
            let tasks = place.tasks.clone().map(Allocations::from);
            let settings = Box::new(settings);
            Processes::Nodes { is_emulated, hosts, tasks, settings, variables }
        }
        DriverName::Embedded => {
            Processes::Single { variables: variables(&place.grid, &settings, verbose) }
        }
    }
}

/// Returns the settings: from the flags, and from the environment where a flag is absent.
pub(crate) fn settings(seed: Option<u64>, balance: &BalanceFlags) -> Result<Settings, CliError> {
    let mut settings = Settings::from_environment()?;
    // Nodes may run in another folder than gridctl.
    let dump = balance.balance_dump.clone().or(settings.balance_dump.take());
    let dump = dump.map(std::path::absolute).transpose().map_err(CliError::Output)?;
    settings.seed = seed.or(settings.seed);
    settings.strategy = balance.balance.or(settings.strategy);
    settings.balance_every = balance.balance_every.or(settings.balance_every);
    let gate = balance.balance_gate.map(|gate| gate == Switch::On);
    settings.balance_gate = gate.or(settings.balance_gate);
    settings.stealing = balance.stealing.or(settings.stealing);
    settings.broadcast = balance.broadcast.or(settings.broadcast);
    settings.balance_dump = dump;
    Ok(settings)
}

/// Returns the variables that give a user's program the same configuration as a [`Start`].
pub(crate) fn variables(
    grid: &Described,
    settings: &Settings,
    verbose: u8,
) -> Vec<(&'static str, OsString)> {
    let mut variables = log_variable(verbose);
    variables.push(grid.variable_from_root());
    variables.extend(settings.seed.map(|seed| (SEED, seed.to_string().into())));
    variables.extend(settings.bind.map(|bind| (BIND, bind.to_string().into())));
    variables.extend(settings.strategy.iter().map(|name| (BALANCE, name.to_string().into())));
    let every = settings.balance_every.map(|every| format!("{}ns", every.as_nanos()));
    variables.extend(every.map(|every| (BALANCE_EVERY, every.into())));
    let gate = settings.balance_gate.map(|is_gated| if is_gated { "on" } else { "off" });
    variables.extend(gate.map(|gate| (BALANCE_GATE, gate.into())));
    variables.extend(settings.stealing.iter().map(|name| (STEALING, name.to_string().into())));
    variables.extend(settings.broadcast.map(|mode| (BROADCAST, mode.to_string().into())));
    let on_stall = settings.fails_on_stall.map(|fails| if fails { "fail" } else { "warn" });
    variables.extend(on_stall.map(|what| (ON_STALL, what.into())));
    let limit = settings.time_limit.map(|limit| format!("{}ns", limit.as_nanos()));
    variables.extend(limit.map(|limit| (TIME_LIMIT, limit.into())));
    let silence = settings.lost_after.map(|silence| format!("{}ns", silence.as_nanos()));
    variables.extend(silence.map(|silence| (LOST_AFTER, silence.into())));
    variables.extend(settings.checkpoints.iter().flat_map(checkpoint_variables));
    variables.extend(settings.checkpoint_folder.iter().map(|path| (CHECKPOINT, path.into())));
    variables.extend(settings.restart.iter().map(|path| (RESTART, path.into())));
    variables.extend(settings.record.iter().map(|record| (RECORD, record_value(record).into())));
    variables.extend(settings.balance_dump.iter().map(|path| (BALANCE_DUMP, path.into())));
    variables
}

/// Returns the variables of checkpoints. Details with their default values are left out.
fn checkpoint_variables(checkpoints: &Checkpoints) -> Vec<(&'static str, OsString)> {
    let (set, default) = (checkpoints, Checkpoints::default());
    let mut variables: Vec<(&str, OsString)> = Vec::new();
    variables.extend(set.every.map(|every| (CHECKPOINT_EVERY, every.to_string().into())));
    if set.copies != default.copies {
        variables.push((COPIES, set.copies.to_string().into()));
    }
    if set.protects_site {
        variables.push((PROTECT_SITES, "on".into()));
    }
    variables.extend(set.copy_rate.map(|rate| (COPY_RATE, rate.to_string().into())));
    if set.node_mtbf != default.node_mtbf {
        variables.push((NODE_MTBF, format!("{}ns", set.node_mtbf.as_nanos()).into()));
    }
    variables
}

/// Returns the variable that passes `-v` to another process.
fn log_variable(verbose: u8) -> Vec<(&'static str, OsString)> {
    let directives = logging::directives(verbose);
    directives.map(|directives| (logging::VARIABLE, directives.into())).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        flags: CheckpointFlags,
    }

    /// The settings that flags request, and what happens when nodes are lost.
    fn flagged(flags: &[&str]) -> (Settings, OnLoss) {
        let words = ["gridctl"].into_iter().chain(flags.iter().copied());
        let line = Line::try_parse_from(words).unwrap_or_else(|error| panic!("{error}"));
        let mut settings = Settings::default();
        let on_loss = checkpoints(&line.flags, &mut settings).unwrap();
        (settings, on_loss)
    }

    /// The checkpoints that flags request.
    fn requested(flags: &[&str]) -> Option<Checkpoints> {
        flagged(flags).0.checkpoints
    }

    #[test]
    fn the_user_is_warned_of_checkpoints_that_protect_against_no_loss() {
        let several = Place::of_processes(GridSpec::from_emulate("2x2").unwrap(), true);
        let is_warned_at = |place: &Place, flags: &[&str]| {
            let (settings, on_loss) = flagged(flags);
            unprotected(&settings, on_loss, place).is_some()
        };
        let is_warned = |flags: &[&str]| is_warned_at(&several, flags);
        assert!(is_warned(&["--copies", "1"]));
        assert!(is_warned(&["--copies", "1", "--restart", "/folder", "--on-loss", "replace"]));
        assert!(!is_warned(&[]) && !is_warned(&["--copies", "2"]));
        assert!(!is_warned(&["--copies", "1", "--checkpoint", "/folder"]));
        assert!(!is_warned(&["--copies", "1", "--on-loss", "fail"]));
        let single = Place::of_processes(GridSpec::single(4), false);
        assert!(!is_warned_at(&single, &["--copies", "1"]), "no other node could go on");
        let threads = Place { driver: DriverName::Embedded, ..several };
        assert!(!is_warned_at(&threads, &["--copies", "1"]), "its nodes end together");
    }

    #[test]
    fn each_detail_of_checkpoints_requests_them_also_with_its_default() {
        let auto = Checkpoints::every(CheckpointEvery::Auto);
        assert_eq!(requested(&[]), None);
        assert_eq!(requested(&["--copies", "2"]), Some(auto));
        assert_eq!(requested(&["--copies", "1"]), Some(auto.with_copies(1)));
        assert_eq!(requested(&["--protect-sites"]), Some(auto.protecting_sites(true)));
        let steps = Checkpoints::every(CheckpointEvery::Points(100));
        assert_eq!(requested(&["--checkpoint-every", "100steps"]), Some(steps));
    }

    #[test]
    fn a_program_of_one_process_gets_all_details_of_checkpoints() {
        let passed = |flags: &[&str]| {
            let variables = checkpoint_variables(&requested(flags).unwrap());
            let text = |(name, value): &(&str, OsString)| format!("{name}={}", value.display());
            variables.iter().map(text).collect::<Vec<_>>().join(" ")
        };
        let expected = "GRIDSPAN_CHECKPOINT_EVERY=auto GRIDSPAN_NODE_MTBF=3600000000000ns";
        assert_eq!(passed(&["--node-mtbf", "1h"]), expected);
        assert_eq!(passed(&["--copies", "2"]), "GRIDSPAN_CHECKPOINT_EVERY=auto");
        let flags = ["--checkpoint-every", "9steps", "--copy-rate", "100mbit"];
        let expected = "GRIDSPAN_CHECKPOINT_EVERY=9steps GRIDSPAN_COPY_RATE=100mbit";
        assert_eq!(passed(&flags), expected);
        assert!(passed(&["--copies", "1"]).ends_with(" GRIDSPAN_COPIES=1"));
        assert!(passed(&["--protect-sites"]).ends_with(" GRIDSPAN_PROTECT_SITES=on"));
    }

    #[test]
    fn the_size_of_the_log_requests_no_checkpoints() {
        for (size, bytes) in [("0", 0), ("1MiB", 1 << 20)] {
            let (settings, _) = flagged(&["--log-bytes", size]);
            assert_eq!((settings.log_bytes, settings.checkpoints), (Some(bytes), None));
        }
        assert_eq!(flagged(&[]).0.log_bytes, None);
    }

    #[test]
    fn a_limit_for_a_log_that_the_job_does_not_keep_is_refused() {
        let refused_with = |flags: &[&str], is_detached: bool| {
            let words = ["gridctl"].into_iter().chain(flags.iter().copied());
            let line = Line::try_parse_from(words).unwrap_or_else(|error| panic!("{error}"));
            match check_log(&line.flags, flagged(flags).1, is_detached) {
                Ok(()) => None,
                Err(RunFlagError::LogWith { flag }) => Some(flag),
                Err(error) => panic!("{error}"),
            }
        };
        let [fail, replace] = ["fail", "replace"].map(|what| ["--on-loss", what]);
        let log = ["--log-bytes", "1MiB"];
        for (what, flag) in [(fail, "--on-loss fail"), (replace, "--on-loss replace")] {
            assert_eq!(refused_with(&[what, log].concat(), false), Some(flag));
            assert_eq!(refused_with(&what, false), None);
        }
        assert_eq!(refused_with(&log, true), Some("--detach"));
        assert_eq!(refused_with(&log, false), None);
        assert_eq!(refused_with(&[log, ["--on-loss", "shrink"]].concat(), false), None);
        assert_eq!(refused_with(&[], true), None);
    }

    #[test]
    fn details_of_checkpoints_in_the_environment_hold_without_their_flags() {
        let line = Line::try_parse_from(["gridctl", "--copies", "2"]).unwrap();
        let of_environment = Checkpoints::every(CheckpointEvery::Points(7)).protecting_sites(true);
        let mut settings = Settings::default().with_checkpoints(of_environment.with_copies(1));

        checkpoints(&line.flags, &mut settings).unwrap();

        assert_eq!(settings.checkpoints, Some(of_environment));
    }

    #[test]
    fn sites_are_not_protected_without_a_second_copy() {
        let line = ["gridctl", "--copies", "1", "--protect-sites"];
        let line = Line::try_parse_from(line).unwrap();
        let refused = checkpoints(&line.flags, &mut Settings::default()).unwrap_err();
        assert!(refused.to_string().contains("--copies 1"), "{refused}");
    }

    #[test]
    fn relative_folders_in_the_environment_are_those_of_gridctl() {
        let line = Line::try_parse_from(["gridctl"]).unwrap();
        let mut settings = Settings::default().with_checkpoint_folder("kept").with_restart("old");

        checkpoints(&line.flags, &mut settings).unwrap();

        let own = std::env::current_dir().unwrap();
        assert_eq!(settings.checkpoint_folder, Some(own.join("kept")));
        assert_eq!(settings.restart, Some(own.join("old")));
    }
}
