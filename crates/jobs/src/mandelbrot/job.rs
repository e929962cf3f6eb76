//! The job, its options, and its verification.

use super::picture;
use super::rows::Rows;
use crate::entry::{Entry, parse};
use clap::Parser;
use gridspan_kernels::mandelbrot;
use gridspan_runtime::{Grid, Job, JobError};
use std::ops::Range;
use std::path::PathBuf;

const ABOUT: &str = "The Mandelbrot set as a picture, by rows that differ much in work";

/// Rows, maximum number of steps of a point, total number of steps, and number of points inside, as
/// computed by another program.
const KNOWN: [(u32, u16, u64, usize); 2] =
    [(512, 1000, 65_002_188, 63_441), (1024, 1000, 259_818_836, 253_576)];

/// Largest size of an encoded band in bytes. The output of a task that ran on another node is
/// limited to 60 MiB.
const BAND_BYTES_MAX: u32 = 56 << 20;

pub(crate) const ENTRY: Entry = Entry {
    name: "mandelbrot",
    about: ABOUT,
    build: |arguments| Ok(job(parse("mandelbrot", arguments)?)),
};

#[derive(Clone, Debug, Parser)]
#[command(about = ABOUT)]
struct Options {
    /// Rows and columns of the picture.
    #[arg(long, default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..=1 << 14))]
    size: u32,
    /// Steps after which a point counts as inside.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u16).range(1..))]
    steps: u16,
    /// Write the picture to this PNG file.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

fn job(options: Options) -> Job {
    Job::new("mandelbrot")
        .tasks::<Rows>()
        .restartable_main(async move |grid: Grid| run(&grid, options.clone()).await)
}

async fn run(grid: &Grid, Options { size, steps, out }: Options) -> Result<(), JobError> {
    let pool = grid.task_pool().await?;
    let begin = grid.now().await?;
    let mut found = Vec::new();
    for rows in bands(size, steps) {
        found.append(&mut pool.run(Rows { size, steps, rows }).await?);
    }
    let elapsed = grid.now().await?.since(begin);
    let (total, inside) = mandelbrot::count(&found, steps);
    println!(
        "{size} x {size} points on {} PEs in {:.3} ms, {:.1} million steps a second",
        grid.layout().pe_count(),
        elapsed.as_secs_f64() * 1e3,
        total as f64 / elapsed.as_secs_f64() / 1e6
    );
    if let Some(path) = out {
        picture::write(&path, size, steps, &found)?;
        println!("picture: {}", path.display());
    }
    verify(size, steps, total, inside, &found)
}

/// Divides the picture into bands, each of which fits into the output of a task. Up to some
/// thousands of rows there is one.
fn bands(size: u32, steps: u16) -> impl Iterator<Item = Range<u32>> {
    // In the encoding, each byte has seven bits of a number.
    let point_bytes = match steps {
        0..0x80 => 1,
        0x80..0x4000 => 2,
        _ => 3,
    };
    let rows = (BAND_BYTES_MAX / (point_bytes * size)).clamp(1, size);
    (0..size).step_by(rows as usize).map(move |start| start..size.min(start + rows))
}

/// Compares with the known results for this size, or recomputes some rows if none are known.
fn verify(size: u32, steps: u16, total: u64, inside: usize, found: &[u16]) -> Result<(), JobError> {
    if found.len() as u64 != u64::from(size) * u64::from(size) {
        return Err(format!("verified: no ({} points of {size} x {size})", found.len()).into());
    }
    let known = KNOWN.iter().find(|&&(rows, limit, ..)| (rows, limit) == (size, steps));
    let Some(&(.., known_total, known_inside)) = known else {
        // Recomputes a few rows without tasks, at the edges and inside the set.
        for y in [0, size / 3, size / 2, size - 1] {
            let again = Rows { size, steps, rows: y..y + 1 }.compute();
            if again != found[(y * size) as usize..((y + 1) * size) as usize] {
                return Err(format!("verified: no (row {y} differs)").into());
            }
        }
        println!("verified: yes ({inside} points inside; four recomputed rows agree)");
        return Ok(());
    };
    if (total, inside) == (known_total, known_inside) {
        println!("verified: yes ({total} steps, {inside} points inside)");
        return Ok(());
    }
    Err(format!(
        "verified: no ({total} steps and {inside} points inside instead of {known_total} and {known_inside})"
    )
    .into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bands_of_a_large_picture_fit_into_the_outputs_of_tasks() {
        let small = [(1, 1, 1), (4096, 1000, 1)];
        let large = [(8192, 1000, 3), (1 << 14, 1000, 10), (1 << 14, u16::MAX, 14)];
        for (size, steps, count) in small.into_iter().chain(large) {
            let bands: Vec<_> = bands(size, steps).collect();
            assert_eq!(bands.len(), count, "{size} rows");
            assert!(bands.iter().cloned().flatten().eq(0..size));
            // The largest sizes of an encoded point and of the number of points.
            let bytes = [postcard::to_stdvec(&steps), postcard::to_stdvec(&u64::MAX)]
                .map(|encoded| encoded.unwrap().len());
            for rows in bands {
                let points = rows.len() * size as usize;
                assert!(points * bytes[0] + bytes[1] <= 60 << 20, "{size} rows");
            }
        }
    }
}
