// SPDX-License-Identifier: MIT OR Apache-2.0
//! The places that an operation executes, from JIFL's own block and call traces.

use std::collections::HashSet;

use jifl_sys::device::Door;

use super::symbols::Symbols;
use super::{Job, module};
use crate::base::exit::Failure;
use crate::cmd::plugin;
use crate::session::device;

/// How the kernel names system calls' handlers.
const HANDLER: &str = "__x64_sys_";

/// A block that was executed.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Block {
    addr: u64,
    /// Its first instruction at which a kprobe can be.
    probe: u64,
    /// Its last instruction.
    last: u64,
    executions: u64,
    is_function: bool,
}

/// The blocks and functions that an operation executed, with the number of executions.
#[derive(Debug, Default)]
pub struct Sites {
    /// By address.
    blocks: Vec<Block>,
    symbols: Symbols,
}

/// A place to probe, for one job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Site {
    /// Address of the block or function.
    pub addr: u64,
    /// Address at which a kprobe counts it.
    pub probe: u64,
    /// Number of executions.
    pub executions: u64,
    /// Of a function: its names.
    pub names: Vec<String>,
    /// Of a function: its names that no other function has.
    pub own_names: Vec<String>,
}

/// Runs `work`, and counts each block of system calls of this thread and of processes that it
/// makes. Interrupts and other threads do not count. A place that `work` executes only the first
/// time is a place, too: so do the operation once before, and let `work` repeat it.
///
/// # Errors
/// JIFL or the module of the peers is not available.
pub fn collect(work: &mut dyn FnMut()) -> Result<Sites, Failure> {
    module::load()?;
    let door = device::open()?;
    start(&door)?;
    work();
    plugin::switch(&door, module::NAME, false)?;
    parse(&module::read_sites()?)
}

/// A killed run may have left the plugin started.
fn start(door: &impl Door) -> Result<(), Failure> {
    plugin::switch(door, module::NAME, true).or_else(|_| {
        plugin::switch(door, module::NAME, false)?;
        plugin::switch(door, module::NAME, true)
    })
}

fn parse(text: &str) -> Result<Sites, Failure> {
    let mut blocks: Vec<Block> = text.lines().filter_map(parse_block).collect();
    if text.lines().last() != Some("lost 0") {
        return Err(Failure::failed(
            "more blocks than the module has room for were executed: \
             is another program running much?",
        ));
    }
    blocks.sort_unstable_by_key(|block| block.addr);
    let functions = blocks.iter().filter(|block| block.is_function);
    let symbols = Symbols::of(&functions.map(|block| block.addr).collect())?;
    Ok(Sites { blocks, symbols })
}

fn parse_block(line: &str) -> Option<Block> {
    let words: Vec<&str> = line.split(' ').collect();
    let [addr, probe, last, executions, is_function] = words[..] else {
        return None;
    };
    let address = |word| u64::from_str_radix(word, 16).ok();
    Some(Block {
        addr: address(addr)?,
        probe: address(probe)?,
        last: address(last)?,
        executions: executions.parse().ok()?,
        is_function: is_function == "1",
    })
}

impl Sites {
    /// Number of blocks, and of their executions.
    pub fn blocks(&self) -> (usize, u64) {
        total(self.blocks.iter())
    }

    /// Number of functions, and of their entries.
    pub fn functions(&self) -> (usize, u64) {
        total(self.blocks.iter().filter(|block| block.is_function))
    }

    /// Number of handlers of system calls, and of calls.
    pub fn calls(&self) -> (usize, u64) {
        total(self.blocks.iter().filter(|block| self.is_handler(block)))
    }

    fn is_handler(&self, block: &Block) -> bool {
        let names = self.symbols.names(block.addr);
        block.is_function && names.iter().any(|name| name.starts_with(HANDLER))
    }

    /// Number of executions of an instruction. Blocks can begin inside others.
    fn executions(&self, addr: u64) -> u64 {
        let around = |block: &&Block| block.addr <= addr && addr <= block.last;
        let until = self.blocks.partition_point(|block| block.addr <= addr);
        // A block is at most some hundreds of bytes long.
        let near = self.blocks[..until].iter().rev();
        near.take_while(|block| addr - block.addr < 4096)
            .filter(around)
            .map(|block| block.executions)
            .sum()
    }

    fn site(&self, block: &Block) -> Site {
        Site {
            addr: block.addr,
            probe: block.probe,
            executions: self.executions(block.probe),
            names: self.symbols.names(block.addr).to_vec(),
            own_names: self.symbols.own_names(block.addr),
        }
    }

    /// The places of a job, each once.
    pub(super) fn of(&self, job: Job) -> Vec<Site> {
        let wanted = |block: &&Block| match job {
            Job::CountBlocks => true,
            Job::CountCalls => self.is_handler(block),
            Job::TraceCalls => block.is_function,
        };
        let mut seen = HashSet::new();
        let blocks = self.blocks.iter().filter(wanted);
        blocks
            .map(|block| self.site(block))
            .filter(|site| seen.insert(site.probe))
            .collect()
    }
}

fn total<'a>(blocks: impl Iterator<Item = &'a Block>) -> (usize, u64) {
    blocks.fold((0, 0), |(n, sum), block| (n + 1, sum + block.executions))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sites() -> Sites {
        let text = "2000 2000 2010 7 0\n1000 1009 1020 5 1\n1010 1010 1020 2 0\nlost 0\n";
        let mut blocks: Vec<Block> = text.lines().filter_map(parse_block).collect();
        blocks.sort_unstable_by_key(|block| block.addr);
        Sites {
            blocks,
            symbols: Symbols::default(),
        }
    }

    #[test]
    fn a_block_inside_another_is_executed_with_it() {
        let sites = sites();
        for (addr, executions) in [(0x1000, 5), (0x1010, 7), (0x1021, 0), (0x2000, 7)] {
            assert_eq!(sites.executions(addr), executions, "{addr:x}");
        }
        assert_eq!(sites.blocks(), (3, 14));
    }

    #[test]
    fn each_job_has_its_places() {
        let sites = sites();
        let probes = |job| -> Vec<u64> {
            let all = sites.of(job);
            all.iter().map(|site| site.probe).collect()
        };
        assert_eq!(probes(Job::CountBlocks), [0x1009, 0x1010, 0x2000]);
        assert_eq!(probes(Job::TraceCalls), [0x1009]);
        assert!(probes(Job::CountCalls).is_empty());
    }

    #[test]
    fn lost_blocks_are_told() {
        assert!(parse("lost 3\n").is_err());
        assert!(parse("").is_err());
    }
}
