// SPDX-License-Identifier: MIT OR Apache-2.0
//! Describes the measured machine in results.

use std::fs;

use serde::{Deserialize, Serialize};

/// The commit this command was built from; the Makefile sets it.
pub const COMMIT: &str = match option_env!("JIFL_COMMIT") {
    Some(commit) => commit,
    None => "unknown",
};

/// What `jifl --version` says: with the commit where the Makefile built this command
/// (scripts/version).
pub const VERSION: &str = match option_env!("JIFL_VERSION") {
    Some(version) => version,
    None => env!("CARGO_PKG_VERSION"),
};

/// The kernel, the processor, and the emulator that provides it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Environment {
    /// `uname -r`.
    pub kernel: String,
    /// Model name of the processor.
    pub cpu: String,
    /// Online processors.
    pub cpus: usize,
    /// `tcg`, `kvm`, another hypervisor's signature, or `host`: none.
    pub accelerator: String,
    /// What the kernel does about spectre v2, in its words.
    pub spectre_v2: String,
}

impl Environment {
    /// Of the running machine.
    pub fn here() -> Environment {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let spectre = "/sys/devices/system/cpu/vulnerabilities/spectre_v2";
        Environment {
            kernel: release(),
            cpu: cpu_model(&cpuinfo),
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            accelerator: jifl_sys::cpu::hypervisor().unwrap_or_else(|| "host".into()),
            spectre_v2: fs::read_to_string(spectre)
                .unwrap_or_default()
                .trim()
                .into(),
        }
    }

    /// Whether indirect branches of this kernel go through retpolines, each of
    /// which executes more instructions than a cache's own chain.
    pub fn has_retpolines(&self) -> bool {
        self.spectre_v2.contains("etpoline")
    }
}

/// `uname -r`.
pub fn release() -> String {
    let name = rustix::system::uname();
    name.release().to_string_lossy().into_owned()
}

fn cpu_model(cpuinfo: &str) -> String {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"));
    let value = line.and_then(|line| line.split_once(':'));
    value.map_or_else(|| "unknown".into(), |(_, model)| model.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_names() {
        let here = Environment::here();
        assert!(!here.kernel.is_empty() && !here.cpu.is_empty() && here.cpus > 0);
        assert!(!here.accelerator.is_empty());
    }

    #[test]
    fn the_model_is_found() {
        assert_eq!(
            cpu_model("processor\t: 0\nmodel name\t: A B\nmodel name\t: C\n"),
            "A B"
        );
        assert_eq!(cpu_model(""), "unknown");
    }

    #[test]
    fn retpolines_are_recognised() {
        let of = |text: &str| Environment {
            spectre_v2: text.into(),
            ..Environment::default()
        };
        assert!(of("Mitigation: Retpolines; STIBP: disabled").has_retpolines());
        assert!(!of("Vulnerable; IBPB: disabled").has_retpolines());
        assert!(!of("Mitigation: Enhanced / Automatic IBRS").has_retpolines());
    }
}
