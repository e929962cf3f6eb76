//! What a part of a job waits for, in a form whose size does not depend on the size of the job.

use crate::message::pending_work::{NAMED_MAX, counted};
use serde::{Deserialize, Serialize};

/// Number of waits of one kind with different subjects that are kept: more than a reader follows.
const SUBJECTS_MAX: usize = 9;
/// Length of a text in bytes above which it is cut: names of types can be long.
const TEXT_BYTES_MAX: usize = 300;

/// The kinds of waits. Those that cause others more often come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum WaitKind {
    /// The process of a node does not answer, or other nodes do not hear it.
    SilentNode,
    /// A PE is inside a handler, and does not answer.
    Handler,
    /// A PE, or the coordinator, has not answered for an unknown reason.
    NoAnswer,
    /// Messages wait for earlier ones to the same member.
    HeldMessage,
    /// Packets wait for the description of a collection.
    EarlyPacket,
    /// A question has no answer.
    Question,
    /// Some members have reached a sync point, and others have not.
    SyncPoint,
    /// Some members have contributed to a reduction, and others have not.
    Reduction,
    /// Tasks that were handed in to a pool are not done.
    Task,
    /// Messages are for members that do not exist. This is usual where members end while messages
    /// are on their way, so this kind comes after those where something is certainly missing.
    AbsentMember,
    /// A checkpoint is being made, for which all PEs stand still.
    Checkpoint,
    /// A rebalance is not over.
    Rebalance,
    /// Members, or messages for them, are on their way to another PE.
    Move,
    /// Main or an actor waits until nothing is in flight any more.
    Quiescence,
    /// Messages are to be sent later.
    Timer,
    /// Main sleeps.
    Sleep,
    /// Main waits for something that the runtime cannot see.
    Outside,
    /// Main waits for an operation.
    Main,
}

/// Waits of one kind for one subject.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Wait {
    /// The kind.
    pub kind: WaitKind,
    /// The subject, such as `reduction 1 over collection 0`; empty if the kind has only one.
    pub subject: String,
    /// Number of messages, questions, tasks or PEs that wait; for a reduction and a sync point,
    /// number of members that are missing.
    pub count: u64,
    /// Number of members that take part in a reduction or sync point; 0 for other kinds.
    pub of: u64,
    /// Seconds since the oldest began, or until the next timer; 0 if that is not known.
    pub seconds: u64,
    /// At most three of those that wait, or that are missing.
    pub examples: Vec<String>,
    /// Whether nothing about it has changed between two rounds of the diagnosis.
    pub is_lasting: bool,
}

impl Wait {
    /// Creates a wait without a subject and examples.
    pub fn new(kind: WaitKind, count: u64) -> Self {
        let (subject, examples) = (String::new(), Vec::new());
        Self { kind, subject, count, of: 0, seconds: 0, examples, is_lasting: false }
    }

    /// Sets the subject.
    pub(crate) fn about(self, subject: impl Into<String>) -> Self {
        Self { subject: cut(subject.into()), ..self }
    }

    /// Sets the number of members that take part.
    pub(crate) fn out_of(self, of: u64) -> Self {
        Self { of, ..self }
    }

    /// Sets how long it lasts, in seconds.
    pub fn for_seconds(self, seconds: u64) -> Self {
        Self { seconds, ..self }
    }

    /// Adds an example. A wait keeps the first few examples, in the order of their names.
    pub fn such_as(mut self, example: impl Into<String>) -> Self {
        self.add_examples([example.into()]);
        self
    }

    /// Keeps the first of the present and the new examples, in an order that does not depend on the
    /// order of calls.
    fn add_examples(&mut self, examples: impl IntoIterator<Item = String>) {
        self.examples.extend(examples.into_iter().map(cut));
        // Names that differ in a number are in the order of that number.
        self.examples.sort_by(|a, b| (a.len(), a).cmp(&(b.len(), b)));
        self.examples.dedup();
        self.examples.truncate(NAMED_MAX);
    }

    /// Cuts the texts, and keeps the first few examples.
    fn bounded(mut self) -> Self {
        let examples = std::mem::take(&mut self.examples);
        self.add_examples(examples);
        Self { subject: cut(self.subject), ..self }
    }

