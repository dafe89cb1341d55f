// SPDX-License-Identifier: MIT OR Apache-2.0
//! `jifl completions` and `jifl man`: pages that are made from the command's own definitions.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::{Args, Command};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::base::exit::{DONE, Failure};
use crate::show::output::Sink;

/// Arguments of `jifl completions`.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  jifl completions bash > /etc/bash_completion.d/jifl")]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Arguments of `jifl man`.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  jifl man /usr/local/share/man/man1")]
pub struct ManArgs {
    /// The directory for jifl.1, jifl-count.1 and the others; it is made if it does not exist
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

/// Runs `jifl completions`.
pub fn run_completions(args: &CompletionsArgs, mut command: Command) -> Result<u8, Failure> {
    // Into memory first: clap would panic when the reader goes away, which is no error.
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut command, "jifl", &mut text);
    Sink::Stdout.write_bytes(&text)?;
    Ok(DONE)
}

/// Runs `jifl man`.
pub fn run_man(args: &ManArgs, command: Command) -> Result<u8, Failure> {
    let failed =
        |path: &Path, error: &io::Error| Failure::failed(format!("{}: {error}", path.display()));
    let directory = &args.directory;
    fs::create_dir_all(directory).map_err(|error| failed(directory, &error))?;
    for (name, text) in pages(command).map_err(|error| failed(directory, &error))? {
        let path = directory.join(name);
        fs::write(&path, text).map_err(|error| failed(&path, &error))?;
    }
    Ok(DONE)
}

/// File names and texts: one for the command, one for each subcommand that is shown.
fn pages(command: Command) -> io::Result<Vec<(String, Vec<u8>)>> {
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let shown = command.get_subcommands().filter(|sub| !sub.is_hide_set());
    let subcommands: Vec<Command> = shown.cloned().collect();
    let version = command.get_version().unwrap_or_default().to_owned();
    let mut pages = vec![page(command, "jifl".into(), &version)?];
    for subcommand in subcommands {
        let name = format!("jifl-{}", subcommand.get_name());
        pages.push(page(subcommand, name, &version)?);
    }
    Ok(pages)
}

fn page(command: Command, name: String, version: &str) -> io::Result<(String, Vec<u8>)> {
    let file = format!("{name}.1");
    let man = Man::new(command)
        .title(name.as_str())
        .section("1")
        .source(format!("jifl {version}"))
        .manual("JIFL");
    let mut text = Vec::new();
    man.render(&mut text)?;
    Ok((file, text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;
    use std::collections::BTreeSet;

    fn command() -> Command {
        crate::Cli::command()
    }

    #[test]
    fn every_subcommand_has_its_page_with_its_options() {
        let pages = pages(command()).unwrap();
        let of = |name: &str| {
            let page = pages.iter().find(|(file, _)| file == name);
            let (_, text) = page.unwrap_or_else(|| panic!("no {name}"));
            let text = String::from_utf8(text.clone()).unwrap();
            text.replace("\\-", "-").replace("\\*(Aq", "'")
        };
        let mut wanted = BTreeSet::from(["jifl.1".to_owned()]);
        for sub in command().get_subcommands().filter(|sub| !sub.is_hide_set()) {
            let file = format!("jifl-{}.1", sub.get_name());
            let page = of(&file);
            let about = sub.get_about().unwrap().to_string();
            assert!(page.contains(&about), "{file}: {about}");
            for argument in sub
                .get_arguments()
                .filter_map(|argument| argument.get_long())
            {
                assert!(
                    page.contains(&format!("--{argument}")),
                    "{file}: --{argument}"
                );
            }
            assert!(of("jifl.1").contains(&format!("jifl-{}(1)", sub.get_name())));
            wanted.insert(file);
        }
        assert_eq!(
            pages
                .into_iter()
                .map(|(file, _)| file)
                .collect::<BTreeSet<_>>(),
            wanted
        );
    }

    #[test]
    fn each_shell_completes_every_subcommand() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let mut text = Vec::new();
            clap_complete::generate(shell, &mut command(), "jifl", &mut text);
            let text = String::from_utf8(text).unwrap();
            for sub in command().get_subcommands().filter(|sub| !sub.is_hide_set()) {
                assert!(text.contains(sub.get_name()), "{shell}: {}", sub.get_name());
            }
        }
    }
}
