//! A reference to read-only data that is present on every PE.

use crate::schema::handle;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::marker::PhantomData;

/// Names a value that `main` has published. Put it into messages and inits, and read it with
/// [`Context::read`](crate::Context::read).
///
/// ```
/// # use gridspan::{embed::Runner, prelude::*};
/// # #[derive(Serialize, Deserialize)]
/// # struct Cell(u64);
/// impl Actor for Cell {
///     # type Index = Ix1;
///     # type Init = ();
///     # type Message = Published<Vec<u64>>;
///     # fn create((): (), _cx: &mut Context<Self>) -> Self { Cell(0) }
///     fn handle(&mut self, table: Published<Vec<u64>>, cx: &mut Context<Self>) {
///         if let Some(table) = cx.read(&table) {
///             cx.contribute(Sum, table[cx.index().0 as usize], To::main());
///         }
///     }
/// }
/// # let job = Job::new("cells").actor::<Cell>().main(async |grid: Grid| {
/// let table: Published<Vec<u64>> = grid.publish(&vec![1, 10, 100]).await?;
/// let cells = grid.create::<Cell>(Ix1::range(3), |_| ()).await?;
/// cells.broadcast(table);
/// assert_eq!(cells.reduction::<u64>(Sum).await?, 111);
/// # Ok(())
/// # });
/// # Runner::on_threads(2).run(job).unwrap();
/// ```
#[derive(Debug)]
pub struct Published<T> {
    pub(crate) id: u32,
    kind: PhantomData<fn() -> T>,
}

impl<T> Clone for Published<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Published<T> {}

impl<T> Published<T> {
    pub(crate) const fn new(id: u32) -> Self {
        Self { id, kind: PhantomData }
    }
}

impl<T> Serialize for Published<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.id.serialize(serializer)
    }
}

/// The schema includes the type of the value.
impl<'de, T: Deserialize<'de>> Deserialize<'de> for Published<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self::new(handle::read::<_, T, D>(deserializer)?))
    }
}
