// SPDX-License-Identifier: MIT OR Apache-2.0
//! What expressions are worth.

use jifl_sys::abi::{Code, Op};

use super::*;
use crate::kernel::values;

#[test]
fn literals_are_computed_before() {
    for (text, wanted) in [
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9),
        ("10 - 3 - 2", 5),
        ("-7 / 2", -3),
        ("-7 % 4", -3),
        ("0x10 | 0644 & 7", 0x14),
        ("1 << 4 + 1", 32),
        ("-16 >> 2", -4),
        ("'a'", 97),
        ("'\\n' + '\\x41' + '\\''", 10 + 65 + 39),
        ("~0", -1),
        ("!5 + !0", 1),
        ("3 > 2 == 1", 1),
        ("1 | 2 ^ 3 & 2", 1),
        ("2 && 0 || 4", 1),
        ("0 && 1 / 1", 0),
        ("(u8)0x1ff", 255),
        ("(s8)0x80", -128),
        ("(unsigned short)-1", 0xffff),
        ("(bool)77", 1),
        ("0xffffffffffffffff > 1", 1),
        ("-1 > 1", 0),
        ("10ul + 1LL", 11),
        (
            "sizeof(int) + sizeof(struct file) + sizeof(struct file *)",
            84,
        ),
        ("sizeof(file->f_path) + sizeof(*file)", 88),
        ("TWICE + RIGHT", 10),
        ("-ENOENT + EPROBE_DEFER", 515),
        ("+-+5", -5),
    ] {
        let scope = scopes().of("open_it", At::Entry);
        let compiled = Expression::compile(text, &scope, &mut Strings::default()).unwrap();
        let constant = Op::with(Code::Const, 0, wanted as u64);
        assert_eq!(compiled.ops, [constant], "{text}");
    }
}

#[test]
fn members_are_read_by_their_types() {
    check(&[
        ("file->f_mode", 0o644),
        ("file != NULL && file->f_inode->is_dir == true", 1),
        ("file->f_inode->i_ino", 12),
        ("(*file).f_inode->i_ino", 12),
        ("(&*file)->f_inode[0].i_ino", 12),
        ("file->f_inode->i_mode", 0xed),
        ("file->f_inode->is_dir", 1),
        ("file->f_inode->i_size", -4096),
        ("file->f_inode->i_size < 0", 1),
        ("file->f_path.mnt[1]", -1),
        ("*file->f_path.mnt", -2),
        ("file->f_inode->whole", 0x1_0000_0002),
        ("file->f_inode->half0", 2),
        ("file->f_inode->half1", 1),
        ("file->f_inode->side", -1),
        ("file->again->i_ino", 12),
        ("&file->f_inode->i_size == (u64)file->f_inode + 16", 1),
        ("&file->f_mode == file", 1),
    ]);
    assert_eq!(
        kind("file->f_inode->is_dir"),
        Kind::Number(values::Kind::Bool)
    );
    assert_eq!(kind("file->f_inode"), Kind::Number(values::Kind::Pointer));
    let scope = scopes().of("open_it", At::Entry);
    let text = "file->f_inode->numbers[2]";
    let compiled = Expression::compile(text, &scope, &mut Strings::default()).unwrap();
    // The register, the inode, the number: offsets are added beforehand.
    assert_eq!(compiled.ops.len(), 3, "{:?}", compiled.ops);
}

#[test]
fn bit_fields_are_cut_out() {
    check(&[
        ("file->f_inode->fields.low", -3),
        ("file->f_inode->fields.negative", -2),
        ("file->f_inode->fields.across", 0x98_7654_3210),
        ("file->f_inode->fields.byte", 0xab),
    ]);
}

#[test]
fn arrays_and_pointers_count_in_elements() {
    check(&[
        ("file->f_inode->numbers[3]", 30),
        ("file->f_inode->numbers[cpu]", 30),
        ("file->f_inode->numbers[count - 4]", 10),
        ("*(file->f_inode->numbers + 2)", 20),
        ("file->f_inode->grid[1][2]", 106),
        ("file->f_inode->grid[cpu - 2][cpu - 1]", 106),
        ("file->f_path.mnt + 1 == (u64)file->f_path.mnt + 4", 1),
        ("1 + file->f_path.mnt - file->f_path.mnt", 1),
        ("file->f_path.mnt - (int *)file->private", 0),
        ("(int *)file->f_path.dentry - file->f_path.mnt", 1),
        ("(file + 2) - file", 2),
        ("(u64)(file + 1) - (u64)file", 72),
        ("(u64)(file->private + 1) - (u64)file->private", 1),
        ("file->f_path.mnt[-0] + file->f_path.mnt[1]", -3),
        ("(file->f_path.mnt + 2)[-1]", -1),
        ("file->f_name[1]", i64::from(b'e')),
        ("*(u64 *)(rdi + 24) == (u64)file->f_inode", 1),
        ("*(int *)((u64)file->private + 4 * 1)", -1),
        ("((struct inode *)$arg0)->i_ino", 0x1_0000_01a4),
    ]);
}

