//! `gridctl run --dry-run` and `gridctl sim --dry-run`: which PEs would run where, which processes
//! would start, and which links would be emulated.
//!
//! The commands are those that the launcher would start: this module and the launcher get them from
//! [`Launch::command`], and the options of `srun` from one function. The output leaves out the
//! content of the pipe to a node (keys, the grid, the settings) and the values of variables that
//! the user names, which may be secret.

mod cores;
mod links;

use crate::error::CliError;
use crate::hosts::{Shared, quoted};
use crate::launch::{Launch, OnLoss, PlannedNode, Processes, srun_commands};
use crate::nodes;
use crate::slurm::StepPlan;
use cores::Cores;
use gridspan_topology::NodeId;
use links::{LinkGroups, LinkKind};
use serde::Serialize;
use serde_json::json;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::process::Command;

/// Version of the JSON objects.
const VERSION: u32 = 1;
/// The binding of PEs if the system chooses the core of each thread.
const UNBOUND: &str = "none";
/// The binding of PEs if Slurm binds each task to the cores that it gives to the task.
const BOUND: &str = "cores";

/// What a job would start.
struct Plan<'a> {
    /// The nodes, and whether each is spare.
    nodes: Vec<(PlannedNode<'a>, bool)>,
    processes: Vec<PlannedProcess>,
    links: Option<(LinkKind, LinkGroups)>,
    /// Whether several nodes are behind one host or gateway.
    may_share: bool,
    /// How PEs would be bound; `None` if they would not be bound.
    cores: Option<Cores>,
    /// Why the PEs of this machine would not be bound.
    unbound: Option<String>,
}

/// A process that would start.
#[derive(Debug, Serialize)]
struct PlannedProcess {
    /// Numbers of its nodes.
    nodes: Vec<u32>,
    start: StartWay,
    /// The folder that the user has named for a process of this machine.
    folder: Option<String>,
    /// Variables that are set for a process of this machine. On another host they are part of the
    /// command.
    environment: BTreeMap<String, String>,
    /// The program and its arguments; empty if gridctl itself runs the nodes.
    command: Vec<String>,
    binding: &'static str,
    /// The processors for each of its PEs, if it is on this machine and they are bound.
    cpus: Option<Vec<Vec<u32>>>,
}

/// How a process would start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum StartWay {
    /// The launcher starts it on this machine.
    Here,
    /// `ssh` starts it on another host.
    Ssh,
    /// One `srun` starts the nodes of an allocation of Slurm.
    Srun,
    /// gridctl runs the nodes itself, or becomes the program.
    Itself,
}

/// Prints what a launch would start, for people or as JSON. With `is_alone`, gridctl runs the job
/// itself, or becomes its program.
pub(crate) fn print(
    launch: &Launch<'_>,
    is_alone: bool,
    json: bool,
    to: &mut impl Write,
) -> Result<(), CliError> {
    let plan = Plan::new(launch, is_alone)?;
    let text = if json { plan.lines() } else { plan.text(launch) };
    to.write_all(text.as_bytes()).map_err(CliError::system("print the plan"))
}

impl<'a> Plan<'a> {
    fn new(launch: &Launch<'a>, is_alone: bool) -> Result<Self, CliError> {
        let spec = launch.spec;
        let spares = &launch.membership.spares;
        let node = |node: NodeId| (PlannedNode::new(spec, node), spares.contains(&node));
        let kind = match &launch.processes {
            _ if launch.is_simulated => Some(LinkKind::Simulated),
            Processes::Nodes { is_emulated, .. } => is_emulated.then_some(LinkKind::Emulated),
            Processes::Single { .. } if spec.layout().node_count() > 1 => Some(LinkKind::Emulated),
            Processes::Single { .. } => None,
        };
        let mut processes = processes(launch, is_alone)?;
        let cores = Cores::of(launch);
        let unbound = cores.as_ref().and_then(|cores| bind(cores, launch, &mut processes));
        Ok(Self {
            nodes: spec.layout().nodes().map(node).collect(),
            processes,
            cores,
            unbound,
            links: kind.map(|kind| (kind, LinkGroups::of(spec, kind))),
            may_share: may_share(launch),
        })
    }

