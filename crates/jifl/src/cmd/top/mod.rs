// SPDX-License-Identifier: MIT OR Apache-2.0
//! `jifl top`: the functions in which tasks are, live, on a terminal.

mod app;
mod columns;
mod draw;
mod roots;
mod search;

use std::env;
use std::fs;
use std::io::{IsTerminal, Read};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use clap::Args;
use jifl_sys::os;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};

use self::app::{App, Asked, Key, LONGEST, SHORTEST};
use self::search::Place;
use crate::base::duration;
use crate::base::exit::{DONE, Failure, LIMIT};
use crate::cmd::remote::host::Host;
use crate::cmd::remote::source::Remote;
use crate::cmd::stat::Known;
use crate::cmd::stat::source::{Below, Kernel, Opened, Plan, Running, Source};
use crate::session::scope::Tasks;
use crate::show::output;

/// Arguments of `jifl top`.
#[derive(Debug, Args)]
#[command(after_help = "\
FUNCTION is fn:NAME, fn:GLOB, mod:NAME or sys:NAME: the function that a system call runs. Without
one, some forty functions are looked at in which tasks commonly are.

j and k move, Enter shows what a function calls, o what its calls are about, as who calls or which
file, Backspace goes back, w searches for the bottleneck as `jifl search` does, s orders by the next column, / filters, f chooses columns, + and - change
the interval, p pauses, [ and ] step back and forth, b compares with the interval that is shown, c
writes the screen to a file, ? shows all this, q quits.

Examples:
  jifl top
  jifl top -p 1234
  jifl top 'sys:*' --yes
  jifl top 'fn:ext4_*' -i 500ms")]
pub struct TopArgs {
    /// What to look at
    #[arg(value_name = "FUNCTION")]
    functions: Vec<String>,
    /// The first interval: 1s, 500ms
    #[arg(short, long, default_value = "1s", value_name = "TIME", value_parser = duration::parse)]
    interval: Duration,
    /// Go on although more than 1,000 places are meant
    #[arg(short, long)]
    yes: bool,
    #[command(flatten)]
    tasks: Tasks,
}

/// Runs the command; the result is the exit status. `host`: whose functions; without it those of
/// this machine.
///
/// # Errors
/// There is no terminal, or the session is refused.
pub fn run(args: &TopArgs, host: Option<Host>) -> Result<u8, Failure> {
    if args.tasks.begins() {
        return Err(Failure::usage(
            "top watches what runs: give `jifl stat ... -- CMD` the command, or -p its process",
        ));
    }
    if !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        return Err(Failure::usage(
            "top needs a terminal; `jifl stat FUNCTION... -i 1s` shows the same as text",
        ));
    }
    let names = roots::names(&args.functions)?;
    let title = match args.functions.as_slice() {
        [] => "where tasks commonly are".to_owned(),
        words => words.join(" "),
    };
    let place = match host {
        Some(host) => Place::There(host),
        None => Place::Here(Kernel::of_many()),
    };
    let source: Box<dyn Source> = match &place {
        Place::There(host) => Box::new(Remote::new(host.clone(), SHORTEST)),
        Place::Here(kernel) => Box::new(kernel.clone()),
    };
    let interrupt = os::catch_interrupts()
        .map_err(|error| Failure::failed(format!("catching Ctrl-C: {error}")))?;
    interrupt
        .set_nonblocking(true)
        .map_err(|error| Failure::failed(format!("catching Ctrl-C: {error}")))?;
    let mut top = Top {
        terminal: ratatui::init(),
        interrupt,
        end: None,
        source: source.as_ref(),
        place,
        search: None,
        tasks: args.tasks.clone(),
        yes: args.yes,
        utf8: is_utf8(),
        period: args.interval.clamp(SHORTEST, LONGEST),
    };
    let ended = top.look(&names, title, args.functions.is_empty());
    ratatui::restore();
    // It ends before this says so.
    drop(top.search.take());
    if ended? != Left::Ended {
        return Ok(DONE);
    }
    output::note("jifl: the session was ended from outside");
    Ok(LIMIT)
}