    /// Adds a wait of the same kind and subject.
    fn merge(&mut self, other: Self) {
        self.count = self.count.saturating_add(other.count);
        self.of = self.of.max(other.of);
        self.seconds = match self.kind {
            // The first of several timers.
            WaitKind::Timer | WaitKind::Sleep => self.seconds.min(other.seconds),
            _ => self.seconds.max(other.seconds),
        };
        self.add_examples(other.examples);
    }

    /// Describes the wait in a sentence without a full stop.
    pub fn sentence(&self) -> String {
        let Self { count, seconds, ref subject, .. } = *self;
        match self.kind {
            WaitKind::SilentNode => self.all("; ", "more node", "more nodes"),
            WaitKind::Handler | WaitKind::NoAnswer => self.all("; ", "more PE", "more PEs"),
            WaitKind::AbsentMember => {
                let one = "message is for a member that does not exist";
                let several = "messages are for members that do not exist";
                self.with_examples(&counted(count, one, several), ", such as ", ", ")
            }
            WaitKind::HeldMessage => {
                let one = "message waits for an earlier one to the same member";
                let several = "messages wait for earlier ones to the same member";
                self.with_examples(&counted(count, one, several), ": ", "; ")
            }
            WaitKind::EarlyPacket => counted(
                count,
                "packet waits for the description of a collection",
                "packets wait for the description of a collection",
            ),
            WaitKind::Question => {
                let text = counted(count, "question has no answer", "questions have no answer");
                self.with_examples(&text, ": ", "; ")
            }
            WaitKind::SyncPoint => self.missing("which", ["has reached", "have reached"]),
            WaitKind::Reduction => {
                self.missing("to which", ["has contributed", "have contributed"])
            }
            WaitKind::Task => {
                let text = match count {
                    0 => "tasks are not done".to_owned(),
                    _ => counted(count, "task is not done", "tasks are not done"),
                };
                self.with_examples(&text, ": ", "; ")
            }
            WaitKind::Checkpoint => "all PEs stand still until a checkpoint is made".to_owned(),
            WaitKind::Rebalance => {
                counted(count, "rebalance is not over", "rebalances are not over")
            }
            WaitKind::Move => counted(
                count,
                "member or message is on its way to another PE",
                "members or messages are on their way to another PE",
            ),
            WaitKind::Quiescence => self.quiescence(),
            WaitKind::Timer => {
                let text =
                    counted(count, "message is to be sent later", "messages are to be sent later");
                let first = if count == 1 { "" } else { "the first " };
                self.with_examples(&format!("{text}, {first}in {seconds} s"), ", to ", ", ")
            }
            WaitKind::Sleep => format!("main sleeps for another {seconds} s"),
            WaitKind::Outside => {
                "main waits for something outside of Gridspan, such as a socket or another thread"
                    .to_owned()
            }
            WaitKind::Main => format!("main waits for {subject}"),
        }
    }

    /// The examples, and the number of the others.
    fn all(&self, separator: &str, one: &str, several: &str) -> String {
        let mut all = self.examples.clone();
        let others = self.count.saturating_sub(all.len() as u64);
        if others > 0 {
            all.push(counted(others, one, several));
        }
        all.join(separator)
    }

    fn with_examples(&self, text: &str, before: &str, separator: &str) -> String {
        match self.examples.is_empty() {
            true => text.to_owned(),
            false => format!("{text}{before}{}", self.examples.join(separator)),
        }
    }

    /// Describes a collective operation that waits for some members; `one` and `several` say what
    /// the others have done.
    fn missing(&self, pronoun: &str, [one, several]: [&str; 2]) -> String {
        let Self { count, of, ref subject, .. } = *self;
        let [one, several] = [one, several].map(|done| format!("of {of} {done}"));
        let done = counted(of.saturating_sub(count), &one, &several);
        let waits = format!("{subject}, {pronoun} {done}");
        match self.examples.is_empty() {
            true => waits,
            false => format!("{waits}, waits for {}", self.all(", ", "more", "more")),
        }
    }

