//! Tests of the coordinator without PEs.

mod ends;
mod loads;
mod losses;
mod moves;
mod orders;
mod quiescence;

use crate::address::collection::Map;
use crate::address::id::{ActorId, CollectionId, KindId, MAIN_PE, RebalanceId};
use crate::address::index::{ActorIndex, Ix1};
use crate::coordinator::event::{CoordinatorCommand, CoordinatorEvent};
use crate::coordinator::host::CoordinatorHost;
use crate::error::JobError;
use crate::job::program::Program;
use crate::message::payload::Payload;
use crate::message::{
    Asked, Content, Contribution, Control, Earlier, Loads, MainRequest, Packet, ReductionGroup,
    Wanted, codec,
};
use crate::reduce::{Op, Partial, Target, Value};
use crate::{Actor, Context, Job};
use gridspan_balance::PeLoad;
use gridspan_topology::{Layout, PeId, Time};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Idle;

impl Actor for Idle {
    type Index = Ix1;
    type Init = ();
    type Message = u8;

    fn create((): (), _cx: &mut Context<'_, Self>) -> Self {
        Self
    }

    fn handle(&mut self, _message: u8, _cx: &mut Context<'_, Self>) {}
}

/// Creates a job on nodes with these numbers of PEs.
fn program(nodes: &[u32]) -> Program {
    let layout = Layout::new(vec![("a".to_owned(), nodes.to_vec())]);
    let job = Job::new("coordination").actor::<Idle>().main(async |_| Ok::<(), JobError>(()));
    Program::new(job, layout).unwrap()
}

/// Sends the coordinator a control, and returns the controls that it sends to single PEs.
fn tell(coordinator: &mut CoordinatorHost, from: PeId, control: Control) -> Vec<(PeId, Control)> {
    let event = CoordinatorEvent::Packet { from, packet: Packet::control(control) };
    sent(coordinator.handle(Time::ZERO, event))
}

fn sent(commands: Vec<CoordinatorCommand>) -> Vec<(PeId, Control)> {
    let control = |command| match command {
        CoordinatorCommand::Send { to, packet: Packet(Content::Control(control)) } => {
            Some((to, *control))
        }
        _ => None,
    };
    commands.into_iter().filter_map(control).collect()
}

/// Creates a collection of one member, and confirms it on all PEs.
fn create(coordinator: &mut CoordinatorHost) -> CollectionId {
    let kind = KindId(0);
    let request =
        MainRequest::Create { kind, map: Map::Block, shape: None, members: 1, created: 8 };
    let told = tell(coordinator, MAIN_PE, Control::MainRequest { slot: 7, request });
    let [(MAIN_PE, Control::Reply { slot: 7, .. })] = &told[..] else { panic!("{told:?}") };
    let collection = CollectionId(0);
    let layout = coordinator.coordinator().unwrap().common.layout.clone();
    let told: Vec<_> = layout
        .pes()
        .flat_map(|pe| tell(coordinator, pe, Control::Created { collection }))
        .collect();
    let [(MAIN_PE, Control::Reply { slot: 8, .. }), ..] = &told[..] else { panic!("{told:?}") };
    collection
}

fn request(collection: CollectionId, count: u64) -> Control {
    let kind = KindId(0);
    let source = ActorId { collection, key: Ix1(0).key() };
    let asked = Asked { source, count, earlier: Earlier::default() };
    let message = Payload::Bytes(codec::encode(&(count as u8)).into());
    let (wanted, priority, is_alone) = (Wanted::Message(message), 0, false);
    Control::BroadcastRequest { kind, collection, asked, wanted, priority, is_alone }
}

/// The contribution of `count` members to a sum.
fn contribution(collection: CollectionId, sequence: u64, count: u64) -> Contribution {
    Contribution {
        group: ReductionGroup::Collection(collection),
        sequence,
        count,
        expected: 0,
        op: Op::Sum,
        target: Target::Main,
        partial: Partial::new(&Op::Sum, Ix1(0).key(), Value::U64(1)),
    }
}

fn numbers(told: &[(PeId, Control)]) -> Vec<(PeId, u64, u64)> {
    let number = |(to, control): &(PeId, Control)| match control {
        Control::Broadcast {
            order: crate::message::BroadcastOrder::Total(number), asked, ..
        } => Some((*to, *number, asked.count)),
        _ => None,
    };
    told.iter().filter_map(number).collect()
}

fn held_bytes(coordinator: &CoordinatorHost) -> usize {
    coordinator.coordinator().unwrap().budget.bytes()
}

/// Returns the measurements of a PE without actors.
fn no_loads(rebalance: u64) -> Control {
    Control::Loads(Box::new(Loads {
        rebalance: RebalanceId(rebalance),
        actors: Vec::new(),
        edges: Vec::new(),
        led: None,
        away: Vec::new(),
        pe: PeLoad::default(),
        handled: 0,
        replicas: Vec::new(),
    }))
}
