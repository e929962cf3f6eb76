//! How a node takes tasks from other nodes, and gives them some. Its first PE speaks for it.

use super::engine::{Engine, Work};
use super::frame::{FrameId, Lender, Token};
use super::ledger::{Ledger, forsake};
use super::order::{Crew, Loan, Order, tell};
use super::statistics::StealStatistics;
use crate::id::Timer;
use crate::limits::PIECE_BYTES_MAX;
use crate::pe::{Notice, Visiting};
use crate::{Context, codec};
use gridspan_balance::victim::{
    Amount, Command, Gift, Places, StealMessage, Stealing, victim_by_name,
};
use gridspan_topology::{Hierarchy, NodeId, PeId};
use std::sync::Arc;

/// Tasks in one packet, at most, unless a single one is larger. They leave at once, and a packet of this size
/// takes 40 ms at 100 Mbit/s.
pub(super) const GIFT_BYTES: usize = 512 << 10;

/// What the name of a task's frame takes beside it, at most.
pub(super) const LENDER_BYTES: usize = 32;

/// The stealing of a node.
pub(super) struct Steward {
    stealing: Stealing,
    node: NodeId,
    /// What guests owe.
    ledger: Ledger,
    /// Whether it may ask for tasks: everybody knows it, and it does not leave.
    may_ask: bool,
    /// Whether it is a guest that leaves: it says nothing to other stewards any more.
    is_leaving: bool,
    timer: Option<Timer>,
    /// What could be taken away when others were last told.
    told: u64,
    statistics: StealStatistics,
}

impl Steward {
    /// The steward of the node of the worker in `cx`; `None` if there is no other node yet, or the policy is not
    /// known.
    pub(super) fn new(cx: &Context<'_, impl Crew>) -> Option<Self> {
        let layout = cx.layout();
        let node = cx.node();
        let guests = &cx.core.guests;
        let is_alone =
            layout.node_count() < 2 && guests.present.is_empty() && !layout.is_guest(node);
        if is_alone || layout.leader(node) != cx.pe() {
            return None;
        }
        let common = &cx.core.common;
        // The job was checked for it.
        let policy = victim_by_name(&common.stealing).ok()?;
        let places = Arc::new(Places::new(&Hierarchy::from_layout(layout)));
        let workers = layout.place(node).pes.len() as u32;
        let mut steward = Self {
            stealing: Stealing::new(policy, node, workers, places, common.seed),
            node,
            ledger: Ledger::default(),
            may_ask: !layout.is_guest(node) || guests.visit == Visiting::Working,
            is_leaving: matches!(guests.visit, Visiting::Leaving(_)),
            timer: None,
            told: 0,
            statistics: StealStatistics::default(),
        };
        let own = layout.is_guest(node).then_some(node);
        for guest in own.into_iter().chain(guests.present.iter().copied()) {
            steward.join(guest, cx);
        }
        Some(steward)
    }

    /// Looks whether the node has work, and how much of it could be taken away.
    pub(super) fn look<W: Work>(&mut self, engine: &Engine<W>, cx: &Context<'_, impl Crew>) {
        if !self.may_ask {
            return;
        }
        if engine.is_dry() {
            self.told = 0;
            return self.stealing.handle_idle(cx.now());
        }
        let stock = engine.stock();
        // Powers of two, as the policies expect.
        if self.stealing.is_idle() || stock.checked_ilog2() != self.told.checked_ilog2() {
            self.told = stock;
            self.stealing.handle_stock(cx.now(), stock);
        }
    }

    /// A guest takes part.
    fn join(&mut self, guest: NodeId, cx: &Context<'_, impl Crew>) {
        let layout = cx.layout();
        // Its site has a founder, or it would not have been admitted.
        if let Some(near) = layout.nodes_in(layout.site_of_node(guest)).next() {
            self.stealing.handle_joined(cx.now(), guest, near);
        }
    }

    /// Does what news of guests ask for.
    pub(super) fn handle_notice<W: Work>(
        &mut self,
        notice: Notice,
        engine: &mut Engine<W>,
        cx: &mut Context<'_, impl Crew>,
    ) {
        match notice {
            Notice::Came(guest) => self.join(guest, cx),
            Notice::Left(guest) => self.stealing.handle_lost(cx.now(), guest),
            Notice::Gone(guest) => {
                self.stealing.handle_lost(cx.now(), guest);
                match self.ledger.recall(guest, engine) {
                    Ok(loans) => (0..loans).for_each(|_| cx.core.settled()),
                    Err(error) => cx.fail(format!("tasks that {guest} owed: {error}")),
                }
                let layout = cx.layout();
                forsake(engine, |pe| layout.node_of(pe) == guest);
            }
            Notice::Begin => self.may_ask = true,
            Notice::Leave => {
                (self.may_ask, self.is_leaving) = (false, true);
                self.cancel(cx);
            }
        }
    }

