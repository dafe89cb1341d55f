// SPDX-License-Identifier: MIT OR Apache-2.0
//! What must hold for a recording before anything is done with it: a recording may come from
//! anywhere.

use super::{At, Block, Code, Recording, Trace};

/// One line that says what is wrong.
pub fn check(recording: &Recording) -> Result<(), String> {
    let reason = if !names_are_plain(recording) {
        "a name that is none"
    } else if !places_exist(recording) {
        "an address in no image"
    } else if !recording.trace.iter().all(|own| own.kept.is_shallow()) {
        "functions nested deeper than a stack of the kernel allows"
    } else if !sums_fit(recording) {
        "counts too large to be true"
    } else if !recording.code.iter().all(Code::is_plain) {
        "code that is none"
    } else {
        return Ok(());
    };
    Err(format!("corrupt: {reason}"))
}

/// Names are shown on terminals, and separated by blanks.
fn names_are_plain(recording: &Recording) -> bool {
    let plain = |name: &str| name.chars().all(|c| c.is_ascii_graphic());
    let symbols = recording.symbols.iter();
    let header = &recording.header;
    let texts = [&header.jifl, &header.boot_id, &header.kernel.release];
    let images = recording.images.iter();
    let exits = recording.report.cost.native_exits.iter();
    let rows = recording.report.rows.iter();
    let functions = recording.report.functions.iter();
    let left_out = functions.flat_map(|functions| &functions.left_out);
    let shown = |text: &str| !text.chars().any(char::is_control);
    symbols
        .map(|symbol| {
            plain(&symbol.name)
                && !symbol.name.is_empty()
                && plain(&symbol.module)
                && "TtD".contains(symbol.kind)
        })
        .chain(images.map(|image| plain(&image.name) && plain(&image.build_id)))
        .chain(rows.clone().map(|row| plain(&row.name)))
        .chain(
            rows.clone()
                .flat_map(|row| &row.module)
                .map(|name| plain(name)),
        )
        .chain(
            rows.flat_map(|row| &row.missed_by)
                .map(|(name, _)| plain(name)),
        )
        .chain(left_out.map(|(reason, _)| shown(reason)))
        .chain(exits.map(|(name, _)| plain(name)))
        .chain(texts.into_iter().map(|text| plain(text)))
        .chain([plain(&header.kernel.build_id)])
        .chain(
            recording
                .trace
                .iter()
                .flat_map(|trace| trace.kept.names())
                .map(plain),
        )
        .chain([shown(&header.cpu), shown(&header.kernel.version)])
        .all(|good| good)
}

fn places_exist(recording: &Recording) -> bool {
    let exists = |at: At, bytes: u32| {
        let image = recording.images.get(at.image);
        let end =
            image.and_then(|image| image.base.checked_add(at.offset)?.checked_add(bytes.into()));
        end.is_some()
    };
    let block = |block: &Block| {
        let branch = block.branch.as_ref();
        exists(block.at, block.bytes)
            && branch.is_none_or(|branch| exists(block.at, branch.offset) && exists(branch.to, 0))
    };
    let trace = |trace: &Trace| {
        trace.functions.iter().all(|at| exists(*at, 0)) && trace.kept.fits(trace.functions.len())
    };
    recording.blocks.iter().all(block)
        && recording.symbols.iter().all(|s| exists(s.at, 0))
        && recording.trace.iter().all(trace)
}

/// Checks numbers that are added up.
fn sums_fit(recording: &Recording) -> bool {
    let blocks = || recording.blocks.iter();
    let rows = || recording.report.rows.iter();
    let exits = recording.report.cost.native_exits.iter();
    let functions = recording.report.functions.iter();
    let left_out = functions.flat_map(|functions| &functions.left_out);
    let misses = rows().flat_map(|row| &row.missed_by);
    let taken = |block: &Block| block.branch.as_ref().map_or(0, |branch| branch.taken);
    fits(blocks().map(|block| u128::from(block.executed) * u128::from(block.insns.max(1))))
        && fits(blocks().map(|block| taken(block).into()))
        && fits(rows().map(|row| row.calls.into()))
        && fits(rows().map(|row| row.sum.into()))
        && fits(rows().map(|row| row.missed.into()))
        && fits(exits.map(|exit| exit.1.into()))
        && fits(left_out.map(|(_, count)| u128::from(*count)))
        && fits(misses.map(|(_, count)| u128::from(*count)))
}

/// No product is larger than 96 bits, and there are fewer than 2^32 of them.
fn fits(values: impl Iterator<Item = u128>) -> bool {
    values.sum::<u128>() <= u64::MAX.into()
}

#[cfg(test)]
mod tests {
    use super::super::tests::recorded;
    use super::*;
    use crate::session::calls::losses::Losses;
    use serde_json::json;

    /// A recording of one function in this image, and of a call that enters a function of this
    /// number. An argument has this name.
    fn traced(argument: &str, function: u32, image: usize) -> Trace {
        nested(argument, function, image, 0)
    }

    /// The same at this depth.
    fn nested(argument: &str, function: u32, image: usize, depth: u32) -> Trace {
        let parameter = json!({"name": argument, "kind": "Pointer", "register": 0});
        let kept = json!({
            "timed": false,
            "valued": true,
            "moment": {"monotonic": 1, "boottime": 2, "realtime": 3},
            "losses": Losses::default(),
            "threads": {"7": {"process": 7, "process_name": null, "name": null}},
            "prototypes": [{"parameters": [parameter], "variadic": false, "result": null}],
            "calls": [{"thread": 7, "nr": 0, "began": 5, "ended": null, "result": null,
                       "functions": [[function, depth, null, null, null, null]]}],
        });
        Trace {
            kept: serde_json::from_value(kept).unwrap(),
            functions: vec![At { image, offset: 0 }],
        }
    }

    #[test]
    fn what_would_mislead_or_overflow_is_refused() {
        assert_eq!(check(&recorded()), Ok(()));
        let mut whole = recorded();
        whole.trace = Some(traced("x", 0, 0));
        assert_eq!(check(&whole), Ok(()));
        whole.trace = Some(nested("x", 0, 0, 2000));
        assert_eq!(check(&whole), Ok(()));
        type Spoil = fn(&mut Recording);
        let spoil: [(&str, Spoil); 12] = [
            ("a name", |r| r.symbols[0].name = "a\x1b[2J".into()),
            ("a name", |r| r.symbols[0].name = String::new()),
            ("a name", |r| r.symbols[0].kind = '\n'),
            ("a name", |r| r.images[0].name = "a b".into()),
            ("an address", |r| r.blocks[0].at.image = 99),
            ("an address", |r| r.blocks[0].at.offset = u64::MAX),
            ("an address", |r| r.symbols[0].at.image = 99),
            ("counts", |r| r.blocks[0].executed = u64::MAX),
            ("an address", |r| r.trace = Some(traced("x", 0, 99))),
            ("an address", |r| r.trace = Some(traced("x", 9, 0))),
            ("nested deeper", |r| {
                r.trace = Some(nested("x", 0, 0, u32::MAX));
            }),
            ("a name", |r| r.trace = Some(traced("a\x1b", 0, 0))),
        ];
        for (word, spoil) in spoil {
            let mut recording = recorded();
            spoil(&mut recording);
            let error = check(&recording).unwrap_err();
            assert!(error.contains(word), "{word}: {error}");
        }
    }
}
