// SPDX-License-Identifier: MIT OR Apache-2.0
//! The part of bpf(2) that programs at functions' entries need: one map, programs, their
//! attachment. The structures are the members of `union bpf_attr`.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

const MAP_CREATE: libc::c_long = 0;
const MAP_LOOKUP_ELEM: libc::c_long = 1;
const PROG_LOAD: libc::c_long = 5;
const OBJ_GET_INFO_BY_FD: libc::c_long = 15;
const RAW_TRACEPOINT_OPEN: libc::c_long = 17;

const MAP_TYPE_PERCPU_ARRAY: u32 = 6;
const PROG_TYPE_TRACING: u32 = 26;
const TRACE_FENTRY: u32 = 24;

/// Makes the system call.
///
/// # Safety
/// `attr` must be what `command` takes, and its pointers good for what it does.
unsafe fn bpf<T>(command: libc::c_long, attr: &mut T) -> io::Result<libc::c_long> {
    // SAFETY: the kernel reads and writes size_of::<T>() bytes at `attr`; the
    // caller answers for the rest.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, &raw mut *attr, size_of::<T>()) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(result)
}

/// [`bpf`] for commands that make a file descriptor.
///
/// # Safety
/// As for [`bpf`]; `command` makes one.
unsafe fn bpf_fd<T>(command: libc::c_long, attr: &mut T) -> io::Result<OwnedFd> {
    // SAFETY: the caller's promise; the result is a new descriptor that nobody else owns.
    unsafe { Ok(OwnedFd::from_raw_fd(bpf(command, attr)? as i32)) }
}

/// An array of one element, of which each CPU has its own.
#[derive(Debug)]
pub struct Map {
    fd: OwnedFd,
    value_size: u32,
}

impl Map {
    /// Makes an array whose element has this many bytes, a multiple of 8.
    pub fn new(value_size: u32) -> io::Result<Map> {
        #[repr(C)]
        struct Attr {
            map_type: u32,
            key_size: u32,
            value_size: u32,
            max_entries: u32,
        }
        let mut attr = Attr {
            map_type: MAP_TYPE_PERCPU_ARRAY,
            key_size: 4,
            value_size,
            max_entries: 1,
        };
        // SAFETY: the structure is MAP_CREATE's, without pointers.
        let fd = unsafe { bpf_fd(MAP_CREATE, &mut attr)? };
        Ok(Map { fd, value_size })
    }

    /// The descriptor's number. Programs name the map by it.
    pub fn number(&self) -> i32 {
        self.fd.as_raw_fd()
    }

    /// Sum of each CPU's first word. `cpus`: the number of CPUs that the kernel counts as possible.
    pub fn sum(&self, cpus: usize) -> io::Result<u64> {
        #[repr(C)]
        struct Attr {
            fd: u32,
            pad: u32,
            key: u64,
            value: u64,
            flags: u64,
        }
        let words = self.value_size as usize / 8;
        let key = 0u32;
        // Room for twice the CPUs: the kernel may write more values than `cpus`.
        let mut values = vec![0u64; words * cpus.max(1) * 2];
        let mut attr = Attr {
            fd: self.fd.as_raw_fd() as u32,
            pad: 0,
            key: &raw const key as u64,
            value: values.as_mut_ptr() as u64,
            flags: 0,
        };
        // SAFETY: the key has four bytes; the kernel writes one element for each possible
        // CPU, for which there is room.
        unsafe { bpf(MAP_LOOKUP_ELEM, &mut attr)? };
        Ok(values.chunks(words).take(cpus).map(|value| value[0]).sum())
    }
}

/// A program for the entry of one function, attached there.
#[derive(Debug)]
pub struct Fentry {
    program: OwnedFd,
    /// Closing it detaches.
    _link: OwnedFd,
}

impl Fentry {
    /// Loads a program for the function with this number in the kernel's BTF, and
    /// attaches it.
    pub fn attach(instructions: &[u64], btf_id: u32) -> io::Result<Fentry> {
        let program = load(instructions, btf_id)?;
        #[repr(C)]
        struct Attr {
            name: u64,
            program: u32,
            pad: u32,
        }
        let mut attr = Attr {
            name: 0,
            program: program.as_raw_fd() as u32,
            pad: 0,
        };
        // SAFETY: the structure is RAW_TRACEPOINT_OPEN's; without a name it means the
        // function that the program was loaded for.
        let link = unsafe { bpf_fd(RAW_TRACEPOINT_OPEN, &mut attr)? };
        Ok(Fentry {
            program,
            _link: link,
        })
    }

    /// How often the program was not run, because it was running already on that CPU.
    pub fn missed(&self) -> io::Result<u64> {
        /// Index of recursion_misses in `struct bpf_prog_info`, as words of 8 bytes.
        const RECURSION_MISSES: usize = 26;
        #[repr(C)]
        struct Attr {
            fd: u32,
            len: u32,
            info: u64,
        }
        let mut info = [0u64; 64];
        let mut attr = Attr {
            fd: self.program.as_raw_fd() as u32,
            len: size_of_val(&info) as u32,
            info: info.as_mut_ptr() as u64,
        };
        // SAFETY: the kernel writes at most `len` bytes of integers; all pointers and
        // counts in the structure are zero, so it writes nothing elsewhere.
        unsafe { bpf(OBJ_GET_INFO_BY_FD, &mut attr)? };
        Ok(info[RECURSION_MISSES])
    }
}

fn load(instructions: &[u64], btf_id: u32) -> io::Result<OwnedFd> {
    #[repr(C)]
    #[derive(Default)]
    struct Attr {
        program_type: u32,
        instruction_count: u32,
        instructions: u64,
        license: u64,
        log: [u32; 2],
        log_buffer: u64,
        kernel_version: u32,
        flags: u32,
        name: [u8; 16],
        interface: u32,
        expected_attach_type: u32,
        btf_fd: u32,
        func_info_size: u32,
        func_info: u64,
        func_info_count: u32,
        line_info_size: u32,
        line_info: u64,
        line_info_count: u32,
        attach_btf_id: u32,
        attach_program: u32,
        pad: u32,
    }
    let mut attr = Attr {
        program_type: PROG_TYPE_TRACING,
        instruction_count: instructions.len() as u32,
        instructions: instructions.as_ptr() as u64,
        license: c"GPL".as_ptr() as u64,
        expected_attach_type: TRACE_FENTRY,
        attach_btf_id: btf_id,
        ..Attr::default()
    };
    // SAFETY: the structure is PROG_LOAD's; the instructions and the licence live until
    // it returns, and the kernel only reads them.
    unsafe { bpf_fd(PROG_LOAD, &mut attr) }
}
