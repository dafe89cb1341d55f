// SPDX-License-Identifier: MIT OR Apache-2.0
//! The destination of data: standard output or a file.

use std::fs::File;
use std::io::{self, IsTerminal, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use crate::base::exit::Failure;

/// How something is written that has no other forms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For people
    Text,
    /// One object on one line
    Json,
}

/// Lines of a table for people, unless they ask for another number.
const LINES: usize = 30;

/// How much is shown, and where.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Extent {
    /// Show at most N lines of each table, or N blocks; without this option, tables in text have 30
    #[arg(long, value_name = "N")]
    pub limit: Option<usize>,
    /// Write the output to FILE
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

impl Extent {
    /// Opens the place.
    ///
    /// # Errors
    /// Nothing can be written there.
    pub fn sink(&self) -> Result<Sink, Failure> {
        Sink::open(self.output.as_deref())
    }

    /// Lines of a table; `text`: for people.
    pub fn lines(&self, text: bool) -> usize {
        self.limit.unwrap_or(if text { LINES } else { usize::MAX })
    }

    /// Columns that a line has on the terminal where data goes; `None` where it goes elsewhere.
    pub fn width(&self) -> Option<usize> {
        width(self.output.as_deref())
    }
}

/// Columns that a line has on the terminal, where data goes to a file or, without one, to standard
/// output; `None` where there is no terminal.
pub fn width(output: Option<&Path>) -> Option<usize> {
    if output.is_some() {
        return None;
    }
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    (size.ws_col > 0).then_some(size.ws_col.into())
}

/// The place. A file is made at once, so that a wrong path shows early.
pub enum Sink {
    /// Standard output.
    Stdout,
    /// A file and its name.
    File(File, PathBuf),
}

impl Sink {
    /// Opens the file, or takes standard output.
    pub fn open(path: Option<&Path>) -> Result<Sink, Failure> {
        match path {
            None => Ok(Sink::Stdout),
            Some(path) => match File::create(path) {
                Ok(file) => Ok(Sink::File(file, path.to_owned())),
                Err(error) => Err(Failure::failed(format!("{}: {error}", path.display()))),
            },
        }
    }

    /// Opens a file.
    pub fn file(path: &Path) -> Result<Sink, Failure> {
        Sink::open(Some(path))
    }

    /// Is it one that a person looks at?
    pub fn is_terminal(&self) -> bool {
        match self {
            Sink::Stdout => io::stdout().is_terminal(),
            Sink::File(file, _) => file.is_terminal(),
        }
    }

    /// Bytes that a file has.
    pub fn length(&self) -> Option<u64> {
        match self {
            Sink::Stdout => None,
            Sink::File(file, _) => Some(file.metadata().ok()?.len()),
        }
    }

    /// Makes a whole of a file that has no room for more: its first bytes, and an end. That may
    /// fail, too; why writing did is what is told. The end is written over what is there before the
    /// rest goes: others may take the room that a shorter file gives back.
    pub fn cut(&mut self, length: u64, end: &[u8]) {
        if let Sink::File(file, _) = self {
            let written = file
                .seek(SeekFrom::Start(length))
                .and_then(|_| file.write_all(end));
            let kept = length + written.map_or(0, |()| end.len() as u64);
            let _ = file
                .set_len(kept)
                .and_then(|()| file.seek(SeekFrom::Start(kept)));
        }
    }

    /// Writes all of `text`. A reader that has gone away (`| head`) is no error.
    pub fn write(&mut self, text: &str) -> Result<(), Failure> {
        self.write_bytes(text.as_bytes())
    }

    /// Writes all of `bytes`, which are no text. A reader that has gone away is no error.
    pub fn write_bytes(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let (result, name) = match self {
            Sink::Stdout => {
                let mut stdout = io::stdout().lock();
                let result = stdout.write_all(bytes);
                (result.and_then(|()| stdout.flush()), "stdout".into())
            }
            Sink::File(file, path) => (file.write_all(bytes), path.display().to_string()),
        };
        match result {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                Err(Failure::failed(format!("{name}: {error}")))
            }
            _ => Ok(()),
        }
    }
}

/// Writes a note to standard error, as one piece: other programs write there,
/// too. Nobody can be told if that fails.
pub fn note(text: &str) {
    let _ = io::stderr().write_all(format!("{text}\n").as_bytes());
}

/// Writes lines of a report that begin with `# ` as notes, without that.
pub fn note_lines(lines: &str) {
    for line in lines.lines() {
        note(line.trim_start_matches("# "));
    }
}

/// Writes to standard output.
pub fn print(text: &str) -> Result<(), Failure> {
    Sink::Stdout.write(text)
}

/// Cuts lines that are wider than a terminal. Those that begin with `#`, which say what was
/// missed, go on in the next one.
pub fn fit(text: String, width: Option<usize>) -> String {
    let Some(width) = width else {
        return text;
    };
    let fitted = |line: &str| match line.strip_prefix("# ") {
        Some(said) => wrapped(said, width),
        None => shortened(line, width) + "\n",
    };
    text.lines().map(fitted).collect()
}

/// Lines that begin with `#`, broken at blanks.
fn wrapped(said: &str, width: usize) -> String {
    let mut lines = vec!["#".to_owned()];
    for word in said.split(' ') {
        let last = lines.last().map_or(0, |line| line.chars().count());
        if last > 1 && last + 1 + word.chars().count() > width {
            lines.push("#  ".into());
        }
        if let Some(line) = lines.last_mut() {
            *line += " ";
            *line += word;
        }
    }
    let short = |line: &String| shortened(line, width) + "\n";
    lines.iter().map(short).collect()
}

/// A text that is so wide at most.
pub fn shortened(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    kept + "…"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_cut_only_for_a_terminal() {
        let text = || "abcdef\n…bc\n\n".to_owned();
        assert_eq!(fit(text(), None), text());
        assert_eq!(fit(text(), Some(3)), "ab…\n…bc\n\n");
    }

    #[test]
    fn what_was_missed_is_not_cut() {
        let text =
            "# native exits 12 (schedule 9, ud2 3); missed 7\nabcdefghijklmnopqrstu\n# one\n";
        assert_eq!(
            fit(text.into(), Some(20)),
            "# native exits 12\n#   (schedule 9, ud2\n#   3); missed 7\nabcdefghijklmnopqrs…\n# one\n"
        );
        assert_eq!(fit("# unbreakable\n".into(), Some(6)), "# unb…\n");
    }
}
