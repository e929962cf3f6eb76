//! Arguments and results larger than a message, and data beyond the memory of a server.

use gridspan_rpc::calls::{
    Catalogue, Config, Function, Functions, GridRpc, RpcError, ServerPlan, Services, with_rpc,
};
use gridspan_rpc::group::{Mapper, Room};
use gridspan_runtime::{Grid, Job, JobError, Numbers, driver};
use gridspan_sim::{SimOptions, Simulation};
use gridspan_topology::GridSpec;
use gridspan_workflow::heuristics::HeftC;
use std::path::{Path, PathBuf};

type Bytes = Numbers<u8>;

/// `count` bytes (rounded down to a multiple of 256), each different from the one before.
fn bytes(count: u64, seed: u64) -> Vec<u8> {
    let once: Vec<u8> = (0..256).map(|at| (at * 31 + seed) as u8).collect();
    once.repeat(count as usize / 256)
}

const MAKE: Function<(u64, u64), (Bytes,)> =
    Function::new("make", |(count, seed), _| Ok((bytes(count, seed).into(),)));
/// Adds one to each byte of [`bytes`]. As 31 times 223 is 1 modulo 256, a rotation by 223 does so
/// too, in less time than a loop in an unoptimised build.
const NEXT: Function<(Bytes,), (Bytes,)> = Function::new("next", |(bytes,), _| {
    let (first, rest) = bytes.split_at(223);
    Ok(([rest, first].concat().into(),))
});
const SUM: Function<(Bytes, Bytes), (u64,)> =
    Function::new("sum", |(one, other), _| Ok((sum(&one).wrapping_add(sum(&other)),)));

/// The sum of the words of eight bytes, modulo 2^64.
fn sum(bytes: &[u8]) -> u64 {
    let words = bytes.as_chunks::<8>().0;
    words.iter().fold(0, |sum: u64, &word| sum.wrapping_add(u64::from_le_bytes(word)))
}

struct Large;

impl Catalogue for Large {
    fn functions() -> Functions {
        Functions::new().with_parts(&MAKE).with_parts(&NEXT).with_parts(&SUM)
    }
}

fn job(
    room: Room,
    main: impl AsyncFnOnce(Services<Large>) -> Result<(), RpcError> + Send + 'static,
) -> Job {
    with_rpc::<Large>(Job::new("large")).main(async move |grid: Grid| {
        let services = Services::new(&grid).await?;
        for pe in grid.layout().pes().skip(1) {
            let plan = ServerPlan::new(pe.to_string(), pe).with_room(room.clone());
            services.join(plan).await?;
        }
        main(services).await.map_err(JobError::from)
    })
}

/// Runs `main` in virtual time over a wide area, where all messages between nodes are encoded in
/// frames.
fn over_wide_area(
    room: Room,
    main: impl AsyncFnOnce(Services<Large>) -> Result<(), RpcError> + Send + 'static,
) {
    let spec = GridSpec::from_emulate("3x1,wan=10ms").unwrap();
    let report = Simulation::new(job(room, main), spec, SimOptions::default()).unwrap().run();
    assert_eq!(report.outcome, Ok(()));
}

/// More than a frame of 64 MiB.
const LARGE: u64 = 66 << 20;

#[test]
fn arguments_and_results_may_be_larger_than_a_message() {
    over_wide_area(Room::default(), async |services| {
        let mut rpc = GridRpc::new(&services);
        rpc.initialize(&Config::default())?;
        let handle = rpc.handle(&NEXT).await?;
        let session = rpc.call_async(&handle, &(bytes(LARGE, 0).into(),)).await?;
        assert!(rpc.wait(&session).await?.0[..] == bytes(LARGE, 1)[..]);
        Ok(())
    });
}

#[test]
fn data_of_groups_may_be_larger_than_a_message() {
    over_wide_area(Room::default(), async |services| {
        let mapper = Mapper::new(&services);
        let (total, next) = mapper
            .map(&HeftC::default(), async |group| {
                let value = group.value::<Bytes>(&bytes(LARGE, 0).into())?;
                let (count, seed) = (group.value(&LARGE)?, group.value(&1)?);
                let (made,) = group.call(&MAKE, (&count, &seed));
                let (next,) = group.call(&NEXT, (&value,));
                let (sum,) = group.call(&SUM, (&made, &next));
                Ok((group.get(&sum).await?, group.get(&next).await?))
            })
            .await?;
        assert_eq!(total, sum(&bytes(LARGE, 1)).wrapping_mul(2));
        assert!(next[..] == bytes(LARGE, 1)[..]);
        assert_eq!(services.kept_bytes().await?, 0);
        Ok(())
    });
}

async fn beyond_memory(services: Services<Large>, folder: PathBuf) -> Result<(), RpcError> {
    let mapper = Mapper::new(&services);
    let size = 9 << 20;
    mapper
        .map(&HeftC::default(), async |group| {
            let (count, seed) = (group.value(&size)?, group.value(&0)?);
            let (mut state,) = group.call(&MAKE, (&count, &seed));
            let mut all = vec![state.clone()];
            for _ in 0..6 {
                (state,) = group.call(&NEXT, (state,));
                all.push(state.clone());
            }
            for (seed, state) in (0..).zip(&all) {
                assert!(group.get(state).await?[..] == bytes(size, seed)[..], "{seed}");
            }
            assert!(files(&folder) > 0, "seven vectors exceed the memory of the servers");
            Ok(())
        })
        .await?;
    assert_eq!(services.kept_bytes().await?, 0);
    Ok(())
}

/// Number of files that this process has open in a folder, where they have no names.
fn files(folder: &Path) -> usize {
    assert_eq!(folder.read_dir().unwrap().count(), 0, "a killed server leaves nothing");
    let open = Path::new("/proc/self/fd").read_dir().unwrap();
    let targets = open.filter_map(|entry| entry.unwrap().path().read_link().ok());
    targets.filter(|target| target.starts_with(folder)).count()
}

fn small(folder: &Path) -> Room {
    Room::default().with_memory_bytes(10 << 20).with_folder(folder)
}

#[test]
fn data_beyond_the_memory_of_servers_is_on_disk_until_the_group_ends() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_owned();

    over_wide_area(small(folder.path()), async move |services| beyond_memory(services, path).await);

    assert_eq!(files(folder.path()), 0);
}

#[test]
fn the_files_of_servers_on_threads_are_closed_with_the_job() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_owned();
    let job = job(small(folder.path()), async move |services| beyond_memory(services, path).await);

    assert_eq!(driver::embedded::run(job, 3), Ok(()));

    assert_eq!(files(folder.path()), 0);
}

#[test]
fn a_server_without_room_fails_the_group_and_says_what_to_do() {
    let tiny = Room::default().with_memory_bytes(1 << 20).with_disk_bytes(3 << 20);
    over_wide_area(tiny, async |services| {
        let mapper = Mapper::new(&services);
        let failed = mapper
            .map(&HeftC::default(), async |group| {
                let (count, seed) = (group.value(&(4 << 20))?, group.value(&0)?);
                let (state,) = group.call(&MAKE, (&count, &seed));
                let (state,) = group.call(&NEXT, (state,));
                group.get(&state).await.map(|_| ())
            })
            .await;
        let error = failed.unwrap_err().to_string();
        assert!(
            error.contains("give it more memory, or a higher limit of bytes on disk"),
            "{error}"
        );
        assert_eq!(services.kept_bytes().await?, 0);
        Ok(())
    });
}
