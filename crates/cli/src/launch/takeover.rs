//! How another launcher takes over a job whose nodes are kept, in the two phases of `quorum`.
//!
//! Before the first phase, the launcher checks which keepers it can reach, and whether another
//! launcher attends to the job. So an attempt that cannot succeed changes nothing.

use super::bridge_command::{BridgeCommand, await_frames, kill};
use super::own_name;
use super::plan::Launch;
use super::quorum::{Halves, Rule, open_half, shortage};
use crate::error::{CliError, DetachedJobError};
use crate::hosts::Shared;
use crate::job_folder::{Saved, Stage};
use gridspan::keeper::{
    BridgeRefusal, BridgeTask, FromBridge, KeptNode, LauncherId, ToBridge, read_frame, write_frame,
};
use gridspan_topology::NodeId;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufReader};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

/// Time for a keeper to answer.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);
/// Number of keepers that are asked at the same time.
const ASKED_MAX: usize = 16;
/// Silence after which a launcher counts as ended: five intervals between its heartbeats.
const SILENCE: Duration = Duration::from_secs(10);
/// Time to wait for that silence, and the interval between checks.
const SILENCE_PATIENCE: Duration = Duration::from_secs(16);
const LOOK: Duration = Duration::from_secs(1);

/// The answers of keepers, and the newest state of the job: a keeper's, or that of this launcher.
struct Survey<'a, 'g> {
    launch: &'a mut Launch<'g>,
    found: BTreeMap<NodeId, KeptNode>,
    /// Nodes that answered in the first survey. The second survey asks them first, because a
    /// previous launcher waits only for a limited time until all of them are taken over.
    first: BTreeSet<NodeId>,
    newest: Saved,
}

/// Lets this launcher take over, if it may: sets what it needs in `launch`.
///
/// # Errors
///
/// If another launcher attends to the job, or too few keepers can be reached or agree.
pub(crate) fn take_over(launch: &mut Launch<'_>) -> Result<(), CliError> {
    let (Some(kept), Some(local)) = (&launch.kept, launch.saved()) else { return Ok(()) };
    let (own, local) = (kept.launcher.name.clone(), local.clone());
    let (found, first) = (BTreeMap::new(), BTreeSet::new());
    let mut survey = Survey { launch: &mut *launch, found, first, newest: local.clone() };
    let of_others = |name: &str| own_name::place(name) != own_name::place(&own);
    survey.ask(&BridgeTask::Look, &LauncherId::default())?;
    survey.await_silence(of_others)?;
    survey.has_quorum(false)?;
    let epochs = survey.found.values().map(|node| node.launcher.epoch);
    let epoch = epochs.chain([survey.newest.launcher.epoch]).max().unwrap_or_default() + 1;
    let launcher = LauncherId { epoch, name: own.clone() };
    survey.first = std::mem::take(&mut survey.found).into_keys().collect();
    survey.ask(&BridgeTask::Accept, &launcher)?;
    let has_quorum = survey.has_quorum(true)?;
    let Survey { found, mut newest, .. } = survey;
    let is_own = newest.key() == local.key() && !of_others(&newest.launcher.name);
    if !is_own && newest.recovers && newest.stage == Stage::Running {
        // Messages of nodes to the previous launcher may be lost.
        newest.stage = Stage::Changing;
    }
    if let Some(kept) = &mut launch.kept {
        (kept.launcher, kept.is_copy, kept.has_quorum) = (launcher, !is_own, has_quorum);
        kept.found = found.into_keys().collect();
    }
    if let Some((_, saved)) = &mut launch.detached {
        *saved = Some(newest);
    }
    Ok(())
}

impl Survey<'_, '_> {
    /// The remaining nodes, and the members of the last agreed run and of the proposed runs after
    /// it.
    fn members(&self) -> BTreeSet<NodeId> {
        let runs = self.newest.runs.get(self.newest.agreed..).unwrap_or_default();
        let of_runs = runs.iter().flat_map(|(_, members)| members);
        of_runs.chain(&self.newest.left).copied().collect()
    }

