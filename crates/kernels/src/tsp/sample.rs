//! Sets of cities with published optima, from TSPLIB.

/// Maximum number of cities of a sample.
pub const CITIES_MAX: usize = 17;

/// Cities, and the length of the shortest tour through all of them.
#[derive(Debug)]
pub struct Sample {
    /// Name in TSPLIB.
    pub name: &'static str,
    /// Length of the shortest tour.
    pub optimum: u32,
    /// Number of cities.
    pub cities: usize,
    /// Distances of each city to those before it.
    distances: &'static [u16],
}

impl Sample {
    /// Returns the distance between two cities.
    #[inline]
    pub fn distance(&self, a: usize, b: usize) -> u32 {
        let (low, high) = (a.min(b), a.max(b));
        if low == high { 0 } else { self.distances[high * (high - 1) / 2 + low].into() }
    }
}

/// The samples. Distances are as TSPLIB defines them; it derives those of `burma14` and `ulysses16`
/// from coordinates on the globe. Source: G. Reinelt, TSPLIB, A Traveling Salesman Problem Library,
/// ORSA Journal on Computing 3, 1991, and the list of optimal lengths there.
pub const SAMPLES: &[Sample] = &[
    Sample { name: "burma14", optimum: 3323, cities: 14, distances: BURMA14 },
    Sample { name: "gr17", optimum: 2085, cities: 17, distances: GR17 },
    Sample { name: "ulysses16", optimum: 6859, cities: 16, distances: ULYSSES16 },
];

#[rustfmt::skip]
const BURMA14: &[u16] = &[
    153,
    510, 422,
    706, 664, 289,
    966, 997, 744, 491,
    581, 598, 390, 265, 400,
    455, 507, 437, 410, 514, 168,
    70, 197, 491, 664, 902, 522, 389,
    160, 311, 645, 804, 990, 634, 482, 154,
    372, 479, 880, 1070, 1261, 910, 757, 406, 276,
    157, 310, 618, 768, 947, 593, 439, 133, 43, 318,
    567, 581, 374, 259, 418, 19, 163, 508, 623, 898, 582,
    342, 417, 455, 499, 635, 284, 124, 273, 358, 633, 315, 275,
    398, 376, 211, 310, 636, 239, 232, 355, 498, 761, 464, 221, 247,
];

#[rustfmt::skip]
const GR17: &[u16] = &[
    633,
    257, 390,
    91, 661, 228,
    412, 227, 169, 383,
    150, 488, 112, 120, 267,
    80, 572, 196, 77, 351, 63,
    134, 530, 154, 105, 309, 34, 29,
    259, 555, 372, 175, 338, 264, 232, 249,
    505, 289, 262, 476, 196, 360, 444, 402, 495,
    353, 282, 110, 324, 61, 208, 292, 250, 352, 154,
    324, 638, 437, 240, 421, 329, 297, 314, 95, 578, 435,
    70, 567, 191, 27, 346, 83, 47, 68, 189, 439, 287, 254,
    211, 466, 74, 182, 243, 105, 150, 108, 326, 336, 184, 391, 145,
    268, 420, 53, 239, 199, 123, 207, 165, 383, 240, 140, 448, 202, 57,
    246, 745, 472, 237, 528, 364, 332, 349, 202, 685, 542, 157, 289, 426, 483,
    121, 518, 142, 84, 297, 35, 29, 36, 236, 390, 238, 301, 55, 96, 153, 336,
];

#[rustfmt::skip]
const ULYSSES16: &[u16] = &[
    509,
    501, 126,
    312, 474, 541,
    1019, 1526, 1516, 1157,
    736, 1226, 1184, 980, 478,
    656, 1133, 1084, 919, 583, 115,
    60, 532, 536, 271, 996, 740, 667,
    1039, 1449, 1371, 1333, 858, 470, 455, 1066,
    726, 1122, 1045, 1029, 855, 379, 288, 759, 328,
    2314, 2789, 2728, 2553, 1504, 1581, 1661, 2320, 1387, 1697,
    479, 958, 913, 751, 677, 271, 177, 493, 591, 333, 1838,
    448, 941, 904, 704, 651, 289, 216, 454, 650, 400, 1868, 68,
    479, 978, 946, 720, 600, 261, 207, 479, 656, 427, 1841, 105, 52,
    619, 1127, 1115, 783, 401, 308, 343, 598, 776, 622, 1789, 336, 287, 237,
    150, 542, 499, 455, 1033, 687, 592, 206, 933, 610, 2248, 417, 406, 449, 636,
];
