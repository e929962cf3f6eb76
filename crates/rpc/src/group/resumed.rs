//! Groups that a main resumes when it begins again from a checkpoint.
//!
//! **Checkpoint.** A checkpoint contains the data of the group that servers hold in memory. Main
//! remembers the [`GroupRef`], with the small results that it has fetched. The group may be in the
//! middle of a window: its orders in servers' queues are forgotten.
//!
//! **Restoration.** Main asks all servers which data they have, and which they have dropped, and
//! gathers the calls of the group again from the beginning. Data is numbered in the order in which
//! it is named, so the same program names the same data; `sequence` checks that. Calls whose
//! results exist are not executed again; see `repeated`.

use super::begin::Begun;
use super::in_job::group_data;
use super::map::{CallGroup, Draft, Mapper};
use super::order::GroupData;
use super::sequence::{Made, Sequence};
use crate::block::EncodedBlock;
use crate::calls::{Catalogue, RpcError, Services};
use gridspan_workflow::heuristics::Heuristic;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A reference to a [`CallGroup`], which main passes to
/// [`Grid::progress`](gridspan_runtime::Grid::progress) beside its
/// [services](crate::calls::ServicesRef). It contains the group's number, and the results that main
/// has fetched, up to 1 MiB in all.
///
/// ```
/// # use gridspan_rpc::calls::*;
/// # use gridspan_rpc::group::*;
/// # use gridspan_runtime::{CheckpointEvery, Checkpoints, Grid, Job, driver};
/// # use gridspan_workflow::heuristics::HeftC;
/// const NEXT: Function<(u64,), (u64,)> = Function::new("next", |(n,), _| Ok((n + 1,)));
/// # struct Numbers;
/// # impl Catalogue for Numbers {
/// #     fn functions() -> Functions { Functions::new().with_parts(&NEXT) }
/// # }
///
/// # async fn example(grid: &Grid) -> Result<u64, RpcError> {
/// let (services, before) = match grid.restored::<(ServicesRef<Numbers>, GroupRef)>().await? {
///     Some((services, group)) => (Services::restored(grid, &services), Some(group)),
///     None => (Services::on_all_pes(grid).await?, None),
/// };
/// let calls = async |group: &CallGroup<'_, Services<Numbers>>| {
///     let mut number = group.value(&0)?;
///     for step in 1..=20 {
///         (number,) = group.call(&NEXT, (number,));
///         if step % 5 == 0 {
///             group.run().await?; // not executed again after a restoration
///             grid.progress(&(services.reference(), group.reference())).await?;
///         }
///     }
///     group.get(&number).await
/// };
/// let mapper = Mapper::new(&services);
/// let number = match before {
///     Some(before) => mapper.resume(&before, &HeftC::default(), calls).await?,
///     None => mapper.map(&HeftC::default(), calls).await?,
/// };
/// assert_eq!(number, 20);
/// # Ok(number)
/// # }
/// # let job = with_rpc::<Numbers>(Job::new("numbers")).main(async |grid: Grid| {
/// #     let number = example(&grid).await.map_err(|error| error.to_string())?;
/// #     if number == 20 { Ok(()) } else { Err("wrong".into()) }
/// # });
/// # let job = job.checkpoints(Checkpoints::every(CheckpointEvery::Points(1)));
/// # driver::embedded::run(job, 2).unwrap();
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GroupRef {
    number: u32,
    fetched: BTreeMap<u32, EncodedBlock>,
    made: Made,
}

impl<C: Catalogue> CallGroup<'_, Services<C>> {
    /// A reference for [`Grid::progress`](gridspan_runtime::Grid::progress), with which a main that
    /// begins again from the checkpoint [goes on](Mapper::resume) with this group. Take one for
    /// each progress point, since it contains the results that were fetched so far. Progress points
    /// may also be reached while a window is executed, in another future.
    pub fn reference(&self) -> GroupRef {
        self.mapper.services.remember_group(self.number);
        let draft = self.draft.borrow();
        let (fetched, made) = (draft.fetched.clone(), draft.sequence.made());
        GroupRef { number: self.number, fetched, made }
    }
}

impl<C: Catalogue> Mapper<Services<C>> {
    /// Like [`map`](Self::map), but goes on with a group of the checkpoint from which main begins
    /// again, on the [services](Services::restored) of that checkpoint. `body` makes all values and
    /// calls of the group in the same order as before, from the beginning; calls whose results
    /// exist are not executed again. Waits for servers that execute other calls, until these calls
    /// have ended or the servers are [lost](Services::lose). Data that only lost servers had is
    /// made again.
    ///
    /// # Errors
    ///
    /// [`RpcError::Other`] if the group is not of these services, had ended before the checkpoint,
    /// or was resumed before. Also if `body` differs from before the progress point: it calls other
    /// functions, passes other arguments, or makes values of other lengths. Then
    /// [`run`](CallGroup::run) and [`get`](CallGroup::get) fail, too. [`RpcError::Grid`] if the job
    /// is ending; otherwise those of [`map`](Self::map).
    pub async fn resume<R>(
        &self,
        reference: &GroupRef,
        heuristic: &dyn Heuristic,
        body: impl AsyncFnOnce(&CallGroup<'_, Services<C>>) -> Result<R, RpcError>,
    ) -> Result<R, RpcError> {
        let number = reference.number;
        if !self.services.claim_group(number) {
            let reason = format!(
                "group {number} is not a running group of the services' checkpoint, or was resumed before; \
                 remember the services and the group at the same progress point"
            );
            return Err(RpcError::Other { reason });
        }
        let mut draft = Draft::resumed(&reference.fetched, Sequence::again(reference.made));
        for (server, GroupData { held, dropped }) in group_data(&self.services, number).await? {
            draft.touched.insert(server);
            draft.dropped.merge(&dropped);
            let holder = self.services.successor_of(server).unwrap_or(server);
            for (data, bytes) in held {
                let known = draft.known.entry(data).or_default();
                known.bytes = bytes;
                known.servers.insert(holder);
            }
        }
        self.run_group(Begun { number, draft, heuristic, along: None }, body).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_remembers_at_most_a_mebibyte_of_results_also_of_empty_ones() {
        let (mut draft, empty) = (Draft::default(), EncodedBlock::of(Vec::new()));
        for data in 0..70_000 {
            draft.remember(data, &empty);
            // Results that are fetched again count once.
            draft.remember(data / 2, &empty);
        }

        assert_eq!(draft.fetched.len(), (1 << 20) / 16);
        let bytes = postcard::to_stdvec(&draft.fetched).unwrap().len();
        assert!(bytes <= 1 << 20, "{bytes} bytes");
        let mut again = Draft::resumed(&draft.fetched, Sequence::default());
        again.remember(100_000, &empty);
        assert_eq!(again.fetched, draft.fetched);
    }
}
