//! Rows of the picture, as tasks.

use gridspan_kernels::mandelbrot;
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
        mandelbrot::rows(self.size, self.steps, self.rows.clone())
    }
}

impl Task for Rows {
    type Output = Vec<u16>;
    type Join = [Vec<u16>; 2];

    fn run(self, cx: &mut TaskContext<'_, Self>) -> Step<Self> {
        if self.rows.len() <= 1 {
            let steps = self.compute();
            let (all, _) = mandelbrot::count(&steps, self.steps);
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
