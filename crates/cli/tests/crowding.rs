//! Many nodes on few cores. The test is alone in its file, so that no other test shares the machine
//! with it.
#![allow(missing_docs)]

mod common;

#[test]
fn many_nodes_that_share_a_core_do_not_consider_each_other_lost() {
    let nodes = 40 * std::thread::available_parallelism().map_or(1, usize::from).min(4);
    let output = common::run(&["run", "-n", &nodes.to_string(), "drill"]);

    assert_eq!(output.code, Some(0), "{output:?}");
    assert!(output.stdout.contains(&format!("{nodes} lines from {nodes} nodes")), "{output:?}");
}
