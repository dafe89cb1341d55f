// SPDX-License-Identifier: MIT OR Apache-2.0
//! Opens the device, or says in one line why it cannot be opened.

use std::io;

use jifl_sys::abi::{
    ABI_VERSION, DEVICE, Info, PluginInfo, Replacement, RoutineInfo, SessionInfo, Status, from_name,
};
use jifl_sys::device::{Device, Door, Request};
use rustix::io::Errno;

use crate::base::exit::Failure;

/// The meaning of EACCES when a session starts.
pub const LOCKED_DOWN: &str = "kernel lockdown forbids instrumentation: boot without lockdown= \
                               and with secure boot off";

/// Opens the device of a module that speaks this command's ABI.
pub fn open() -> Result<Device, Failure> {
    let device = Device::open(DEVICE).map_err(|error| no_device(&error))?;
    info(&device)?;
    Ok(device)
}

fn no_device(error: &io::Error) -> Failure {
    Failure::cannot(match Errno::from_io_error(error) {
        Some(Errno::NOENT | Errno::NXIO | Errno::NODEV) => format!(
            "{DEVICE} is not there: the module is not loaded; `jifl load` loads it, \
             `jifl doctor` says what is missing"
        ),
        Some(Errno::ACCESS | Errno::PERM) => {
            format!("{DEVICE} may not be opened: CAP_SYS_ADMIN is needed; run this as root")
        }
        _ => format!("{DEVICE}: {error}"),
    })
}

/// Asks the device which module answers. Refuses a module that this command does not understand.
pub fn info(door: &impl Door) -> Result<Info, Failure> {
    let mut info = Info::default();
    door.call(Request::Info(&mut info))
        .map_err(|error| match Errno::from_io_error(&error) {
            Some(Errno::NOTTY) => Failure::cannot(format!(
                "{DEVICE} is not JIFL's device, or a much older one's: reload the module"
            )),
            _ => failed("asking the module who it is", &error),
        })?;
    if info.abi_version != ABI_VERSION {
        return Err(Failure::cannot(format!(
            "the loaded module {} speaks version {} of the ABI, this command version \
             {ABI_VERSION}: have both of one version (`apt-get install jifl jifl-dkms`, or `make` \
             in the source tree), then `jifl unload jifl` and `jifl load`",
            from_name(&info.version),
            info.abi_version
        )));
    }
    Ok(info)
}

/// The error of a request that has no explanation of its own.
pub fn failed(what: &str, error: &io::Error) -> Failure {
    match Errno::from_io_error(error) {
        Some(Errno::PERM | Errno::ACCESS) => Failure::cannot(format!(
            "{what}: not permitted: CAP_SYS_ADMIN is needed; run this as root"
        )),
        Some(Errno::INVAL) => Failure::failed(format!(
            "{what}: the module refused the request as malformed; were it and this command \
             built from the same tree?"
        )),
        _ => Failure::failed(format!("{what}: {error}")),
    }
}

/// The module's totals.
pub fn status(door: &impl Door) -> Result<Status, Failure> {
    let mut status = Status::default();
    door.call(Request::Status(&mut status))
        .map_err(|error| failed("reading the module's totals", &error))?;
    Ok(status)
}

/// Asks for one after the other, until there are no more. `next` makes the argument that asks for
/// the one behind those that there are already.
fn list<T>(
    what: &str,
    next: impl Fn(&[T]) -> T,
    ask: impl Fn(&mut T) -> io::Result<()>,
) -> Result<Vec<T>, Failure> {
    let mut all = Vec::new();
    loop {
        let mut asked = next(&all);
        match ask(&mut asked) {
            Ok(()) => all.push(asked),
            Err(error) if Errno::from_io_error(&error) == Some(Errno::NOENT) => return Ok(all),
            Err(error) => return Err(failed(&format!("listing {what}"), &error)),
        }
    }
}

