//! Counts of the messages with which nodes share tasks.

/// Counts of the messages and tasks that the nodes of a pool have sent each other so far.
///
/// ```
/// use gridspan::StealStatistics;
/// # use gridspan::{embed::Runner, prelude::*};
/// # #[derive(Serialize, Deserialize)]
/// # struct Fib(u32);
/// # impl Task for Fib {
/// #     type Output = u64;
/// #     type Join = u64;
/// #     fn run(self, cx: &mut TaskContext<'_, Self>) -> Step<Self> {
/// #         if self.0 < 2 {
/// #             return Step::Done(self.0.into());
/// #         }
/// #         cx.spawn(Fib(self.0 - 1));
/// #         cx.spawn(Fib(self.0 - 2));
/// #         Step::Sync(0)
/// #     }
/// #     fn collect(sum: &mut u64, _child: u32, output: u64) { *sum += output }
/// #     fn joined(sum: u64, _cx: &mut TaskContext<'_, Self>) -> Step<Self> { Step::Done(sum) }
/// # }
/// # let job = Job::new("fib").tasks::<Fib>().main(async |grid: Grid| {
/// let pool = grid.task_pool::<Fib>().await?;
/// pool.run(Fib(12)).await?;
/// let counts: StealStatistics = pool.statistics().await?;
/// assert_eq!(counts.far_messages, 0); // there is one site
/// # Ok(())
/// # });
/// # Runner::on_threads(2).run(job).unwrap();
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StealStatistics {
    /// Number of attempts of idle nodes to get tasks, including those without success.
    pub attempts: u64,
    /// Number of messages, including attempts and answers, but without packets of tasks and their
    /// results.
    pub messages: u64,
    /// Number of these messages that went to another site.
    pub far_messages: u64,
    /// Number of packets of tasks.
    pub grants: u64,
    /// Number of these packets that went to another site.
    pub far_grants: u64,
    /// Number of tasks in all packets.
    pub tasks: u64,
}

impl StealStatistics {
    pub(super) fn to_vec(self) -> Vec<u64> {
        let Self { attempts, messages, far_messages, grants, far_grants, tasks } = self;
        vec![attempts, messages, far_messages, grants, far_grants, tasks]
    }

    pub(super) fn from_slice(values: &[u64]) -> Self {
        let at = |position: usize| values.get(position).copied().unwrap_or_default();
        Self {
            attempts: at(0),
            messages: at(1),
            far_messages: at(2),
            grants: at(3),
            far_grants: at(4),
            tasks: at(5),
        }
    }
}
