// SPDX-License-Identifier: MIT OR Apache-2.0
//! `--by`: what calls are about.

use jifl_sys::abi::{Frames, OBJECT_OTHERS, OBJECT_REFUSED, Object, TIMES_ENTER, Time};
use jifl_sys::device::Door;
use serde_json::Value as Json;

use super::distribution::Distributions;
use super::sheet::{Counted, Keys, Row};
use crate::base::exit::Failure;
use crate::cmd::probe::groups::{named, stack, value};
use crate::cmd::probe::place::Places;
use crate::cmd::probe::program::{Asked, Layout, compile};
use crate::cmd::probe::records;
use crate::cmd::probe::word::Word;
use crate::expr::{Kind, Scopes};
use crate::kernel::symbols::Symbols;
use crate::session::measure::Programs;
use crate::session::table::{self, Rest};

/// In the first column of calls about what nobody knows, or what found no room.
const OTHERS: &str = "(others)";

/// What is looked at.
pub struct Subject {
    /// The functions.
    pub functions: Vec<Row>,
    /// What calls are about; `None`: nobody asks.
    pub by: Option<By>,
    /// The counter of the time of interrupts, which is taken off; `None`: it is not.
    pub interrupts: Option<usize>,
    /// Are values of calls distributed?
    pub distributes: bool,
}

impl Subject {
    /// Reads what was counted until now, with the rows that it is about.
    ///
    /// # Errors
    /// The module does not tell it.
    pub fn read(&self, door: &impl Door) -> Result<(Vec<Row>, Counted), Failure> {
        let (times, rest) = table::read::<Time>(door, "reading the times")?;
        let (rows, mut counted) = match &self.by {
            Some(by) => {
                let (rows, mut counted) = by.counted(door, &self.functions, rest)?;
                counted.whole = times;
                (rows, counted)
            }
            None => {
                let counted = Counted {
                    times,
                    rest,
                    ..Counted::default()
                };
                (self.functions.clone(), counted)
            }
        };
        if self.distributes {
            counted.distributions = Distributions::read(door)?;
        }
        if let Some(at) = self.interrupts {
            counted.leave_out(at);
        }
        Ok((rows, counted))
    }

    /// The titles of the columns that say what calls are about.
    pub fn labels(&self) -> &[String] {
        self.by.as_ref().map_or(&[], |by| &by.labels)
    }
}

/// What objects are.
pub struct By {
    /// The titles of their columns.
    labels: Vec<String>,
    /// Of each target.
    layouts: Vec<Layout>,
    symbols: Symbols,
    has_stacks: bool,
}

impl By {
    /// Compiles the list and the values, and gives the places where calls begin and end their
    /// programs, which come second. `None`: there is no list.
    ///
    /// # Errors
    /// As [`compile`].
    pub fn of(
        list: Option<&str>,
        values: Vec<(String, u32)>,
        places: &mut Places,
        words: &[Word],
        targets: usize,
    ) -> Result<(Option<By>, Programs), Failure> {
        let asked = Asked::of_calls(list, values)?;
        let mut compiled = compile(&asked, places, words, &Scopes::of_kernel())?;
        let mut layouts = vec![Layout::default(); targets];
        for (at, splice) in places.splices.iter().enumerate() {
            if let (true, Some(layout)) = (splice.action & TIMES_ENTER != 0, compiled.layout_of(at))
            {
                layouts[splice.target as usize] = layout.clone();
            }
        }
        let is_stack = |layout: &Layout| layout.parts.iter().any(|one| one.kind == Kind::Stack);
        let by = By {
            labels: asked.labels().into_iter().map(str::to_owned).collect(),
            has_stacks: layouts.iter().any(is_stack),
            layouts,
            symbols: Symbols::of_kernel(),
        };
        let by = list.is_some().then_some(by);
        Ok((by, std::mem::take(&mut compiled.programs)))
    }

    /// What was counted until now, with a row for each object.
    fn counted(
        &self,
        door: &impl Door,
        functions: &[Row],
        rest: Rest,
    ) -> Result<(Vec<Row>, Counted), Failure> {
        let (objects, of_objects) = table::read::<Object>(door, "reading the times of objects")?;
        let stacks = match self.has_stacks {
            true => table::read::<Frames>(door, "reading stacks")?.0,
            false => Vec::new(),
        };
        let row = |(at, object): (usize, &Object)| {
            let of = |row: &&Row| row.target == object.target as usize;
            let mut row = functions.iter().find(of)?.clone();
            row.target = at;
            row.keys = self.keys(object, &stacks);
            Some(row)
        };
        let rows = objects.iter().enumerate().filter_map(row).collect();
        let times = objects.iter().map(|object| object.time).collect();
        let refused = of_objects[OBJECT_REFUSED];
        let counted = Counted {
            times,
            rest,
            refused,
            ..Counted::default()
        };
        Ok((rows, counted))
    }

    fn keys(&self, object: &Object, stacks: &[Frames]) -> Keys {
        if object.unknown == OBJECT_OTHERS {
            let mut shown = vec![String::new(); self.labels.len()];
            shown[0] = OTHERS.into();
            return Keys {
                shown,
                values: Vec::new(),
            };
        }
        let layout = &self.layouts[object.target as usize];
        let (mut shown, mut values) = (Vec::new(), Vec::new());
        for (part, bytes, unknown) in named(layout, &object.name, object.unknown) {
            if part.kind == Kind::Stack {
                let stack = stack(bytes, stacks, &self.symbols);
                shown.push(stack.join(";"));
                values.push(Json::from(stack));
                continue;
            }
            let value = value(part, bytes, unknown);
            shown.push(records::text(&self.symbols, &part.kind, value));
            values.push(records::json(&self.symbols, &part.kind, value));
        }
        Keys { shown, values }
    }
}
