//! Where log lines of the runtime go: standard error, as much as asked for.

use tracing_subscriber::EnvFilter;

/// The variable that chooses in detail what to log.
pub(crate) const VARIABLE: &str = "RUST_LOG";

/// Logs from here on. `verbose` counts the `-v` and comes before RUST_LOG.
pub(crate) fn init(verbose: u8) {
    let filter = match directives(verbose) {
        Some(directives) => EnvFilter::new(directives),
        None => EnvFilter::builder()
            .with_default_directive(tracing::Level::WARN.into())
            .from_env_lossy(),
    };
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_target(true)
        .init();
}

/// What `-v` stands for, in the words of RUST_LOG; nothing without it.
pub(crate) fn directives(verbose: u8) -> Option<&'static str> {
    match verbose {
        0 => None,
        1 => Some("info"),
        2 => Some("debug"),
        _ => Some("trace"),
    }
}
