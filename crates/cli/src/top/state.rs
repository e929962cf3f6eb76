//! The state of the screen, and its changes by keys.
//!
//! The places of a job form a path: the sites of the job, the nodes of a site, the PEs of a node.
//! Beside them are the actor types, each with its sites, the links, and the events.

use super::parts::Parts;
use super::sheet::{Column, RowKey, Sheet};
use super::sheets;
use gridspan_topology::{NodeId, SiteId};

/// A page of the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Page {
    /// The sites of the job.
    Sites,
    /// The nodes of a site, or of all.
    Nodes(Option<SiteId>),
    /// The PEs of a node.
    Pes(NodeId),
    /// The actor types.
    Types,
    /// An actor type by site.
    TypeSites(u16),
    /// The links between sites.
    Links,
    /// The last events.
    Events,
}

/// The kinds of pages among which a key selects.
pub(super) const TABS: [(&str, Page); 5] = [
    ("1 sites", Page::Sites),
    ("2 nodes", Page::Nodes(None)),
    ("3 actors", Page::Types),
    ("4 links", Page::Links),
    ("5 events", Page::Events),
];

/// A key that the screen understands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    /// Select another row, at this distance below.
    Move(isize),
    /// Select the first row.
    First,
    /// Select the last row.
    Last,
    /// Go into the selected row.
    Enter,
    /// Go back.
    Back,
    /// Go to the next kind of pages, or to the one before.
    Turn(isize),
    /// Go to this kind of pages.
    Tab(usize),
    /// Sort by the next column, or by the one before.
    SortBy(isize),
    /// Reverse the order.
    Reverse,
}

/// The state of the screen.
#[derive(Clone, Debug)]
pub(super) struct State {
    /// The pages that lead to the one shown, which is the last.
    path: Vec<Page>,
    /// The selected row; `None` before a key selects one.
    selected: Option<RowKey>,
    /// The column by which rows are sorted; `None` if the rows are in the order of their names.
    sorted_by: Option<&'static str>,
    is_reversed: bool,
}

impl Default for State {
    fn default() -> Self {
        Self { path: vec![Page::Sites], selected: None, sorted_by: None, is_reversed: false }
    }
}

impl State {
    /// The page that is shown.
    pub(super) fn page(&self) -> Page {
        self.path.last().copied().unwrap_or(Page::Sites)
    }

    /// The pages that lead to the one shown, which is the last.
    pub(super) fn path(&self) -> &[Page] {
        &self.path
    }

    /// The node whose PEs are shown.
    pub(super) fn focus(&self) -> Option<NodeId> {
        match self.page() {
            Page::Pes(node) => Some(node),
            _ => None,
        }
    }

    /// The title of the column by which rows are sorted, and whether the order is reversed.
    pub(super) fn order(&self) -> (Option<&'static str>, bool) {
        (self.sorted_by, self.is_reversed)
    }

    /// The table of the page, sorted; without rows if the page shows events.
    pub(super) fn sheet(&self, parts: Parts<'_>) -> Sheet {
        let mut sheet = match self.page() {
            Page::Sites => sheets::sites(parts),
            Page::Nodes(site) => sheets::nodes(parts, site),
            Page::Pes(node) => sheets::pes(parts, Some(node)),
            Page::Types => sheets::types(parts, None),
            Page::TypeSites(number) => sheets::types(parts, Some(number)),
            Page::Links => sheets::links(parts),
            Page::Events => Sheet::default(),
        };
        let is_sorted = |column: &Column| Some(column.title) == self.sorted_by;
        let column = sheet.columns.iter().position(is_sorted);
        sheet.sort(column.unwrap_or(0), self.is_reversed);
        sheet
    }

    /// The position of the selected row, or the first one.
    pub(super) fn selected(&self, sheet: &Sheet) -> usize {
        let is_it = |key: RowKey| sheet.rows.iter().position(|row| row.key == key);
        self.selected.and_then(is_it).unwrap_or(0)
    }

    /// Handles a key. `sheet`: the table that is shown.
    pub(super) fn handle(&mut self, key: Key, sheet: &Sheet) {
        let last = sheet.rows.len().saturating_sub(1);
        let at = self.selected(sheet);
        let select = |at: usize| sheet.rows.get(at).map(|row| row.key);
        match key {
            Key::Move(rows) => self.selected = select(at.saturating_add_signed(rows).min(last)),
            Key::First => self.selected = select(0),
            Key::Last => self.selected = select(last),
            Key::Enter => {
                if let Some(page) = select(at).and_then(inside) {
                    self.path.push(page);
                    self.selected = None;
                }
            }
            Key::Back => self.go_back(),
            Key::Turn(by) => {
                let number = TABS.len() as isize;
                self.go_to((self.tab() as isize + by).rem_euclid(number) as usize);
            }
            Key::Tab(tab) => self.go_to(tab),
            Key::SortBy(by) => self.sort_by(by, sheet),
            Key::Reverse => self.is_reversed = !self.is_reversed,
        }
    }

    /// Position of the kind of pages that is shown, among [`TABS`].
    pub(super) fn tab(&self) -> usize {
        let first = self.path.first();
        TABS.iter().position(|(_, page)| Some(page) == first).unwrap_or(0)
    }

    fn go_to(&mut self, tab: usize) {
        if let Some((_, page)) = TABS.get(tab) {
            self.path = vec![*page];
            self.selected = None;
        }
    }

