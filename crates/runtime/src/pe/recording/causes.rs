//! The *causes* of the ready messages of a PE: which span sent each message, and when. Each queue
//! of messages has a separate queue of causes. So messages themselves take no more memory, and a
//! job that is not recorded has no queues of causes.

use crate::address::id::KindId;
use crate::pe::rank::Rank;
use gridspan_record::SpanCause;
use std::collections::{BTreeMap, VecDeque};

/// Maximum bytes that a cause takes in a queue that is at least half full.
const CAUSE_BYTES: usize = 2 * size_of::<(u64, SpanCause)>();
/// Largest capacity that an empty queue keeps, in causes: enough for mailboxes that empty and fill
/// again with each message, and little memory for each actor type.
const EMPTY_QUEUE_MAX: usize = 64;

/// The causes of ready messages.
pub(crate) struct Causes {
    queues: CauseQueues,
    kept: usize,
    /// Maximum of `kept`. Further messages have no cause.
    kept_max: usize,
    /// Number of ready messages.
    waiting: u64,
}

/// The queues of all types and ranks.
#[derive(Default)]
struct CauseQueues {
    /// The queues of the rank that nearly all messages have, by type. Empty queues stay.
    normal: Vec<CauseQueue>,
    /// The queues of other ranks. Each step is another rank, so empty queues are removed.
    others: BTreeMap<(KindId, Rank), CauseQueue>,
}

/// The causes of the messages of one type and rank.
#[derive(Default)]
struct CauseQueue {
    /// Number of the next message to be taken, and of the next one to become ready.
    taken: u64,
    next: u64,
    /// Causes by the numbers of their messages, in order.
    causes: VecDeque<(u64, SpanCause)>,
}

impl Causes {
    /// Creates queues that keep causes within this number of bytes.
    pub(crate) fn new(bytes: usize) -> Self {
        let kept_max = bytes / CAUSE_BYTES;
        Self { queues: CauseQueues::default(), kept: 0, kept_max, waiting: 0 }
    }

    /// Counts messages that have become ready. They have no causes yet.
    pub(crate) fn push(&mut self, kind: KindId, rank: Rank, messages: u64) {
        self.queues.get_or_add(kind, rank).next += messages;
        self.waiting += messages;
    }

    /// Sets the cause of the message that became ready last.
    pub(crate) fn set_last(&mut self, kind: KindId, rank: Rank, cause: SpanCause) {
        if self.kept < self.kept_max
            && let Some(queue) = self.queues.get(kind, rank)
            && let Some(last) = queue.next.checked_sub(1)
        {
            queue.causes.push_back((last, cause));
            self.kept += 1;
        }
    }

    /// Records that the first message of a queue was taken, and returns its cause.
    pub(crate) fn pop(&mut self, kind: KindId, rank: Rank) -> Option<SpanCause> {
        let queue = self.queues.get(kind, rank)?;
        let number = queue.taken;
        queue.taken += 1;
        self.waiting = self.waiting.saturating_sub(1);
        let has_cause = queue.causes.front().is_some_and(|(of, _)| *of == number);
        let cause = if has_cause { queue.causes.pop_front() } else { None };
        self.kept -= usize::from(has_cause);
        if queue.is_empty() {
            self.kept -= queue.causes.len();
            self.queues.end(kind, rank);
        }
        cause.map(|(_, cause)| cause)
    }

    /// Records that messages were removed. `removed` says of each ready message of this type and
    /// rank, in order, whether it was removed.
    pub(crate) fn remove(&mut self, kind: KindId, rank: Rank, removed: &[bool]) {
        let Some(queue) = self.queues.get(kind, rank) else { return };
        let before = queue.causes.len();
        let (mut position, mut gone) = (0, 0);
        queue.causes.retain_mut(|(number, _)| {
            let at = usize::try_from(*number - queue.taken).unwrap_or(usize::MAX);
            let passed = removed.get(position..at).unwrap_or_default();
            gone += passed.iter().filter(|is_removed| **is_removed).count() as u64;
            position = at;
            *number -= gone;
            !removed.get(at).is_some_and(|is_removed| *is_removed)
        });
        self.kept -= before - queue.causes.len();
        let all = removed.iter().filter(|is_removed| **is_removed).count() as u64;
        queue.next = queue.next.saturating_sub(all);
        self.waiting = self.waiting.saturating_sub(all);
        if queue.is_empty() {
            self.kept -= queue.causes.len();
            self.queues.end(kind, rank);
        }
    }

    /// Number of ready messages.
    pub(crate) fn waiting(&self) -> u64 {
        self.waiting
    }
}

impl CauseQueues {
    /// Returns the queue of a type and rank; `None` if no message waits in it.
    fn get(&mut self, kind: KindId, rank: Rank) -> Option<&mut CauseQueue> {
        let queue = match rank {
            Rank::NORMAL => self.normal.get_mut(kind.index()),
            _ => self.others.get_mut(&(kind, rank)),
        };
        queue.filter(|queue| !queue.is_empty())
    }

