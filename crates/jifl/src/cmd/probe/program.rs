// SPDX-License-Identifier: MIT OR Apache-2.0
//! From the options of `jifl probe` to programs of places.

use std::collections::HashMap;

use clap::Args;
use jifl_sys::abi::{
    ACTIONS_MAX, Action, Code, GROUP_MAX, HIT_MAX, OPS_MAX, Op, RING_MAX, STRING_MAX, Splice,
    TIMES_ENTER, TIMES_LEAVE, TIMES_PROGRAM,
};

use super::bpf::Loaded;
use super::place::{Places, Spot};
use super::word::Word;
use crate::base::exit::Failure;
use crate::base::size;
use crate::expr::{self, At, Expression, Item, Kind, Scope, Scopes, Strings};
use crate::session::measure::Programs;
use crate::show::text::grouped;

/// Bytes of records for each CPU, if `--ring` does not say it.
const RING: &str = "1M";
/// Bytes that a string has in the name of a group, its end included.
const GROUP_STRING: usize = 32;
/// Values of a record: the module has a bit for each that says whether it is known.
const FIELDS_MAX: usize = 64;
/// Bytes of the head of a record, `struct jifl_hit`.
const HEAD: usize = size_of::<jifl_sys::abi::Hit>();

/// What is done at places besides counting.
#[derive(Debug, Default, Args)]
pub struct Actions {
    /// Only executions where this holds: 'count > 4096 && comm == "cat"'
    #[arg(long = "if", value_name = "EXPR")]
    condition: Option<String>,
    /// Print these values at each execution: 'pid, size=count, str(name)'
    #[arg(long, value_name = "EXPR,...")]
    record: Option<String>,
    /// A histogram of this value
    #[arg(long, value_name = "EXPR")]
    hist: Option<String>,
    /// Count by these: comm, pid, cpu, level, stack, or any EXPR
    #[arg(long, value_name = "EXPR,...")]
    by: Option<String>,
    /// PLACE is a line of kprobe events, with what to record: 'p:name vfs_read+0x1a count=%dx'
    #[arg(long, conflicts_with = "record")]
    pub kprobe: bool,
    /// The stack: of each record; without --record, count by it
    #[arg(long)]
    stack: bool,
    /// Run this BPF program: a pinned one, or FILE.o, or FILE.o:NAME
    #[arg(long, value_name = "PROG")]
    bpf: Option<String>,
    /// With --record: room for records that have not been printed, for each CPU
    #[arg(long, value_name = "BYTES", default_value = RING, value_parser = size::parse)]
    ring: u32,
}

/// The options, read.
pub struct Asked {
    condition: Option<String>,
    records: bool,
    fields: Vec<Item>,
    /// Of each word, in place of `fields`.
    lines: Option<Vec<Vec<Item>>>,
    value: Option<String>,
    parts: Vec<Item>,
    groups: bool,
    /// They are places of the tool times: groups tell what calls are about.
    times: bool,
    /// Of those, values that are added up: the expression, and its counter's number.
    values: Vec<(String, u32)>,
    bpf: Option<Loaded>,
    ring: u32,
    /// Records go to the flight recorder.
    flight: bool,
}

/// Is it a value that a call has at its end?
fn is_at_end(text: &str) -> bool {
    text.contains("$ret")
}

impl Asked {
    /// What the place is called that executions of several places record first.
    pub const AT: &str = "at";

    /// Numbers for the flight recorder. Its op is of event 0: the number is not known yet.
    ///
    /// # Errors
    /// The list has no such form.
    pub fn flight(
        condition: Option<String>,
        record: Option<&str>,
        several: bool,
    ) -> Result<Asked, Failure> {
        let at = several.then(|| Item {
            label: Asked::AT.into(),
            text: "rip".into(),
        });
        Ok(Asked {
            condition,
            records: true,
            fields: at.into_iter().chain(items(record)?).collect(),
            lines: None,
            value: None,
            parts: Vec::new(),
            groups: false,
            times: false,
            values: Vec::new(),
            bpf: None,
            // The numbers stand in it while they are computed.
            ring: HIT_MAX as u32,
            flight: true,
        })
    }

