//! How much work each part of an image has, and how much each PE takes of it when the job goes on.
//!
//! The speed of a PE is the one that the balancer had measured before the checkpoint. For a PE that
//! was not measured, it is the speed that the grid states, times the ratio of measured to stated
//! speeds of the other PEs.

use crate::message::{Image, MeasuredSpeed};
use gridspan_topology::{GridSpec, PeId};

/// The capacity of the fastest PE: small enough that products of the loads and the capacities of
/// all PEs of the largest grid fit into 128 bits.
const CAPACITY_MAX: u64 = 1 << 16;

/// The work of the parts of an image, and the capacities of PEs.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Capacities {
    /// The work of each part of the image: the time that its members would have taken on the
    /// fastest PE or, if that is not known, the number of its members that may move.
    pub(crate) works: Vec<u64>,
    /// The capacity of each PE of the grid, in proportion to its speed; at least 1.
    pub(crate) of_pes: Vec<u64>,
}

impl Capacities {
    /// The capacities for a job that goes on from an image on a grid. `own`: the PE of the grid
    /// that takes over each part.
    pub(crate) fn of(image: &Image, grid: &GridSpec, own: &[Option<PeId>]) -> Self {
        let measured = image.speeds();
        let layout = grid.layout();
        let stated = layout.pes().map(|pe| grid.speed(layout.node_of(pe)).factor()).collect();
        let of_pes = relative(&present(measured, own, stated));
        let works = match image.times() {
            Some(times) if !measured.is_empty() => {
                let whole: Vec<f64> = measured.iter().map(|it| it.whole.factor()).collect();
                works(&times, &relative(&whole))
            }
            Some(times) if of_pes.iter().all(|&capacity| capacity == CAPACITY_MAX) => times,
            // Times on PEs of unknown and different speeds do not show how much work there is.
            _ => image.movable(),
        };
        Self { works, of_pes }
    }
}

/// The work that PEs of these capacities do in these times.
fn works(times: &[u64], capacities: &[u64]) -> Vec<u64> {
    let work = |(&time, &capacity): (&u64, &u64)| (time * capacity).div_ceil(CAPACITY_MAX);
    times.iter().zip(capacities).map(work).collect()
}

/// The speed of each PE of the grid: the measured one, or else the one that the grid states, times
/// the ratio of the sums of measured and stated speeds.
fn present(measured: &[MeasuredSpeed], own: &[Option<PeId>], stated: Vec<f64>) -> Vec<f64> {
    let mut known: Vec<Option<f64>> = vec![None; stated.len()];
    for (own, speed) in own.iter().zip(measured) {
        if let Some(pe) = own
            && let Some(known) = known.get_mut(pe.index())
        {
            *known = Some(speed.available.factor());
        }
    }
    let pairs = known.iter().zip(&stated).filter_map(|(known, stated)| Some(((*known)?, *stated)));
    let (sum_known, sum_stated) =
        pairs.fold((0.0_f64, 0.0_f64), |(all, of), (known, stated)| (all + known, of + stated));
    let scale = if sum_stated > 0.0 { sum_known / sum_stated } else { 1.0 };
    known.iter().zip(stated).map(|(known, stated)| known.unwrap_or(stated * scale)).collect()
}

