// SPDX-License-Identifier: MIT OR Apache-2.0
//! `jifl restore`: the kernel runs its own code again. Sessions that count and record go on.

use clap::Args;
use jifl_sys::abi::{Kind, SessionInfo};
use jifl_sys::device::Door;

use crate::base::duration;
use crate::base::exit::{DONE, Failure};
use crate::cmd::status;
use crate::kernel::functions::Functions;
use crate::kernel::pattern::Pattern;
use crate::session::device;
use crate::show::output;

/// Arguments of `jifl restore`.
#[derive(Debug, Args)]
#[command(after_help = "\
jifl restore                all replacements and layouts end
jifl restore fn:vfs_read    that of this function ends
jifl restore 7              that of session 7 ends")]
pub struct RestoreArgs {
    /// A replaced function, fn:NAME, or the number of a session, as `jifl replace` and `jifl
    /// status` show them; without it, all replacements and layouts end
    #[arg(value_name = "FUNCTION|ID")]
    what: Option<String>,
}

/// Which of them are to end.
#[derive(Debug, PartialEq)]
enum What {
    All,
    Session(u64),
    Function(Pattern),
}

impl What {
    fn parse(word: Option<&str>) -> Result<What, Failure> {
        let Some(word) = word else {
            return Ok(What::All);
        };
        if let Ok(id) = word.parse() {
            return Ok(What::Session(id));
        }
        let refused = || {
            Failure::usage(format!(
                "{word}: give the number of a session, or a function, as fn:vfs_statfs"
            ))
        };
        let pattern =
            Pattern::parse(word).filter(|pattern| word.starts_with("fn:") && !pattern.is_glob());
        pattern.map(What::Function).ok_or_else(refused)
    }
}

/// Runs the command; the result is the exit status.
pub fn run(args: &RestoreArgs) -> Result<u8, Failure> {
    let what = What::parse(args.what.as_deref())?;
    let functions = match &what {
        What::Function(_) => Functions::of_kernel(),
        _ => Functions::default(),
    };
    output::note(&restore(&device::open()?, &what, &functions)?);
    Ok(DONE)
}

/// Ends them; the result says what was done.
fn restore(door: &impl Door, what: &What, functions: &Functions) -> Result<String, Failure> {
    let chosen = choose(door, what, functions)?;
    let (mut ended, mut drain_ns) = ([0; 2], 0);
    for session in &chosen {
        let (n, ns) = match status::detach(door, Some(session.id)) {
            Ok(done) => done,
            // It ends by itself, or its owner has ended it.
            Err(_)
                if !device::sessions(door)?
                    .iter()
                    .any(|one| one.id == session.id) =>
            {
                (0, 0)
            }
            Err(error) => return Err(error),
        };
        ended[usize::from(session.kind == Kind::Layout as u32)] += n;
        drain_ns += ns;
    }
    let several = |n: u32, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
    Ok(format!(
        "ended {} and {} in {}",
        several(ended[0], "replacement"),
        several(ended[1], "layout"),
        duration::show(drain_ns)
    ))
}

fn choose(
    door: &impl Door,
    what: &What,
    functions: &Functions,
) -> Result<Vec<SessionInfo>, Failure> {
    let changes =
        |one: &SessionInfo| one.kind == Kind::Replace as u32 || one.kind == Kind::Layout as u32;
    let all = device::sessions(door)?;
    let (mut found, others): (Vec<_>, Vec<_>) = all.into_iter().partition(changes);
    match what {
        What::All => return Ok(found),
        What::Session(id) => {
            if let Some(other) = others.iter().find(|one| one.id == *id) {
                let kind = Kind::from_number(other.kind).map_or("unknown", Kind::name);
                return Err(Failure::failed(format!(
                    "session {id} replaces nothing and lays nothing anew: its kind is {kind}; \
                     `jifl detach {id}` ends it"
                )));
            }
            found.retain(|one| one.id == *id);
        }
        What::Function(pattern) => {
            functions.need_addresses(pattern.word())?;
            let named = functions.select(pattern);
            let is_it = |address| named.iter().any(|one| one.address == address);
            let replacements = device::replacements(door)?;
            let ids = replacements
                .iter()
                .filter(|one| one.ended == 0 && is_it(one.address));
            let ids: Vec<u64> = ids.map(|one| one.session).collect();
            found.retain(|one| ids.contains(&one.id));
        }
    }
    match (found.is_empty(), what) {
        (false, _) => Ok(found),
        (true, What::Function(pattern)) => Err(Failure::failed(format!(
            "{} is not replaced; `jifl replace` shows what is",
            pattern.word()
        ))),
        (true, _) => Err(Failure::failed(
            "no such session; `jifl status` shows those there are",
        )),
    }
}

