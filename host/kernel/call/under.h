/* SPDX-License-Identifier: GPL-2.0 */
/* What a call is made under: a system call that the task is in, a function on its stack. */
#ifndef JIFL_HOST_UNDER_H
#define JIFL_HOST_UNDER_H

#include <linux/types.h>

struct jifl_target_spec;
struct jifl_under;

/*
 * n of struct jifl_target_spec in user space: system calls by their numbers, functions by their
 * addresses. Returns NULL for none, or an error: -EINVAL, -ENOENT (no function begins there, or
 * its module goes), -EFAULT, -ENOMEM. Process context; sleeps.
 */
struct jifl_under *jifl_under_open(const struct jifl_target_spec __user *list, u32 n);
void jifl_under_close(struct jifl_under *u);
/*
 * Is a call made under one of these? caller: its return address. Any context but NMI, where RCU
 * watches; takes no lock.
 */
bool jifl_under_holds(const struct jifl_under *u, unsigned long caller);

#endif
