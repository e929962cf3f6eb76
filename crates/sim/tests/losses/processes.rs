//! The processes of a job: the parts of checkpoints that each of them keeps, and how the job
//! continues from these when processes are lost, leave or join.

use gridspan_runtime::{CheckpointStore, Image, NodeId, RestorePlan};
use gridspan_sim::{Halted, Simulation};
use gridspan_topology::GridSpec;
use gridspan_topology::dice::Dice;

/// The processes of a job. A process keeps its number; its node number may change.
#[derive(Clone)]
pub(crate) struct Processes {
    spec: GridSpec,
    /// The parts of checkpoints that each process keeps; `None` for a lost process.
    pub(crate) stores: Vec<Option<CheckpointStore>>,
    /// For each run, the checkpoint with which it began, and its members.
    pub(crate) runs: Vec<(u64, Vec<usize>)>,
}

impl Processes {
    pub(crate) fn new(spec: GridSpec) -> Self {
        let nodes = spec.layout().node_count() as usize;
        let stores = vec![Some(CheckpointStore::default()); nodes];
        Self { spec, stores, runs: vec![(0, (0..nodes).collect())] }
    }

    pub(crate) fn members(&self) -> &[usize] {
        &self.runs.last().unwrap().1
    }

    /// The members of each site that has several, if other members are left without them.
    pub(crate) fn sites(&self) -> Vec<Vec<usize>> {
        let (layout, members) = (self.spec.layout(), self.members());
        let of_site = |site| -> Vec<usize> {
            let processes = layout.nodes_in(site).map(|node| node.index());
            processes.filter(|process| members.contains(process)).collect()
        };
        let is_one_of_several = |site: &Vec<usize>| site.len() > 1 && site.len() < members.len();
        layout.sites().map(of_site).filter(is_one_of_several).collect()
    }

    /// Draws members that leave, and other processes that join.
    pub(crate) fn changes(&self, dice: &mut Dice) -> (Vec<usize>, Vec<usize>) {
        let members = self.members();
        let mut leaving: Vec<usize> =
            members.iter().copied().filter(|_| dice.chance(0.3)).collect();
        if leaving.len() == members.len() {
            leaving.pop();
        }
        let others = (0..self.stores.len()).filter(|process| !members.contains(process));
        (leaving, others.filter(|_| dice.chance(0.5)).collect())
    }

    /// The grid of these members.
    pub(crate) fn grid(&self, members: &[usize]) -> GridSpec {
        let lost = (0..self.stores.len()).filter(|process| !members.contains(process));
        self.spec.without(&lost.map(NodeId::from).collect::<Vec<_>>()).unwrap()
    }

    /// Loses some of the members. Returns the image and the plan to continue from, if there is an
    /// image; an error if parts of it are missing.
    pub(crate) fn lose(&mut self, lost: &[usize]) -> Result<Option<(Image, RestorePlan)>, ()> {
        for &process in lost {
            self.stores[process] = None;
        }
        let members = self.members().iter().copied().filter(|it| !lost.contains(it)).collect();
        self.go_on(members)
    }

    /// Lets some members leave and other processes join, and returns the image to go on from.
    pub(crate) fn change(
        &mut self,
        leaving: &[usize],
        joining: &[usize],
    ) -> Result<(Image, RestorePlan), ()> {
        let mut members = self.members().to_vec();
        members.retain(|process| !leaving.contains(process));
        members.extend(joining);
        members.sort_unstable();
        let image = self.go_on(members.clone())?.ok_or(())?;
        for process in 0..self.stores.len() {
            if !members.contains(&process) {
                self.stores[process] = None;
            } else if joining.contains(&process) {
                self.stores[process] = Some(CheckpointStore::default());
            }
        }
        Ok(image)
    }

    fn go_on(&mut self, members: Vec<usize>) -> Result<Option<(Image, RestorePlan)>, ()> {
        let Some(image) = Image::gathered(self.stores.iter().flatten()).unwrap() else {
            self.runs = vec![(0, members)];
            return Ok(None);
        };
        let number = image.number();
        let has = |store: &CheckpointStore| store.image(image.manifest()).unwrap();
        let parts: Vec<Option<Image>> =
            self.stores.iter().map(|store| store.as_ref().map(has)).collect();
        let before = image.layout().clone();
        let (_, were) = self.runs.iter().rev().find(|(began, _)| *began < number).unwrap();
        let position =
            |process: &usize| members.iter().position(|member| member == process).map(NodeId::from);
        let successors: Vec<_> = were.iter().map(position).collect();
        let having = |node: NodeId| -> Vec<NodeId> {
            let pes: Vec<_> = before.place(node).pes.clone().map(gridspan_topology::PeId).collect();
            let has_all = |process: &usize| {
                let has = parts[*process].as_ref().map(Image::parts).unwrap_or_default();
                pes.iter().all(|pe| has.contains(pe))
            };
            members.iter().filter(|it| has_all(it)).filter_map(position).collect()
        };
        let holders: Vec<_> = before.nodes().map(|node| having(node).first().copied()).collect();
        let grid = self.grid(&members);
        let plan = RestorePlan::recovery(&image, &grid, &successors, &holders);
        let is_again = self.runs.last().is_some_and(|(began, _)| *began == number);
        let plan = plan.map_err(|_| ())?.held_by(&before, having);
        let plan = plan.going_back_again(is_again);
        self.runs.push((number, members));
        Ok(Some((image, plan)))
    }
}

/// A run after which members were lost.
pub(crate) struct Before {
    pub(crate) halted: Halted,
    pub(crate) members: Vec<usize>,
    pub(crate) lost: Vec<usize>,
}

impl Before {
    /// Lets the lost processes come back in a run of `members`.
    pub(crate) fn returning(&self, simulation: Simulation, members: &[usize]) -> Simulation {
        let number = |members: &[usize], process: &usize| {
            members.iter().position(|member| member == process).map(NodeId::from)
        };
        let lost: Vec<NodeId> =
            self.lost.iter().filter_map(|process| number(&self.members, process)).collect();
        let successors: Vec<Option<NodeId>> =
            self.members.iter().map(|process| number(members, process)).collect();
        simulation.with_returning(&self.halted, &lost, &successors).unwrap()
    }
}
