// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kprobes, as breakpoints or as jumps. The sysctl debug.kprobes-optimization decides for all
//! probes which of the two they are; its old value is restored afterwards.

use std::collections::HashSet;
use std::fs;
use std::io;

use super::module::Probes;
use super::sites::Site;
use super::{Job, Missing, Started, Tool};
use crate::show::output;

const OPTIMISATION: &str = "/proc/sys/debug/kprobes-optimization";
const ENABLED: &str = "/sys/kernel/debug/kprobes/enabled";

/// Probes each site, with breakpoints.
pub fn start(job: Job, sites: &[Site]) -> Result<Started<'_>, Missing> {
    check_enabled()?;
    // Otherwise the optimiser runs while the probes are put in, and each probe waits for it.
    let sysctl = Sysctl::off()?;
    let probes = Probes::open()?;
    let addresses: Vec<u64> = sites.iter().map(|site| site.probe).collect();
    probes.add("kprobe", job, &addresses)?;
    let state = probes.state().map_err(|error| Missing(error.to_string()))?;
    let refused: HashSet<u64> = state.refused.into_iter().collect();
    let covered = sites
        .iter()
        .filter(|site| !refused.contains(&site.probe))
        .collect();
    Started::new(
        Kprobes {
            probes: Some(probes),
            sysctl,
        },
        covered,
    )
}

/// Without debugfs nobody can have switched kprobes off.
fn check_enabled() -> Result<(), Missing> {
    match fs::read_to_string(ENABLED) {
        Ok(text) if text.trim() == "0" => Err(Missing(format!(
            "kprobes are switched off: echo 1 > {ENABLED}"
        ))),
        _ => Ok(()),
    }
}

fn not_settled(error: io::Error) -> Missing {
    Missing(format!(
        "the kernel did not turn kprobes into jumps: {error}"
    ))
}

struct Kprobes {
    /// `None` while it is dropped.
    probes: Option<Probes>,
    sysctl: Sysctl,
}

impl Tool for Kprobes {
    fn hits(&self) -> u64 {
        self.probes.as_ref().map_or(0, Tool::hits)
    }

    fn missed(&self) -> u64 {
        self.probes.as_ref().map_or(0, Tool::missed)
    }

    fn optimise(&mut self) -> Result<usize, Missing> {
        let Some(probes) = self.probes.as_ref().filter(|_| self.sysctl.0.is_some()) else {
            return Err(Missing(
                "this kernel was built without jump-optimised kprobes (CONFIG_OPTPROBES)".into(),
            ));
        };
        self.sysctl.write("1").map_err(not_settled)?;
        probes.request("settle").map_err(not_settled)?;
        Ok(probes.state().map_err(not_settled)?.jumps as usize)
    }
}

impl Drop for Kprobes {
    /// The jump of a removed probe stays until the optimiser runs. Switching the optimiser off
    /// waits for that.
    fn drop(&mut self) {
        drop(self.probes.take());
        let _ = self.sysctl.write("0");
    }
}

/// The sysctl, with its former value.
struct Sysctl(Option<String>);

impl Sysctl {
    /// `None`: a kernel without the sysctl has no jumps.
    fn off() -> Result<Sysctl, Missing> {
        let Ok(old) = fs::read_to_string(OPTIMISATION) else {
            return Ok(Sysctl(None));
        };
        let sysctl = Sysctl(Some(old));
        sysctl
            .write("0")
            .map_err(|error| Missing(format!("{OPTIMISATION}: {error}; be root")))?;
        Ok(sysctl)
    }

    fn write(&self, value: &str) -> io::Result<()> {
        match &self.0 {
            Some(_) => fs::write(OPTIMISATION, value),
            None => Ok(()),
        }
    }
}

impl Drop for Sysctl {
    fn drop(&mut self) {
        let Some(old) = &self.0 else { return };
        if let Err(error) = self.write(old.trim()) {
            output::note(&format!("bench: {OPTIMISATION}: {error}"));
        }
    }
}
