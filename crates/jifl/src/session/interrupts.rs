// SPDX-License-Identifier: MIT OR Apache-2.0
//! The interrupts of /proc/interrupts that have numbers, and the functions that handle them. The
//! module says which functions these are.

use std::fs;
use std::io;

use jifl_sys::abi::{Irq, from_name};
use jifl_sys::device::{Door, Request};
use rustix::io::Errno;

use crate::base::exit::Failure;
use crate::session::device;

/// What handles an interrupt. Devices that share one have one of these each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interrupt {
    /// Its number.
    pub nr: u32,
    /// As in the last column of /proc/interrupts.
    pub name: String,
    /// The function that is called in the interrupt, with the number as its first argument.
    pub handler: u64,
    /// What a thread calls afterwards, with the same argument; 0: none.
    pub thread: u64,
}

/// Those of the running kernel.
///
/// # Errors
/// The module is not loaded, or does not tell.
pub fn of_kernel() -> Result<Vec<Interrupt>, Failure> {
    let list = fs::read_to_string("/proc/interrupts")
        .map_err(|error| Failure::cannot(format!("/proc/interrupts: {error}")))?;
    let device = device::open()?;
    let mut all = Vec::new();
    for nr in numbers(&list) {
        all.extend(of(&device, nr)?);
    }
    Ok(all)
}

/// The numbers that lines begin with. Other lines are about interrupts between processors and such.
fn numbers(list: &str) -> Vec<u32> {
    let first = |line: &str| line.split_once(':')?.0.trim().parse().ok();
    list.lines().filter_map(first).collect()
}

/// All that handle the interrupt.
fn of(door: &impl Door, nr: u32) -> Result<Vec<Interrupt>, Failure> {
    let mut all = Vec::new();
    loop {
        let mut asked = Irq {
            irq: nr,
            action: all.len() as u32,
            ..Irq::default()
        };
        match door.call(Request::Irq(&mut asked)) {
            Ok(()) => all.push(Interrupt {
                nr,
                name: from_name(&asked.name),
                handler: asked.handler,
                thread: asked.thread,
            }),
            Err(error) => return ended(&error).map(|()| all),
        }
    }
}

fn ended(error: &io::Error) -> Result<(), Failure> {
    match Errno::from_io_error(error) {
        Some(Errno::NOENT) => Ok(()),
        Some(Errno::OPNOTSUPP) => Err(Failure::cannot(
            "the kernel does not tell what handles interrupts (irq_to_desc)",
        )),
        _ => Err(device::failed("asking what handles an interrupt", error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::fake::Fake;

    #[test]
    fn all_that_share_an_interrupt_are_asked_for() {
        let fake = Fake::default();
        let all = of(&fake, 4).unwrap();
        let handlers: Vec<u64> = all.iter().map(|one| one.handler).collect();
        assert_eq!(
            (handlers, all[1].name.as_str()),
            (vec![0x1010, 0x1011], "ttyS0")
        );
        assert_eq!(of(&fake, 5).unwrap(), []);
    }

    #[test]
    fn numbers_are_those_of_devices() {
        let list = "           CPU0       CPU1\n  4:     10    0  IO-APIC   4-edge  ttyS0\n \
                    24:  1  2  PCI-MSIX  virtio0-config\nNMI:    0   0   Non-maskable interrupts\n";
        assert_eq!(numbers(list), [4, 24]);
    }
}
