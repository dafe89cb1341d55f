// SPDX-License-Identifier: MIT OR Apache-2.0
//! `jifl load`, `start`, `stop`, `unload`: kernel modules and plugins.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use clap::Args;
use jifl_code::packed;
use jifl_sys::abi::{PluginCtl, from_name, to_name};
use jifl_sys::device::{Door, Request};
use rustix::io::Errno;

use crate::base::exit::{DONE, Failure};
use crate::base::{environment, module, root};
use crate::session::device;

/// Arguments of `jifl load`.
#[derive(Debug, Args)]
pub struct LoadArgs {
    /// The module or plugin; without it, JIFL's module for the running kernel: the source tree's, or
    /// the one that is installed
    #[arg(value_name = "FILE.ko")]
    file: Option<PathBuf>,
}

/// Arguments of `jifl start`, `stop` and `unload`.
#[derive(Debug, Args)]
pub struct NameArgs {
    /// Name of the plugin
    name: String,
}

/// Runs `jifl load`.
pub fn run_load(args: &LoadArgs) -> Result<u8, Failure> {
    insert(args.file.as_deref(), c"")?;
    Ok(DONE)
}

/// Inserts a module with parameters; without a file JIFL's, for the running kernel.
pub fn insert(file: Option<&Path>, parameters: &CStr) -> Result<(), Failure> {
    let path = match file {
        Some(file) => file.to_owned(),
        None => own()?,
    };
    let image = read(&path)?;
    match image {
        Image::Plain(file) => rustix::system::finit_module(&file, parameters, 0),
        Image::Unpacked(bytes) => rustix::system::init_module(&bytes, parameters),
    }
    .map_err(|errno| not_loaded(&path, errno))
}

/// JIFL's module for the running kernel: that of the source tree, or else the installed one.
fn own() -> Result<PathBuf, Failure> {
    let release = environment::release();
    match root::find() {
        Ok(tree) => Ok(root::module(&tree, &release)),
        Err(_) => module::installed(Path::new("/"), &release).ok_or_else(|| {
            Failure::cannot(format!(
                "there is no module for {release}: {}",
                module::remedy(Path::new("/"), &release)
            ))
        }),
    }
}

/// A module as the kernel takes it.
enum Image {
    Plain(File),
    /// Of a compressed file. Not each kernel unpacks these by itself.
    Unpacked(Vec<u8>),
}

fn read(path: &Path) -> Result<Image, Failure> {
    let shown = path.display();
    let no_file = |error: io::Error| {
        Failure::failed(format!(
            "{shown}: {error}; `make modules` builds the modules"
        ))
    };
    if path.extension().is_none_or(|end| end == "ko") {
        return File::open(path).map(Image::Plain).map_err(no_file);
    }
    let packed = std::fs::read(path).map_err(no_file)?;
    packed::unpack(&packed)
        .map(|bytes| Image::Unpacked(bytes.into_owned()))
        .map_err(|error| Failure::failed(format!("{shown}: {}", error.0)))
}

fn not_loaded(path: &Path, errno: Errno) -> Failure {
    let shown = path.display();
    let log = "the kernel's log (dmesg) has the reason in one line";
    match errno {
        Errno::PERM => Failure::cannot(format!(
            "{shown}: not permitted: loading needs CAP_SYS_MODULE and no lockdown; \
             `jifl doctor` looks into both"
        )),
        Errno::EXIST => Failure::failed(format!("{shown}: is loaded already")),
        Errno::NOEXEC => Failure::failed(format!(
            "{shown}: not a module for this kernel: `make modules` builds one"
        )),
        Errno::NOENT => Failure::failed(format!(
            "{shown}: needs what is not there, probably the module jifl: `jifl load` first"
        )),
        Errno::KEYREJECTED | Errno::NOKEY => Failure::cannot(format!(
            "{shown}: this kernel takes signed modules only: sign it with a key that the kernel \
                 trusts (`mokutil --import /var/lib/dkms/mok.pub` enrols the one of DKMS)"
        )),
        Errno::OPNOTSUPP | Errno::NODEV | Errno::NOSYS => {
            Failure::cannot(format!("{shown}: this kernel cannot run it; {log}"))
        }
        _ => Failure::failed(format!("{shown}: {errno}; {log}")),
    }
}

