/* SPDX-License-Identifier: GPL-2.0 */
/* Symbols that the kernel does not export: addresses by names, names by addresses. */
#ifndef JIFL_HOST_KSYM_H
#define JIFL_HOST_KSYM_H

#include <linux/types.h>

int jifl_ksym_init(void);
/* Address of a kernel symbol, 0 when there is none. Sleeps. */
unsigned long jifl_ksym(const char *name);
/* Address of the fentry call of the function at addr, 0 when it has none. */
unsigned long jifl_ksym_fentry(unsigned long addr);
/* The function that addr is in, up to the next symbol; false: in none. Any context, interrupts off. */
bool jifl_ksym_range(unsigned long addr, unsigned long *start, unsigned long *size);
/* The start of that function, or 0. Any context, interrupts off. */
unsigned long jifl_ksym_start(unsigned long addr);
/*
 * The name of that function, without offset and module; and the name of its module, empty for
 * the kernel's own. Both are cut where they do not fit. Any context, interrupts off.
 */
void jifl_ksym_name(unsigned long addr, char *name, size_t size);
void jifl_ksym_module(unsigned long addr, char *name, size_t size);
/* End of the function that is at addr: where the next symbol starts. */
unsigned long jifl_ksym_end(unsigned long addr);

#endif
