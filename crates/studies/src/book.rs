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
    InternalsTopology = "internals/topology.md",
    InternalsBalance = "internals/balance.md",
    InternalsBcast = "internals/bcast.md",
    InternalsRecord = "internals/record.md",
    InternalsPlan = "internals/plan.md",
    InternalsRuntime = "internals/runtime.md",
    InternalsRanks = "internals/ranks.md",
    InternalsSim = "internals/sim.md",
    InternalsKernels = "internals/kernels.md",
    InternalsJobs = "internals/jobs.md",
    InternalsWorkflow = "internals/workflow.md",
    InternalsRpc = "internals/rpc.md",
    InternalsRpcNet = "internals/rpc-net.md",
    InternalsCli = "internals/cli.md",
    InternalsFacade = "internals/facade.md",
    InternalsStudies = "internals/studies.md",
    Glossary = "glossary.md",
}
