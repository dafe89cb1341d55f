// SPDX-License-Identifier: MIT OR Apache-2.0
//! Breakpoints that the emulator still executes although the kernel has removed them.
//!
//! 1. QEMU's TCG, with a thread for each CPU, drops the translations of code that is about to be
//!    written, and writes the code after that, not under one lock (accel/tcg/cputlb.c,
//!    `notdirty_write`; seen with 7.2 and 10.0.2). A CPU that executes the code between the two
//!    steps translates the old bytes anew, and keeps them.
//! 2. The kernel puts a breakpoint over an instruction while it changes the instruction
//!    (arch/x86/kernel/alternative.c, `text_poke_bp_batch`). So that CPU takes the breakpoint for
//!    ever. 6.1 returns to it each time; 6.3 and later, which have no such return any more
//!    (8e791f7eba4c), oops. The kernel's maintainers found QEMU to be at fault, too (linux-kernel,
//!    20240121104249.3997125b@rorschach.local.home).
//! 3. The kernel's own dumps show the fault: a CPU is in the handler of a breakpoint, or oopses for
//!    a breakpoint, and the bytes at the place, as the kernel reads them, contain none. A processor
//!    shows the same for the moment in which another CPU removes the breakpoint; a CPU whose dump
//!    is printed has stood at its place for some 20 seconds.
//! 4. It needs nothing of JIFL. A module that does nothing but `static_call_update` on one CPU, to
//!    and fro, while another CPU makes the call, ended 6.12 in this way each time, within 10,000
//!    updates (QEMU 10.0.2).
//! 5. What the kernel changes so is its own text, and in modules calls, jumps and five-byte nops:
//!    static calls, and the places at the beginning of functions where tracers are called. Of the
//!    first are the jumps to comparisons in JIFL's entry stubs (host/kernel/enter/chain.c); a
//!    function that is a target is of the second (host/kernel/enter/function.c).
//!    Copies in the code cache, and all else in modules, never have a breakpoint of the kernel's.
//! 6. [`crate::heal`] ends the loop of 6.1, mostly before the kernel dumps anything. What is
//!    recognised here is the oops of later kernels, and a loop that was not ended in time.
//! 7. Not each dump can tell. The kernel prints no dump if all CPUs wait with interrupts off. It
//!    prints no bytes if those before the place, of which it shows 42, cannot be read: so it is at
//!    the beginning of a module's text.

/// Follows the lines of a kernel's log.
#[derive(Debug, Default)]
pub struct StaleBreakpoint {
    dump: Dump,
    /// What the last `RIP:` named, if its `Code:` shows whether a breakpoint is there.
    place: Option<Place>,
    found: Option<String>,
}

/// The state of one CPU's dump.
#[derive(Debug, Default, PartialEq, Eq)]
enum Dump {
    /// The dump tells nothing about breakpoints.
    #[default]
    Other,
    /// An oops; the CPU's registers come next.
    OopsBegins,
    /// The dump shows registers at which a breakpoint was taken.
    InHandler,
}

#[derive(Debug)]
struct Place {
    /// As the kernel names it.
    name: String,
    in_module: bool,
    /// At the first instruction of its function, which an `endbr64` may precede.
    first: bool,
}

const INT3: u8 = 0xcc;
const CALL: u8 = 0xe8;
const JUMP: u8 = 0xe9;
/// `nopl 0x0(%rax,%rax,1)`, the kernel's nop of the length of a call.
const NOP5: [u8; 5] = [0x0f, 0x1f, 0x44, 0x00, 0x00];

impl StaleBreakpoint {
    /// Takes the next line.
    pub fn line(&mut self, line: &str) {
        if line.contains("int3: 0000 [#") {
            self.dump = Dump::OopsBegins;
        } else if line.contains("] CPU: ") {
            // Only an oops shows the registers at the breakpoint.
            self.dump = match self.dump {
                Dump::OopsBegins => Dump::InHandler,
                _ => Dump::Other,
            };
            self.place = None;
        } else if let Some((_, at)) = line.split_once("RIP: 0010:") {
            self.place = None;
            if self.dump == Dump::InHandler {
                self.place = Place::parse(at);
                self.dump = Dump::Other;
            } else if at.starts_with("asm_exc_int3+") || at.starts_with("exc_int3+") {
                self.dump = Dump::InHandler;
            }
        } else if let Some((_, code)) = line.split_once("Code: ")
            && let Some(place) = self.place.take()
            && place.has_no_breakpoint(code)
        {
            self.found.get_or_insert(place.name);
        }
    }

