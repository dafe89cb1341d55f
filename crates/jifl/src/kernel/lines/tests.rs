// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lines of a program that stands in for the kernel, and of a program that stands in for a module.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use super::module::Module;
use super::*;

/// Address of a program that was linked at 0x81000000.
pub const AT: u64 = 0xffff_ffff_9000_0000;

const SOURCE: &str = "\
static inline __attribute__((always_inline)) int inner(int a)
{
\t__asm__ volatile(\"imul $3, %0, %0\" : \"+r\"(a));
\treturn a;
}
int later(int a)
{
\treturn inner(a) + 1;
}
int never(int a)
{
\treturn a - 1;
}
void _start(void)
{
}
";

/// A built program, and its directory, which is deleted with it.
pub struct Program {
    pub dir: PathBuf,
    pub binary: PathBuf,
}

impl Program {
    /// Compiles the program with these additional options.
    pub fn new(name: &str, options: &[&str]) -> Program {
        let dir = std::env::temp_dir().join(format!("jifl-{name}-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("program.c"), SOURCE).unwrap();
        let built = Command::new("cc")
            .current_dir(&dir)
            .args(["-g", "-O1", "-fcf-protection=none"])
            .args(options)
            .args(["-o", "program", "program.c"])
            .status();
        assert!(built.unwrap().success());
        let binary = dir.join("program");
        Program { dir, binary }
    }

    /// Linked as the kernel is.
    pub fn kernel(name: &str) -> Program {
        Program::new(
            name,
            &[
                "-nostdlib",
                "-static",
                "-Wl,-Ttext=0x81000000",
                "-Wl,--build-id=0xabcd",
            ],
        )
    }

    /// How far behind the beginning of its text a function begins.
    pub fn offset(&self, name: &str) -> u64 {
        let symbols = Command::new("nm").arg(&self.binary).output().unwrap();
        let text = String::from_utf8(symbols.stdout).unwrap();
        let line = text
            .lines()
            .find(|line| line.ends_with(&format!(" {name}")));
        u64::from_str_radix(&line.unwrap()[..16], 16).unwrap() & 0xff_ffff
    }

    /// The program's lines in /proc/kallsyms, if it were loaded at another address than linked.
    pub fn symbols(&self) -> Symbols {
        let line = |name: &str| format!("{:x} T {name}\n", AT + self.offset(name));
        Symbols::parse(&(format!("{AT:x} T _text\n") + &line("later") + &line("never")))
    }

    /// The program, named as a vmlinux.
    pub fn opened(&self) -> Opened {
        let args = LinesArgs {
            vmlinux: Some(self.binary.clone()),
            source: None,
        };
        let build = Build {
            build_id: "abcd".into(),
            ..Build::default()
        };
        args.open(build).unwrap()
    }

    /// Its lines.
    pub fn lines(&self) -> Lines {
        let mut lines = self.opened().lines(&self.symbols());
        lines.prefixes = vec![format!("{}/", self.dir.display())];
        lines
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// The inlined function's line and its caller's, and who is inlined into whom.
fn check_lines(lines: &[Line], frames: &[Frame]) {
    let mut numbers: Vec<u32> = lines.iter().map(|line| line.line).collect();
    numbers.sort_unstable();
    numbers.dedup();
    assert!(numbers.contains(&3) && numbers.contains(&8), "{lines:?}");
    assert!(lines.iter().all(|line| line.file.ends_with("program.c")));
    assert!(lines.is_sorted() && lines.windows(2).all(|two| two[0].to <= two[1].from));
    let names: Vec<&str> = frames.iter().map(|frame| frame.function.as_str()).collect();
    assert_eq!(names, ["inner", "later"]);
    assert_eq!(frames[0].line, 3);
}

#[test]
fn the_kernel_may_lie_elsewhere_than_it_was_linked() {
    let program = Program::kernel("lines");
    let lines = program.lines();
    let from = AT + program.offset("later");
    let found = lines.of(None, from, AT + program.offset("never"));
    assert_eq!((found[0].from, found[0].file.as_str()), (from, "program.c"));
    let inner = found.iter().find(|line| line.line == 3).unwrap();
    check_lines(&found, &lines.frames(None, inner.from));
    // Lines are cut at the ends of the range.
    let part = lines.of(None, from + 1, from + 2);
    assert_eq!((part[0].from, part[0].to), (from + 1, from + 2));
}

#[test]
fn ranges_of_lines_begin_in_each_copy() {
    let program = Program::kernel("beginnings");
    let lines = program.lines();
    let own = |file: &str| file == "program.c";
    let found = lines.beginnings(None, own, First::Stop).unwrap();
    assert!(
        found.iter().all(|line| line.file == "program.c"),
        "{found:?}"
    );
    let of = |line| found.iter().filter(move |one| one.line == line);
    let copies: Vec<u64> = of(3).map(|one| one.from).collect();
    // The inlined function's copy is in its caller.
    let caller = AT + program.offset("later")..AT + program.offset("never");
    assert!(!copies.is_empty() && copies.iter().all(|at| caller.contains(at)));
    assert_eq!(lines.of(None, copies[0], copies[0] + 1)[0].line, 3);
    let begins = |name: &str, line| of(line).any(|one| one.from == AT + program.offset(name));
    assert!(begins("later", 7) && begins("later", 8), "{found:?}");
    assert!(begins("never", 11) && begins("never", 12), "{found:?}");
    let none = lines.beginnings(None, |_| false, First::Stop);
    assert_eq!(none.unwrap(), []);
    assert_eq!(Lines::default().beginnings(None, own, First::Stop), None);
    // Each range at a stop is a range.
    let any = lines.beginnings(None, own, First::Any).unwrap();
    let numbers = |all: &[Line]| -> BTreeSet<u32> { all.iter().map(|line| line.line).collect() };
    assert!(numbers(&found).is_subset(&numbers(&any)), "{any:?}");
    assert!(lines.files(None).contains("program.c"));
    assert!(Lines::default().files(None).is_empty());
}

#[test]
fn another_build_is_refused_in_one_line() {
    let program = Program::kernel("build");
    let refused = |wanted: &str| Vmlinux::open(&program.binary, wanted).err();
    assert_eq!(refused("abcd"), None);
    assert_eq!(refused(""), None);
    let message = refused("0102").unwrap().message;
    assert!(
        message.ends_with("of another kernel: its build id is abcd, that of what was counted 0102"),
        "{message}"
    );
    let message = Vmlinux::open(Path::new("/etc/hostname"), "")
        .err()
        .unwrap()
        .message;
    assert!(message.starts_with("--vmlinux /etc/hostname: ") && !message.contains('\n'));
}

#[test]
fn modules_are_relocated() {
    let program = Program::new("module", &["-c"]);
    let bytes = fs::read(&program.binary).unwrap();
    let at = 0xffff_ffff_c040_0000;
    let module = Module::read(&bytes, |name| (name == ".text").then_some(at)).unwrap();
    let found = module.lines(at + program.offset("later"), at + program.offset("never"));
    let inner = found.iter().find(|line| line.line == 3).unwrap();
    check_lines(&found, &module.frames(inner.from));
}

#[test]
fn what_is_missing_is_said_once_with_the_way_out() {
    let here = Build {
        runs: true,
        ..Build::default()
    };
    assert_eq!(missing_text(false, &[], &here, true), None);
    let kernel = missing_text(true, &["nfs"], &here, true).unwrap();
    assert!(kernel.ends_with("--vmlinux FILE"));
    let kernel = missing_text(true, &["nfs"], &here, false).unwrap();
    assert!(kernel.ends_with("DEBUGINFOD_URLS"));
    assert!(kernel.starts_with("jifl: no source lines of the kernel: "));
    assert!(!kernel.contains('\n'));
    let modules = missing_text(false, &["ext4", "nfs"], &here, true).unwrap();
    assert!(modules.contains(" of module ext4, nfs: "), "{modules}");
    let recorded = missing_text(false, &["nfs"], &Build::default(), true).unwrap();
    assert!(recorded.contains("a recording"), "{recorded}");
}
