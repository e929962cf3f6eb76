//! Operations whose result all ranks get, in rounds, for ranks at one site.
//!
//! 1. The head of each PE collects from the ranks of its PE, which costs no packet.
//! 2. The heads exchange what they have, in the rounds of a [`Dissemination`], until each has
//!    everything.
//! 3. Each head gives the result to the ranks of its PE.
//!
//! Heads combine parts by the numbers of the ranks ([`crate::segments`]), so the result has the
//! same bits as over a tree, whatever the rounds are.
//!
//! **Failure.** If the vectors of heads differ in length, some heads may use other rounds, or
//! divide the vector into shares ([`super::in_shares`]). At least one head fails, so that the job
//! does not wait for ever. In rounds and in shares, a head first sends a part to the head before
//! it, and then waits for a part of the head after it. If two neighbours differ, the key or the
//! length of that part shows it.

use super::collected::{Collected, ExactSums, WholeVectors};
use super::keys;
use super::operation::Operation;
use crate::content::Content;
use crate::dissemination::Dissemination;
use crate::element::Element;
use crate::error::RankError;
use crate::heads::Heads;
use crate::ops::Operator;
use crate::packet::Part;

impl Operation {
    /// Collects the parts of all ranks at the heads. `all` has the part of this rank; on a head it
    /// gets all parts. `others` must be empty. Returns whether this rank is a head.
    pub(super) async fn collect_in_rounds<C: Collected>(
        &self,
        heads: &Heads,
        exchange: &Dissemination,
        all: &mut C,
        others: &mut C,
    ) -> Result<bool, RankError> {
        let me = self.me();
        let head = heads.head_of(me);
        if head != me {
            self.post(head, all.parts()?);
            return Ok(false);
        }
        for rank in heads.ranks(&[me]).filter(|rank| *rank != me) {
            self.add_from(rank, all).await?;
        }
        self.exchange_in_rounds(heads, exchange, all, others).await?;
        Ok(true)
    }

    /// Exchanges the parts of the heads. `others` gets parts of other heads only: this head sends
    /// them where a transfer leaves out its own part.
    async fn exchange_in_rounds<C: Collected>(
        &self,
        heads: &Heads,
        exchange: &Dissemination,
        all: &mut C,
        others: &mut C,
    ) -> Result<(), RankError> {
        let me = self.me();
        let (here, place) = (heads.at_site(heads.site(me)), heads.place(me));
        let after =
            |places: usize| here.get((place + places) % here.len().max(1)).copied().unwrap_or(me);
        let rounds_without_own = exchange.rounds_without_own();
        for (number, round) in (1..).zip(exchange.rounds()) {
            let whole = all.parts()?;
            let without_own = match number <= rounds_without_own {
                true => others.parts()?,
                false => Vec::new(),
            };
            for transfer in round {
                let parts = if transfer.leaves_out_own { &without_own } else { &whole };
                self.post(after(here.len().saturating_sub(transfer.distance)), parts.clone());
            }
            for transfer in round {
                for part in self.take(after(transfer.distance)).await? {
                    if number < rounds_without_own {
                        others.add(part.clone())?;
                    }
                    all.add(part)?;
                }
            }
        }
        Ok(())
    }

    /// Gives parts to the other ranks of the PE of this head.
    fn give_parts_to_pe(&self, heads: &Heads, parts: &[Part]) {
        let me = self.me();
        for rank in heads.ranks(&[me]).filter(|rank| *rank != me) {
            self.post(rank, parts.to_vec());
        }
    }

    /// Gives parts to the other ranks of this PE. A rank that is not a head passes `None`, and gets
    /// the parts from the head of its PE.
    pub(super) async fn share_with_pe(
        &self,
        heads: &Heads,
        parts: Option<Vec<Part>>,
    ) -> Result<Vec<Part>, RankError> {
        let Some(parts) = parts else { return self.take(heads.head_of(self.me())).await };
        self.give_parts_to_pe(heads, &parts);
        Ok(parts)
    }

    /// Reduces to all ranks.
    pub(super) async fn allreduce_in_rounds<T: Element>(
        &self,
        values: Vec<T>,
        heads: &Heads,
        exchange: &Dissemination,
        op: &impl Operator<T>,
    ) -> Result<Vec<T>, RankError> {
        let (at, me, expected) = (self.at, self.me(), values.len());
        let nothing = || WholeVectors::new(self.comm.size(), op, expected, at);
        let (mut all, mut others) = (nothing(), nothing());
        all.put((0, me), values)?;
        if !self.collect_in_rounds(heads, exchange, &mut all, &mut others).await? {
            let total: Vec<T> = self.only(self.take(heads.head_of(me)).await?)?.to_vec(at)?;
            return match total.len() {
                found if found != expected => Err(RankError::WrongLength { at, found, expected }),
                _ => Ok(total),
            };
        }
        let total = all.total()?;
        if heads.ranks(&[me]).nth(1).is_some() {
            let key = keys::of_share(0, expected);
            self.give_parts_to_pe(heads, &[Part { key, content: Content::copied(&total) }]);
        }
        Ok(total)
    }

    /// Adds up exactly, at all ranks. Returns the parts of the result.
    pub(super) async fn add_exactly_in_rounds(
        &self,
        numbers: &[f64],
        heads: &Heads,
        exchange: &Dissemination,
    ) -> Result<Vec<Part>, RankError> {
        let mut sums = ExactSums::new(numbers, self.at);
        let mut others = ExactSums::of_nothing(numbers.len(), self.at);
        let is_head = self.collect_in_rounds(heads, exchange, &mut sums, &mut others).await?;
        let totals = is_head.then(|| vec![sums.total_part()]);
        self.share_with_pe(heads, totals).await
    }
}
