//! The previous run, some nodes of which were lost and come back.
//!
//! A lost node that still lives has not learned that the job goes on without it. When it comes
//! back, it dials the nodes that it knew, and sends again the frames that they have not confirmed.
//! They must refuse it. In the present run all channels are numbered from 0 again, so the nodes
//! would mistake its messages for other messages with the same numbers. The present run may also
//! have repeated some of these messages, so they would arrive twice.
//!
//! The nodes refuse it because each run has its own keys. For each pair of nodes, the simulation
//! connects two production transports, one with the keys of each run, to find out whether the
//! connection is accepted. It does so even if frames do not travel over QUIC. The two transports
//! have no other connections, as at the beginning of a run.

use bytes::Bytes;
use gridspan_runtime::net::{IdentityError, TransportLimits, VirtualJob};
use gridspan_runtime::session::PlantedSessionFault;
use gridspan_runtime::{CheckpointStore, Layout, NodeId, Time};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// Number of frames of which a run keeps a copy: more than [`AGAIN_MAX`], since these are the
/// frames of all nodes.
const FRAMES_MAX: usize = 256;
/// Size of the largest frame of which a run keeps a copy, so that the copies take little memory.
const FRAME_BYTES_MAX: usize = 16 << 10;
/// Number of frames that lost nodes send again. Each pair of nodes takes a handshake.
const AGAIN_MAX: usize = 16;
/// Time besides a round trip after which a frame is confirmed.
const CONFIRMED_AFTER: Duration = Duration::from_millis(25);

/// A frame that has left a node.
#[derive(Clone)]
pub(crate) struct SentFrame {
    at: Time,
    from: NodeId,
    to: NodeId,
    frame: Bytes,
}

/// The last frames that nodes have sent.
#[derive(Default)]
pub(crate) struct SentFrames(VecDeque<SentFrame>);

impl SentFrames {
    /// Notes a frame that leaves at `at`.
    pub(crate) fn note(&mut self, at: Time, (from, to): (NodeId, NodeId), frame: &Bytes) {
        if frame.len() > FRAME_BYTES_MAX {
            return;
        }
        if self.0.len() == FRAMES_MAX {
            self.0.pop_front();
        }
        self.0.push_back(SentFrame { at, from, to, frame: frame.clone() });
    }

    /// Takes the frames that are not confirmed at `now`. `round_trip` gives that of two nodes.
    pub(crate) fn unconfirmed(
        self,
        now: Time,
        round_trip: impl Fn(NodeId, NodeId) -> Duration,
    ) -> Vec<SentFrame> {
        let is_new =
            |sent: &SentFrame| sent.at + round_trip(sent.from, sent.to) + CONFIRMED_AFTER > now;
        self.0.into_iter().filter(is_new).collect()
    }
}

/// A run that the simulation has stopped.
pub(crate) struct Stopped {
    /// The checkpoints of each node.
    pub(crate) stores: Vec<CheckpointStore>,
    /// Whether the job had stopped itself after a checkpoint.
    pub(crate) is_paused: bool,
    /// The node of the coordinator, or its last node while it moves.
    pub(crate) coordinator: NodeId,
    pub(crate) left: LeftBehind,
}

/// What a stopped run leaves to nodes that come back.
pub(crate) struct LeftBehind {
    pub(crate) layout: Arc<Layout>,
    /// The keys of its nodes, if they were made.
    pub(crate) keys: Option<VirtualJob>,
    pub(crate) unconfirmed: Vec<SentFrame>,
    /// The bug in the next run, if any.
    pub(crate) planted: PlantedSessionFault,
}

impl LeftBehind {
    /// Returns the last frames that `returning` sent to nodes which are still there. `successors`
    /// has the number of each node in the next run, if it is still there.
    pub(crate) fn sent_again(
        &self,
        returning: &[NodeId],
        successors: &[Option<NodeId>],
    ) -> Vec<LateFrame> {
        let again = |sent: &SentFrame| {
            let node = successors.get(sent.to.index()).copied().flatten()?;
            let SentFrame { from, to, ref frame, .. } = *sent;
            returning.contains(&from).then(|| LateFrame { from, to, node, frame: frame.clone() })
        };
        let mut late: Vec<LateFrame> = self.unconfirmed.iter().filter_map(again).collect();
        late.split_off(late.len().saturating_sub(AGAIN_MAX))
    }
}

