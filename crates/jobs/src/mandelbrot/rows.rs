//! Rows of the picture, as tasks.

use gridspan_runtime::{Step, Task, TaskContext};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::time::Duration;

/// Virtual time of a step of the iteration.
const COST: Duration = Duration::from_nanos(2);

/// Some rows of the picture of `[-2, 0.5) x [-1.25, 1.25)`, of `size` rows and columns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rows {
    /// Rows and columns of the whole picture.
    pub size: u32,
    /// Steps after which a point counts as inside.
    pub steps: u16,
    /// Range of rows of this task.
    pub rows: Range<u32>,
}

impl Rows {
    /// Returns the number of steps until each point leaves the circle of radius 2, at most `steps`,
    /// row by row.
    pub fn compute(&self) -> Vec<u16> {
        let coordinate = |from: f64, at: u32| from + 2.5 * f64::from(at) / f64::from(self.size);
        let row = |y| {
            let y = coordinate(-1.25, y);
            (0..self.size).map(move |x| escape(coordinate(-2.0, x), y, self.steps))
        };
        self.rows.clone().flat_map(row).collect()
    }
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

impl Task for Rows {
    type Output = Vec<u16>;
    type Join = [Vec<u16>; 2];

    fn run(self, cx: &mut TaskContext<'_, Self>) -> Step<Self> {
        if self.rows.len() <= 1 {
            let steps = self.compute();
            let all: u64 = steps.iter().map(|&steps| u64::from(steps)).sum();
            cx.charge(COST * all.try_into().unwrap_or(u32::MAX));
            return Step::Done(steps);
        }
        let Range { start, end } = self.rows;
        let middle = start.midpoint(end);
        cx.spawn(Self { rows: start..middle, ..self });
        cx.spawn(Self { rows: middle..end, ..self });
        Step::Sync(Default::default())
    }

    fn collect(halves: &mut [Vec<u16>; 2], child: u32, rows: Vec<u16>) {
        halves[child as usize] = rows;
    }

    fn joined([mut upper, lower]: [Vec<u16>; 2], _cx: &mut TaskContext<'_, Self>) -> Step<Self> {
        upper.extend(lower);
        Step::Done(upper)
    }
}