    /// A result of a PE has come to a frame.
    pub(super) fn settle(&mut self, frame: FrameId, by: PeId, cx: &mut Context<'_, impl Crew>) {
        if self.ledger.settle(frame, cx.layout().node_of(by)) {
            cx.core.settled();
        }
    }

    pub(super) fn handle_message(
        &mut self,
        from: NodeId,
        message: StealMessage,
        cx: &Context<'_, impl Crew>,
    ) {
        self.stealing.handle_message(cx.now(), from, message);
    }

    pub(super) fn handle_timeout(&mut self, cx: &Context<'_, impl Crew>) {
        self.timer = None;
        self.stealing.handle_timeout(cx.now());
    }

    /// Takes the tasks that another node has lent.
    pub(super) fn handle_gift<W: Work>(
        &mut self,
        (from, gift): (NodeId, Gift),
        loans: &[Loan],
        engine: &mut Engine<W>,
        cx: &mut Context<'_, impl Crew>,
    ) {
        if cx.core.guests.gone.contains(&from) {
            // Who lent these to it has queued them again.
            return;
        }
        let mut tasks = 0;
        for Loan { lender, items } in loans {
            let items: Vec<W::Item> = match codec::decode(W::name(), items) {
                Ok(items) => items,
                Err(error) => return cx.fail(format!("tasks from {from}: {error}")),
            };
            if items.len() as u64 != lender.items || items.is_empty() {
                return cx.fail(format!(
                    "{from} lent {} tasks and sent {}; start all nodes from one build of the program",
                    lender.items,
                    items.len()
                ));
            }
            tasks += lender.items;
            engine.borrow(*lender, items.into_iter());
        }
        self.told = engine.stock();
        self.stealing.handle_received(cx.now(), from, tasks, self.told, gift);
    }

    /// Does what the policy wants done.
    pub(super) fn carry_out<W: Work>(
        &mut self,
        engine: &mut Engine<W>,
        cx: &mut Context<'_, impl Crew>,
    ) {
        loop {
            let commands: Vec<_> = self.stealing.commands().collect();
            if commands.is_empty() || self.is_leaving {
                return;
            }
            // They leave before the next task is run, which may take long.
            cx.core.turn_is_over = true;
            for command in commands {
                match command {
                    Command::Send { to, message } => {
                        let is_far = self.is_far(to, cx);
                        self.statistics.attempts += u64::from(message.is_attempt());
                        self.statistics.messages += 1;
                        self.statistics.far_messages += u64::from(is_far);
                        self.send(to, Order::Steal { from: self.node, message }, cx);
                    }
                    Command::Give { to, amount, gift } => self.give(to, amount, gift, engine, cx),
                    Command::WakeAt(time) => {
                        if let Some(earlier) = self.timer.take() {
                            cx.cancel(earlier);
                        }
                        let (delay, me) = (time.since(cx.now()), cx.me());
                        self.timer = Some(cx.send_after(delay, &me, Order::Timeout));
                    }
                }
            }
        }
    }

    /// Waits for nothing any more.
    pub(super) fn close(&mut self, cx: &mut Context<'_, impl Crew>) {
        self.cancel(cx);
        (0..self.ledger.len()).for_each(|_| cx.core.settled());
    }

    fn cancel(&mut self, cx: &mut Context<'_, impl Crew>) {
        if let Some(timer) = self.timer.take() {
            cx.cancel(timer);
        }
    }

    /// What this node has sent so far.
    pub(super) fn statistics(&self) -> StealStatistics {
        self.statistics
    }

    fn is_far(&self, to: NodeId, cx: &Context<'_, impl Crew>) -> bool {
        cx.layout().site_of_node(to) != cx.site()
    }

    fn send(&self, to: NodeId, order: Order, cx: &mut Context<'_, impl Crew>) {
        tell(cx.layout().leader(to), order, cx);
    }