    /// What calls are about; `None`: nobody asks. values: what is added up of each call, by the
    /// numbers of their counters.
    ///
    /// # Errors
    /// The list has no such form.
    pub fn of_calls(list: Option<&str>, values: Vec<(String, u32)>) -> Result<Asked, Failure> {
        Ok(Asked {
            condition: None,
            records: false,
            fields: Vec::new(),
            lines: None,
            value: None,
            parts: items(list)?,
            groups: list.is_some(),
            times: true,
            values,
            bpf: None,
            ring: 0,
            flight: false,
        })
    }

    /// Which errors a function returns: a group for each.
    ///
    /// # Errors
    /// There is none: it is what others of this kind have.
    pub fn failures() -> Result<Asked, Failure> {
        Ok(Asked {
            condition: Some("(long)$ret < 0 && (long)$ret > -4096".into()),
            times: false,
            ..Asked::of_calls(Some("error=(long)$ret"), Vec::new())?
        })
    }

    /// The names of the parts of groups.
    pub fn labels(&self) -> Vec<&str> {
        self.parts.iter().map(|part| part.label.as_str()).collect()
    }

    /// Has a place a program?
    fn has(&self, splice: &Splice) -> bool {
        let enters = splice.action & TIMES_ENTER != 0;
        let leaves = splice.action & TIMES_LEAVE != 0;
        !self.times || self.groups && enters || self.values_at(enters, leaves).next().is_some()
    }

    /// What is added up where calls begin, or end.
    fn values_at(&self, enters: bool, leaves: bool) -> impl Iterator<Item = &(String, u32)> {
        let values = self.values.iter();
        values.filter(move |(text, _)| if is_at_end(text) { leaves } else { enters })
    }

    /// What names a program at a place, whose number counts from 0 on.
    fn action(&self, program: u32) -> u32 {
        // 0 is none.
        (program + 1) * if self.times { TIMES_PROGRAM } else { 1 }
    }

    /// What is recorded at places of a word.
    fn fields(&self, word: usize) -> Vec<Item> {
        let own = self.lines.as_ref().and_then(|lines| lines.get(word));
        // --stack is behind a line's own.
        let own = own.into_iter().flatten();
        own.chain(&self.fields).cloned().collect()
    }

    /// Are there records?
    pub fn records(&self) -> bool {
        self.records
    }
}

fn items(list: Option<&str>) -> Result<Vec<Item>, Failure> {
    list.map_or(Ok(Vec::new()), |list| {
        expr::split(list).map_err(Failure::usage)
    })
}

impl Actions {
    /// Is there anything to do besides counting?
    pub fn is_any(&self) -> bool {
        let texts = [
            &self.condition,
            &self.record,
            &self.hist,
            &self.by,
            &self.bpf,
        ];
        self.stack || self.kprobe || texts.iter().any(|text| text.is_some())
    }

    /// Are hits counted by groups?
    pub fn has_groups(&self) -> bool {
        self.hist.is_some() || self.by.is_some() || self.stack
    }

    /// Reads lists, and opens the BPF program. lines: of each word, what its line of kprobe events
    /// records.
    ///
    /// # Errors
    /// A list has no such form, or there is no such program.
    pub fn read(&self, lines: Option<Vec<Vec<Item>>>) -> Result<Asked, Failure> {
        let stack = || Item {
            label: "stack".into(),
            text: "stack".into(),
        };
        let records = self.record.is_some() || lines.is_some();
        if self.ring > RING_MAX {
            return Err(Failure::usage("--ring: there may be 256M for each CPU"));
        }
        let mut fields = items(self.record.as_deref())?;
        let mut parts = items(self.by.as_deref())?;
        if self.stack {
            match records {
                true => fields.push(stack()),
                false => parts.push(stack()),
            }
        }
        Ok(Asked {
            condition: self.condition.clone(),
            records,
            fields,
            lines,
            value: self.hist.clone(),
            groups: self.hist.is_some() || !parts.is_empty(),
            times: false,
            values: Vec::new(),
            parts,
            bpf: self.bpf.as_deref().map(Loaded::open).transpose()?,
            ring: if records { self.ring } else { 0 },
            flight: false,
        })
    }
}

/// A value of a record, or a part of a group's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// What it is called.
    pub label: String,
    /// What it is.
    pub kind: Kind,
    /// Of a group's name: its bytes.
    pub bytes: usize,
}

