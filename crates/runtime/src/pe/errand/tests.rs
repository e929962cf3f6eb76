//! Errands of guests, founders and carriers.

use super::*;
use crate::Job;
use crate::error::JobError;
use crate::pe::Pe;
use crate::program::Program;
use crate::wire::{Content, Packet, Visit};
use gridspan_topology::{Layout, NodeId, SiteId};

/// Two founders of one PE each; and the first PE of a guest.
fn program() -> (Program, PeId) {
    let layout = Layout::new(vec![("a".to_owned(), vec![1, 1])]);
    let guest = layout.leader(layout.guest(SiteId(0), 0).unwrap());
    let job = Job::new("errands").main(async |_| Ok::<(), JobError>(()));
    (Program::new(job, layout).unwrap(), guest)
}

fn errand(bytes: usize) -> Packet {
    Packet::control(Control::Errand { collection: CollectionId(7), order: vec![0; bytes].into() })
}

fn controls(pe: &mut Pe) -> Vec<Control> {
    let control = |(_, packet): (PeId, Packet)| match packet.0 {
        Content::Control(control) => Some(*control),
        _ => None,
    };
    pe.outbox().drain().filter_map(control).collect()
}

#[test]
fn a_guests_errand_for_a_collection_that_nobody_knows_loses_the_guest_and_waits_for_nothing() {
    let (program, guest) = program();
    for founder in [PeId(0), PeId(1)] {
        let mut pe = program.pe(founder);
        pe.handle(guest, errand(1000));

        assert_eq!(pe.core.gauge.bytes(), 0);
        assert!(!pe.has_failed());
        let told = controls(&mut pe);
        let [Control::Visit(Visit::Lost { guest: lost, .. })] = &told[..] else {
            panic!("{told:?}")
        };
        assert_eq!(*lost, program.layout().node_of(guest));
    }
}

#[test]
fn an_errand_that_waits_for_its_collection_counts_with_its_bytes() {
    let (program, _) = program();
    let mut pe = program.pe(PeId(1));
    pe.handle(PeId(0), errand(1000));
    assert!(pe.core.gauge.bytes() > 1000, "{}", pe.core.gauge.bytes());
}

#[test]
fn an_errand_of_the_carrier_is_none_of_what_a_pe_has_told_itself() {
    let (program, _) = program();
    let me = PeId(1);
    let mut pe = program.pe(me);
    pe.core.post(me, Control::ShareChanged);
    pe.handle(me, errand(1));
    // What the root asks itself would overtake what it has not handled.
    assert_eq!(pe.core.own_controls, 1);
    pe.handle(me, Packet::control(Control::ShareChanged));
    assert_eq!(pe.core.own_controls, 0);
}

#[test]
fn stewards_know_a_guest_before_the_root_hears_that_its_node_does() {
    let (program, guest) = program();
    let guest = program.layout().node_of(guest);
    let mut pe = program.pe(PeId(1));
    let came = Visit::Came { guest, contact: String::new() };
    pe.handle(PeId(0), Packet::control(Control::Visit(came)));

    let told: Vec<Packet> = pe.outbox().drain().map(|(_, packet)| packet).collect();
    let [Packet(Content::Spread(_)), Packet(Content::Control(noted))] = &told[..] else {
        panic!("{} packets", told.len())
    };
    assert!(matches!(**noted, Control::Visit(Visit::Noted { guest: NodeId(2) })));
}
