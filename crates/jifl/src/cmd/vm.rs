// SPDX-License-Identifier: MIT OR Apache-2.0
//! `jifl vm`: a command in a throwaway machine.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, FromArgMatches, ValueEnum};
use jifl_vm::{Accel, Config, accel, host, kernel};

use crate::base::exit::Failure;
use crate::base::{module, root};

/// Which accelerator the user wants.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Wanted {
    /// KVM if the CPU shows that it can run it, otherwise TCG
    Auto,
    Kvm,
    Tcg,
}

/// Arguments of `jifl vm`.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit status: that of the command, or one of these, with a line on stderr:
  2 usage, 3 this host cannot (no QEMU, kernel or module),
  122 warnings in the kernel's log (--strict), 123 the guest panicked,
  124 the time limit, 125 the machine failed to start.

The guest sees the host's files. What it writes is gone with it, except below
the directories given with --rw.")]
pub struct VmArgs {
    /// A series among build/kernels (6.1, 6.12), or the path of a kernel image
    #[arg(long, default_value = "6.1", value_name = "6.1|6.12|PATH")]
    kernel: String,
    /// Boot as bootloaders do, with a randomized address of the kernel (slower)
    #[arg(long)]
    kaslr: bool,
    /// Number of CPUs [default: 2, with --icount 1]
    #[arg(long, value_name = "N")]
    smp: Option<u32>,
    /// Memory
    #[arg(long, default_value = "2G", value_name = "SIZE")]
    memory: String,
    /// How QEMU runs the guest
    #[arg(long, value_enum, default_value = "auto")]
    accel: Wanted,
    /// CPU model, in QEMU's words [default: max, with KVM host]
    #[arg(long, value_name = "MODEL")]
    cpu: Option<String>,
    /// One nanosecond of guest time for each instruction: exact, repeatable counts
    #[arg(long)]
    icount: bool,
    /// Have QEMU load this plugin, with its arguments as QEMU takes them
    #[arg(long, value_name = "FILE[,NAME=VALUE]...")]
    plugin: Option<OsString>,
    /// More kernel parameters; may be given several times
    #[arg(long, value_name = "ARGS", allow_hyphen_values = true)]
    append: Vec<String>,
    /// Stop the machine when the command has run for S seconds; 0: never
    #[arg(long, default_value_t = 600, value_name = "S")]
    timeout: u64,
    /// The machine must be up after S seconds
    #[arg(long, default_value_t = 180, value_name = "S")]
    boot_timeout: u64,
    /// Leave the jifl module out
    #[arg(long)]
    no_module: bool,
    /// Insert this module, too, after jifl's; may be given several times
    #[arg(long, value_name = "FILE.ko")]
    module: Vec<PathBuf>,
    /// A directory in which the guest's writes reach the host; may be given several times
    #[arg(long, value_name = "DIR")]
    rw: Vec<PathBuf>,
    /// Write the whole log of the guest's console to FILE
    #[arg(long, value_name = "FILE")]
    console: Option<PathBuf>,
    /// Have QEMU's monitor (QMP) listen at this path, which must not exist; dump-guest-memory
    /// writes images of memory
    #[arg(long, value_name = "SOCKET")]
    monitor: Option<PathBuf>,
    /// Write the machine's memory to FILE if it panics: an ELF core file
    #[arg(long, value_name = "FILE")]
    dump: Option<PathBuf>,
    /// When the machine resets itself, start it again, with its memory as it was, and the command
    #[arg(long)]
    restarts: bool,
    /// Fail, too, when the kernel's log holds a warning
    #[arg(long)]
    strict: bool,
    /// The command and its arguments
    #[arg(required = true, last = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// The arguments of a machine that runs this command, and is else as by default. `kernel`: as of
/// `--kernel`.
pub fn arguments(kernel: Option<&str>, command: &[&str]) -> VmArgs {
    let kernel = kernel.map(|kernel| ["--kernel", kernel]);
    let words = ["vm"].into_iter().chain(kernel.into_iter().flatten());
    let words = words.chain(["--"]).chain(command.iter().copied());
    let machine = clap::Command::new("vm");
    VmArgs::from_arg_matches(&VmArgs::augment_args(machine).get_matches_from(words))
        .expect("the words are those of a machine")
}

/// Runs the command; the result is the exit status.
pub fn run(args: VmArgs) -> Result<u8, Failure> {
    let config = configure(args, root::find())?;
    host::check(&config).map_err(Failure::cannot)?;
    let outcome = host::run(&config).map_err(Failure::failed)?;
    Ok(outcome.status())
}

/// `root`: the source tree, or why there is none.
fn configure(args: VmArgs, root: Result<PathBuf, String>) -> Result<Config, Failure> {
    let kernel = match &root {
        Err(why) if !args.kernel.contains('/') => {
            return Err(Failure::cannot(format!(
                "{why}, or name a kernel with --kernel PATH (--kernel /boot/vmlinuz-...)"
            )));
        }
        Err(_) => kernel::find(&args.kernel, Path::new("")),
        Ok(root) => kernel::find(&args.kernel, &root.join("build/kernels")),
    }
    .map_err(Failure::cannot)?;
    let root = root.ok();
    let accel = match args.accel {
        Wanted::Tcg => Accel::Tcg,
        Wanted::Kvm if args.icount => {
            return Err(Failure::usage(
                "--icount counts instructions that QEMU translates: not with --accel kvm",
            ));
        }
        Wanted::Kvm if args.plugin.is_some() => {
            return Err(Failure::usage(
                "--plugin sees instructions that QEMU translates: not with --accel kvm",
            ));
        }
        Wanted::Kvm => Accel::Kvm,
        Wanted::Auto if args.icount || args.plugin.is_some() => Accel::Tcg,
        Wanted::Auto => accel::auto().0,
    };
    let smp = args.smp.unwrap_or(if args.icount { 1 } else { 2 });
    if args.icount && smp != 1 {
        return Err(Failure::usage("--icount works with one CPU only"));
    }
    let default_cpu = if accel == Accel::Kvm { "host" } else { "max" };

    let mut modules = Vec::new();
    if !args.no_module {
        modules.push(own_module(root.as_deref(), &kernel.release)?);
    }
    for module in &args.module {
        modules.push(absolute(module)?);
    }
    let mut writable = Vec::new();
    for directory in &args.rw {
        writable.push(absolute(directory)?);
    }
    let cwd = std::env::current_dir()
        .map_err(|error| Failure::failed(format!("current directory: {error}")))?;
    let init = std::env::current_exe()
        .map_err(|error| Failure::failed(format!("/proc/self/exe: {error}")))?;
    Ok(Config {
        kaslr: args.kaslr,
        smp,
        memory: args.memory,
        cpu: args.cpu.unwrap_or_else(|| default_cpu.into()),
        accel,
        icount: args.icount,
        plugin: args.plugin,
        append: args.append,
        modules,
        writable,
        console: args.console,
        monitor: args.monitor,
        dump: args.dump.map(|path| cwd.join(path)),
        restarts: args.restarts,
        strict: args.strict,
        boot_timeout: Duration::from_secs(args.boot_timeout),
        timeout: (args.timeout > 0).then(|| Duration::from_secs(args.timeout)),
        command: args.command,
        env: environment(root.as_deref(), &init),
        cwd,
        init,
        kernel,
    })
}

/// JIFL's module for the kernel `release`: the source tree's, or the installed one.
fn own_module(root: Option<&Path>, release: &str) -> Result<PathBuf, Failure> {
    let Some(root) = root else {
        return module::installed(Path::new("/"), release).ok_or_else(|| {
            Failure::cannot(format!(
                "there is no module for {release}: {}; or give --no-module",
                module::remedy(Path::new("/"), release)
            ))
        });
    };
    let module = root::module(root, release);
    if module.exists() {
        return Ok(module);
    }
    Err(Failure::cannot(format!(
        "{} is not there: run `make modules`, or give --no-module",
        module.display()
    )))
}

/// The caller's environment. First on PATH are the tree's programs, or this one's directory.
fn environment(root: Option<&Path>, program: &Path) -> Vec<(OsString, OsString)> {
    let programs = match root {
        Some(root) => root.join("build/bin"),
        None => program.parent().unwrap_or(Path::new("/")).to_owned(),
    };
    let mut path = programs.into_os_string();
    let inherited = std::env::var_os("PATH");
    path.push(":");
    path.push(inherited.unwrap_or_else(|| "/usr/sbin:/usr/bin:/sbin:/bin".into()));
    let mut env: Vec<(OsString, OsString)> = std::env::vars_os()
        .filter(|(name, _)| name != "PATH" && name != "JIFL_ROOT")
        .collect();
    env.push(("PATH".into(), path));
    if let Some(root) = root {
        env.push(("JIFL_ROOT".into(), root.as_os_str().to_owned()));
    }
    env.push(("JIFL_VM".into(), "1".into()));
    env
}

fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    std::fs::canonicalize(path)
        .map_err(|error| Failure::failed(format!("{}: {error}", path.display())))
}
