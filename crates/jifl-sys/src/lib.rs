// SPDX-License-Identifier: MIT OR Apache-2.0
//! The one crate of JIFL's userland with unsafe code: the ABI of `/dev/jifl` ([`abi`]), the one
//! door to that device ([`device`]), the operations of the benchmark ([`micro`]), its questions to
//! the processor ([`cpu`]), and the few system calls that no safe library offers ([`os`]).

pub mod abi;
#[cfg(test)]
mod abi_test;
pub mod bpf;
pub mod cpu;
pub mod device;
pub mod micro;
pub mod os;
