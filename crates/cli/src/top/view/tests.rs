//! Tests of the screen: its text, at two sizes.

use super::super::fixtures::moment;
use super::super::state::Key;
use super::*;
use ratatui::Terminal;
use ratatui::backend::TestBackend;

/// The lines of a screen of this size, without blanks at their ends.
fn drawn(screen: &Screen<'_>, (width, height): (u16, u16)) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, screen)).unwrap();
    let text = terminal.backend().to_string();
    let lines = text.lines().map(|line| line.trim_matches('"').trim_end().to_owned());
    lines.collect()
}

/// The non-empty lines of the screen after these keys, and the positions of these lines.
fn shown(keys: &[Key], size: (u16, u16), trouble: Option<&str>) -> (Vec<String>, Vec<usize>) {
    let (before, now) = (moment(10), moment(12));
    let mut state = State::default();
    for &key in keys {
        let sheet = state.sheet(Parts::new(&now, Some(&before)));
        state.handle(key, &sheet);
    }
    let (now, before) = (Some(&now), Some(&before));
    let screen = Screen { job: "leanmd-4711", now, before, trouble, state: &state };
    let lines = drawn(&screen, size);
    let places = (0..lines.len()).filter(|&at| !lines[at].is_empty()).collect();
    (lines.into_iter().filter(|line| !line.is_empty()).collect(), places)
}

#[test]
fn the_sites_of_a_job_fit_80_columns() {
    let (lines, places) = shown(&[], (80, 24), None);
    assert_eq!(
        lines,
        [
            "leanmd-4711  2 sites, 4 nodes, 4 PEs, up 12s",
            "busy 40 %  network 5 %  idle 55 %  other threads 27 %  memory 210 MB",
            "actors 64  messages 10.0k/s  steps 5.00/s  queue 60 (72.0 kB)  tasks 0",
            "rebalances 2  moved 12  lost nodes 1  watching takes 9 us a node, at most 12",
            "[1 sites] 2 nodes  3 actors  4 links  5 events",
            "sitev           PEs   memory  busy%  net%  idle%  other%  actors   queue  msgs/s",
            "a                 2   105 MB     20     5     75      11      32      10    3000",
            "b                 2   105 MB     60     5     35      38      32      50    7000",
            "     3s  rebalance: sync point: auto: 12 of 64 actors moved (48 KiB)",
            " 2m 05s  warning: one handler takes long",
            "arrows select  enter in  esc back  tab next  < > sort  r reverse  q quit",
        ]
    );
    assert_eq!(places, [0, 1, 2, 3, 4, 5, 6, 7, 21, 22, 23]);
}

#[test]
fn wide_screens_show_more_columns() {
    let sorted = [Key::SortBy(1); 3];
    let keys = [&[Key::Tab(1)][..], &sorted, &[Key::Move(1)]].concat();
    let (lines, places) = shown(&keys, (120, 40), None);
    assert_eq!(
        lines,
        [
            "leanmd-4711  2 sites, 4 nodes, 4 PEs, up 12s",
            "busy 40 %  network 5 %  idle 55 %  other threads 27 %  memory 210 MB",
            "actors 64  messages 10.0k/s  steps 5.00/s  queue 60 (72.0 kB)  tasks 0",
            "rebalances 2  moved 12  lost nodes 1  watching takes 9 us a node, at most 12",
            " 1 sites [2 nodes] 3 actors  4 links  5 events",
            "node          PEs   memory busy%v  net%  idle%  other%  actors   queue    bytes  msgs/s   moved   tasks  tasks/s    msgs",
            "b/3*            1  52.4 MB     70     5     25      43      16      30  36.0 kB    4000       3       0        0   48.0k",
            "b/2             1  52.4 MB     50     5     45      33      16      20  24.0 kB    3000       3       0        0   36.0k",
            "a/1             1  52.4 MB     30     5     65      20      16      10  12.0 kB    2000       3       0        0   24.0k",
            "a/0             1  52.4 MB     10     5     85       0      16       0      0 B    1000       3       0        0   12.0k",
            "     3s  rebalance: sync point: auto: 12 of 64 actors moved (48 KiB)",
            " 2m 05s  warning: one handler takes long",
            "arrows select  enter in  esc back  tab next  < > sort  r reverse  q quit",
        ]
    );
    assert_eq!(places, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 37, 38, 39]);
}

