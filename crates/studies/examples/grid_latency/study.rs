//! A figure: series over latencies for several numbers of PEs, their knees, and their distances
//! from the bound.

use gridspan_studies::charts::{Curve, Panel, Scale, picture};
use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Step at the knee divided by the step at the lowest latency.
const KNEE: f64 = 1.05;

/// Number of panels of the chart side by side.
const COLUMNS: usize = 2;

/// The contents of a figure.
pub(crate) struct Outline<'a> {
    pub(crate) title: String,
    /// The names of the series, in order.
    pub(crate) series: Vec<&'static str>,
    pub(crate) pes: Vec<u32>,
    /// In ms, ascending.
    pub(crate) latencies: Vec<u64>,
    /// Number of points that are measured at a time.
    pub(crate) threads: usize,
    /// Whether to refine the latencies around the knees, down to a ms.
    pub(crate) is_close: bool,
    /// Lower bound of a step on a number of PEs at a latency.
    pub(crate) bound: &'a dyn Fn(u32, Duration) -> Duration,
}

/// The position of a series, a number of PEs, and a latency in ms.
pub(crate) type Point = (usize, u32, u64);

/// The measured figure.
pub(crate) struct Figure<'a> {
    outline: Outline<'a>,
    times: BTreeMap<Point, Duration>,
}

/// The latency at which a step takes 5 % longer than at the lowest latency.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub(crate) enum Knee {
    /// In ms.
    At(f64),
    /// Nowhere up to this latency in ms.
    Beyond(u64),
}

impl fmt::Display for Knee {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::At(latency) => f.pad(&format!("{latency:.1}")),
            Self::Beyond(latency) => f.pad(&format!("> {latency}")),
        }
    }
}

impl<'a> Figure<'a> {
    /// Measures all points with `median`, the median step at a point.
    pub(crate) fn measure(
        outline: Outline<'a>,
        median: &(dyn Fn(Point) -> Duration + Sync),
    ) -> Self {
        let mut figure = Self { outline, times: BTreeMap::new() };
        let mut points = figure.planned();
        while !points.is_empty() {
            let times = in_parallel(&points, figure.outline.threads, median);
            figure.times.extend(points.into_iter().zip(times));
            points = if figure.outline.is_close { figure.around_knees() } else { Vec::new() };
        }
        figure
    }

    fn planned(&self) -> Vec<Point> {
        let Outline { series, pes, latencies, .. } = &self.outline;
        let of = |&pes: &u32| {
            latencies.iter().flat_map(move |&at| (0..series.len()).map(move |s| (s, pes, at)))
        };
        pes.iter().flat_map(of).collect()
    }

    /// Returns the midpoints of the intervals between measured latencies that contain a knee.
    fn around_knees(&self) -> Vec<Point> {
        let curves = self
            .outline
            .pes
            .iter()
            .flat_map(|&pes| (0..self.outline.series.len()).map(move |series| (series, pes)));
        let middle = |(series, pes)| {
            let curve = self.curve(series, pes);
            let level = curve.first()?.1 * KNEE;
            let after = curve.iter().position(|point| point.1 > level)?;
            let [below, above] = [curve.get(after.checked_sub(1)?)?.0, curve[after].0];
            (above - below > 1.0).then_some((series, pes, ((below + above) / 2.0) as u64))
        };
        curves.filter_map(middle).collect()
    }

    /// Returns pairs of latency in ms and step in ms.
    fn curve(&self, series: usize, pes: u32) -> Vec<(f64, f64)> {
        let range = self.times.range((series, pes, 0)..=(series, pes, u64::MAX));
        range.map(|(&(_, _, latency), &time)| (latency as f64, millis(time))).collect()
    }

    /// Returns the first knee of a curve, by linear interpolation between the measured points.
    pub(crate) fn knee(&self, series: usize, pes: u32) -> Knee {
        knee(&self.curve(series, pes))
    }

    /// Returns the median time of a step at a point.
    pub(crate) fn step(&self, point: Point) -> Duration {
        self.times.get(&point).copied().unwrap_or_default()
    }

