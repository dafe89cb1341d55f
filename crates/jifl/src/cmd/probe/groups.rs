// SPDX-License-Identifier: MIT OR Apache-2.0
//! Hits by groups, and histograms: `--by`, `--hist`, `--stack`.

use jifl_sys::abi::{Frames, GROUP_NEGATIVE, GROUP_OTHER, Group};
use jifl_sys::device::Door;
use serde::Serialize;
use serde_json::{Value, json};

use super::program::{Field, Layout};
use super::records::{self, Told, frame};
use super::writer::{cell, in_order};
use crate::base::exit::Failure;
use crate::expr::{Kind, Shown};
use crate::kernel::symbols::Symbols;
use crate::session::table;
use crate::show::powers::{self, Bucket};
use crate::show::table::table as lines_of;
use crate::show::text::{csv, grouped};

/// The groups of a session, those with most hits first.
#[derive(Debug, Serialize)]
pub struct Groups {
    groups: Vec<Row>,
    /// Hits of groups that there was no room for.
    #[serde(rename = "other_hits")]
    pub other: u64,
}

#[derive(Debug, Serialize)]
struct Row {
    place: String,
    #[serde(serialize_with = "in_order")]
    by: Vec<(String, Value)>,
    #[serde(skip)]
    shown: Vec<String>,
    stack: Option<Vec<String>>,
    hits: u64,
    value: Option<Figures>,
}

#[derive(Debug, Serialize)]
struct Figures {
    name: String,
    known: u64,
    /// `None`: it may be beyond what the module can add up.
    sum: Option<i128>,
    negative: u64,
    buckets: Vec<Bucket>,
}

impl Groups {
    /// Reads them from the module. `None`: no program has groups.
    ///
    /// # Errors
    /// The module does not give them.
    pub fn read(door: &impl Door, told: &Told<'_>) -> Result<Option<Groups>, Failure> {
        if !told.layouts.iter().any(|layout| layout.groups) {
            return Ok(None);
        }
        let (all, rest) = table::read::<Group>(door, "reading the groups")?;
        let has_stack = |layout: &&Layout| layout.parts.iter().any(|one| one.kind == Kind::Stack);
        let stacks = match told.layouts.iter().any(has_stack) {
            true => table::read::<Frames>(door, "reading stacks")?.0,
            false => Vec::new(),
        };
        let mut groups: Vec<Row> = (all.iter())
            .filter_map(|group| row(group, &stacks, told))
            .collect();
        groups.sort_by(|a, b| b.hits.cmp(&a.hits).then_with(|| a.shown.cmp(&b.shown)));
        Ok(Some(Groups {
            groups,
            other: rest[GROUP_OTHER],
        }))
    }

    /// Of groups by a number: that number, and the hits.
    pub fn numbers(&self) -> Vec<(i64, u64)> {
        let number = |row: &Row| Some((row.by.first()?.1.as_i64()?, row.hits));
        self.groups.iter().filter_map(number).collect()
    }

    /// For people. bar: characters of the longest bar of a histogram.
    pub fn text(&self, bar: usize) -> String {
        let mut text = String::new();
        if self
            .groups
            .iter()
            .all(|row| row.value.is_none() && row.stack.is_none())
        {
            text += &self.table();
        } else {
            for row in &self.groups {
                text += &row.text(bar);
            }
        }
        text + &self.notes()
    }

    /// For spreadsheets. Of a histogram there are the sum and what was known, and no buckets.
    pub fn csv(&self) -> String {
        let Some(first) = self.groups.first() else {
            return "hits,place\n".into();
        };
        let mut names = vec!["hits".to_owned()];
        names.extend(first.by.iter().map(|(label, _)| csv(label)));
        names.extend(first.stack.as_ref().map(|_| "stack".to_owned()));
        if first.value.is_some() {
            names.extend(["known", "sum"].map(str::to_owned));
        }
        names.push("place".into());
        let mut text = names.join(",") + "\n";
        for row in &self.groups {
            let mut cells = vec![row.hits.to_string()];
            cells.extend(row.by.iter().map(|(_, value)| cell(value)));
            cells.extend(row.stack.iter().map(|stack| cell(&json!(stack))));
            if let Some(value) = &row.value {
                cells.extend([value.known.to_string(), cell(&json!(value.sum))]);
            }
            cells.push(csv(&row.place));
            text += &(cells.join(",") + "\n");
        }
        text
    }

