//! A plan for people, on one screen.

use super::comparison::{Changed, Comparison};
use crate::quantity::{UNKNOWN, bytes, count, digits, percent, time};
use crate::table::{Align, Table};
use gridspan_plan::{Bottleneck, LinkForecast, PeForecast};
use std::time::Duration;

/// Largest number of links that are listed, those with the most bytes first.
const LINKS_MAX: usize = 12;

/// Where the model was verified.
const VERIFIED: &str = "
Tests compare some predictions of leanmd, stencil and uts with the simulator: steps differ by at
most 5 %, and jobs by at most 5 % and a round trip between sites. Other jobs and other changes may
differ more: see the chapter \"Planning a run\" of the book.
";

/// Renders a plan.
pub(super) fn render(plan: &Comparison) -> String {
    let mut text = headline(plan);
    text += &format!("what limits it: {}\n\n{}", limit(plan), sites(plan).render(false));
    if !plan.forecast.links.is_empty() {
        text += &format!("\n{}", links(plan).render(false));
        let more = plan.forecast.links.len().saturating_sub(LINKS_MAX);
        if more > 0 {
            text += &format!("and {}\n", count(more, "other link"));
        }
    }
    if !plan.changes.is_empty() {
        text += &format!("\n{}", changes(plan).render(false));
    }
    for note in &plan.notes {
        text += &format!("\nnote: {note}\n");
    }
    text += VERIFIED;
    text
}

fn headline(plan: &Comparison) -> String {
    let forecast = &plan.forecast;
    let pes = count(forecast.pes.len(), "PE");
    let places = count(plan.sites.len(), "site");
    let mut text = format!("{}: {} on {pes} at {places}", plan.job, ns(forecast.total_ns as f64));
    if let Some(step) = forecast.step_ns {
        text += &format!(", {} a step", ns(step));
    }
    text.push('\n');
    if forecast.steps > 0 {
        let steps = count(forecast.steps as usize, "step");
        let predicted = (f64::from(forecast.steps) * plan.times).round() as u64;
        text += &match predicted == u64::from(forecast.steps) {
            true => format!("{steps} recorded and predicted\n"),
            false => format!("{steps} recorded, {predicted} predicted\n"),
        };
    }
    if !plan.is_of_tasks {
        text += &match plan.placement.as_str() {
            "created" => "actors are where they are created\n".to_owned(),
            strategy => format!("actors are where {strategy} moves them\n"),
        };
    }
    text
}

fn limit(plan: &Comparison) -> String {
    let site = |site: u32| plan.sites.get(site as usize).map_or(UNKNOWN, String::as_str);
    match &plan.forecast.bottleneck {
        Some(Bottleneck::Computing) => "PEs compute most of the time".to_owned(),
        Some(Bottleneck::UnevenWork { pe }) => {
            format!("PE {pe} has more work than the others, which wait for it")
        }
        Some(Bottleneck::Bandwidth { from, to }) => {
            format!("the bandwidth from {} to {}", site(*from), site(*to))
        }
        Some(Bottleneck::Latency) => {
            "PEs wait for messages of other sites; the latency counts".to_owned()
        }
        Some(Bottleneck::Waiting) => {
            "PEs wait, since too little work can run in parallel".to_owned()
        }
        _ => "unknown".to_owned(),
    }
}

/// A row for each site.
fn sites(plan: &Comparison) -> Table {
    let titles = ["SITE", "PES", "ACTORS", "MEAN WORK", "MOST", "PE"];
    let mut table = Table::new(titles.map(str::to_owned).into(), left_first);
    let took = plan.forecast.recorded_part_ns.max(1) as f64;
    for (number, name) in (0..).zip(&plan.sites) {
        let here: Vec<&PeForecast> =
            plan.forecast.pes.iter().filter(|pe| pe.site == number).collect();
        let Some(most) = here.iter().max_by(|a, b| a.busy_ns.total_cmp(&b.busy_ns)) else {
            continue;
        };
        let actors: u32 = here.iter().map(|pe| pe.actors).sum();
        let mean = here.iter().map(|pe| pe.busy_ns).sum::<f64>() / here.len() as f64;
        table.row(vec![
            name.clone(),
            here.len().to_string(),
            if plan.is_of_tasks { UNKNOWN.to_owned() } else { actors.to_string() },
            percent(mean / took),
            percent(most.busy_ns / took),
            most.pe.to_string(),
        ]);
    }
    table
}

/// A row for each link between sites.
fn links(plan: &Comparison) -> Table {
    let steps = plan.forecast.steps;
    let per = if steps > 0 { "/STEP" } else { "" };
    let titles = [
        "FROM".to_owned(),
        "TO".to_owned(),
        format!("PACKETS{per}"),
        format!("BYTES{per}"),
        "USED".to_owned(),
    ];
    let align = |column| if column < 2 { Align::Left } else { Align::Right };
    let mut table = Table::new(titles.into(), align);
    let mut links: Vec<&LinkForecast> = plan.forecast.links.iter().collect();
    links.sort_by_key(|link| (std::cmp::Reverse(link.bytes), link.from, link.to));
    let site = |site: u32| plan.sites.get(site as usize).cloned().unwrap_or_default();
    let each = f64::from(steps.max(1));
    for link in links.into_iter().take(LINKS_MAX) {
        table.row(vec![
            site(link.from),
            site(link.to),
            digits(link.packets as f64 / each),
            bytes((link.bytes as f64 / each) as u64),
            link.used.map_or_else(|| UNKNOWN.to_owned(), percent),
        ]);
    }
    table
}

/// A row for each change.
fn changes(plan: &Comparison) -> Table {
    let titles = ["WHAT IF", "PES", "TIME", "STEP", "CHANGE"];
    let mut table = Table::new(titles.map(str::to_owned).into(), left_first);
    for Changed { name, pes, total_ns, step_ns } in &plan.changes {
        let change = *total_ns as f64 / plan.forecast.total_ns.max(1) as f64 - 1.0;
        table.row(vec![
            name.clone(),
            pes.to_string(),
            ns(*total_ns as f64),
            step_ns.map_or_else(|| UNKNOWN.to_owned(), ns),
            format!("{:+.0} %", change * 100.0),
        ]);
    }
    table
}

fn left_first(column: usize) -> Align {
    if column == 0 { Align::Left } else { Align::Right }
}

fn ns(ns: f64) -> String {
    time(Duration::from_nanos(ns.max(0.0) as u64))
}
