// SPDX-License-Identifier: MIT OR Apache-2.0
//! BPF programs at functions' entries, one for each function, attached to the function's type. The
//! programs are written here as BPF instructions, because they are a dozen instructions long.

use std::collections::HashSet;
use std::fs;
use std::io;

use jifl_sys::bpf::{Fentry, Map};

use super::apart::Apart;
use super::sites::Site;
use super::{Job, Missing, Progress, Started, Tool, btf};

/// Records in a CPU's ring: as many as the module's probes have.
const RING: i32 = 1024;

/// Functions that the way to a program calls before it notices that the program is running already.
/// Kernels before 6.5 attach programs there, but such a program never returns.
const UNTRACEABLE: [&str; 2] = ["__rcu_read_lock", "__rcu_read_unlock"];

/// The error's number: no more file descriptors.
const EMFILE: i32 = rustix::io::Errno::MFILE.raw_os_error();

/// Attaches a program to each site's function.
pub fn start(job: Job, sites: &[Site]) -> Result<Started<'_>, Missing> {
    if job == Job::CountBlocks {
        return Err(Missing(
            "BPF attaches to functions, not to basic blocks: kprobes do those".into(),
        ));
    }
    let names: HashSet<&str> = sites
        .iter()
        .flat_map(|site| site.own_names.iter().map(String::as_str))
        .filter(|name| !UNTRACEABLE.contains(name))
        .collect();
    let btf = fs::read(btf::VMLINUX).map_err(|error| {
        Missing(format!(
            "{}: {error}; the kernel needs CONFIG_DEBUG_INFO_BTF",
            btf::VMLINUX
        ))
    })?;
    let ids = btf::functions(&btf, &names)
        .ok_or_else(|| Missing(format!("{} has a format of its own", btf::VMLINUX)))?;
    let places: Vec<Place> = sites
        .iter()
        .enumerate()
        .filter_map(|(site, at)| {
            let id = at.own_names.iter().find_map(|name| ids.get(name.as_str()));
            id.map(|&id| Place {
                site,
                addr: at.addr,
                id,
            })
        })
        .collect();
    let (programs, covered) = Apart::start(move || attach(job, &places))?;
    Started::new(programs, covered.into_iter().map(|at| &sites[at]).collect())
}

/// A site whose function has a type.
struct Place {
    site: usize,
    addr: u64,
    /// The function's number in BTF.
    id: u32,
}

/// With the sites where there is one.
fn attach(job: Job, places: &[Place]) -> Result<(Programs, Vec<usize>), Missing> {
    let ring = if job == Job::TraceCalls { RING } else { 0 };
    let map = Map::new(8 + 8 * ring as u32).map_err(|error| not_allowed(&error))?;
    let mut programs = Vec::new();
    let mut covered = Vec::new();
    let mut why = "no function of the operation has a type of its own in BTF".to_owned();
    let mut progress = Progress::new("BPF programs", places.len());
    for (i, place) in places.iter().enumerate() {
        let code = match job {
            Job::TraceCalls => append(map.number(), place.addr),
            _ => count(map.number()),
        };
        // The kernel refuses functions that must not be traced, and argument types that it cannot
        // pass.
        match Fentry::attach(&code, place.id) {
            Ok(program) => {
                programs.push(program);
                covered.push(place.site);
            }
            // An error, because the programs attached so far would look like all of them.
            Err(error) if error.raw_os_error() == Some(EMFILE) => {
                return Err(Missing(format!(
                    "{} functions take two file descriptors each, and no more could be had \
                     after {}: see ulimit -Hn",
                    places.len(),
                    programs.len()
                )));
            }
            Err(error) => why = format!("the kernel refused to attach: {error}"),
        }
        progress.at(i + 1);
    }
    if covered.is_empty() {
        return Err(Missing(why));
    }
    let cpus = possible_cpus();
    let programs = Programs {
        programs,
        map,
        cpus,
    };
    Ok((programs, covered))
}

fn not_allowed(error: &io::Error) -> Missing {
    Missing(match error.kind() {
        io::ErrorKind::PermissionDenied => "BPF is not permitted: be root, without lockdown".into(),
        io::ErrorKind::Unsupported => {
            "this kernel was built without BPF (CONFIG_BPF_SYSCALL)".into()
        }
        _ => format!("BPF: {error}"),
    })
}

