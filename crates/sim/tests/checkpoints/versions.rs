//! Restoration of checkpoints by programs with other versions of their actors.

use super::{every, grid};
use gridspan_runtime::{
    Actor, Collection, CollectionRef, Context, Grid, Image, Ix1, Job, JobError, OldState, Op, Per,
    RestorePlan, StartError, To, UpgradeError,
};
use gridspan_sim::{SimOptions, Simulation};
use gridspan_topology::Time;
use serde::{Deserialize, Serialize};
use std::time::Duration;

const MEMBERS: u32 = 12;

/// An actor type of one version of the program.
trait Version: Actor<Index = Ix1, Init = (), Message: From<Doing>> {}

impl<A: Actor<Index = Ix1, Init = (), Message: From<Doing>>> Version for A {}

/// A command of main to an actor.
#[derive(Clone, Copy, Serialize, Deserialize)]
enum Doing {
    Add(u64),
    Later(u64),
    Report,
}

impl From<Doing> for u64 {
    fn from(doing: Doing) -> Self {
        match doing {
            Doing::Add(value) => 4 * value,
            Doing::Later(value) => 4 * value + 1,
            Doing::Report => 2,
        }
    }
}

impl From<Doing> for (u64, String) {
    fn from(doing: Doing) -> Self {
        (doing.into(), "a text".to_owned())
    }
}

/// The command with this number. All versions of the program use the same numbers.
fn doing(number: u64) -> Doing {
    match number % 4 {
        0 => Doing::Add(number / 4),
        1 => Doing::Later(number / 4),
        _ => Doing::Report,
    }
}

/// Handles a message for an actor with this sum.
fn handle<A: Version>(number: u64, sum: &mut u64, cx: &mut Context<'_, A>) {
    match doing(number) {
        Doing::Add(value) => {
            *sum += value;
            cx.charge(Duration::from_millis(1));
        }
        Doing::Later(value) => {
            let me = cx.me();
            cx.send_after(Duration::from_secs(5), &me, Doing::Add(value).into());
        }
        Doing::Report => cx.contribute(Op::Sum, *sum, To::main()),
    }
}

/// An actor type that the first version of the program does not have.
#[derive(Serialize, Deserialize)]
struct Other;

impl Actor for Other {
    type Index = Ix1;
    type Init = ();
    type Message = ();

    fn create((): (), _: &mut Context<'_, Self>) -> Self {
        Self
    }

