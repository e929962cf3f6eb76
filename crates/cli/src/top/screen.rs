//! The live screen: reads keys and news of the job, and draws. The terminal gets its former state
//! back whatever ends the screen: a key, the end of the job, a signal, an error or a panic.

use super::keys::{Pressed, pressed};
use super::moment::Moment;
use super::parts::Parts;
use super::sheet::Sheet;
use super::state::State;
use super::view::{Screen, draw};
use super::watch::{News, Watcher};
use crate::error::CliError;
use crate::signals::{exit_code, not_ignored};
use gridspan_topology::NodeId;
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{self, Event};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io::{self, Stdout};
use std::panic;
use std::process;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// Longest time until the screen notices news and signals.
const LOOK: Duration = Duration::from_millis(100);
/// Time for the screen to end after a signal.
const PATIENCE: Duration = Duration::from_secs(1);
/// Signals that end the screen, except those that gridctl already ignored when it started.
const ENDING: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];

/// What has ended the screen.
pub(super) enum End {
    /// The user.
    User,
    /// The end of the job, with its exit code if it is known.
    Job(Option<u8>),
    /// A signal.
    Signal(i32),
}

/// The terminal while the screen is shown. Dropping it gives the terminal its former state back.
struct Shown(Terminal<CrosstermBackend<Stdout>>);

impl Shown {
    fn new() -> io::Result<Self> {
        enable_raw_mode()?;
        // From here on, a failure restores the terminal.
        let begin = || {
            execute!(io::stdout(), EnterAlternateScreen)?;
            Terminal::new(CrosstermBackend::new(io::stdout()))
        };
        begin().map(Self).inspect_err(|_| restore())
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        restore();
    }
}

/// Gives the terminal its former state back. Ignores errors, since no other remedy exists. The
/// modes come first: a terminal that takes no output gets them back, too.
fn restore() {
    let _ = disable_raw_mode();
    let _ = execute!(io::stdout(), LeaveAlternateScreen, Show);
}

/// Makes a panic restore the terminal before its message is printed, which would be lost with the
/// screen otherwise.
fn restore_at_panic() {
    let others = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        restore();
        others(panic);
    }));
}

/// Notes the signal that ends the screen. If the screen does not end, restores the terminal and
/// ends this process. The screen may wait for ever: in `event::poll` while the terminal is closed
/// or has sent only a part of a key's sequence, or in drawing while the terminal takes no output.
fn watch_signals(noted: Arc<AtomicI32>) -> io::Result<()> {
    let mut signals = Signals::new(not_ignored(&ENDING))?;
    let watch = move || {
        if let Some(signal) = signals.forever().next() {
            noted.store(signal, Ordering::SeqCst);
            thread::sleep(PATIENCE);
            let (send, restored) = channel();
            // In a thread, because `restore` waits while the terminal takes no output. If no thread
            // can be started, nothing is restored.
            let _ = thread::Builder::new().spawn(move || {
                restore();
                // This process may have ended already.
                let _ = send.send(());
            });
            let _ = restored.recv_timeout(PATIENCE);
            process::exit(i32::from(exit_code(signal)));
        }
    };
    thread::Builder::new().name("signals".to_owned()).spawn(watch)?;
    Ok(())
}

/// Shows the job until the user, a signal or the end of the job ends the screen.
pub(super) fn run(watcher: Watcher) -> Result<End, CliError> {
    let failed = CliError::system("use the terminal");
    let signal = Arc::new(AtomicI32::new(0));
    watch_signals(signal.clone()).map_err(&failed)?;
    let job = watcher.job().to_owned();
    let focus = Arc::<Mutex<Option<NodeId>>>::default();
    let (send, news) = channel();
    thread::Builder::new()
        .name("watcher".to_owned())
        .spawn({
            let focus = focus.clone();
            move || watch(watcher, &focus, &send)
        })
        .map_err(&failed)?;
    restore_at_panic();
    let mut shown = Shown::new().map_err(&failed)?;
    let mut watched = Watched::default();
    loop {
        match watched.take(&news) {
            Ok(None) => {}
            Ok(Some(end)) => return Ok(end),
            Err(error) => return Err(error),
        }
        let screen = Screen {
            job: &job,
            now: watched.now.as_ref(),
            before: watched.before.as_ref(),
            trouble: watched.trouble.as_deref(),
            state: &watched.state,
        };
        shown.0.draw(|frame| draw(frame, &screen)).map_err(&failed)?;
        let is_key = event::poll(LOOK).map_err(&failed)?;
        match signal.load(Ordering::SeqCst) {
            0 => {}
            number => return Ok(End::Signal(number)),
        }
        if is_key
            && let Event::Key(key) = event::read().map_err(&failed)?
            && watched.press(pressed(key))
        {
            return Ok(End::User);
        }
        *lock(&focus) = watched.state.focus();
    }
}

