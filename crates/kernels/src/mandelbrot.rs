//! The Mandelbrot set: the steps of points until they escape.

use std::ops::Range;

/// Returns, row by row, the number of steps until each point of some `rows` leaves the circle of
/// radius 2, at most `limit`. The picture shows `[-2, 0.5) x [-1.25, 1.25)` in `size` rows and
/// columns.
pub fn rows(size: u32, limit: u16, rows: Range<u32>) -> Vec<u16> {
    let coordinate = |from: f64, at: u32| from + 2.5 * f64::from(at) / f64::from(size);
    let row = |y| {
        let y = coordinate(-1.25, y);
        (0..size).map(move |x| escape(coordinate(-2.0, x), y, limit))
    };
    rows.flat_map(row).collect()
}

/// Returns the number of steps of `z <- z^2 + c` from 0 until `|z| > 2`, at most `limit`.
fn escape(re: f64, im: f64, limit: u16) -> u16 {
    let (mut x, mut y) = (0.0, 0.0);
    for step in 0..limit {
        let (x2, y2) = (x * x, y * y);
        if x2 + y2 > 4.0 {
            return step;
        }
        y = 2.0 * x * y + im;
        x = x2 - y2 + re;
    }
    limit
}

/// Returns the sum of the steps of all points, and the number of those that reach `limit`.
pub fn count(steps: &[u16], limit: u16) -> (u64, usize) {
    let total = steps.iter().map(|&steps| u64::from(steps)).sum();
    (total, steps.iter().filter(|&&at| at == limit).count())
}

/// Returns the colours of all points, each as red, green and blue: points inside are black, points
/// that escape late are bright.
pub fn pixels(steps: &[u16], limit: u16) -> Vec<u8> {
    steps.iter().flat_map(|&steps| colour(steps, limit)).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_origin_stays_and_two_escapes() {
        assert_eq!([escape(0.0, 0.0, 9), escape(-1.0, 0.0, 9), escape(-2.0, 0.0, 9)], [9; 3]);
        // 0, 1, 2, 5, and 0, 2, 6: the last is beyond the circle.
        assert_eq!((escape(1.0, 0.0, 9), escape(2.0, 0.0, 9)), (3, 2));
    }

    #[test]
    fn rows_computed_apart_equal_those_computed_together() {
        let apart = [0..5, 5..6, 6..16].map(|part| rows(16, 50, part)).concat();
        assert_eq!(apart, rows(16, 50, 0..16));
        assert_eq!(count(&[3, 50, 7, 50], 50), (110, 2));
    }

    #[test]
    fn points_inside_are_black_and_those_that_escape_late_are_bright() {
        let pixels = pixels(&[50, 2, 40], 50);
        let (inside, early, late) = (&pixels[..3], &pixels[3..6], &pixels[6..]);
        assert_eq!(inside, [0; 3]);
        assert!(early.iter().zip(late).all(|(early, late)| early < late), "{pixels:?}");
    }
}
