//! Draws the screen: a summary of the job, a table, the last events, and the keys.

use super::moment::Moment;
use super::parts::Parts;
use super::sheet::{Column, Row, Sheet};
use super::state::{Page, State, TABS};
use super::text::{count, percent, rate, since_start};
use crate::quantity::{self, UNKNOWN, bytes};
use crate::request::{JobEvent, JobEventKind};
use crate::text::cut;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};

/// Gap between columns.
const GAP: usize = 2;
/// Number of events below the table.
const EVENTS: usize = 2;
/// Smallest number of columns and rows on which the screen is drawn.
const SIZE_MIN: (u16, u16) = (40, 12);

/// The line that explains the keys.
const KEYS: &str = "arrows select  enter in  esc back  tab next  < > sort  r reverse  q quit";

/// The content of the screen.
pub(super) struct Screen<'a> {
    /// The name of the job.
    pub(super) job: &'a str,
    /// The moment shown; `None` before the first one.
    pub(super) now: Option<&'a Moment>,
    /// The moment before, for rates.
    pub(super) before: Option<&'a Moment>,
    /// Why there is no newer moment, if the job does not answer.
    pub(super) trouble: Option<&'a str>,
    /// The page, its order and the selected row.
    pub(super) state: &'a State,
}

/// Draws the screen.
pub(super) fn draw(frame: &mut Frame<'_>, screen: &Screen<'_>) {
    let area = frame.area();
    let lines = match screen.now {
        _ if area.width < SIZE_MIN.0 || area.height < SIZE_MIN.1 => {
            vec![Line::raw("the terminal is too small")]
        }
        None => {
            let text = screen.trouble.unwrap_or("waiting for the first sample of its counters");
            vec![Line::raw(format!("{}: {text}", screen.job)), Line::raw("q quit")]
        }
        Some(now) => lines(screen, now, area.width.into(), area.height.into()),
    };
    for (line, y) in lines.into_iter().zip(area.top()..area.bottom()) {
        frame.render_widget(line, Rect::new(area.x, y, area.width, 1));
    }
}

/// The lines of the screen from top to bottom, `height` of them.
fn lines(screen: &Screen<'_>, now: &Moment, width: usize, height: usize) -> Vec<Line<'static>> {
    let parts = Parts::new(now, screen.before);
    let mut top = summary(parts);
    top.push(tabs(screen.state, now));
    let mut bottom = Vec::new();
    if screen.state.page() != Page::Events {
        let from = now.events.len().saturating_sub(EVENTS);
        let events = now.events[from..].iter().map(|event| Line::raw(event_text(event)));
        bottom.extend(events);
        bottom.resize(EVENTS, Line::default());
    }
    let last = screen.trouble.map_or_else(|| KEYS.to_owned(), |text| format!("! {text}"));
    bottom.push(Line::styled(last, Style::new().add_modifier(Modifier::DIM)));
    let room = height.saturating_sub(top.len() + bottom.len());
    let mut middle: Vec<Line<'static>> = match screen.state.page() {
        Page::Events => {
            let from = now.events.len().saturating_sub(room);
            now.events[from..].iter().map(|event| Line::raw(event_text(event))).collect()
        }
        _ => {
            let sheet = screen.state.sheet(parts);
            table(&sheet, screen.state, width, room)
        }
    };
    middle.resize(room, Line::default());
    let all = top.into_iter().chain(middle).chain(bottom);
    all.map(|line| shortened(line, width)).collect()
}

/// Four lines about the whole job.
pub(super) fn summary(parts: Parts<'_>) -> Vec<Line<'static>> {
    let (now, total) = (parts.now, parts.total());
    let (sample, of) = (&now.sample, &total.figures);
    let layout = now.grid.layout();
    let nodes = quantity::count(layout.node_count() as usize, "node");
    let nodes = match layout.node_count() == total.nodes {
        true => nodes,
        false => format!("{} of {nodes}", total.nodes),
    };
    let (sites, pes) = (layout.site_count() as usize, total.pes as usize);
    let [sites, pes] = [(sites, "site"), (pes, "PE")].map(|(all, of)| quantity::count(all, of));
    let up = since_start(sample.at_us / 1_000_000);
    let first = format!("{}  {sites}, {nodes}, {pes}, up {up}", now.job);
    let memory = total.memory.map_or_else(|| UNKNOWN.to_owned(), bytes);
    let second = format!(
        "busy {} %  network {} %  idle {} %  other threads {} %  memory {memory}",
        percent(of.busy),
        percent(of.network),
        percent(of.idle),
        percent(of.foreign)
    );
    let steps = match parts.steps_per_s() {
        Some(per_s) => format!("  steps {}/s", rate(Some(per_s))),
        None => String::new(),
    };
    let third = format!(
        "actors {}  messages {}/s{steps}  queue {} ({})  tasks {}",
        count(of.actors),
        rate(of.messages_per_s),
        count(of.waiting),
        bytes(of.waiting_bytes),
        count(of.tasks_waiting)
    );
    let mean = sample.telemetry_ns / u64::from(total.nodes.max(1));
    let fourth = format!(
        "rebalances {}  moved {}  lost nodes {}  watching takes {} us a node, at most {}",
        now.rebalances,
        count(of.moved),
        now.losses,
        mean.div_ceil(1000),
        sample.telemetry_ns_max.div_ceil(1000)
    );
    let bold = Style::new().add_modifier(Modifier::BOLD);
    vec![Line::styled(first, bold), Line::raw(second), Line::raw(third), Line::raw(fourth)]
}

/// The kinds of pages, or the path to the page.
fn tabs(state: &State, now: &Moment) -> Line<'static> {
    let mut spans = Vec::new();
    for (at, (title, _)) in TABS.iter().enumerate() {
        let is_shown = at == state.tab();
        let text = if is_shown { format!("[{title}]") } else { format!(" {title} ") };
        let style = if is_shown { Style::new().add_modifier(Modifier::BOLD) } else { Style::new() };
        spans.push(Span::styled(text, style));
    }
    for page in &state.path()[1..] {
        let name = match page {
            Page::Nodes(Some(site)) => now.site_name(*site),
            Page::Pes(node) => now.node_name(*node),
            Page::TypeSites(number) => now.type_name(*number),
            Page::Sites | Page::Nodes(None) | Page::Types | Page::Links | Page::Events => continue,
        };
        spans.push(Span::raw(format!(" > {name}")));
    }
    Line::from(spans)
}