    fn get_or_add(&mut self, kind: KindId, rank: Rank) -> &mut CauseQueue {
        if rank != Rank::NORMAL {
            return self.others.entry((kind, rank)).or_default();
        }
        if self.normal.len() <= kind.index() {
            self.normal.resize_with(kind.index() + 1, CauseQueue::default);
        }
        &mut self.normal[kind.index()]
    }

    /// Resets or removes the queue of a type and rank, in which no message waits.
    fn end(&mut self, kind: KindId, rank: Rank) {
        match rank {
            Rank::NORMAL => {
                if let Some(queue) = self.normal.get_mut(kind.index()) {
                    queue.reset();
                }
            }
            _ => {
                self.others.remove(&(kind, rank));
            }
        }
    }
}

impl CauseQueue {
    fn is_empty(&self) -> bool {
        self.taken >= self.next
    }

    fn reset(&mut self) {
        (self.taken, self.next) = (0, 0);
        match self.causes.capacity() > EMPTY_QUEUE_MAX {
            true => self.causes = VecDeque::new(),
            false => self.causes.clear(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIND: KindId = KindId(3);

    fn cause(span: u64) -> SpanCause {
        SpanCause { span: Some(span), ..SpanCause::default() }
    }

    /// Causes of messages with these spans; `None` is a message without a cause.
    fn causes(spans: &[Option<u64>]) -> Causes {
        let mut causes = Causes::new(10 * CAUSE_BYTES);
        for span in spans {
            causes.push(KIND, Rank::NORMAL, 1);
            if let Some(span) = span {
                causes.set_last(KIND, Rank::NORMAL, cause(*span));
            }
        }
        causes
    }

    fn rest(mut causes: Causes) -> Vec<Option<u64>> {
        let mut spans = Vec::new();
        while causes.waiting() > 0 {
            spans.push(causes.pop(KIND, Rank::NORMAL).and_then(|cause| cause.span));
        }
        let CauseQueues { normal, others } = &causes.queues;
        assert!(others.is_empty() && causes.kept == 0);
        assert!(normal.iter().all(|queue| queue.is_empty() && queue.causes.is_empty()));
        spans
    }

    #[test]
    fn causes_stay_with_their_messages() {
        let all = [Some(1), None, Some(3), None, None, Some(6)];
        assert_eq!(rest(causes(&all)), all);
    }

    #[test]
    fn causes_beyond_the_budget_are_not_kept() {
        let mut causes = Causes::new(2 * CAUSE_BYTES);
        for span in [1, 2, 3] {
            causes.push(KIND, Rank::NORMAL, 1);
            causes.set_last(KIND, Rank::NORMAL, cause(span));
        }
        assert_eq!(rest(causes), [Some(1), Some(2), None]);
    }

    #[test]
    fn a_mailbox_that_empties_and_fills_again_takes_no_new_memory() {
        let mut causes = causes(&[]);
        let capacity = |causes: &Causes| causes.queues.normal[KIND.index()].causes.capacity();
        let mut first = None;
        for span in 0..100 {
            causes.push(KIND, Rank::NORMAL, 1);
            causes.set_last(KIND, Rank::NORMAL, cause(span));
            let before = *first.get_or_insert(capacity(&causes));
            assert_eq!(causes.pop(KIND, Rank::NORMAL), Some(cause(span)));
            assert_eq!(causes.pop(KIND, Rank::NORMAL), None, "it is empty");
            assert_eq!((capacity(&causes), causes.kept), (before, 0));
        }
        let mut causes = Causes::new(10_000 * CAUSE_BYTES);
        for span in 0..1000 {
            causes.push(KIND, Rank::NORMAL, 1);
            causes.set_last(KIND, Rank::NORMAL, cause(span));
        }
        for span in 0..1000 {
            assert_eq!(causes.pop(KIND, Rank::NORMAL), Some(cause(span)));
        }
        assert_eq!(capacity(&causes), 0, "much memory is returned");
    }

    #[test]
    fn causes_of_removed_messages_are_removed() {
        let mut causes = causes(&[Some(1), None, Some(3), Some(4), None, Some(6)]);
        assert_eq!(causes.pop(KIND, Rank::NORMAL), Some(cause(1)));
        causes.remove(KIND, Rank::NORMAL, &[true, false, true, true, false]);
        causes.push(KIND, Rank::NORMAL, 2);
        causes.set_last(KIND, Rank::NORMAL, cause(8));
        assert_eq!(rest(causes), [Some(3), Some(6), None, Some(8)]);
    }

    #[test]
    fn each_type_and_rank_has_its_queue() {
        let mut causes = causes(&[Some(1)]);
        let urgent = Rank::new(-1, 0);
        causes.push(KIND, urgent, 1);
        causes.push(KindId(4), Rank::NORMAL, 1);
        causes.set_last(KindId(4), Rank::NORMAL, cause(2));
        assert_eq!(causes.pop(KIND, urgent), None);
        assert_eq!(causes.pop(KindId(4), Rank::NORMAL), Some(cause(2)));
        causes.remove(KindId(9), urgent, &[true]);
        assert_eq!(rest(causes), [Some(1)]);
    }
}