/// A frame of the previous run that a node sends again.
pub(crate) struct LateFrame {
    /// The sender in that run.
    pub(crate) from: NodeId,
    /// The receiver in that run.
    to: NodeId,
    /// The receiver in the present run.
    pub(crate) node: NodeId,
    pub(crate) frame: Bytes,
}

/// The keys of the previous and the present run, and which nodes accept connections between them.
pub(crate) struct FormerRun {
    former: VirtualJob,
    present: VirtualJob,
    /// Whether a node of the present run accepts one of the former run.
    answers: BTreeMap<(NodeId, NodeId), bool>,
    /// Number of frames that were refused.
    pub(crate) refused: u64,
}

impl FormerRun {
    /// Begins a run on the nodes of `layout`, after the run that `left` comes from.
    ///
    /// # Errors
    ///
    /// Why keys cannot be made.
    pub(crate) fn before(left: &LeftBehind, layout: &Layout, seed: u64) -> Result<Self, String> {
        let make = || -> Result<Self, IdentityError> {
            let former = match &left.keys {
                Some(keys) => keys.clone(),
                None => {
                    VirtualJob::new(Layout::clone(&left.layout), !seed, TransportLimits::default())?
                }
            };
            let former = former.with_fault(left.planted);
            let present = former.next_run(layout.clone(), seed)?;
            Ok(Self { former, present, answers: BTreeMap::new(), refused: 0 })
        };
        make().map_err(|error| error.to_string())
    }

    /// Whether the receiver accepts the connection over which a frame comes. Counts it if not.
    ///
    /// # Errors
    ///
    /// Why certificates cannot be made.
    pub(crate) fn accepts(&mut self, late: &LateFrame) -> Result<bool, String> {
        let &LateFrame { from, to, node, .. } = late;
        let is_accepted = match self.answers.get(&(from, node)) {
            Some(&answer) => answer,
            None => {
                let answer = self.present.accepts(node, &self.former, (from, to));
                let answer = answer.map_err(|error| error.to_string())?;
                self.answers.insert((from, node), answer);
                answer
            }
        };
        self.refused += u64::from(!is_accepted);
        Ok(is_accepted)
    }

    /// The keys of the present run.
    pub(crate) fn keys(&self) -> VirtualJob {
        self.present.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SURVIVOR: NodeId = NodeId(0);
    const LOST: NodeId = NodeId(1);
    const LAST: NodeId = NodeId(2);
    const NOW: Time = Time(1_000_000_000);

    fn layout(nodes: usize) -> Layout {
        Layout::new(vec![("a".to_owned(), vec![1; nodes])])
    }

    /// The remains of a run in which each frame left its node this many milliseconds before
    /// [`NOW`].
    fn left_behind(frames: &[(u64, NodeId, NodeId)]) -> LeftBehind {
        let mut sent = SentFrames::default();
        for &(before_ms, from, to) in frames {
            let at = Time(NOW.as_nanos() - before_ms * 1_000_000);
            sent.note(at, (from, to), &Bytes::from(vec![before_ms as u8]));
        }
        let unconfirmed = sent.unconfirmed(NOW, |_, _| Duration::from_millis(10));
        let (layout, planted) = (Arc::new(layout(3)), PlantedSessionFault::None);
        LeftBehind { layout, keys: None, unconfirmed, planted }
    }

    #[test]
    fn a_lost_node_sends_again_what_nodes_that_are_left_have_not_confirmed() {
        let left = left_behind(&[
            (40, LOST, SURVIVOR),
            (30, LOST, SURVIVOR),
            (20, LOST, LAST),
            (20, SURVIVOR, LAST),
            (10, LOST, LOST),
        ]);

        let late = left.sent_again(&[LOST], &[Some(SURVIVOR), None, Some(LOST)]);

        let frames: Vec<_> = late.iter().map(|it| (it.to, it.node, it.frame[0])).collect();
        assert_eq!(frames, [(SURVIVOR, SURVIVOR, 30), (LAST, LOST, 20)]);
    }

    #[test]
    fn frames_that_are_refused_are_counted() {
        let left = left_behind(&[(2, LOST, SURVIVOR), (1, LOST, SURVIVOR)]);
        let mut former = FormerRun::before(&left, &layout(2), 7).unwrap();

        for late in left.sent_again(&[LOST], &[Some(SURVIVOR), None, Some(LOST)]) {
            assert_eq!(former.accepts(&late), Ok(false));
        }

        assert_eq!((former.refused, former.answers.len()), (2, 1));
    }
}