#[cfg(test)]
mod tests {
    use jifl_sys::abi::Replacement;

    use super::*;
    use crate::kernel::functions::tests::sample;
    use crate::session::fake::Fake;

    /// Sessions: 1 counts, 2 and 3 replace, 4 lays anew.
    fn fake() -> Fake {
        let fake = Fake::default();
        for (id, kind) in [
            (1, Kind::Insn),
            (2, Kind::Replace),
            (3, Kind::Replace),
            (4, Kind::Layout),
        ] {
            fake.add_session(id, "x");
            fake.state().sessions.last_mut().unwrap().kind = kind as u32;
        }
        for (session, address) in [(2, 0x1010), (3, 0x3000)] {
            fake.state().replacements.push(Replacement {
                session,
                address,
                ..Replacement::default()
            });
        }
        fake
    }

    fn function(word: &str) -> What {
        What::Function(Pattern::parse(word).unwrap())
    }

    fn left(fake: &Fake) -> Vec<u64> {
        fake.state().sessions.iter().map(|one| one.id).collect()
    }

    #[test]
    fn words() {
        assert_eq!(What::parse(None).unwrap(), What::All);
        assert_eq!(What::parse(Some("7")).unwrap(), What::Session(7));
        assert_eq!(
            What::parse(Some("fn:vfs_read")).unwrap(),
            function("fn:vfs_read")
        );
        for word in ["vfs_read", "fn:vfs_*", "mod:nfs"] {
            let refused = What::parse(Some(word)).unwrap_err().message;
            assert!(
                refused.starts_with(&format!("{word}: give the number")),
                "{refused}"
            );
        }
    }

    #[test]
    fn all_that_changes_what_runs_ends() {
        let fake = fake();
        let said = restore(&fake, &What::All, &sample()).unwrap();
        assert!(
            said.starts_with("ended 2 replacements and 1 layout in "),
            "{said}"
        );
        assert_eq!(left(&fake), [1]);
        let said = restore(&fake, &What::All, &sample()).unwrap();
        assert!(
            said.starts_with("ended 0 replacements and 0 layouts in "),
            "{said}"
        );
    }

    #[test]
    fn one_ends_by_its_number_or_function() {
        let fake = fake();
        restore(&fake, &What::Session(4), &sample()).unwrap();
        assert_eq!(left(&fake), [1, 2, 3]);
        restore(&fake, &function("fn:read_page@nfs"), &sample()).unwrap();
        assert_eq!(left(&fake), [1, 2]);
    }

    #[test]
    fn what_is_not_there_is_said() {
        let fake = fake();
        for (what, part) in [
            (
                What::Session(1),
                "its kind is insn; `jifl detach 1` ends it",
            ),
            (What::Session(9), "no such session; `jifl status`"),
            (
                function("fn:vfs_bare"),
                "fn:vfs_bare is not replaced; `jifl replace`",
            ),
        ] {
            let said = restore(&fake, &what, &sample()).unwrap_err().message;
            assert!(said.contains(part), "{said}");
        }
        assert_eq!(left(&fake), [1, 2, 3, 4]);
    }
}
