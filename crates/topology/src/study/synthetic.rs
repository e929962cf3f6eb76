//! Networks whose clusters and sites are known, with the noise of real ones.
//!
//! Every value is a function of the seed and of the pair asked for, so that a network of thousands
//! of nodes needs no matrix. The noise is that of this project's study of inference: lognormal
//! jitter, asymmetry, pairs that are slow whenever they are asked, and busy hosts.

use crate::dice::{GOLDEN_GAMMA, mix};
use crate::id::NodeId;
use crate::matrix::RttMatrix;
use std::time::Duration;

/// The shape of a network without noise. RTTs are round trips.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetworkShape {
    /// Eight sites (four below 128 nodes): 0.1 ms inside, 30 ms between.
    TwoLevel,
    /// Four sites of four clusters: 0.1 ms, 1 ms, 30 ms.
    ThreeLevel,
    /// Four sites of four clusters, each level only 2.2 times the one below: 0.1, 0.22, 0.48 ms.
    HardThreeLevel,
    /// Ten cities with three zones each: 0.09 ms, 0.6 to 2.9 ms, 9 to 330 ms by distance.
    TenByThree,
    /// Eight sites of eight clusters (four of four below 128 nodes): 0.1 ms, about 0.6 ms, 10 to
    /// 120 ms by distance.
    EightByEight,
}

impl NetworkShape {
    /// All shapes.
    pub const ALL: [Self; 5] = [
        Self::TwoLevel,
        Self::ThreeLevel,
        Self::HardThreeLevel,
        Self::TenByThree,
        Self::EightByEight,
    ];

    /// What tables call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::TwoLevel => "2-level",
            Self::ThreeLevel => "3-level",
            Self::HardThreeLevel => "hard 3-level",
            Self::TenByThree => "10x3",
            Self::EightByEight => "8x8",
        }
    }

    /// How many scales of latency the network was built with. [`NetworkShape::TenByThree`] has continents
    /// above them.
    pub const fn levels(self) -> usize {
        match self {
            Self::TwoLevel => 2,
            _ => 3,
        }
    }

    fn sites_and_clusters(self, nodes: u32) -> (u32, u32) {
        match self {
            Self::TwoLevel => (if nodes < 128 { 4 } else { 8 }, 1),
            Self::ThreeLevel | Self::HardThreeLevel => (4, 4),
            Self::TenByThree => (10, 3),
            Self::EightByEight if nodes < 128 => (4, 4),
            Self::EightByEight => (8, 8),
        }
    }
}

/// How measurements differ from the network.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Noise {
    /// The standard deviation of the logarithm of every measurement.
    pub jitter: f64,
    /// The directions of a pair differ by up to this part, either way.
    pub asymmetry: f64,
    /// This part of the pairs is 2 to 10 times slower, whenever it is measured.
    pub outliers: f64,
    /// This part of the hosts adds 50 to 300 µs to each of its measurements.
    pub busy: f64,
    /// This part of the measurements is missing, whenever it is tried.
    pub missing: f64,
}

impl Noise {
    /// 10 % jitter, 10 % asymmetry, 5 % outlier pairs, 10 % busy hosts, nothing missing.
    pub const USUAL: Self =
        Self { jitter: 0.1, asymmetry: 0.1, outliers: 0.05, busy: 0.1, missing: 0.0 };
    /// None.
    pub const NONE: Self =
        Self { jitter: 0.0, asymmetry: 0.0, outliers: 0.0, busy: 0.0, missing: 0.0 };
}

/// A network of known truth. Nodes are numbered in random order, so that numbers tell nothing.
#[derive(Clone, Debug)]
pub struct Synthetic {
    shape: NetworkShape,
    noise: Noise,
    seed: u64,
    clusters: Vec<u32>,
    clusters_per_site: u32,
}

impl Synthetic {
    /// A network of this shape with clusters as equal as they can be.
    pub fn new(shape: NetworkShape, nodes: u32, seed: u64) -> Self {
        let (sites, clusters_per_site) = shape.sites_and_clusters(nodes);
        let mut clusters: Vec<u32> = (0..nodes).map(|n| n % (sites * clusters_per_site)).collect();
        for last in (1..clusters.len()).rev() {
            let other = hash(seed, [SHUFFLE, last as u64, 0]) % (last as u64 + 1);
            clusters.swap(last, other as usize);
        }
        Self { shape, noise: Noise::USUAL, seed, clusters, clusters_per_site }
    }