    /// Returns the figure as text tables.
    pub(crate) fn tables(&self) -> String {
        let Outline { series, pes, latencies, bound, .. } = &self.outline;
        let mut text = String::new();
        let head = |text: &mut String, first: &str| {
            put(text, format_args!("{first:>8}"));
            series.iter().for_each(|name| put(text, format_args!(" {name:>18}")));
            put(text, format_args!(" {:>9}\n", "bound"));
        };
        for &pes in pes {
            put(&mut text, format_args!("{pes} PEs: median step in ms, and times the bound\n"));
            head(&mut text, "latency");
            for &latency in latencies {
                let bound = millis(bound(pes, Duration::from_millis(latency)));
                put(&mut text, format_args!("{:>8}", format!("{latency} ms")));
                for at in 0..series.len() {
                    let step = millis(self.step((at, pes, latency)));
                    put(&mut text, format_args!(" {step:>10.1} ({:>4.2}x)", step / bound));
                }
                put(&mut text, format_args!(" {bound:>9.1}\n"));
            }
            text.push('\n');
        }
        put(
            &mut text,
            format_args!(
                "knee: latency in ms at which a step takes 5 % longer than at the lowest\n"
            ),
        );
        head(&mut text, "PEs");
        for &pes in pes {
            put(&mut text, format_args!("{pes:>8}"));
            (0..series.len())
                .for_each(|at| put(&mut text, format_args!(" {:>18}", self.knee(at, pes))));
            put(&mut text, format_args!(" {:>9}\n", knee(&self.bound_curve(pes))));
        }
        text
    }

    fn bound_curve(&self, pes: u32) -> Vec<(f64, f64)> {
        let last = self.outline.latencies.last().copied().unwrap_or_default();
        let first = self.outline.latencies.first().copied().unwrap_or_default();
        let of = |at| (at as f64, millis((self.outline.bound)(pes, Duration::from_millis(at))));
        (first..=last).map(of).collect()
    }

    /// Returns the greatest ratio of a series to the bound, and its place: PEs and latency in ms.
    pub(crate) fn farthest(&self, series: usize) -> (f64, u32, u64) {
        let ratio = |(&(_, pes, latency), &time): (&Point, &Duration)| {
            let bound = (self.outline.bound)(pes, Duration::from_millis(latency));
            (time.as_secs_f64() / bound.as_secs_f64(), pes, latency)
        };
        let of_series = self.times.iter().filter(|(point, _)| point.0 == series).map(ratio);
        of_series.fold((0.0, 0, 0), |most, next| if next.0 > most.0 { next } else { most })
    }

    /// Returns the planned points at which one series takes longer than another by more than
    /// `slack`, a fraction of the other.
    pub(crate) fn slower(&self, series: usize, than: usize, slack: f64) -> Vec<(u32, u64)> {
        let points = self.planned().into_iter().filter(|point| point.0 == series);
        let is_slower = |&(_, pes, latency): &Point| {
            let [own, other] = [series, than].map(|at| millis(self.step((at, pes, latency))));
            own > other * (1.0 + slack)
        };
        points.filter(is_slower).map(|(_, pes, latency)| (pes, latency)).collect()
    }

    /// Returns the chart: a panel for each number of PEs.
    pub(crate) fn picture(&self) -> String {
        let panel = |&pes: &u32| {
            let names = self.outline.series.iter().enumerate();
            let curve =
                |name: &str, points, is_bound| Curve { name: name.to_owned(), points, is_bound };
            let curves = names.map(|(at, &name)| curve(name, self.curve(at, pes), false));
            let bound = curve("lower bound", self.bound_curve(pes), true);
            Panel {
                title: format!("{pes} PEs"),
                axes: ["latency between the sites, one way (ms)", "step (ms)"],
                curves: curves.chain([bound]).collect(),
            }
        };
        let rows = self.outline.pes.chunks(COLUMNS).map(|pes| pes.iter().map(panel).collect());
        picture(&self.outline.title, Scale::Linear, &rows.collect::<Vec<_>>())
    }
}

fn knee(curve: &[(f64, f64)]) -> Knee {
    let (Some(first), Some(last)) = (curve.first(), curve.last()) else { return Knee::Beyond(0) };
    let level = first.1 * KNEE;
    let crossing = curve.windows(2).find(|pair| pair[1].1 > level);
    crossing.map_or(Knee::Beyond(last.0 as u64), |pair| {
        let [(x, y), (next_x, next_y)] = [pair[0], pair[1]];
        Knee::At(x + (level - y) / (next_y - y) * (next_x - x))
    })
}

/// Measures several points at a time, starting with the slowest, those with the most PEs.
fn in_parallel(
    points: &[Point],
    threads: usize,
    median: &(dyn Fn(Point) -> Duration + Sync),
) -> Vec<Duration> {
    let mut order: Vec<usize> = (0..points.len()).collect();
    order.sort_by_key(|&at| std::cmp::Reverse(points[at].1));
    let (next, times) = (AtomicUsize::new(0), Mutex::new(vec![Duration::ZERO; points.len()]));
    let work = || {
        while let Some(&at) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
            let time = median(points[at]);
            times.lock().unwrap_or_else(PoisonError::into_inner)[at] = time;
        }
    };
    std::thread::scope(|scope| {
        (0..threads.max(1)).for_each(|_| {
            scope.spawn(work);
        });
    });
    times.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Writes to a string, which cannot fail.
fn put(to: &mut String, what: fmt::Arguments<'_>) {
    let _ = to.write_fmt(what);
}
