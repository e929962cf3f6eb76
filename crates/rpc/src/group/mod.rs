//! Groups of calls, mapped as a whole and executed where they were mapped (paper 5, section 3).
//!
//! | part | is |
//! | --- | --- |
//! | `map`, `begin`, `windows` | what `main` uses: [`CallGroup`] gathers calls and hands them on as windows |
//! | `server_pool` | what groups need of servers, whoever runs them; `in_job`: those of a job |
//! | `lazy`, `parts` | results that are not there yet, and functions of several arguments |
//! | `executable` | calls that cannot be executed at all fail before the others are mapped |
//! | `discovery` | from gathered calls to a task graph, with volumes and times as learned |
//! | `given_graph` | mapped as a graph says that was given |
//! | `platforms`, `observed_speed` | what the mapping sees of servers and links |
//! | `in_job_driver` | has servers of a job carry a window out, as the [dispatcher](gridspan_workflow::execution) says |
//! | `routes`, `trees` | the ways of data to several servers |
//! | `keyed_mutex` | one window at a time, whoever asks |
//! | `order`, `store` | orders, and what a server keeps for them; `object_store`, `disk`, `free_list`: where it keeps data |
//! | `ranges` | sets of data by number |
//!
//! **Discovery** takes one pass. A call inside a group returns at once, with results that are names
//! of data; giving them to further calls makes dependencies. Code between calls runs once, as it
//! stands; a result that decides how to go on is awaited with [`CallGroup::get`], which ends a window
//! of calls: it is mapped and executed, and the next begins.
//!
//! **Execution.** Every server gets its orders at once. It begins one when its data is there, the
//! one that the mapping prefers first, keeps the results, and sends them to the servers that the
//! mapping names, once to each other site, where they are passed on, or over a tree that was
//! planned for large data; in segments, so that what is passed on need not have come as a whole.
//! What is beyond the memory of a server goes to its disk. The client gets what it asks for, and
//! nothing else.
//!
//! **Failure.** A function that fails is not tried again: its failure is sent on, so that all that
//! depends on it ends with the same reason. A server that leaves hands all it has to another. What
//! is lost with one that does not is made again within its window, as far as what it is made from
//! is there; otherwise the window says so. Servers that turn out to be slow may lose tasks to
//! others, if the mapper [is told to](Mapper::with_rescue).
//!
//! **End.** All servers that something of a group may reach are told what nobody needs any more,
//! and of its end, or that it was dropped: they refuse what comes late, of attempts that came to
//! nothing.
//!
//! ```
//! use gridspan_rpc::calls::{Catalogue, Function, Functions, Services, with_rpc};
//! use gridspan_rpc::group::Mapper;
//! use gridspan_workflow::heuristics::HeftC;
//! use gridspan_runtime::{Grid, Job, JobError, driver};
//!
//! const FILL: Function<(u64,), (Vec<u64>,)> = Function::new("fill", |(n,), _| Ok(((0..n).collect(),)));
//! const SUM: Function<(Vec<u64>,), (u64,)> = Function::new("sum", |(v,), _| Ok((v.iter().sum(),)));
//!
//! struct Numbers;
//!
//! impl Catalogue for Numbers {
//!     fn functions() -> Functions {
//!         Functions::new().with_parts(&FILL).with_parts(&SUM)
//!     }
//! }
//!
//! let job = with_rpc::<Numbers>(Job::new("sums")).main(async |grid: Grid| {
//!     let failed = |error: gridspan_rpc::calls::RpcError| JobError::from(error.to_string());
//!     let services: Services<Numbers> = Services::on_all_pes(&grid).await.map_err(failed)?;
//!     let sum = Mapper::new(&services)
//!         .map(&HeftC::default(), async |group| {
//!             let (numbers,) = group.call(&FILL, (group.value(&10)?,));
//!             let (sum,) = group.call(&SUM, (numbers,)); // the numbers stay where they were made
//!             group.get(&sum).await
//!         })
//!         .await
//!         .map_err(failed)?;
//!     assert_eq!(sum, 45);
//!     Ok(())
//! });
//! assert_eq!(driver::embedded::run(job, 2), Ok(()));
//! ```

mod begin;
mod discovery;
pub(crate) mod disk;
mod executable;
mod free_list;
mod given_graph;
mod in_job;
mod in_job_driver;
mod keyed_mutex;
mod lazy;
mod map;
mod object_store;
mod observed_speed;
pub(crate) mod order;
pub(crate) mod parts;
mod platforms;
pub(crate) mod ranges;
mod routes;
mod server_pool;
pub(crate) mod store;
mod trees;
mod windows;

pub use disk::Room;
pub use lazy::Lazy;
pub use map::{CallGroup, Mapper};
pub use object_store::ObjectStore;
pub use order::{DataKey, Done, Fault};
pub use parts::{Arguments, Parts};
pub use server_pool::{Beliefs, DataSegment, Encoded, Freed, ServerPool};
pub use windows::{CallWindow, Execute, error_of};
