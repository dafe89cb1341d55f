// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ends the loop of a CPU that takes a breakpoint which is not in memory any more; see
//! [`crate::stale`] for how QEMU gets there.
//!
//! 1. A glance asks QEMU's monitor for the registers and a piece of each CPU's stack. The machine
//!    goes on meanwhile. So no test sees anything of it. What is read may be a mixture of two
//!    moments. A look is several glances.
//! 2. A CPU is in the handler of a breakpoint if the stack has the handler's return address, with
//!    the frame of an exception of kernel code above it; or if the CPU is at the handler's first
//!    instructions, with the frame on top. The IDT tells the handler's address.
//! 3. The byte before the address in the frame is the breakpoint. Where it is another byte, either
//!    the kernel has just removed it, or QEMU executes a translation of what was there before. The
//!    first ends at once, unless the host lets that CPU's thread wait. A CPU that is found so at
//!    [`ENOUGH`] glances of each of [`LOOKS`] looks in a row, for the same place, and never at a
//!    breakpoint that is in memory, is taken to be in the second case.
//! 4. Then the machine is stopped, and QEMU's gdbstub writes the bytes at the place as they are.
//!    QEMU does that write first, and drops the translations of the place after it
//!    (system/physmem.c, `address_space_write_rom`). No CPU runs meanwhile. So the next translation
//!    is of what is in memory.
//! 5. The machine goes on with the same registers and the same memory. The clocks that the guest
//!    reads stand still while it is stopped. So a wrong guess in 3 costs a pause, no more.
//! 6. It helps where the handler returns to a breakpoint that is nobody's: in kernels before 6.3.
//!    Later ones oops at the first one, before anybody can look.

use std::collections::HashMap;
use std::io;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use serde_json::json;

use crate::cpus::{Cpu, registers};
use crate::monitor::{Monitor, STUB, Stub};

/// [`LOOKS`] of them are well below the 20 seconds after which kernels complain.
const INTERVAL: Duration = Duration::from_secs(1);
const LOOKS: u32 = 3;

/// A CPU in the loop was found in the handler at about half of the glances: its registers are not
/// always up to date in QEMU, and some of the loop is outside of the handler.
const GLANCES: usize = 10;
const ENOUGH: usize = 3;
/// If these show nothing, there is nothing.
const FIRST_GLANCES: usize = 2;

/// Of the stack, in words: more than what the handler of a breakpoint calls has there.
const STACK: usize = 256;
/// The handler's entry has so many bytes at most; the next handler begins after them.
const ENTRY: u64 = 0x40;
const KERNEL: u64 = 0xffff_8000_0000_0000;
const INT3: u8 = 0xcc;

/// What `x` prints: lines of an address, a colon and values.
fn values(text: &str) -> Vec<u64> {
    text.lines()
        .filter_map(|line| line.split_once(": "))
        .flat_map(|(_, values)| values.split_whitespace())
        .map_while(|value| u64::from_str_radix(value.strip_prefix("0x")?, 16).ok())
        .collect()
}

/// Where the handler is, by its gate in the IDT.
fn handler(gate: &[u64]) -> Option<u64> {
    let &[low, high] = gate else {
        return None;
    };
    let handler = low & 0xffff | low >> 48 << 16 | high << 32;
    (handler >= KERNEL).then_some(handler)
}

/// The breakpoint whose handler this CPU executes, which has this stack.
fn breakpoint(rip: u64, stack: &[u64], handler: u64) -> Option<u64> {
    let in_entry = |address: u64| (handler..handler + ENTRY).contains(&address);
    let frame = |words: &[u64]| match *words {
        [ip, 0x10, _flags, sp, 0x18, ..] if ip > KERNEL && sp > KERNEL => Some(ip - 1),
        _ => None,
    };
    if let (true, Some(place)) = (in_entry(rip), frame(stack)) {
        return Some(place);
    }
    // The return address, 15 registers, and what stands for an error code.
    stack.windows(22).find_map(|words| {
        let entered = in_entry(words[0]) && words[16] == u64::MAX;
        entered.then(|| frame(&words[17..])).flatten()
    })
}

/// The place of the breakpoint whose handler a CPU executes, and the byte there, if there is one.
type Seen = Option<(u64, Option<u8>)>;

fn is_removed(seen: Seen) -> bool {
    matches!(seen, Some((_, Some(byte))) if byte != INT3)
}