#[test]
fn arguments_registers_and_builtins() {
    check(&[
        ("count", 5),
        ("name == $arg2", 1),
        ("$arg1", 0xffff_ffff_0000_0005u64 as i64),
        ("rsi == $arg1 && esi == 5 && si == 5 && sil == 5", 1),
        ("rax", 0xdead_beef_ffff_fffeu64 as i64),
        ("eax", 0xffff_fffe),
        ("ax + ah + al", 0xfffe + 0xff + 0xfe),
        ("rip >> 16", 0xffff_ffff_8100),
        ("r8 + r8d + r15w + r10b + rflags", 0),
        // The argument, and not the process.
        ("pid", 4711),
        ("tid", 100),
        ("cpu", 3),
        ("level", 2),
        ("level == irq", 1),
        ("softirq != level", 1),
        ("current->tgid", 99),
        ("uid", 1000),
        ("ppid", 99),
        ("time", 1 << 60),
        ("(struct task_struct *)current == current", 1),
    ]);
    let closing = scopes().of("close_it", At::Entry);
    assert_eq!(value_in("pid", &closing), Some(99));
    assert_eq!(kind("comm"), Kind::String { max: 16 });
    assert_eq!(kind("stack"), Kind::Stack);
    let texts = |kind: Kind, value| kind.text(Shown::Number(value));
    assert_eq!(texts(kind("level"), 1), "softirq");
    assert_eq!(texts(kind("time"), 1 << 60), "1152921504606846976");
}

#[test]
fn results_have_the_type_of_the_function() {
    let scopes = scopes();
    let at_return = scopes.of("open_it", At::Return);
    assert_eq!(value_in("$ret", &at_return), Some(-2));
    assert_eq!(value_in("$retval < 0 && $ret != -1", &at_return), Some(1));
    assert_eq!(value_in("-$ret", &at_return), Some(2));
    assert_eq!(value_in("$ret == -ENOENT", &at_return), Some(1));
    let pointer = scopes.of("find_it", At::Return);
    assert_eq!(value_in("(long)$ret < 0", &pointer), Some(1));
    let unknown = scopes.of("of_assembly", At::Return);
    assert_eq!(value_in("$ret < 0", &unknown), Some(1));
    let entry = scopes.of("of_assembly", At::Entry);
    assert_eq!(
        value_in("((struct file *)$arg0)->f_mode", &entry),
        Some(0o644)
    );
    let inside = scopes.of("open_it", At::Inside);
    assert_eq!(
        value_in("((struct file *)rdi)->f_mode", &inside),
        Some(0o644)
    );
    // No argument hides it there.
    assert_eq!(value_in("pid", &inside), Some(99));
}

#[test]
fn a_module_has_its_own_types_and_the_kernels() {
    let scope = scopes().of("in_module [m]", At::Entry);
    assert_eq!(value_in("own->here", &scope), Some(1));
    assert_eq!(
        value_in("((struct file *)rdi)->f_inode->i_ino", &scope),
        Some(12)
    );
    // A declaration of the kernel, and its definition in the module.
    let text = "((struct file *)rdi)->lacking->here";
    assert_eq!(value_in(text, &scope), Some(-1));
    assert_eq!(value_in("ODD", &scope), Some(77));
    assert_eq!(value("ODD == 77"), Some(0));
    // A module without types has the kernel's, but not the kernel's function of that name.
    let scope = scopes().of("open_it [without]", At::Entry);
    assert_eq!(
        value_in("((struct file *)rdi)->f_mode", &scope),
        Some(0o644)
    );
    assert!(Expression::compile("file", &scope, &mut Strings::default()).is_err());
}

#[test]
fn enumerators_are_those_of_the_enum_beside_them() {
    check(&[
        ("file->f_inode->color == BLUE", 1),
        ("RED == file->f_inode->color", 0),
        ("file->f_inode->side == LEFT", 1),
        ("file->f_inode->side < RIGHT", 1),
        // In another enum it is 3.
        ("file->other == ODD", 1),
        ("(enum side)3 == ODD", 1),
        ("(enum side)0xffffffff", -1),
    ]);
}

#[test]
fn signs_and_widths_are_those_of_c() {
    check(&[
        ("file->f_inode->flags == -1", 1),
        ("file->f_inode->flags == 0xffffffff", 1),
        ("file->f_inode->error == 0xffffffff", 1),
        ("file->f_inode->error == -1", 1),
        ("file->f_inode->error & 0x80000000", 0x8000_0000),
        ("(u64)file->f_inode->error > 5", 1),
        ("file->f_inode->flags + 1", 0x1_0000_0000),
        ("(u32)(file->f_inode->flags + 1)", 0),
        ("(s8)file->f_inode->i_mode", -19),
        ("(u8)-1 == 255", 1),
        ("file->f_inode->i_size >> 4", -256),
        ("(u64)file->f_inode->i_size >> 60", 15),
        ("file->f_inode->i_size / 4096", -1),
        ("file->f_inode->i_size % 1000", -96),
        ("file->f_inode->error * count", -5),
        ("~count ^ count", -1),
        ("(bool)count + !count", 1),
        ("!!count", 1),
        ("(char)0x80 < 0", 1),
        (
            "file->f_inode->i_ino >= 12 && file->f_inode->i_ino <= 12",
            1,
        ),
    ]);
}

