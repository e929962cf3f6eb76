//! Tests of records, of the table of benches, and of the page.

use super::*;
use crate::stealing::four_sites;

fn rounds(name: &str, times_ns: &[f64], goal: Option<FigureGoal>) -> ProgramRounds {
    let works_ns = times_ns.iter().sum();
    ProgramRounds { name: name.to_owned(), times_ns: times_ns.to_vec(), works_ns, goal }
}

fn record(run: &str, suite: &str, title: &str, figure: Figure) -> FigureRecord {
    let run = FigureRun {
        id: run.to_owned(),
        date: "2026-01-31".to_owned(),
        commit: "0123456789".to_owned(),
        machine: "a machine".to_owned(),
        compiler: "rustc 1.90.0".to_owned(),
    };
    FigureRecord { run, suite: suite.to_owned(), title: title.to_owned(), figure }
}

/// A rate of ours that is twice that of theirs.
fn comparison(theirs: &str, goal: f64) -> Figure {
    let ours = rounds("gridspan", &[10.0, 20.0, 10.0, 12.0, 10.0, 10.0], None);
    let other =
        rounds(theirs, &[20.0, 40.0, 20.0, 24.0, 20.0, 20.0], Some(FigureGoal::Ratio(goal)));
    Figure::Comparison(Comparison::new(FigureUnit::Rate, &ours, &[other]))
}

fn single(time_ns: f64) -> Figure {
    let time_ns = Interval { median: time_ns, low: time_ns, high: time_ns };
    Figure::Single { unit: FigureUnit::Rate, time_ns, goal: None }
}

#[test]
fn records_are_lines_and_what_is_no_record_is_left_out() {
    let records = [
        record("1", "local", "ring", comparison("queue", 3.0)),
        record("1", "local", "creation", single(100.0)),
        record(
            "1",
            "local",
            "memory",
            Figure::Value(ComputedValue::new("129 B").goal("few", true)),
        ),
    ];
    let lines: Vec<String> =
        records.iter().map(|record| serde_json::to_string(record).unwrap()).collect();
    let text = format!("{}\nnot a record\n{{}}\n", lines.join("\n"));
    assert_eq!(parse_records(&text), records);
}

#[test]
fn the_last_record_of_the_same_machine_is_the_one_to_compare_with() {
    let mut other = record("3", "local", "ring", single(3.0));
    "another".clone_into(&mut other.run.machine);
    let records = [
        record("1", "local", "ring", single(1.0)),
        record("2", "local", "ring", single(2.0)),
        record("2", "local", "token", single(2.0)),
        other,
    ];
    let last = last_of(&records, "ring", "a machine").map(|record| record.run.id.as_str());
    assert_eq!(last, Some("2"));
    assert_eq!(last_of(&records, "fib", "a machine"), None);
}

#[test]
fn the_table_gives_the_ratio_its_interval_the_goal_and_the_last_run() {
    let before = record("1", "local", "stream", comparison("mpsc", 2.0));
    let now = record("2", "local", "stream", comparison("mpsc", 2.5));
    assert_eq!(
        table_rows(&now, Some(&before)),
        [
            "| stream, 6 rounds | gridspan | 100 M/s [50.0 M/s, 100 M/s] | | | 12.0 ns | | |",
            "| | mpsc | 50.0 M/s [25.0 M/s, 50.0 M/s] | 2.00 [2.00, 2.00] | at least 2.5: \
             **missed** | 24.0 ns | 0.50 | was 2.00 [2.00, 2.00] |",
        ]
    );
}

const PAGE: &str = "\
# Figures

Prose.

<!-- figures: runs -->
<!-- end of figures -->

<!-- figures: measured -->

| figure | ours | baseline | ratio | goal |
| --- | --- | --- | --- | --- |
| `local`: same-PE send and handling, ring of 1,000 | 1 ns | old | 1 | faster: **we lose** |
| `wide_area`: bulk at 25 ms each way and 1 % loss | 580 Mbit/s | quinn | 219 | at least 20 |
| | | kept too | | |

<!-- end of figures -->

