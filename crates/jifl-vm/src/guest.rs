// SPDX-License-Identifier: MIT OR Apache-2.0
//! The guest's init: process 1 of the machine.
//!
//! It mounts the host's root under an overlay, runs the one command with pipes as its standard
//! streams, hands these on through the port, and says how the command ended. The host then ends the
//! machine.
//!
//! There is no udev on purpose: devtmpfs makes the nodes, and asking udev to load a module for
//! every device takes longer than everything else together.

use std::ffi::{CString, OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::mount::{MountFlags, mount, mount_move};
use rustix::pipe::PipeFlags;

use crate::frame::{self, Kind};
use crate::{initramfs, qemu};

/// `MODULE_INIT_COMPRESSED_FILE` of finit_module(2).
const COMPRESSED: i32 = 4;

type Result<T> = std::result::Result<T, String>;

/// Runs as init and never returns. Call it first thing when the process id is 1.
pub fn main() -> ! {
    let mut port = match connect() {
        Ok(port) => port,
        Err(why) => {
            // Only the console can be told. The host sees the panic that follows.
            eprintln!("jifl-vm init: {why}");
            std::process::exit(1);
        }
    };
    match serve(&mut port) {
        Ok(status) => {
            let _ = frame::send(&mut port, Kind::Exit, &[status]);
        }
        Err(why) => {
            let _ = frame::send(&mut port, Kind::Failed, why.as_bytes());
        }
    }
    // The host ends the machine now. If the host process dies, QEMU dies with it.
    loop {
        thread::sleep(Duration::from_secs(3600));
    }
}

/// Set-up until the port to the host is open.
fn connect() -> Result<File> {
    mount_new("proc", "/proc", "proc", "")?;
    mount_new("sys", "/sys", "sysfs", "")?;
    mount_new("dev", "/dev", "devtmpfs", "mode=0755")?;
    let mut modules: Vec<PathBuf> = fs::read_dir(initramfs::MODULES)
        .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
        .unwrap_or_default();
    modules.sort();
    for module in modules {
        insert(&module)?;
    }
    // The kernel has begun to probe the devices, but may not have finished.
    for _ in 0..6000 {
        if let Some(device) = find_port() {
            if let Ok(port) = File::options().read(true).write(true).open(device) {
                return Ok(port);
            }
        }
        thread::sleep(Duration::from_millis(10));
    }
    Err("no virtio-serial port called jifl".into())
}

fn find_port() -> Option<PathBuf> {
    let entries = fs::read_dir("/sys/class/virtio-ports").ok()?;
    for entry in entries.flatten() {
        let name = fs::read_to_string(entry.path().join("name")).unwrap_or_default();
        if name.trim() == "jifl" {
            return Some(Path::new("/dev").join(entry.file_name()));
        }
    }
    None
}

/// The host's job for this machine.
#[derive(Default)]
struct Job {
    arguments: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    cwd: PathBuf,
    writable: Vec<PathBuf>,
    module_dir: Option<PathBuf>,
    modules: Vec<PathBuf>,
    merge: bool,
}

fn serve(port: &mut File) -> Result<u8> {
    let mut input = Patient(port.try_clone().map_err(|e| format!("port: {e}"))?);
    frame::send(port, Kind::Hello, &[]).map_err(|e| format!("port: {e}"))?;
    let job = receive_job(&mut input)?;
    build_root(&job)?;
    for module in &job.modules {
        insert(module)?;
    }
    let keeps = !job.writable.is_empty();
    let status = run(port, input, job)?;
    // All else goes with the machine. A machine that has been suspended has lost the host's files,
    // and would wait for them.
    if keeps {
        rustix::fs::sync();
    }
    Ok(status)
}

fn receive_job(input: &mut impl Read) -> Result<Job> {
    let mut job = Job::default();
    loop {
        let frame = frame::receive(input).map_err(|e| format!("port: {e}"))?;
        let (kind, bytes) = frame.ok_or("port: closed")?;
        let text = OsString::from_vec(bytes);
        match kind {
            Kind::Arg => job.arguments.push(text),
            Kind::Env => {
                let bytes = text.as_bytes();
                if let Some(at) = bytes.iter().position(|byte| *byte == b'=') {
                    let (name, value) = (&bytes[..at], &bytes[at + 1..]);
                    let own = |part| OsStr::from_bytes(part).to_owned();
                    job.env.push((own(name), own(value)));
                }
            }
            Kind::Cwd => job.cwd = text.into(),
            Kind::Writable => job.writable.push(text.into()),
            Kind::ModuleDir => job.module_dir = Some(text.into()),
            Kind::Module => job.modules.push(text.into()),
            Kind::Merge => job.merge = true,
            Kind::Go => return Ok(job),
            other => return Err(format!("unexpected {other:?} from the host")),
        }
    }
}

/// Makes the host's root, under an overlay, the root of the guest.
fn build_root(job: &Job) -> Result<()> {
    for dir in ["/base", "/over"] {
        make_dir(Path::new(dir))?;
    }
    // cache=loose: the guest sees the host's files as they were when it first read them. Programs
    // start fast because of that. The mount is read-only.
    let options = "trans=virtio,version=9p2000.L,msize=512000,access=any";
    let base = format!("{options},cache=loose");
    mount_flags(qemu::ROOT_TAG, "/base", "9p", MountFlags::RDONLY, &base)?;
    mount_new("tmpfs", "/over", "tmpfs", "mode=0755")?;
    for dir in ["/over/upper", "/over/work"] {
        make_dir(Path::new(dir))?;
    }
    let layers = "lowerdir=/base,upperdir=/over/upper,workdir=/over/work";
    mount_new("overlay", "/newroot", "overlay", layers)?;
    for dir in ["proc", "sys", "dev"] {
        let (from, to) = (format!("/{dir}"), format!("/newroot/{dir}"));
        make_dir(Path::new(&to))?;
        mount_move(&from, &to).map_err(|e| format!("moving {from}: {e}"))?;
    }
    enter("/newroot").map_err(|e| format!("entering the new root: {e}"))?;

    for (index, directory) in job.writable.iter().enumerate() {
        make_dir(directory)?;
        let tag = format!("rw{index}");
        let target = directory.to_string_lossy();
        // cache=mmap: the least caching with which shared mappings work on 9p.
        mount_new(&tag, &target, "9p", &format!("{options},cache=mmap"))?;
    }
    if let Some(from) = &job.module_dir {
        let release = from.file_name().unwrap_or_default();
        let to = Path::new("/lib/modules").join(release);
        make_dir(&to)?;
        if *from != to {
            // Both directories, because the packages of kernel headers put links there, too (build,
            // source).
            let (from, to) = (from.to_string_lossy(), to.to_string_lossy());
            mount_new("modules", &to, "overlay", &format!("lowerdir={from}:{to}"))?;
        }
    }
    small_mounts()
}

fn small_mounts() -> Result<()> {
    for dir in ["/dev/pts", "/dev/shm", "/run", "/tmp", "/var/tmp"] {
        make_dir(Path::new(dir))?;
    }
    mount_new("devpts", "/dev/pts", "devpts", "mode=620,ptmxmode=666")?;
    mount_new("tmpfs", "/dev/shm", "tmpfs", "mode=1777")?;
    mount_new("tmpfs", "/run", "tmpfs", "mode=0755")?;
    make_dir(Path::new("/run/lock"))?;
    // Not every kernel has all of these, and few commands need them.
    for (kind, target) in [
        ("cgroup2", "/sys/fs/cgroup"),
        ("debugfs", "/sys/kernel/debug"),
        ("tracefs", "/sys/kernel/tracing"),
        ("securityfs", "/sys/kernel/security"),
        ("configfs", "/sys/kernel/config"),
        ("bpf", "/sys/fs/bpf"),
    ] {
        let _ = mount_new(kind, target, kind, "");
    }
    for (link, target) in [
        ("/dev/fd", "/proc/self/fd"),
        ("/dev/stdin", "/proc/self/fd/0"),
        ("/dev/stdout", "/proc/self/fd/1"),
        ("/dev/stderr", "/proc/self/fd/2"),
    ] {
        let _ = std::os::unix::fs::symlink(target, link);
    }
    let _ = fs::write("/proc/sys/kernel/hostname", "jifl-vm");
    let _ = jifl_sys::os::loopback_up();
    Ok(())
}

/// Like switch_root(8), because pivot_root(2) refuses a machine's first file system.
fn enter(root: &str) -> rustix::io::Result<()> {
    rustix::process::chdir(root)?;
    mount_move(".", "/")?;
    rustix::process::chroot(".")?;
    rustix::process::chdir("/")
}

fn run(port: &File, input: Patient, job: Job) -> Result<u8> {
    let shown = job.arguments.first().cloned().unwrap_or_default();
    let shown = shown.to_string_lossy().into_owned();
    let (program, rest) = job.arguments.split_first().ok_or("no command")?;
    let mut command = Command::new(program);
    command.args(rest).env_clear().envs(job.env);
    command.stdin(Stdio::piped());
    let (out, out_end) = pipe()?;
    let (err, err_end) = pipe()?;
    let err_end = if job.merge { copy(&out_end)? } else { err_end };
    command.stdout(out_end).stderr(err_end);
    command.current_dir(&job.cwd).process_group(0);
    let clone = || port.try_clone().map_err(|e| format!("port: {e}"));

    frame::send(&mut clone()?, Kind::Ready, &[]).map_err(|e| format!("port: {e}"))?;
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            // The same exit statuses as a shell's.
            let line = format!("jifl vm: {shown}: {error}\n");
            let _ = frame::send(&mut clone()?, Kind::Stderr, line.as_bytes());
            let missing = error.kind() == io::ErrorKind::NotFound;
            return Ok(if missing { 127 } else { 126 });
        }
    };
    if let Some(stdin) = child.stdin.take() {
        thread::spawn(move || feed(input, stdin));
    }
    drop(command); // and with it our copies of the pipes' other ends
    let port = Arc::new(Mutex::new(clone()?));
    let pumps = [
        Pump::start(out, Kind::Stdout, &port)?,
        Pump::start(err, Kind::Stderr, &port)?,
    ];
    let status = reap(child.id())?;
    drain(&pumps);
    Ok(status)
}

