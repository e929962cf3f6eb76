//! Passes measurements of the nodes to the survey, the monitor or the advisor.

use super::machine::Coordinator;
use super::state::survey::Purpose;
use crate::message::probe::{ProbeReport, Probed};
use gridspan_topology::{NodeId, PeId, Time, WantedProbe};

impl Coordinator {
    pub(super) fn handle_probed(&mut self, from: PeId, report: ProbeReport) {
        let node = self.common.layout.node_of(from);
        let ProbeReport { id, send_cost, found } = report;
        if let Some(cost) = send_cost {
            self.survey.send_costs.insert(node, cost);
        }
        match self.survey.purposes.remove(&id) {
            Some(Purpose::Survey) => self.note_round_trips(node, &found),
            Some(Purpose::RoundTrip) => self.note_links(node, &found, WantedProbe::RoundTrip),
            Some(Purpose::Bandwidth(since)) => {
                let found = self.undisturbed(node, &found, since);
                self.note_links(node, &found, WantedProbe::Bandwidth);
            }
            Some(Purpose::Uplink(group)) => self.note_uplink(group, &found),
            Some(Purpose::Broadcast(pair, since)) => {
                let found = self.undisturbed(node, &found, since);
                self.note_pair(pair, &found);
            }
            None => {}
        }
    }

    /// Begins the work that waited for the places of the nodes: answers about links, plans of
    /// broadcasts, the hierarchy for tasks, and checks of the links.
    pub(super) fn begin_with_places(&mut self) {
        for asker in std::mem::take(&mut self.survey.link_askers) {
            self.await_links(asker);
        }
        self.begin_advice();
        self.tell_hierarchy();
        self.begin_watch();
    }

    /// Returns the measurements. If a large broadcast of the job was in progress, leaves out those
    /// that were slower than the known rate.
    fn undisturbed(&self, node: NodeId, found: &[Probed], since: Time) -> Vec<Probed> {
        if !self.advice.is_disturbed(since) {
            return found.to_vec();
        }
        let survey = &self.survey;
        let known = |target: NodeId| {
            let (here, there) = survey.places.as_ref()?.hierarchy.ends(node, target)?;
            survey.monitor.estimate(self.now, here.0, there.0)?.bandwidth
        };
        let is_less = |probed: &&Probed| known(probed.target) > probed.rate;
        found.iter().filter(|probed| !is_less(probed)).copied().collect()
    }
}
