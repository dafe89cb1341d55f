// SPDX-License-Identifier: MIT OR Apache-2.0
//! A trace that was kept, written in any form.

use super::choice::{Choice, Format};
use super::form::View;
use super::names::Names;
use super::out::Out;
use crate::base::exit::Failure;
use crate::kernel::prototypes::Prototypes;
use crate::kernel::symbols::Symbols;
use crate::kernel::syscalls::Table;
use crate::session::calls::threads::Threads;
use crate::session::recording::Kept;
use crate::show::output::{self, Sink};

impl Kept {
    /// Writes the chosen part. `functions`: addresses of functions, by their numbers.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(
        &self,
        symbols: &Symbols,
        functions: &[u64],
        choice: &Choice,
        (format, sink): (Format, Sink),
    ) -> Result<(), Failure> {
        let known = functions.iter().zip(self.prototypes());
        let known = known.filter_map(|(address, prototype)| {
            Some((symbols.name(*address).into_owned(), prototype.clone()?))
        });
        let prototypes = self.valued.then(|| Prototypes::known(known));
        let view = View {
            table: &Table::all().with(self.targets().clone()),
            names: Names::new(symbols, prototypes.as_ref()),
            timed: self.timed,
        };
        let threads = Threads::recorded(self.threads().clone());
        let mut out = Out::open(format.form(self.timed, self.moment, threads), sink)?;
        for call in self.calls(functions) {
            if let Some(shown) = choice.shown(&call) {
                out.call(&shown, &view)?;
            }
        }
        out.close(&view, &self.losses)?;
        output::note(&self.losses.text());
        Ok(())
    }
}
