//! Logging of the runtime to standard error.

use tracing_subscriber::EnvFilter;

/// Variable that selects in detail what to log.
pub(crate) const VARIABLE: &str = "RUST_LOG";

/// Starts logging. `verbose` counts the `-v` flags and takes precedence over RUST_LOG.
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

/// Returns the value of RUST_LOG that is equivalent to this number of `-v` flags; `None` for 0.
pub(crate) fn directives(verbose: u8) -> Option<&'static str> {
    match verbose {
        0 => None,
        1 => Some("info"),
        2 => Some("debug"),
        _ => Some("trace"),
    }
}
