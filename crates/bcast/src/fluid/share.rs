//! Max-min fair shares of capacities, kept up to date as flows come and go.
//!
//! Flows that share no capacity with others, directly or by way of other flows, do not concern each other.
//! So a change only recomputes the flows that it reaches. Flows over the same path get the same, so they are
//! counted and not told apart.

/// Flows over capacities. A flow is a slot that is used again and again over one path, by any number of
/// transfers at a time, each of which gets the flow's [rate](Self::rate).
#[derive(Clone, Debug)]
pub struct Shares {
    capacities: Vec<f64>,
    /// The path of each flow.
    paths: Vec<Vec<u32>>,
    rates: Vec<f64>,
    /// The transfers of each flow.
    weights: Vec<u32>,
    /// The flows of each capacity that have transfers.
    users: Vec<Vec<u32>>,
    /// Memory of one computation.
    flows: Vec<u32>,
    seen_flow: Vec<bool>,
    seen_capacity: Vec<bool>,
    reached: Vec<u32>,
    left: Vec<f64>,
    open: Vec<u32>,
}

impl Shares {
    /// Capacities in bytes per second, and the path of each flow over them, by their positions. A capacity
    /// may occur once in a path.
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
            left: vec![0.0; capacities.len()],
            open: vec![0; capacities.len()],
        }
    }

    /// Adds a flow over a path of its own.
    pub fn add(&mut self, path: Vec<u32>) -> u32 {
        self.paths.push(path);
        self.rates.push(0.0);
        self.weights.push(0);
        self.seen_flow.push(false);
        self.paths.len() as u32 - 1
    }

    /// What each transfer of a flow gets, in bytes per second; nothing if it has none.
    pub fn rate(&self, flow: u32) -> f64 {
        self.rates[flow as usize]
    }

    /// A transfer begins; the flows whose rate is computed anew follow in [`Shares::changed`].
    pub fn begin(&mut self, flow: u32) {
        self.weights[flow as usize] += 1;
        if self.weights[flow as usize] == 1 {
            for &capacity in &self.paths[flow as usize] {
                self.users[capacity as usize].push(flow);
            }
        }
        self.recompute(flow);
    }

    /// A transfer of a flow that has some ends.
    pub fn end(&mut self, flow: u32) {
        self.weights[flow as usize] -= 1;
        if self.weights[flow as usize] == 0 {
            self.rates[flow as usize] = 0.0;
            for &capacity in &self.paths[flow as usize] {
                self.users[capacity as usize].retain(|&other| other != flow);
            }
        }
        self.recompute(flow);
    }

    /// The flows with transfers that the last change reached.
    pub fn changed(&self) -> &[u32] {
        &self.flows
    }

    fn recompute(&mut self, cause: u32) {
        self.reach(cause);
        for &capacity in &self.reached {
            let place = capacity as usize;
            self.left[place] = self.capacities[place];
            let weights = self.users[place].iter().map(|&flow| self.weights[flow as usize]);
            self.open[place] = weights.sum();
        }
        for &flow in &self.flows {
            self.rates[flow as usize] = -1.0;
        }
        let mut waiting = self.flows.len();
        while waiting > 0 {
            // The capacity that gives least to each of its flows decides theirs.
            let mut tightest = (f64::INFINITY, None);
            for &capacity in &self.reached {
                let open = self.open[capacity as usize];
                let share = self.left[capacity as usize] / f64::from(open);
                if open > 0 && share < tightest.0 {
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
        for &capacity in &self.reached {
            self.seen_capacity[capacity as usize] = false;
        }
        for &flow in &self.flows {
            self.seen_flow[flow as usize] = false;
        }
    }

    /// The flows that share capacities with this one, or with one that does.
    fn reach(&mut self, cause: u32) {
        self.flows.clear();
        self.reached.clear();
        let Self { paths, users, flows, reached, seen_flow, seen_capacity, .. } = self;
        let mut look = |flow: u32, flows: &mut Vec<u32>| {
            for &capacity in &paths[flow as usize] {
                if std::mem::replace(&mut seen_capacity[capacity as usize], true) {
                    continue;
                }
                reached.push(capacity);
                for &user in &users[capacity as usize] {
                    if !std::mem::replace(&mut seen_flow[user as usize], true) {
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

/// What flows that are all there at once get together.
pub(crate) fn joint_rate(capacities: &[f64], paths: Vec<Vec<u32>>) -> f64 {
    let flows = paths.len() as u32;
    let mut shares = Shares::new(capacities, paths);
    (0..flows).for_each(|flow| shares.begin(flow));
    (0..flows).map(|flow| shares.rate(flow)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates(shares: &Shares) -> Vec<f64> {
        shares.rates.clone()
    }

    #[test]
    fn the_textbook_example_of_max_min_fairness() {
        // Three flows over two links in a row, of 10 and 4: one over both, one over each.
        let mut shares = Shares::new(&[10.0, 4.0], vec![vec![0, 1], vec![0], vec![1]]);
        (0..3).for_each(|flow| shares.begin(flow));

        assert_eq!(rates(&shares), [2.0, 8.0, 2.0]);

        shares.end(2);
        assert_eq!(rates(&shares), [4.0, 6.0, 0.0]);
        shares.end(0);
        assert_eq!(rates(&shares), [0.0, 10.0, 0.0]);
    }

    #[test]
    fn transfers_of_one_flow_count_as_many_and_get_the_same() {
        let mut shares = Shares::new(&[12.0], vec![vec![0], vec![0]]);
        (0..3).for_each(|_| shares.begin(0));
        shares.begin(1);

        assert_eq!(rates(&shares), [3.0, 3.0]);

        shares.end(0);
        assert_eq!(rates(&shares), [4.0, 4.0]);
    }

    #[test]
    fn flows_that_share_nothing_are_left_alone() {
        let mut shares = Shares::new(&[5.0, 7.0], vec![vec![0], vec![1]]);
        shares.begin(0);
        shares.begin(1);

        assert_eq!(shares.changed(), [1]);
        assert_eq!(rates(&shares), [5.0, 7.0]);
    }
}
