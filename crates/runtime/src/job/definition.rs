//! What drivers take from a job: the definition that its nodes compare, the data that its PEs
//! share, its main function.

use crate::address::collection::{CreateAt, PlacementMap};
use crate::error::StartError;
use crate::job::Job;
use crate::job::main_function::{Main, MainFunction};
use crate::pe::actor::registry::Registry;
use crate::pe::{CheckpointEvery, Common, LoanLogs, RunOfJob};
use crate::schema::definition::Definition;
use gridspan_topology::{Layout, NodeId};
use std::collections::BTreeSet;
use std::sync::Arc;

impl Job {
    /// Returns the definition that nodes compare.
    fn definition(&self) -> Definition {
        let parts = self.registry.kinds().flat_map(|kind| kind.parts()).collect();
        Definition { fingerprint: self.fingerprint(), parts, origin: self.origin.clone() }
    }

    /// Returns a hash of the definition: equal for equal names, actor types, maps and reducers in
    /// equal order, if messages, initial values and states have the same structure on the wire.
    pub fn fingerprint(&self) -> u64 {
        let names = self.registry.kinds().map(|kind| kind.name());
        let maps = self.maps.iter().map(|map| -> &str { map.name() });
        // A map may have the name of a reducer.
        let reducers = self.reducers.iter().flat_map(|(name, _)| ["reducer", name.as_str()]);
        let deterministic =
            self.registry.deterministic_names().flat_map(|name| ["deterministic", name]);
        let all = std::iter::once(self.name.as_str()).chain(names).chain(maps).chain(reducers);
        let on_demand = self.registry.on_demand_names().flat_map(|(name, at)| match at {
            CreateAt::Home => ["created at home", name],
            CreateAt::Sender => ["created at a sender", name],
        });
        let resizable = self.registry.resizable_names().flat_map(|name| ["resizable", name]);
        let transient = self.registry.transient_names().flat_map(|name| ["transient", name]);
        let kept = self.registry.kept_names().flat_map(|name| ["kept", name]);
        let groups = resizable.chain(transient).chain(kept);
        let all = all.chain(deterministic).chain(on_demand).chain(groups);
        let all = all.flat_map(|name| name.bytes().chain([0xff]));
        let parts = self.registry.kinds().flat_map(|kind| kind.parts());
        let structures = parts.flat_map(|part| part.structure.to_le_bytes());
        // FNV-1a, with a separator after each name.
        all.chain(structures).fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        })
    }

    /// Checks the definition against a layout.
    pub(crate) fn check(&self, layout: &Layout) -> Result<(), StartError> {
        if self.coordinator.0 >= layout.node_count() {
            let (node, nodes) = (self.coordinator, layout.node_count());
            return Err(StartError::NoSuchCoordinator { node, nodes });
        }
        let maps = self.maps.iter().map(|map| ("placement map", map.name()));
        let reducers = self.reducers.iter().map(|(name, _)| ("reducer", name.as_str()));
        let mut names = BTreeSet::new();
        if let Some((what, name)) = maps.chain(reducers).find(|&entry| !names.insert(entry)) {
            let (what, name) = (what.to_owned(), name.to_owned());
            return Err(StartError::DefinedTwice { what, name });
        }
        Ok(())
    }

    /// Returns the data that all PEs share.
    pub(crate) fn common(&self, layout: &Arc<Layout>) -> Common {
        Common {
            layout: layout.clone(),
            coordinator: self.coordinator,
            tree: Arc::new(self.broadcasts.tree(layout, self.coordinator)),
            kinds: self.registry.kinds().collect(),
            deterministic: Arc::new(self.registry.deterministic().clone()),
            on_demand: Arc::new(self.registry.on_demand().clone()),
            resizing: Arc::new(self.registry.resizing().clone()),
            maps: self.maps.iter().copied().collect(),
            task_names: Arc::new(self.registry.task_names().clone()),
            reducers: self.reducers.iter().map(|(_, combine)| *combine).collect(),
            limits: self.limits,
            balancing: self.balancing.clone(),
            stealing: self.stealing.clone(),
            broadcasts: self.broadcasts,
            seed: self.seed,
            definition: Arc::new(self.definition()),
            fault: self.fault,
            on_links: self.on_links.clone(),
            tolerates_lost_guests: self.tolerates_lost_guests,
            on_guests: self.on_guests.clone(),
            recovers_tasks: self.recovers_tasks,
            loan_logs: Arc::new(LoanLogs::new(self.log_bytes)),
            on_tolerated_loss: self.on_tolerated_loss.clone(),
            on_failure: self.on_failure.clone(),
            watch: self.watch.clone(),
            run: Arc::new(RunOfJob {
                job: self.name.clone(),
                number: 0,
                checkpoints: match self.checkpoints.every {
                    // A folder is of no use without checkpoints.
                    None if self.checkpoint_folder.is_some() => {
                        self.checkpoints.with_every(CheckpointEvery::Auto)
                    }
                    _ => self.checkpoints,
                },
                hosts: Arc::from([]),
                maps: self.maps.iter().map(|map| map.name().to_owned()).collect(),
                reducers: self.reducers.iter().map(|(name, _)| name.clone()).collect(),
            }),
            node_local: Arc::default(),
            resources: self.resources.clone(),
            records: self.records.clone(),
        }
    }

    /// Returns the parts of the definition that main needs, and main itself.
    pub(crate) fn into_main(mut self) -> (Registry, Vec<PlacementMap>, MainFunction) {
        let main = self.main.take();
        (self.registry, self.maps, MainFunction(main))
    }

    /// Returns the same job for another run, or `None` if its main can begin only once.
    pub fn again(&self) -> Option<Self> {
        let main = match &self.main {
            None => None,
            Some(Main::Again(main)) => Some(Main::Again(main.clone())),
            Some(Main::Once(_)) => return None,
        };
        Some(Self {
            name: self.name.clone(),
            registry: self.registry.clone(),
            maps: self.maps.clone(),
            reducers: self.reducers.clone(),
            main,
            limits: self.limits,
            balancing: self.balancing.clone(),
            stealing: self.stealing.clone(),
            broadcasts: self.broadcasts,
            coordinator: self.coordinator,
            seed: self.seed,
            fault: self.fault,
            on_links: self.on_links.clone(),
            tolerates_lost_guests: self.tolerates_lost_guests,
            on_guests: self.on_guests.clone(),
            recovers_tasks: self.recovers_tasks,
            log_bytes: self.log_bytes,
            on_tolerated_loss: self.on_tolerated_loss.clone(),
            on_failure: self.on_failure.clone(),
            watch: self.watch.clone(),
            checkpoints: self.checkpoints,
            checkpoint_folder: self.checkpoint_folder.clone(),
            restart: None,
            origin: self.origin.clone(),
            resources: self.resources.clone(),
            bound: self.bound.clone(),
            spin_limit: self.spin_limit,
            records: self.records.clone(),
        })
    }

    /// Lets the coordinator run on node 0 if its node is not in this layout, after a loss.
    pub(crate) fn coordinator_within(mut self, layout: &Layout) -> Self {
        if self.coordinator.0 >= layout.node_count() {
            self.coordinator = NodeId(0);
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gridspan_topology::PeId;

    #[test]
    fn jobs_with_a_map_and_with_a_reducer_of_the_same_name_differ() {
        let map = Job::new("job").placement(PlacementMap::new("first", |_, _| PeId(0)));
        let (reducer, _) = Job::new("job").reducer("first", |value, _| value);
        assert_ne!(map.fingerprint(), reducer.fingerprint());
        assert_ne!(map.fingerprint(), Job::new("job").fingerprint());
    }
}
