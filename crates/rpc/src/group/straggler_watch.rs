//! Watches the servers of a window, and has tasks of slow ones tried elsewhere.

use super::order::Done;
use super::window_run::WindowRun;
use crate::calls::Catalogue;
use gridspan_workflow::stragglers::{Observations, polling_interval};
use gridspan_workflow::{Endpoint, ServerId, TaskId};
use std::time::Duration;

/// How often servers are looked at, at most.
const GLANCE_MIN: Duration = Duration::from_millis(1);

impl<C: Catalogue> WindowRun<'_, '_, '_, C> {
    /// The job's time, in seconds.
    pub(super) async fn now_s(&self) -> f64 {
        match self.watch {
            // Without a watch nobody looks at it.
            None => 0.0,
            Some(_) => self.group.mapper.services.now_s().await,
        }
    }

    /// A task was done.
    pub(super) fn seen(&self, task: TaskId, server: ServerId, done: &Done) {
        if let (Some(watch), Some(took_s)) = (&self.watch, done.took_s) {
            let should_s = self.platform.time_s(self.graph.task(task).work_s, server);
            watch.borrow_mut().observe(server, took_s, should_s, true);
        }
    }

    /// Looks after the servers, without end.
    pub(super) async fn guard(&self) {
        let polling_interval = polling_interval(&self.graph, GLANCE_MIN);
        loop {
            self.group.mapper.services.sleep(polling_interval).await;
            let now_s = self.now_s().await;
            self.rescue(now_s);
        }
    }

    fn rescue(&self, now_s: f64) {
        let Some(watch) = self.watch.as_ref().map(|watch| watch.borrow()) else { return };
        let inputs_s = |task, to| self.inputs_s(task, to);
        loop {
            let (graph, platform) = (&self.graph, &self.platform);
            let places = &self.mapping.places;
            let mut progress = self.progress.borrow_mut();
            let (ongoing, free) = progress.ongoing(graph, places, now_s, &inputs_s);
            let observations = Observations {
                graph,
                platform,
                watch: &watch,
                now_s,
                ongoing,
                free,
                inputs_s: &inputs_s,
            };
            let offer =
                observations.slowness().and_then(|slowness| observations.best_offer(&slowness));
            let Some(offer) = offer else { return };
            if !progress.want(offer.task, offer.to) {
                return;
            }
            let from = match offer.is_copy {
                true => progress.server_of(offer.attempt),
                false => progress.take_from(offer.attempt),
            };
            drop(progress);
            if !offer.is_copy
                && let Some(&data) = graph.task(offer.task).outputs.first()
            {
                self.withdraw_from(from, data);
            }
            tracing::debug!(task = %offer.task, from = %from, to = %offer.to, "tried elsewhere");
        }
    }

    /// How long the inputs of a task take to a server, over idle links, in seconds.
    fn inputs_s(&self, task: TaskId, to: ServerId) -> f64 {
        let inputs = self.graph.task(task).inputs.iter();
        let times = inputs.map(|&data| {
            let datum = self.graph.datum(data);
            let holders = self.holders(data);
            let from = holders.iter().map(|&server| Endpoint::Server(server));
            let all = from.chain(datum.held_by.iter().copied());
            let times =
                all.map(|from| self.platform.transfer_s(datum.bytes, from, Endpoint::Server(to)));
            times.fold(f64::INFINITY, f64::min)
        });
        times.fold(0.0, f64::max)
    }
}
