//! How a node takes tasks from other nodes, and gives them some. Its first PE speaks for it.

use super::engine::Engine;
use super::frame::Lender;
use super::statistics::StealStatistics;
use super::work::{Token, Work};
use super::worker::{Order, Worker, at};
use crate::id::Timer;
use crate::limits::PIECE_BYTES_MAX;
use crate::{Context, codec};
use bytes::Bytes;
use gridspan_balance::victim::{
    Amount, Command, Gift, Places, StealMessage, Stealing, victim_by_name,
};
use gridspan_topology::{Hierarchy, NodeId};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Tasks in one packet, at most, unless a single one is larger. They leave at once, and a packet of this size
/// takes 40 ms at 100 Mbit/s.
const GIFT_BYTES: usize = 512 << 10;

/// Tasks lent to another node that work for one frame.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Loan {
    lender: Lender,
    /// A list of items, encoded.
    items: Bytes,
}

impl Loan {
    /// How large it is, for the memory budget.
    pub(super) fn bytes(&self) -> usize {
        self.items.len()
    }
}

/// The stealing of a node.
pub(super) struct Steward {
    stealing: Stealing,
    node: NodeId,
    timer: Option<Timer>,
    /// What could be taken away when others were last told.
    told: u64,
    statistics: StealStatistics,
}

impl Steward {
    /// The steward of the node of the worker in `cx`; `None` if there is no other node, or the policy is not
    /// known.
    pub(super) fn new<W: Work>(cx: &Context<'_, Worker<W>>) -> Option<Self> {
        let layout = cx.layout();
        let node = cx.node();
        if layout.node_count() < 2 || layout.leader(node) != cx.pe() {
            return None;
        }
        let common = &cx.core.common;
        // The job was checked for it.
        let policy = victim_by_name(&common.stealing).ok()?;
        let places = Arc::new(Places::new(&Hierarchy::from_layout(layout)));
        let workers = layout.place(node).pes.len() as u32;
        let stealing = Stealing::new(policy, node, workers, places, common.seed);
        Some(Self { stealing, node, timer: None, told: 0, statistics: StealStatistics::default() })
    }

    /// Looks whether the node has work, and how much of it could be taken away.
    pub(super) fn look<W: Work>(&mut self, engine: &Engine<W>, cx: &Context<'_, Worker<W>>) {
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

    pub(super) fn handle_message<W: Work>(
        &mut self,
        from: NodeId,
        message: StealMessage,
        cx: &Context<'_, Worker<W>>,
    ) {
        self.stealing.handle_message(cx.now(), from, message);
    }

    pub(super) fn handle_timeout<W: Work>(&mut self, cx: &Context<'_, Worker<W>>) {
        self.timer = None;
        self.stealing.handle_timeout(cx.now());
    }

    /// Takes the tasks that another node has lent.
    pub(super) fn handle_gift<W: Work>(
        &mut self,
        (from, gift): (NodeId, Gift),
        loans: &[Loan],
        engine: &mut Engine<W>,
        cx: &mut Context<'_, Worker<W>>,
    ) {
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
        cx: &mut Context<'_, Worker<W>>,
    ) {
        loop {
            let commands: Vec<_> = self.stealing.commands().collect();
            if commands.is_empty() {
                return;
            }
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

    /// What this node has sent so far.
    pub(super) fn statistics(&self) -> StealStatistics {
        self.statistics
    }

    fn is_far<W: Work>(&self, to: NodeId, cx: &Context<'_, Worker<W>>) -> bool {
        cx.layout().site_of_node(to) != cx.site()
    }

    fn send<W: Work>(&self, to: NodeId, order: Order, cx: &mut Context<'_, Worker<W>>) {
        let leader = cx.layout().leader(to);
        let worker = cx.collection().at(at(leader));
        cx.send(&worker, order);
    }

    fn give<W: Work>(
        &mut self,
        to: NodeId,
        amount: Amount,
        gift: Gift,
        engine: &mut Engine<W>,
        cx: &mut Context<'_, Worker<W>>,
    ) {
        let limit = amount.of(engine.stock());
        let loans = lend(engine, limit);
        let tasks = loans.iter().map(|loan| loan.lender.items).sum();
        if tasks > 0 {
            self.statistics.gifts += 1;
            self.statistics.far_gifts += u64::from(self.is_far(to, cx));
            self.statistics.tasks += tasks;
            self.send(to, Order::Gift { from: self.node, gift, loans }, cx);
        }
        self.told = engine.stock();
        self.stealing.handle_given(cx.now(), to, tasks, self.told, gift);
    }
}

/// Takes the oldest tasks of the node, up to `limit`, to be lent.
fn lend<W: Work>(engine: &mut Engine<W>, limit: u64) -> Vec<Loan> {
    let mut loans: Vec<(Lender, Vec<W::Item>)> = Vec::new();
    let (mut tasks, mut bytes) = (0, 0);
    while tasks < limit && bytes < GIFT_BYTES {
        let Some((pe, token)) = engine.take_oldest() else { break };
        let size = codec::encoded_len(&token.item);
        if size > PIECE_BYTES_MAX || (tasks > 0 && bytes + size > PIECE_BYTES_MAX) {
            // Too large for the network, or for this packet.
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
    let encode = |(lender, items): (Lender, Vec<W::Item>)| Loan {
        lender,
        items: codec::encode(&items).into(),
    };
    loans.into_iter().map(encode).collect()
}
