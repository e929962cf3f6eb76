//! The reasons why tasks were not executed, by server, for error messages.

use super::task_states::Stuck;
use crate::id::{ServerId, TaskId};
use std::collections::BTreeMap;

/// Maximum number of servers named in one error.
const NAMED_MAX: usize = 8;

/// The reason why a task failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TaskFailure {
    /// The function failed, as it would on another server. The message names the function and the
    /// server.
    Failed(String),
    /// No server has executed it.
    NotExecuted {
        /// The reason, with the servers.
        reason: String,
        /// Whether servers that offer the task are left, and the last one tried refused it.
        is_refused: bool,
    },
}

impl TaskFailure {
    /// The reason, with the servers.
    pub fn reason(&self) -> &str {
        match self {
            Self::Failed(reason) | Self::NotExecuted { reason, .. } => reason,
        }
    }
}

#[derive(Clone, Debug)]
struct Trial {
    server: ServerId,
    reason: String,
    is_refused: bool,
}

/// The failed trials of tasks.
#[derive(Debug, Default)]
pub(super) struct Reasons {
    /// The last trial of each server, the latest at the end.
    trials: BTreeMap<TaskId, Vec<Trial>>,
    /// Lost servers, with the reasons.
    lost: BTreeMap<ServerId, String>,
}

impl Reasons {
    /// Notes that a server has not executed a task, though it is not lost: it refused the task, or
    /// lacked an argument.
    pub(super) fn tried(
        &mut self,
        task: TaskId,
        server: ServerId,
        reason: String,
        is_refused: bool,
    ) {
        let trials = self.trials.entry(task).or_default();
        trials.retain(|trial| trial.server != server);
        trials.push(Trial { server, reason, is_refused });
    }

    /// Notes that a server was lost.
    pub(super) fn lost(&mut self, server: ServerId, reason: String) {
        self.lost.insert(server, reason);
    }

    /// Returns the reason why a task can no longer be executed. `can` returns whether a server
    /// offers the task, and `name` the name of a server.
    pub(super) fn why(
        &self,
        task: TaskId,
        stuck: Stuck,
        can: impl Fn(ServerId) -> bool,
        name: impl Fn(ServerId) -> String,
    ) -> TaskFailure {
        let trials = self.trials.get(&task).map_or(&[][..], Vec::as_slice);
        let is_refused =
            stuck == Stuck::Tried && trials.last().is_some_and(|trial| trial.is_refused);
        let mut said: Vec<String> = Vec::new();
        match stuck {
            Stuck::Tried => said.push("no server executed it".to_owned()),
            Stuck::Alone => said.push("no server that offers the function is left".to_owned()),
            Stuck::MissingInput => {
                said.push("an argument was lost with servers that have left".to_owned());
            }
        }
        let tried = trials.iter().map(|trial| (trial.server, &trial.reason));
        let lost = self.lost.iter().filter(|(server, _)| can(**server));
        let lost = lost.map(|(server, reason)| (*server, reason));
        let all: BTreeMap<ServerId, &String> = tried.chain(lost).collect();
        let one = |(server, reason): (&ServerId, &&String)| {
            let how = if self.lost.contains_key(server) { "was lost, " } else { "" };
            format!("`{}`: {how}{reason}", name(*server))
        };
        said.extend(all.iter().take(NAMED_MAX).map(one));
        if all.len() > NAMED_MAX {
            said.push(format!("and {} more servers", all.len() - NAMED_MAX));
        }
        TaskFailure::NotExecuted { reason: said.join("; "), is_refused }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(server: ServerId) -> String {
        format!("s{}", server.0)
    }

    #[test]
    fn an_error_names_each_server_once_with_its_last_reason() {
        let (mut reasons, task) = (Reasons::default(), TaskId(3));
        reasons.tried(task, ServerId(0), "busy".to_owned(), true);
        reasons.tried(task, ServerId(1), "full".to_owned(), true);
        reasons.tried(task, ServerId(0), "full, too".to_owned(), true);
        reasons.tried(TaskId(4), ServerId(2), "it is of another".to_owned(), true);
        reasons.lost(ServerId(1), "timed out".to_owned());
        reasons.lost(ServerId(9), "it does not offer it".to_owned());

        let why = reasons.why(task, Stuck::Tried, |server| server.0 < 9, name);

        let reason = "no server executed it; `s0`: full, too; `s1`: was lost, timed out".to_owned();
        assert_eq!(why, TaskFailure::NotExecuted { reason, is_refused: true });
    }

    #[test]
    fn an_error_names_only_some_of_many_servers() {
        let (mut reasons, task) = (Reasons::default(), TaskId(0));
        (0..100).for_each(|server| reasons.lost(ServerId(server), "away".to_owned()));

        let why = reasons.why(task, Stuck::Alone, |_| true, name);

        let TaskFailure::NotExecuted { reason, is_refused } = why else { panic!("{why:?}") };
        assert!(!is_refused && reason.contains("`s7`: was lost") && !reason.contains("`s8`"));
        assert!(reason.ends_with("and 92 more servers"), "{reason}");
    }
}
