// SPDX-License-Identifier: MIT OR Apache-2.0
//! `jifl status` and `jifl detach`: the module's sessions and totals.

use std::collections::BTreeMap;

use clap::Args;
use jifl_sys::abi::{
    CAUSES, Detach, INLINES, Kind, MISSES, PluginInfo, RoutineInfo, SessionInfo, from_name,
};
use jifl_sys::device::{Door, Request};
use rustix::io::Errno;
use serde::Serialize;

use crate::base::duration;
use crate::base::exit::{DONE, Failure};
use crate::session::device;
use crate::show::output::{self, Format};
use crate::show::table::table;
use crate::show::text::grouped;

/// Arguments of `jifl status`.
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// How it is written
    #[arg(short, long, value_enum, default_value = "text", value_name = "FORMAT")]
    format: Format,
}

/// Arguments of `jifl detach`.
#[derive(Debug, Args)]
pub struct DetachArgs {
    /// The number of the session to end, as in `jifl status`; without it, all sessions end
    id: Option<u64>,
}

#[derive(Serialize)]
struct Object {
    command: &'static str,
    module: String,
    abi_version: u32,
    cpus: u32,
    sessions: Vec<Session>,
    plugins: Vec<Plugin>,
    routines: Vec<Routine>,
    blocks: u64,
    translated_blocks: u64,
    translated_insns: u64,
    translate_ns: u64,
    dispatches: u64,
    links: u64,
    code_used: u64,
    code_size: u64,
    code_page: u64,
    side_used: u64,
    side_size: u64,
    flushes: u64,
    invalidated: u64,
    traps: u64,
    faults: u64,
    native_exits: BTreeMap<String, u64>,
    missed: u64,
    missed_by: BTreeMap<String, u64>,
}

#[derive(Serialize)]
struct Session {
    id: u64,
    kind: &'static str,
    owner: i32,
    name: String,
    targets: u32,
    calls: u64,
}

#[derive(Serialize)]
struct Plugin {
    name: String,
    started: bool,
}

/// An analysis routine of a plugin: numbers of places where it is inlined and where it is called.
#[derive(Serialize)]
struct Routine {
    name: String,
    inlined: u64,
    called: u64,
    /// Why it was called and not inlined, the last time.
    reason: Option<String>,
}

/// Runs `jifl status`.
pub fn run(args: &StatusArgs) -> Result<u8, Failure> {
    let door = device::open()?;
    let object = read(&door)?;
    output::print(&match args.format {
        Format::Text => text(&object),
        Format::Json => {
            serde_json::to_string(&object).expect("plain structures always serialize") + "\n"
        }
    })?;
    Ok(DONE)
}

/// Runs `jifl detach`.
pub fn run_detach(args: &DetachArgs) -> Result<u8, Failure> {
    let (ended, drain_ns) = detach(&device::open()?, args.id)?;
    let plural = if ended == 1 { "" } else { "s" };
    output::note(&format!(
        "ended {ended} session{plural} in {}",
        duration::show(drain_ns)
    ));
    Ok(DONE)
}

/// Ends a session, or all: how many, and how long threads were waited for.
///
/// # Errors
/// There is none of that number, or the module refuses.
pub fn detach(door: &impl Door, id: Option<u64>) -> Result<(u32, u64), Failure> {
    let mut detach = Detach {
        id: id.unwrap_or(0),
        ..Detach::default()
    };
    let result = door.call(Request::Detach(&mut detach));
    let none = match &result {
        Ok(()) => detach.ended == 0,
        Err(error) => Errno::from_io_error(error) == Some(Errno::NOENT),
    };
    match (result, id) {
        (_, Some(id)) if none => Err(Failure::failed(format!(
            "no session {id}; `jifl status` shows those there are"
        ))),
        (Err(error), _) if !none => Err(device::failed("ending sessions", &error)),
        _ => Ok((detach.ended, detach.drain_ns)),
    }
}