    fn quiescence(&self) -> String {
        let who = match self.examples.is_empty() {
            true => "main waits".to_owned(),
            false => format!("{} waits", self.examples.join(" and ")),
        };
        let one = "message or operation is not done";
        let several = "messages or operations are not done";
        match self.count {
            0 => format!("{who} for quiescence"),
            count => format!("{who} for quiescence, but {}", counted(count, one, several)),
        }
    }
}

/// Waits by kind and subject, each once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<Wait>")]
pub struct Waits(Vec<Wait>);

/// Decoded waits may come from a faulty node: in any order, and of any size.
impl From<Vec<Wait>> for Waits {
    fn from(all: Vec<Wait>) -> Self {
        let mut waits = Self::default();
        all.into_iter().for_each(|wait| waits.add(wait));
        waits
    }
}

impl Waits {
    /// Adds a wait to the one of the same kind and subject. Drops the wait if its subject is new
    /// and its kind already has many subjects.
    pub fn add(&mut self, wait: Wait) {
        let wait = wait.bounded();
        let key = |wait: &Wait| (wait.kind, wait.subject.clone());
        let wanted = key(&wait);
        match self.0.binary_search_by(|known| key(known).cmp(&wanted)) {
            Ok(at) => self.0[at].merge(wait),
            Err(at) if self.of_kind(wait.kind) < SUBJECTS_MAX => self.0.insert(at, wait),
            Err(_) => {}
        }
    }

    /// Adds a wait, unless it has no count and no examples.
    pub(crate) fn add_if_any(&mut self, wait: Wait) {
        if wait.count > 0 || !wait.examples.is_empty() {
            self.add(wait);
        }
    }

