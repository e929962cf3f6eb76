//! scratch
use gridspan_runtime::driver::embedded;
use gridspan_topology::GridSpec;
fn main() {
    let a: Vec<String> = std::env::args().skip(1).collect();
    let job = gridspan_jobs::find(&a[1]).unwrap();
    let job = (job.build)(&a[2..])
        .unwrap_or_else(|e| e.exit())
        .strategy(std::env::var("LB").unwrap_or("none".into()));
    let r = if let Ok(n) = a[0].parse() {
        embedded::run(job, n).map_err(|e| e.to_string())
    } else if let Some(s) = a[0].strip_prefix("sim:") {
        let r = gridspan_sim::Simulation::new(
            job,
            GridSpec::from_emulate(s).unwrap(),
            Default::default(),
        )
        .unwrap()
        .run();
        eprintln!(
            "virtual {} events {} messages {} wan frames {} bytes {}",
            r.virtual_time, r.events, r.messages, r.wide_area_frames, r.wide_area_bytes
        );
        r.outcome.map_err(|e| e.to_string())
    } else {
        embedded::run_emulated(job, &GridSpec::from_emulate(&a[0]).unwrap())
            .map_err(|e| e.to_string())
    };
    if let Err(e) = r {
        eprintln!("error: {e}");
        std::process::exit(1)
    }
}
