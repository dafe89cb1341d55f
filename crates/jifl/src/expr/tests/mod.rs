// SPDX-License-Identifier: MIT OR Apache-2.0
//! Expressions by their results: they are compiled with types made by hand, and run over memory
//! made by hand.

mod errors;
mod lists;
mod machine;
mod made;
mod values;

use jifl_sys::abi::Get;

use super::*;
use crate::kernel::btf::All;
use crate::kernel::prototypes::Prototypes;
use machine::Machine;
use made::{CONST, Made, Member, STRUCT, TYPE_TAG, TYPEDEF, UNION};

/// Where objects are.
const FILE: u64 = 0xffff_8880_0000_1000;
const INODE: u64 = 0xffff_8880_0000_2000;
const TASK: u64 = 0xffff_8880_0000_3000;
const CRED: u64 = 0xffff_8880_0000_4000;
const NAME: u64 = 0xffff_8880_0000_5000;
const NUMBERS: u64 = 0xffff_8880_0000_6000;
const COMM: u64 = 0xffff_8880_0000_7000;

/// A kernel with one function, `open_it`, and a module `m` with `in_module`.
fn kernel() -> All {
    let mut made = Made::new();
    let int = made.int("int", 4, 1);
    let uint = made.int("unsigned int", 4, 0);
    let long = made.int("long int", 8, 1);
    let ulong = made.int("long unsigned int", 8, 0);
    let char = made.int("char", 1, 1);
    let uchar = made.int("unsigned char", 1, 0);
    let bool = made.int("_Bool", 1, 4);
    let wide = made.int("__int128", 16, 1);
    let pid_t = made.of(TYPEDEF, "pid_t", int);
    let void_ptr = made.ptr(0);
    let char_ptr = made.ptr(char);
    let color = made.enumeration("color", false, &[("RED", 0), ("BLUE", 7)]);
    let sides = [("LEFT", -1), ("RIGHT", 1), ("ODD", 3)];
    let side = made.enumeration("side", true, &sides);
    let other = made.enumeration("other", false, &[("ODD", 5), ("TWICE", 9)]);
    let val = [("val", uint, 0, 0)];
    let anonymous = made.composite(STRUCT, "", 4, &val);
    let kuid = made.of(TYPEDEF, "kuid_t", anonymous);
    let full = made.array(char, 4);
    let old = made.array(char, 1);
    let members = [
        ("usage", int, 0, 0),
        ("old", old, 32, 0),
        ("uid", kuid, 64, 0),
        ("full", full, 96, 0),
    ];
    let cred = made.composite(STRUCT, "cred", 16, &members);
    let tagged = made.of(TYPE_TAG, "rcu", cred);
    let cred_ptr = made.ptr(tagged);
    let comm = made.array(char, 16);
    // The task's number is behind it: its own pointer is the second that follows.
    let task = made.ptr(cred_ptr + 3);
    let members = [
        ("pid", pid_t, 0, 0),
        ("tgid", pid_t, 32, 0),
        ("real_parent", task, 64, 0),
        ("cred", cred_ptr, 128, 0),
        ("comm", comm, 192, 0),
    ];
    let named = made.composite(STRUCT, "task_struct", 40, &members);
    let members: [Member; 4] = [
        ("low", int, 0, 3),
        ("negative", int, 3, 4),
        ("across", ulong, 30, 40),
        ("byte", uint, 72, 8),
    ];
    let fields = made.composite(STRUCT, "fields", 16, &members);
    let halves = made.composite(
        STRUCT,
        "",
        8,
        &[("half0", uint, 0, 0), ("half1", uint, 32, 0)],
    );
    let number = made.composite(UNION, "", 8, &[("whole", ulong, 0, 0), ("", halves, 0, 0)]);
    let array = made.array(int, 4);
    let tail = made.array(char, 0);
    let grid = made.array(array, 2);
    let members = [
        ("i_ino", ulong, 0, 0),
        ("i_mode", uchar, 64, 0),
        ("is_dir", bool, 72, 0),
        ("i_size", long, 128, 0),
        ("", number, 192, 0),
        ("color", color, 256, 0),
        ("side", side, 288, 0),
        ("numbers", array, 320, 0),
        ("fields", fields, 448, 0),
        ("grid", grid, 576, 0),
        ("wide", wide, 896, 0),
        ("flags", uint, 1024, 0),
        ("error", int, 1056, 0),
        ("tail", tail, 1088, 0),
    ];
    let inode = made.composite(STRUCT, "inode", 136, &members);
    let constant = made.of(CONST, "", inode);
    let inode_ptr = made.ptr(constant);
    let int_ptr = made.ptr(int);
    let path = made.composite(
        STRUCT,
        "path",
        16,
        &[("dentry", void_ptr, 0, 0), ("mnt", int_ptr, 64, 0)],
    );
    let lacking = made.forward("lacking");
    let lacking_ptr = made.ptr(lacking);
    let declared = made.forward("inode");
    let declared_ptr = made.ptr(declared);
    let members = [
        ("f_mode", uint, 0, 0),
        ("f_path", path, 64, 0),
        ("f_inode", inode_ptr, 192, 0),
        ("f_name", char_ptr, 256, 0),
        ("private", void_ptr, 320, 0),
        ("lacking", lacking_ptr, 384, 0),
        ("again", declared_ptr, 448, 0),
        ("other", other, 512, 0),
    ];
    let file = made.composite(STRUCT, "file", 72, &members);
    let file_ptr = made.ptr(file);
    made.of(TYPEDEF, "file_t", file);
    let parameters = [
        ("file", file_ptr),
        ("count", int),
        ("name", char_ptr),
        ("pid", ulong),
        ("by_value", path),
        ("last", bool),
    ];
    made.function("open_it", int, &parameters);
    made.function("close_it", 0, &[]);
    made.function("find_it", inode_ptr, &[("start", ulong)]);
    assert_eq!(named, cred_ptr + 3);
    let btf = made.btf();
    let mut module = Made::on(&made);
    let own = module.composite(STRUCT, "lacking", 8, &[("here", int, 32, 0)]);
    let own_ptr = module.ptr(own);
    module.enumeration("m", false, &[("ODD", 77)]);
    module.function("in_module", int, &[("own", own_ptr), ("file", file_ptr)]);
    let module = module.split(&btf);
    let all = All::of(btf);
    all.add("m", module);
    all
}