More prose.

<!-- figures: computed -->
<!-- end of figures -->
<!-- figures: campaign -->
<!-- end of figures -->
<!-- figures: missed -->
<!-- end of figures -->

The end.
";

/// All records of the suite `simulator`.
fn simulator(run: &str) -> Vec<FigureRecord> {
    let rows = ROWS.iter().filter(|row| row.suite == "simulator");
    let titles = rows.flat_map(|row| row.titles);
    titles.map(|title| record(run, "simulator", title, single(200.0))).collect()
}

fn page_run(suite: &str, records: Vec<FigureRecord>) -> PageRun {
    PageRun { suite: suite.to_owned(), took_s: 12, records }
}

#[test]
fn rows_of_a_run_replace_old_ones_and_all_else_stays() {
    let page = update_page(PAGE, &[page_run("simulator", simulator("1"))]).unwrap();
    let ring = "| `simulator`: events, ring of 128 / all to all of 128 / ring of 4,096 PEs | \
                5.00 M/s | | | |\n";
    for text in [
        "Prose.\n",
        "\nThe end.\n",
        "| `simulator` | 2026-01-31 | 0123456789 | 12 s | rustc 1.90.0 | a machine |\n",
        "| 580 Mbit/s | quinn | 219 | at least 20 |\n| | | kept too | | |\n",
        ring,
        "- `local`: same-PE send and handling, ring of 1,000, beside old: 1, faster: **we lose**\n",
    ] {
        assert!(page.contains(text), "{text} is missing in\n{page}");
    }
    let again = update_page(&page, &[page_run("simulator", simulator("1"))]).unwrap();
    assert_eq!(page, again, "the page of a run does not depend on what was there");
}

#[test]
fn a_row_of_two_runs_is_refused() {
    let mut records = simulator("1");
    "2".clone_into(&mut records[1].run.id);
    let refused = update_page(PAGE, &[page_run("simulator", records)]).unwrap_err();
    assert!(matches!(refused, PageError::TwoRuns { .. }), "{refused}");
    assert!(refused.to_string().contains("mixes the runs 1 and 2"), "{refused}");
}

#[test]
fn a_run_that_lacks_a_figure_or_a_program_of_the_page_is_refused() {
    let records = simulator("1").into_iter().skip(1).collect();
    let refused = update_page(PAGE, &[page_run("simulator", records)]).unwrap_err();
    assert!(matches!(refused, PageError::NoFigure { suite: "simulator", .. }), "{refused}");

    let records =
        vec![record("1", "wide_area", "bulk at 50 ms and 1 % loss", comparison("a", 1.0))];
    let refused = update_page(PAGE, &[page_run("wide_area", records)]).unwrap_err();
    assert!(matches!(refused, PageError::NoBaseline { .. }), "{refused}");
}

#[test]
fn the_readme_gets_the_rows_of_the_page() {
    let page = "| a | 2 | | | |\n| b | 3 | | | |\n";
    let readme =
        "| a | elsewhere |\n\n| figure | ours |\n| --- | --- |\n| a | 1 |\n| c | 1 |\n\nEnd\n";
    let expected = "| a | elsewhere |\n\n| figure | ours |\n| --- | --- |\n| a | 2 | | | |\n| c | 1 |\n\nEnd\n";
    assert_eq!(update_readme(readme, page), expected);
}

#[test]
fn figures_of_virtual_time_are_the_same_bytes_in_every_run() {
    let page = |run: &str| {
        // The titles state the 1024 nodes of the page, although this run has 64.
        let computed = four_sites(64, &[2, 3]).unwrap().into_iter();
        let records = computed.map(|(title, value)| {
            let title = title.replace("64 nodes", "1024 nodes");
            record(run, "stealing", &title, Figure::Value(value))
        });
        update_page(PAGE, &[page_run("stealing", records.collect())]).unwrap()
    };
    let first = page("1");
    assert!(first.contains("| `stealing`: messages between these sites | "), "{first}");
    assert_eq!(first.as_bytes(), page("2").as_bytes());
}
