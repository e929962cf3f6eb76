//! References that reach a PE before the description of their collection.

use gridspan_runtime::{
    Actor, CollectionId, CollectionRef, Context, Ix1, Job, JobError, Layout, Op, Per, SiteId, To,
};
use gridspan_sim::{SimOptions, SimReport, Simulation};
use gridspan_topology::{Bandwidth, GridSpec, Latency, Link};
use serde::{Deserialize, Serialize};
use std::time::Duration;

const MEMBERS: u32 = 6;
/// The word of a broadcast. Members count broadcasts, and do not check their place among other
/// words.
const SHOUT: u64 = 9;

/// Sends a reference to its collection to a listener while the collection is being created.
#[derive(Serialize, Deserialize)]
struct Newcomer {
    /// Words received from the listener, as digits.
    heard: u64,
    /// Number of broadcasts received.
    shouts: u64,
}

#[derive(Clone, Serialize, Deserialize)]
enum Hear {
    Word(u64),
    /// Contribute whether all was received: these digits, and this number of shouts.
    Check(u64, u64),
}

impl Actor for Newcomer {
    type Index = Ix1;
    /// The listeners, one of which gets the reference; `None` to send nothing.
    type Init = Option<CollectionRef<Listener>>;
    type Message = Hear;

    fn create(listeners: Self::Init, cx: &mut Context<'_, Self>) -> Self {
        if let Some(listeners) = listeners {
            cx.send(&listeners.at(Ix1(2)), Talk::To(cx.collection()));
        }
        Self { heard: 0, shouts: 0 }
    }

    fn handle(&mut self, message: Hear, cx: &mut Context<'_, Self>) {
        match message {
            Hear::Word(SHOUT) => self.shouts += 1,
            Hear::Word(digit) => self.heard = 10 * self.heard + digit,
            Hear::Check(digits, shouts) => {
                let all = (self.heard, self.shouts) == (digits, shouts);
                cx.contribute(Op::Sum, u64::from(all), To::main());
            }
        }
    }
}

/// An actor type that is not part of any job.
#[derive(Serialize, Deserialize)]
struct Stranger;

impl Actor for Stranger {
    type Index = Ix1;
    type Init = ();
    type Message = ();

    fn create((): (), _cx: &mut Context<'_, Self>) -> Self {
        Self
    }

    fn handle(&mut self, (): (), _cx: &mut Context<'_, Self>) {}
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
enum Way {
    Send,
    Broadcast,
    Multicast,
    Insert,
    SendToStranger,
}

#[derive(Clone, Serialize, Deserialize)]
enum Talk {
    To(CollectionRef<Newcomer>),
    /// Send again, once the collection is known.
    Again(CollectionRef<Newcomer>),
    /// Send to a collection that does not exist.
    ToUnknown(Way),
}

#[derive(Serialize, Deserialize)]
struct Listener;

impl Actor for Listener {
    type Index = Ix1;
    type Init = ();
    type Message = Talk;

    fn create((): (), _cx: &mut Context<'_, Self>) -> Self {
        Self
    }

    fn handle(&mut self, message: Talk, cx: &mut Context<'_, Self>) {
        let indices = || (0..MEMBERS as i32).map(Ix1);
        match message {
            Talk::To(newcomers) => {
                indices().for_each(|index| cx.send(&newcomers.at(index), Hear::Word(1)));
                cx.broadcast(&newcomers, Hear::Word(SHOUT));
                cx.multicast(&newcomers.section(0, indices()), Hear::Word(2));
                indices().for_each(|index| cx.send(&newcomers.at(index), Hear::Word(3)));
                cx.send_after(Duration::from_secs(1), &cx.me(), Talk::Again(newcomers));
            }
            Talk::Again(newcomers) => {
                indices().for_each(|index| cx.send(&newcomers.at(index), Hear::Word(4)));
                cx.broadcast(&newcomers, Hear::Word(SHOUT));
            }
            Talk::ToUnknown(way) => {
                let unknown = cx.collection_of::<Newcomer>(CollectionId(77));
                match way {
                    Way::Send => cx.send(&unknown.at(Ix1(0)), Hear::Word(1)),
                    Way::Broadcast => cx.broadcast(&unknown, Hear::Word(1)),
                    Way::Multicast => {
                        cx.multicast(&unknown.section(0, indices()), Hear::Word(1));
                    }
                    Way::Insert => cx.insert(&unknown.at(Ix1(0)), None),
                    Way::SendToStranger => {
                        let strangers = cx.collection_of::<Stranger>(CollectionId(77));
                        cx.send(&strangers.at(Ix1(0)), ());
                    }
                }
            }
        }
    }
}

/// Three sites with one PE each. Messages from the second reach the third long before those from
/// the first.
fn skewed() -> GridSpec {
    let sites = ["a", "b", "c"].map(|name| (name.to_owned(), vec![1]));
    let link = |latency| Link::new(Latency::from_millis(latency), Bandwidth::UNLIMITED);
    GridSpec::from_layout(&Layout::new(sites.to_vec()))
        .expect("a valid layout")
        .with_wan(link(1))
        .with_link(SiteId(0), SiteId(2), link(200))
        .with_link(SiteId(2), SiteId(0), link(20))
}

fn simulate(job: Job) -> SimReport {
    Simulation::new(job, skewed(), SimOptions::default()).expect("a valid job").run()
}

#[test]
fn a_reference_works_before_its_collection_is_known() {
    let job = Job::new("early").actor::<Listener>().actor::<Newcomer>().main(async |grid| {
        let listeners = grid.create_group::<Listener>(Per::Pe, |_| ()).await?;
        let listeners = listeners.reference();
        // The third member is the first one at the second site.
        let tell = |Ix1(index)| (index == 2).then_some(listeners);
        let newcomers = grid.create::<Newcomer>(Ix1::range(MEMBERS), tell).await?;

        grid.quiescence().await?;

        newcomers.broadcast(Hear::Check(1234, 2));
        let satisfied: u64 = newcomers.reduction(Op::Sum).await?;
        match satisfied == u64::from(MEMBERS) {
            true => Ok(()),
            false => Err(JobError::Failed(format!("{satisfied} received all, in order and once"))),
        }
    });

    let report = simulate(job);

    assert_eq!(report.outcome, Ok(()));
    assert_eq!((report.statistics.repeated, report.statistics.dead_letters), (0, 0));
}

#[test]
fn using_a_collection_that_does_not_exist_ends_the_job_with_an_error() {
    let ways = [Way::Send, Way::Broadcast, Way::Multicast, Way::Insert, Way::SendToStranger];
    for (way, pe) in ways.into_iter().flat_map(|way| [(way, 0), (way, 2)]) {
        let job = Job::new("unknown").actor::<Listener>().actor::<Newcomer>();
        let job = job.main(async move |grid| {
            let listeners = grid.create_group::<Listener>(Per::Pe, |_| ()).await?;
            listeners.member(Ix1(pe)).send(Talk::ToUnknown(way));
            grid.sleep(Duration::from_secs(10)).await?;
            Ok(())
        });

        let outcome = simulate(job).outcome;
        let reason = outcome.expect_err(&format!("{way:?} from PE {pe} ends the job")).to_string();

        let expected = match way {
            Way::SendToStranger => "Stranger is not part of the job",
            _ => "collection 77, which does not exist",
        };
        assert!(reason.contains(expected), "{way:?} from PE {pe}: {reason}");
    }
}
