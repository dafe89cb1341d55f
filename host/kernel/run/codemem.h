/* SPDX-License-Identifier: GPL-2.0 */
/* The code cache's memory: an executable mapping and a writable alias. */
#ifndef JIFL_HOST_CODEMEM_H
#define JIFL_HOST_CODEMEM_H

#include <linux/types.h>

int jifl_codemem_init(u32 size);
void jifl_codemem_exit(void);
u64 jifl_codemem_base(void);
u32 jifl_codemem_size(void);
/* Is addr in the executable mapping? Any context. */
bool jifl_codemem_has(u64 addr);
/* Size in bytes of the executable mapping's pages. */
u32 jifl_codemem_page(void);
/*
 * The writable alias exists from the first open to the last close. Each time it has a new random
 * address. jifl_host_code_write may be called only while the alias exists. Both sleep.
 */
int jifl_codemem_open(void);
void jifl_codemem_close(void);

#endif
