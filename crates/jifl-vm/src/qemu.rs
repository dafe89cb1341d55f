// SPDX-License-Identifier: MIT OR Apache-2.0
//! The QEMU command line.

use std::os::fd::RawFd;
use std::path::Path;
use std::process::Command;

use crate::monitor::STUB;
use crate::{Accel, Config};

/// The program; its package is `qemu-system-x86`.
pub(crate) const PROGRAM: &str = "qemu-system-x86_64";

/// The oldest QEMU that runs kernels reliably whose text is patched under load
/// on several translated CPUs; 7.2 makes stock kernels oops.
pub const MINIMUM: u32 = 10;

/// 9p tag of the host's root; writable directories are `rw0`, `rw1`, ...
pub(crate) const ROOT_TAG: &str = "root";

/// Always there. An oops ends the machine (`panic=-1` reboots, `-no-reboot`
/// turns that into an exit), and the console has everything up to KERN_INFO. The kernel
/// does not look whether its timer ticks: where the host is busy it may not have, and the kernel
/// panics for that (`check_timer` in arch/x86/kernel/apic/io_apic.c). Nor does it compare the time
/// stamp counters with another clock: translated CPUs have one counter, and on a busy host the
/// comparison finds it wrong (kernel/time/clocksource.c). Ciphers do not test
/// themselves, nor does the source of randomness that CPUs' jitter is: on a translated CPU that is
/// a sixth of the boot.
const KERNEL_PARAMETERS: &str = "console=ttyS0 loglevel=7 oops=panic panic=-1 no_timer_check \
     tsc=reliable cryptomgr.notests initcall_blacklist=jent_mod_init";

/// Descriptors that QEMU inherits.
pub(crate) struct Inherited {
    pub initramfs: RawFd,
    pub console: RawFd,
    pub port: RawFd,
    /// See [`crate::cpus`].
    pub monitor: RawFd,
    /// See [`crate::heal`].
    pub watched: Option<Watched>,
}

/// The monitor's, and the gdbstub's when that is started.
pub(crate) struct Watched {
    pub monitor: RawFd,
    pub stub: RawFd,
}

/// The major version of the installed QEMU, with the whole first line it prints.
pub fn version() -> Result<(u32, String), String> {
    let output = Command::new(PROGRAM)
        .arg("--version")
        .output()
        .map_err(|error| format!("{PROGRAM}: {error}; run `make setup`"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().next().unwrap_or_default().to_owned();
    let major = line
        .split_whitespace()
        .skip_while(|word| *word != "version")
        .nth(1)
        .and_then(|version| version.split('.').next())
        .and_then(|major| major.parse().ok())
        .ok_or_else(|| format!("{PROGRAM} --version says {line:?}, which names no version"))?;
    Ok((major, line))
}

/// Builds the command.
pub(crate) fn command(config: &Config, fds: &Inherited) -> Command {
    let mut command = Command::new(PROGRAM);
    let mut add = |arguments: &[&str]| {
        command.args(arguments);
    };
    add(&["-name", "jifl-vm", "-nodefaults", "-no-user-config"]);
    add(&["-display", "none", "-machine", "q35"]);
    if !config.restarts {
        add(&["-no-reboot"]);
    }
    // It waits for somebody to take its memory.
    if config.dump.is_some() {
        add(&["-no-shutdown"]);
    }
    match (config.accel, config.icount) {
        (_, true) => {
            add(&["-accel", "tcg,thread=single"]);
            add(&["-icount", "shift=0,sleep=off"]);
        }
        (Accel::Kvm, _) => add(&["-accel", "kvm"]),
        (Accel::Tcg, _) => add(&["-accel", "tcg,thread=multi"]),
    }
    if let Some(plugin) = &config.plugin {
        add(&["-plugin", &plugin.to_string_lossy()]);
    }
    add(&["-cpu", &config.cpu]);
    add(&["-smp", &config.smp.to_string(), "-m", &config.memory]);
    let kernel = &config.kernel;
    let unpacked = kernel.unpacked.as_ref().filter(|_| !config.kaslr);
    let image = unpacked.unwrap_or(&kernel.image);
    add(&["-kernel", &image.to_string_lossy()]);
    add(&["-initrd", &format!("/proc/self/fd/{}", fds.initramfs)]);
    let parameters: Vec<&str> = std::iter::once(KERNEL_PARAMETERS)
        .chain(config.append.iter().map(String::as_str))
        .collect();
    add(&["-append", &parameters.join(" ")]);

    add(&["-chardev", &format!("socket,id=console,fd={}", fds.console)]);
    add(&["-serial", "chardev:console"]);
    add(&["-chardev", &format!("socket,id=port,fd={}", fds.port)]);
    // Each of its ports, 31 unless told, has queues that QEMU polls.
    add(&["-device", "virtio-serial-pci,max_ports=2"]);
    add(&["-device", "virtserialport,chardev=port,name=jifl"]);

    let mut add_monitor = |id: &str, fd: RawFd| {
        add(&["-chardev", &format!("socket,id={id},fd={fd}")]);
        add(&["-mon", &format!("chardev={id},mode=control")]);
    };
    add_monitor("monitor", fds.monitor);
    if let Some(fds) = &fds.watched {
        add_monitor("watch", fds.monitor);
        add(&["-chardev", &format!("socket,id={STUB},fd={}", fds.stub)]);
    }

    if let Some(path) = &config.monitor {
        let path = escaped(path);
        add(&[
            "-chardev",
            &format!("socket,id=user,path={path},server=on,wait=off"),
        ]);
        add(&["-mon", "chardev=user,mode=control"]);
        add(&["-device", "vmcoreinfo"]);
    }

    add_share(&mut add, ROOT_TAG, Path::new("/"), true);
    for (index, directory) in config.writable.iter().enumerate() {
        add_share(&mut add, &format!("rw{index}"), directory, false);
    }
    command
}

/// A path among the options of one argument.
fn escaped(path: &Path) -> String {
    path.to_string_lossy().replace(',', ",,")
}

fn add_share(add: &mut impl FnMut(&[&str]), tag: &str, path: &Path, readonly: bool) {
    let path = escaped(path);
    let readonly = if readonly { ",readonly=on" } else { "" };
    // multidevs: the host's root has several file systems, whose inode numbers would collide.
    let fsdev = format!("local,id={tag},path={path},security_model=none,multidevs=remap{readonly}");
    add(&["-fsdev", &fsdev]);
    let device = format!("virtio-9p-pci,fsdev={tag},mount_tag={tag}");
    add(&["-device", &device]);
}