/// What one program writes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Layout {
    /// Of a record.
    pub fields: Vec<Field>,
    /// Of the name of a group.
    pub parts: Vec<Field>,
    /// Are there groups?
    pub groups: bool,
    /// How the value of a histogram is called, and whether it is signed.
    pub value: Option<(String, bool)>,
}

/// Programs, and what they write.
#[derive(Default)]
pub struct Compiled {
    /// For the module, each once.
    pub programs: Programs,
    layouts: Vec<Layout>,
    /// Of each place: an index into `layouts`; `None`: it has no program.
    of_places: Vec<Option<usize>>,
    /// Indices into `programs.actions`, by their ops.
    known: HashMap<Vec<Key>, u32>,
}

/// An op as a key.
type Key = (u8, u8, u8, u32, u64);

/// Compiles what is asked for at each place, and gives the places their programs. The words mean
/// the places.
///
/// # Errors
/// An expression means nothing at a place: which, and why. There are too many programs.
pub fn compile(
    asked: &Asked,
    places: &mut Places,
    words: &[Word],
    scopes: &Scopes,
) -> Result<Compiled, Failure> {
    let of_splice = words_of(asked, places, words)?;
    let (splices, spots) = (&mut places.splices, &places.spots);
    let mut all = Compiled::default();
    let mut strings = Strings::default();
    // By what an expression depends on, the program and what it writes.
    let mut known: HashMap<(&str, At, usize, u32), (u32, usize)> = HashMap::new();
    for ((splice, spot), word) in splices.iter_mut().zip(spots).zip(of_splice) {
        if !asked.has(splice) {
            all.of_places.push(None);
            continue;
        }
        let key = (spot.function.as_str(), spot.at, word, splice.action);
        let (action, layout) = match known.get(&key) {
            Some(both) => *both,
            None => {
                let place = |why: String| Failure::usage(format!("{}: {why}", spot.name));
                let fields = asked.fields(word);
                let made = match asked.times {
                    true => of_call(asked, spot, splice.action, scopes, &mut strings),
                    false => program(asked, spot, &fields, scopes, &mut strings),
                };
                let (ops, layout) = made.map_err(place)?;
                all.layouts.push(layout);
                let both = (all.action(asked, &ops)?, all.layouts.len() - 1);
                known.insert(key, both);
                both
            }
        };
        splice.action |= asked.action(action);
        all.of_places.push(Some(layout));
    }
    all.programs.strings = strings.bytes().to_vec();
    all.programs.ring = asked.ring;
    Ok(all)
}

impl Compiled {
    /// What is written at each place that has a program.
    pub fn layouts(&self) -> Vec<&Layout> {
        let layout = |at: &usize| &self.layouts[*at];
        self.of_places.iter().flatten().map(layout).collect()
    }

    /// The same for each place.
    pub fn layout_of(&self, place: usize) -> Option<&Layout> {
        Some(&self.layouts[(*self.of_places.get(place)?)?])
    }

    /// The program of these ops.
    fn action(&mut self, asked: &Asked, ops: &[Op]) -> Result<u32, Failure> {
        let key = |op: &Op| (op.code, op.width, op.flags, op.arg, op.imm);
        let key: Vec<Key> = ops.iter().map(key).collect();
        if let Some(action) = self.known.get(&key) {
            return Ok(*action);
        }
        let action = self.programs.actions.len();
        if action == ACTIONS_MAX {
            let most = grouped(ACTIONS_MAX as u64);
            return Err(Failure::usage(format!(
                "these places need more than {most} programs that differ, and a session has at \
                 most {most}: give narrower patterns, or ask for what is computed in the same way \
                 in all functions, as $arg0 and registers are"
            )));
        }
        let from = self.programs.ops.len() as u32;
        self.programs.ops.extend_from_slice(ops);
        let mut made = Action::of(from, ops.len() as u32);
        if let Some(bpf) = &asked.bpf {
            made.bpf = bpf.number();
        }
        self.programs.actions.push(made);
        self.known.insert(key, action as u32);
        Ok(action as u32)
    }
}