    /// Sends a task to all keepers of members, also to those that only a newer state names.
    fn ask(&mut self, task: &BridgeTask, launcher: &LauncherId) -> Result<(), CliError> {
        let mut asked = BTreeSet::new();
        loop {
            let mut nodes: Vec<NodeId> = self.members().difference(&asked).copied().collect();
            nodes.sort_by_key(|node| !self.first.contains(node));
            if nodes.is_empty() {
                return Ok(());
            }
            for some in nodes.chunks(ASKED_MAX) {
                asked.extend(some);
                let added = self.launch.added.clone();
                self.ask_some(some, task, launcher)?;
                if self.launch.added != added {
                    // A newer state may give the numbers of added nodes to others, or to none.
                    let of_grid = self.launch.spec.layout().node_count();
                    self.found.retain(|node, _| node.0 < of_grid);
                    asked.retain(|node| node.0 < of_grid);
                    break;
                }
            }
        }
    }

    fn ask_some(
        &mut self,
        nodes: &[NodeId],
        task: &BridgeTask,
        launcher: &LauncherId,
    ) -> Result<(), CliError> {
        let mut commands = Vec::new();
        for &node in nodes {
            let command = BridgeCommand::new(self.launch, node, task.clone(), &Shared::default())?;
            let mut command = command.without_notes();
            command.order.launcher = launcher.clone();
            commands.push((node, command));
        }
        let answers: Vec<_> = thread::scope(|scope| {
            let begin = |(node, mut command): (NodeId, BridgeCommand)| {
                scope.spawn(move || (node, answer(&mut command)))
            };
            let all: Vec<_> = commands.into_iter().map(begin).collect();
            all.into_iter().filter_map(|asked| asked.join().ok()).collect()
        });
        for (node, answer) in answers {
            match answer {
                Ok(Ok((kept, state))) => {
                    self.found.insert(node, kept);
                    // A node that was started just before its launcher ended has no state.
                    let of_grid = self.launch.spec.layout().node_count();
                    let state = Saved::from_bytes(&state).ok().filter(|it| it.fits(of_grid));
                    if let Some(state) = state.filter(|it| it.key() > self.newest.key()) {
                        self.launch.restore_added(&state.added)?;
                        self.newest = state;
                    }
                }
                Ok(Err(BridgeRefusal::Other(other))) => {
                    return Err(DetachedJobError::Attended {
                        job: self.launch.id.clone(),
                        by: other.name,
                    }
                    .into());
                }
                Ok(Err(refusal)) => tracing::info!(%node, ?refusal, "this keeper refuses"),
                Err(error) => tracing::info!(%node, %error, "this keeper cannot be reached"),
            }
        }
        Ok(())
    }

    /// Waits until other launchers have been silent for [`SILENCE`].
    fn await_silence(&mut self, of_others: impl Fn(&str) -> bool) -> Result<(), CliError> {
        let until = Instant::now() + SILENCE_PATIENCE;
        loop {
            let is_attended = |node: &&KeptNode| {
                let silence = node.attended_ms.map(Duration::from_millis);
                of_others(&node.launcher.name) && silence.is_some_and(|it| it < SILENCE)
            };
            let Some(attended) = self.found.values().find(is_attended) else { return Ok(()) };
            if Instant::now() > until {
                let by = attended.launcher.name.clone();
                return Err(DetachedJobError::Attended { job: self.launch.id.clone(), by }.into());
            }
            thread::sleep(LOOK);
            self.found.clear();
            self.ask(&BridgeTask::Look, &LauncherId::default())?;
        }
    }

