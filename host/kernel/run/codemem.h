/* SPDX-License-Identifier: GPL-2.0 */
/* The code cache's memory: executable, and a writable alias. */
#ifndef JIFL_HOST_CODEMEM_H
#define JIFL_HOST_CODEMEM_H

#include <linux/types.h>

int jifl_codemem_init(u32 size);
void jifl_codemem_exit(void);
u64 jifl_codemem_base(void);
u32 jifl_codemem_size(void);
/* Is addr in the executable mapping? Any context. */
bool jifl_codemem_has(u64 addr);
/* Bytes of each page of the executable mapping. */
u32 jifl_codemem_page(void);
/*
 * The writable alias exists from the first open to the last close, at an
 * address chosen anew each time. Sleeps. Without it jifl_host_code_write must
 * not be called.
 */
int jifl_codemem_open(void);
void jifl_codemem_close(void);

#endif