    fn handle(&mut self, (): (), _: &mut Context<'_, Self>) {}
}

/// A job whose main stays at its progress point until it is restored, and then expects this sum.
fn job<A: Version>(expected: u64) -> Job {
    Job::new("versions").checkpoints(every(1)).main(async move |grid: Grid| {
        let all = match grid.restored::<CollectionRef<A>>().await? {
            Some(reference) => grid.collection(reference),
            None => begin::<A>(&grid).await?,
        };
        grid.sleep(Duration::from_secs(10)).await?;
        grid.quiescence().await?;
        all.broadcast(Doing::Report.into());
        assert_eq!(all.reduction::<u64>(Op::Sum).await?, expected);
        Ok(())
    })
}

async fn begin<A: Version>(grid: &Grid) -> Result<Collection<A>, JobError> {
    let all = grid.create::<A>(Ix1::range(MEMBERS), |_| ()).await?;
    for value in 0..10 {
        all.broadcast(Doing::Add(value).into());
    }
    all.broadcast(Doing::Later(100).into());
    // Some messages are handled, and others wait.
    grid.sleep(Duration::from_millis(10)).await?;
    grid.progress(&all.reference()).await?;
    grid.sleep(Duration::from_secs(3600)).await?;
    Ok(all)
}

fn checkpoint(job: Job) -> Image {
    let simulation = Simulation::new(job, grid("1x2x1"), SimOptions::with_seed(3)).unwrap();
    let Ok(halted) = simulation.run_until(Time(3_000_000_000)) else { panic!("it has ended") };
    halted.checkpoint().unwrap().unwrap()
}

fn restore(job: Job, image: &Image) -> Result<(), JobError> {
    let spec = grid("1x2x1");
    let plan = RestorePlan::restart(image.layout(), spec.layout());
    let restored = (image.clone(), plan);
    let simulation = Simulation::restored(job, spec, SimOptions::with_seed(4), restored)?;
    simulation.run().outcome
}

/// Versions of a program. All actor types have the same name, since one function defines them.
struct Programs {
    first: Job,
    /// With one more field and the same `VERSION`.
    careless: Job,
    /// With one more field, another `VERSION`, and another actor type before this one.
    second: Job,
    /// With another `VERSION`, and no function that converts the states.
    without_upgrade: Job,
    /// With an upgrade that decodes the old states as another type.
    mistaken: Job,
    /// With another message type.
    talkative: Job,
}

macro_rules! actor {
    ($message:ty, $version:expr, $number:expr $(, $field:ident = $value:expr)* $(; $upgrade:item)?) => {
        #[derive(Serialize, Deserialize)]
        struct Counter {
            sum: u64,
            $($field: u64,)*
        }

        impl Actor for Counter {
            type Index = Ix1;
            type Init = ();
            type Message = $message;

            const VERSION: u32 = $version;

            fn create((): (), _: &mut Context<'_, Self>) -> Self {
                Self { sum: 0, $($field: $value,)* }
            }

            $($upgrade)?

            fn handle(&mut self, message: $message, cx: &mut Context<'_, Self>) {
                let number: fn($message) -> u64 = $number;
                handle(number(message), &mut self.sum, cx);
            }
        }
    };
}

fn programs() -> Programs {
    #[derive(Deserialize)]
    struct Counter0 {
        sum: u64,
    }
    let sum = u64::from(MEMBERS) * (45 + 100);
    let first = {
        actor!(u64, 0, |number| number);
        job::<Counter>(sum).actor::<Counter>()
    };
    let careless = {
        actor!(u64, 0, |number| number, more = 0);
        job::<Counter>(sum).actor::<Counter>()
    };
    let second = {
        actor!(u64, 1, |number| number, more = 0;
        fn upgrade(old: OldState<'_>) -> Result<Self, UpgradeError> {
            assert_eq!(old.version(), 0);
            let Counter0 { sum } = old.decode()?;
            // The sum at the end shows that this function has run.
            Ok(Self { sum: sum + 1000, more: 1 })
        });
        let sum = sum + u64::from(MEMBERS) * 1000;
        job::<Counter>(sum).actor::<Other>().actor::<Counter>()
    };
    let without_upgrade = {
        actor!(u64, 2, |number| number, more = 0);
        job::<Counter>(sum).actor::<Counter>()
    };
    let mistaken = {
        actor!(u64, 1, |number| number;
        fn upgrade(old: OldState<'_>) -> Result<Self, UpgradeError> {
            Ok(Self { sum: old.decode::<(u64, u64)>()?.0 })
        });
        job::<Counter>(sum).actor::<Counter>()
    };
    let talkative = {
        actor!((u64, String), 1, |(number, _)| number;
        fn upgrade(old: OldState<'_>) -> Result<Self, UpgradeError> {
            let Counter0 { sum } = old.decode()?;
            Ok(Self { sum })
        });
        job::<Counter>(sum).actor::<Counter>()
    };
    Programs { first, careless, second, without_upgrade, mistaken, talkative }
}

/// A checkpoint of the first version.
fn of_first() -> Image {
    checkpoint(programs().first)
}

#[test]
fn a_job_continues_with_the_next_version_of_an_actor() {
    let image = of_first();
    assert_eq!(restore(programs().first, &image), Ok(()));
    assert_eq!(restore(programs().second, &image), Ok(()));
}

#[test]
fn states_of_another_structure_need_another_version() {
    let error = restore(programs().careless, &of_first()).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("states of") && text.contains("Counter"), "{text}");
    assert!(text.contains("raise `VERSION`") && text.contains("more"), "{text}");
}