    /// Where, as the kernel names it (`function+0x12/0x34`), if there was one.
    pub fn found(&self) -> Option<&str> {
        self.found.as_deref()
    }
}

impl Place {
    /// Takes what follows `RIP: 0010:`. What has no name is no code that the kernel changes.
    fn parse(at: &str) -> Option<Self> {
        let mut words = at.split_whitespace();
        let name = words.next().filter(|name| name.contains('+'))?.to_owned();
        let in_module = match words.next() {
            None => false,
            Some(module) if module.starts_with('[') => true,
            Some(_) => return None,
        };
        let (_, offset) = name.split_once('+')?;
        let first = ["0x0/", "0x1/", "0x4/", "0x5/"]
            .iter()
            .any(|start| offset.starts_with(start));
        Some(Self {
            name,
            in_module,
            first,
        })
    }

    /// The instruction pointer, in `<>`, is behind a breakpoint that was taken, or at one that is
    /// to be executed again. In a module, there must also stand what the kernel changes in modules.
    fn has_no_breakpoint(&self, code: &str) -> bool {
        let words: Vec<&str> = code.split_whitespace().collect();
        let bytes: Vec<Option<u8>> = words
            .iter()
            .map(|word| u8::from_str_radix(word.trim_matches(['<', '>']), 16).ok())
            .collect();
        let Some(here) = words.iter().position(|word| word.starts_with('<')) else {
            return false;
        };
        let Some(before) = here.checked_sub(1) else {
            return false;
        };
        let places = [before, here];
        let removed = |&at: &usize| bytes[at].is_some_and(|byte| byte != INT3);
        let changes = |&at: &usize| self.changes(&bytes[at..]);
        places.iter().all(removed) && (!self.in_module || places.iter().any(changes))
    }

