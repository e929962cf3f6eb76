//! The picture as a PNG file.

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
    let pixels: Vec<u8> = steps.iter().flat_map(|&steps| colour(steps, limit)).collect();
    writer.write_image_data(&pixels).map_err(|error| failed(&error))?;
    writer.finish().map_err(|error| failed(&error))
}

/// Returns the colour of a point, from dark blue over violet to white, by the logarithm of the
/// steps.
fn colour(steps: u16, limit: u16) -> [u8; 3] {
    if steps == limit {
        return [0; 3];
    }
    let light = f64::from(steps + 1).ln() / f64::from(limit).ln().max(1.0);
    let channel = |bend: f64| (255.0 * light.powf(bend)) as u8;
    [channel(1.2), channel(1.8), channel(0.7)]
}
