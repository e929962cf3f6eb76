//! Kept nodes whose hosts cannot be reached, or which another launcher has taken over.

use super::bridge::Bridge;
use super::child::Child;
use super::event::Exit;
use super::takeover;
use gridspan::keeper::LauncherId;
use gridspan_topology::NodeId;
use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};

/// Time after which a node whose host cannot be reached counts as lost, although no other node has
/// reported its loss: five attempts to connect.
const UNREACHABLE_PATIENCE: Duration = Duration::from_secs(20);
/// Time after which a node that another launcher has taken over counts as lost. In this time, that
/// launcher takes over all nodes, even if the hosts of some do not answer.
pub(super) const TAKEN_PATIENCE: Duration = Duration::from_secs(takeover::PATIENCE.as_secs() + 5);
/// Shortest time between checks. While too few hosts can be reached, the launcher cannot give up
/// overdue nodes, and must not check without a pause.
const PAUSE: Duration = Duration::from_secs(1);
/// Time that nodes have to end, and keepers to forget them.
const END_PATIENCE: Duration = Duration::from_secs(2);
/// Interval between checks whether they have done so.
const LOOK: Duration = Duration::from_millis(5);

/// The bridges to kept nodes.
pub(super) fn bridges(children: &[Option<Child>]) -> impl Iterator<Item = &Bridge> {
    children.iter().flatten().filter_map(Child::bridge)
}

/// Whether the keeper of a node can be reached.
pub(super) fn is_connected(children: &[Option<Child>], node: NodeId) -> bool {
    let child = children.get(node.index()).and_then(Option::as_ref);
    child.and_then(Child::bridge).is_some_and(Bridge::is_connected)
}

/// The nodes whose keepers cannot be reached, as far as is known.
pub(super) fn unreached(children: &[Option<Child>]) -> BTreeSet<NodeId> {
    let is_unreached = |child: &Option<Child>| {
        let bridge = child.as_ref().and_then(Child::bridge);
        bridge.is_some_and(|bridge| bridge.unreachable_since().is_some())
    };
    let all = children.iter().enumerate();
    all.filter(|(_, child)| is_unreached(child)).map(|(node, _)| NodeId::from(node)).collect()
}

/// Returns the time until a node may be overdue; `None` if all can be reached and none is taken
/// over.
pub(super) fn time_until_overdue(children: &[Option<Child>]) -> Option<Duration> {
    let due = |bridge: &Bridge| match (bridge.unreachable_since(), bridge.taken_over()) {
        (Some(since), _) => Some(since + UNREACHABLE_PATIENCE),
        (None, Some((_, since))) => Some(since + TAKEN_PATIENCE),
        (None, None) => None,
    };
    let first = bridges(children).filter_map(due).min()?;
    Some(first.saturating_duration_since(Instant::now()).max(PAUSE))
}

/// The launcher that has taken over a node, if this launcher has known it for `known_for`.
pub(super) fn taken_over_by(children: &[Option<Child>], known_for: Duration) -> Option<LauncherId> {
    let mut taken = bridges(children).filter_map(Bridge::taken_over);
    let (launcher, _) = taken.find(|(_, since)| since.elapsed() >= known_for)?;
    Some(launcher)
}

/// Whether a node is overdue.
pub(super) fn is_overdue(children: &[Option<Child>]) -> bool {
    bridges(children).any(|bridge| overdue(bridge).is_some())
}

/// Gives up all nodes that are overdue.
pub(super) fn lose_overdue(children: &[Option<Child>]) {
    for bridge in bridges(children) {
        if let Some(exit) = overdue(bridge) {
            bridge.give_up(exit);
        }
    }
}

/// How an overdue node counts as ended; `None` for any other node.
fn overdue(bridge: &Bridge) -> Option<Exit> {
    let is_over = |since: Instant, patience| since.elapsed() >= patience;
    if bridge.unreachable_since().is_some_and(|since| is_over(since, UNREACHABLE_PATIENCE)) {
        return Some(Exit::Unreachable);
    }
    let taken_over = bridge.taken_over();
    taken_over.is_some_and(|(_, since)| is_over(since, TAKEN_PATIENCE)).then_some(Exit::TakenOver)
}

/// Ends the nodes that another launcher has not taken over.
pub(super) fn end_others(children: &[Option<Child>]) {
    bridges(children).filter(|bridge| bridge.is_connected()).for_each(Bridge::kill);
    let is_over = |bridge: &Bridge| !bridge.is_connected() || bridge.exit().is_some();
    wait_until(|| bridges(children).all(is_over));
}

/// Lets the keepers forget nodes that have ended.
pub(super) fn forget(children: &[Option<Child>]) {
    let is_open = |bridge: &&Bridge| bridge.exit().is_some() && bridge.is_connected();
    bridges(children).filter(is_open).for_each(Bridge::forget);
    wait_until(|| bridges(children).find(is_open).is_none());
}

fn wait_until(is_done: impl Fn() -> bool) {
    let until = Instant::now() + END_PATIENCE;
    while Instant::now() < until && !is_done() {
        thread::sleep(LOOK);
    }
}
