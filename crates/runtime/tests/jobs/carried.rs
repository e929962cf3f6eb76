//! Counts of the bytes that the nodes of a job have sent to each other.
#![cfg(feature = "net")]

use gridspan_runtime::driver::embedded;
use gridspan_runtime::{Actor, Context, Ix1, Job, Numbers, Per, Reply};
use gridspan_topology::GridSpec;
use serde::{Deserialize, Serialize};
use std::time::Duration;

const SENT: usize = 1_000_000;
const ANSWERED: usize = 3_000_000;

/// Answers with more bytes than it receives.
#[derive(Serialize, Deserialize)]
struct Echo;

impl Actor for Echo {
    type Index = Ix1;
    type Init = ();
    type Message = (Numbers<u8>, Reply<Numbers<u8>>);

    fn create((): (), _cx: &mut Context<'_, Self>) -> Self {
        Self
    }

    fn handle(&mut self, (_, reply): Self::Message, cx: &mut Context<'_, Self>) {
        cx.reply(reply, vec![2; ANSWERED].into());
    }
}

#[test]
fn bytes_of_each_node_are_counted_in_both_directions() {
    let job = Job::new("carried").actor::<Echo>().main(async |grid| {
        let echoes = grid.create_group::<Echo>(Per::Pe, |_| ()).await?;
        let numbers: Numbers<u8> = vec![1; SENT].into();
        let question = |reply| (numbers, reply);
        let answer = echoes.member(Ix1(1)).ask(Duration::from_secs(60), question).await?;
        assert_eq!(answer.len(), ANSWERED);
        Ok(())
    });
    let spec = GridSpec::from_emulate("2x1,wan=1ms").unwrap();

    let carried = embedded::run_emulated_counted(job, &spec).unwrap();

    // The runtime's own messages add some thousand bytes.
    let about = |bytes: usize| bytes as u64..(bytes + 100_000) as u64;
    assert!(about(SENT).contains(&carried[0].sent), "{carried:?}");
    assert!(about(ANSWERED).contains(&carried[0].received), "{carried:?}");
    assert!(about(SENT).contains(&carried[1].received), "{carried:?}");
}
