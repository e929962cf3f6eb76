//! x
use super::prediction::{Prediction, Predictions};
use super::scene::Scene;
pub(super) fn render(_: &Scene, _: &Predictions, _: &Prediction) -> String {
    String::new()
}