/// A table of at most `height` lines, in which the selected row is visible.
fn table(sheet: &Sheet, state: &State, width: usize, height: usize) -> Vec<Line<'static>> {
    let shown = fitting(&sheet.columns, width);
    let name = width.saturating_sub(
        shown.iter().skip(1).map(|&column| sheet.columns[column].width + GAP).sum(),
    );
    let widths: Vec<usize> = shown
        .iter()
        .map(|&column| if column == 0 { name } else { sheet.columns[column].width })
        .collect();
    let (sorted_by, is_reversed) = state.order();
    let titles = shown.iter().map(|&column| {
        let title = sheet.columns[column].title;
        // Rows are in the order of their names unless another column sorts them.
        let is_sorted = sorted_by == Some(title) || sorted_by.is_none() && column == 0;
        let mark = if is_reversed { "^" } else { "v" };
        if is_sorted { format!("{title}{mark}") } else { title.to_owned() }
    });
    let titles: Vec<String> = titles.collect();
    let head = joined(titles.iter().map(String::as_str), &widths);
    let mut all = vec![Line::styled(head, Style::new().add_modifier(Modifier::BOLD))];
    let (selected, rows) = (state.selected(sheet), height.saturating_sub(1));
    let first = (selected + 1).saturating_sub(rows);
    for (at, row) in sheet.rows.iter().enumerate().skip(first).take(rows) {
        let text = joined(shown.iter().map(|&column| cell(row, column)), &widths);
        let style = match at == selected {
            true => Style::new().add_modifier(Modifier::REVERSED),
            false => Style::new(),
        };
        all.push(Line::styled(text, style));
    }
    if sheet.rows.is_empty() {
        all.push(Line::raw("nothing to list: the job has too many such parts, or has changed"));
    }
    all
}

/// Positions of the columns that fit a width: the first one always, then the others, and last the
/// extra ones.
fn fitting(columns: &[Column], width: usize) -> Vec<usize> {
    let mut left = width.saturating_sub(columns.first().map_or(0, |column| column.width));
    let mut shown = vec![0];
    for are_extra in [false, true] {
        for (at, column) in columns.iter().enumerate().skip(1) {
            let taken = column.width + GAP;
            if column.is_extra == are_extra && taken <= left {
                left -= taken;
                shown.push(at);
            }
        }
    }
    shown.sort_unstable();
    shown
}

fn cell(row: &Row, column: usize) -> &str {
    row.cells.get(column).map_or("", |cell| &cell.text)
}

/// Joins cells: the first one is at the left edge of its column, the others at the right. The mark
/// of a sorted title may use the gap.
fn joined<'a>(cells: impl Iterator<Item = &'a str>, widths: &[usize]) -> String {
    let mut line = String::new();
    for (at, (cell, &width)) in cells.zip(widths).enumerate() {
        line += &match at {
            0 => format!("{:<width$}", cut(cell, width, '~')),
            _ => format!("{cell:>width$}", width = width + GAP),
        };
    }
    line
}

pub(super) fn event_text(event: &JobEvent) -> String {
    let kind = match event.kind {
        JobEventKind::Rebalance => "rebalance",
        JobEventKind::Membership => "nodes",
        JobEventKind::Guest => "guest",
        JobEventKind::Warning => "warning",
    };
    let text = event.text.replace(char::is_control, " ");
    format!("{:>7}  {kind}: {text}", since_start(event.at.as_secs()))
}

/// Cuts a line at the edge of the screen.
fn shortened(line: Line<'static>, width: usize) -> Line<'static> {
    if line.width() <= width {
        return line;
    }
    let text: String = line.spans.iter().map(|span| &*span.content).collect();
    Line::styled(cut(&text, width, '~'), line.style)
}

#[cfg(test)]
mod tests;
