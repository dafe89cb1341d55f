// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is refused, in one line that says what there is instead.

use super::*;

fn refused(text: &str, at: At, part: &str) {
    let scope = scopes().of("open_it", at);
    let found = Expression::number(text, &scope, &mut Strings::default());
    let why = found.expect_err(text);
    assert!(why.contains(part), "{why}\nlacks: {part}");
    assert!(!why.contains('\n') && why.starts_with(text.trim()), "{why}");
}

#[test]
fn each_refusal_says_what_is_wrong() {
    for (text, part) in [
        (
            "file->f_inodes",
            "column 7: struct file has no member `f_inodes`: the nearest are f_inode",
        ),
        (
            "file->zzz",
            "has no member `zzz`: it has f_mode, f_path, f_inode",
        ),
        (
            "file->f_path->mnt",
            "`file->f_path` is no pointer: write .mnt",
        ),
        (
            "file.f_mode",
            "column 6: `file` is a pointer: write ->f_mode",
        ),
        ("count->x", "`count` is no pointer but s32: cast it first"),
        ("rdi->f_mode", "as in ((struct file *)rdi)->f_mode"),
        ("*count", "`count` is no pointer but s32"),
        (
            "*file->private",
            "void pointer: cast it first, as in *(u64 *)",
        ),
        (
            "file->private->x",
            "void pointer: cast it first, as in ((struct file *)file->private)->x",
        ),
        (
            "file->lacking->x",
            "leads to struct lacking, whose members are not known here",
        ),
        (
            "file->f_path",
            "is a struct path, and no number: name a member of it (dentry, mnt)",
        ),
        ("*file", "is a struct file, and no number"),
        (
            "file->f_inode->numbers",
            "is an array of 4 s32: name one, as in [0]",
        ),
        (
            "file->f_inode->numbers[4]",
            "has 4 elements, from [0] to [3]",
        ),
        (
            "file->f_inode->wide",
            "is no number of at most 64 bits: it is __int128",
        ),
        (
            "&file->f_inode->fields.low",
            "is a bit field, which has no address",
        ),
        ("&count", "is not in memory, so it has no address"),
        ("conut", "`conut` is unknown; the nearest are count"),
        (
            "qqq",
            "the arguments are file, count, name, pid, by_value, last; else there are pid",
        ),
        (
            "by_value",
            "`by_value` is struct path, which is in no register",
        ),
        ("last", "is bool, which is in no register"),
        (
            "$ret",
            "what a function returns is known where it returns alone",
        ),
        ("$arg6", "there are $ret and $arg0 to $arg5"),
        ("$x", "there are $ret and $arg0 to $arg5"),
        ("(struct fiel *)rdi", "there is no `struct fiel`"),
        (
            "(struct file_t *)rdi",
            "`file_t` is a typedef, write it alone",
        ),
        ("(union file *)rdi", "write struct file"),
        (
            "(struct file)rdi",
            "a value cannot be struct file: cast to struct file *",
        ),
        ("(unsigned bool)1", "`unsigned bool` is no type"),
        ("(long short)1", "`long short` is no type"),
        ("sizeof(comm)", "this has no size"),
        (
            "file & 7",
            "`file` is a pointer: cast it first, as in (u64)",
        ),
        ("-file", "is a pointer: cast it"),
        ("5 - file", "a pointer cannot be the right side of this -"),
        ("file->lacking + 1", "whose size is not known"),
        (
            "file->f_mode < 0",
            "`file->f_mode` is u32, which is never below 0: cast it, as in (long)file->f_mode",
        ),
        ("$arg0 - 1 < 0", "as in (long)($arg0 - 1)"),
        ("file >= 0", "is struct file *, which is never below 0"),
        (
            "file->f_inode->i_mode == 256",
            "is u8, from 0 to 255, and never 256",
        ),
        ("1 / 0", "column 5: this divides by 0"),
        ("(s64)0x8000000000000000 / -1", "this has no value"),
        ("ENOSUCH", "`ENOSUCH` is unknown"),
        ("count % 0", "this divides by 0"),
        ("\"abc\"", "compare it with =="),
        (
            "\"abc\" == \"abc\"",
            "one of two strings has to be str(...)",
        ),
        ("comm + 1", "`comm` is a string, where a number is wanted"),
        (
            "comm",
            "is a string, and a number is wanted: compare it, as in comm == \"...\"",
        ),
        ("comm == 5", "`comm` is a string, where a number is wanted"),
        (
            "comm < \"a\"",
            "strings are compared with == and !=, and not with <",
        ),
        (
            "comm == \"a name of 16 byte\"",
            "has at most 15 bytes, so it is never that string",
        ),
        (
            "name == \"x\"",
            "`name` is the address of a string: write str(name)",
        ),
        ("count == \"x\"", "`count` is s32, and no string"),
        ("count + \"x\"", "a string is compared with == and != alone"),
        ("comm == \"a\\0b\"", "ends before its first \\0"),
        (
            "str(file)",
            "is struct file *, and no address of a string: cast it",
        ),
        ("str(count)", "is s32, and no address of a string"),
        ("str(name, 256)", "a number from 1 to 255"),
        ("str()", "str takes an address"),
        ("strlen(name)", "`strlen()` is unknown"),
        ("stack", "this is the stack, and a number is wanted"),
        ("stack == 1", "the stack stands in a list alone"),
        ("", "a value is missing before the end"),
        ("count +", "a value is missing before the end"),
        ("count = 5", "column 7: values are compared with =="),
        ("(count", "`)` is missing before the end"),
        ("count 5", "the expression has an end before a number"),
        ("file->5", "a member is missing before a number"),
        ("'ab'", "a character is one byte"),
        ("\"abc", "the text ends before the closing \""),
        ("\"\\q\"", "behind \\ stands one of"),
        ("0x1_0", "is not a number of 64 bits"),
        ("18446744073709551616", "is not a number of 64 bits"),
        ("count # 1", "`#` is not of an expression"),
        ("ü", "column 1: `ü` is not of an expression"),
        ("count ? 1", "`?` is not of an expression"),
    ] {
        refused(text, At::Entry, part);
    }
}