/// The breakpoint that is not in memory at which each CPU was seen at [`ENOUGH`] of the glances.
/// The handler subtracts 1 from the address in the frame. So one breakpoint shows as two places.
/// The higher one is right. A CPU that was seen there with a breakpoint in memory has gone on
/// since.
fn sum_up(glances: &[Vec<Seen>]) -> Vec<Option<u64>> {
    let cpus = glances.iter().map(Vec::len).min().unwrap_or(0);
    let sum_up = |cpu: usize| {
        let seen = || glances.iter().filter_map(move |glance| glance[cpu]);
        let stale = |&place: &u64| {
            let there = seen().filter(|&(other, _)| other == place);
            let near = seen().filter(|&(other, _)| other == place || other + 1 == place);
            near.count() >= ENOUGH && there.map(Some).all(is_removed)
        };
        seen().map(|(place, _)| place).filter(stale).max()
    };
    (0..cpus).map(sum_up).collect()
}

/// Counts how often in a row each CPU was seen with a breakpoint that is not in memory.
#[derive(Debug, Default)]
struct Sightings(HashMap<usize, (u64, u32)>);

impl Sightings {
    /// Takes what a look has shown of this CPU; gives the place that has to be healed.
    fn add(&mut self, cpu: usize, place: Option<u64>) -> Option<u64> {
        let Some(place) = place else {
            self.0.remove(&cpu);
            return None;
        };
        let (before, times) = self.0.entry(cpu).or_insert((place, 0));
        if *before != place {
            (*before, *times) = (place, 0);
        }
        *times += 1;
        if *times < LOOKS {
            return None;
        }
        self.0.remove(&cpu);
        Some(place)
    }
}

/// Looks again and again, until QEMU has ended.
pub(crate) fn watch(monitor: UnixStream, stub: UnixStream) {
    // Of an error here nobody need know: the machine is none the worse for it.
    let _ = try_watch(monitor, stub);
}

fn try_watch(monitor: UnixStream, stub: UnixStream) -> io::Result<()> {
    let mut monitor = Monitor::open(monitor)?;
    let mut healer = Healer::new(stub)?;
    let mut sightings = Sightings::default();
    loop {
        std::thread::sleep(INTERVAL);
        let mut glances = Vec::new();
        while glances.len() < GLANCES
            && (glances.len() < FIRST_GLANCES
                || glances.iter().flatten().any(|&seen| is_removed(seen)))
        {
            glances.push(glance(&mut monitor)?);
        }
        let places = sum_up(&glances);
        for (cpu, &place) in places.iter().enumerate() {
            if let Some(place) = sightings.add(cpu, place) {
                healer.heal(&mut monitor, cpu, place)?;
                eprintln!(
                    "jifl vm: QEMU executed a breakpoint at {place:#x} that the kernel had \
                     removed; its translation was dropped, the machine goes on"
                );
            }
        }
    }
}

/// What each CPU is at.
fn glance(monitor: &mut Monitor) -> io::Result<Vec<Seen>> {
    let printed = monitor.print(0, "info registers -a")?;
    let cpus = registers(&printed);
    let glance = |(index, cpu)| glance_at(monitor, index, cpu);
    cpus.iter().enumerate().map(glance).collect()
}

fn glance_at(monitor: &mut Monitor, index: usize, cpu: &Cpu) -> io::Result<Seen> {
    if cpu.halted || cpu.rsp < KERNEL || cpu.idt < KERNEL {
        return Ok(None);
    }
    let gate = values(&monitor.print(index, &format!("x/2xg {:#x}", cpu.idt + 3 * 16))?);
    let Some(handler) = handler(&gate) else {
        return Ok(None);
    };
    let stack = values(&monitor.print(index, &format!("x/{STACK}xg {:#x}", cpu.rsp & !7))?);
    let Some(place) = breakpoint(cpu.rip, &stack, handler) else {
        return Ok(None);
    };
    let bytes = values(&monitor.print(index, &format!("x/1xb {place:#x}"))?);
    let byte = bytes.first().and_then(|&byte| u8::try_from(byte).ok());
    Ok(Some((place, byte)))
}

struct Healer {
    stub: Stub<UnixStream>,
    attached: bool,
}

impl Healer {
    fn new(stub: UnixStream) -> io::Result<Self> {
        stub.set_read_timeout(Some(Duration::from_secs(60)))?;
        Ok(Self {
            stub: Stub::new(stub),
            attached: false,
        })
    }

    /// Has QEMU drop the translations of what is at `place`.
    fn heal(&mut self, monitor: &mut Monitor, cpu: usize, place: u64) -> io::Result<()> {
        monitor.execute("stop", json!({}))?;
        let done = self.rewrite(monitor, cpu, place);
        monitor.execute("cont", json!({}))?;
        done
    }