    fn lines(&self) -> String {
        let nodes = self.nodes.iter().map(|(place, is_spare)| {
            json!({ "version": VERSION, "event": "planned", "place": place, "spare": is_spare })
        });
        let processes = self
            .processes
            .iter()
            .map(|process| json!({ "version": VERSION, "event": "process", "process": process }));
        let links = self.links.iter().flat_map(|(kind, groups)| {
            let links = groups.groups.iter().map(move |group| {
                let link = group.to_json();
                json!({ "version": VERSION, "event": "planned_link", "kind": kind, "link": link })
            });
            let uplinks = groups.uplinks_to_json().map(move |uplink| {
                json!({
                    "version": VERSION, "event": "planned_uplink", "kind": kind, "uplink": uplink
                })
            });
            links.chain(uplinks)
        });
        nodes.chain(processes).chain(links).map(|line| format!("{line}\n")).collect()
    }

    fn text(&self, launch: &Launch<'_>) -> String {
        let mut text = self.table();
        text += match &self.cores {
            Some(cores) if self.unbound.is_none() => cores.heading(),
            _ if self.processes.iter().any(|process| process.binding == BOUND) => {
                "\nprocesses; with --cpu-bind=cores, Slurm binds each to its cores:\n"
            }
            _ => "\nprocesses, whose PEs are not bound to cores:\n",
        };
        let name = |process: &PlannedProcess| match process.nodes[..] {
            [node] => nodes::name(launch.spec, NodeId(node)),
            [first, .., last] if process.start == StartWay::Srun => {
                let name = |node| nodes::name(launch.spec, NodeId(node));
                format!("{} to {}", name(first), name(last))
            }
            _ => "all nodes".to_owned(),
        };
        let width = self.processes.iter().map(|process| name(process).len()).max().unwrap_or(0);
        for process in &self.processes {
            text += &format!("  {:width$}  {}\n", name(process), process.shell_line());
        }
        text += match &launch.processes {
            Processes::Nodes { tasks: Some(_), .. } => {
                "  a one-time secret follows on the standard input of srun; each node makes its own \
                 key\n"
            }
            Processes::Nodes { .. } => "  the keys of a node follow through a pipe\n",
            Processes::Single { .. } => "",
        };
        for process in &self.processes {
            if let Some(cpus) = &process.cpus {
                let lists: Vec<String> = cpus.iter().map(|cpus| cores::list(cpus)).collect();
                let name = name(process);
                text += &format!("  CPUs for the PEs of {name}: {}\n", lists.join(" "));
            }
        }
        text += &self.unbound.iter().map(|reason| format!("  {reason}\n")).collect::<String>();
        if self.may_share {
            text += "  nodes behind one host or gateway may share connections of ssh, which adds \
                     options to their commands\n";
        }
        if let Some((kind, groups)) = &self.links {
            text += &groups.text(*kind);
        }
        text
    }

    fn table(&self) -> String {
        let width = |title: &str, of: fn(&PlannedNode<'_>) -> usize| {
            self.nodes.iter().map(|(node, _)| of(node)).chain([title.len()]).max().unwrap_or(0)
        };
        let site = width("SITE", |node| node.site.len());
        let host = width("HOST", |node| node.host.len());
        let mut text = format!("{:site$}  {:host$}  {:>5}  PES\n", "SITE", "HOST", "NODE");
        for (at, (node, is_spare)) in self.nodes.iter().enumerate() {
            // Only the first line of a site names it.
            let is_same_site = at > 0 && self.nodes[at - 1].0.site == node.site;
            let shown = if is_same_site { "" } else { node.site };
            let (number, pes) = (node.node, pe_range(node));
            let spare = if *is_spare { "  spare" } else { "" };
            text += &format!("{shown:site$}  {:host$}  {number:>5}  {pes}{spare}\n", node.host);
        }
        text
    }
}

