//! Arbitrary workflows in WfFormat are read, or rejected with a message, and never larger than
//! their text.
#![no_main]

use gridspan_workflow::wfcommons::load;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    match load(text) {
        Ok(workflow) => {
            assert!(workflow.graph.tasks().len() <= text.len());
            assert!(workflow.graph.data().len() <= text.len());
            assert!(workflow.graph.work_s().is_finite());
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
