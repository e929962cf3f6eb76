//! The code blocks of the book compile and run as tests of documentation.

macro_rules! chapters {
    ($($name:ident = $file:literal),* $(,)?) => {
        $(#[doc = include_str!(concat!("../../../docs/src/", $file))] struct $name;)*
    };
}

chapters! {
    Introduction = "introduction.md",
    GettingStarted = "getting-started.md",
    WritingJobs = "writing-jobs.md",
    Embedding = "embedding.md",
    GridFiles = "grid-files.md",
    Lab = "lab.md",
    Running = "running.md",
    Clusters = "clusters.md",
    Topology = "topology.md",
    Balancing = "balancing.md",
    Broadcasts = "broadcasts.md",
    Tasks = "tasks.md",
    Ranks = "ranks.md",
    Calls = "calls.md",
    Simulator = "simulator.md",
    Promises = "promises.md",
    Faults = "faults.md",
    Losses = "losses.md",
    Figures = "figures.md",
    FromMpi = "from-mpi.md",
    FromCharm = "from-charm.md",
    FromRay = "from-ray.md",
    Internals = "internals.md",
    Glossary = "glossary.md",
}
