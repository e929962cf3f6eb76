//! What an actor does for other ranks: the actor of rank 0 is the name server and spawns ranks, and
//! each actor reports the end of its rank.

use super::{Life, RankActor};
use crate::error::CallSite;
use crate::name_server::{Answers, ServerReply, ServerRequest, Spawn, refused};
use crate::packet::{RankMessage, SpawnedGroup};
use crate::places::Places;
use crate::program::RankProgram;
use crate::refusal::RankRefusal;
use crate::ticket::Asker;
use gridspan_runtime::{Context, Ix1, PeId};
use std::any::type_name;
use std::sync::Arc;

/// The call site of a decoding error whose text is not used.
const AT: CallSite = CallSite { call: "spawn", peer: None, tag: None, communicator: 0 };

impl<P: RankProgram> RankActor<P> {
    /// Whether this rank cannot serve a request yet: it numbers new ranks after the others, and
    /// knows how many there are once it has begun. Over a slow link, a rank of another node may
    /// begin first.
    pub(super) fn is_too_early(&self, request: &ServerRequest) -> bool {
        self.world.is_none() && matches!(request, ServerRequest::Spawn(_))
    }

    /// Handles a request to the name server, at rank 0.
    pub(super) fn serve(
        &mut self,
        asker: Asker,
        request: ServerRequest,
        cx: &mut Context<'_, Self>,
    ) {
        let answers = match request {
            ServerRequest::Spawn(spawn) => match self.spawn(asker, spawn, cx) {
                Ok(()) => return,
                Err(refusal) => refused(asker, refusal),
            },
            request => self.server.get_or_insert_default().handle(asker, request),
        };
        self.answer(answers, cx);
    }

    /// Inserts ranks. The parents get the answer once all of these have begun.
    fn spawn(
        &mut self,
        asker: Asker,
        Spawn { placement, inits, parents, links }: Spawn,
        cx: &mut Context<'_, Self>,
    ) -> Result<(), RankRefusal> {
        let Ok(inits) = inits.decode::<Vec<P::Init>>(AT) else {
            let expected = type_name::<P::Init>().to_owned();
            return Err(RankRefusal::OtherInit { expected });
        };
        let wanted = (self.size, inits.len());
        let server = self.server.get_or_insert_default();
        let (number, children) = server.spawn(asker, wanted, placement, cx.layout())?;
        let failed = server.failed().clone();
        let shared_by = children.ranks.len() as u32;
        self.size += shared_by;
        let places = Arc::new(Places::new(&[], cx.layout(), links));
        let looks = self.watch.as_ref().is_some_and(|watch| watch.looks_alone());
        let group = SpawnedGroup { number, children, parents, places, failed, looks, shared_by };
        let group = Arc::new(group);
        let ranks = cx.collection();
        let placed = group.children.ranks.iter().zip(&group.children.places);
        for (init, (rank, (_, pe))) in inits.into_iter().zip(placed) {
            let rank = ranks.at(Ix1(*rank as i32));
            cx.insert_on(&rank, init, PeId(*pe));
            cx.send(&rank, RankMessage::Spawned(group.clone()));
        }
        Ok(())
    }

    /// Notes that one of the ranks that rank 0 spawned from `first` on has begun.
    pub(super) fn note_begun(&mut self, first: u32, cx: &mut Context<'_, Self>) {
        let answers = self.server.get_or_insert_default().begun(first);
        self.answer(answers, cx);
    }

    /// Answers once this rank has ended.
    pub(super) fn tell_end(&mut self, asker: Asker, cx: &mut Context<'_, Self>) {
        match self.life {
            Life::Ended(_) | Life::Failed(_) => self.answer(vec![(asker, ServerReply::Done)], cx),
            _ => self.wait_for_end.push(asker),
        }
    }

    pub(super) fn answer(&mut self, answers: Answers, cx: &mut Context<'_, Self>) {
        let ranks = cx.collection();
        for (Asker { rank, ticket }, reply) in answers {
            let answer = RankMessage::Answered { ticket, reply };
            match rank == self.local.rank {
                true => self.local.with(|state| state.deliver(answer)),
                false => {
                    self.local.with(|state| state.note_unsent());
                    self.send(&ranks.at(Ix1(rank as i32)), rank, answer, cx);
                }
            }
        }
    }
}