fn read(door: &impl Door) -> Result<Object, Failure> {
    let info = device::info(door)?;
    let status = device::status(door)?;
    let session = |session: &SessionInfo| Session {
        id: session.id,
        kind: Kind::from_number(session.kind).map_or("unknown", Kind::name),
        owner: session.owner,
        name: from_name(&session.name),
        targets: session.targets,
        calls: session.calls,
    };
    let plugin = |plugin: &PluginInfo| Plugin {
        name: from_name(&plugin.name),
        started: plugin.started != 0,
    };
    let routine = |routine: &RoutineInfo| Routine {
        name: from_name(&routine.name),
        inlined: routine.copies,
        called: routine.calls,
        reason: (routine.calls > 0).then(|| inline_reason(routine.reason)),
    };
    Ok(Object {
        command: "status",
        module: from_name(&info.version),
        abi_version: info.abi_version,
        cpus: info.cpus,
        sessions: device::sessions(door)?.iter().map(session).collect(),
        plugins: device::plugins(door)?.iter().map(plugin).collect(),
        routines: device::routines(door)?.iter().map(routine).collect(),
        blocks: status.blocks,
        translated_blocks: status.translated_blocks,
        translated_insns: status.translated_insns,
        translate_ns: status.translate_ns,
        dispatches: status.dispatches,
        links: status.links,
        code_used: status.code_used,
        code_size: status.code_size,
        code_page: status.code_page,
        side_used: status.side_used,
        side_size: status.side_size,
        flushes: status.flushes,
        invalidated: status.invalidated,
        traps: status.traps,
        faults: status.faults,
        native_exits: named(&status.native_exits, CAUSES, 1),
        missed: status.missed.iter().sum(),
        missed_by: named(&status.missed, MISSES, 0),
    })
}

/// The values from `first` on that are not 0. A number stands for a name that a newer module has
/// added.
fn named(counts: &[u64], names: &[&str], first: usize) -> BTreeMap<String, u64> {
    let name = |index: usize| match names.get(index) {
        Some(name) => (*name).to_owned(),
        None => format!("cause-{index}"),
    };
    let counts = counts.iter().enumerate().skip(first);
    counts
        .filter(|(_, count)| **count > 0)
        .map(|(index, count)| (name(index), *count))
        .collect()
}

fn text(object: &Object) -> String {
    let mut text = format!(
        "module {}, ABI {}, {} CPUs\n\n",
        object.module, object.abi_version, object.cpus
    );
    if object.sessions.is_empty() {
        text += "no sessions\n";
    } else {
        let mut lines = vec![vec!["SESSION", "KIND", "TARGETS", "CALLS", "OWNER"]]
            .into_iter()
            .map(|titles| titles.into_iter().map(str::to_owned).collect())
            .collect::<Vec<Vec<String>>>();
        lines.extend(object.sessions.iter().map(|session| {
            let owner = match session.owner {
                0 => format!("plugin {}", session.name),
                pid => format!("{} ({pid})", session.name),
            };
            vec![
                session.id.to_string(),
                session.kind.into(),
                session.targets.to_string(),
                grouped(session.calls),
                owner,
            ]
        }));
        text += &table(&lines);
    }
    for plugin in &object.plugins {
        let state = if plugin.started { "started" } else { "stopped" };
        text += &format!("plugin {}: {state}\n", plugin.name);
    }
    for routine in &object.routines {
        text += &routine_line(routine);
    }
    text.push('\n');
    for (name, value) in [
        (
            "blocks",
            format!(
                "{} in the cache, {} translated ever ({} instructions, {})",
                grouped(object.blocks),
                grouped(object.translated_blocks),
                grouped(object.translated_insns),
                duration::show(object.translate_ns)
            ),
        ),
        (
            "code cache",
            format!(
                "{}, in {}",
                used(object.code_used, object.code_size),
                pages(object.code_page, object.code_size)
            ),
        ),
        ("side tables", used(object.side_used, object.side_size)),
        ("dispatches", grouped(object.dispatches)),
        ("links", grouped(object.links)),
        ("flushes", grouped(object.flushes)),
        (
            "invalidated",
            format!(
                "{} blocks, by changes of the kernel's text; threads brought out of them: {}",
                grouped(object.invalidated),
                grouped(object.traps)
            ),
        ),
        ("faults", grouped(object.faults)),
    ] {
        text += &format!("{name:<13} {value}\n");
    }
    text += &by_cause("native exits", &object.native_exits);
    text += &by_cause("missed", &object.missed_by);
    text
}