#[test]
fn arguments_are_missing_for_a_reason() {
    refused(
        "file->f_mode",
        At::Inside,
        "`file`: arguments are known at the function's entry alone; where a register has it \
         still, use a cast: (struct file *)rdi",
    );
    refused("name", At::Return, "use a cast: (char *)rdx");
    refused("$arg1", At::Inside, "it was in rsi, use this register");
    refused(
        "qqq",
        At::Inside,
        "arguments are known at the function's entry alone",
    );
    let scopes = scopes();
    let nothing = scopes.of("close_it", At::Return);
    let why = Expression::compile("$ret", &nothing, &mut Strings::default()).unwrap_err();
    assert!(why.contains("the function returns nothing"), "{why}");
    let unnamed = scopes.of("of_assembly", At::Entry);
    let why = Expression::compile("file", &unnamed, &mut Strings::default()).unwrap_err();
    assert!(why.contains("use $arg0 to $arg5 with a cast"), "{why}");
}

#[test]
fn what_is_too_long_or_too_deep_is_refused() {
    let deep = format!("{}1{}", "(".repeat(80), ")".repeat(80));
    refused(&deep, At::Entry, "nests too deep");
    let deep = format!("count{}", " + (count".repeat(16)) + &")".repeat(16);
    refused(
        &deep,
        At::Entry,
        "needs 17 numbers at once, and there is room for 16",
    );
    let fits = format!("count{}", " + (count".repeat(15)) + &")".repeat(15);
    assert_eq!(value(&fits), Some(16 * 5));
    let long = format!("count{}", " + uid".repeat(70));
    refused(&long, At::Entry, "a program has at most 256");
    // Chains nest, too, and take our own stack.
    assert_eq!(value(&format!("1{}", "+1".repeat(127))), Some(128));
    refused(
        &format!("1{}", "+1".repeat(128)),
        At::Entry,
        "more than 256 words and signs",
    );
    let chain = format!("file{}", "->again".repeat(120));
    refused(&chain, At::Entry, "has no member `again`");
    refused(&"-".repeat(200), At::Entry, "nests too deep");
    let mixed = format!("{}1{}", "-(1+".repeat(30), ")".repeat(30));
    assert!(value(&mixed).is_some());
    let scope = scopes().of("open_it", At::Entry);
    let why = Expression::compile(&"1".repeat(2000), &scope, &mut Strings::default());
    assert_eq!(why.unwrap_err(), "an expression has at most 1024 bytes");
    let mut strings = Strings::default();
    let text = format!("str(name) == \"{}\"", "x".repeat(256));
    let why = Expression::compile(&text, &scope, &mut strings).unwrap_err();
    assert!(
        why.contains("up to 255 bytes, and this one has 256"),
        "{why}"
    );
}

/// Whatever is written, it is compiled or refused; and what is compiled leaves one number.
#[test]
fn any_words_are_compiled_or_refused() {
    const WORDS: [&str; 40] = [
        "file",
        "count",
        "name",
        "->",
        ".",
        "f_inode",
        "i_ino",
        "numbers",
        "fields",
        "low",
        "(",
        ")",
        "[",
        "]",
        "*",
        "&",
        "-",
        "!",
        "~",
        "+",
        "/",
        "<<",
        "<",
        "==",
        "!=",
        "&&",
        "||",
        "1",
        "0",
        "\"x\"",
        "comm",
        "str",
        "(u8)",
        "(struct file *)",
        "rdi",
        "$ret",
        "$arg1",
        "sizeof",
        "current",
        "BLUE",
    ];
    let scope = scopes().of("open_it", At::Entry);
    let machine = machine();
    let mut state = 0x2545_f491_4f6c_dd1du64;
    let mut compiled = 0;
    for _ in 0..20_000 {
        let mut text = String::new();
        for _ in 0..1 + state % 9 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            text += WORDS[(state >> 32) as usize % WORDS.len()];
            text.push(' ');
        }
        let mut strings = Strings::default();
        if let Ok(found) = Expression::compile(&text, &scope, &mut strings) {
            compiled += 1;
            let mut machine = Machine {
                memory: machine.memory.clone(),
                ..Machine::default()
            };
            machine.strings = strings.bytes().to_vec();
            machine.registers = super::machine().registers;
            machine.run(&found.ops);
        }
    }
    assert!(compiled > 500, "{compiled}");
}
