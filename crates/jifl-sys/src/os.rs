// SPDX-License-Identifier: MIT OR Apache-2.0
//! System calls that neither std nor rustix offers as safe functions.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicI32, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Has `command` killed by the kernel when the calling thread dies, in whatever
/// way. Call it, and spawn, from the main thread: it is the thread's death that
/// counts. `keep` are file descriptors the child shall inherit.
pub fn tie_to_parent(command: &mut Command, keep: &[RawFd]) {
    let keep = keep.to_vec();
    let parent = std::process::id();
    // SAFETY: the closure runs between fork and exec. It makes only system
    // calls and allocates nothing (`keep` was allocated before).
    unsafe {
        command.pre_exec(move || {
            if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0 {
                return Err(io::Error::last_os_error());
            }
            // The parent may have died before prctl: then no signal comes.
            if libc::getppid() as u32 != parent {
                return Err(io::Error::from_raw_os_error(libc::ESRCH));
            }
            for &fd in &keep {
                if libc::fcntl(fd, libc::F_SETFD, 0) != 0 {
                    return Err(io::Error::last_os_error());
                }
            }
            Ok(())
        });
    }
}

/// Gives the calling thread a table of file descriptors of its own, with the standard three in it
/// alone, and lets the process have as many as the system allows.
///
/// # Errors
/// The kernel has no close_range(2) (before 5.9), or no memory.
pub fn own_descriptors() -> io::Result<()> {
    // SAFETY: plain system call. The descriptors that it closes stay open in the table of the other
    // threads. This thread must not use descriptors that it was given before; nothing here does.
    let closed = unsafe {
        libc::syscall(
            libc::SYS_close_range,
            3,
            libc::c_uint::MAX,
            libc::CLOSE_RANGE_UNSHARE,
        )
    };
    if closed != 0 {
        return Err(io::Error::last_os_error());
    }
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: both read or write one rlimit, which `limit` is.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
        }
    }
    Ok(())
}

/// Brings the loopback interface up.
pub fn loopback_up() -> io::Result<()> {
    // SAFETY: plain system call; the result is checked before use.
    let fd = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `fd` is open and nobody else owns it.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: all zeroes are a valid ifreq.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    request.ifr_name[0] = b'l' as libc::c_char;
    request.ifr_name[1] = b'o' as libc::c_char;
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    // SAFETY: SIOCSIFFLAGS reads one ifreq, which `request` is.
    if unsafe { libc::ioctl(fd.as_raw_fd(), libc::SIOCSIFFLAGS, &request) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Processor time of all children that have been waited for, in nanoseconds. The
/// kernel rounds to microseconds.
pub fn children_cpu_time() -> u64 {
    // SAFETY: all zeroes are a valid rusage, which the call fills.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &mut usage);
        usage
    };
    let nanoseconds = |time: libc::timeval| time.tv_sec * 1_000_000_000 + time.tv_usec * 1000;
    (nanoseconds(usage.ru_utime) + nanoseconds(usage.ru_stime)) as u64
}

/// The write end of the pipe that [`catch_interrupts`] makes.
static INTERRUPT_PIPE: AtomicI32 = AtomicI32::new(-1);

extern "C" fn on_interrupt(_signal: libc::c_int) {
    let fd = INTERRUPT_PIPE.load(Ordering::Relaxed);
    // SAFETY: write is async-signal-safe and the byte lives long enough. A full
    // pipe (nobody blocks: it is non-blocking) tells the reader as much as one more byte. The
    // interrupted code may use errno, so the handler restores it.
    unsafe {
        let errno = *libc::__errno_location();
        libc::write(fd, b"!".as_ptr().cast(), 1);
        *libc::__errno_location() = errno;
    }
}

/// From now on SIGINT and SIGTERM make the returned stream readable instead of
/// ending the process. Programs started later get their default effect back.
pub fn catch_interrupts() -> io::Result<UnixStream> {
    let (read, write) = UnixStream::pair()?;
    write.set_nonblocking(true)?;
    INTERRUPT_PIPE.store(write.into_raw_fd(), Ordering::Relaxed);
    // SAFETY: all zeroes are a valid sigaction; the handler keeps to what is
    // async-signal-safe.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_interrupt as extern "C" fn(libc::c_int) as usize;
        for signal in [libc::SIGINT, libc::SIGTERM] {
            if libc::sigaction(signal, &action, std::ptr::null_mut()) != 0 {
                return Err(io::Error::last_os_error());
            }
        }
    }
    Ok(read)
}

/// A process that exists, has its id, and waits before it becomes the program
/// it was made for. Dropping it ends it.
pub struct Gated {
    pid: u32,
    /// When this end closes without a byte, the process ends.
    gate: Option<UnixStream>,
    /// It closes when the program runs.
    spawner: Option<JoinHandle<io::Result<Child>>>,
}

