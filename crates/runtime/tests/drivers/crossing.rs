//! Messages to another node that are large or do not serialise, and estimates of the link to it.

use crate::two_sites;
use gridspan_runtime::driver::embedded;
use gridspan_runtime::{
    Actor, ActorIndex, Context, Grid, Ix1, Job, Limits, Numbers, PeId, Placement, PlacementMap,
    Reply,
};
use serde::{Deserialize, Serialize, Serializer};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

const ASK: Duration = Duration::from_secs(60);
/// Bytes of a message that exceeds the default limit.
const LARGE: usize = 70 << 20;

/// A type whose serialisation fails.
#[derive(Clone, Deserialize)]
struct Unsendable;

impl Serialize for Unsendable {
    fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        Err(serde::ser::Error::custom("it holds a handle of this process"))
    }
}

#[derive(Serialize, Deserialize)]
struct Receiver;

#[derive(Clone, Serialize, Deserialize)]
enum Message {
    Bytes(Numbers<u8>, Reply<u64>),
    Pass(u8),
    Handle(Unsendable),
}

impl Actor for Receiver {
    type Index = Ix1;
    type Init = ();
    type Message = Message;

    fn create((): (), _cx: &mut Context<'_, Self>) -> Self {
        Self
    }

    fn handle(&mut self, message: Message, cx: &mut Context<'_, Self>) {
        match message {
            Message::Bytes(bytes, reply) => cx.reply(reply, bytes.len() as u64),
            Message::Pass(to) => {
                let to = cx.collection().at(Ix1(i32::from(to)));
                cx.send(&to, Message::Handle(Unsendable));
            }
            Message::Handle(_) => {}
        }
    }
}

/// Places the first member on the first PE, and all others on the last.
const ENDS: PlacementMap = PlacementMap::new("ends", |key, layout| match Ix1::from_key(key) {
    Ix1(0) => PeId(0),
    _ => PeId(layout.pe_count() - 1),
});

/// A job with a receiver on the first and on the last PE.
fn job(
    main: impl AsyncFnOnce(
        Grid,
        gridspan_runtime::Collection<Receiver>,
    ) -> Result<(), gridspan_runtime::JobError>
    + Send
    + 'static,
) -> Job {
    let job = Job::new("crossing").actor::<Receiver>();
    job.placement(ENDS).main(async move |grid| {
        let ends = Placement::Custom(ENDS);
        let both = grid.create_placed::<Receiver>(ends, Ix1::range(2), |_| ()).await?;
        main(grid, both).await
    })
}

#[test]
fn a_message_over_the_limit_fails_with_advice_and_passes_with_a_higher_limit() {
    let send = || {
        job(async |_grid, both| {
            let bytes = Numbers::from(vec![1; LARGE]);
            let length: u64 =
                both.member(Ix1(1)).ask(ASK, |reply| Message::Bytes(bytes, reply)).await?;
            assert_eq!(length, LARGE as u64);
            Ok(())
        })
    };

    let error = embedded::run_emulated(send(), &two_sites()).unwrap_err().to_string();
    let raised = Limits::default().with_message_bytes(80 << 20);
    let passed = embedded::run_emulated(send().limits(raised), &two_sites());

    assert!(error.contains("raise `message_bytes` of the job's `Limits`"), "{error}");
    assert_eq!(passed, Ok(()));
}

#[test]
fn the_error_of_a_message_that_does_not_serialise_names_actor_and_type() {
    let job = job(async |grid, both| {
        both.member(Ix1(0)).send(Message::Pass(1));
        grid.quiescence().await?;
        Ok(())
    });

    let error = embedded::run_emulated(job, &two_sites()).unwrap_err().to_string();

    assert!(error.contains("a handler of ") && error.contains("Receiver panicked"), "{error}");
    assert!(error.contains("type drivers::crossing::Message"), "{error}");
}

#[test]
fn all_listeners_receive_estimates_of_links() {
    let told = Arc::new([AtomicU32::new(0), AtomicU32::new(0)]);
    let listen = |listener: usize| {
        let told = told.clone();
        move |_: &gridspan_runtime::Links, _: &[gridspan_topology::LinkChange]| {
            told[listener].fetch_add(1, Ordering::SeqCst);
        }
    };
    let heard = told.clone();
    let job = job(async move |grid, both| {
        for _ in 0..200 {
            let bytes = Numbers::from(vec![1; 8]);
            let far = both.member(Ix1(1));
            let length = far.ask(ASK, |reply| Message::Bytes(bytes, reply)).await;
            assert_eq!(length, Ok(8_u64));
            if heard.iter().all(|count| count.load(Ordering::SeqCst) > 0) {
                return Ok(());
            }
            grid.sleep(Duration::from_millis(50)).await?;
        }
        Err("a listener has received no estimates".into())
    });

    let outcome = embedded::run_emulated(job.on_links(listen(0)).on_links(listen(1)), &two_sites());

    assert_eq!(outcome, Ok(()));
}
