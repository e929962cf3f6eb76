//! Results that do not exist yet.

use std::marker::PhantomData;
use std::sync::Arc;

/// Data of a group, on the servers that have it. Clones name the same data; once the last is
/// dropped and no call needs the data, servers drop it. Calls take it by reference, or by value
/// where it is not needed afterwards.
///
/// ```
/// # use gridspan_rpc::calls::*;
/// # use gridspan_rpc::group::*;
/// # use gridspan_runtime::{Grid, Job, driver};
/// # use gridspan_workflow::heuristics::HeftC;
/// # const FILL: Function<(u64,), (Vec<u64>,)> =
/// #     Function::new("fill", |(n,), _| Ok(((0..n).collect(),)));
/// # const SUM: Function<(Vec<u64>,), (u64,)> =
/// #     Function::new("sum", |(v,), _| Ok((v.iter().sum(),)));
/// # struct Numbers;
/// # impl Catalogue for Numbers {
/// #     fn functions() -> Functions { Functions::new().with_parts(&FILL).with_parts(&SUM) }
/// # }
/// # async fn example(grid: &Grid) -> Result<(), RpcError> {
/// # let services: Services<Numbers> = Services::on_all_pes(grid).await?;
/// # let mapper = Mapper::new(&services);
/// # let calls = async |group: &CallGroup<'_, Services<Numbers>>| {
/// let (numbers,): (Lazy<Vec<u64>>,) = group.call(&FILL, (group.value(&10)?,));
/// let (first,) = group.call(&SUM, (&numbers,)); // needed again
/// let (second,) = group.call(&SUM, (numbers,));
/// let sums = (group.get(&first).await?, group.get(&second).await?);
/// # Ok(sums)
/// # };
/// # assert_eq!(mapper.map(&HeftC::default(), calls).await?, (45, 45));
/// # Ok(())
/// # }
/// # let job = with_rpc::<Numbers>(Job::new("numbers")).main(async |grid: Grid| {
/// #     example(&grid).await.map_err(|error| error.to_string().into())
/// # });
/// # driver::embedded::run(job, 2).unwrap();
/// ```
#[derive(Debug)]
pub struct Lazy<T> {
    /// The group's number and the data's version.
    pub(crate) token: Arc<(u32, u32)>,
    value: PhantomData<fn() -> T>,
}

impl<T> Clone for Lazy<T> {
    fn clone(&self) -> Self {
        Self { token: self.token.clone(), value: PhantomData }
    }
}

impl<T> Lazy<T> {
    pub(crate) fn new(token: Arc<(u32, u32)>) -> Self {
        Self { token, value: PhantomData }
    }
}