fn scopes() -> Scopes {
    Scopes::by(Ok(Prototypes::of_all(kernel())))
}

/// Memory with a file of an inode.
fn machine() -> Machine {
    let mut machine = Machine::default();
    machine.registers[0] = 0xdead_beef_ffff_fffe;
    machine.registers[7] = FILE;
    machine.registers[6] = 0xffff_ffff_0000_0005;
    machine.registers[2] = NAME;
    machine.registers[1] = 4711;
    machine.registers[16] = 0xffff_ffff_8100_0000;
    machine.poke32(FILE, 0o644);
    machine.poke32(FILE + 4, 1);
    machine.poke64(FILE + 8, NUMBERS + 4);
    machine.poke64(FILE + 16, NUMBERS);
    machine.poke64(FILE + 24, INODE);
    machine.poke64(FILE + 32, NAME);
    machine.poke64(FILE + 40, NUMBERS);
    machine.poke64(FILE + 48, NUMBERS);
    machine.poke64(FILE + 56, INODE);
    machine.poke32(FILE + 64, 5);
    machine.poke64(INODE, 12);
    machine.poke(INODE + 8, &[0xed, 1]);
    machine.poke64(INODE + 16, -4096i64 as u64);
    machine.poke64(INODE + 24, 0x1_0000_0002);
    machine.poke32(INODE + 32, 7);
    machine.poke32(INODE + 36, -1i32 as u32);
    for n in 0..4 {
        machine.poke32(INODE + 40 + 4 * n, 10 * n as u32);
        machine.poke32(NUMBERS + 4 * n, (n as u32).wrapping_sub(2));
    }
    // low 5 (of int, so -3), negative -2, across 0x98_7654_3210, byte 0xab.
    let bits = 5u128 | 0xe << 3 | 0x98_7654_3210u128 << 30 | 0xab << 72;
    machine.poke(INODE + 56, &bits.to_le_bytes());
    for n in 0..8 {
        machine.poke32(INODE + 72 + 4 * n, 100 + n as u32);
    }
    machine.poke32(INODE + 128, 0xffff_ffff);
    machine.poke32(INODE + 132, -1i32 as u32);
    machine.poke(INODE + 136, b"tail\0");
    machine.poke32(TASK, 100);
    machine.poke32(TASK + 4, 99);
    machine.poke64(TASK + 8, TASK);
    machine.poke64(TASK + 16, CRED);
    machine.poke(TASK + 24, b"a task\0\0\0\0\0\0\0\0\0\0");
    // Neither has its end in its array.
    machine.poke(CRED + 4, b"ol\0");
    machine.poke32(CRED + 8, 1000);
    machine.poke(CRED + 12, b"full");
    machine.poke(NAME, b"/etc/passwd\0");
    machine.poke(COMM, b"cat\0");
    machine.get(Get::Pid, 99);
    machine.get(Get::Tid, 100);
    machine.get(Get::Cpu, 3);
    machine.get(Get::Time, 1 << 60);
    machine.get(Get::Level, 2);
    machine.get(Get::Task, TASK);
    machine.get(Get::Comm, COMM);
    machine
}

/// The value in a scope; `None`: it is unknown.
fn value_in(text: &str, scope: &Scope) -> Option<i64> {
    let mut strings = Strings::default();
    let compiled = Expression::compile(text, scope, &mut strings);
    let compiled = compiled.unwrap_or_else(|why| panic!("{why}"));
    let mut machine = machine();
    machine.strings = strings.bytes().to_vec();
    machine.run(&compiled.ops).map(|value| value as i64)
}

/// The value at the entry of `open_it`.
fn value(text: &str) -> Option<i64> {
    value_in(text, &scopes().of("open_it", At::Entry))
}

fn kind(text: &str) -> Kind {
    let scope = scopes().of("open_it", At::Entry);
    let compiled = Expression::compile(text, &scope, &mut Strings::default());
    compiled.unwrap_or_else(|why| panic!("{why}")).kind
}

fn check(cases: &[(&str, i64)]) {
    for (text, wanted) in cases {
        assert_eq!(value(text), Some(*wanted), "{text}");
    }
}