    /// A line about hits without a group, if there are any.
    pub fn notes(&self) -> String {
        if self.other == 0 {
            return String::new();
        }
        format!(
            "# {} hits are of groups that found no room: ask for fewer, or load the module with a \
             larger probe_groups\n",
            grouped(self.other)
        )
    }

    /// One line each.
    fn table(&self) -> String {
        let Some(first) = self.groups.first() else {
            return String::new();
        };
        let labels = first.by.iter().map(|(label, _)| label.to_uppercase());
        let title = ["HITS".to_owned()].into_iter();
        let title = title.chain(labels).chain(["PLACE".to_owned()]);
        let mut lines = vec![title.collect::<Vec<_>>()];
        for row in &self.groups {
            let mut line = vec![grouped(row.hits)];
            line.extend(row.shown.iter().cloned());
            line.push(row.place.clone());
            lines.push(line);
        }
        lines_of(&lines)
    }
}

impl Row {
    fn text(&self, bar: usize) -> String {
        let keys = self.by.iter().zip(&self.shown);
        let keys: Vec<String> = keys
            .map(|((label, _), value)| format!("{label}={value}"))
            .collect();
        let mut text = self.place.clone();
        for key in keys {
            text += &format!(" {key}");
        }
        text += &format!(": {} {}", grouped(self.hits), hits(self.hits));
        if let Some(figures) = &self.value {
            text += &figures.text(self.hits);
        }
        text.push('\n');
        for frame in self.stack.iter().flatten() {
            text += &format!("    {frame}\n");
        }
        if let Some(figures) = &self.value {
            text += &powers::lines(&figures.buckets, figures.negative, bar);
        }
        text
    }
}

fn hits(number: u64) -> &'static str {
    if number == 1 { "hit" } else { "hits" }
}

impl Figures {
    fn text(&self, hits: u64) -> String {
        let mut text = format!(", {}: sum ", self.name);
        match self.sum {
            Some(sum) if self.known > 0 => {
                let mean = sum as f64 / self.known as f64;
                text += &format!("{sum}, mean {mean:.1}");
            }
            Some(sum) => text += &sum.to_string(),
            None => text += "?",
        }
        if self.known < hits {
            text += &format!(", {} unknown", grouped(hits - self.known));
        }
        text
    }
}

fn row(group: &Group, stacks: &[Frames], told: &Told<'_>) -> Option<Row> {
    let layout = told.layouts.get(group.place as usize)?;
    let mut row = Row {
        place: (*told.names.get(group.place as usize)?).to_owned(),
        by: Vec::new(),
        shown: Vec::new(),
        stack: None,
        hits: group.hits,
        value: layout
            .value
            .as_ref()
            .map(|(name, signed)| figures(group, name, *signed)),
    };
    for (part, bytes, unknown) in named(layout, &group.name, group.unknown) {
        if part.kind == Kind::Stack {
            row.stack = Some(stack(bytes, stacks, told.symbols));
            continue;
        }
        let value = value(part, bytes, unknown);
        row.shown
            .push(records::text(told.symbols, &part.kind, value));
        let value = records::json(told.symbols, &part.kind, value);
        row.by.push((part.label.clone(), value));
    }
    Some(row)
}

/// The parts of a group's name: their bytes, and whether each is unknown.
pub fn named<'a>(
    layout: &'a Layout,
    name: &'a [u8],
    unknown: u32,
) -> impl Iterator<Item = (&'a Field, &'a [u8], bool)> {
    let mut rest = name;
    layout
        .parts
        .iter()
        .enumerate()
        .map_while(move |(at, part)| {
            let (bytes, behind) = rest.split_at_checked(part.bytes)?;
            rest = behind;
            Some((part, bytes, unknown >> at & 1 == 1))
        })
}