/// Capacities in proportion to speeds above zero.
fn relative(speeds: &[f64]) -> Vec<u64> {
    let fastest = speeds.iter().copied().fold(0.0, f64::max);
    let capacity = |speed: &f64| (speed / fastest * CAPACITY_MAX as f64).round().max(1.0) as u64;
    speeds.iter().map(capacity).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{EncodedManifest, Manifest};
    use gridspan_topology::{Layout, Speed};

    const SECOND_US: u64 = 1_000_000;

    fn speed(factor: f64) -> Speed {
        Speed::new(factor).unwrap()
    }

    fn measured(whole: f64, available: f64) -> MeasuredSpeed {
        MeasuredSpeed { whole: speed(whole), available: speed(available) }
    }

    fn grid(text: &str) -> GridSpec {
        GridSpec::from_emulate(text).unwrap()
    }

    /// An image of one-PE nodes whose members have taken these times, with measured speeds.
    fn image(times: &[u64], speeds: &[MeasuredSpeed]) -> Image {
        let layout = Layout::new(vec![("a".to_owned(), vec![1; times.len()])]);
        let encoded = EncodedManifest::without_actors(1, layout).0;
        let (mut manifest, _) = Manifest::decode(&encoded).unwrap();
        for (part, &time) in manifest.parts.iter_mut().zip(times) {
            (part.load_us, part.movable) = (time, 7);
        }
        Image::new(manifest.encode(speeds)).unwrap()
    }

    #[test]
    fn pes_of_equal_speed_have_equal_capacities_and_the_measured_times_as_work() {
        let times = [3 * SECOND_US, SECOND_US, 2 * SECOND_US];
        for text in ["1x2", "1x2,speed=1/3"] {
            let own = [None, Some(PeId(0)), Some(PeId(1))];
            let found = Capacities::of(&image(&times, &[]), &grid(text), &own);
            assert_eq!(found, Capacities { works: times.to_vec(), of_pes: vec![CAPACITY_MAX; 2] });
        }
    }

    #[test]
    fn without_measured_speeds_those_of_the_grid_count_and_the_number_of_members() {
        let (image, own) = (image(&[SECOND_US; 2], &[]), [Some(PeId(0)), Some(PeId(1))]);
        let found = Capacities::of(&image, &grid("1x2,speed=1:1/4"), &own);
        assert_eq!(found.works, [7, 7]);
        assert_eq!(found.of_pes, [CAPACITY_MAX, CAPACITY_MAX / 4]);
    }

    #[test]
    fn times_on_slow_pes_are_less_work_and_other_programs_take_capacity() {
        let speeds = [measured(1.0, 1.0), measured(0.5, 0.5), measured(1.0, 0.25)];
        let image = image(&[SECOND_US; 3], &speeds);
        // The first node is lost.
        let found = Capacities::of(&image, &grid("1x2"), &[None, Some(PeId(0)), Some(PeId(1))]);
        assert_eq!(found.works, [SECOND_US, SECOND_US / 2, SECOND_US]);
        assert_eq!(found.of_pes, [CAPACITY_MAX, CAPACITY_MAX / 2]);
    }

    #[test]
    fn new_pes_have_the_stated_speed_in_relation_to_the_measured_ones() {
        let image = image(&[SECOND_US; 2], &[measured(0.5, 0.5), measured(0.25, 0.25)]);
        // The grid states 2 and 1 for the PEs that were measured, and 2 for the new one.
        let own = [Some(PeId(0)), Some(PeId(1))];
        let found = Capacities::of(&image, &grid("1x3,speed=2:1:2"), &own);
        assert_eq!(found.of_pes, [CAPACITY_MAX, CAPACITY_MAX / 2, CAPACITY_MAX]);
    }

    #[test]
    fn speeds_that_differ_little_are_not_stored() {
        use gridspan_balance::PeLoad;
        let pes = |speeds: [f64; 2]| speeds.map(PeLoad::new);
        assert_eq!(MeasuredSpeed::of_pes(&pes([1.0, 1.05])), []);
        let stored = [measured(0.5, 0.5), measured(1.0, 1.0)];
        assert_eq!(MeasuredSpeed::of_pes(&pes([0.5, 1.0])), stored);
        let mut shared = pes([1.0, 1.0]);
        shared[1].available = 0.5;
        assert_eq!(MeasuredSpeed::of_pes(&shared)[1], measured(1.0, 0.5));
        assert_eq!(MeasuredSpeed::of_pes(&[]), []);
    }

    #[test]
    fn a_manifest_with_speeds_for_other_pes_is_refused() {
        let layout = Layout::single(2);
        let encoded = EncodedManifest::without_actors(1, layout).0;
        let (manifest, none) = Manifest::decode(&encoded).unwrap();
        assert_eq!(none, []);
        assert_eq!(manifest.encode(&[]), encoded);
        assert!(Image::new(manifest.encode(&[measured(1.0, 1.0)])).is_err());
        assert!(Image::new(manifest.encode(&[measured(1.0, 1.0); 2])).is_ok());
    }
}