impl Gated {
    /// Forks for `command`.
    ///
    /// # Errors
    /// Only the fork can fail here. That the program does not exist shows in [`Gated::open`].
    pub fn new(mut command: Command) -> io::Result<Gated> {
        let (mut tell, told) = UnixStream::pair()?;
        let (gate, wait) = UnixStream::pair()?;
        let (told_fd, gate_fd, wait_fd) = (told.as_raw_fd(), gate.as_raw_fd(), wait.as_raw_fd());
        // SAFETY: the closure runs between fork and exec. It makes only
        // system calls on descriptors that are open then, and allocates nothing.
        unsafe {
            command.pre_exec(move || {
                let pid = (libc::getpid() as u32).to_ne_bytes();
                if libc::write(told_fd, pid.as_ptr().cast(), pid.len()) != pid.len() as isize {
                    return Err(io::Error::last_os_error());
                }
                // With this copy open, the read below would not end when the parent ends.
                libc::close(gate_fd);
                let mut byte = 0u8;
                match libc::read(wait_fd, (&raw mut byte).cast(), 1) {
                    1 => Ok(()),
                    // This does not return an error: the parent may have been killed, and std
                    // aborts, with a message, where it cannot report an error to the parent.
                    0 => libc::_exit(libc::ECANCELED),
                    _ => Err(io::Error::last_os_error()),
                }
            });
        }
        // A thread of its own, because std's spawn returns only when the program runs.
        let spawner = thread::spawn(move || {
            let result = command.spawn();
            drop((told, wait));
            result
        });
        let mut pid = [0; 4];
        match tell.read_exact(&mut pid) {
            Ok(()) => {
                let pid = u32::from_ne_bytes(pid);
                await_sleep(pid);
                Ok(Gated {
                    pid,
                    gate: Some(gate),
                    spawner: Some(spawner),
                })
            }
            Err(error) => match spawner.join() {
                Ok(Err(cause)) => Err(cause),
                _ => Err(error),
            },
        }
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Lets the process go on.
    ///
    /// # Errors
    /// Those of running the program: it does not exist, or may not be executed.
    pub fn open(mut self) -> io::Result<Child> {
        if let Some(gate) = &mut self.gate {
            gate.write_all(b"!")?;
        }
        match self.spawner.take().map(JoinHandle::join) {
            Some(Ok(result)) => result,
            _ => Err(io::Error::other("the spawning thread panicked")),
        }
    }
}

/// Waits until the process sleeps in the gate's read, or has ended.
///
/// The calls up to that one are made by this library, not by the program: a session that starts
/// sooner would count them.
fn await_sleep(pid: u32) {
    while matches!(state(pid), Some(state) if !matches!(state, 'S' | 'Z' | 'X')) {
        thread::sleep(Duration::from_micros(100));
    }
}

/// The process's state as in proc(5), /proc/PID/stat; `None`: there is no such process.
fn state(pid: u32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name of the process stands in parentheses, and may contain parentheses.
    stat.rsplit(") ").next()?.chars().next()
}

impl Drop for Gated {
    /// Ends the process, unless it was let go on, and waits until it has ended.
    ///
    /// Another process that waits at its own gate has copies of all descriptors. So closing this
    /// end would not end the read, but a shutdown does.
    fn drop(&mut self) {
        if let Some(gate) = self.gate.take() {
            let _ = gate.shutdown(Shutdown::Both);
        }
        if let Some(Ok(Ok(mut child))) = self.spawner.take().map(JoinHandle::join) {
            let _ = child.wait();
        }
    }
}

/// Gives memory that the allocator keeps, and does not use, back to the kernel.
pub fn give_memory_back() {
    // SAFETY: it takes no memory that is in use.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Stdio;

    #[test]
    fn a_gated_process_sleeps_as_soon_as_it_is_there() {
        for _ in 0..50 {
            let gated = Gated::new(Command::new("true")).unwrap();
            assert_eq!(state(gated.pid()), Some('S'));
        }
    }

    #[test]
    fn a_gated_process_runs_only_when_let() {
        let mut command = Command::new("sh");
        command
            .args(["-c", "echo $$; exit 3"])
            .stdout(Stdio::piped());
        let gated = Gated::new(command).unwrap();
        let pid = gated.pid();
        let program = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap();
        assert_ne!(program.trim(), "sh");
        let output = gated.open().unwrap().wait_with_output().unwrap();
        assert_eq!(output.stdout, format!("{pid}\n").into_bytes());
        assert_eq!(output.status.code(), Some(3));
    }

    #[test]
    fn a_missing_program_shows_when_the_gate_opens() {
        let gated = Gated::new(Command::new("/no/such/program")).unwrap();
        let error = gated.open().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_dropped_gate_ends_the_process_beside_another() {
        let first = Gated::new(Command::new("true")).unwrap();
        let second = Gated::new(Command::new("true")).unwrap();
        let pid = first.pid();
        let (ended, end) = std::sync::mpsc::channel();
        thread::spawn(move || {
            drop(first);
            let _ = ended.send(());
        });
        end.recv_timeout(Duration::from_secs(60)).unwrap();
        assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
        assert_eq!(state(second.pid()), Some('S'));
    }

    #[test]
    fn a_dropped_gate_ends_the_process() {
        let dir = std::env::temp_dir();
        let mark = dir.join(format!("gated-{}", std::process::id()));
        let mut command = Command::new("touch");
        command.arg(&mark);
        let gated = Gated::new(command).unwrap();
        let pid = gated.pid();
        drop(gated);
        // The process is reaped, too.
        assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
        assert!(!mark.exists());
    }
}