/// Waits for the command, and reaps orphans meanwhile.
fn reap(command: u32) -> Result<u8> {
    loop {
        let ended = rustix::process::wait(rustix::process::WaitOptions::empty())
            .map_err(|e| format!("waiting for the command: {e}"))?;
        let Some((pid, status)) = ended else {
            continue;
        };
        if pid.as_raw_nonzero().get() as u32 == command {
            let status = ExitStatus::from_raw(status.as_raw());
            let code = status.code().or(status.signal().map(|signal| 128 + signal));
            return Ok(code.unwrap_or(255) as u8);
        }
    }
}

/// One thread that hands on what comes out of a pipe.
struct Pump {
    thread: JoinHandle<()>,
    watch: OwnedFd,
    handed_on: Arc<AtomicU64>,
}

impl Pump {
    fn start(pipe: OwnedFd, kind: Kind, port: &Arc<Mutex<File>>) -> Result<Pump> {
        let handed_on = Arc::new(AtomicU64::new(0));
        let watch = copy(&pipe)?;
        let (counter, port) = (Arc::clone(&handed_on), Arc::clone(port));
        let thread = thread::spawn(move || {
            let (mut pipe, mut buffer) = (File::from(pipe), vec![0; 64 << 10]);
            while let Ok(count @ 1..) = pipe.read(&mut buffer) {
                let mut port = port.lock().unwrap_or_else(|poison| poison.into_inner());
                if frame::send(&mut *port, kind, &buffer[..count]).is_err() {
                    return;
                }
                counter.fetch_add(count as u64, Ordering::Relaxed);
            }
        });
        Ok(Pump {
            thread,
            watch,
            handed_on,
        })
    }

