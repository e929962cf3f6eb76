//! What happens when data is where it was not: tasks may be ready, and the client may have what it
//! wants.

use super::{ExecutionState, ResultRequest, State};
use gridspan_workflow::{DataId, ServerId};

impl ExecutionState<'_> {
    /// Data is where it was not.
    pub(super) fn stir(&mut self, data: DataId) {
        let graph = self.graph;
        let readers = graph.datum(data).consumers.iter();
        let waiting = readers.filter(|reader| self.states[reader.index()] == State::Waiting);
        self.stirred.extend(waiting);
        if self.wishes[data.index()] == Some(ResultRequest::Open) {
            self.wished.insert(data);
        }
    }

    /// What the client wants and can have, and from which server.
    pub(crate) fn take_wishes(&mut self) -> Vec<(DataId, ServerId)> {
        let mut taken = Vec::new();
        for data in std::mem::take(&mut self.wished) {
            let wish = &mut self.wishes[data.index()];
            // What nobody has any more is made again.
            if let (Some(ResultRequest::Open), Some(&server)) =
                (*wish, self.holders[data.index()].first())
            {
                *wish = Some(ResultRequest::Asked(server));
                taken.push((data, server));
            }
        }
        taken
    }

    /// Data that the client wants has come.
    pub(crate) fn granted(&mut self, data: DataId) {
        let before = self.wishes[data.index()].replace(ResultRequest::Granted);
        let producer = self.graph.datum(data).producer;
        let is_failed = producer.is_some_and(|task| self.states[task.index()] == State::Failed);
        if before.is_some_and(|wish| wish != ResultRequest::Granted) && !is_failed {
            self.ungranted -= 1;
        }
    }
}