/// All sessions, in order of their numbers.
pub fn sessions(door: &impl Door) -> Result<Vec<SessionInfo>, Failure> {
    let next = |all: &[SessionInfo]| SessionInfo {
        id: all.last().map_or(0, |last| last.id),
        ..SessionInfo::default()
    };
    list("sessions", next, |info| door.call(Request::Session(info)))
}

/// All loaded plugins.
pub fn plugins(door: &impl Door) -> Result<Vec<PluginInfo>, Failure> {
    let next = |all: &[PluginInfo]| PluginInfo {
        index: all.len() as u32,
        ..PluginInfo::default()
    };
    list("plugins", next, |info| door.call(Request::Plugin(info)))
}

/// All replacements of functions, those too whose sessions have ended, in order of the sessions.
pub fn replacements(door: &impl Door) -> Result<Vec<Replacement>, Failure> {
    let next = |all: &[Replacement]| Replacement {
        session: all.last().map_or(0, |last| last.session),
        ..Replacement::default()
    };
    list("replacements", next, |one| {
        door.call(Request::Replacement(one))
    })
}

/// How the calls of all analysis routines were inserted.
pub fn routines(door: &impl Door) -> Result<Vec<RoutineInfo>, Failure> {
    let next = |all: &[RoutineInfo]| RoutineInfo {
        index: all.len() as u32,
        ..RoutineInfo::default()
    };
    list("analysis routines", next, |info| {
        door.call(Request::Routine(info))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::fake::Fake;

    #[test]
    fn each_reason_is_one_line_and_status_3() {
        for (errno, hint) in [
            (Errno::NOENT, "jifl load"),
            (Errno::ACCESS, "root"),
            (Errno::PERM, "CAP_SYS_ADMIN"),
            (Errno::IO, "/dev/jifl"),
        ] {
            let failure = no_device(&errno.into());
            assert_eq!(failure.status, crate::base::exit::CANNOT);
            assert!(failure.message.contains(hint), "{}", failure.message);
            assert!(!failure.message.contains('\n'));
        }
    }

    #[test]
    fn another_abi_version_is_refused() {
        let fake = Fake::default();
        assert!(info(&fake).is_ok());
        fake.state().abi_version = ABI_VERSION + 1;
        let failure = info(&fake).unwrap_err();
        assert_eq!(failure.status, crate::base::exit::CANNOT);
        let own = format!("this command version {ABI_VERSION}");
        assert!(failure.message.contains(&own), "{}", failure.message);
    }

    /// A door behind which the first replacement goes after each request for one.
    struct Going(Fake);

    impl Door for Going {
        fn call(&self, request: Request<'_>) -> io::Result<()> {
            let is_about_it = matches!(request, Request::Replacement(_));
            let done = self.0.call(request);
            let all = &mut self.0.state().replacements;
            if is_about_it && !all.is_empty() {
                all.remove(0);
            }
            done
        }
    }

    #[test]
    fn a_replacement_that_goes_hides_no_other() {
        let fake = Fake::default();
        fake.state().replacements = [3, 5, 9]
            .map(|session| Replacement {
                session,
                ..Replacement::default()
            })
            .into();
        let listed = |door: &dyn Fn() -> Result<Vec<Replacement>, Failure>| -> Vec<u64> {
            door().unwrap().iter().map(|one| one.session).collect()
        };
        assert_eq!(listed(&|| replacements(&fake)), [3, 5, 9]);
        let going = Going(fake);
        assert_eq!(listed(&|| replacements(&going)), [3, 5, 9]);
    }

    #[test]
    fn sessions_and_plugins_are_listed_to_the_end() {
        let fake = Fake::default();
        fake.add_session(3, "perf");
        fake.add_session(9, "jifl");
        let ids: Vec<u64> = sessions(&fake).unwrap().iter().map(|s| s.id).collect();
        assert_eq!(ids, [3, 9]);
        fake.state().plugins.push(("icount".into(), false));
        assert_eq!(from_name(&plugins(&fake).unwrap()[0].name), "icount");
    }
}
