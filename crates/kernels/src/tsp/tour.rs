//! Partial tours, and the search below them.

use super::sample::{CITIES_MAX, SAMPLES, Sample};
use serde::{Deserialize, Serialize};

/// A partial tour, starting from city 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartialTour {
    /// Index of the sample.
    sample: u8,
    /// Maximum number of remaining cities with which one task completes the search alone.
    grain: u8,
    /// Number of cities in the path.
    depth: u8,
    cities: [u8; CITIES_MAX],
    /// The cities in the path, as bits.
    visited: u32,
    length: u32,
}

/// The result of a search.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Best {
    /// Length of the shortest tour; `u32::MAX` if none was found.
    pub length: u32,
    /// The shortest tour.
    pub tour: Vec<u8>,
    /// Number of paths examined.
    pub examined: u64,
}

impl Default for Best {
    fn default() -> Self {
        Self { length: u32::MAX, tour: Vec::new(), examined: 0 }
    }
}

impl Best {
    /// Adds the result of another search: keeps the shorter tour, and the first of equal ones.
    pub fn merge(&mut self, other: Self) {
        if other.length < self.length {
            (self.length, self.tour) = (other.length, other.tour);
        }
        self.examined += other.examined;
    }
}

impl PartialTour {
    /// Creates the path that consists of city 0 of a sample; `None` for an unknown name.
    pub fn first(name: &str, grain: u8) -> Option<(Self, &'static Sample)> {
        let position = SAMPLES.iter().position(|sample| sample.name == name)?;
        let cities = [0; CITIES_MAX];
        let path = Self { sample: position as u8, grain, depth: 1, cities, visited: 1, length: 0 };
        Some((path, &SAMPLES[position]))
    }

    /// The sample, if this build has it and this is a path through its cities: a received path may
    /// be anything.
    pub fn sample(&self) -> Option<&'static Sample> {
        SAMPLES.get(usize::from(self.sample)).filter(|sample| self.is_path(sample))
    }

    /// Whether this path visits cities of the sample once each, from city 0.
    fn is_path(&self, sample: &Sample) -> bool {
        let Some(path) = self.cities.get(..usize::from(self.depth)) else { return false };
        let is_city = |&city: &u8| usize::from(city) < sample.cities;
        if path.first() != Some(&0) || !path.iter().all(is_city) {
            return false;
        }
        let visited = path.iter().fold(0_u32, |visited, &city| visited | 1 << city);
        let steps = path.iter().zip(&path[1..]);
        let length: u32 = steps.map(|(&a, &b)| sample.distance(a.into(), b.into())).sum();
        visited.count_ones() as usize == path.len()
            && (visited, length) == (self.visited, self.length)
    }

    fn last(&self) -> usize {
        self.cities[usize::from(self.depth) - 1].into()
    }

    /// Whether one task completes the search from here.
    pub fn is_small(&self, sample: &Sample) -> bool {
        sample.cities <= usize::from(self.depth) + usize::from(self.grain)
    }

    /// Returns the paths with one more city, the nearest first, that may lead to a tour shorter
    /// than `known`.
    pub fn split(self, sample: &Sample, known: u32) -> Vec<Self> {
        let mut next = self.next(sample);
        next.retain(|path| path.lower(sample) < known);
        next
    }

    /// Returns the paths with one more city, the nearest first.
    fn next(self, sample: &Sample) -> Vec<Self> {
        let open = (0..sample.cities).filter(|city| self.visited & 1 << city == 0);
        let mut next: Vec<Self> = open.map(|city| self.with(city, sample)).collect();
        next.sort_by_key(|path| path.length);
        next
    }

    fn with(mut self, city: usize, sample: &Sample) -> Self {
        self.length += sample.distance(self.last(), city);
        self.cities[usize::from(self.depth)] = city as u8;
        self.depth += 1;
        self.visited |= 1 << city;
        self
    }

    /// Returns a lower bound of the length of any tour that starts with this path. The rest of the
    /// tour is at least as long as the minimum spanning tree of the remaining cities and both ends
    /// of the path.
    pub fn lower(&self, sample: &Sample) -> u32 {
        let last = self.last();
        let is_open = |city: &usize| *city == 0 || self.visited & 1 << city == 0;
        // On the stack, since this runs for each path, and all threads share an allocator.
        let (mut outside, mut count) = ([(0_u32, 0_usize); CITIES_MAX], 0);
        for city in (0..sample.cities).filter(|city| is_open(city) && *city != last) {
            outside[count] = (sample.distance(last, city), city);
            count += 1;
        }
        // Prim's algorithm (Shortest connection networks and some generalizations, 1957).
        let mut length = self.length;
        while let Some(nearest) = (0..count).min_by_key(|&at| outside[at].0) {
            let (distance, city) = outside[nearest];
            count -= 1;
            outside[nearest] = outside[count];
            length += distance;
            for (distance, other) in &mut outside[..count] {
                *distance = (*distance).min(sample.distance(city, *other));
            }
        }
        length
    }

    /// Searches all continuations that can be shorter than the shortest known tour. `share`
    /// publishes the length of a tour, unless it is `u32::MAX`, and returns that of the shortest
    /// known one.
    pub fn finish(self, sample: &Sample, best: &mut Best, share: &mut impl FnMut(u32) -> u32) {
        best.examined += 1;
        if usize::from(self.depth) == sample.cities {
            let length = self.length + sample.distance(self.last(), 0);
            share(length);
            let tour = self.cities[..sample.cities].to_vec();
            return best.merge(Best { length, tour, examined: 0 });
        }
        for path in self.next(sample) {
            if path.lower(sample) < share(u32::MAX) {
                path.finish(sample, best, share);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_through_cities_of_a_sample_have_one() {
        let (path, sample) = PartialTour::first("burma14", 0).unwrap();
        let longer = path.split(sample, u32::MAX)[0];
        assert!(path.sample().is_some() && longer.sample().is_some());

        let of = |at: usize, city| {
            let mut cities = longer.cities;
            cities[at] = city;
            PartialTour { cities, ..longer }
        };
        for wrong in [
            PartialTour { sample: SAMPLES.len() as u8, ..longer },
            PartialTour { depth: 0, visited: 0, length: 0, ..longer },
            PartialTour { depth: u8::MAX, ..longer },
            PartialTour { visited: 1, ..longer },
            PartialTour { length: u32::MAX, ..longer },
            of(1, 0),
            of(1, 14),
            of(1, u8::MAX),
        ] {
            assert!(wrong.sample().is_none(), "{wrong:?}");
        }
    }

    #[test]
    fn samples_are_complete_and_no_bound_is_above_the_optimum() {
        for sample in SAMPLES {
            let (path, _) = PartialTour::first(sample.name, 0).unwrap();
            assert!(sample.cities <= CITIES_MAX);
            let last = sample.cities - 1;
            assert!(sample.distance(last, last - 1) > 0);
            let lower = path.lower(sample);
            assert!(lower <= sample.optimum && 2 * lower > sample.optimum, "{lower}, {sample:?}");
        }
    }
}