/// Passes news on until the job or the screen has ended.
fn watch(
    mut watcher: Watcher,
    focus: &Mutex<Option<NodeId>>,
    send: &Sender<Result<News, CliError>>,
) {
    loop {
        let news = watcher.next(|| *lock(focus));
        let is_last = matches!(news, Err(_) | Ok(News::Ended(_)));
        if send.send(news).is_err() || is_last {
            return;
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is known of the job, and what is shown of it.
#[derive(Default)]
struct Watched {
    now: Option<Moment>,
    before: Option<Moment>,
    trouble: Option<String>,
    state: State,
}

impl Watched {
    /// Takes the news that has arrived. Returns the end of the job, if it has ended.
    fn take(&mut self, news: &Receiver<Result<News, CliError>>) -> Result<Option<End>, CliError> {
        loop {
            let news = match news.try_recv() {
                Ok(news) => news,
                Err(TryRecvError::Empty) => return Ok(None),
                Err(TryRecvError::Disconnected) => {
                    let error = io::Error::other("the thread that asks the job has ended");
                    return Err(CliError::System { what: "watch the job", error });
                }
            };
            match news? {
                News::Moment(moment) => {
                    self.before = self.now.replace(*moment);
                    self.trouble = None;
                }
                News::Trouble(text) => self.trouble = Some(text),
                News::Ended(code) => return Ok(Some(End::Job(code))),
            }
        }
    }

    /// Handles a key. Returns whether it ends the screen.
    fn press(&mut self, pressed: Pressed) -> bool {
        match pressed {
            Pressed::Quit => return true,
            Pressed::Nothing => {}
            Pressed::Key(key) => {
                let parts = self.now.as_ref().map(|now| Parts::new(now, self.before.as_ref()));
                let sheet = parts.map_or_else(Sheet::default, |parts| self.state.sheet(parts));
                self.state.handle(key, &sheet);
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::moment;
    use super::super::state::{Key, Page};
    use super::*;

    #[test]
    fn news_replace_what_is_shown_until_the_job_has_ended() {
        let (send, news) = channel();
        let mut watched = Watched::default();
        assert!(watched.take(&news).unwrap().is_none());
        send.send(Ok(News::Moment(Box::new(moment(1))))).unwrap();
        send.send(Ok(News::Trouble("silent".to_owned()))).unwrap();
        assert!(watched.take(&news).unwrap().is_none());
        assert_eq!(watched.trouble.as_deref(), Some("silent"));
        send.send(Ok(News::Moment(Box::new(moment(2))))).unwrap();
        send.send(Ok(News::Ended(Some(3)))).unwrap();

        assert!(matches!(watched.take(&news), Ok(Some(End::Job(Some(3))))));

        let tick = |moment: &Option<Moment>| moment.as_ref().map(|moment| moment.sample.tick);
        assert_eq!((tick(&watched.before), tick(&watched.now)), (Some(1), Some(2)));
        assert_eq!(watched.trouble, None);
        send.send(Err(CliError::NoProgram)).unwrap();
        assert!(watched.take(&news).is_err());
    }

    #[test]
    fn keys_change_the_page_also_before_the_first_sample() {
        let mut watched = Watched::default();
        assert!(!watched.press(Pressed::Key(Key::Tab(3))));
        assert!(!watched.press(Pressed::Nothing));
        assert_eq!(watched.state.page(), Page::Links);
        watched.now = Some(moment(1));
        assert!(!watched.press(Pressed::Key(Key::Move(1))));
        assert!(watched.press(Pressed::Quit));
    }
}