    /// The same network with clusters of very different sizes: the largest are expected to have 36
    /// times the nodes of the smallest, which may be a single one or none.
    pub fn with_uneven_clusters(mut self) -> Self {
        let count = self.clusters.iter().max().map_or(0, |&last| u64::from(last) + 1);
        let shares: Vec<f64> = (0..count)
            .map(|cluster| ((cluster + self.seed) % 6 + 1) as f64)
            .map(|rank| rank.powi(-2))
            .collect();
        let all: f64 = shares.iter().sum();
        for node in 0..self.clusters.len() {
            let mut rest = all * self.unit([UNEVEN, node as u64, 0]);
            let place = shares.iter().position(|share| {
                rest -= share;
                rest < 0.0
            });
            self.clusters[node] = place.unwrap_or(0) as u32;
        }
        self
    }

    /// The same network under other noise.
    pub fn with_noise(mut self, noise: Noise) -> Self {
        self.noise = noise;
        self
    }

    /// How many nodes there are.
    pub fn nodes(&self) -> u32 {
        self.clusters.len() as u32
    }

    /// The true cluster of each node.
    pub fn clusters(&self) -> &[u32] {
        &self.clusters
    }

    /// The true site of each node; the cluster where sites have only one.
    pub fn sites(&self) -> Vec<u32> {
        self.clusters.iter().map(|cluster| cluster / self.clusters_per_site).collect()
    }

    /// The `attempt`-th measurement from one node to another, `None` where it is missing.
    pub fn measure(&self, from: NodeId, to: NodeId, attempt: u64) -> Option<Duration> {
        let noise = self.noise;
        let (a, b) = (u64::from(from.0.min(to.0)), u64::from(from.0.max(to.0)));
        let (i, j) = (u64::from(from.0), u64::from(to.0));
        if self.unit([MISSING, a, b]) < noise.missing {
            return None;
        }
        let mut ms = self.base_ms(from, to);
        if self.unit([OUTLIER, a, b]) < noise.outliers {
            ms *= 2.0 + 8.0 * self.unit([OUTLIER_SIZE, a, b]);
        }
        ms *= 1.0 + noise.asymmetry * (2.0 * self.unit([ASYMMETRY, i, j]) - 1.0);
        ms *= (noise.jitter * self.normal([JITTER.wrapping_add(attempt << 8), i, j])).exp();
        ms += self.busy_ms(i) + self.busy_ms(j);
        Some(Duration::from_nanos((ms * 1e6) as u64))
    }

    /// All measurements, the least of three attempts each.
    pub fn matrix(&self) -> RttMatrix {
        RttMatrix::from_fn(self.clusters.len(), |a, b| {
            (0..3).filter_map(|attempt| self.measure(a, b, attempt)).min()
        })
    }

    fn busy_ms(&self, host: u64) -> f64 {
        if self.unit([BUSY, host, 0]) < self.noise.busy {
            0.05 + 0.25 * self.unit([BUSY_SIZE, host, 0])
        } else {
            0.0
        }
    }

    /// The RTT without noise, in milliseconds.
    fn base_ms(&self, from: NodeId, to: NodeId) -> f64 {
        let (c, d) = (self.clusters[from.index()], self.clusters[to.index()]);
        let (s, t) = (c / self.clusters_per_site, d / self.clusters_per_site);
        let (low, high) = (u64::from(c.min(d)), u64::from(c.max(d)));
        let (near, far) = (u64::from(s.min(t)), u64::from(s.max(t)));
        let among_clusters = |spread: f64| (spread * self.normal([CLUSTERS, low, high])).exp();
        let among_sites = |spread: f64| (spread * self.normal([SITES, near, far])).exp();
        match (self.shape, c == d, s == t) {
            (NetworkShape::TenByThree, true, _) => 0.09,
            (_, true, _) => 0.1,
            (NetworkShape::TwoLevel, ..) => 30.0 * among_sites(0.2),
            (NetworkShape::ThreeLevel, _, true) => among_clusters(0.1),
            (NetworkShape::ThreeLevel, ..) => 30.0 * among_sites(0.2),
            (NetworkShape::HardThreeLevel, _, true) => 0.22,
            (NetworkShape::HardThreeLevel, ..) => 0.484,
            (NetworkShape::TenByThree, _, true) => 0.6 + 2.3 * self.unit([CLUSTERS, low, high]),
            (NetworkShape::TenByThree, ..) => self.city_ms(near, far),
            (NetworkShape::EightByEight, _, true) => 0.6 * among_clusters(0.15),
            (NetworkShape::EightByEight, ..) => self.plane_ms(near, far),
        }
    }

