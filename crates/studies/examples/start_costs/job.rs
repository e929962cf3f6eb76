//! The jobs whose start and end are measured. This program runs them, as a process of `gridctl
//! run`.

use gridspan::prelude::*;

/// A kind of job, by the work that it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Nothing.
    Empty,
    /// The PEs of each pair send each other one message.
    Pairs,
}

impl Kind {
    /// All kinds.
    pub(crate) const ALL: [Self; 2] = [Self::Empty, Self::Pairs];

    /// The argument with which this program runs the job.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Empty => "empty-job",
            Self::Pairs => "job-of-pairs",
        }
    }

    /// The kind that an argument requests.
    pub(crate) fn of(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.word() == word)
    }
}

/// One of two actors that send each other a message, on two PEs.
#[derive(Serialize, Deserialize)]
struct Partner;

#[derive(Clone, Serialize, Deserialize)]
enum Message {
    Begin,
    Hello,
}

impl Actor for Partner {
    type Index = Ix1;
    type Init = ();
    type Message = Message;

    fn create((): (), _cx: &mut Context<'_, Self>) -> Self {
        Self
    }

    fn handle(&mut self, message: Message, cx: &mut Context<'_, Self>) {
        let partner = Ix1(cx.index().0 ^ 1);
        let has_partner = u32::try_from(partner.0).is_ok_and(|at| at < cx.layout().pe_count());
        match message {
            Message::Begin if has_partner => {
                let partner = cx.collection().at(partner);
                cx.send(&partner, Message::Hello);
            }
            Message::Begin | Message::Hello => cx.contribute(Sum, 1_u64, To::main()),
        }
    }
}

async fn pairs(grid: Grid) -> Result<(), JobError> {
    let partners = grid.create_group::<Partner>(Per::Pe, |_pe| ()).await?;
    partners.broadcast(Message::Begin);
    let contributions: u64 = partners.reduction(Sum).await?;
    match contributions == u64::from(grid.layout().pe_count()) {
        true => Ok(()),
        false => Err(format!("{contributions} PEs have heard from their partner").into()),
    }
}

/// Takes part in a job, and logs if the environment says so.
pub(crate) fn take_part(kind: Kind) -> ExitCode {
    if std::env::var_os("RUST_LOG").is_some() {
        tracing_subscriber::fmt()
            .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
            .with_writer(std::io::stderr)
            .init();
    }
    gridspan::main(match kind {
        Kind::Empty => Job::new("empty").main(async |_grid: Grid| Ok(())),
        Kind::Pairs => Job::new("pairs").actor::<Partner>().main(pairs),
    })
}
