//! The names of the prelude do not clash with those of other preludes that programs import.
#![allow(missing_docs)]

use std::collections::BTreeSet;

/// Every name that is used here would be ambiguous if another crate had it too.
#[allow(unused_imports)]
mod together {
    use gridspan::prelude::*;
    use petgraph::prelude::*;
    use rayon::prelude::*;
    use serde::*;
    use std::io::prelude::*;
    use std::time::*;
    use tokio::*;

    /// Lists these names, and uses each: an ambiguous name does not compile.
    macro_rules! used {
        (types: $($type:ident $(<$($argument:tt),+>)?),+; traits: $($trait:ident),+; values: $($value:ident),+;) => {
            pub(super) const USED: &[&str] =
                &[$(stringify!($type),)+ $(stringify!($trait),)+ $(stringify!($value),)+];

            pub(super) fn use_types() {
                $(let _ = std::mem::size_of::<$type $(<$($argument),+>)?>();)+
                $(let _: &dyn Fn(&Op) -> bool = &|op| matches!(op, $value);)+
            }
        };
    }

    used! {
        types: ActorRef<Cell>, AskError, Collection<Cell>, CollectionRef<Cell>, Context<'static, Cell>,
            CreateAt, Duration, ExitCode, Grid, GridError, InStep, Ix1, Ix2, Ix3, Ix4, Ix5, Ix6, Job, JobError, Key, Layout,
            Limits, List<u64>, Member<Cell>, NodeId, Numbers<f64>, Op, PeId, Per, Phase, Placement, PlacementMap,
            Priority, Published<u64>, Reduction, Reply<u64>, SearchContext<'static, Tree>, SearchPool<Tree>,
            SectionRef<Cell>, SiteId, Statistics, Step<Tree>, TaskContext<'static, Tree>, TaskPool<Tree>,
            Time, Timer, To, Unordered;
        traits: Actor, ActorIndex, Deserialize, Merge, Reducible, Search, Serialize, Task;
        values: And, Concat, Max, Min, Or, Product, Sum, Union;
    }

    #[derive(Serialize, Deserialize)]
    struct Cell;

    impl Actor for Cell {
        type Index = Ix1;
        type Init = ();
        type Message = ();

        fn create((): (), _cx: &mut Context<'_, Self>) -> Self {
            Cell
        }

        fn handle(&mut self, (): (), _cx: &mut Context<'_, Self>) {}
    }

    #[derive(Serialize, Deserialize)]
    struct Tree;

    #[derive(Default, Serialize, Deserialize)]
    struct Nodes(u64);

    impl Merge for Nodes {
        fn merge(&mut self, other: Self) {
            self.0 += other.0;
        }
    }

    impl Search for Tree {
        type Total = Nodes;

        fn visit(self, cx: &mut SearchContext<'_, Self>) {
            cx.total().0 += 1;
        }
    }

    impl Task for Tree {
        type Output = u64;
        type Join = u64;

        fn run(self, _cx: &mut TaskContext<'_, Self>) -> Step<Self> {
            Step::Done(1)
        }

        fn collect(join: &mut u64, _child: u32, output: u64) {
            *join += output;
        }

        fn joined(join: u64, _cx: &mut TaskContext<'_, Self>) -> Step<Self> {
            Step::Done(join)
        }
    }

    /// Uses the traits of indices and contributions.
    pub(super) fn packed(index: impl ActorIndex, value: impl Reducible) -> (Key, bool) {
        (index.key(), u64::from_value(value.into_value()).is_some())
    }
}

#[test]
fn names_of_the_prelude_are_in_no_other_prelude() {
    together::use_types();
    assert!(together::packed(gridspan::Ix1(3), 7_u64).1);

    let source = include_str!("../src/prelude.rs");
    let code: String = source.lines().filter(|line| !line.starts_with("//!")).collect();
    let words = code.split(|c: char| !c.is_alphanumeric() && c != '_');
    let exported: BTreeSet<&str> =
        words.filter(|word| word.starts_with(|c: char| c.is_ascii_uppercase())).collect();
    assert_eq!(exported, together::USED.iter().copied().collect(), "add new names above");
}