    fn is_empty(&self) -> bool {
        self.thread.is_finished()
            || matches!(rustix::io::ioctl_fionread(&self.watch), Ok(0) | Err(_))
    }
}

/// Waits until all output is handed on: to the end of both pipes, or, where a
/// process left behind keeps one open, until nothing has come for a while.
fn drain(pumps: &[Pump]) {
    let total = || -> u64 {
        let counts = pumps.iter().map(|pump| &pump.handed_on);
        counts.map(|count| count.load(Ordering::Relaxed)).sum()
    };
    let (mut quiet, mut before) = (0, total());
    while quiet < 20 && !pumps.iter().all(|pump| pump.thread.is_finished()) {
        thread::sleep(Duration::from_millis(10));
        let now = total();
        let still = now == before && pumps.iter().all(Pump::is_empty);
        quiet = if still { quiet + 1 } else { 0 };
        before = now;
    }
}

/// Writes what the host sends into the command's standard input.
fn feed(mut input: Patient, stdin: std::process::ChildStdin) {
    let mut stdin = Some(stdin);
    while let Ok(Some((kind, bytes))) = frame::receive(&mut input) {
        if kind != Kind::Stdin {
            continue;
        }
        let done = match &mut stdin {
            Some(pipe) => bytes.is_empty() || pipe.write_all(&bytes).is_err(),
            None => false,
        };
        if done {
            stdin = None;
        }
    }
}

