//! Sections: members of one collection, or of several, that are addressed together.

use super::blob::{Blob, BlobMsg};
use super::cell::{Cell, Msg};
use super::{ASK, everywhere, job, outcome};
use gridspan_runtime::{Collection, Ix1, Op, PeId, Per, Placement, SectionRef};

#[test]
fn sections_and_groups_are_addressed_together() {
    everywhere(|| {
        job().main(async |grid| {
            let cells =
                grid.create_placed::<Cell>(Placement::RoundRobin, Ix1::range(40), |_| 0).await?;
            let section = cells.section(0, (0..40).step_by(3).map(Ix1));
            cells.multicast(&section, Msg::Add(2));
            let sent = section.clone();
            cells.member(Ix1(5)).send(Msg::Multicast(sent));
            grid.quiescence().await?;
            cells.broadcast(Msg::Contribute);
            let total: u64 = cells.reduction(Op::Sum).await?;
            assert_eq!(total, 14 * 7);
            let odd = cells.section(1, (1..40).step_by(2).map(Ix1));
            cells.multicast(&odd, Msg::SectionSum(odd.clone()));
            cells.multicast(&section, Msg::SectionSum(section.clone()));
            let sum: u64 = cells.section_reduction(&section, Op::Sum).await?;
            assert_eq!(sum, 14 * 7);
            let sum: u64 = cells.section_reduction(&odd, Op::Sum).await?;
            assert_eq!(sum, 7 * 7, "seven of the odd members are in the other section");
            let group = grid.create_group::<Cell>(Per::Pe, |ix| ix.0 as u64).await?;
            group.broadcast(Msg::Contribute);
            let pes = u64::from(grid.layout().pe_count());
            let total: u64 = group.reduction(Op::Sum).await?;
            assert_eq!(total, pes * (pes - 1) / 2);
            Ok(())
        })
    });
}

/// Every third of the first 20 members of each collection.
fn thirds(collections: &[Collection<Cell>]) -> SectionRef<Cell> {
    let indices = || (0..20).step_by(3).map(Ix1);
    SectionRef::across(3, collections.iter().flat_map(|all| indices().map(|ix| all.at(ix))))
}

#[test]
fn a_section_across_collections_receives_and_reduces_as_one_while_its_members_move() {
    const ROUNDS: u64 = 12;
    everywhere(|| {
        job().main(async |grid| {
            let mut all = Vec::new();
            for placement in [Placement::Block, Placement::RoundRobin, Placement::Scatter] {
                all.push(grid.create_placed::<Cell>(placement, Ix1::range(20), |_| 0).await?);
            }
            let (section, pes) = (thirds(&all), grid.layout().pe_count());
            let len = section.len() as u64;
            assert_eq!(len, 3 * 7);
            // Each round adds to all members, moves some, and sums up, without waiting for the
            // round before.
            for round in 0..ROUNDS {
                let by = &all[round as usize % 3];
                by.multicast(&section, Msg::Add(1));
                for (position, collection) in (0..).zip(&all) {
                    let mover = collection.member(Ix1(3 * (round as i32 % 7)));
                    mover.send(Msg::Move(PeId((round as u32 + position) % pes)));
                }
                by.multicast(&section, Msg::SectionSum(section.clone()));
            }
            for round in 0..ROUNDS {
                let sum: u64 = all[1].section_reduction(&section, Op::Sum).await?;
                assert_eq!(sum, (round + 1) * len);
            }
            // A member multicasts, too. Reductions over a section of one collection do not mix with
            // those over `section`.
            all[2].member(Ix1(1)).send(Msg::Multicast(section.clone()));
            grid.quiescence().await?;
            let own = all[0].section(1, (0..20).map(Ix1));
            all[0].multicast(&own, Msg::SectionSum(own.clone()));
            let sum: u64 = all[0].section_reduction(&own, Op::Sum).await?;
            assert_eq!(sum, 7 * (ROUNDS + 5), "its other members have received nothing");
            all[0].multicast(&section, Msg::SectionSum(section.clone()));
            let sum: u64 = all[0].section_reduction(&section, Op::Sum).await?;
            assert_eq!(sum, len * (ROUNDS + 5));
            Ok(())
        })
    });
}

#[test]
fn a_contribution_from_outside_the_section_ends_the_job() {
    let intruding = || {
        job().main(async |grid| {
            let one = grid.create::<Cell>(Ix1::range(20), |_| 0).await?;
            let other = grid.create::<Cell>(Ix1::range(20), |_| 0).await?;
            let section = thirds(&[one.clone(), other]);
            one.member(Ix1(4)).send(Msg::SectionSum(section));
            grid.quiescence().await?;
            Ok(())
        })
    };
    for outcome in outcome(intruding) {
        let error = outcome.unwrap_err().to_string();
        assert!(error.contains("contributed to section 3, but is not a member of it"), "{error}");
    }
}

#[test]
fn a_large_multicast_reaches_only_its_section_and_before_later_messages() {
    const BYTES: usize = 1_000_000;
    everywhere(|| {
        job().main(async |grid| {
            let blobs = grid
                .create_placed::<Blob>(Placement::RoundRobin, Ix1::range(12), |_| vec![9; 10])
                .await?;
            let even = blobs.section(0, (0..12).step_by(2).map(Ix1));
            for round in 1..=5u8 {
                blobs.broadcast(BlobMsg::Take(vec![0; 10]));
                blobs.multicast(&even, BlobMsg::Take(vec![round; BYTES]));
                for index in 0..12 {
                    let sum = blobs.member(Ix1(index)).ask(ASK, BlobMsg::First).await?;
                    let whole = u64::from(round) + BYTES as u64;
                    assert_eq!(sum, if index % 2 == 0 { whole } else { 10 });
                }
            }
            Ok(())
        })
    });
}