/// Runs `jifl unload`.
pub fn run_unload(args: &NameArgs) -> Result<u8, Failure> {
    remove(&args.name)?;
    Ok(DONE)
}

/// Removes a module that nobody uses.
pub fn remove(name: &str) -> Result<(), Failure> {
    let name = module_name(name);
    let text = CString::new(name.as_str())
        .map_err(|_| Failure::usage(format!("{name:?} is no module's name")))?;
    let flags = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    rustix::system::delete_module(&text, flags).map_err(|errno| match errno {
        Errno::PERM => Failure::cannot(format!("{name}: not permitted: CAP_SYS_MODULE is needed")),
        Errno::NOENT => Failure::failed(format!("{name}: no such module is loaded")),
        Errno::AGAIN | Errno::BUSY => Failure::failed(format!(
            "{name}: in use; `jifl status` shows by whom, `jifl stop NAME` and `jifl detach` end it"
        )),
        _ => Failure::failed(format!("{name}: {errno}")),
    })
}

/// A file's name also names its module, whose dashes are underscores.
pub fn module_name(text: &str) -> String {
    let name = text.rsplit('/').next().unwrap_or(text);
    let stem = match name.split_once(".ko") {
        Some((stem, rest)) if rest.is_empty() || rest.starts_with('.') => stem,
        _ => name,
    };
    stem.replace('-', "_")
}

/// Runs `jifl start` or `jifl stop`.
pub fn run_switch(args: &NameArgs, start: bool) -> Result<u8, Failure> {
    switch(&device::open()?, &args.name, start)?;
    Ok(DONE)
}

/// Starts or stops a plugin.
pub fn switch(door: &impl Door, name: &str, start: bool) -> Result<(), Failure> {
    let mut ctl = PluginCtl {
        start: u32::from(start),
        name: to_name(name.as_bytes())
            .ok_or_else(|| Failure::usage(format!("{name:?} is no plugin's name")))?,
        ..PluginCtl::default()
    };
    let Err(error) = door.call(Request::PluginCtl(&mut ctl)) else {
        return Ok(());
    };
    let verb = if start { "start" } else { "stop" };
    Err(match Errno::from_io_error(&error) {
        Some(Errno::NOENT) => Failure::failed(no_plugin(door, name)),
        Some(Errno::ALREADY) => Failure::failed(format!(
            "plugin {name} is {} already",
            if start { "started" } else { "stopped" }
        )),
        Some(Errno::PERM) => device::failed(&format!("plugin {name}"), &error),
        Some(Errno::ACCESS) => Failure::cannot(format!("plugin {name}: {}", device::LOCKED_DOWN)),
        _ => Failure::failed(format!(
            "plugin {name} did not {verb}: {error}; the kernel's log (dmesg) may say more"
        )),
    })
}

/// Why no plugin of that name could be started or stopped.
pub fn no_plugin(door: &impl Door, name: &str) -> String {
    let loaded: Vec<String> = device::plugins(door)
        .unwrap_or_default()
        .iter()
        .map(|plugin| from_name(&plugin.name))
        .collect();
    if loaded.is_empty() {
        return format!("no plugin {name}: none is loaded; `jifl load FILE.ko` loads one");
    }
    format!("no plugin {name}; loaded: {}", loaded.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::fake::Fake;

    #[test]
    fn plugins_are_switched_by_name() {
        let fake = Fake::default();
        let why = |result: Result<(), Failure>| result.unwrap_err().message;
        assert!(why(switch(&fake, "icount", true)).contains("jifl load"));
        fake.state().plugins.push(("icount".into(), false));
        assert!(switch(&fake, "icount", true).is_ok());
        assert!(why(switch(&fake, "icount", true)).contains("started already"));
        assert!(switch(&fake, "icount", false).is_ok());
        assert!(why(switch(&fake, "count", false)).contains("loaded: icount"));
    }

    #[test]
    fn names_of_modules() {
        for (text, name) in [
            ("icount", "icount"),
            ("a/my-tool.ko", "my_tool"),
            ("jifl.ko.xz", "jifl"),
        ] {
            assert_eq!(module_name(text), name);
        }
    }

    #[test]
    fn each_refusal_is_one_line() {
        for errno in [Errno::PERM, Errno::EXIST, Errno::NOEXEC, Errno::IO] {
            let failure = not_loaded(Path::new("x.ko"), errno);
            assert!(!failure.message.contains('\n'));
        }
    }
}
