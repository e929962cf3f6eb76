//! Mappings by any heuristic, checked.

use super::Heuristic;
use crate::graph::{TaskGraph, TaskSpec};
use crate::id::ServerId;
use crate::mapping::{MapError, Mapping};
use crate::platform::Platform;

/// Maps a graph, and checks the mapping, which may come from a heuristic of the user.
///
/// # Errors
///
/// Those of the heuristic, and [`MapError::Invalid`] if its mapping does not have as many places
/// and servers as there are tasks, or a server is not on the platform or cannot execute its task.
pub fn map(
    heuristic: &dyn Heuristic,
    graph: &TaskGraph,
    platform: &Platform,
) -> Result<Mapping, MapError> {
    let mapping = heuristic.map(graph, platform)?;
    let tasks = graph.tasks();
    let is_complete = mapping.servers.len() == tasks.len() && mapping.places.len() == tasks.len();
    let servers = platform.servers().len();
    let is_able = |(task, server): (&TaskSpec, &ServerId)| {
        server.index() < servers && task.can_run_on(*server)
    };
    match is_complete && tasks.iter().zip(&mapping.servers).all(is_able) {
        true => Ok(mapping),
        false => Err(MapError::Invalid { heuristic: heuristic.name() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::GraphBuilder;
    use crate::id::TaskId;
    use crate::platform::{ClientSpec, ServerSpec, Site};
    use gridspan_topology::Link;

    fn two_servers() -> Platform {
        let server = |name: &str| ServerSpec {
            name: name.to_owned(),
            site: 0,
            cores: 1,
            speed: 1.0,
            is_direct: true,
        };
        let lan = Link::lan();
        let sites = vec![Site { name: "a".to_owned(), lan, uplink: lan }];
        let client = ClientSpec { site: Some(0), link: lan };
        Platform::new(vec![server("one"), server("two")], sites, client)
    }

    /// Returns this mapping, whatever the graph.
    struct Fixed(Vec<ServerId>);

    impl Heuristic for Fixed {
        fn name(&self) -> &'static str {
            "fixed"
        }

        fn map(&self, _graph: &TaskGraph, _platform: &Platform) -> Result<Mapping, MapError> {
            let order: Vec<TaskId> = (0..self.0.len() as u32).map(TaskId).collect();
            Ok(Mapping::in_order(self.0.clone(), &order, false, 0.0))
        }
    }

    #[test]
    fn a_mapping_that_does_not_fit_is_an_error() {
        let mut calls = GraphBuilder::default();
        calls.task("one", 1.0);
        calls.task("two", 1.0);
        let (graph, platform) = (calls.build().unwrap(), two_servers());
        let mapped = |servers: &[u32]| {
            let servers = servers.iter().copied().map(ServerId).collect();
            map(&Fixed(servers), &graph, &platform).map(|mapping| mapping.servers.len())
        };

        assert_eq!(mapped(&[1, 0]), Ok(2));
        for servers in [&[0][..], &[0, 2], &[0, 1, 0]] {
            assert_eq!(mapped(servers), Err(MapError::Invalid { heuristic: "fixed" }));
        }
    }
}