    /// At the beginning of `bytes` is a direct call or jump, or the nop in the place of a tracer's.
    fn changes(&self, bytes: &[Option<u8>]) -> bool {
        matches!(bytes.first(), Some(Some(CALL | JUMP)))
            || (self.first && bytes.starts_with(&NOP5.map(Some)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(log: &str) -> Option<String> {
        let mut stale = StaleBreakpoint::default();
        log.lines().for_each(|line| stale.line(line));
        stale.found().map(str::to_owned)
    }

    /// The log of a machine that hung (QEMU 10.0.2, 6.1.0-56-amd64).
    const STALLED: &str = "\
[   44.326658] Sending NMI from CPU 1 to CPUs 0:
[   23.342859] CPU: 0 PID: 93 Comm: bash Tainted: G           OE      6.1.0-56-amd64 #1  Debian 6.1.192-2
[   23.342859] RIP: 0010:asm_exc_int3+0x0/0x40
[   23.342859] Code: 00 66 0f 1f 84 00 00 00 00 00 0f 01 ca fc 6a ff e8 75 09 00 00 0f 1f 44 00 00 <0f> 01 ca fc
[   23.342859] RSP: 0018:ffffc90000427968 EFLAGS: 00010082
[   23.342859] Call Trace:
[   23.342859]  <TASK>
[   23.342859] RIP: 0010:__schedule+0x1bd/0xa00
[   23.342859] Code: 84 91 06 00 00 48 83 43 70 01 e9 53 03 00 00 0f <1f> 44 00 00 48 8b 83 68 09 00 00 49 39 c5
[   23.342859]  schedule+0x5a/0xd0
[   44.326658] CPU: 1 PID: 101 Comm: jifl Tainted: G           OE      6.1.0-56-amd64 #1  Debian 6.1.192-2
[   44.326658] RIP: 0010:smp_call_function_many_cond+0xf1/0x330
[   44.326658] Code: 7b 08 48 63 d0 e8 ef 9a 3c 00 83 e2 01 74 0a f3 90 <8b> 4e 08 83 e1 01 75 f6
";

    const OOPS: &str = "\
[   23.342859] int3: 0000 [#1] PREEMPT SMP NOPTI
[   23.342859] CPU: 0 PID: 93 Comm: bash Tainted: G           OE      6.1.0-56-amd64 #1
[   23.342859] RIP: 0010:__schedule+0x1bd/0xa00
[   23.342859] Code: e9 53 03 00 00 0f <1f> 44 00 00 48
";

    /// Of a machine that oopsed in a session's first second; the first two lines were not kept, and
    /// are as such a kernel prints them.
    const IN_MODULE: &str = "\
[   68.783279] Oops: int3: 0000 [#1] PREEMPT SMP NOPTI
[   68.783279] CPU: 1 UID: 0 PID: 2127 Comm: ls Tainted: G           OE      6.12.117+deb12-amd64 #1
[   68.783279] RIP: 0010:jifl_entry_stub+0x18/0x30 [jifl]
[   68.783575] Code: 89 f1 48 8b 04 cd 00 4f 34 c0 48 85 c0 74 05 e9 <2c> 01 00 00 e9 9f e6 cf c0 66 66
";

    #[test]
    fn one_at_a_static_call_of_a_module_is_found() {
        let place = Some("jifl_entry_stub+0x18/0x30".to_owned());
        assert_eq!(found(IN_MODULE), place);
        assert_eq!(found(&IN_MODULE.replace("e9 <2c>", "05 <e9>")), place);
        assert_eq!(found(&IN_MODULE.replace("e9 <2c>", "cc <2c>")), None);
        // Any other instruction of a module is none that the kernel changes.
        assert_eq!(found(&IN_MODULE.replace("e9 <2c>", "c0 <74>")), None);
    }

    /// Of a machine in which sessions with this function as a target came and went; the first two
    /// lines were not kept.
    const AT_FUNCTION: &str = "\
[  136.177803] Oops: int3: 0000 [#1] PREEMPT SMP NOPTI
[  136.177803] CPU: 1 UID: 0 PID: 1234 Comm: python3 Tainted: G           OE      6.12.117+deb12-amd64 #1
[  136.178392] RIP: 0010:contexts_sleep+0x1/0x30 [jifl_contexts]
[  136.178412] Code: 90 90 90 90 90 90 90 90 90 0f <1f> 44 00 00 53 ba 02 00 00 00 48 89 fb be 90
";

    #[test]
    fn one_where_a_tracer_was_called_in_a_module_is_found() {
        let place = Some("contexts_sleep+0x1/0x30".to_owned());
        assert_eq!(found(AT_FUNCTION), place);
        assert_eq!(found(&AT_FUNCTION.replace("0f <1f>", "<0f> 1f")), place);
        for other in ["cc <1f>", "0f <cc>", "66 <1f>", "0f <1f> 40"] {
            assert_eq!(
                found(&AT_FUNCTION.replace("0f <1f>", other)),
                None,
                "{other}"
            );
        }
    }

    #[test]
    fn one_that_is_not_in_memory_is_found() {
        let place = Some("__schedule+0x1bd/0xa00".to_owned());
        assert_eq!(found(STALLED), place);
        assert_eq!(found(OOPS), place);
    }

    #[test]
    fn one_that_is_in_memory_is_not() {
        for (removed, there) in [("0f <1f>", "cc <1f>"), ("0f <1f>", "0f <cc>")] {
            assert_eq!(found(&STALLED.replace(removed, there)), None);
            assert_eq!(found(&OOPS.replace(removed, there)), None);
        }
    }

    #[test]
    fn other_dumps_are_not() {
        let elsewhere = STALLED.replace("asm_exc_int3", "asm_exc_nmi");
        assert_eq!(found(&elsewhere), None);
        // The registers of another CPU are not what the handler interrupted.
        let cut = STALLED.replace("RIP: 0010:__schedule", "");
        assert_eq!(found(&cut), None);
        for place in ["jifl_dispatch+0x1bd/0xa00 [jifl]", "0xffffffffa0001234"] {
            assert_eq!(found(&OOPS.replace("__schedule+0x1bd/0xa00", place)), None);
        }
        assert_eq!(found(&OOPS.replace("int3:", "invalid opcode:")), None);
    }
}