    /// Returns whether enough members can be reached. Fails if they cannot, unless the newest state
    /// says that the job had not begun or was ending: then this launcher ends the job without them.
    /// `settles`: whether they have accepted this launcher, so that the witness may settle on them.
    fn has_quorum(&self, settles: bool) -> Result<bool, CliError> {
        let first = self.newest.agreed;
        let runs = self.newest.runs.get(first..).unwrap_or_default();
        let kept = self.launch.kept.as_ref();
        let ended = kept.map(|kept| kept.ended.clone()).unwrap_or_default();
        let is_found = |node: NodeId| self.found.contains_key(&node);
        let may_end = matches!(self.newest.stage, Stage::Starting | Stage::Ending);
        let mut halves = kept.and_then(|kept| kept.witness.as_ref()).map(|_| Halves::new());
        let mut problem = None;
        loop {
            let rule = Rule { ended: &ended, witness: halves.as_ref() };
            let open = open_half(rule, (first, runs), is_found);
            let (Some((run, half)), Some(halves)) = (open, &mut halves) else { break };
            match self.ask_witness(run, half, settles) {
                Ok(half) => drop(halves.insert(run, half)),
                Err(reason) => {
                    problem = Some(reason);
                    break;
                }
            }
        }
        let rule = Rule { ended: &ended, witness: halves.as_ref() };
        let missing = shortage(rule, (first, runs), is_found, |node| self.launch.roster.name(node));
        match missing {
            None => Ok(true),
            Some(_) if may_end => Ok(false),
            Some(mut reason) => {
                reason.extend(problem.map(|problem| format!("; the witness: {problem}")));
                Err(DetachedJobError::NoQuorum { job: self.launch.id.clone(), reason }.into())
            }
        }
    }

    /// Returns the half of the members of a run on which the witness has settled. If it has settled
    /// on none, returns `half`, and lets it settle on that if `settles`.
    fn ask_witness(
        &self,
        run: usize,
        half: BTreeSet<NodeId>,
        settles: bool,
    ) -> Result<BTreeSet<NodeId>, String> {
        let witness = self.launch.kept.as_ref().and_then(|kept| kept.witness.as_ref());
        let witness = witness.ok_or_else(|| "the job has none".to_owned())?;
        let members = self.newest.runs.get(run).map(|(_, members)| members.as_slice());
        let members = members.unwrap_or_default();
        match settles {
            true => witness.settle(run, members, &half),
            false => Ok(witness.settled(run, members)?.unwrap_or(half)),
        }
    }
}

/// The answer of a keeper: its node and its state, or the reason for a refusal.
type Answer = Result<(KeptNode, Vec<u8>), BridgeRefusal>;

/// Starts the bridge to a keeper with its order, and returns the answer of the keeper.
fn answer(command: &mut BridgeCommand) -> io::Result<Answer> {
    let mut child = command.open()?;
    let (Some(mut to), Some(from)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(io::Error::other("a pipe is missing"));
    };
    let order = ToBridge::Order(command.order.clone());
    let (over, is_over) = channel::<()>();
    let answer = thread::scope(|scope| {
        let child = &child;
        scope.spawn(move || {
            if is_over.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                kill(child);
            }
        });
        let answer = write_frame(&mut to, &order, b"").and_then(|()| read(BufReader::new(from)));
        drop(over);
        answer
    });
    drop(to);
    kill(&child);
    child.wait()?;
    answer
}

fn read(mut from: BufReader<impl io::Read>) -> io::Result<Answer> {
    if let Err(printed) = await_frames(&mut from)? {
        let text = String::from_utf8_lossy(&printed).trim().to_owned();
        return Err(io::Error::other(format!("its host does not start a bridge: {text}")));
    }
    match read_frame(&mut from)? {
        Some((FromBridge::Kept(kept), state)) => Ok(Ok((kept, state))),
        Some((FromBridge::Refuses(refusal), _)) => Ok(Err(refusal)),
        Some(_) => Err(io::Error::other("its bridge answers something else")),
        None => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}
