//! Large data that several servers need, from the client or from a server, in virtual time.

use gridspan_rpc::calls::{
    Catalogue, Function, Functions, RpcError, ServerPlan, Services, with_rpc,
};
use gridspan_rpc::group::{CallGroup, Lazy, Mapper};
use gridspan_runtime::{Grid, Job, Numbers};
use gridspan_sim::{SimOptions, Simulation};
use gridspan_topology::GridSpec;
use gridspan_workflow::heuristics::by_name;
use std::sync::mpsc;

type Bytes = Numbers<u8>;

const SIZE: usize = 20_000_000;

const LOOK: Function<(Bytes, u64), (u64,)> =
    Function::new("look", |(bytes, number): (Bytes, u64), _| Ok((bytes.len() as u64 + number,)))
        .computes("100")
        .gives(&["8"]);
const MAKE: Function<(u64,), (Bytes,)> =
    Function::new("make", |(bytes,), _| Ok((vec![3; bytes as usize].into(),)))
        .computes("0")
        .gives(&["20000000"]);

struct Looks;

impl Catalogue for Looks {
    fn functions() -> Functions {
        Functions::new().with_parts(&LOOK).with_parts(&MAKE)
    }
}

/// A client whose link to one of two sites is five times as fast as that to the other, and a still
/// faster link between the sites.
const PLACE: &str = "
    site.c.hosts = ['c']
    site.b.hosts = ['b1', 'b2']
    site.d.hosts = ['d1', 'd2']
    [[link]]
    between = ['c', 'b']
    latency = '5ms'
    bandwidth = '200mbit'
    [[link]]
    between = ['c', 'd']
    latency = '5ms'
    bandwidth = '40mbit'
    [[link]]
    between = ['b', 'd']
    latency = '5ms'
    bandwidth = '800mbit'
";

/// Makes all four servers read the same data; returns the time, in seconds.
async fn readers(
    grid: &Grid,
    group: &CallGroup<'_, Services<Looks>>,
    data: &Lazy<Bytes>,
) -> Result<f64, RpcError> {
    let begin = grid.now().await.unwrap();
    let mut results = Vec::new();
    for number in 0..4_u64 {
        let number = group.value(&number)?;
        results.push(group.call(&LOOK, (data, &number)).0);
    }
    for (number, result) in (0..).zip(&results) {
        assert_eq!(group.get(result).await?, SIZE as u64 + number);
    }
    Ok(grid.now().await.unwrap().since(begin).as_secs_f64())
}

/// Returns the times in seconds until all servers have read data of the client, and until they have
/// read data of a server.
fn times(heuristic: &'static str) -> [f64; 2] {
    let (tell, told) = mpsc::channel();
    let job = with_rpc::<Looks>(Job::new("broadcasts")).main(async move |grid: Grid| {
        let services = Services::new(&grid).await?;
        for pe in grid.layout().pes().skip(1) {
            services.join(ServerPlan::new(pe.to_string(), pe)).await?;
        }
        let heuristic = by_name(heuristic, 1).unwrap();
        let mapper = Mapper::new(&services);
        let sent = mapper.map(&*heuristic, async |group| {
            let data = group.value::<Bytes>(&vec![7; SIZE].into())?;
            let of_client = readers(&grid, group, &data).await?;
            let (made,) = group.call(&MAKE, (group.value(&(SIZE as u64))?,));
            group.run().await?;
            Ok([of_client, readers(&grid, group, &made).await?])
        });
        tell.send(sent.await?).unwrap();
        assert_eq!(services.kept_bytes().await?, 0);
        Ok(())
    });
    let spec = GridSpec::from_toml(PLACE).unwrap();
    let report = Simulation::new(job, spec, SimOptions::default()).unwrap().run();
    assert_eq!(report.outcome, Ok(()));
    told.recv().unwrap()
}

#[test]
fn large_data_leaves_its_holder_once_and_servers_pass_it_on() {
    let [one_by_one, planned] = ["heft", "heft-c"].map(times);

    // 160 Mbit go twice over 40 Mbit/s without a plan, and once over 200 Mbit/s with one.
    assert!(one_by_one[0] > 8.0, "{one_by_one:?}");
    assert!((0.8..0.9).contains(&planned[0]), "{planned:?}");
    // They go twice over 800 Mbit/s without a plan, and once with it.
    assert!(one_by_one[1] > 0.4 && (0.2..0.3).contains(&planned[1]), "{one_by_one:?} {planned:?}");
}
