//! The effects of the keys of the keyboard on the live screen.

use super::state::Key;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

/// Number of rows of a page.
const PAGE: isize = 10;

/// The effect of a key of the keyboard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pressed {
    /// It changes what is shown.
    Key(Key),
    /// It ends the program.
    Quit,
    /// It is not used.
    Nothing,
}

pub(super) fn pressed(event: KeyEvent) -> Pressed {
    if event.kind == KeyEventKind::Release {
        return Pressed::Nothing;
    }
    if event.modifiers.contains(KeyModifiers::CONTROL) {
        return match event.code {
            KeyCode::Char('c' | 'd') => Pressed::Quit,
            _ => Pressed::Nothing,
        };
    }
    let key = match event.code {
        KeyCode::Char('q') => return Pressed::Quit,
        KeyCode::Up | KeyCode::Char('k') => Key::Move(-1),
        KeyCode::Down | KeyCode::Char('j') => Key::Move(1),
        KeyCode::PageUp => Key::Move(-PAGE),
        KeyCode::PageDown => Key::Move(PAGE),
        KeyCode::Home | KeyCode::Char('g') => Key::First,
        KeyCode::End | KeyCode::Char('G') => Key::Last,
        KeyCode::Enter | KeyCode::Right | KeyCode::Char('l') => Key::Enter,
        KeyCode::Esc | KeyCode::Left | KeyCode::Backspace | KeyCode::Char('h') => Key::Back,
        KeyCode::Tab => Key::Turn(1),
        KeyCode::BackTab => Key::Turn(-1),
        KeyCode::Char('>' | 's') => Key::SortBy(1),
        KeyCode::Char('<' | 'S') => Key::SortBy(-1),
        KeyCode::Char('r') => Key::Reverse,
        KeyCode::Char(digit @ '1'..='9') => Key::Tab(digit as usize - '1' as usize),
        _ => return Pressed::Nothing,
    };
    Pressed::Key(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_select_sort_turn_and_quit() {
        let press = |code| pressed(KeyEvent::new(code, KeyModifiers::NONE));
        assert_eq!(press(KeyCode::Down), Pressed::Key(Key::Move(1)));
        assert_eq!(press(KeyCode::Char('4')), Pressed::Key(Key::Tab(3)));
        assert_eq!(press(KeyCode::Char('<')), Pressed::Key(Key::SortBy(-1)));
        assert_eq!(press(KeyCode::Char('q')), Pressed::Quit);
        assert_eq!(press(KeyCode::F(1)), Pressed::Nothing);
        let control = |letter| pressed(KeyEvent::new(KeyCode::Char(letter), KeyModifiers::CONTROL));
        assert_eq!((control('c'), control('r')), (Pressed::Quit, Pressed::Nothing));
        let shifted = KeyEvent::new(KeyCode::Char('S'), KeyModifiers::SHIFT);
        assert_eq!(pressed(shifted), Pressed::Key(Key::SortBy(-1)));
    }
}
