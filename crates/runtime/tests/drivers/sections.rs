//! Sections: some members of a collection addressed together.

use super::blob::{Blob, BlobMsg};
use super::cell::{Cell, Msg};
use super::{ASK, everywhere, job};
use gridspan_runtime::{Ix1, Op, Per, Placement};

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

#[test]
fn a_large_multicast_reaches_its_section_whole_and_nobody_else_before_what_is_sent_later() {
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