    fn rewrite(&mut self, monitor: &mut Monitor, cpu: usize, place: u64) -> io::Result<()> {
        if !self.attached {
            monitor.print(0, &format!("gdbserver chardev:{STUB}"))?;
            self.attached = true;
        }
        self.stub.rewrite(cpu, place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HANDLER: u64 = 0xffff_ffff_81c0_0ab0;
    const PLACE: u64 = 0xffff_ffff_81a5_a000;

    #[test]
    fn values_end_where_memory_does() {
        let printed = "ffffc90000427ff0: 0x0000000000000001 0xffffffffffffffff\r\n\
                       Cannot access memory\r\n";
        assert_eq!(values(printed), [1, u64::MAX]);
        assert_eq!(values("ffffffff81a5a000: 0xe8\r\n"), [0xe8]);
        assert!(values("Cannot access memory\r\n").is_empty());
    }

    #[test]
    fn the_gate_has_the_handlers_address() {
        let gate = [0x81c0_ee00_0010_0ab0, 0xffff_ffff];
        assert_eq!(handler(&gate), Some(HANDLER));
        assert_eq!(handler(&[0, 0]), None);
        assert_eq!(handler(&gate[..1]), None);
    }

    fn frame(cs: u64, ss: u64) -> Vec<u64> {
        vec![PLACE + 1, cs, 0x82, 0xffff_c900_0042_7a00, ss]
    }

    /// The handler called C, which called more.
    fn stack(returns_to: u64, orig_ax: u64, frame: Vec<u64>) -> Vec<u64> {
        let registers = [7; 15];
        [
            &[3, HANDLER, 4, returns_to][..],
            &registers,
            &[orig_ax],
            &frame,
            &[5, 6],
        ]
        .concat()
    }

    #[test]
    fn the_frame_has_the_place() {
        let elsewhere = 0xffff_ffff_81a3_c0f2;
        let kernel = stack(HANDLER + 0x1b, u64::MAX, frame(0x10, 0x18));
        assert_eq!(breakpoint(elsewhere, &kernel, HANDLER), Some(PLACE));
        let others = [
            stack(HANDLER + 0x1b, u64::MAX, frame(0x33, 0x2b)),
            stack(HANDLER + 0x1b, 0xec, frame(0x10, 0x18)),
            stack(HANDLER + 0x40, u64::MAX, frame(0x10, 0x18)),
            stack(HANDLER - 1, u64::MAX, frame(0x10, 0x18)),
            kernel[..20].to_vec(),
            vec![],
        ];
        for stack in others {
            assert_eq!(breakpoint(elsewhere, &stack, HANDLER), None, "{stack:x?}");
        }
        // At the first instruction nothing is above the frame.
        assert_eq!(
            breakpoint(HANDLER, &frame(0x10, 0x18), HANDLER),
            Some(PLACE)
        );
        assert_eq!(breakpoint(HANDLER, &frame(0x33, 0x2b), HANDLER), None);
        assert_eq!(breakpoint(elsewhere, &frame(0x10, 0x18), HANDLER), None);
    }

    #[test]
    fn what_is_seen_often_counts() {
        let stale = Some((PLACE, Some(0xe8)));
        let sum_of = |seen: &[Seen]| {
            // The other CPU is elsewhere.
            let glances: Vec<Vec<Seen>> = seen.iter().map(|&seen| vec![None, seen]).collect();
            sum_up(&glances)[1]
        };
        let other = Some((PLACE + 7, Some(0x90)));
        assert_eq!(sum_of(&[other, stale, None, stale, stale]), Some(PLACE));
        assert_eq!(sum_of(&[stale, None, stale, other, other]), None);
        // The handler has subtracted 1; in front of the place is nothing, or the end of a function.
        for byte in [None, Some(INT3), Some(0x90)] {
            let subtracted = Some((PLACE - 1, byte));
            assert_eq!(sum_of(&[subtracted, stale, subtracted, stale]), Some(PLACE));
        }
        let put = Some((PLACE, Some(INT3)));
        assert_eq!(sum_of(&[stale, stale, stale, put]), None);
        assert_eq!(sum_of(&[put; 4]), None);
        assert_eq!(sum_of(&[None; 4]), None);
        assert_eq!(sum_up(&[]), []);
    }

    #[test]
    fn only_the_same_place_in_a_row_is_healed() {
        let healed = |places: &[Option<u64>]| {
            let mut sightings = Sightings::default();
            let healed: Vec<bool> = places
                .iter()
                .map(|&place| sightings.add(0, place).is_some())
                .collect();
            assert_eq!(sightings.add(1, Some(PLACE)), None, "another CPU");
            healed
        };
        let stale = Some(PLACE);
        assert_eq!(
            healed(&[stale; 6]),
            [false, false, true, false, false, true]
        );
        for other in [None, Some(PLACE + 1)] {
            let places = [stale, stale, other, stale, stale];
            assert_eq!(healed(&places), [false; 5], "{other:x?}");
        }
    }
}
