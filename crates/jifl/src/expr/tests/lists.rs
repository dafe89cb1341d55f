// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lists, and how values are shown.

use serde_json::json;

use super::*;
use crate::kernel::values;

#[test]
fn commas_in_parentheses_and_quotes_do_not_split() {
    let items =
        split("pid, size = count,str(name, 7), comm==\"a,(b\\\",\",x=y==1,a>=b,','").unwrap();
    let items: Vec<(&str, &str)> = items
        .iter()
        .map(|item| (item.label.as_str(), item.text.as_str()))
        .collect();
    assert_eq!(
        items,
        [
            ("pid", "pid"),
            ("size", "count"),
            ("str(name, 7)", "str(name, 7)"),
            ("comm==\"a,(b\\\",\"", "comm==\"a,(b\\\",\""),
            ("x", "y==1"),
            ("a>=b", "a>=b"),
            ("','", "','"),
        ]
    );
    for empty in ["", "pid,,tid", "pid,", "x="] {
        let why = split(empty).unwrap_err();
        assert!(why.contains("an expression is empty"), "{why}");
    }
}

#[test]
fn values_are_shown_by_their_kinds() {
    let number = |kind: &Kind, value: i64| kind.text(Shown::Number(value as u64));
    assert_eq!(number(&kind("count"), -5), "-5");
    assert_eq!(number(&kind("file->f_inode->color"), 7), "BLUE");
    assert_eq!(number(&kind("file->f_inode->color"), 8), "8");
    assert_eq!(number(&kind("file->f_inode->side"), -1), "LEFT");
    assert_eq!(number(&kind("count == 5"), 1), "true");
    assert_eq!(number(&kind("file"), 0x1000), "0x1000");
    assert_eq!(kind("file").text(Shown::Unknown), "?");
    assert_eq!(kind("file").json(Shown::Unknown), json!(null));
    assert_eq!(kind("count").json(Shown::Number(-5i64 as u64)), json!(-5));
    assert_eq!(kind("file").json(Shown::Number(0x1000)), json!("0x1000"));
    assert_eq!(kind("count == 5").json(Shown::Number(0)), json!(false));
    assert_eq!(kind("stack").json(Shown::Number(3)), json!(3));
    let string = kind("str(name)");
    let bytes = Shown::Bytes("a\"\\\n\u{1}é\0rest".as_bytes());
    assert_eq!(string.text(bytes), "\"a\\\"\\\\\\n\\x01é\"");
    assert_eq!(string.json(bytes), json!("a\"\\\n\u{1}é"));
    assert_eq!(string.text(Shown::Bytes(b"a\xff\xc3b")), "\"a\\xff\\xc3b\"");
    let texts = ["count", "file->f_mode", "-file->f_mode", "file"];
    let signed = texts.map(|text| kind(text).is_signed());
    assert_eq!(signed, [true, false, true, false]);
}

#[test]
fn kinds_are_kept_in_recordings() {
    for text in ["file->f_inode->side", "str(name)", "stack", "count == 1"] {
        let kind = kind(text);
        let kept = serde_json::to_string(&kind).unwrap();
        assert_eq!(serde_json::from_str::<Kind>(&kept).unwrap(), kind);
    }
    let whole = Kind::Number(values::Kind::Whole(16));
    assert_eq!(whole.text(Shown::Number(1)), "?");
}