fn by_cause(title: &str, counts: &BTreeMap<String, u64>) -> String {
    let mut text = format!("{title:<13} {}\n", grouped(counts.values().sum()));
    for (cause, count) in counts {
        text += &format!("  {cause:<13}{}\n", grouped(*count));
    }
    text
}

fn inline_reason(reason: u32) -> String {
    let known = INLINES.get(reason as usize);
    known.map_or_else(|| format!("reason {reason}"), |text| (*text).to_owned())
}

fn routine_line(routine: &Routine) -> String {
    let mut parts = Vec::new();
    if routine.inlined > 0 {
        parts.push(format!("inlined at {} places", grouped(routine.inlined)));
    }
    if let Some(reason) = &routine.reason {
        parts.push(format!("called at {}: {reason}", grouped(routine.called)));
    }
    format!("  {}: {}\n", routine.name, parts.join(", "))
}

fn used(used: u64, size: u64) -> String {
    format!("{} of {} bytes", grouped(used), grouped(size))
}

/// Which pages the code cache has, and why no large ones. A cache that is smaller than a large page
/// gets small ones; a larger one does where the kernel had no large page when the module was loaded.
fn pages(page: u64, size: u64) -> String {
    const LARGE: u64 = 0x20_0000;
    match page {
        LARGE => "pages of 2 MiB".into(),
        0x1000 if size < LARGE => "pages of 4 KiB: it is smaller than 2 MiB".into(),
        0x1000 => "pages of 4 KiB: the kernel gave none of 2 MiB".into(),
        _ => format!("pages of {} bytes", grouped(page)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::fake::Fake;

    #[test]
    fn status_shows_sessions_and_totals() {
        let fake = Fake::default();
        fake.add_session(3, "perf");
        fake.state().plugins.push(("icount".into(), true));
        let routines = [("add", 10, 0, 0), ("look", 2, 3, 2)];
        fake.state().routines = routines
            .map(|(name, copies, calls, reason)| (name.into(), copies, calls, reason))
            .into();
        fake.state().before.native_exits[1] = 5;
        fake.state().before.missed[1] = 7;
        fake.state().before.blocks = 1234;
        fake.state().before.code_page = 0x20_0000;
        let object = read(&fake).unwrap();
        let text = text(&object);
        for part in [
            "perf (103)",
            "plugin icount: started",
            "  add: inlined at 10 places\n",
            "  look: inlined at 2 places, called at 3: uses the stack\n",
            "1,234 in the cache",
            "of 0 bytes, in pages of 2 MiB\n",
            "schedule",
            "missed        7",
            "  flush        7",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        let value = serde_json::to_value(&object).unwrap();
        assert_eq!(value["sessions"][0]["id"], 3);
        assert_eq!(value["code_page"], 0x20_0000);
        assert_eq!(value["native_exits"]["schedule"], 5);
        assert_eq!(value["missed"], 7);
        assert_eq!(value["missed_by"]["flush"], 7);
        assert_eq!(value["routines"][1]["called"], 3);
    }

    #[test]
    fn detach_ends_one_or_all() {
        let fake = Fake::default();
        for id in [1, 2, 3] {
            fake.add_session(id, "x");
        }
        assert_eq!(detach(&fake, Some(2)).unwrap().0, 1);
        assert!(
            detach(&fake, Some(2))
                .unwrap_err()
                .message
                .contains("no session 2")
        );
        assert_eq!(detach(&fake, None).unwrap().0, 2);
        assert_eq!(detach(&fake, None).unwrap().0, 0);
    }
}
