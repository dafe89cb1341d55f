// SPDX-License-Identifier: MIT OR Apache-2.0
//! Coverage in lcov's format (geninfo(1)): a record for each source file.

use std::fmt::Write as _;

use super::source::{Record, Records};
use crate::kernel::lines::Lines;

/// The whole file. Sources are named as they are to be found.
pub fn render(records: &Records, lines: &Lines) -> String {
    let shown = records.iter().map(|(file, record)| {
        let path = lines.path(file);
        show(&path.to_string_lossy(), record)
    });
    shown.collect()
}

fn show(file: &str, record: &Record) -> String {
    let mut text = format!("TN:jifl\nSF:{file}\n");
    for (name, (line, _)) in &record.functions {
        let _ = writeln!(text, "FN:{line},{name}");
    }
    for (name, (_, calls)) in &record.functions {
        let _ = writeln!(text, "FNDA:{calls},{name}");
    }
    let hit = record.functions.values().filter(|(_, calls)| *calls > 0);
    let _ = writeln!(text, "FNF:{}\nFNH:{}", record.functions.len(), hit.count());
    text += &branches(record);
    for (line, executed) in &record.lines {
        let _ = writeln!(text, "DA:{line},{executed}");
    }
    let hit = record.lines.values().filter(|executed| **executed > 0);
    let _ = writeln!(text, "LF:{}\nLH:{}", record.lines.len(), hit.count());
    text + "end_of_record\n"
}

/// Two edges for each branch instruction: taken, and not.
fn branches(record: &Record) -> String {
    let (mut text, mut found, mut hit) = (String::new(), 0, 0);
    for (line, branches) in &record.branches {
        for (block, (executed, taken)) in branches.iter().enumerate() {
            for (edge, times) in [*taken, executed.saturating_sub(*taken)].iter().enumerate() {
                let shown = match executed {
                    0 => "-".into(),
                    _ => times.to_string(),
                };
                let _ = writeln!(text, "BRDA:{line},{block},{edge},{shown}");
                found += 1;
                hit += usize::from(*times > 0);
            }
        }
    }
    if found > 0 {
        let _ = writeln!(text, "BRF:{found}\nBRH:{hit}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::source::records;
    use super::*;
    use crate::session::blocks::functions;
    use crate::session::blocks::tests::sample;

    #[test]
    fn functions_alone_where_lines_are_not_known() {
        let profile = sample();
        let found = functions(&profile.blocks, &profile.symbols);
        let lines = Lines::default();
        assert_eq!(
            render(&records(&profile, &found, &lines, true), &lines),
            "TN:jifl\nSF:nfs.ko\nFN:0,inner\nFNDA:40,inner\nFNF:1\nFNH:1\nLF:0\nLH:0\nend_of_record\n\
             TN:jifl\nSF:vmlinux\nFN:0,outer\nFNDA:10,outer\nFNF:1\nFNH:1\nLF:0\nLH:0\nend_of_record\n"
        );
    }

    #[test]
    fn branches_have_two_edges() {
        let mut record = Record::default();
        record.lines.insert(4, 10);
        record.lines.insert(5, 0);
        record.branches.insert(4, vec![(10, 3), (0, 0)]);
        assert_eq!(
            show("f.c", &record),
            "TN:jifl\nSF:f.c\nFNF:0\nFNH:0\nBRDA:4,0,0,3\nBRDA:4,0,1,7\nBRDA:4,1,0,-\nBRDA:4,1,1,-\n\
             BRF:4\nBRH:2\nDA:4,10\nDA:5,0\nLF:2\nLH:1\nend_of_record\n"
        );
    }
}
