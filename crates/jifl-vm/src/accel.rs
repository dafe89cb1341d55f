// SPDX-License-Identifier: MIT OR Apache-2.0
//! The accelerators of QEMU that this machine can use.

use std::fs;

/// How QEMU executes the guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accel {
    /// The processor's virtualization.
    Kvm,
    /// QEMU's own translator.
    Tcg,
}

/// What `--accel auto` takes here, and why.
pub fn auto() -> (Accel, String) {
    let opens = fs::File::options()
        .read(true)
        .write(true)
        .open("/dev/kvm")
        .map(drop)
        .map_err(|error| error.to_string());
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    choose(opens, &cpuinfo)
}

/// KVM needs the device and the CPU flag: where the device is there without the
/// flag (nested, emulated or software KVM), a stock kernel hangs at boot.
fn choose(device: Result<(), String>, cpuinfo: &str) -> (Accel, String) {
    if let Err(error) = device {
        return (Accel::Tcg, format!("/dev/kvm does not open: {error}"));
    }
    let has_flag = cpuinfo
        .lines()
        .filter(|line| line.starts_with("flags"))
        .any(|line| {
            line.split_whitespace()
                .any(|flag| flag == "vmx" || flag == "svm")
        });
    if has_flag {
        (Accel::Kvm, "/dev/kvm opens".into())
    } else {
        let why = "/dev/kvm opens, but the CPU shows neither vmx nor svm";
        (Accel::Tcg, why.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kvm_needs_the_device_and_the_flag() {
        let with = "processor\t: 0\nflags\t\t: fpu vmx sse\n";
        let without = "flags\t\t: fpu vmxnet sse\nvmx flags\t: vnmi\n";
        assert_eq!(choose(Ok(()), with).0, Accel::Kvm);
        assert_eq!(choose(Ok(()), without).0, Accel::Tcg);
        assert_eq!(choose(Err("no".into()), with).0, Accel::Tcg);
    }
}
