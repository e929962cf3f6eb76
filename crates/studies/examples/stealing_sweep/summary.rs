//! The summary of all cells.

use crate::cell::Measured;

/// Time of the first policy, divided by the best of all others, that most cells should keep.
const OVER_BEST: f64 = 1.10;
/// Time of the first policy, divided by the best of all others, that all cells should keep.
const OVER_BEST_WORST: f64 = 1.25;
/// Time of the first policy, divided by that of the first site alone, that all cells should keep.
const OVER_ALONE: f64 = 1.05;

/// The number of cells that keep the bounds, and the cells that miss them most.
#[derive(Default)]
pub(crate) struct Summary {
    cells: usize,
    near_best: usize,
    far_from_best: usize,
    slower_than_alone: usize,
    worst: Option<(f64, String)>,
    worst_alone: Option<(f64, String)>,
    sum_of_logs: f64,
}

impl Summary {
    pub(crate) fn add(&mut self, measured: &Measured) {
        self.cells += 1;
        if let Some(ratio) = measured.over_best() {
            self.near_best += usize::from(ratio <= OVER_BEST);
            self.far_from_best += usize::from(ratio > OVER_BEST_WORST);
            self.sum_of_logs += ratio.ln();
            note(&mut self.worst, ratio, measured);
        }
        let ratio = measured.over_alone();
        self.slower_than_alone += usize::from(ratio > OVER_ALONE);
        note(&mut self.worst_alone, ratio, measured);
    }

    pub(crate) fn json(&self, seed: u64) -> String {
        let share = |count: usize| count as f64 / self.cells.max(1) as f64;
        let worst = |worst: &Option<(f64, String)>| match worst {
            Some((ratio, title)) => format!("[{ratio:.3},\"{title}\"]"),
            None => "null".to_owned(),
        };
        format!(
            "{{\"cells\":{},\"seed\":{seed},\"within_{OVER_BEST:.2}_of_best\":{:.3},\"beyond_{OVER_BEST_WORST}_of_best\":{},\
             \"mean_over_best\":{:.3},\"worst_over_best\":{},\"slower_than_{OVER_ALONE}_of_alone\":{},\
             \"worst_over_alone\":{}}}",
            self.cells,
            share(self.near_best),
            self.far_from_best,
            (self.sum_of_logs / self.cells.max(1) as f64).exp(),
            worst(&self.worst),
            self.slower_than_alone,
            worst(&self.worst_alone),
        )
    }
}

fn note(worst: &mut Option<(f64, String)>, ratio: f64, measured: &Measured) {
    if worst.as_ref().is_none_or(|(known, _)| ratio > *known) {
        *worst = Some((ratio, measured.title()));
    }
}