    /// Leaves a page, and selects the row that led there.
    fn go_back(&mut self) {
        if self.path.len() > 1 {
            self.selected = match self.path.pop() {
                Some(Page::Nodes(Some(site))) => Some(RowKey::Site(site)),
                Some(Page::Pes(node)) => Some(RowKey::Node(node)),
                Some(Page::TypeSites(number)) => Some(RowKey::Type(number)),
                _ => None,
            };
        }
    }

    fn sort_by(&mut self, by: isize, sheet: &Sheet) {
        let number = sheet.columns.len() as isize;
        if number == 0 {
            return;
        }
        let is_sorted = |column: &Column| Some(column.title) == self.sorted_by;
        let now = sheet.columns.iter().position(is_sorted).unwrap_or(0);
        let next = (now as isize + by).rem_euclid(number) as usize;
        self.sorted_by = (next > 0).then(|| sheet.columns[next].title);
        self.is_reversed = false;
    }
}

/// The page with the content of a row, if there is one.
fn inside(key: RowKey) -> Option<Page> {
    match key {
        RowKey::Site(site) => Some(Page::Nodes(Some(site))),
        RowKey::Node(node) => Some(Page::Pes(node)),
        RowKey::Type(number) => Some(Page::TypeSites(number)),
        RowKey::Pe(_) | RowKey::TypeAt(..) | RowKey::Link(..) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::moment;
    use super::*;

    /// The pages after each of the keys.
    fn pages(state: &mut State, keys: &[Key]) -> Vec<Page> {
        let (before, now) = (moment(10), moment(12));
        let page = |key: &Key| {
            let sheet = state.sheet(Parts::new(&now, Some(&before)));
            state.handle(*key, &sheet);
            state.page()
        };
        keys.iter().map(page).collect()
    }

    fn keys(state: &State) -> Vec<RowKey> {
        let (before, now) = (moment(10), moment(12));
        let sheet = state.sheet(Parts::new(&now, Some(&before)));
        sheet.rows.iter().map(|row| row.key).collect()
    }

    #[test]
    fn enter_goes_into_a_site_and_a_node_and_back_returns() {
        let mut state = State::default();
        let of_b = Page::Nodes(Some(SiteId(1)));
        let seen = pages(
            &mut state,
            &[Key::Move(1), Key::Enter, Key::Last, Key::Enter, Key::Enter, Key::Back, Key::Enter],
        );
        let pes = Page::Pes(NodeId(3));
        assert_eq!(seen, [Page::Sites, of_b, of_b, pes, pes, of_b, pes]);
        assert_eq!(state.focus(), Some(NodeId(3)));
        assert_eq!(state.path(), [Page::Sites, of_b, pes]);
        let seen = pages(&mut state, &[Key::Back, Key::Back, Key::Back, Key::Enter]);
        assert_eq!(seen, [of_b, Page::Sites, Page::Sites, of_b], "the row is still selected");
    }

    #[test]
    fn enter_on_an_actor_type_shows_its_sites() {
        let mut state = State::default();
        let seen = pages(&mut state, &[Key::Tab(2), Key::Last, Key::Enter, Key::Enter]);
        let of_clock = Page::TypeSites(1);
        assert_eq!(seen, [Page::Types, Page::Types, of_clock, of_clock]);
        assert_eq!(keys(&state), [0, 1].map(|site| RowKey::TypeAt(1, SiteId(site))));
    }

    #[test]
    fn tabs_turn_in_a_circle() {
        let mut state = State::default();
        let seen = pages(&mut state, &[Key::Turn(-1), Key::Turn(1), Key::Turn(1), Key::Tab(9)]);
        assert_eq!(seen, [Page::Events, Page::Sites, Page::Nodes(None), Page::Nodes(None)]);
        assert_eq!(state.tab(), 1);
    }

    #[test]
    fn rows_are_sorted_by_the_columns_in_turn_and_the_selection_stays() {
        let mut state = State::default();
        pages(&mut state, &[Key::Tab(1), Key::Move(1)]);
        let nodes = |nodes: [u32; 4]| nodes.map(|node| RowKey::Node(NodeId(node)));
        assert_eq!(keys(&state), nodes([0, 1, 2, 3]));
        pages(&mut state, &[Key::SortBy(1), Key::SortBy(1), Key::SortBy(1)]);
        assert_eq!((keys(&state), state.order().0), (nodes([3, 2, 1, 0]).to_vec(), Some("busy%")));
        pages(&mut state, &[Key::Reverse]);
        assert_eq!(keys(&state), nodes([0, 1, 2, 3]));
        assert_eq!(state.selected, Some(RowKey::Node(NodeId(1))));
        pages(&mut state, &[Key::SortBy(-1), Key::SortBy(-1), Key::SortBy(-1), Key::SortBy(-1)]);
        assert_eq!(state.order(), (Some("msgs"), false), "before the names is the last column");
    }

    #[test]
    fn a_selection_beyond_the_ends_stays_at_them() {
        let mut state = State::default();
        pages(&mut state, &[Key::Move(-5)]);
        assert_eq!(state.selected, Some(RowKey::Site(SiteId(0))));
        pages(&mut state, &[Key::Move(50)]);
        assert_eq!(state.selected, Some(RowKey::Site(SiteId(1))));
        pages(&mut state, &[Key::Tab(4), Key::Move(1), Key::Enter, Key::SortBy(1)]);
        assert_eq!((state.selected, state.page()), (None, Page::Events));
    }
}
