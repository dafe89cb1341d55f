// SPDX-License-Identifier: MIT OR Apache-2.0
//! For tests: writes the list of what is dead at places of a kernel, which a module built for tests
//! overwrites there (host/kernel/garbage.c). With a planted bug a register too many is on it.

use std::fs;
use std::path::PathBuf;

use clap::Args;
use jifl_code::dead::{Place, is_drawn, places};
use jifl_code::flow::REGISTERS;
use jifl_code::live::{Live, Trust};
use jifl_code::program::Program;

use super::input::Source;
use super::observed::Plant;
use crate::base::exit::{DONE, Failure};
use crate::show::output;

/// Arguments of `jifl dead-places`.
#[derive(Debug, Args)]
pub struct DeadArgs {
    /// A kernel's file, or a directory that `jifl analyze --keep` has made
    kernel: PathBuf,
    /// Where the lists go: a file of the seed's name for each seed
    directory: PathBuf,
    /// What is drawn
    #[arg(required = true)]
    seeds: Vec<u64>,
    /// Of a hundred places so many
    #[arg(long, default_value_t = 100)]
    percent: u64,
    /// This register is taken for dead where it would be without edges, or calls, of the kind of
    /// --plant
    #[arg(long, requires = "plant", value_parser = register)]
    register: Option<u32>,
    /// See --register
    #[arg(long, value_enum, requires = "register")]
    plant: Option<Plant>,
}

fn register(name: &str) -> Result<u32, String> {
    let number = REGISTERS.iter().position(|known| *known == name);
    number.map_or(Err("no such register".into()), |number| Ok(1 << number))
}

/// Runs `jifl dead-places`.
pub fn run(args: &DeadArgs) -> Result<u8, Failure> {
    let mut program = Program::of(Source::of(Some(&args.kernel)).open()?);
    let mut all = places(&program, &Live::of(&program, Trust::Compiled));
    if let (Some(plant), Some(register)) = (args.plant, args.register) {
        plant.spoil(&mut program);
        let spoilt = places(&program, &Live::of(&program, Trust::Compiled));
        let number = add(&mut all, &spoilt, register);
        output::print(&format!("{number} places have a register too many\n"))?;
    }
    for seed in &args.seeds {
        let drawn = all
            .iter()
            .filter(|(at, _)| is_drawn(*at, *seed, args.percent));
        let words: Vec<u8> = drawn.filter_map(word).flat_map(u64::to_le_bytes).collect();
        let path = args.directory.join(seed.to_string());
        let failed = |error| Failure::failed(format!("{}: {error}", path.display()));
        fs::write(&path, &words).map_err(failed)?;
        output::print(&format!(
            "{seed}: {} of {} places\n",
            words.len() / 8,
            all.len()
        ))?;
    }
    Ok(DONE)
}

/// Calls a register dead, too, where the others do. Returns at how many places it was not.
fn add(all: &mut [Place], others: &[Place], register: u32) -> usize {
    let mut number = 0;
    for (at, dead) in all {
        let other = others.binary_search_by_key(at, |place| place.0);
        let more = other.map_or(0, |index| others[index].1 & register & !*dead);
        number += usize::from(more != 0);
        *dead |= more;
    }
    number
}

/// A place in the list: the kernel's text is in the highest 2 GiB.
fn word((at, dead): &Place) -> Option<u64> {
    (at >> 31 == 0x1_ffff_ffff).then_some(at & 0xffff_ffff | u64::from(*dead) << 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_word() {
        assert_eq!(
            word(&(0xffff_ffff_8100_0010, 0x1_0003)),
            Some(0x1_0003_8100_0010)
        );
        assert_eq!(word(&(0x1000, 1)), None);
        let mut all = [(0x1000, 1), (0x1004, 2), (0x1008, 8)];
        assert_eq!(add(&mut all, &[(0x1000, 6), (0x1004, 6)], 2), 1);
        assert_eq!(all, [(0x1000, 3), (0x1004, 2), (0x1008, 8)]);
        assert_eq!((register("rdx"), register("eax").is_err()), (Ok(4), true));
    }
}
