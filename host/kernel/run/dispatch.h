/* SPDX-License-Identifier: GPL-2.0 */
/* The dispatcher: its stubs, and the stack of each CPU that it runs on. */
#ifndef JIFL_HOST_DISPATCH_H
#define JIFL_HOST_DISPATCH_H

/* In stubs.S. The code cache jumps there; struct jifl_frame in engine/engine.h says how. */
extern char jifl_dispatch_direct[], jifl_dispatch_indirect[];

/*
 * In stubs.S. Calls fn(arg) on the stack of the dispatcher. Interrupts are off, and the dispatcher
 * does not run on this CPU.
 */
void jifl_dispatch_call(void (*fn)(void *arg), void *arg);

int jifl_dispatch_init(void);
void jifl_dispatch_exit(void);

#endif
