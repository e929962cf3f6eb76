//! Requests for samples of the job's counters.

use super::super::event::Command;
use super::{Phase, Supervisor};
use gridspan_runtime::message::telemetry::{TelemetryLease, TelemetrySample};

impl Supervisor {
    /// Asks the node of main for the sample that a request needs. If no run of the job is under
    /// way, answers at once.
    pub(super) fn begin_sample(&mut self, request: u64, lease: TelemetryLease) {
        let of_main = self.members().first().copied().filter(|_| self.phase == Phase::Running);
        let Some(of_main) = of_main else { return self.observed(request, None) };
        let (order, given_up) = self.sampling.add(request, lease);
        if let Some(request) = given_up {
            self.observed(request, None);
        }
        self.commands.push_back(Command::Sample(of_main, order));
    }

    /// Answers the request for which the node of main has a sample.
    pub(super) fn sampled(&mut self, number: u64, sample: Option<Box<TelemetrySample>>) {
        if let Some(request) = self.sampling.take(number) {
            self.observed(request, sample);
        }
    }

    /// Answers all requests without a sample, because the run of the job is over.
    pub(super) fn give_up_samples(&mut self) {
        for request in self.sampling.take_all() {
            self.observed(request, None);
        }
    }

    fn observed(&mut self, request: u64, sample: Option<Box<TelemetrySample>>) {
        self.commands.push_back(Command::TellObserved(request, sample, self.losses, self.run));
    }
}
