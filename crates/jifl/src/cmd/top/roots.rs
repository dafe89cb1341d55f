// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is looked at first.

use crate::base::exit::Failure;
use crate::cmd::stat::function;
use crate::kernel::syscalls;

/// Where tasks spend the kernel's time, if nothing else is asked for: what system calls, faults and
/// softirqs lead to, and where tasks wait. Those that a kernel does not have are left out.
const USUAL: [&str; 42] = [
    "vfs_read",
    "vfs_write",
    "vfs_readv",
    "vfs_writev",
    "vfs_fsync_range",
    "vfs_statx",
    "do_sys_openat2",
    "iterate_dir",
    "filename_lookup",
    "do_unlinkat",
    "do_mmap",
    "do_munmap",
    "handle_mm_fault",
    "filemap_fault",
    "kernel_clone",
    "do_wait",
    "begin_new_exec",
    "exit_mmap",
    "do_epoll_wait",
    "do_sys_poll",
    "core_sys_select",
    "do_futex",
    "hrtimer_nanosleep",
    "do_sys_times",
    "sock_sendmsg",
    "sock_recvmsg",
    "__sys_connect",
    "__sys_accept4",
    "pipe_read",
    "pipe_write",
    // Their names since 6.16.
    "anon_pipe_read",
    "anon_pipe_write",
    "wait_on_page_writeback",
    "folio_wait_bit",
    "io_schedule",
    "__mutex_lock_slowpath",
    "rwsem_down_read_slowpath",
    "rwsem_down_write_slowpath",
    "net_rx_action",
    "blk_mq_submit_bio",
    "submit_bio",
    "try_to_free_pages",
];

/// The names of functions, as `fn:NAME`, that the words mean: `sys:NAME` is the function that the
/// system call runs.
///
/// # Errors
/// One of them is neither a function nor a system call.
pub fn names(words: &[String]) -> Result<Vec<String>, Failure> {
    if words.is_empty() {
        return Ok(USUAL.map(|name| format!("fn:{name}")).to_vec());
    }
    let name = |word: &String| match word.strip_prefix("sys:") {
        Some(call) => function(&format!("fn:__x64_sys_{}", syscalls::handler(call))),
        None => function(word),
    };
    words.iter().map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_calls_are_their_functions() {
        let words = ["sys:read", "sys:stat", "fn:vfs_*", "mod:ext4"].map(str::to_owned);
        assert_eq!(
            names(&words).unwrap(),
            [
                "fn:__x64_sys_read",
                "fn:__x64_sys_newstat",
                "fn:vfs_*",
                "fn:*@ext4"
            ]
        );
        assert_eq!(names(&[]).unwrap().len(), USUAL.len());
        assert!(names(&["irq:3".into()]).is_err());
    }
}
