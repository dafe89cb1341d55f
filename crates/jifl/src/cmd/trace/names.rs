// SPDX-License-Identifier: MIT OR Apache-2.0
//! Functions as they are written: their names, and their arguments and results where the user asked
//! for them.

use std::borrow::Cow;
use std::collections::HashSet;
use std::rc::Rc;

use serde_json::Value;

use crate::kernel::prototypes::Prototypes;
use crate::kernel::symbols::Symbols;
use crate::kernel::values::Prototype;
use crate::session::calls::Entered;

/// Names and prototypes of functions.
pub struct Names<'a> {
    symbols: &'a Symbols,
    /// The prototypes, if they were asked for.
    prototypes: Option<&'a Prototypes>,
    /// Names that several functions have: their prototypes are ambiguous.
    repeated: HashSet<&'a str>,
}

impl<'a> Names<'a> {
    /// Names, with arguments and results if there are prototypes.
    pub fn new(symbols: &'a Symbols, prototypes: Option<&'a Prototypes>) -> Names<'a> {
        Names {
            symbols,
            prototypes,
            repeated: prototypes.map_or_else(HashSet::new, |_| symbols.repeated()),
        }
    }

    /// True if arguments and results were asked for.
    pub fn have_values(&self) -> bool {
        self.prototypes.is_some()
    }

    /// `name [module]`
    pub fn name(&self, entered: &Entered) -> Cow<'a, str> {
        self.at(entered.address)
    }

    /// The name of the function at an address.
    pub fn at(&self, address: u64) -> Cow<'a, str> {
        self.symbols.name(address)
    }

    /// `name(argument=value, ...) [module] = result`, with the parts that were asked for; `name(?)`
    /// if the prototype is unknown.
    pub fn text(&self, entered: &Entered) -> String {
        let full = self.name(entered);
        if self.prototypes.is_none() {
            return full.into_owned();
        }
        let (name, module) = full.split_at(full.find(" [").unwrap_or(full.len()));
        let known = self.prototype(&full);
        let arguments = known.as_ref().zip(entered.arguments.as_ref());
        let arguments = arguments.map_or("(?)".into(), |(known, registers)| {
            known.arguments(registers)
        });
        let result = known.and_then(|known| known.result.as_ref()?.result(entered.result?));
        let result = result.map_or_else(String::new, |result| format!(" = {result}"));
        format!("{name}{arguments}{module}{result}")
    }

    /// Arguments by name, and the result; null if unknown or void.
    pub fn values(&self, entered: &Entered) -> Option<(Value, Value)> {
        self.prototypes?;
        let known = self.prototype(&self.name(entered));
        let Some(known) = known else {
            return Some((Value::Null, Value::Null));
        };
        let registers = entered.arguments.as_ref();
        let result = known.result.as_ref().zip(entered.result);
        Some((
            registers.map_or(Value::Null, |registers| known.arguments_json(registers)),
            result.map_or(Value::Null, |(kind, value)| kind.json(value)),
        ))
    }

    /// The prototype of the function at an address, if it was asked for and is known.
    pub fn prototype_at(&self, address: u64) -> Option<Rc<Prototype>> {
        self.prototype(&self.at(address))
    }

    fn prototype(&self, full: &str) -> Option<Rc<Prototype>> {
        if self.repeated.contains(full) {
            return None;
        }
        self.prototypes?.of(full)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::values::Kind;
    use crate::session::calls;
    use crate::session::fake::Fake;
    use crate::session::ring::pieces::tests::{enter, mark};
    use jifl_sys::abi::{
        RECORD_ARGUMENTS, RECORD_BEGIN, RECORD_END, RECORD_RETURN, RECORD_RETURNED, Record,
    };

    const INT: Kind = Kind::Int {
        size: 4,
        signed: true,
    };

    /// A record with words, the stack pointer's low half in the first.
    fn values(what: u32, stack: u32, words: &[u64]) -> Vec<Record> {
        let first = Record { what, value: stack };
        let words = words.iter().map(|word| Record {
            what: *word as u32,
            value: (*word >> 32) as u32,
        });
        [first].into_iter().chain(words).collect()
    }

    fn entered(low: u32, stack: u32, first: u64) -> Vec<Record> {
        let words = [first, 2, 3, 4, 5, 6];
        [
            vec![enter(low, stack)],
            values(RECORD_ARGUMENTS, stack, &words),
        ]
        .concat()
    }

    fn returned(stack: u32, value: i64) -> Vec<Record> {
        let end = Record {
            what: RECORD_RETURN,
            value: stack,
        };
        [values(RECORD_RETURNED, stack, &[value as u64]), vec![end]].concat()
    }

    #[test]
    fn values_belong_to_the_functions_that_have_them() {
        let fake = Fake::default();
        fake.state().records = vec![
            [
                mark(RECORD_BEGIN, 39, 70, 1000).to_vec(),
                entered(0, 900, 0xffff_ffff),
                // This function jumps to the next, which returns for both.
                entered(0x10, 800, RECORD_BEGIN.into()),
                entered(0x20, 800, 1),
                returned(800, -2),
                // The first returned natively; the second has no values.
                entered(0x10, 800, 9),
                vec![enter(0x30, 700)],
                returned(900, 5),
                // Two functions have this name.
                entered(0x40, 900, 1),
                returned(900, 0),
                mark(RECORD_END, 39, 70, 3500).to_vec(),
            ]
            .concat(),
        ];
        let taken = crate::session::ring::tests::taken(&fake, 1);
        let symbols = Symbols::parse(
            "ffffffff81000000 T a\nffffffff81000010 t b\t[nfs]\nffffffff81000020 t c\n\
             ffffffff81000030 t d\nffffffff81000040 t e\nffffffff81000050 t e\n",
        );
        let prototype =
            |parameter: &str| Prototype::new([(parameter.to_owned(), INT)], false, Some(INT));
        let prototypes = Prototypes::known(
            [
                ("a", prototype("x")),
                ("b [nfs]", prototype("y")),
                ("c", prototype("z")),
                ("d", prototype("z")),
                ("e", prototype("z")),
            ]
            .map(|(name, prototype)| (name.to_owned(), prototype)),
        );
        let names = Names::new(&symbols, Some(&prototypes));
        let (pieces, stray) = taken.pieces();
        assert_eq!(stray, 0);
        let mut text = Vec::new();
        calls::each(&taken, &pieces, |call| {
            text.extend(call.functions.iter().map(|entered| {
                let indent = "-".repeat(entered.depth as usize);
                indent + &names.text(entered)
            }));
            Ok::<_, ()>(())
        })
        .unwrap();
        assert_eq!(
            text,
            [
                "a(x=-1) = 5",
                &format!("-b(y={RECORD_BEGIN}) [nfs]"),
                "-c(z=1) = -2 (ENOENT)",
                "-b(y=9) [nfs]",
                "--d(?)",
                "e(?)",
            ]
        );
    }
}