#[test]
fn a_version_that_does_not_take_over_states_is_refused() {
    let error = restore(programs().without_upgrade, &of_first()).unwrap_err();
    let JobError::CannotStart(StartError::CheckpointState { actor, was, is, .. }) = &error else {
        panic!("{error}")
    };
    assert!(actor.ends_with("Counter") && (*was, *is) == (0, 2), "{error}");

    let error = restore(programs().mistaken, &of_first()).unwrap_err().to_string();
    assert!(error.contains("the states in the checkpoint are"), "{error}");
}

#[test]
fn a_checkpoint_of_a_later_version_is_refused() {
    let image = checkpoint(programs().second);
    let error = restore(programs().first, &image).unwrap_err();
    let is_newer =
        |error: &StartError| matches!(error, StartError::CheckpointNewer { was: 1, is: 0, .. });
    assert!(matches!(&error, JobError::CannotStart(error) if is_newer(error)), "{error}");
}

#[test]
fn a_message_that_does_not_decode_is_an_error_that_names_its_actor() {
    let error = restore(programs().talkative, &of_first()).unwrap_err();
    let JobError::CannotStart(StartError::CheckpointMessage { actor, reason, .. }) = &error else {
        panic!("{error}")
    };
    assert!(actor.ends_with("Counter") && reason.contains("String"), "{error}");
}

#[test]
fn types_reducers_and_maps_of_a_checkpoint_must_be_there() {
    let image = of_first();
    let job = Job::new("versions").actor::<Other>();
    let error = restore(job, &image).unwrap_err().to_string();
    assert!(error.contains("the actor type") && error.contains("Counter"), "{error}");

    let of_other = Job::new("another job");
    let error = restore(of_other, &image).unwrap_err().to_string();
    assert!(error.contains("`versions`") && error.contains("`another job`"), "{error}");

    let (first, _) = programs().first.reducer("first", |value, _| value);
    let image = checkpoint(first);
    let (others, _) = programs().first.reducer("second", |value, _| value);
    let error = restore(others, &image).unwrap_err().to_string();
    assert!(error.contains("the reducer `first`"), "{error}");
    let (more, _) = programs().first.reducer("first", |value, _| value);
    let (more, _) = more.reducer("second", |value, _| value);
    assert_eq!(restore(more, &image), Ok(()));
}

/// A job whose main creates a group that checkpoints leave out, and makes one checkpoint.
fn serving<A: Version>() -> Job {
    Job::new("serving").transient::<A>().checkpoints(every(1)).main(async move |grid: Grid| {
        let is_restored = grid.restored::<()>().await?.is_some();
        let servers = grid.create_group::<A>(Per::Pe, |_| ()).await?;
        servers.broadcast(Doing::Add(3).into());
        grid.quiescence().await?;
        servers.broadcast(Doing::Report.into());
        let sum = servers.reduction::<u64>(Op::Sum).await?;
        assert_eq!(sum, 3 * u64::from(grid.layout().pe_count()));
        if !is_restored {
            grid.progress(&()).await?;
            grid.sleep(Duration::from_secs(3600)).await?;
        }
        Ok(())
    })
}

#[test]
fn a_type_that_checkpoints_leave_out_may_change_in_one_version() {
    let [first, same] = {
        actor!(u64, 0, |number| number);
        [serving::<Counter>(), serving::<Counter>()]
    };
    let second = {
        actor!((u64, String), 0, |(number, _)| number, more = 0);
        serving::<Counter>()
    };
    let image = checkpoint(first);
    assert_eq!(restore(same, &image), Ok(()));
    assert_eq!(restore(second, &image), Ok(()));
}