/// Does the terminal show more than ASCII?
fn is_utf8() -> bool {
    let names = ["LC_ALL", "LC_CTYPE", "LANG"];
    let first = names
        .iter()
        .find_map(|name| env::var(name).ok().filter(|value| !value.is_empty()));
    first.is_some_and(|value| {
        let value = value.to_lowercase();
        value.contains("utf-8") || value.contains("utf8")
    })
}

/// The terminal, and what does not change while functions are looked at.
struct Top<'a> {
    terminal: DefaultTerminal,
    interrupt: UnixStream,
    end: Option<Instant>,
    source: &'a dyn Source,
    place: Place,
    search: Option<search::Running>,
    tasks: Tasks,
    yes: bool,
    utf8: bool,
    period: Duration,
}

/// Why functions are not looked at any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Left {
    Quit,
    Up,
    Ended,
}

impl Top<'_> {
    /// Looks at functions. What is looked at already stays so meanwhile.
    fn look(&mut self, names: &[String], title: String, lenient: bool) -> Result<Left, Failure> {
        self.say(&format!("jifl top {title}: setting up"))?;
        let plan = Plan {
            functions: names.to_vec(),
            tasks: self.tasks.clone(),
            confirmed: self.yes,
            lenient,
            ..Plan::default()
        };
        let opened = self.source.open(&plan)?;
        self.show(opened, title)
    }

    /// Shows a session.
    fn show(&mut self, opened: Box<dyn Opened>, title: String) -> Result<Left, Failure> {
        let below = opened.below(false)?;
        let known = opened.known();
        let mut app = App::new(title, opened.rows().to_vec(), self.period);
        app.message = opened.left_out().to_owned();
        let mut left = Ok(Left::Quit);
        opened.run(&mut |running| {
            left = self.go_about(running, &mut app, &below, known.as_ref());
        })?;
        left
    }

    /// Shows what a session counts, and what is below its functions, until that is left.
    fn go_about(
        &mut self,
        running: &dyn Running,
        app: &mut App,
        below: &Below,
        known: Option<&Known>,
    ) -> Result<Left, Failure> {
        let time = self.tasks.time();
        self.end = self.end.or_else(|| time.map(|time| Instant::now() + time));
        loop {
            let (left, title) = match self.watch(running, app)? {
                Asked::Down(row) => {
                    let name = row.shown();
                    let names = below.get(&row.target).map_or(&[][..], Vec::as_slice);
                    if names.is_empty() {
                        app.message = format!("{name} calls no function directly");
                        continue;
                    }
                    let title = format!("below {name}");
                    (self.look(names, title.clone(), true), title)
                }
                Asked::Objects(row, by) => {
                    let title = format!("{} by {by}", row.shown());
                    let opened = self.source.about(known, &row, &by, &self.tasks);
                    let left = opened.and_then(|opened| self.show(opened, title.clone()));
                    (left, title)
                }
                Asked::Up => return Ok(Left::Up),
                Asked::Ended => return Ok(Left::Ended),
                _ => return Ok(Left::Quit),
            };
            match left {
                Ok(Left::Quit) => return Ok(Left::Quit),
                Ok(Left::Up) => {}
                Ok(Left::Ended) => app.message = format!("the session {title} was ended"),
                Err(failure) => app.message = failure.message,
            }
        }
    }

    fn failed(error: &std::io::Error) -> Failure {
        Failure::failed(format!("the terminal: {error}"))
    }

    /// A line, while nothing else can be shown.
    fn say(&mut self, text: &str) -> Result<(), Failure> {
        let drawn = self.terminal.draw(|frame| {
            let area = frame.area();
            frame.render_widget(text, area);
        });
        drawn.map(|_| ()).map_err(|error| Top::failed(&error))
    }

    fn draw(&mut self, app: &mut App) -> Result<String, Failure> {
        let utf8 = self.utf8;
        let drawn = self.terminal.draw(|frame| draw::draw(frame, app, utf8));
        let drawn = drawn.map_err(|error| Top::failed(&error))?;
        Ok(draw::text(drawn.buffer))
    }

    /// Shows intervals until something is asked for that is not done here.
    fn watch(&mut self, running: &dyn Running, app: &mut App) -> Result<Asked, Failure> {
        let mut next = Instant::now() + app.period;
        let mut screen = self.draw(app)?;
        loop {
            let now = Instant::now();
            if self.end.is_some_and(|end| now >= end) || self.is_interrupted() {
                return Ok(Asked::Quit);
            }
            if running.has_ended() {
                return Ok(Asked::Ended);
            }
            if now >= next {
                let (rows, counted) = running.read()?;
                app.rows = rows.unwrap_or_else(|| std::mem::take(&mut app.rows));
                app.take(counted);
                next = now + app.period;
                screen = self.draw(app)?;
            }
            if let Some((told, is_end)) = self.search.as_ref().and_then(search::Running::next) {
                match told {
                    Ok(grown) => app.search = grown.text,
                    Err(failure) => app.search = format!("{}\n", failure.message),
                }
                if is_end {
                    self.search = None;
                }
                screen = self.draw(app)?;
            }
            let wait = next
                .saturating_duration_since(now)
                .min(Duration::from_millis(200));
            if !event::poll(wait).map_err(|error| Top::failed(&error))? {
                continue;
            }
            let asked = match event::read().map_err(|error| Top::failed(&error))? {
                Event::Key(pressed) if pressed.kind != KeyEventKind::Release => {
                    let control = pressed.modifiers.contains(KeyModifiers::CONTROL);
                    match key(pressed.code) {
                        Some(Key::Char('c')) if control => Asked::Quit,
                        Some(key) => app.key(key),
                        None => Asked::Nothing,
                    }
                }
                _ => Asked::Nothing,
            };
            let asked = self.look_for_bottleneck(asked, app);
            self.period = app.period;
            next = next.min(Instant::now() + app.period);
            match asked {
                Asked::Nothing => {}
                Asked::Copy => app.message = copy(&screen),
                asked => return Ok(asked),
            }
            screen = self.draw(app)?;
        }
    }

    /// Begins or ends a search, if that is asked for; what else is asked for.
    fn look_for_bottleneck(&mut self, asked: Asked, app: &mut App) -> Asked {
        match asked {
            Asked::Search => {
                let before = self.search.take();
                match self.place.begin(self.tasks.process(), before) {
                    Ok(search) => self.search = Some(search),
                    Err(failure) => app.search = format!("{}\n", failure.message),
                }
            }
            Asked::EndSearch => {
                if let Some(search) = &self.search {
                    search.end();
                }
            }
            asked => return asked,
        }
        Asked::Nothing
    }

    fn is_interrupted(&mut self) -> bool {
        self.interrupt.read(&mut [0; 1]).is_ok()
    }
}

/// Writes the screen to a file in the current directory. What there is to say.
fn copy(screen: &str) -> String {
    let path = format!("jifl-top-{}.txt", std::process::id());
    match fs::write(&path, screen) {
        Ok(()) => format!("written to {path}"),
        Err(error) => format!("{path}: {error}"),
    }
}

fn key(code: KeyCode) -> Option<Key> {
    Some(match code {
        KeyCode::Char(letter) => Key::Char(letter),
        KeyCode::Enter => Key::Enter,
        KeyCode::Backspace => Key::Backspace,
        KeyCode::Esc => Key::Escape,
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        KeyCode::Left => Key::Left,
        KeyCode::Right => Key::Right,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::parse::check;

    #[test]
    fn the_documented_lines_parse() {
        check::<TopArgs>(
            &["", "-p 1234", "sys:* --yes", "fn:ext4_* -i 500ms"],
            &["-i 0", "-f json"],
        );
    }
}
