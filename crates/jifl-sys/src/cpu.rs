// SPDX-License-Identifier: MIT OR Apache-2.0
//! What user code may ask the processor: its clock, and which emulator runs it.

/// The processor's time stamp counter. In a machine whose clock counts
/// instructions it advances by one with each.
pub fn ticks() -> u64 {
    // SAFETY: every x86-64 processor has it; Linux leaves it to user code.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// These nops tell the plugin of bench/frontend in the machine's QEMU what to count. Nobody else
/// executes them. Their numbers are those of bench/frontend/marks.h.
pub mod marks {
    macro_rules! mark {
        ($(#[$doc:meta])* $name:ident, $number:literal) => {
            $(#[$doc])*
            #[inline(always)]
            pub fn $name() {
                // SAFETY: `nopl NUMBER(%rax,%rax,1)`, which does nothing.
                unsafe {
                    core::arch::asm!(
                        ".byte 0x0f, 0x1f, 0x84, 0x00",
                        concat!(".long ", $number),
                        options(nostack, preserves_flags),
                    );
                }
            }
        };
    }

    mark!(
        /// A round begins: the kernel's events are counted.
        begin, "0x4a464501"
    );
    mark!(
        /// The round ends.
        end, "0x4a464503"
    );
    mark!(
        /// All rounds since the last time are written to a file.
        write, "0x4a464504"
    );
    mark!(
        /// The model forgets everything, until a round begins.
        stop, "0x4a464505"
    );
}

/// Executes `rounds` times two instructions. Returns how far the clock advanced.
#[inline(never)]
fn loop_ticks(rounds: u64) -> u64 {
    let start = ticks();
    // SAFETY: counts a register down.
    unsafe {
        core::arch::asm!(
            "2: dec {count}",
            "jnz 2b",
            count = inout(reg) rounds => _,
            options(nomem, nostack),
        );
    }
    ticks() - start
}

/// Whether the clock advances by exactly one with each instruction.
pub fn clock_counts_instructions() -> bool {
    // Not all must be exact: now and then an interrupt comes between two readings.
    let exact = |_: &i32| {
        let [short, middle, long] = [1000, 3000, 4000].map(loop_ticks);
        middle.wrapping_sub(short) == 4000 && long.wrapping_sub(middle) == 2000
    };
    (0..20).filter(exact).count() > 15
}

/// The maker of this machine: `tcg`, `kvm`, another hypervisor's signature; `None` on hardware.
pub fn hypervisor() -> Option<String> {
    const PRESENT: u32 = 1 << 31;
    // `__cpuid` is a safe function in newer compilers.
    #[allow(unused_unsafe)]
    // SAFETY: every x86-64 processor has the instruction, and the leaf of
    // hypervisors is asked for only where there is one.
    let leaf = unsafe {
        if core::arch::x86_64::__cpuid(1).ecx & PRESENT == 0 {
            return None;
        }
        core::arch::x86_64::__cpuid(0x4000_0000)
    };
    let signature = [leaf.ebx, leaf.ecx, leaf.edx]
        .map(u32::to_le_bytes)
        .concat();
    Some(match signature.as_slice() {
        b"TCGTCGTCGTCG" => "tcg".into(),
        b"KVMKVMKVM\0\0\0" => "kvm".into(),
        other => String::from_utf8_lossy(other)
            .trim_end_matches('\0')
            .to_owned(),
    })
}
