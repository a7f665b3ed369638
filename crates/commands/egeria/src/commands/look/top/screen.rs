//! The terminal: keys in, frames out, and as it was before at the end, however that comes.

use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant};

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::widgets::TableState;

use super::super::decision_log::DecisionLog;
use super::draw::{self, Keys};
use super::rows::Sort;
use super::view::View;
use egeria_cli::failure::{Failure, Outcome, reason};
use egeria_cli::signals::Signals;

/// How often the log and signals are looked at.
const LOOK: Duration = Duration::from_millis(100);
/// How often a frame is drawn although nothing changed: ages go on.
const REDRAW: Duration = Duration::from_secs(1);

/// Shows the log until a key or a signal ends it.
pub(super) fn run(log: DecisionLog, sort: Sort, signals: &Signals) -> Outcome {
    let mut screen = Screen {
        view: View::of_log(log.path()),
        log,
        keys: Keys {
            sort,
            paused: false,
            table: TableState::new(),
        },
    };
    // A file that is no log is reported before the terminal is taken.
    screen.view.read(&mut screen.log)?;
    let mut terminal = Terminal::take()?;
    screen.show(&mut terminal.0, signals)
}

/// Raw mode and the other screen; given back when dropped, and by ratatui's hook in a panic.
struct Terminal(DefaultTerminal);

impl Terminal {
    fn take() -> Outcome<Terminal> {
        ratatui::try_init().map(Terminal).map_err(failed)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

fn failed(error: io::Error) -> Failure {
    let cause = reason(&error);
    Failure::new(format!(
        "cannot use the terminal: {cause}; use --once for one frame as text"
    ))
}

/// What keys come from: the same as for crossterm.
struct Keyboard(std::fs::File);

/// What became of the keyboard.
#[derive(PartialEq, Eq)]
enum Awaited {
    KeyOrNothing,
    /// The terminal is gone. Crossterm would read its end for ever, deaf to signals.
    HungUp,
}

impl Keyboard {
    fn open() -> Outcome<Keyboard> {
        let stdin = io::stdin();
        let file = if stdin.is_terminal() {
            stdin.as_fd().try_clone_to_owned().map(Into::into)
        } else {
            std::fs::File::open("/dev/tty")
        };
        file.map(Keyboard).map_err(failed)
    }

    fn wait(&self, longest: Duration) -> Awaited {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let longest = Timespec {
            tv_sec: 0,
            tv_nsec: i64::from(longest.subsec_nanos()),
        };
        let mut terminal = [PollFd::new(&self.0, PollFlags::IN)];
        if poll(&mut terminal, Some(&longest)).is_err() {
            return Awaited::KeyOrNothing;
        }
        let came = terminal[0].revents();
        if came.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) {
            Awaited::HungUp
        } else {
            Awaited::KeyOrNothing
        }
    }
}

struct Screen {
    view: View,
    log: DecisionLog,
    keys: Keys,
}

impl Screen {
    fn show(&mut self, terminal: &mut DefaultTerminal, signals: &Signals) -> Outcome {
        let keyboard = Keyboard::open()?;
        let mut drawn: Option<Instant> = None;
        loop {
            signals.check()?;
            let mut changed = self.follow()?;
            // Also without a key: some may have come with another and wait inside.
            while keyboard.wait(Duration::ZERO) != Awaited::HungUp
                && event::poll(Duration::ZERO).map_err(failed)?
            {
                changed = true;
                if let Event::Key(key) = event::read().map_err(failed)?
                    && key.kind != KeyEventKind::Release
                    && !self.press(key)
                {
                    return Ok(());
                }
            }
            if changed || drawn.is_none_or(|drawn| drawn.elapsed() >= REDRAW) {
                let frame = self.view.frame(self.keys.sort);
                let keys = &mut self.keys;
                terminal
                    .draw(|area| draw::draw(area, &frame, keys))
                    .map_err(failed)?;
                drawn = Some(Instant::now());
            }
            if keyboard.wait(LOOK) == Awaited::HungUp {
                return Ok(());
            }
        }
    }

    /// Reads what is new, also when the log began again. Returns whether anything is new.
    fn follow(&mut self) -> Outcome<bool> {
        if self.keys.paused {
            return Ok(false);
        }
        if self.log.is_replaced() {
            let path = self.log.path().to_owned();
            return self.begin_anew(&path);
        }
        match self.view.read(&mut self.log) {
            Ok(lines) => Ok(lines > 0),
            // It may have begun again and grown past the last position between two looks.
            Err(_) => {
                let path = self.log.path().to_owned();
                self.begin_anew(&path)
            }
        }
    }

    fn begin_anew(&mut self, path: &Path) -> Outcome<bool> {
        self.log = DecisionLog::open(path)?;
        self.view = View::of_log(path);
        self.view.read(&mut self.log)?;
        Ok(true)
    }

    /// Answers whether to go on.
    fn press(&mut self, key: KeyEvent) -> bool {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c') if control => return false,
            KeyCode::Char('q') | KeyCode::Esc => return false,
            KeyCode::Char('s') => self.keys.sort = self.keys.sort.next(),
            KeyCode::Char('p') => self.keys.paused = !self.keys.paused,
            KeyCode::Down => self.keys.table.select_next(),
            KeyCode::Up => self.keys.table.select_previous(),
            KeyCode::Home => self.keys.table.select_first(),
            KeyCode::End => self.keys.table.select_last(),
            _ => {}
        }
        true
    }
}