/// The word whose values each place records; 0 where all record the same.
fn words_of(asked: &Asked, places: &Places, words: &[Word]) -> Result<Vec<usize>, Failure> {
    let mut of_splice = vec![None; places.splices.len()];
    for (word, of_word) in places.of_words.iter().enumerate() {
        for at in of_word {
            let known = of_splice[*at].replace(word);
            if let (Some(known), Some(_)) = (known, &asked.lines) {
                return Err(Failure::usage(format!(
                    "{} and {} are the same place: give one of them",
                    words[known].word, words[word].word
                )));
            }
        }
    }
    let own = asked.lines.is_some();
    let word = |word: Option<usize>| word.filter(|_| own).unwrap_or_default();
    Ok(of_splice.into_iter().map(word).collect())
}

/// The program of a place.
fn program(
    asked: &Asked,
    spot: &Spot,
    fields: &[Item],
    scopes: &Scopes,
    strings: &mut Strings,
) -> Result<(Vec<Op>, Layout), String> {
    let scope = scopes.of(&spot.function, spot.at);
    let mut ops = Vec::new();
    let mut layout = Layout::default();
    if let Some(text) = &asked.condition {
        ops.extend(Expression::number(text, &scope, strings)?.ops);
        ops.push(Op::of(Code::If));
    }
    ops.push(Op::of(Code::Hit));
    if asked.groups {
        parts(asked, &scope, strings, &mut ops, &mut layout)?;
        if let Some(text) = &asked.value {
            let compiled = Expression::number(text, &scope, strings)?;
            let signed = compiled.is_signed();
            ops.extend(compiled.ops);
            ops.push(Op::of(Code::Value).signed(signed));
            layout.value = Some((compiled.text, signed));
        }
        ops.push(Op::of(Code::Sum));
    }
    if asked.records {
        for item in fields {
            let compiled = Expression::compile(&item.text, &scope, strings)?;
            ops.extend(compiled.ops);
            ops.push(out(&compiled.kind));
            layout.fields.push(Field {
                label: item.label.clone(),
                kind: compiled.kind,
                bytes: 0,
            });
        }
        ops.push(Op::of(match asked.flight {
            true => Code::Flight,
            false => Code::Record,
        }));
    }
    if asked.bpf.is_some() {
        ops.push(Op::of(Code::Bpf));
    }
    fits(&ops, &layout)?;
    Ok((ops, layout))
}

/// The program of a place where calls begin, or end, by its action.
fn of_call(
    asked: &Asked,
    spot: &Spot,
    action: u32,
    scopes: &Scopes,
    strings: &mut Strings,
) -> Result<(Vec<Op>, Layout), String> {
    let (enters, leaves) = (action & TIMES_ENTER != 0, action & TIMES_LEAVE != 0);
    let scope = scopes.of(&spot.function, spot.at);
    let mut ops = Vec::new();
    let mut layout = Layout::default();
    for (text, counter) in asked.values_at(enters, leaves) {
        let compiled = Expression::number(text, &scope, strings)?;
        let signed = compiled.is_signed();
        ops.extend(compiled.ops);
        ops.push(Op::with(Code::AddUp, *counter, 0).signed(signed));
    }
    if asked.groups && enters {
        parts(asked, &scope, strings, &mut ops, &mut layout)?;
        ops.push(Op::of(Code::Object));
    }
    fits(&ops, &layout)?;
    Ok((ops, layout))
}

/// The name of a group.
fn parts(
    asked: &Asked,
    scope: &Scope,
    strings: &mut Strings,
    ops: &mut Vec<Op>,
    layout: &mut Layout,
) -> Result<(), String> {
    layout.groups = true;
    for item in &asked.parts {
        let compiled = Expression::compile(&item.text, scope, strings)?;
        let (op, bytes) = part(&compiled.kind);
        ops.extend(compiled.ops);
        ops.push(op);
        layout.parts.push(Field {
            label: item.label.clone(),
            kind: compiled.kind,
            bytes,
        });
    }
    Ok(())
}

/// The op of a part of a group's name, and its bytes.
fn part(kind: &Kind) -> (Op, usize) {
    match kind {
        Kind::Stack => (Op::of(Code::GroupStack), 8),
        Kind::String { max } => {
            // Whole words, as the module's names are.
            let most = (*max).min(GROUP_STRING);
            let bytes = most.next_multiple_of(4);
            (Op::with(Code::GroupStr, bytes as u32, most as u64), bytes)
        }
        Kind::Number(_) | Kind::Code => (Op::of(Code::Group), 8),
    }
}

