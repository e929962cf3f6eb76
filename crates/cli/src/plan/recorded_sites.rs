//! What a recording shows only for the sites on which it was made: how tasks are stolen over a wide
//! area, the messages of the collective operations of ranks, and the servers of remote calls.

use crate::error::{CliError, PlanCommandError};
use crate::quantity::count;
use gridspan::ranks::is_rank_type;
use gridspan_plan::JobModel;
use gridspan_record::Recording;
use gridspan_rpc::calls::Registry;
use gridspan_topology::GridSpec;
use std::any::type_name;

/// Describes the sites on which a job must be recorded, if its recording on one site does not show
/// what it does on several: how tasks are stolen over a wide area, which messages the collective
/// operations of ranks send, or which servers execute remote calls.
pub(super) fn needs_sites(
    recording: &Recording,
    grid: &GridSpec,
) -> Result<Option<String>, CliError> {
    let Some(spec) = like(grid) else { return Ok(None) };
    let needs = match has_type(recording, is_rank_type) || has_type(recording, is_registry_type) {
        // The number of ranks or servers may depend on that of PEs, and the sites of `like` are
        // equal.
        true => has_equal_sites(grid),
        false => JobModel::of(&[recording])?.is_of_tasks(),
    };
    Ok(needs.then_some(spec))
}

/// Whether an actor of such a type handled a message. A job may have types without actors.
fn has_type(recording: &Recording, is_such: fn(&str) -> bool) -> bool {
    recording.pes.iter().any(|record| {
        let mut used = record.totals.iter().filter(|total| total.count > 0);
        used.any(|total| is_such(record.type_name(total.number)))
    })
}

/// Whether an actor type of this name is the registry of remote calls.
fn is_registry_type(name: &str) -> bool {
    name == type_name::<Registry>()
}

/// Refuses to predict remote calls on other sites than the recorded ones, or with other numbers of
/// PEs there. The program starts servers on PEs, and maps the calls to them by their sites. But a
/// recording has neither the functions nor the data of the calls, from which the mapping follows.
pub(super) fn check_calls(recording: &Recording, grid: &GridSpec) -> Result<(), PlanCommandError> {
    let (recorded, wanted) = (recorded_pes(recording), pes_by_site(grid));
    match recorded == wanted || !has_type(recording, is_registry_type) {
        true => Ok(()),
        false => {
            let [recorded, wanted] = [recorded, wanted].map(|pes| described(&pes));
            Err(PlanCommandError::OtherServers { recorded, wanted })
        }
    }
}

/// Says what a recording on another number of sites does not show.
pub(super) fn note_on_sites(
    recording: &Recording,
    is_of_tasks: bool,
    grid: &GridSpec,
) -> Option<String> {
    let recorded = recording.header.sites.len();
    let wanted = grid.layout().site_count() as usize;
    if recorded == wanted {
        return None;
    }
    let [here, there] = [recorded, wanted].map(|sites| count(sites, "site"));
    if has_type(recording, is_rank_type) {
        return Some(format!(
            "the ranks were recorded on {here}, and send other messages on {there}, since \
             collective operations follow the sites; record them on {there}"
        ));
    }
    (is_of_tasks && wanted > recorded && recorded > 1).then(|| {
        format!("the tasks were recorded on {here}; more sites lose more time than is predicted")
    })
}

/// Whether all sites of a grid have the same number of PEs.
fn has_equal_sites(grid: &GridSpec) -> bool {
    is_equal(&pes_by_site(grid))
}

fn is_equal(pes: &[usize]) -> bool {
    pes.windows(2).all(|pair| pair[0] == pair[1])
}

/// Returns the number of PEs at each site of a grid.
fn pes_by_site(grid: &GridSpec) -> Vec<usize> {
    let layout = grid.layout();
    let pes = |site| layout.nodes_in(site).map(|node| layout.place(node).pes.len()).sum::<usize>();
    layout.sites().map(pes).collect()
}

/// Returns the number of PEs at each recorded site.
fn recorded_pes(recording: &Recording) -> Vec<usize> {
    let header = &recording.header;
    let mut pes = vec![0; header.sites.len()];
    for pe in &header.pes {
        let node = header.nodes.get(pe.node as usize);
        if let Some(count) = node.and_then(|node| pes.get_mut(node.site as usize)) {
            *count += 1;
        }
    }
    pes
}

