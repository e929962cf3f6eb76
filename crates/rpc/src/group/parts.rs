//! Functions of several arguments and results, each of which is separate data.
//!
//! A tuple is encoded as its parts one after the other, so arguments from different servers are
//! joined as bytes.

use super::lazy::Lazy;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::borrow::Borrow;
use std::sync::Arc;

/// A tuple of one to six arguments or results.
///
/// ```
/// use gridspan_rpc::calls::{Function, Functions};
/// use gridspan_rpc::group::Parts;
///
/// /// The quotient and the remainder may go to different servers.
/// const DIVIDE: Function<(u64, u64), (u64, u64)> =
///     Function::new("divide", |(n, by), _| match by {
///         0 => Err("a division by zero".to_owned()),
///         by => Ok((n / by, n % by)),
///     });
/// assert_eq!(<(u64, u64)>::COUNT, 2);
/// assert!(Functions::new().with_parts(&DIVIDE).names().eq(["divide"]));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a tuple of one to six parts",
    label = "functions of groups take and return tuples",
    note = "write `Function<(A, B), (C,)>` for a function of two arguments and one result; call a function of other types by `GridRpc::call`, and add it by `Functions::with`"
)]
pub trait Parts: Serialize + DeserializeOwned + 'static {
    /// The tuple of the [`Lazy`]s of its parts.
    type Lazies;
    /// Number of parts.
    const COUNT: usize;
    /// Encodes each part separately.
    ///
    /// # Errors
    ///
    /// The reason if a part cannot be encoded.
    fn encode(&self) -> Result<Vec<Vec<u8>>, String>;
    /// Creates a name for each part.
    fn lazies(tokens: &mut dyn FnMut() -> Arc<(u32, u32)>) -> Self::Lazies;
}

/// Arguments of a call of a function of `I`: a tuple of [`Lazy`]s or references to them.
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
/// # type Group<'a> = CallGroup<'a, Services<Numbers>>;
/// # async fn example(grid: &Grid) -> Result<(), RpcError> {
/// # let services: Services<Numbers> = Services::on_all_pes(grid).await?;
/// # let mapper = Mapper::new(&services);
/// fn sum(group: &Group<'_>, numbers: impl Arguments<(Vec<u64>,)>) -> Lazy<u64> {
///     group.call(&SUM, numbers).0
/// }
///
/// # let calls = async |group: &Group<'_>| {
/// let (numbers,) = group.call(&FILL, (group.value(&10)?,));
/// let (first, second) = (sum(group, (&numbers,)), sum(group, (numbers,)));
/// assert_eq!(group.get(&first).await?, group.get(&second).await?);
/// # Ok(())
/// # };
/// # mapper.map(&HeftC::default(), calls).await?;
/// # Ok(())
/// # }
/// # let job = with_rpc::<Numbers>(Job::new("numbers")).main(async |grid: Grid| {
/// #     example(&grid).await.map_err(|error| error.to_string().into())
/// # });
/// # driver::embedded::run(job, 2).unwrap();
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the arguments of a function of `{I}`",
    label = "expected a tuple of `Lazy`s or references to them",
    note = "write a tuple with one `Lazy` for each argument, such as `(numbers,)`; `group.value(&value)?` makes one of a value"
)]
pub trait Arguments<I> {
    /// The named data, each as its group and its number.
    fn into_tokens(self) -> Vec<(u32, u32)>;
}

macro_rules! parts {
    ($count:literal: $($part:ident $given:ident $place:tt),*) => {
        impl<$($part: Serialize + DeserializeOwned + 'static),*> Parts for ($($part,)*) {
            type Lazies = ($(Lazy<$part>,)*);
            const COUNT: usize = $count;

            fn encode(&self) -> Result<Vec<Vec<u8>>, String> {
                let why = |error: postcard::Error| format!("a result cannot be encoded: {error}");
                Ok(vec![$(postcard::to_stdvec(&self.$place).map_err(why)?),*])
            }

            fn lazies(tokens: &mut dyn FnMut() -> Arc<(u32, u32)>) -> Self::Lazies {
                ($(Lazy::<$part>::new(tokens()),)*)
            }
        }

        #[diagnostic::do_not_recommend]
        impl<$($part, $given: Borrow<Lazy<$part>>),*> Arguments<($($part,)*)> for ($($given,)*) {
            fn into_tokens(self) -> Vec<(u32, u32)> {
                vec![$(*self.$place.borrow().token),*]
            }
        }
    };
}

parts!(1: A X 0);
parts!(2: A X 0, B Y 1);
parts!(3: A X 0, B Y 1, C Z 2);
parts!(4: A X 0, B Y 1, C Z 2, D U 3);
parts!(5: A X 0, B Y 1, C Z 2, D U 3, E V 4);
parts!(6: A X 0, B Y 1, C Z 2, D U 3, E V 4, F W 5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_encodings_of_the_parts_form_that_of_the_tuple() {
        let tuple = (vec![1_u64, 300], "text".to_owned(), -7_i32);

        let parts = tuple.encode().unwrap();

        assert_eq!(parts.len(), 3);
        assert_eq!(parts.concat(), postcard::to_stdvec(&tuple).unwrap());
    }
}
