//! How the PEs of each site used their time over the run, and how evenly PEs were loaded.

use super::places::Places;
use super::profile::{PeProfile, Profile, Times};
use serde::Serialize;
use std::collections::BTreeMap;

/// Maximum number of sites.
const SITES_MAX: usize = 2000;
/// Maximum number of sites whose use of time is shown by column.
const SITES_SHOWN_MAX: usize = 24;
/// Maximum number of columns.
const COLUMNS_MAX: u64 = 256;
/// Loads are compared if handlers take at least this share of the time of all PEs: if PEs hardly
/// compute, the load of the busiest one says nothing.
const BUSY_MIN: f64 = 0.05;

/// The use of time of a site.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct SiteUse {
    /// The number of the site.
    pub(crate) site: usize,
    /// Its name.
    pub(crate) name: String,
    /// Number of its PEs that have records.
    pub(crate) pes: usize,
    /// Their time between the first handler and the last one of the run.
    pub(crate) pe_time_ns: f64,
    /// What they used it for.
    #[serde(flatten)]
    pub(crate) times: Times,
    /// Percent of their time by column: in handlers and tasks; in the network and the runtime;
    /// ready, while other threads had the processor; without a record, before their processes began
    /// and after their nodes left. The rest is idle time. Empty for sites that are not shown by
    /// column.
    pub(crate) percent: [Vec<u8>; 4],
}

/// The use of time of all sites.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Utilisation {
    /// Width of a column.
    pub(crate) column_ns: u64,
    /// The sites with records.
    pub(crate) sites: Vec<SiteUse>,
    /// The time in handlers of the busiest PE over the mean of all PEs, by column; `None` where PEs
    /// computed for less than 5 % of the time.
    pub(crate) peak: Vec<Option<f64>>,
    /// The same for the whole run: the mean over the columns, with their work as weights. 1 if the
    /// loads of PEs are equal at each time.
    pub(crate) unevenness: f64,
}

impl Utilisation {
    /// The use of time in this profile.
    pub(crate) fn of(places: &Places, profile: &Profile) -> Self {
        let mut width = 1_u64;
        while profile.end_ns.div_ceil(profile.column_ns.saturating_mul(width)) > COLUMNS_MAX {
            width *= 2;
        }
        let column_ns = profile.column_ns.saturating_mul(width);
        let columns = profile.end_ns.div_ceil(column_ns) as usize;
        let mut pes: BTreeMap<usize, Vec<&PeProfile>> = BTreeMap::new();
        for (pe, of_pe) in profile.recorded() {
            pes.entry(places.site_of(pe)).or_default().push(of_pe);
        }
        let site = |(shown, (site, pes)): (usize, (usize, Vec<&PeProfile>))| {
            let mut times = Times::default();
            pes.iter().for_each(|pe| times.add(pe.total));
            let time = |pe: &&PeProfile| pe.time_within(profile.active);
            let percent = match shown < SITES_SHOWN_MAX {
                true => percent(&pes, width as usize, columns, [column_ns, profile.end_ns]),
                false => [(); 4].map(|()| Vec::new()),
            };
            SiteUse {
                site,
                name: places.site_name(site).to_owned(),
                pes: pes.len(),
                pe_time_ns: pes.iter().map(time).sum::<f64>().max(1.0),
                times,
                percent,
            }
        };
        Self {
            column_ns,
            sites: pes.into_iter().take(SITES_MAX).enumerate().map(site).collect(),
            peak: peak(profile, width as usize, columns),
            unevenness: profile.unevenness(columns),
        }
    }
}

/// The begin and the end of a column; the last one ends with the run.
fn times_of(column: usize, [column_ns, end_ns]: [u64; 2]) -> [u64; 2] {
    let begin_ns = (column as u64).saturating_mul(column_ns);
    let width_ns = column_ns.min(end_ns.saturating_sub(begin_ns)).max(1);
    [begin_ns, begin_ns.saturating_add(width_ns)]
}

/// The width of a column.
fn width_ns(column: usize, ns: [u64; 2]) -> f64 {
    let [begin_ns, end_ns] = times_of(column, ns);
    (end_ns - begin_ns) as f64
}

/// Returns the percentages of the time of PEs. No column has more than 100 in all.
fn percent(pes: &[&PeProfile], width: usize, columns: usize, ns: [u64; 2]) -> [Vec<u8>; 4] {
    let mut sums = vec![Times::default(); columns];
    for pe in pes {
        for (sum, own) in sums.iter_mut().zip(pe.columns.chunks(width)) {
            own.iter().for_each(|times| sum.add(*times));
        }
    }
    let mut percent = [(); 4].map(|()| Vec::with_capacity(columns));
    for (column, sum) in sums.iter().enumerate() {
        let all = width_ns(column, ns) * pes.len() as f64;
        let known: f64 = pes.iter().map(|pe| pe.time_within(times_of(column, ns))).sum();
        let no_record = (all - known).max(0.0);
        // The clocks of nodes differ a little, so that the sum may exceed the width.
        let whole = all.max(sum.occupied_ns() + no_record);
        let mut left = 100.0;
        let parts = [sum.busy_ns as f64, sum.overhead_ns(), sum.waited_ns as f64, no_record];
        for (part, percent) in parts.into_iter().zip(&mut percent) {
            let part = (part * 100.0 / whole).round().min(left);
            left -= part;
            percent.push(part as u8);
        }
    }
    percent
}