fn pe_range(node: &PlannedNode<'_>) -> String {
    match node.pes {
        1 => node.first_pe.to_string(),
        pes => format!("{}-{}", node.first_pe, node.first_pe + pes - 1),
    }
}

/// Returns the processes that a launch would start.
fn processes(launch: &Launch<'_>, is_alone: bool) -> Result<Vec<PlannedProcess>, CliError> {
    let all = || launch.spec.layout().nodes().map(|node| node.0).collect::<Vec<_>>();
    match &launch.processes {
        Processes::Single { variables } if is_alone => {
            let process = match launch.program.is_built_in() {
                true => PlannedProcess::itself(all()),
                false => {
                    let command = launch.program.command(variables, &launch.surroundings)?;
                    PlannedProcess::new(all(), StartWay::Itself, &command)
                }
            };
            Ok(vec![process])
        }
        Processes::Single { .. } => {
            let command = launch.command(NodeId(0), &Shared::default())?;
            Ok(vec![PlannedProcess::new(all(), StartWay::Here, &command)])
        }
        Processes::Nodes { tasks: Some(allocations), .. } => {
            let nodes = launch.members().collect();
            let is_loss_fatal = launch.membership.on_loss == OnLoss::Fail;
            let commands = srun_commands(allocations, &nodes, is_loss_fatal)?;
            let steps = allocations.steps(&nodes).into_iter().zip(commands);
            Ok(steps.map(|(step, command)| PlannedProcess::step(&step, &command)).collect())
        }
        Processes::Nodes { hosts, .. } => {
            let process = |node: NodeId| -> Result<PlannedProcess, CliError> {
                let command = launch.command(node, &Shared::default())?;
                let start = match hosts.remote(node) {
                    Some(_) => StartWay::Ssh,
                    None => StartWay::Here,
                };
                Ok(PlannedProcess::new(vec![node.0], start, &command))
            };
            launch.members().map(process).collect()
        }
    }
}

/// Sets the processors of the PEs of processes. Returns why the PEs of this machine would not be
/// bound.
fn bind(cores: &Cores, launch: &Launch<'_>, processes: &mut [PlannedProcess]) -> Option<String> {
    let layout = launch.spec.layout();
    let mut unbound = None;
    for process in processes {
        process.binding = cores.word();
        let is_here = matches!(process.start, StartWay::Here | StartWay::Itself);
        let Some(&first) = process.nodes.first().filter(|_| is_here) else { continue };
        let places = process.nodes.iter().map(|&node| layout.place(NodeId(node)));
        let pes: u32 = places.map(|place| place.pes.len() as u32).sum();
        match cores.assign(NodeId(first), pes) {
            Ok(cpus) => process.cpus = Some(cpus),
            Err(reason) => (process.binding, unbound) = (UNBOUND, Some(reason)),
        }
    }
    unbound
}

/// Whether several nodes that would start are behind one host or gateway.
fn may_share(launch: &Launch<'_>) -> bool {
    let mut entries: Vec<_> = launch.members().filter_map(|node| launch.entry(node)).collect();
    let nodes = entries.len();
    entries.sort_unstable();
    entries.dedup();
    entries.len() < nodes
}

impl PlannedProcess {
    fn new(nodes: Vec<u32>, start: StartWay, command: &Command) -> Self {
        let text = |word: &OsStr| word.to_string_lossy().into_owned();
        let set = command.get_envs().filter_map(|(name, value)| Some((text(name), text(value?))));
        Self {
            nodes,
            start,
            folder: command.get_current_dir().map(|folder| text(folder.as_os_str())),
            environment: set.collect(),
            command: std::iter::once(command.get_program())
                .chain(command.get_args())
                .map(text)
                .collect(),
            binding: UNBOUND,
            cpus: None,
        }
    }

