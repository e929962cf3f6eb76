//! Groups of calls, mapped as a whole and executed on the servers to which they were mapped: Brady,
//! Dongarra, Guidolin, Lastovetsky and Seymour (2010), "SmartGridRPC", section 3.
//!
//! | part | is |
//! | --- | --- |
//! | `resumed`, `repeated`, `sequence` | groups that go on after a restoration: which calls are executed again, and the check that the program makes the same calls as before |
//! | `map`, `begin`, `windows` | the API for `main`: [`CallGroup`] gathers calls and executes them as windows |
//! | `server_pool` | the interface to servers of any kind; `in_job`: those of a job |
//! | `lazy`, `parts` | results that do not exist yet, and functions of several arguments |
//! | `executable` | fails the calls that cannot be executed before the others are mapped |
//! | `discovery` | builds a task graph from gathered calls, with learned volumes and times |
//! | `given_graph` | mapping along a given graph |
//! | `platforms`, `observed_speed` | servers and links as the mapping sees them |
//! | `in_job_driver` | executes a window on the servers of a job by the commands of the [dispatcher](gridspan_workflow::execution) |
//! | `routes`, `trees` | the routes of data to several servers |
//! | `keyed_mutex` | excludes concurrent windows, and concurrent fetches of the same data |
//! | `order`, `store` | orders, and a server's record of them; `object_store`, `disk`, `free_list`: its data |
//! | `ranges` | sets of data by number |
//!
//! **Discovery** takes one pass. A call inside a group returns at once, with results that are names
//! of data; passing them to further calls creates dependencies. Code between calls runs once. If
//! the code needs a result, it awaits it with [`CallGroup::get`], which ends a window of calls: the
//! window is mapped and executed, and the next begins.
//!
//! **Execution.** Every server gets all its orders at once. Of the orders whose data has arrived,
//! it executes the one with the lowest place in the mapping first. It keeps the results, and sends
//! them to the servers that need them. If the mapping relays, they go once to each other site,
//! where they are passed on, or over a planned tree if they are large. Data travels in segments, so
//! that a server passes it on before all of it has arrived. Data beyond a server's memory goes to
//! its disk. The client gets only the data that it asks for.
//!
//! **Failure.** A function that fails is not tried again: its failure is sent on in place of its
//! results, so that all dependent calls end with the same reason. A server that leaves hands its
//! data to another. Data that is lost with a server is made again within its window, if the inputs
//! still exist; otherwise the calls that need it fail. Tasks of servers that turn out to be slow
//! may move to others, if the mapper [has a policy for it](Mapper::with_straggler_policy).
//!
//! **Checkpoints.** A checkpoint contains the data that servers hold in memory. A main that begins
//! again [goes on](Mapper::resume) with a group: it gathers the calls again, and executes those
//! whose results are missing. In a window, main asks servers questions, and asks them again after a
//! restoration. So a window does not postpone checkpoints.
//!
//! **End.** All servers that may hold data or orders of a group are notified when data is freed,
//! and when the group ends or is dropped. They then drop late data, and refuse late orders.
//!
//! ```
//! use gridspan_rpc::calls::{Catalogue, Function, Functions, Services, with_rpc};
//! use gridspan_rpc::group::Mapper;
//! use gridspan_workflow::heuristics::HeftC;
//! use gridspan_runtime::{Grid, Job, JobError, driver};
//!
//! const FILL: Function<(u64,), (Vec<u64>,)> =
//!     Function::new("fill", |(n,), _| Ok(((0..n).collect(),)));
//! const SUM: Function<(Vec<u64>,), (u64,)> =
//!     Function::new("sum", |(v,), _| Ok((v.iter().sum(),)));
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
//!     let services: Services<Numbers> = Services::on_all_pes(&grid).await?;
//!     let sum = Mapper::new(&services)
//!         .map(&HeftC::default(), async |group| {
//!             let (numbers,) = group.call(&FILL, (group.value(&10)?,));
//!             let (sum,) = group.call(&SUM, (numbers,)); // the numbers stay where they were made
//!             group.get(&sum).await
//!         })
//!         .await?;
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
mod repeated;
mod resumed;
mod routes;
mod sequence;
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
pub use resumed::GroupRef;
pub use server_pool::{AssumedLinks, DataSegment, Encoded, Freed, ServerPool};
pub use windows::{CallWindow, Execute, error_of};
