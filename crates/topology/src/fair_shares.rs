//! Max-min fair shares of capacities, updated as transfers begin and end.
//!
//! A flow is a path with any number of transfers, which all get the same rate, so that transfers
//! are counted instead of listed. A transfer that begins or ends affects only the flows with which
//! its flow shares a capacity, directly or through other flows, so only these are recomputed. It
//! does not affect slower flows either: rates are found in ascending order, and those below the
//! rate of its flow stay the same. So the change does not spread through slower flows.

/// Flows over capacities. A flow is a reusable slot with one path for any number of transfers at a
/// time, each of which gets the flow's [rate](Self::rate).
#[derive(Clone, Debug)]
pub struct FairShares {
    capacities: Vec<f64>,
    /// The path of each flow.
    paths: Vec<Vec<u32>>,
    /// The rate of each transfer of each flow, in bytes per second.
    rates: Vec<f64>,
    /// Number of transfers of each flow.
    weights: Vec<u32>,
    /// For each capacity, the flows over it that have transfers.
    users: Vec<Vec<u32>>,
    /// The flows with transfers that the last change reached.
    flows: Vec<u32>,
    /// This field and those below are scratch memory of one computation.
    seen_flow: Vec<bool>,
    seen_capacity: Vec<bool>,
    reached: Vec<u32>,
    unfilled: Vec<u32>,
    left: Vec<f64>,
    open: Vec<u32>,
}

/// Relative difference below which two rates are equal.
const ROUNDING: f64 = 1e-9;

impl FairShares {
    /// Creates the capacities, in bytes per second, and the flows, each given by its path as
    /// positions of capacities. A capacity may occur once in a path.
    pub fn new(capacities: &[f64], paths: Vec<Vec<u32>>) -> Self {
        let flows = paths.len();
        Self {
            capacities: capacities.to_vec(),
            paths,
            rates: vec![0.0; flows],
            weights: vec![0; flows],
            users: vec![Vec::new(); capacities.len()],
            flows: Vec::new(),
            seen_flow: vec![false; flows],
            seen_capacity: vec![false; capacities.len()],
            reached: Vec::new(),
            unfilled: Vec::new(),
            left: vec![0.0; capacities.len()],
            open: vec![0; capacities.len()],
        }
    }

    /// Adds a flow over a new path and returns its number.
    pub fn add(&mut self, path: Vec<u32>) -> u32 {
        self.paths.push(path);
        self.rates.push(0.0);
        self.weights.push(0);
        self.seen_flow.push(false);
        self.paths.len() as u32 - 1
    }

    /// Returns the rate of each transfer of a flow in bytes per second, or 0 if it has none.
    pub fn rate(&self, flow: u32) -> f64 {
        self.rates[flow as usize]
    }

    /// Starts a transfer of a flow. [`FairShares::changed`] then gives the flows with recomputed
    /// rates.
    pub fn begin(&mut self, flow: u32) {
        self.weights[flow as usize] += 1;
        if self.weights[flow as usize] == 1 {
            for &capacity in &self.paths[flow as usize] {
                self.users[capacity as usize].push(flow);
            }
        }
        // The flow's rate is at least the smallest of the equal shares of the capacities on its
        // path.
        let even = self.paths[flow as usize].iter().map(|&capacity| {
            let users = self.users[capacity as usize].iter();
            let transfers: u32 = users.map(|&user| self.weights[user as usize]).sum();
            self.capacities[capacity as usize] / f64::from(transfers)
        });
        let least = even.fold(f64::INFINITY, f64::min);
        self.recompute(flow, least);
    }

    /// Ends a transfer of a flow that has at least one.
    pub fn end(&mut self, flow: u32) {
        let least = self.rates[flow as usize];
        self.weights[flow as usize] -= 1;
        if self.weights[flow as usize] == 0 {
            self.rates[flow as usize] = 0.0;
            for &capacity in &self.paths[flow as usize] {
                self.users[capacity as usize].retain(|&other| other != flow);
            }
        }
        self.recompute(flow, least);
    }

