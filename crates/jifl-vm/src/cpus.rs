// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the CPUs of a machine are at, as QEMU's monitor says it while the machine goes on.

use std::io;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use crate::monitor::Monitor;

/// A CPU's state, as far as it matters to this crate.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Cpu {
    pub rip: u64,
    pub rsp: u64,
    pub idt: u64,
    pub halted: bool,
}

/// Of all CPUs, in their order, from what `info registers -a` prints.
pub(crate) fn registers(text: &str) -> Vec<Cpu> {
    let number = |text: &str, name: &str| {
        let (_, value) = text.split_once(name)?;
        let value = value.split_whitespace().next()?;
        u64::from_str_radix(value, 16).ok()
    };
    text.split("CPU#")
        .skip(1)
        .map_while(|text| {
            Some(Cpu {
                rip: number(text, "RIP=")?,
                rsp: number(text, "RSP=")?,
                idt: number(text, "IDT=")?,
                halted: text.contains("HLT=1"),
            })
        })
        .collect()
}

/// What `info lapic` says of the timer and of the interrupts that wait or are served.
fn interrupts(text: &str) -> String {
    let told = |&name: &&str| {
        text.lines()
            .find(|line| line.split_whitespace().next() == Some(name))
    };
    let lines = ["LVTT", "Timer", "ISR", "IRR"].iter().filter_map(told);
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    lines.map(words).collect::<Vec<_>>().join("; ")
}

/// A line for each CPU of a machine that does not come up, for people: where it is, and what its
/// interrupt controller says. Of a machine that has ended there is nothing to tell.
pub(crate) fn describe(monitor: UnixStream) -> Vec<String> {
    try_describe(monitor).unwrap_or_default()
}

fn try_describe(monitor: UnixStream) -> io::Result<Vec<String>> {
    monitor.set_read_timeout(Some(Duration::from_secs(10)))?;
    let mut monitor = Monitor::open(monitor)?;
    let cpus = registers(&monitor.print(0, "info registers -a")?);
    let describe = |(index, cpu): (usize, &Cpu)| {
        let halted = if cpu.halted { ", halted" } else { "" };
        let printed = monitor.print(index, &format!("info lapic {index}"))?;
        let interrupts = interrupts(&printed);
        Ok(format!(
            "CPU {index}: rip {:#x}{halted}; {interrupts}",
            cpu.rip
        ))
    };
    cpus.iter().enumerate().map(describe).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of QEMU 10.0.2, without the lines that do not matter.
    const REGISTERS: &str = "\r
CPU#0\r
RAX=0000000000000000 RBX=ffff88807dd2a0c0 RCX=0000000000000000 RDX=0000000000000000\r
RSI=0000000000000003 RDI=ffffc90000427958 RBP=0000000000000000 RSP=ffffc90000427908\r
RIP=ffffffff81a3c0f2 RFL=00000082 [--S----] CPL=0 II=0 A20=1 SMM=0 HLT=0\r
GDT=     fffffe0000001000 0000007f\r
IDT=     fffffe0000000000 00000fff\r
\r
CPU#1\r
RSI=0000000000000003 RDI=0000000000000000 RBP=0000000000000000 RSP=00007ffd00427908\r
RIP=0000000000401000 RFL=00000246 [---Z-P-] CPL=3 II=0 A20=1 SMM=0 HLT=1\r
IDT=     fffffe0000000000 00000fff\r
";

    #[test]
    fn registers_are_read() {
        let idt = 0xffff_fe00_0000_0000;
        let cpus = [
            Cpu {
                rip: 0xffff_ffff_81a3_c0f2,
                rsp: 0xffff_c900_0042_7908,
                idt,
                halted: false,
            },
            Cpu {
                rip: 0x40_1000,
                rsp: 0x7ffd_0042_7908,
                idt,
                halted: true,
            },
        ];
        assert_eq!(registers(REGISTERS), cpus);
        assert_eq!(registers("unknown command"), []);
    }

    /// Of QEMU 10.0.2, in part.
    const LAPIC: &str = "dumping local APIC state for CPU 1 \r
\r
LVTTHMR\t 0x00010000 active-hi edge  masked                      Fixed  (vec 0)\r
LVTT\t 0x000000ec active-hi edge                 one-shot     Fixed  (vec 236)\r
Timer\t DCR=0x3 (divide by 16) initial_count = 24 current_count = 0\r
ISR\t (none)\r
IRR\t 236\r
";

    #[test]
    fn the_timer_is_described() {
        assert_eq!(
            interrupts(LAPIC),
            "LVTT 0x000000ec active-hi edge one-shot Fixed (vec 236); \
             Timer DCR=0x3 (divide by 16) initial_count = 24 current_count = 0; ISR (none); IRR 236"
        );
        assert_eq!(interrupts("Local APIC state not available"), "");
    }
}
