/* SPDX-License-Identifier: GPL-2.0 */
/* The tracepoints of page faults, wherever the kernel declares them. */
#ifndef JIFL_HOST_COMPAT_EXCEPTIONS_H
#define JIFL_HOST_COMPAT_EXCEPTIONS_H

#if __has_include(<asm/trace/exceptions.h>)
#include <asm/trace/exceptions.h>
#else
#include <trace/events/exceptions.h>
#endif

#endif