    /// Returns the flows with transfers that the last change reached.
    pub fn changed(&self) -> &[u32] {
        &self.flows
    }

    /// Recomputes the rates after a change of a flow whose rate is, or was, at least `least`.
    fn recompute(&mut self, cause: u32, least: f64) {
        self.reach(cause, least * (1.0 - ROUNDING));
        for &capacity in &self.reached {
            let place = capacity as usize;
            (self.left[place], self.open[place]) = (self.capacities[place], 0);
            for &user in &self.users[place] {
                let weight = self.weights[user as usize];
                if self.seen_flow[user as usize] {
                    self.open[place] += weight;
                } else {
                    let taken = self.rates[user as usize] * f64::from(weight);
                    self.left[place] = (self.left[place] - taken).max(0.0);
                }
            }
        }
        for &flow in &self.flows {
            self.rates[flow as usize] = -1.0;
        }
        self.fill();
        for &capacity in &self.reached {
            self.seen_capacity[capacity as usize] = false;
        }
        for &flow in &self.flows {
            self.seen_flow[flow as usize] = false;
        }
    }

    /// Assigns rates to the flows that have none, out of the remaining capacities.
    fn fill(&mut self) {
        let mut waiting = self.flows.len();
        self.unfilled.clone_from(&self.reached);
        while waiting > 0 {
            let Self { unfilled, open, .. } = self;
            unfilled.retain(|&capacity| open[capacity as usize] > 0);
            // The capacity with the smallest equal share for each transfer determines the rates.
            let mut tightest = (f64::INFINITY, None);
            for &capacity in &self.unfilled {
                let open = self.open[capacity as usize];
                let share = self.left[capacity as usize] / f64::from(open);
                if share < tightest.0 {
                    tightest = (share, Some(capacity as usize));
                }
            }
            let (share, Some(capacity)) = tightest else { break };
            for user in 0..self.users[capacity].len() {
                let flow = self.users[capacity][user] as usize;
                if self.rates[flow] >= 0.0 {
                    continue;
                }
                self.rates[flow] = share;
                waiting -= 1;
                let weight = self.weights[flow];
                for &other in &self.paths[flow] {
                    let left = &mut self.left[other as usize];
                    *left = (*left - share * f64::from(weight)).max(0.0);
                    self.open[other as usize] -= weight;
                }
            }
        }
    }

    /// Collects the flows of at least this rate that share capacities with the changed flow,
    /// directly or through other such flows.
    fn reach(&mut self, cause: u32, least: f64) {
        self.flows.clear();
        self.reached.clear();
        let Self { paths, users, flows, reached, seen_flow, seen_capacity, rates, .. } = self;
        let mut look = |flow: u32, flows: &mut Vec<u32>| {
            for &capacity in &paths[flow as usize] {
                if std::mem::replace(&mut seen_capacity[capacity as usize], true) {
                    continue;
                }
                reached.push(capacity);
                for &user in &users[capacity as usize] {
                    let is_fixed = user != cause && rates[user as usize] < least;
                    if !is_fixed && !std::mem::replace(&mut seen_flow[user as usize], true) {
                        flows.push(user);
                    }
                }
            }
        };
        look(cause, flows);
        let mut at = 0;
        while let Some(&flow) = flows.get(at) {
            look(flow, flows);
            at += 1;
        }
    }
}

