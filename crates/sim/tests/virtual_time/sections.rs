//! Sections of members of several collections, over slow links and while members move.

use gridspan_runtime::{
    Actor, ActorRef, Context, CreateAt, Ix1, Job, Op, PeId, Placement, SectionRef, To,
};
use gridspan_sim::{SimOptions, SimReport, Simulation};
use gridspan_topology::GridSpec;
use serde::{Deserialize, Serialize};

const MEMBERS: i32 = 8;
const ROUNDS: u64 = 20;

/// Counts the rounds that reach it, which have to come in order.
#[derive(Serialize, Deserialize)]
struct Member {
    label: u64,
    rounds: u64,
}

#[derive(Clone, Serialize, Deserialize)]
enum Call {
    Round(u64),
    Move(PeId),
    Report(SectionRef<Member>),
    /// Multicast all rounds to the section, and move members of it in between.
    Lead(SectionRef<Member>, Vec<ActorRef<Member>>),
}

impl Actor for Member {
    type Index = Ix1;
    type Init = u64;
    type Message = Call;

    fn create(label: u64, _cx: &mut Context<'_, Self>) -> Self {
        Self { label, rounds: 0 }
    }

    fn handle(&mut self, call: Call, cx: &mut Context<'_, Self>) {
        match call {
            Call::Round(round) => {
                assert_eq!(round, self.rounds);
                self.rounds += 1;
            }
            Call::Move(to) => cx.migrate_to(to),
            Call::Report(section) => {
                assert_eq!(self.rounds, ROUNDS);
                cx.contribute_to_section(&section, Op::Concat, self.label, To::main());
            }
            Call::Lead(section, movers) => {
                let pes = cx.layout().pe_count();
                for round in 0..ROUNDS {
                    cx.multicast(&section, Call::Round(round));
                    let mover = movers[round as usize % movers.len()];
                    cx.send(&mover, Call::Move(PeId(round as u32 * 7 % pes)));
                }
                cx.multicast(&section, Call::Report(section.clone()));
            }
        }
    }
}

fn run(job: Job) -> SimReport {
    let spec = GridSpec::from_emulate("3x2,wan=15ms").unwrap();
    Simulation::new(job, spec, SimOptions::default()).unwrap().run()
}

/// Whether a member is in the section: odd indices of the first collection, even ones of the
/// second.
fn is_in(collection: u64, index: Ix1) -> bool {
    (index.0 as u64 + collection) % 2 == 1
}

#[test]
fn multicasts_reach_members_of_several_collections_in_order_while_they_move() {
    let job = Job::new("sections").actor::<Member>().main(async |grid| {
        let mut all = Vec::new();
        for collection in 0..2_u64 {
            let label = |index: Ix1| 100 * collection + index.0 as u64;
            let placement = Placement::RoundRobin;
            let members =
                grid.create_placed::<Member>(placement, Ix1::range(MEMBERS as u32), label);
            all.push(members.await?);
        }
        // The members are named in another order than that of their creation, and one of them
        // twice.
        let mut members = Vec::new();
        for (collection, of) in [(1, &all[1]), (0, &all[0])] {
            let indices = (0..MEMBERS).map(Ix1).filter(|&index| is_in(collection, index));
            members.extend(indices.map(|index| of.at(index)));
        }
        members.push(members[0]);
        let section = SectionRef::across(4, members.iter().copied());
        all[0].member(Ix1(0)).send(Call::Lead(section.clone(), members));

        let labels: Vec<u64> = all[1].section_reduction(&section, Op::Concat).await?;
        assert_eq!(labels, [1, 3, 5, 7, 100, 102, 104, 106], "by collection and index");
        Ok(())
    });
    let report = run(job);
    assert_eq!(report.outcome, Ok(()));
    assert!(report.statistics.migrations > 5, "{:?}", report.statistics);
}

#[test]
fn a_multicast_creates_members_on_demand_in_several_collections() {
    for at in [CreateAt::Home, CreateAt::Sender] {
        let job = Job::new("sections").on_demand::<Member>(at, |index| index.0 as u64);
        let job = job.main(async |grid| {
            let one = grid.create::<Member>(Ix1::range(1), |_| 0).await?;
            let other = grid.create::<Member>(Ix1::range(0), |_| 0).await?;
            let members = [one.at(Ix1(6)), other.at(Ix1(6)), other.at(Ix1(2))];
            let section = SectionRef::across(4, members);
            one.member(Ix1(0)).send(Call::Lead(section.clone(), members.to_vec()));

            let labels: Vec<u64> = one.section_reduction(&section, Op::Concat).await?;
            assert_eq!(labels, [6, 2, 6]);
            Ok(())
        });
        let report = run(job);
        assert_eq!((report.outcome, report.statistics.dead_letters), (Ok(()), 0));
    }
}
