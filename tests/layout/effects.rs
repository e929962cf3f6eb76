//! The files that may have external effects: the environment, clocks, files, threads, sockets.

use gridspan_studies::structure::{Source, named_paths};

/// An effect that pure code must not have.
struct Effect {
    what: &'static str,
    /// The paths of the effect, each with all paths below it.
    paths: &'static [&'static str],
    /// The folders and files that may name it.
    may: &'static [&'static str],
}

const EFFECTS: &[Effect] = &[
    Effect {
        what: "the environment",
        paths: &["std::env"],
        may: &[
            "crates/cli/src",
            "crates/rpc/src/group/disk.rs",
            "crates/runtime/src/driver/checkpoints/object_storage.rs",
            "crates/studies/src/cargo.rs",
            "src",
        ],
    },
    Effect {
        what: "clocks",
        paths: &["std::time::Instant", "std::time::SystemTime", "tokio::time"],
        may: &[
            "crates/cli/src",
            "crates/rpc-net/src",
            "crates/jobs/src/emulated_work.rs",
            "crates/runtime/src/driver",
            "crates/runtime/src/net",
            "crates/studies/src/figures/surroundings.rs",
            "src/processes.rs",
            "src/simulated.rs",
        ],
    },
    Effect {
        what: "files",
        paths: &["std::fs", "tokio::fs", "rustix::fs", "tempfile"],
        may: &[
            "crates/cli/src",
            "crates/record/src/folder.rs",
            "crates/rpc-net/src/server/daemon.rs",
            "crates/rpc-net/src/wire/token.rs",
            "crates/jobs/src/leanmd",
            "crates/jobs/src/mandelbrot",
            "crates/rpc/src/calls/config.rs",
            "crates/rpc/src/group/disk.rs",
            "crates/runtime/src/driver/checkpoints/folder.rs",
            "crates/runtime/src/driver/memory.rs",
            "crates/runtime/src/driver/share.rs",
            "crates/studies/src/figures/surroundings.rs",
            "crates/studies/src/processes.rs",
            "crates/studies/src/structure/source.rs",
            "src",
        ],
    },
    Effect {
        what: "processes",
        paths: &["std::process::Command", "std::process::exit", "rustix::process"],
        may: &[
            "crates/cli/src",
            "crates/jobs/src/fault_drill.rs",
            "crates/studies/src/cargo.rs",
            "crates/studies/src/figures/surroundings.rs",
            "crates/studies/src/mpi.rs",
            "src",
        ],
    },
    Effect {
        what: "threads",
        paths: &["std::thread", "rayon"],
        may: &[
            "src/node.rs",
            "crates/cli/src",
            "crates/rpc-net/src",
            "crates/jobs/src/fault_drill.rs",
            "crates/jobs/src/emulated_work.rs",
            "crates/runtime/src/driver",
            "crates/runtime/src/net",
            "crates/sim/src/campaign/runner.rs",
            "crates/studies/src/figures/surroundings.rs",
            "src/embed",
            "src/input.rs",
            "src/keeper",
            "src/processes.rs",
        ],
    },
    Effect {
        what: "tokio",
        paths: &["tokio"],
        may: &[
            "crates/cli/src",
            "crates/rpc-net/src",
            "crates/runtime/src/driver/checkpoints/object_storage.rs",
            "crates/runtime/src/net",
        ],
    },
    Effect {
        what: "sockets",
        paths: &[
            "std::net::UdpSocket",
            "std::net::TcpStream",
            "std::net::TcpListener",
            "std::os::unix::net",
            "quinn",
            "quinn_udp",
            "rustix::net",
            "polling",
        ],
        may: &[
            "crates/cli/src/check/udp.rs",
            "crates/cli/src/hosts/look_up.rs",
            "crates/cli/src/join.rs",
            "crates/cli/src/launch/requests.rs",
            "crates/cli/src/metrics/listener.rs",
            "crates/cli/src/request.rs",
            "crates/rpc-net/src",
            "crates/runtime/src/net",
        ],
    },
    Effect {
        what: "the terminal",
        paths: &["macro::print", "macro::println", "macro::eprint", "macro::eprintln"],
        may: &["crates/jobs/src"],
    },
    // The order of their keys would make two runs of one seed differ.
    Effect {
        what: "hash order",
        paths: &[
            "std::collections::HashMap",
            "std::collections::HashSet",
            "std::collections::hash_map",
            "std::hash::RandomState",
        ],
        may: &[],
    },
    // The numbers of one seed must depend neither on the code that draws them nor on the release of
    // `rand`.
    Effect {
        what: "dice other than those of topology",
        paths: &["rand", "rand_core", "rand_pcg"],
        may: &["crates/topology/src/dice.rs"],
    },
    Effect {
        what: "unseeded dice",
        paths: &["ring::rand"],
        may: &["crates/rpc-net/src/client/task_client.rs"],
    },
];

/// Returns the files with a forbidden effect, and the paths that they name.
pub(crate) fn violations(sources: &[Source]) -> Vec<String> {
    let is_in = |path: &str, folder: &str, separator: &str| {
        let rest = path.strip_prefix(folder);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(separator))
    };
    let libraries: Vec<&Source> = sources.iter().filter(|source| source.is_library()).collect();
    let mut found = Vec::new();
    for named in named_paths(sources) {
        if !libraries.iter().any(|source| source.path == named.file) {
            continue;
        }
        for Effect { what, paths, may } in EFFECTS {
            let is_effect = paths.iter().any(|path| is_in(&named.path, path, "::"));
            if is_effect && !may.iter().any(|folder| is_in(&named.file, folder, "/")) {
                found.push(format!("{what}: {} names {}", named.file, named.path));
            }
        }
    }
    found
}