/// Returns the total rate of flows that have one transfer each at the same time, in the unit of the
/// capacities.
pub fn joint_rate(capacities: &[f64], paths: Vec<Vec<u32>>) -> f64 {
    let flows = paths.len() as u32;
    let mut shares = FairShares::new(capacities, paths);
    (0..flows).for_each(|flow| shares.begin(flow));
    (0..flows).map(|flow| shares.rate(flow)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rates(shares: &FairShares) -> Vec<f64> {
        shares.rates.clone()
    }

    #[test]
    fn rates_are_those_of_the_textbook_example() {
        // Three flows over two links in a row, of 10 and 4: one over both, one over each.
        let mut shares = FairShares::new(&[10.0, 4.0], vec![vec![0, 1], vec![0], vec![1]]);
        (0..3).for_each(|flow| shares.begin(flow));

        assert_eq!(rates(&shares), [2.0, 8.0, 2.0]);

        shares.end(2);
        assert_eq!(rates(&shares), [4.0, 6.0, 0.0]);
        shares.end(0);
        assert_eq!(rates(&shares), [0.0, 10.0, 0.0]);
    }

    #[test]
    fn slower_flows_keep_their_rates_and_use_shared_capacities() {
        // The first flow gets 2 behind its separate link, whatever the others on the link of 10 do.
        let paths = vec![vec![0, 1], vec![1], vec![1]];
        let mut shares = FairShares::new(&[2.0, 10.0], paths);
        shares.begin(0);
        shares.begin(1);

        shares.begin(2);

        assert_eq!((rates(&shares), shares.changed().len()), (vec![2.0, 4.0, 4.0], 2));
        shares.end(1);
        assert_eq!((rates(&shares), shares.changed()), (vec![2.0, 0.0, 8.0], &[2][..]));
    }

    proptest! {
        /// The definition of a bottleneck (D. Bertsekas, R. Gallager, Data Networks, 6.5.2): each
        /// flow crosses a full capacity on which no flow is faster.
        #[test]
        fn after_any_changes_each_flow_has_a_bottleneck(
            capacities in prop::collection::vec(1..50_u32, 6),
            paths in prop::collection::vec(prop::collection::btree_set(0..6_u32, 1..4), 8),
            changes in prop::collection::vec((0..8_u32, any::<bool>()), 1..60),
        ) {
            let capacities: Vec<f64> = capacities.into_iter().map(f64::from).collect();
            let paths: Vec<Vec<u32>> = paths.into_iter().map(|path| path.into_iter().collect()).collect();
            let mut shares = FairShares::new(&capacities, paths.clone());
            let mut counts = [0_u32; 8];
            for (flow, begins) in changes {
                match (begins, &mut counts[flow as usize]) {
                    (true, count) => { *count += 1; shares.begin(flow); }
                    (false, 0) => {}
                    (false, count) => { *count -= 1; shares.end(flow); }
                }
                let on = |capacity: u32| {
                    let paths = &paths;
                    (0..8).filter(move |&flow| counts[flow] > 0 && paths[flow].contains(&capacity))
                };
                let is_full = |capacity: u32| {
                    let used: f64 =
                        on(capacity).map(|flow| shares.rate(flow as u32) * f64::from(counts[flow])).sum();
                    (used / capacities[capacity as usize] - 1.0).abs() < 1e-6
                };
                for flow in (0..8).filter(|&flow| counts[flow] > 0) {
                    let rate = shares.rate(flow as u32);
                    let is_fastest = |capacity: u32| {
                        on(capacity).all(|other| shares.rate(other as u32) <= rate * (1.0 + 1e-6))
                    };
                    let bottleneck =
                        paths[flow].iter().any(|&capacity| is_full(capacity) && is_fastest(capacity));
                    prop_assert!(bottleneck, "flow {flow} at {rate}: {:?}", rates(&shares));
                }
            }
        }
    }

    #[test]
    fn each_transfer_of_a_flow_gets_an_equal_share() {
        let mut shares = FairShares::new(&[12.0], vec![vec![0], vec![0]]);
        (0..3).for_each(|_| shares.begin(0));
        shares.begin(1);

        assert_eq!(rates(&shares), [3.0, 3.0]);

        shares.end(0);
        assert_eq!(rates(&shares), [4.0, 4.0]);
    }

    #[test]
    fn flows_that_share_no_capacity_keep_their_rates() {
        let mut shares = FairShares::new(&[5.0, 7.0], vec![vec![0], vec![1]]);
        shares.begin(0);
        shares.begin(1);

        assert_eq!(shares.changed(), [1]);
        assert_eq!(rates(&shares), [5.0, 7.0]);
    }
}
