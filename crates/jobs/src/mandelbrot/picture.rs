//! The picture as a PNG file.

use gridspan_kernels::mandelbrot;
use gridspan_runtime::JobError;
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

/// Writes the picture: points inside are black, points that escape late are bright.
pub(super) fn write(path: &Path, size: u32, limit: u16, steps: &[u16]) -> Result<(), JobError> {
    let failed = |error: &dyn std::fmt::Display| {
        JobError::Failed(format!("cannot write the picture {} ({error})", path.display()))
    };
    let file = File::create(path).map_err(|error| failed(&error))?;
    let mut encoder = png::Encoder::new(BufWriter::new(file), size, size);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header().map_err(|error| failed(&error))?;
    writer.write_image_data(&mandelbrot::pixels(steps, limit)).map_err(|error| failed(&error))?;
    writer.finish().map_err(|error| failed(&error))
}
