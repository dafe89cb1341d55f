// SPDX-License-Identifier: MIT OR Apache-2.0
//! The output of the kernel's console: its last lines, and the lines that mean trouble.

use std::collections::VecDeque;

use crate::stale::StaleBreakpoint;

/// Lines of the log that no healthy run has. Kept as text that stands in the
/// kernel's sources, not as clever patterns.
const TROUBLE: &[&str] = &[
    "WARNING: CPU:",
    "WARNING: possible",
    "WARNING: suspicious",
    "WARNING: kernel stack",
    "WARNING: can't access registers",
    "BUG:",
    "Oops:",
    "general protection fault",
    "Kernel panic",
    "kernel BUG at",
    "INFO: task ",
    "blocked for more than",
    "soft lockup",
    "hard LOCKUP",
    "detected stall",
    "scheduling while atomic",
    "Unable to handle",
    "stack-protector:",
    "double fault",
    "invalid opcode",
    "int3:",
];

/// A machine that ends without a word has panicked if one of these is in its log.
const PANIC: &[&str] = &["Kernel panic", "Oops:", "BUG:", "double fault"];

/// The kernel's last line of a panic, by its notifiers (`dump_kernel_offset` in
/// arch/x86/kernel/setup.c). What follows is the restart, or the boot of a kernel that keeps a dump.
const PANIC_END: &str = "Kernel Offset: ";

/// A CPU that runs has not told RCU for 21 seconds that it does.
const STALL: &str = "detected stall";

/// From 6.19 on `__warn` begins with the place: `WARNING: FILE:LINE at SYMBOL, CPU#N: COMM/PID`.
const WARNING: [&str; 2] = ["WARNING: ", "CPU#"];

fn is_trouble(line: &str) -> bool {
    TROUBLE.iter().any(|sign| line.contains(sign)) || WARNING.iter().all(|sign| line.contains(sign))
}

/// The log so far: enough of it to say what happened.
#[derive(Debug, Default)]
pub struct Console {
    tail: VecDeque<String>,
    partial: Vec<u8>,
    trouble: Option<String>,
    panic: Option<String>,
    stall: Option<String>,
    ended: bool,
    stale: StaleBreakpoint,
}

impl Console {
    const TAIL: usize = 100;

    /// Takes the next bytes.
    pub fn feed(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            match byte {
                b'\n' => self.end_line(),
                b'\r' => {}
                _ => self.partial.push(byte),
            }
        }
    }

    fn end_line(&mut self) {
        let line = String::from_utf8_lossy(&self.partial).into_owned();
        self.partial.clear();
        if self.trouble.is_none() && is_trouble(&line) {
            self.trouble = Some(line.clone());
        }
        if self.panic.is_none() && PANIC.iter().any(|sign| line.contains(sign)) {
            self.panic = Some(line.clone());
        }
        if self.stall.is_none() && line.contains(STALL) {
            self.stall = Some(line.clone());
        }
        self.ended = self.panic.is_some() && line.contains(PANIC_END);
        self.stale.line(&line);
        if self.tail.len() == Self::TAIL {
            self.tail.pop_front();
        }
        self.tail.push_back(line);
    }

    /// The first line in which RCU complains of a CPU.
    pub fn stall(&self) -> Option<&str> {
        self.stall.as_deref()
    }

    /// The first line that means trouble: a warning or worse.
    pub fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    /// The first line of an oops or panic.
    pub fn panic(&self) -> Option<&str> {
        self.panic.as_deref()
    }

    /// Whether a panic's last line is the last one of the log.
    pub fn panic_has_ended(&self) -> bool {
        self.ended
    }

    /// Where the emulator executes a breakpoint that is not in memory.
    pub fn stale_breakpoint(&self) -> Option<&str> {
        self.stale.found()
    }

    /// The last `count` lines, including an unfinished one.
    pub fn tail(&self, count: usize) -> Vec<String> {
        let mut lines: Vec<String> = self.tail.iter().cloned().collect();
        if !self.partial.is_empty() {
            lines.push(String::from_utf8_lossy(&self.partial).into_owned());
        }
        lines.split_off(lines.len().saturating_sub(count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trouble_is_found_across_pieces() {
        let mut console = Console::default();
        console.feed(b"[ 1.0] all is well\r\n[ 1.1] WARN");
        assert_eq!(console.trouble(), None);
        console.feed(b"ING: CPU: 0 PID: 1 at x.c:1\n");
        assert_eq!(
            console.trouble(),
            Some("[ 1.1] WARNING: CPU: 0 PID: 1 at x.c:1")
        );
        assert_eq!(console.panic(), None);
        console.feed(b"[ 2.0] Kernel panic - not syncing: x\n");
        assert!(console.panic().is_some());
        assert_eq!(console.tail(1), ["[ 2.0] Kernel panic - not syncing: x"]);
    }

    #[test]
    fn warnings_of_newer_kernels_are_trouble() {
        let line = "[ 1.1] WARNING: kernel/x.c:7 at f+0x1/0x9, CPU#1: cat/42";
        let mut console = Console::default();
        console.feed(b"[ 1.0] WARNING: the clock is slow\n[ 1.0] smp: CPU#1 is up\n");
        assert_eq!(console.trouble(), None);
        console.feed(format!("{line}\n").as_bytes());
        assert_eq!(console.trouble(), Some(line));
    }

    #[test]
    fn a_panic_ends_with_its_last_line() {
        let mut console = Console::default();
        console.feed(b"[ 1.0] Kernel Offset: disabled\n");
        assert!(!console.panic_has_ended(), "nothing has panicked");
        console.feed(b"[ 2.0] Kernel panic - not syncing: x\n");
        assert!(!console.panic_has_ended());
        console.feed(b"[ 2.1] Kernel Offset: disabled\n");
        assert!(console.panic_has_ended());
        console.feed(b"[ 0.0] Linux version 6.1.0\n");
        assert!(!console.panic_has_ended(), "a kernel that keeps a dump");
    }

    #[test]
    fn the_tail_is_bounded() {
        let mut console = Console::default();
        for line in 0..1000 {
            console.feed(format!("{line}\n").as_bytes());
        }
        assert_eq!(console.tail(2), ["998", "999"]);
        assert_eq!(console.tail(5000).len(), Console::TAIL);
    }
}