    /// Light in fibre takes 1 ms for a round trip of 100 km; cables are 1.3 to 1.8 times longer
    /// than the great circle.
    fn city_ms(&self, near: u64, far: u64) -> f64 {
        let [one, other] = [near, far].map(|city| {
            let (latitude, longitude) = CITIES[city as usize % CITIES.len()];
            (latitude.to_radians(), longitude.to_radians())
        });
        let cosine =
            one.0.sin() * other.0.sin() + one.0.cos() * other.0.cos() * (one.1 - other.1).cos();
        let kilometres = 6371.0 * cosine.clamp(-1.0, 1.0).acos();
        3.0 + kilometres / 100.0 * (1.3 + 0.5 * self.unit([SITES, near, far]))
    }

    fn plane_ms(&self, near: u64, far: u64) -> f64 {
        let axis = |axis: u64| self.unit([PLACE, near, axis]) - self.unit([PLACE, far, axis]);
        10.0 + 80.0 * axis(0).hypot(axis(1))
    }

    fn unit(&self, key: [u64; 3]) -> f64 {
        (hash(self.seed, key) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Box and Muller's normal deviate.
    fn normal(&self, [salt, a, b]: [u64; 3]) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit([salt, a, b])).ln()).sqrt();
        let angle = std::f64::consts::TAU * self.unit([salt ^ (1 << 40), a, b]);
        radius * angle.cos()
    }
}

/// Dallas, Washington, Toronto, São Paulo, London, Frankfurt, Madrid, Tokyo, Osaka, Sydney: where
/// one provider has three zones each.
const CITIES: [(f64, f64); 10] = [
    (32.8, -96.8),
    (38.9, -77.0),
    (43.7, -79.4),
    (-23.6, -46.6),
    (51.5, -0.1),
    (50.1, 8.7),
    (40.4, -3.7),
    (35.7, 139.7),
    (34.7, 135.5),
    (-33.9, 151.2),
];

// What a random value is for: each kind has its own.
const SHUFFLE: u64 = 1;
const MISSING: u64 = 2;
const OUTLIER: u64 = 3;
const OUTLIER_SIZE: u64 = 4;
const ASYMMETRY: u64 = 5;
const JITTER: u64 = 6;
const BUSY: u64 = 7;
const BUSY_SIZE: u64 = 8;
const CLUSTERS: u64 = 9;
const SITES: u64 = 10;
const PLACE: u64 = 11;
const UNEVEN: u64 = 12;

/// The words mixed into the seed in turn.
fn hash(seed: u64, key: [u64; 3]) -> u64 {
    key.iter().fold(seed, |state, word| mix((state ^ word).wrapping_add(GOLDEN_GAMMA)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_noise_the_levels_are_as_far_apart_as_the_shape_says() {
        let network = Synthetic::new(NetworkShape::HardThreeLevel, 64, 1).with_noise(Noise::NONE);
        let (clusters, sites) = (network.clusters().to_vec(), network.sites());
        for b in 1..64 {
            let expected = match (clusters[0] == clusters[b], sites[0] == sites[b]) {
                (true, _) => 100_000,
                (_, true) => 220_000,
                _ => 484_000,
            };
            let measured = network.measure(NodeId(0), NodeId(b as u32), 0);
            assert_eq!(measured, Some(Duration::from_nanos(expected)));
        }
    }

    #[test]
    fn the_noise_has_the_parts_it_was_asked_for() {
        let noise = Noise { outliers: 0.05, ..Noise::NONE };
        let network = Synthetic::new(NetworkShape::TwoLevel, 256, 2).with_noise(noise);
        let quiet = network.clone().with_noise(Noise::NONE);
        let slow = (0..256_u32)
            .flat_map(|a| (0..a).map(move |b| (NodeId(a), NodeId(b))))
            .filter(|&(a, b)| network.measure(a, b, 0) > quiet.measure(a, b, 0))
            .count() as f64;
        assert!((slow / (128.0 * 255.0) - 0.05).abs() < 0.005, "{slow}");
    }
}
