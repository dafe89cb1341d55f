/* SPDX-License-Identifier: GPL-2.0 */
/* The dispatcher: its stubs, and the stack of each CPU that it runs on. */
#ifndef JIFL_HOST_DISPATCH_H
#define JIFL_HOST_DISPATCH_H

/* In stubs.S. The code cache jumps there; struct jifl_frame in engine/engine.h says how. */
extern char jifl_dispatch_direct[], jifl_dispatch_indirect[];

int jifl_dispatch_init(void);
void jifl_dispatch_exit(void);

#endif