/// The value of a part that is no stack.
pub fn value<'a>(part: &Field, bytes: &'a [u8], unknown: bool) -> Shown<'a> {
    match (unknown, &part.kind) {
        (true, _) => Shown::Unknown,
        (_, Kind::String { .. }) => Shown::Bytes(bytes),
        _ => Shown::Number(word(bytes)),
    }
}

fn word(bytes: &[u8]) -> u64 {
    bytes
        .first_chunk()
        .map_or(0, |word| u64::from_ne_bytes(*word))
}

/// The callers of a stack, by its number.
pub fn stack(bytes: &[u8], stacks: &[Frames], symbols: &Symbols) -> Vec<String> {
    let number = usize::try_from(word(bytes)).unwrap_or(usize::MAX);
    let Some(frames) = number.checked_sub(1).and_then(|at| stacks.get(at)) else {
        return vec![
            "(there was no room for the stack: load the module with a larger \
                     probe_groups)"
                .into(),
        ];
    };
    let frames = frames.address.iter().take_while(|address| **address != 0);
    frames.map(|address| frame(symbols, *address)).collect()
}

fn figures(group: &Group, name: &str, signed: bool) -> Figures {
    Figures {
        name: name.to_owned(),
        known: group.known,
        sum: sum(group, signed),
        negative: group.bucket[GROUP_NEGATIVE],
        buckets: powers::buckets(&group.bucket[..GROUP_NEGATIVE]),
    }
}

/// The sum of the values, which the module adds modulo 2^64. `None`: by how many values there are of
/// how many bits, it may be another one.
fn sum(group: &Group, signed: bool) -> Option<i128> {
    let (mut least, mut most) = (0u128, 0u128);
    for (bits, count) in group.bucket[..GROUP_NEGATIVE].iter().enumerate() {
        let above = 1u128 << bits;
        least = least.saturating_add(u128::from(*count).saturating_mul(above / 2));
        most = most.saturating_add(u128::from(*count).saturating_mul(above - 1));
    }
    if signed && group.bucket[GROUP_NEGATIVE] > 0 {
        // How far values are below 0 is not known.
        return (most <= i64::MAX as u128).then_some(i128::from(group.sum as i64));
    }
    let sum = u128::from(group.sum);
    let is_one = least <= sum && most < sum + (1 << 64);
    is_one.then_some(i128::from(group.sum))
}

#[cfg(test)]
mod tests {
    use super::*;
    use jifl_sys::abi::{GROUP_BUCKETS, GROUP_MAX};

    fn group(sum: u64, buckets: &[(usize, u64)]) -> Group {
        let mut group = Group {
            place: 0,
            unknown: 0,
            name: [0; GROUP_MAX],
            hits: 0,
            sum,
            known: 0,
            bucket: [0; GROUP_BUCKETS],
        };
        for (bits, count) in buckets {
            group.bucket[*bits] = *count;
            group.known += count;
        }
        group.hits = group.known;
        group
    }

    #[test]
    fn a_sum_that_may_have_wrapped_is_none() {
        let pointer = 0xffff_8880_0000_1000;
        for (group, signed, wanted) in [
            (group(7, &[(0, 3), (3, 1)]), false, Some(7)),
            (group(0, &[]), false, Some(0)),
            (group(pointer, &[(64, 1)]), false, Some(pointer as i128)),
            (group(pointer.wrapping_mul(2), &[(64, 2)]), false, None),
            (group(1 << 60, &[(63, 9)]), false, None),
            (group(-5i64 as u64, &[(GROUP_NEGATIVE, 2)]), true, Some(-5)),
            (group(1, &[(63, 2), (GROUP_NEGATIVE, 1)]), true, None),
        ] {
            assert_eq!(sum(&group, signed), wanted, "{:x} {signed}", group.sum);
        }
        let known = figures(&group(7, &[(0, 3), (3, 1)]), "n", false);
        assert_eq!(known.text(4), ", n: sum 7, mean 1.8");
        let wrapped = figures(&group(0, &[(64, 2)]), "n", false);
        assert_eq!(wrapped.text(3), ", n: sum ?, 1 unknown");
        assert_eq!(json!(wrapped)["sum"], Value::Null);
    }
}