    /// The waits, in the order of their kinds.
    pub fn iter(&self) -> impl Iterator<Item = &Wait> {
        self.0.iter()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Wait> {
        self.0.iter_mut()
    }

    fn of_kind(&self, kind: WaitKind) -> usize {
        self.0.iter().filter(|wait| wait.kind == kind).count()
    }

    /// Whether there is a wait of the same kind, subject and count. For held messages, an example
    /// must be the same, too: a job that goes on may hold equally many, but other, messages in each
    /// round.
    pub(super) fn has_same(&self, wait: &Wait) -> bool {
        let is_same = |other: &Wait| {
            (other.kind, &other.subject, other.count) == (wait.kind, &wait.subject, wait.count)
        };
        let has_example = |other: &Wait| {
            other.kind != WaitKind::HeldMessage
                || other.examples.is_empty()
                || other.examples.iter().any(|example| wait.examples.contains(example))
        };
        self.0.iter().any(|other| is_same(other) && has_example(other))
    }
}

impl std::ops::AddAssign for Waits {
    fn add_assign(&mut self, other: Self) {
        other.0.into_iter().for_each(|wait| self.add(wait));
    }
}

/// Cuts a text that is too long, between two characters.
fn cut(mut text: String) -> String {
    if text.len() > TEXT_BYTES_MAX {
        let mut end = TEXT_BYTES_MAX;
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::codec;

    fn reduction(count: u64, examples: &[&str]) -> Wait {
        let wait = Wait::new(WaitKind::Reduction, count).about("reduction 1 over collection 0");
        examples.iter().fold(wait, |wait, example| wait.such_as(*example))
    }

    fn sum(all: &[Wait]) -> Waits {
        let mut waits = Waits::default();
        all.iter().cloned().for_each(|wait| waits.add(wait));
        waits
    }

    #[test]
    fn the_sum_does_not_depend_on_the_order_and_keeps_the_first_examples() {
        let all = [
            reduction(0, &["Cell 0x10", "Cell 0x2", "Cell 0xa"]),
            reduction(5, &[]).out_of(8),
            reduction(0, &["Cell 0x1", "Cell 0x11"]),
        ];
        let waits = sum(&all);
        let backwards: Vec<Wait> = all.iter().rev().cloned().collect();

        assert_eq!(waits, sum(&backwards));
        let text = waits.iter().next().unwrap().sentence();
        assert_eq!(
            text,
            "reduction 1 over collection 0, to which 3 of 8 have contributed, waits for Cell 0x1, \
             Cell 0x2, Cell 0xa, 2 more"
        );
    }

    #[test]
    fn waits_are_ordered_by_kind_and_stay_apart_by_subject() {
        let main = |subject: &str| Wait::new(WaitKind::Main, 1).about(subject);
        let question = Wait::new(WaitKind::Question, 2).such_as("main asked Cell 0x0 9 s ago");
        let waits = sum(&[main("b"), main("a"), question.clone(), question]);

        let texts: Vec<String> = waits.iter().map(Wait::sentence).collect();
        assert_eq!(
            texts,
            [
                "4 questions have no answer: main asked Cell 0x0 9 s ago",
                "main waits for a",
                "main waits for b"
            ]
        );
    }

    #[test]
    fn the_size_is_bounded_whatever_is_added() {
        let mut waits = Waits::default();
        for number in 0..1000 {
            let subject = format!("{number} {}", "ä".repeat(1000));
            waits.add(Wait::new(WaitKind::Main, 1).about(subject));
            let example = format!("{number} {}", "x".repeat(1000));
            waits.add(Wait::new(WaitKind::AbsentMember, 1).such_as(example));
        }

        assert_eq!(waits.iter().count(), SUBJECTS_MAX + 1);
        let absent = waits.iter().find(|wait| wait.kind == WaitKind::AbsentMember).unwrap();
        assert_eq!((absent.count, absent.examples.len()), (1000, NAMED_MAX));
        let most = waits.iter().map(|wait| wait.sentence().len()).max().unwrap();
        assert!(most < (NAMED_MAX + 1) * TEXT_BYTES_MAX, "{most} bytes");
    }

    #[test]
    fn decoded_waits_are_sorted_and_bounded() {
        let of = |kind, subject: &str| {
            let examples = (0..100).map(|number| format!("{number:0>1000}")).collect();
            Wait { subject: subject.to_owned(), examples, ..Wait::new(kind, 1) }
        };
        let long = "x".repeat(1000);
        let mut all = vec![of(WaitKind::Main, &long), of(WaitKind::Question, "")];
        all.extend((0..100).map(|number| of(WaitKind::Reduction, &format!("reduction {number}"))));
        let bytes = codec::encode(&all);

        let mut waits: Waits = codec::decode("waits", &bytes).unwrap();

        let kinds: Vec<WaitKind> = waits.iter().map(|wait| wait.kind).collect();
        assert!(kinds.is_sorted() && kinds.len() == SUBJECTS_MAX + 2, "{kinds:?}");
        for wait in waits.iter() {
            let texts = wait.examples.iter().chain([&wait.subject]);
            assert!(texts.map(String::len).max() < Some(2 * TEXT_BYTES_MAX));
            assert!(wait.examples.len() <= NAMED_MAX);
        }
        // The same wait is found again, and an encoded sum is the same once decoded.
        waits.add(of(WaitKind::Main, &long));
        assert_eq!(waits.iter().last().map(|wait| wait.count), Some(2));
        assert_eq!(codec::decode::<Waits>("waits", &codec::encode(&waits)).unwrap(), waits);
    }

    #[test]
    fn the_first_timer_and_the_oldest_question_count() {
        let wait = |kind, seconds| Wait::new(kind, 1).for_seconds(seconds);
        let seconds = |kind| sum(&[wait(kind, 7), wait(kind, 3)]).iter().next().unwrap().seconds;
        assert_eq!((seconds(WaitKind::Timer), seconds(WaitKind::Question)), (3, 7));
    }

    #[test]
    fn counts_of_one_are_singular() {
        let texts = [
            (WaitKind::AbsentMember, "1 message is for a member that does not exist"),
            (WaitKind::HeldMessage, "1 message waits for an earlier one to the same member"),
            (WaitKind::Question, "1 question has no answer"),
            (WaitKind::Task, "1 task is not done"),
            (WaitKind::Rebalance, "1 rebalance is not over"),
            (WaitKind::Timer, "1 message is to be sent later, in 9 s"),
            (
                WaitKind::Quiescence,
                "main waits for quiescence, but 1 message or operation is not done",
            ),
        ];
        for (kind, text) in texts {
            assert_eq!(Wait::new(kind, 1).for_seconds(9).sentence(), text);
        }
    }
}