    fn give<W: Work>(
        &mut self,
        to: NodeId,
        amount: Amount,
        gift: Gift,
        engine: &mut Engine<W>,
        cx: &mut Context<'_, impl Crew>,
    ) {
        let limit = amount.of(engine.stock());
        let mut loans = lend(engine, limit);
        if cx.layout().is_guest(to) {
            for loan in &mut loans {
                self.ledger.enter(to, loan, engine);
                cx.core.await_result();
            }
        }
        let tasks = loans.iter().map(|loan| loan.lender.items).sum();
        if tasks > 0 {
            self.statistics.gifts += 1;
            self.statistics.far_gifts += u64::from(self.is_far(to, cx));
            self.statistics.tasks += tasks;
            self.send(to, Order::Gift { from: self.node, gift, loans }, cx);
        }
        engine.share_rest();
        // What cannot be given is not told, or it would be asked for at once again.
        self.told = engine.stock();
        let stock = if tasks > 0 { self.told } else { 0 };
        self.stealing.handle_given(cx.now(), to, tasks, stock, gift);
    }
}

/// Takes the oldest tasks of the node, up to `limit`, to be lent.
fn lend<W: Work>(engine: &mut Engine<W>, limit: u64) -> Vec<Loan> {
    let mut loans: Vec<(Lender, Vec<W::Item>)> = Vec::new();
    // Those too large for the network. They stay, and others go instead of them.
    let mut giants = Vec::new();
    let (mut tasks, mut bytes) = (0, 0);
    while tasks < limit {
        let Some((pe, token)) = engine.take_oldest() else { break };
        let size = codec::encoded_len(&token.item).saturating_add(LENDER_BYTES);
        if size > PIECE_BYTES_MAX {
            giants.push((pe, token));
            continue;
        }
        if tasks > 0 && bytes + size > GIFT_BYTES {
            engine.put_back(pe, token);
            break;
        }
        (tasks, bytes) = (tasks + 1, bytes + size);
        let Token { item, frame, child } = token;
        match loans.last_mut() {
            Some((lender, items)) if W::SHARES_LOANS && lender.works_for(pe, frame) => {
                lender.items += 1;
                items.push(item);
            }
            _ => loans.push((Lender { pe, frame, child, items: 1 }, vec![item])),
        }
    }
    giants.into_iter().rev().for_each(|(pe, token)| engine.put_back(pe, token));
    let encode = |(lender, items): (Lender, Vec<W::Item>)| Loan {
        lender,
        items: codec::encode(&items).into(),
    };
    loans.into_iter().map(encode).collect()
}

#[cfg(test)]
mod tests {
    use super::super::deques::Deques;
    use super::super::{Joining, Step, Task, TaskContext};
    use super::*;
    use serde::{Deserialize, Serialize};

    /// A task that takes as many bytes as its text.
    #[derive(Serialize, Deserialize)]
    struct Text(String);

    impl Task for Text {
        type Output = ();
        type Join = ();

        fn run(self, _: &mut TaskContext<'_, Self>) -> Step<Self> {
            Step::Done(())
        }

        fn collect((): &mut (), _: u32, (): ()) {}

        fn joined((): (), _: &mut TaskContext<'_, Self>) -> Step<Self> {
            Step::Done(())
        }
    }

    /// The bytes of the tasks in a packet to a node that asked for so many, of tasks of these bytes, the oldest
    /// first; and how many tasks are left.
    fn lent(bytes: &[usize], limit: u64) -> (Vec<usize>, u64) {
        let node = Arc::new(Deques::new(1));
        let mut engine = Engine::<Joining<Text>>::new(PeId(0), 0, node, false);
        for (root, &bytes) in bytes.iter().enumerate().rev() {
            engine.submit(Text("x".repeat(bytes)), root as u64);
        }
        let loans = lend(&mut engine, limit);
        let text = |loan: &Loan| codec::decode::<Vec<Text>>("tasks", &loan.items).unwrap();
        let lent = loans.iter().flat_map(text).map(|text| text.0.len()).collect();
        (lent, engine.stock())
    }

    #[test]
    fn a_task_that_the_network_does_not_take_stays_and_those_behind_it_go() {
        assert_eq!(lent(&[61 << 20, 5, 6, 7], 2), (vec![5, 6], 1));
        assert_eq!(lent(&[61 << 20, 5], 1), (vec![], 1));
    }

    #[test]
    fn a_packet_has_half_a_megabyte_or_one_task() {
        let kib = 1 << 10;
        assert_eq!(lent(&[300 * kib, 200 * kib, 100 * kib, 1], 3).0, [300 * kib, 200 * kib]);
        assert_eq!(lent(&[2000 * kib, 1, 1, 1], 3).0, [2000 * kib]);
    }
}