#[test]
fn what_is_not_needed_is_not_read() {
    check(&[
        ("file->f_inode && file->f_inode->i_ino == 12", 1),
        ("!file || file->f_mode", 1),
        ("count == 6 && *(int *)0", 0),
        ("count == 5 || *(int *)0", 1),
        ("count || *(int *)0", 1),
        ("count && count - 5", 0),
        ("(count == 5 || *(int *)0) && !(count == 6 && *(int *)8)", 1),
        ("0 && *(int *)0", 0),
        ("1 || *(int *)0", 1),
        ("1 && count", 1),
    ]);
    for unknown in [
        "*(int *)0",
        "count == 5 && *(int *)0",
        "count / (count - 5)",
        "((struct file *)8)->f_inode->i_ino",
        "str(0) == \"x\"",
    ] {
        assert_eq!(value(unknown), None, "{unknown}");
    }
}

#[test]
fn strings_are_compared_where_they_are() {
    check(&[
        ("comm == \"cat\"", 1),
        ("\"cat\" != comm", 0),
        ("comm == \"ca\"", 0),
        ("comm == \"\"", 0),
        ("comm != \"\"", 1),
        ("str(name) == \"/etc/passwd\"", 1),
        ("str(file->f_name) != \"/etc/shadow\"", 1),
        ("str(name + 5) == \"passwd\" && comm == \"cat\"", 1),
        ("str(rdx) == \"/etc/passwd\"", 1),
        ("str((char *)file->f_name) == \"/etc/passwd\"", 1),
        ("current->comm == \"a task\"", 1),
        ("str(current->comm) == \"a task\"", 1),
        ("file->f_inode->tail == \"tail\"", 1),
        ("(u64)current->comm - (u64)current", 24),
        ("current->comm[2]", i64::from(b't')),
    ]);
    // A string that fills its room has no end there.
    check(&[
        ("str(name, 4) == \"/etc\"", 1),
        ("str(name, 4) != \"/etc\"", 0),
        ("str(name, 4) == \"/usr\"", 0),
        ("str(name, 5) == \"/etc\"", 0),
        ("str(name, 11) == \"/etc/passwd\"", 1),
        ("current->cred->full == \"full\"", 1),
        ("current->cred->full == \"fall\"", 0),
        ("current->cred->old == \"ol\"", 1),
    ]);
    assert_eq!(kind("str(name)"), Kind::String { max: 256 });
    assert_eq!(kind("str(name, 7)"), Kind::String { max: 8 });
    assert_eq!(kind("current->comm"), Kind::String { max: 17 });
    assert_eq!(kind("file->f_inode->tail"), Kind::String { max: 256 });
    // The address is what is left.
    assert_eq!(value("current->comm"), Some(TASK as i64 + 24));
    assert_eq!(value("str(name)"), Some(NAME as i64));
}

#[test]
fn equal_strings_stand_once() {
    let mut strings = Strings::default();
    let scope = scopes().of("open_it", At::Entry);
    let mut compile = |text| Expression::compile(text, &scope, &mut strings).unwrap();
    let first = compile("comm == \"cat\" || comm == \"dog\"");
    let second = compile("str(name) == \"dog\"");
    let places = |one: &Expression| -> Vec<u64> {
        let ops = one.ops.iter().filter(|op| op.code == Code::StrEq as u8);
        ops.map(|op| op.imm).collect()
    };
    assert_eq!((places(&first), places(&second)), (vec![0, 3], vec![3]));
    assert_eq!(strings.bytes(), b"catdog");
}

#[test]
fn without_types_registers_and_casts_are_left() {
    let scope = Scopes::by(Err("no BTF".into())).of("open_it", At::Entry);
    assert_eq!(value_in("*(u32 *)$arg0 == 0644", &scope), Some(1));
    assert_eq!(value_in("str(rdx) == \"/etc/passwd\"", &scope), Some(1));
    assert_eq!(value_in("comm == \"cat\" && pid == 99", &scope), Some(1));
    for (text, part) in [
        ("file", "does not describe its types (no BTF): use $arg0"),
        ("((struct file *)rdi)->f_mode", "none but C's integers"),
        (
            "uid",
            "`uid` is current->cred->uid.val, and this kernel lacks it",
        ),
    ] {
        let why = Expression::compile(text, &scope, &mut Strings::default()).unwrap_err();
        assert!(why.contains(part), "{why}");
    }
}