/// Returns the greatest time in handlers of a PE over the mean, by column.
fn peak(profile: &Profile, width: usize, columns: usize) -> Vec<Option<f64>> {
    let column_ns = profile.column_ns.saturating_mul(width as u64);
    let (mut most, mut sums, mut count) = (vec![0.0_f64; columns], vec![0.0; columns], 0.0);
    for (_, pe) in profile.recorded() {
        count += 1.0;
        for (column, own) in pe.columns.chunks(width).take(columns).enumerate() {
            let busy = own.iter().map(|times| times.busy_ns as f64).sum::<f64>();
            most[column] = most[column].max(busy);
            sums[column] += busy;
        }
    }
    let peak = |(column, (most, sum)): (usize, (f64, f64))| {
        let whole = width_ns(column, [column_ns, profile.end_ns]) * count;
        (sum > 0.0 && sum >= BUSY_MIN * whole).then(|| most * count / sum)
    };
    most.into_iter().zip(sums).enumerate().map(peak).collect()
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::{MS, complete, recording, span};
    use super::*;
    use gridspan_record::Recording;

    fn utilisation(recording: &Recording) -> Utilisation {
        let places = Places::of(recording);
        Utilisation::of(&places, &Profile::of(recording, &places))
    }

    #[test]
    fn sites_have_the_mean_of_their_pes_and_peaks_are_over_the_mean_of_all() {
        // PE 0 computes all the time, PE 1 for the first half; those of the other site do nothing.
        let mut recording = recording(2, 2);
        recording.pes[0].spans = vec![span(0, 0, [0, 40])];
        recording.pes[1].spans = vec![span(1, 0, [0, 20])];
        complete(&mut recording, 40);

        let found = utilisation(&recording);

        assert_eq!((found.column_ns, found.sites.len(), found.peak.len()), (MS, 2, 40));
        let [a, b] = &found.sites[..] else { panic!() };
        assert_eq!((&*a.name, a.pes, a.times.busy_ns), ("a", 2, 60 * MS));
        assert_eq!(a.pe_time_ns, 80.0 * MS as f64);
        assert_eq!((a.percent[0][0], a.percent[0][39]), (100, 50));
        assert_eq!((b.times.busy_ns, b.percent[0].iter().max()), (0, Some(&0)));
        assert_eq!((found.peak[0], found.peak[39]), (Some(2.0), Some(4.0)));
        // The greatest of each column: 40 ms of one PE, over the mean of 15 ms.
        assert!((found.unevenness - 40.0 * 4.0 / 60.0).abs() < 1e-9, "{}", found.unevenness);
    }

    #[test]
    fn the_time_before_a_process_began_is_no_idle_time() {
        let mut recording = recording(1, 2);
        recording.pes[0].spans = vec![span(0, 0, [0, 40])];
        complete(&mut recording, 40);
        recording.pes[1].began_ns = 10 * MS;

        let found = utilisation(&recording);

        let site = &found.sites[0];
        assert_eq!([9, 10].map(|column| site.percent[0][column]), [50, 50]);
        assert_eq!([9, 10].map(|column| site.percent[3][column]), [50, 0]);
    }

    #[test]
    fn long_runs_have_few_columns_and_quiet_times_no_peak() {
        let mut recording = recording(1, 30);
        recording.pes[3].spans = vec![span(3, 0, [0, 1000])];
        complete(&mut recording, 1000);

        let found = utilisation(&recording);

        assert_eq!((found.column_ns, found.peak.len()), (4 * MS, 250));
        assert!(found.peak.iter().all(Option::is_none), "one of 30 is less than a twentieth");
        assert_eq!(found.sites[0].percent[0], vec![3; 250]);
    }

    #[test]
    fn nothing_is_known_of_an_empty_recording_and_of_missing_nodes() {
        let empty = utilisation(&Recording::default());
        assert_eq!((empty.sites, empty.peak), (vec![], vec![None]));
        let mut recording = recording(2, 1);
        recording.pes[0].spans = vec![span(0, 0, [0, 10])];
        complete(&mut recording, 10);
        recording.pes.pop();
        recording.missing = vec![1];
        let found = utilisation(&recording);
        assert_eq!(found.sites.iter().map(|it| &*it.name).collect::<Vec<_>>(), ["a"]);
        assert_eq!(found.peak[0], Some(1.0));
    }
}