#[test]
fn links_are_shown_with_their_bandwidth() {
    let (lines, _) = shown(&[Key::Tab(3)], (80, 24), None);
    assert_eq!(
        lines[5..10],
        [
            "linkv                       msgs/s    bytes/s          rate     bandwidth  used%",
            "inside a                       900    4.50 MB   36.0 Mbit/s             -      -",
            "a > b                         1000    5.00 MB   40.0 Mbit/s    100 Mbit/s     40",
            "b > a                          800    4.00 MB   32.0 Mbit/s             -      -",
            "inside b                       700    3.50 MB   28.0 Mbit/s             -      -",
        ]
    );
}

#[test]
fn a_site_that_is_entered_is_in_the_path_and_trouble_replaces_the_keys() {
    let trouble = Some("no answer for 4 s");
    let (lines, _) = shown(&[Key::Move(1), Key::Enter], (80, 24), trouble);
    assert_eq!(
        lines[4..],
        [
            "[1 sites] 2 nodes  3 actors  4 links  5 events  > b",
            "nodev           PEs   memory  busy%  net%  idle%  other%  actors   queue  msgs/s",
            "b/2               1  52.4 MB     50     5     45      33      16      20    3000",
            "b/3*              1  52.4 MB     70     5     25      43      16      30    4000",
            "     3s  rebalance: sync point: auto: 12 of 64 actors moved (48 KiB)",
            " 2m 05s  warning: one handler takes long",
            "! no answer for 4 s",
        ]
    );
}

#[test]
fn the_page_of_events_shows_them_from_the_top_and_no_rates_before_the_second_sample() {
    let (now, mut state) = (moment(12), State::default());
    state.handle(Key::Tab(4), &Sheet::default());
    let screen = Screen { job: "x", now: Some(&now), before: None, trouble: None, state: &state };
    let lines = drawn(&screen, (80, 24));
    assert_eq!(
        lines[1..7],
        [
            "busy - %  network - %  idle - %  other threads - %  memory 210 MB",
            "actors 64  messages -/s  queue 60 (72.0 kB)  tasks 0",
            "rebalances 2  moved 12  lost nodes 1  watching takes 9 us a node, at most 12",
            " 1 sites  2 nodes  3 actors  4 links [5 events]",
            "     3s  rebalance: sync point: auto: 12 of 64 actors moved (48 KiB)",
            " 2m 05s  warning: one handler takes long",
        ]
    );
    assert_eq!((lines[7].as_str(), lines[23].as_str()), ("", KEYS));
}

#[test]
fn the_selected_row_is_visible_on_a_low_screen() {
    // There is room for the titles and three of four rows.
    let (lines, _) = shown(&[Key::Tab(1), Key::Last], (60, 12), None);
    assert_eq!(
        lines[4..9],
        [
            " 1 sites [2 nodes] 3 actors  4 links  5 events",
            "nodev               PEs   memory  busy%  net%  idle%  other%",
            "a/1                   1  52.4 MB     30     5     65      20",
            "b/2                   1  52.4 MB     50     5     45      33",
            "b/3*                  1  52.4 MB     70     5     25      43",
        ]
    );
}

#[test]
fn without_a_sample_or_room_there_is_a_message() {
    let state = State::default();
    let nothing = Screen { job: "x-1", now: None, before: None, trouble: None, state: &state };
    let lines = drawn(&nothing, (80, 24));
    assert_eq!(lines[0], "x-1: waiting for the first sample of its counters");
    let troubled = Screen { trouble: Some("no answer"), ..nothing };
    assert_eq!(drawn(&troubled, (80, 24))[0], "x-1: no answer");
    assert_eq!(drawn(&troubled, (30, 5))[0], "the terminal is too small");
}