fn out(kind: &Kind) -> Op {
    match kind {
        Kind::Stack => Op::of(Code::OutStack),
        Kind::String { max } => Op::with(Code::OutStr, (*max).min(STRING_MAX) as u32, 0),
        Kind::Number(_) | Kind::Code => Op::of(Code::Out),
    }
}

/// Does the module take it?
fn fits(ops: &[Op], layout: &Layout) -> Result<(), String> {
    if ops.len() > OPS_MAX {
        return Err(format!(
            "all expressions together take {} steps, and there may be {OPS_MAX}: ask for less",
            ops.len()
        ));
    }
    let name: usize = layout.parts.iter().map(|part| part.bytes).sum();
    if name > GROUP_MAX {
        return Err(format!(
            "--by: these need {name} bytes, and there are {GROUP_MAX}: a number needs 8, a string \
             up to {GROUP_STRING}; ask for less"
        ));
    }
    if layout.fields.len() > FIELDS_MAX {
        return Err(format!(
            "--record: a record has at most {FIELDS_MAX} values, and these are {}",
            layout.fields.len()
        ));
    }
    let record: usize = ops.iter().map(written).sum::<usize>() + HEAD;
    if record > HIT_MAX {
        return Err(format!(
            "--record: a record may have {record} bytes, and there is room for {HIT_MAX}: ask for \
             less, or give strings a length, as in str(name, 64)"
        ));
    }
    Ok(())
}

