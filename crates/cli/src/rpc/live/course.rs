//! How far a workflow is on servers that may be lost: which tasks can be ordered, where their arguments are, and what is done
//! again. Pure: it is told what happens.

use gridspan_rpc::{DataId, Endpoint, Mapping, ServerId, TaskGraph, TaskId};
use std::collections::BTreeSet;

/// A task is ordered so many times at most, for servers that are lost.
const ATTEMPTS_MAX: u32 = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Waiting,
    Ordered,
    Done,
}

/// Where a result is that the client wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish {
    Open,
    Asked(ServerId),
    Granted,
}

/// A workflow on its way.
#[derive(Debug)]
pub(super) struct Course<'a> {
    graph: &'a TaskGraph,
    servers: Vec<ServerId>,
    states: Vec<State>,
    attempts: Vec<u32>,
    /// The servers that have each data.
    holders: Vec<BTreeSet<ServerId>>,
    /// For data that the client wants and does not have from the beginning.
    wishes: Vec<Option<Wish>>,
    is_there: Vec<bool>,
}

/// There is no server left that could execute a task, or too many were lost with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stuck {
    /// The task.
    pub(super) task: String,
}

impl<'a> Course<'a> {
    /// At its beginning, on so many servers.
    pub(super) fn new(graph: &'a TaskGraph, mapping: &Mapping, servers: usize) -> Self {
        let wish = |data: &gridspan_rpc::Data| {
            (data.is_wanted && data.producer.is_some()).then_some(Wish::Open)
        };
        Self {
            graph,
            servers: mapping.servers.clone(),
            states: vec![State::Waiting; graph.tasks().len()],
            attempts: vec![0; graph.tasks().len()],
            holders: vec![BTreeSet::new(); graph.data().len()],
            wishes: graph.data().iter().map(wish).collect(),
            is_there: vec![true; servers],
        }
    }

    fn tasks(&self) -> impl Iterator<Item = TaskId> + use<> {
        (0..self.states.len() as u32).map(TaskId)
    }

    fn is_at_client(&self, data: DataId) -> bool {
        self.graph.datum(data).held_by.contains(&Endpoint::Client)
    }

    /// The tasks whose arguments are there and that were not ordered yet, and on which servers to order them.
    pub(super) fn take_orders(&mut self) -> Vec<(TaskId, ServerId)> {
        let is_there =
            |data: &DataId| self.is_at_client(*data) || !self.holders[data.index()].is_empty();
        let can = |task: &TaskId| {
            let is_waiting = self.states[task.index()] == State::Waiting;
            is_waiting && self.graph.task(*task).inputs.iter().all(is_there)
        };
        let orders: Vec<TaskId> = self.tasks().filter(can).collect();
        for task in &orders {
            self.states[task.index()] = State::Ordered;
            self.attempts[task.index()] += 1;
        }
        orders.into_iter().map(|task| (task, self.servers[task.index()])).collect()
    }

    /// Where to fetch data: from a server that has it, or from the client.
    pub(super) fn source(&self, data: DataId) -> Endpoint {
        let server = self.holders[data.index()].first();
        server.map_or(Endpoint::Client, |&server| Endpoint::Server(server))
    }

    /// What the client wants and can have, and from which server.
    pub(super) fn take_wishes(&mut self) -> Vec<(DataId, ServerId)> {
        let mut taken = Vec::new();
        for (data, wish) in (0..).map(DataId).zip(&mut self.wishes) {
            if let (Some(Wish::Open), Some(&server)) = (*wish, self.holders[data.index()].first()) {
                *wish = Some(Wish::Asked(server));
                taken.push((data, server));
            }
        }
        taken
    }

    /// Whether an order is still that of the task.
    pub(super) fn is_current(&self, task: TaskId, server: ServerId) -> bool {
        self.states[task.index()] == State::Ordered && self.servers[task.index()] == server
    }

    /// A task is done, for which its server has fetched data.
    pub(super) fn done(
        &mut self,
        task: TaskId,
        server: ServerId,
        fetched: impl IntoIterator<Item = DataId>,
    ) {
        self.states[task.index()] = State::Done;
        for data in self.graph.task(task).outputs.iter().copied().chain(fetched) {
            self.holders[data.index()].insert(server);
        }
    }

    /// Data that the client wants has come.
    pub(super) fn granted(&mut self, data: DataId) {
        self.wishes[data.index()] = Some(Wish::Granted);
    }

    /// Data is not where it was said to be.
    pub(super) fn missing(&mut self, data: DataId) -> Result<(), Stuck> {
        self.holders[data.index()].clear();
        if let Some(wish @ Wish::Asked(_)) = &mut self.wishes[data.index()] {
            *wish = Wish::Open;
        }
        self.make_up()
    }

    /// A task was not executed, and is ordered again.
    pub(super) fn again(&mut self, task: TaskId) -> Result<(), Stuck> {
        self.states[task.index()] = State::Waiting;
        match self.attempts[task.index()] < ATTEMPTS_MAX {
            true => Ok(()),
            false => Err(self.stuck(task)),
        }
    }

    fn stuck(&self, task: TaskId) -> Stuck {
        Stuck { task: self.graph.task(task).name.clone() }
    }

    /// A server is lost, with all it had and had to do.
    pub(super) fn lost(&mut self, server: ServerId) -> Result<(), Stuck> {
        if !std::mem::replace(&mut self.is_there[server.index()], false) {
            return Ok(());
        }
        for holders in &mut self.holders {
            holders.remove(&server);
        }
        for wish in self.wishes.iter_mut().flatten().filter(|wish| **wish == Wish::Asked(server)) {
            *wish = Wish::Open;
        }
        let of_server = |task: &TaskId| {
            self.states[task.index()] == State::Ordered && self.servers[task.index()] == server
        };
        let given: Vec<TaskId> = self.tasks().filter(of_server).collect();
        given.into_iter().try_for_each(|task| self.again(task))?;
        self.make_up()
    }

