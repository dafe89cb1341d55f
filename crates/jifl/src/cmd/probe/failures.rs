// SPDX-License-Identifier: MIT OR Apache-2.0
//! How often a function fails, and with which errors.

use jifl_sys::abi::Kind;

use super::groups::Groups;
use super::place::Manner;
use super::program::{Asked, compile};
use super::word::Word;
use super::{find, settle, told};
use crate::base::exit::Failure;
use crate::expr::Scopes;
use crate::kernel::symbols::Symbols;
use crate::kernel::syscalls::Table;
use crate::session::device;
use crate::session::measure::{self, Session};
use crate::session::scope::Span;

/// For each error that the function, `fn:NAME`, returns until `meanwhile` is over: how often.
///
/// # Errors
/// Its returns cannot be looked at, or the session is refused.
pub fn failures(function: &str, meanwhile: impl FnOnce()) -> Result<Vec<(i64, u64)>, Failure> {
    let symbols = Symbols::of_kernel();
    let words = [Word::parse(&format!("{function}%return"))?];
    let manner = Manner {
        confirmed: true,
        programs: true,
        lenient: false,
        // A search asks, and its report may be a daemon's.
        by_name: true,
    };
    let mut places = find(&words, None, manner, &symbols)?;
    let mut session = Session::new(Kind::Probe, 0, std::mem::take(&mut places.targets));
    settle(&mut session, &mut places, &words, &symbols)?;
    let asked = Asked::failures()?;
    let mut compiled = compile(&asked, &mut places, &words, &Scopes::of_kernel())?;
    session.programs = std::mem::take(&mut compiled.programs);
    session.splices = places.splices.clone();
    Span::default().scope().apply(&mut session)?;
    let door = device::open()?;
    measure::measure(&door, session, &Table::all(), |_| meanwhile())?;
    let groups = Groups::read(&door, &told(&words, &places, &compiled, &symbols))?;
    Ok(groups.map_or_else(Vec::new, |groups| groups.numbers()))
}
