//! Prints figures on the structure of the workspace's source code.
//!
//! ```text
//! cargo run -p gridspan-studies --example structure [ROOT]
//! ```

use gridspan_studies::structure::{
    CodeLines, SourceError, circles, code_lines, fields, guards, read, shared_names,
};
use std::path::PathBuf;
use std::process::ExitCode;

/// The crate and struct of a processing element, and its part that exists only at the root.
const PE: (&str, &str, &str) = ("runtime", "Core", "root");

fn main() -> ExitCode {
    let root = std::env::args_os().nth(1).map_or_else(|| PathBuf::from("."), PathBuf::from);
    match print(&root) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("structure: {error}; run it at the root of the workspace, or name the root");
            ExitCode::FAILURE
        }
    }
}

fn print(root: &std::path::Path) -> Result<(), SourceError> {
    let sources = read(root)?;
    println!("code lines      src  benches and examples");
    let mut sum = CodeLines::default();
    for (member, lines) in code_lines(&sources) {
        println!("{member:<12}{:>7}{:>10}", lines.source, lines.benches_and_examples);
        sum.source += lines.source;
        sum.benches_and_examples += lines.benches_and_examples;
    }
    println!("{:<12}{:>7}{:>10}", "all", sum.source, sum.benches_and_examples);

    let (member, core, part) = PE;
    println!("\nfields of {core}: {}", fields(&sources, member, core).len());
    let found = guards(&sources, "crates/runtime/src", part);
    println!(
        "guards on `{part}`: {} `let … else`, {} uses in {} files",
        found.let_else, found.uses, found.files
    );

    println!("\ncircles of calls between files with methods of a type");
    for circle in circles(&sources) {
        println!("  {} {}: {} files", circle.member, circle.of, circle.files.len());
        circle.files.iter().for_each(|file| println!("    {file}"));
    }

    println!("\npublic types of equal name in several crates");
    for shared in shared_names(&sources) {
        println!("  {}: {}", shared.name, shared.files.join(", "));
    }
    Ok(())
}
