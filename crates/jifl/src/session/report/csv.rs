// SPDX-License-Identifier: MIT OR Apache-2.0
//! The report for spreadsheets. Names of targets need no quoting.

use jifl_sys::abi::Kind;

use super::{Report, Row, Species};

const HEADING: &str =
    "nr,calls,instructions,blocks_executed,mean,p50,p99,min,max,blocks,no_return,missed\n";

/// A heading and one line for each target; figures that were not counted are empty. Where targets
/// are not system calls alone, the first column says of which kind each is.
pub fn render(report: &Report) -> String {
    let (first, name): (_, fn(&Row) -> String) = match report.species() {
        Species::Syscalls => ("syscall", Row::shown),
        Species::Functions | Species::Both => ("target", Row::target),
    };
    let mut text = format!("{first},{HEADING}");
    for row in &report.rows {
        text += &line(report.kind, row, name(row));
    }
    text
}

fn line(kind: Kind, row: &Row, name: String) -> String {
    let inside = matches!(kind, Kind::Insn | Kind::Block) && row.calls > 0;
    let cell = |shown: bool, value: Option<u64>| -> String {
        let value = value.filter(|_| shown);
        value.map_or_else(String::new, |value| value.to_string())
    };
    let mean = if inside {
        format!("{:.3}", row.mean())
    } else {
        String::new()
    };
    [
        name,
        cell(true, row.nr.map(u64::from)),
        row.calls.to_string(),
        cell(kind == Kind::Insn, Some(row.sum)),
        cell(kind == Kind::Block, Some(row.sum)),
        mean,
        cell(inside, row.p50),
        cell(inside, row.p99),
        cell(inside, Some(row.min)),
        cell(inside, Some(row.max)),
        row.blocks.to_string(),
        row.no_return.to_string(),
        row.missed.to_string(),
    ]
    .join(",")
        + "\n"
}

#[cfg(test)]
mod tests {
    use super::super::tests::{of_functions, sample};
    use super::*;

    #[test]
    fn columns_match_the_heading() {
        for kind in [Kind::Insn, Kind::Block, Kind::Call, Kind::None] {
            let text = render(&sample(kind));
            let columns: Vec<usize> = text.lines().map(|l| l.split(',').count()).collect();
            assert_eq!(columns, [13, 13, 13]);
        }
        let text = render(&of_functions(Kind::Call));
        assert!(text.starts_with("target,nr,calls,"));
        let line = text.lines().nth(2).unwrap();
        assert_eq!(line, "fn:ext4_sync_file@ext4,,3,,,,,,,,2310,1,0");
        let text = render(&sample(Kind::Insn));
        assert!(text.starts_with("syscall,nr,calls,"));
        let line = text.lines().nth(2).unwrap();
        assert_eq!(line, "read,0,3,2022,,674.000,674,674,100,90000,2310,1,0");
    }
}