/// The port returns end of file until the host's side is connected.
struct Patient(File);

impl Read for Patient {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.0.read(buffer)? {
                0 => thread::sleep(Duration::from_millis(10)),
                count => return Ok(count),
            }
        }
    }
}

fn pipe() -> Result<(OwnedFd, OwnedFd)> {
    rustix::pipe::pipe_with(PipeFlags::CLOEXEC).map_err(|e| format!("pipe: {e}"))
}

fn copy(fd: &OwnedFd) -> Result<OwnedFd> {
    fd.try_clone().map_err(|e| format!("pipe: {e}"))
}

/// A module's parameters, as modprobe finds them: `name.parameter=value` on the
/// kernel's command line.
fn parameters(module: &Path) -> String {
    let file = module.file_name().unwrap_or_default().to_string_lossy();
    let name = file.split('.').next().unwrap_or_default().replace('-', "_");
    let line = fs::read_to_string("/proc/cmdline").unwrap_or_default();
    let words = line.split_whitespace().filter_map(|word| {
        let (owner, parameter) = word.split_once('.')?;
        (owner.replace('-', "_") == name).then_some(parameter)
    });
    words.collect::<Vec<_>>().join(" ")
}

fn insert(module: &Path) -> Result<()> {
    let shown = module.display();
    let file = File::open(module).map_err(|e| format!("{shown}: {e}"))?;
    let packed = module.extension().is_some_and(|ext| ext != "ko");
    let flags = if packed { COMPRESSED } else { 0 };
    let parameters = CString::new(parameters(module)).unwrap_or_default();
    match rustix::system::finit_module(&file, &parameters, flags as _) {
        Ok(()) | Err(rustix::io::Errno::EXIST) => Ok(()),
        Err(error) => Err(format!("inserting {shown}: {error}")),
    }
}

fn make_dir(path: &Path) -> Result<()> {
    fs::create_dir_all(path).map_err(|e| format!("{}: {e}", path.display()))
}

fn mount_new(source: &str, target: &str, kind: &str, options: &str) -> Result<()> {
    mount_flags(source, target, kind, MountFlags::empty(), options)
}

fn mount_flags(
    source: &str,
    target: &str,
    kind: &str,
    flags: MountFlags,
    options: &str,
) -> Result<()> {
    let data = std::ffi::CString::new(options).map_err(|e| e.to_string())?;
    mount(source, target, kind, flags, &*data)
        .map_err(|e| format!("mounting {kind} on {target}: {e}"))
}