/// Describes sites by their numbers of PEs: `2 sites of 3 PEs`, `sites of 1, 5 PEs`.
fn described(pes: &[usize]) -> String {
    match pes.first().filter(|_| is_equal(pes)) {
        Some(each) => format!("{} of {}", count(pes.len(), "site"), count(*each, "PE")),
        None => {
            let all: Vec<String> = pes.iter().map(usize::to_string).collect();
            format!("sites of {} PEs", all.join(", "))
        }
    }
}

/// Describes a grid of equal sites with about the PEs and the longest latency of this one; `None`
/// if this one has a single site.
fn like(grid: &GridSpec) -> Option<String> {
    let layout = grid.layout();
    let all = || layout.sites();
    let pairs = all().flat_map(|from| all().map(move |to| (from, to)));
    let far = pairs.filter(|(from, to)| from != to);
    let latency = far.map(|(from, to)| grid.link_between(from, to).latency.duration()).max()?;
    let sites = layout.site_count();
    let nodes = layout.pe_count().div_ceil(sites);
    Some(format!("{sites}x{nodes},wan={}us", latency.as_micros().max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gridspan_record::{Header, PeRecord, RecordedNode, RecordedPe, TypeTotal};

    #[test]
    fn jobs_are_recorded_on_as_many_sites_as_far_apart_as_those_of_the_grid() {
        let grid = GridSpec::from_emulate("3x2,wan=20ms").unwrap();
        let spec = like(&grid).unwrap();
        assert_eq!(spec, "3x2,wan=20000us");
        assert!(GridSpec::from_emulate(&spec).is_ok());
        assert!(has_equal_sites(&grid));
        assert_eq!(like(&GridSpec::single(4)), None);
    }

    #[test]
    fn tasks_of_fewer_sites_are_noted() {
        let grid = GridSpec::from_emulate("4x2,wan=5ms").unwrap();
        let recorded = |sites: &[&str]| {
            let sites = sites.iter().map(|site| (*site).to_owned()).collect();
            Recording { header: Header { sites, ..Header::default() }, ..Recording::default() }
        };
        let note = note_on_sites(&recorded(&["a", "b"]), true, &grid).unwrap();
        assert!(note.contains("recorded on 2 sites"), "{note}");
        assert_eq!(note_on_sites(&recorded(&["a", "b"]), false, &grid), None);
        assert_eq!(note_on_sites(&recorded(&["a", "b", "c", "d"]), true, &grid), None);
    }

    /// A recording of one node at each site. `pes`: the number of PEs of each site; `messages`: the
    /// number of messages that the registry of remote calls handled.
    fn recorded_calls(pes: &[usize], messages: u64) -> Recording {
        let sites = 0..pes.len() as u32;
        let nodes = sites.clone().map(|site| RecordedNode { site, ..RecordedNode::default() });
        let of_site = |(node, &count): (u32, &usize)| vec![RecordedPe { node, speed: 1.0 }; count];
        let total = TypeTotal { number: 0, count: messages, ..TypeTotal::default() };
        let types = vec![type_name::<Registry>().to_owned()];
        Recording {
            header: Header {
                sites: sites.clone().map(|site| site.to_string()).collect(),
                nodes: nodes.collect(),
                pes: sites.zip(pes).flat_map(of_site).collect(),
                ..Header::default()
            },
            pes: vec![PeRecord { types, totals: vec![total], ..PeRecord::default() }],
            ..Recording::default()
        }
    }

    #[test]
    fn remote_calls_are_predicted_only_for_the_recorded_numbers_of_pes_at_each_site() {
        let grid = GridSpec::from_emulate("3x2,wan=5ms").unwrap();
        let refused = |pes: &[usize]| {
            check_calls(&recorded_calls(pes, 7), &grid).map_err(|error| error.to_string())
        };
        let text = |recorded: &str| {
            format!(
                "the remote calls were recorded on {recorded}, and go to other servers on 3 sites \
                 of 2 PEs"
            )
        };
        assert_eq!(refused(&[2, 2, 2]), Ok(()));
        assert_eq!(refused(&[3, 3]), Err(text("2 sites of 3 PEs")));
        assert_eq!(refused(&[6]), Err(text("1 site of 6 PEs")));
        assert_eq!(refused(&[1, 3, 2]), Err(text("sites of 1, 3, 2 PEs")));
        assert!(check_calls(&recorded_calls(&[3, 3], 0), &grid).is_ok());
    }
}