    /// The nodes that one `srun` starts.
    fn step(step: &StepPlan<'_>, command: &[OsString]) -> Self {
        let (folder, environment) = Default::default();
        let nodes = step.nodes.iter().map(|(node, _)| node.0).collect();
        let command = command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        let binding = if step.is_bound() { BOUND } else { UNBOUND };
        let start = StartWay::Srun;
        Self { nodes, start, folder, environment, command, binding, cpus: None }
    }

    /// The nodes run in gridctl.
    fn itself(nodes: Vec<u32>) -> Self {
        let (folder, environment, command) = Default::default();
        let (start, binding) = (StartWay::Itself, UNBOUND);
        Self { nodes, start, folder, environment, command, binding, cpus: None }
    }

    /// Returns the command as a line for a shell of this machine.
    fn shell_line(&self) -> String {
        if self.command.is_empty() {
            return "threads of gridctl itself".to_owned();
        }
        let word = |word: &str| quoted(word.as_ref()).to_string_lossy().into_owned();
        let mut words = vec![];
        if let Some(folder) = &self.folder {
            words.extend(["cd".to_owned(), word(folder), "&&".to_owned()]);
        }
        if self.start == StartWay::Itself {
            words.push("exec".to_owned());
        }
        if !self.environment.is_empty() {
            words.push("env".to_owned());
            let set = self.environment.iter();
            words.extend(set.map(|(name, value)| word(&format!("{name}={value}"))));
        }
        words.extend(self.command.iter().map(|text| word(text)));
        words.join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hosts::Hosts;
    use crate::program::Program;
    use crate::surroundings::Surroundings;
    use gridspan::Settings;
    use gridspan::binding::Binding;
    use gridspan_topology::GridSpec;

    fn program() -> Program {
        let arguments = ["--name", "it's"].map(Into::into).to_vec();
        Program::File { path: "/opt/my job".into(), arguments }
    }

    fn nodes(spec: &GridSpec, is_emulated: bool) -> Processes {
        let hosts = match is_emulated {
            true => Hosts::here(),
            false => Hosts::of(spec, Some("ssh")).unwrap(),
        };
        let settings = Box::new(Settings::default());
        Processes::Nodes { is_emulated, hosts, tasks: None, settings, variables: vec![] }
    }

    fn printed(launch: &Launch<'_>, is_alone: bool, json: bool) -> String {
        let mut text = vec![];
        print(launch, is_alone, json, &mut text).unwrap();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn the_table_has_a_line_for_every_node_and_names_each_site_once() {
        let (program, spec) = (program(), GridSpec::from_emulate("2x2x3").unwrap());
        let mut launch = Launch::new(&program, &spec, nodes(&spec, true));
        launch.membership.spares = vec![NodeId(3)];
        let expected = "\
SITE  HOST   NODE  PES
a     a1        0  0-2
      a2        1  3-5
b     b1        2  6-8
      b2        3  9-11  spare

processes";
        let text = printed(&launch, false, false);
        assert!(text.starts_with(expected), "{text}");
        assert_eq!(text.matches("/opt/my job").count(), 3, "a spare node has no process: {text}");
    }

    #[test]
    fn a_shell_reads_a_printed_command_as_the_words_that_would_start() {
        let spec = GridSpec::from_toml(
            "[site.a]\nhosts = [\"localhost\"]\n[site.b]\nhosts = [\"127.0.0.2\"]",
        );
        let (program, spec) = (program(), spec.unwrap());
        let mut launch = Launch::new(&program, &spec, nodes(&spec, false));
        let around = Surroundings::new(&["WHO=a secret".to_owned()], None).unwrap();
        launch.surroundings = around.hidden();
        let plan = Plan::new(&launch, false).unwrap();
        for process in &plan.processes {
            let line = process.shell_line();
            assert!(!line.contains("a secret") && line.contains("WHO=***"), "{line}");
            let script = format!("for word in {line}; do printf '%s\\n' \"$word\"; done");
            let shell = Command::new("sh").args(["-c", &script]).output().unwrap();
            let words = String::from_utf8(shell.stdout).unwrap();
            let words: Vec<&str> = words.lines().collect();
            let count = process.command.len();
            assert_eq!(words[words.len() - count..], process.command, "{line}");
        }
        assert_eq!(plan.processes[1].start, StartWay::Ssh);
        assert_eq!(plan.processes[1].command[..4], ["ssh", "-o", "BatchMode=yes", "127.0.0.2"]);
    }

    #[test]
    fn json_has_a_line_with_a_version_for_every_node_process_and_kind_of_link() {
        let (program, spec) = (program(), GridSpec::from_emulate("2x2,wan=20ms").unwrap());
        let launch = Launch::new(&program, &spec, nodes(&spec, true));
        let text = printed(&launch, false, true);
        let lines: Vec<serde_json::Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let count = |event: &str| lines.iter().filter(|line| line["event"] == event).count();
        let counts = ["planned", "process", "planned_link"].map(count);
        assert_eq!(counts, [4, 4, 1], "{text}");
        assert!(lines.iter().all(|line| line["version"] == 1));
        assert_eq!(lines[1]["place"]["host"], "a2");
        assert_eq!(lines[4]["process"]["environment"]["GRIDSPAN_DRIVER"], "node");
        assert_eq!(lines[8]["link"]["latency_ms"], 20.0);

        let spec = GridSpec::from_emulate("2x2,wan=20ms,uplink=1gbit").unwrap();
        let launch = Launch::new(&program, &spec, nodes(&spec, true));
        let text = printed(&launch, false, true);
        let last: serde_json::Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
        assert_eq!(last["event"], "planned_uplink");
        assert_eq!(last["uplink"]["sites"], serde_json::json!(["a", "b"]));
    }

    #[test]
    fn bound_pes_of_this_machine_have_their_processors() {
        let Ok(cpus) = gridspan::binding::cpus() else {
            println!("skipped: this system does not bind threads");
            return;
        };
        let (program, spec) = (program(), GridSpec::from_emulate("2x1").unwrap());
        let mut launch = Launch::new(&program, &spec, nodes(&spec, true));
        launch.binding = Binding::Core;
        launch.membership.spares = vec![NodeId(1)];
        let text = printed(&launch, false, false);
        let first = cores::list(&[cpus[0].number]);
        assert!(text.contains("\nprocesses, of which each PE is bound to a core:\n"), "{text}");
        assert!(text.contains(&format!("  CPUs for the PEs of a/0: {first}")), "{text}");
        assert!(!text.contains("PEs of b/1"), "a spare node takes no cores: {text}");
        let line = printed(&launch, false, true).lines().nth(2).unwrap().to_owned();
        let process: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(process["process"]["binding"], "core");
        assert_eq!(process["process"]["cpus"][0][0], cpus[0].number);

        let spec = GridSpec::from_emulate("1x1x4000").unwrap();
        let mut launch = Launch::new(&program, &spec, nodes(&spec, true));
        launch.binding = Binding::Numa;
        let text = printed(&launch, false, false);
        assert!(text.contains("\nprocesses, whose PEs are not bound to cores:\n"), "{text}");
        assert!(text.contains("  no PE is bound: 4000 PEs on this host are more than"), "{text}");
    }

    #[test]
    fn a_job_inside_gridctl_has_no_command() {
        let spec = GridSpec::single(4);
        let launch = |program| Launch::new(program, &spec, Processes::Single { variables: vec![] });
        let built_in = Program::probe();
        let text = printed(&launch(&built_in), true, false);
        assert!(text.contains("  local/0  threads of gridctl itself\n"), "{text}");
        let file = program();
        let text = printed(&launch(&file), true, false);
        assert!(text.contains("  local/0  exec '/opt/my job' --name 'it'\\''s'\n"), "{text}");
    }
}