/// The bytes that an op adds to a record at most.
fn written(op: &Op) -> usize {
    match Code::from_number(op.code) {
        Some(Code::Out) => 8,
        Some(Code::OutStr) => 8 + (op.arg as usize).next_multiple_of(8),
        Some(Code::OutStack) => 8 + 8 * jifl_sys::abi::FRAMES_MAX,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use jifl_sys::abi::Splice;

    use super::*;
    use crate::base::parse::parse;

    fn asked(line: &str) -> Asked {
        parse::<Actions>(line).unwrap().read(None).unwrap()
    }

    /// The program at a function of which no types are known.
    fn compiled(line: &str, at: At) -> Result<(Vec<Op>, Layout), String> {
        let spot = Spot {
            name: "fn:f".into(),
            function: "f".into(),
            at,
        };
        let scopes = Scopes::by(Err("none here".into()));
        let asked = asked(line);
        program(
            &asked,
            &spot,
            &asked.fields(0),
            &scopes,
            &mut Strings::default(),
        )
    }

    fn codes(ops: &[Op]) -> Vec<Code> {
        let code = |op: &Op| Code::from_number(op.code).unwrap();
        ops.iter().map(code).collect()
    }

    #[test]
    fn what_is_asked_for_is_done_in_one_order() {
        use Code::*;
        let all = "--record $arg0 --hist $arg1 --by comm,$arg2 --if $arg3==1 --stack";
        let (ops, layout) = compiled(all, At::Entry).unwrap();
        let effects: Vec<Code> = codes(&ops)
            .into_iter()
            .filter(|one| *one as u8 >= If as u8)
            .collect();
        assert_eq!(
            effects,
            [If, Hit, GroupStr, Group, Value, Sum, Out, OutStack, Record]
        );
        let label = |field: &Field| (field.label.clone(), field.bytes);
        let parts: Vec<_> = layout.parts.iter().map(label).collect();
        assert_eq!(parts, [("comm".to_owned(), 16), ("$arg2".to_owned(), 8)]);
        assert_eq!(layout.fields.len(), 2);
        // Without a record the stack makes groups; without a condition all is counted first.
        let (ops, layout) = compiled("--stack", At::Inside).unwrap();
        assert_eq!(codes(&ops), [Hit, GroupStack, Sum]);
        assert!(layout.groups && layout.fields.is_empty());
    }

    /// Places at the beginning of so many functions, `f0` and on.
    fn places(number: usize) -> Places {
        let spot = |at| Spot {
            name: format!("fn:f{at}"),
            function: format!("f{at}"),
            at: At::Entry,
        };
        Places {
            splices: vec![Splice::default(); number],
            spots: (0..number).map(spot).collect(),
            of_words: vec![(0..number).collect()],
            ..Places::default()
        }
    }

    #[test]
    fn the_same_program_is_there_once() {
        let scopes = Scopes::by(Err("none here".into()));
        let words = [Word::parse("fn:*").unwrap()];
        let mut all = places(ACTIONS_MAX + 1);
        let asked = asked("--record $arg0 --if comm==\"cat\"");
        let compiled = compile(&asked, &mut all, &words, &scopes).unwrap();
        let (programs, layouts) = (&compiled.programs, compiled.layouts());
        assert_eq!(programs.actions.len(), 1);
        assert_eq!(programs.actions[0].n as usize, programs.ops.len());
        assert!(all.splices.iter().all(|splice| splice.action == 1));
        assert_eq!(layouts.len(), all.splices.len());
        assert!(
            layouts
                .iter()
                .all(|layout| layout.fields[0].label == "$arg0")
        );
        // Of one function, where a result is known and where it is not.
        let mut all = places(2);
        all.spots[0].at = At::Return;
        all.spots[1].at = At::TailCall;
        let asked = super::tests::asked("--record $ret");
        let compiled = compile(&asked, &mut all, &words, &scopes).unwrap();
        assert_eq!(compiled.programs.actions.len(), 2);
        assert_eq!((all.splices[0].action, all.splices[1].action), (1, 2));
    }

    #[test]
    fn too_many_programs_are_refused_with_the_way_out() {
        let asked = asked("--record $arg0");
        let mut all = Compiled::default();
        for number in 0..ACTIONS_MAX as u64 {
            let ops = [Op::with(Code::Const, 0, number), Op::of(Code::Out)];
            assert_eq!(all.action(&asked, &ops).unwrap() as u64, number);
        }
        let first = [Op::with(Code::Const, 0, 0), Op::of(Code::Out)];
        assert_eq!(all.action(&asked, &first).unwrap(), 0);
        let why = all.action(&asked, &[Op::of(Code::Hit)]).unwrap_err();
        assert_eq!(why.status, crate::base::exit::USAGE);
        let wanted = ["more than 4,096 programs", "narrower patterns", "$arg0"];
        assert!(
            wanted.iter().all(|part| why.message.contains(part)),
            "{}",
            why.message
        );
    }

    #[test]
    fn what_has_no_room_is_refused() {
        let many = format!("--by {}", ["$arg0"; 9].join(","));
        let why = compiled(&many, At::Entry).unwrap_err();
        assert!(why.contains("need 72 bytes, and there are 64"), "{why}");
        let long = format!("--record {}", ["str($arg0,250)"; 8].join(","));
        let why = compiled(&long, At::Entry).unwrap_err();
        assert!(why.contains("room for 2048"), "{why}");
        assert!(
            compiled("--record $ret", At::Entry)
                .unwrap_err()
                .contains("%return")
        );
    }

    #[test]
    fn a_group_has_no_more_of_a_string_than_is_asked_for() {
        let (ops, layout) = compiled("--by str($arg0,4),str($arg1,100),comm", At::Entry).unwrap();
        let strings = ops.iter().filter(|op| op.code == Code::GroupStr as u8);
        let limits: Vec<_> = strings.map(|op| (op.arg, op.imm)).collect();
        // With the end: its room, and what is read.
        assert_eq!(limits, [(8, 5), (32, 32), (16, 16)]);
        let bytes: Vec<usize> = layout.parts.iter().map(|part| part.bytes).collect();
        assert_eq!(bytes, [8, 32, 16]);
    }

    #[test]
    fn more_values_than_a_record_may_have_are_refused() {
        let line = |n: usize| format!("--record {}", vec!["$arg0"; n].join(","));
        assert!(compiled(&line(FIELDS_MAX), At::Entry).is_ok());
        let why = compiled(&line(FIELDS_MAX + 1), At::Entry).unwrap_err();
        assert_eq!(
            why,
            "--record: a record has at most 64 values, and these are 65"
        );
    }

    #[test]
    fn a_result_is_unknown_where_another_function_returns_it() {
        let (ops, _) = compiled("--record $ret", At::TailCall).unwrap();
        assert!(codes(&ops).contains(&Code::Div) && !codes(&ops).contains(&Code::Reg));
        let (ops, _) = compiled("--record $ret", At::Return).unwrap();
        assert!(codes(&ops).contains(&Code::Reg));
    }
}