fn possible_cpus() -> usize {
    let text = fs::read_to_string("/sys/devices/system/cpu/possible").unwrap_or_default();
    let last = text.trim().rsplit(['-', ',']).next();
    last.and_then(|last| last.parse::<usize>().ok())
        .map_or(1, |last| last + 1)
}

struct Programs {
    programs: Vec<Fentry>,
    map: Map,
    cpus: usize,
}

impl Tool for Programs {
    fn hits(&self) -> u64 {
        self.map.sum(self.cpus).unwrap_or(0)
    }

    fn missed(&self) -> u64 {
        let each = self.programs.iter().map(Fentry::missed);
        each.map(|missed| missed.unwrap_or(0)).sum()
    }
}

// --- the programs: Documentation/bpf/standardization/instruction-set.rst ----------------------

const R0: u64 = 0;
const R1: u64 = 1;
const R2: u64 = 2;
const FRAME: u64 = 10;

const LOAD_IMM64: u64 = 0x18;
const IS_MAP: u64 = 1;
const STORE_IMM32: u64 = 0x62;
const STORE64: u64 = 0x7b;
const ATOMIC64: u64 = 0xdb;
const ADD: i32 = 0;
const FETCH_ADD: i32 = 1;
const MOV: u64 = 0xbf;
const MOV_IMM: u64 = 0xb7;
const ADD_REG: u64 = 0x0f;
const ADD_IMM: u64 = 0x07;
const AND_IMM: u64 = 0x57;
const SHIFT_IMM: u64 = 0x67;
const JUMP_EQ: u64 = 0x15;
const CALL: u64 = 0x85;
const MAP_LOOKUP: i32 = 1;
const EXIT: u64 = 0x95;

fn insn(code: u64, dst: u64, src: u64, offset: i16, imm: i32) -> u64 {
    code | dst << 8 | src << 12 | u64::from(offset as u16) << 16 | u64::from(imm as u32) << 32
}

fn imm64(dst: u64, src: u64, value: u64) -> [u64; 2] {
    let low = insn(LOAD_IMM64, dst, src, 0, value as u32 as i32);
    [low, insn(0, 0, 0, 0, (value >> 32) as i32)]
}

/// `body` with the address of this CPU's element in r0, after `element[0]` as a counter.
fn with_element(map: i32, body: &[u64]) -> Vec<u64> {
    let mut code = vec![
        insn(STORE_IMM32, FRAME, 0, -4, 0),
        insn(MOV, R2, FRAME, 0, 0),
        insn(ADD_IMM, R2, 0, 0, -4),
    ];
    code.extend(imm64(R1, IS_MAP, map as u64));
    code.push(insn(CALL, 0, 0, 0, MAP_LOOKUP));
    code.push(insn(JUMP_EQ, R0, 0, body.len() as i16, 0));
    code.extend(body);
    code.extend([insn(MOV_IMM, R0, 0, 0, 0), insn(EXIT, 0, 0, 0, 0)]);
    code
}

/// `element[0]++`
fn count(map: i32) -> Vec<u64> {
    with_element(
        map,
        &[insn(MOV_IMM, R1, 0, 0, 1), insn(ATOMIC64, R0, R1, 0, ADD)],
    )
}

/// `element[1 + element[0]++ % RING] = addr`
fn append(map: i32, addr: u64) -> Vec<u64> {
    let [low, high] = imm64(R2, 0, addr);
    with_element(
        map,
        &[
            insn(MOV_IMM, R1, 0, 0, 1),
            insn(ATOMIC64, R0, R1, 0, FETCH_ADD),
            insn(AND_IMM, R1, 0, 0, RING - 1),
            insn(SHIFT_IMM, R1, 0, 0, 3),
            insn(ADD_REG, R0, R1, 0, 0),
            low,
            high,
            insn(STORE64, R0, R2, 8, 0),
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_are_laid_out_as_the_kernel_reads_them() {
        // *(u32 *)(r10 - 4) = 0; r2 = r10; r2 += -4
        let bytes: Vec<u8> = count(7)[..3].iter().flat_map(|i| i.to_le_bytes()).collect();
        let expected = [
            [0x62, 0x0a, 0xfc, 0xff, 0, 0, 0, 0],
            [0xbf, 0xa2, 0, 0, 0, 0, 0, 0],
            [0x07, 0x02, 0, 0, 0xfc, 0xff, 0xff, 0xff],
        ];
        assert_eq!(bytes, expected.concat());
        assert_eq!(imm64(R2, 0, 0xffff_ffff_8100_0010)[1] >> 32, 0xffff_ffff);
    }
}
