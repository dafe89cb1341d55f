// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs one command in a throwaway QEMU machine under a stock kernel.
//!
//! The guest's root is the host's root file system: mounted over 9p, read-only, under an overlay
//! whose writes vanish with the machine. The guest's only init is this library ([`guest::main`]),
//! as part of the program that called [`host::run`]. Host and guest speak over one virtio-serial
//! port ([`frame`]). docs/vm.md gives the reasons for this design, and the measurements.

pub mod accel;
pub mod console;
mod cpus;
pub mod frame;
pub mod guest;
mod heal;
pub mod host;
mod initramfs;
pub mod kernel;
mod monitor;
mod qemu;
mod stale;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

pub use accel::Accel;

/// What machine to make and what to run in it.
#[derive(Debug, Clone)]
pub struct Config {
    /// The kernel image and its modules.
    pub kernel: kernel::Kernel,
    /// Boot the compressed image, whose loader randomizes the kernel's address.
    pub kaslr: bool,
    /// Number of CPUs.
    pub smp: u32,
    /// Guest memory, in QEMU's notation (`2G`).
    pub memory: String,
    /// QEMU's CPU model.
    pub cpu: String,
    /// KVM or TCG.
    pub accel: Accel,
    /// Guest time advances one nanosecond an instruction; implies TCG, one CPU.
    pub icount: bool,
    /// A plugin of QEMU's and its arguments, in QEMU's notation (`FILE,NAME=VALUE`); implies TCG.
    pub plugin: Option<OsString>,
    /// More kernel parameters; they come last and so win.
    pub append: Vec<String>,
    /// Modules to insert before the command, in this order.
    pub modules: Vec<PathBuf>,
    /// Directories in which the guest's writes reach the host.
    pub writable: Vec<PathBuf>,
    /// Where the whole log of the console goes.
    pub console: Option<PathBuf>,
    /// Where QEMU's monitor listens; the machine then leaves in its images of memory where its
    /// kernel is.
    pub monitor: Option<PathBuf>,
    /// Where the machine's memory goes, as an ELF core file, when the guest panics.
    pub dump: Option<PathBuf>,
    /// A reset of the machine starts it again, with its memory as it was, and the command with it.
    pub restarts: bool,
    /// Warnings in the kernel's log are a failure, too.
    pub strict: bool,
    /// The machine must be up within this time.
    pub boot_timeout: Duration,
    /// The command must have ended within this time after the machine was up.
    pub timeout: Option<Duration>,
    /// Program and arguments.
    pub command: Vec<OsString>,
    /// Environment of the command.
    pub env: Vec<(OsString, OsString)>,
    /// Directory the command starts in.
    pub cwd: PathBuf,
    /// The static program that becomes the guest's init; it must call
    /// [`guest::main`] when its process id is 1.
    pub init: PathBuf,
}

/// How the run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The command ended with this status (128 + signal when killed by one).
    Exited(u8),
    /// The command succeeded, but the kernel's log holds warnings: this is the first.
    Dirty(String),
    /// The guest's kernel panicked or the machine ended on its own.
    Panicked(String),
    /// QEMU executed code that is not in the guest's memory, at this place. So the guest's
    /// behaviour means nothing.
    EmulatorFailed(String),
    /// The time was up.
    TimedOut(Duration),
    /// The command never started.
    BootFailed(String),
    /// Nobody reads our standard output any more.
    OutputClosed,
}

impl Outcome {
    /// QEMU's failure, not the guest's.
    pub const EMULATOR_FAILED: u8 = 121;
    /// The log has warnings although the command succeeded (`--strict` only).
    pub const DIRTY: u8 = 122;
    /// The guest panicked.
    pub const PANICKED: u8 = 123;
    /// The time was up.
    pub const TIMED_OUT: u8 = 124;
    /// The machine failed to boot.
    pub const BOOT_FAILED: u8 = 125;

    /// The exit status for this outcome.
    pub fn status(&self) -> u8 {
        match self {
            Outcome::Exited(status) => *status,
            Outcome::Dirty(_) => Self::DIRTY,
            Outcome::Panicked(_) => Self::PANICKED,
            Outcome::EmulatorFailed(_) => Self::EMULATOR_FAILED,
            Outcome::TimedOut(_) => Self::TIMED_OUT,
            Outcome::BootFailed(_) => Self::BOOT_FAILED,
            Outcome::OutputClosed => 141, // a shell's status for death by SIGPIPE
        }
    }
}