    /// Has tasks done again whose results are needed and lost, and those on servers that are lost done elsewhere.
    fn make_up(&mut self) -> Result<(), Stuck> {
        // Whoever is done again may need what others made.
        for &task in self.graph.order().iter().rev() {
            let is_lost = |data: &DataId| {
                let datum = self.graph.datum(*data);
                let mut readers = datum.consumers.iter();
                let is_read = readers.any(|reader| self.states[reader.index()] != State::Done);
                let is_wished = self.wishes[data.index()].is_some_and(|wish| wish != Wish::Granted);
                self.holders[data.index()].is_empty() && (is_read || is_wished)
            };
            let is_done = self.states[task.index()] == State::Done;
            if is_done && self.graph.task(task).outputs.iter().any(is_lost) {
                self.again(task)?;
            }
        }
        let is_homeless = |task: &TaskId| {
            self.states[task.index()] == State::Waiting
                && !self.is_there[self.servers[task.index()].index()]
        };
        let homeless: Vec<TaskId> = self.tasks().filter(is_homeless).collect();
        for task in homeless {
            let able = (0..self.is_there.len() as u32).map(ServerId).filter(|&server| {
                self.is_there[server.index()] && self.graph.task(task).can_run_on(server)
            });
            let load = |server: &ServerId| {
                let open = self.states.iter().zip(&self.servers);
                open.filter(|&(state, of)| *state != State::Done && of == server).count()
            };
            let next = able.min_by_key(load).ok_or_else(|| self.stuck(task))?;
            self.servers[task.index()] = next;
        }
        Ok(())
    }

    /// Whether all is done, and the client has what it wants.
    pub(super) fn is_over(&self) -> bool {
        let is_granted = |wish: &Wish| *wish == Wish::Granted;
        self.states.iter().all(|state| *state == State::Done)
            && self.wishes.iter().flatten().all(is_granted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gridspan_rpc::GraphBuilder;

    /// `first` reads data of the client; `left` and `right` read what it makes, and `last` what they make, which the
    /// client wants.
    fn diamond() -> TaskGraph {
        let mut graph = GraphBuilder::default();
        let [first, left, right, last] =
            ["first", "left", "right", "last"].map(|name| graph.task(name, 1.0));
        let start = graph.external("start", 8, [Endpoint::Client]);
        graph.read(first, start);
        let made = graph.write(first, "made", 8);
        for (number, task) in [left, right].into_iter().enumerate() {
            graph.read(task, made);
            let part = graph.write(task, number.to_string(), 8);
            graph.read(last, part);
        }
        let end = graph.write(last, "end", 8);
        graph.want(end);
        graph.build().unwrap()
    }

    fn mapping() -> Mapping {
        let servers = [0, 0, 1, 1].map(ServerId).into();
        Mapping { servers, places: vec![0, 1, 2, 3], relays: false, predicted_s: 0.0 }
    }

    fn orders(course: &mut Course<'_>) -> Vec<(u32, u32)> {
        course.take_orders().into_iter().map(|(task, server)| (task.0, server.0)).collect()
    }

    #[test]
    fn tasks_are_ordered_when_their_arguments_are_made_and_data_comes_from_servers_first() {
        let graph = diamond();
        let mut course = Course::new(&graph, &mapping(), 2);
        let made = graph.task(TaskId(0)).outputs[0];
        assert_eq!(orders(&mut course), [(0, 0)]);
        assert_eq!(orders(&mut course), []);
        course.done(TaskId(0), ServerId(0), []);
        assert_eq!(course.source(made), Endpoint::Server(ServerId(0)));
        assert_eq!(orders(&mut course), [(1, 0), (2, 1)]);
        course.done(TaskId(2), ServerId(1), [made]);
        assert_eq!(orders(&mut course), []);
        course.done(TaskId(1), ServerId(0), []);
        assert_eq!(orders(&mut course), [(3, 1)]);
        course.done(TaskId(3), ServerId(1), []);
        let wishes = course.take_wishes();
        assert_eq!((wishes.len(), wishes[0].1, course.is_over()), (1, ServerId(1), false));

        course.granted(wishes[0].0);

        assert!(course.is_over());
    }

    #[test]
    fn what_a_lost_server_had_is_made_again_as_far_as_it_is_needed() {
        let graph = diamond();
        let mut course = Course::new(&graph, &mapping(), 2);
        let made = graph.task(TaskId(0)).outputs[0];
        orders(&mut course);
        course.done(TaskId(0), ServerId(0), []);
        orders(&mut course);
        course.done(TaskId(1), ServerId(0), []);
        assert!(course.is_current(TaskId(2), ServerId(1)));

        // The right part is being made, for which `made` was not fetched yet.
        course.lost(ServerId(0)).unwrap();

        assert_eq!(
            orders(&mut course),
            [(0, 1)],
            "the left part was made of it, and the right will be"
        );
        course.missing(made).unwrap();
        course.again(TaskId(2)).unwrap();
        course.done(TaskId(0), ServerId(1), []);
        assert_eq!(orders(&mut course), [(1, 1), (2, 1)]);
        for task in [1, 2] {
            course.done(TaskId(task), ServerId(1), []);
        }
        assert_eq!(orders(&mut course), [(3, 1)]);
        assert_eq!(course.lost(ServerId(1)), Err(Stuck { task: "first".to_owned() }));
    }
}
