//! Hydropad by single calls and as a group: the same bits, and little through the client.
#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::{SITES, built_in, emulated, everywhere, simulate};
use gridspan_runtime::driver::embedded;
use gridspan_sim::{SimOptions, Simulation};
use gridspan_topology::GridSpec;

#[test]
fn all_forms_agree_bit_for_bit_under_every_driver() {
    everywhere(|| built_in("hydropad", "-n 8 --steps 7 --window 3 --form all"));
}

#[test]
fn any_heuristic_and_any_speeds_give_the_same_bits() {
    for heuristic in ["greedy", "heft", "portfolio", "random"] {
        let words = format!(
            "-n 8 --steps 5 --window 2 --form all --start sent --heuristic {heuristic} --speeds 0.5,2,1"
        );
        simulate(built_in("hydropad", &words), SITES).outcome.unwrap();
    }
}

#[test]
fn a_wave_is_followed_to_where_it_would_break() {
    let words = "-n 12 --particles 16 --steps 500 --window 20 --form group";
    simulate(built_in("hydropad", words), "1x3").outcome.unwrap();
}

/// What a client in a site of its own sends and gets, with two servers in another.
fn client_bytes(words: &str) -> u64 {
    let place = "site.client.hosts = ['c']\nsite.servers.hosts = ['s1', 's2']";
    let spec = GridSpec::from_toml(place).unwrap();
    let job = built_in("hydropad", words);
    let report = Simulation::new(job, spec, SimOptions::default()).unwrap().run();
    assert_eq!(report.outcome, Ok(()));
    report.wide_area_bytes
}

#[test]
fn the_data_of_a_group_does_not_go_through_the_client() {
    let cells = 16_u64.pow(3);

    let plain = client_bytes("-n 16 --steps 11 --form plain");
    let sent = client_bytes("-n 16 --steps 11 --form group --start sent");
    let made = client_bytes("-n 16 --steps 11 --form group --start made");

    // A step of plain calls moves 18 numbers for each cell and 12 for each particle; a start has 7 and 6.
    assert!(plain > 11 * 30 * 8 * cells, "{plain}");
    assert!(sent < 13 * 8 * cells + 50_000, "{sent}");
    assert!(made < 50_000, "{made}");
}

#[test]
fn gaps_between_particles_are_refused_with_advice() {
    let job = built_in("hydropad", "-n 8 --particles 4");
    let error = embedded::run(job, 1).unwrap_err().to_string();
    assert!(error.contains("use at least as many"), "{error}");
    assert!(emulated(built_in("hydropad", "-n 8 --steps 0"), "2x1,wan=1ms").is_ok());
}
