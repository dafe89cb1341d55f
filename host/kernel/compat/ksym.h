/* SPDX-License-Identifier: GPL-2.0 */
/* Symbols that the kernel does not export: addresses by names, names by addresses. */
#ifndef JIFL_HOST_KSYM_H
#define JIFL_HOST_KSYM_H

#include <linux/types.h>

int jifl_ksym_init(void);
/* The address of a kernel symbol, 0 when there is none. Sleeps. */
unsigned long jifl_ksym(const char *name);
/*
 * The address of the fentry call with which the function at addr begins, behind an endbr64 if it
 * has one; 0: it has none there.
 */
unsigned long jifl_ksym_fentry(unsigned long addr);
/*
 * The function that contains addr, up to the next symbol; false: no function does. Any context,
 * interrupts off.
 */
bool jifl_ksym_range(unsigned long addr, unsigned long *start, unsigned long *size);
/* The start of the function that contains addr, or 0. Any context, interrupts off. */
unsigned long jifl_ksym_start(unsigned long addr);
/*
 * The name of the function that begins at addr, cut where it does not fit; false: none begins
 * there. Any context, interrupts off.
 */
bool jifl_ksym_begins(unsigned long addr, char *name, size_t size);
/*
 * The name of the function that contains addr, without offset and module, and the name of its
 * module, empty for the kernel's own text. Both names are cut where they do not fit. Any context,
 * interrupts off.
 */
void jifl_ksym_name(unsigned long addr, char *name, size_t size);
void jifl_ksym_module(unsigned long addr, char *name, size_t size);
/*
 * Takes a reference to the module that addr lies in. *module: NULL if that is the kernel itself. 0;
 * -ENOENT: the module is about to go. Process context.
 */
int jifl_ksym_hold(unsigned long addr, struct module **module);
/*
 * Calls fn with each symbol of the kernel itself, in the order of addresses, until it returns a
 * value that is not 0. That, or 0; -EOPNOTSUPP: this kernel cannot. Process context; sleeps.
 */
int jifl_ksym_each(int (*fn)(const char *name, unsigned long addr));
/* The end of the function at addr: where the next symbol starts. */
unsigned long jifl_ksym_end(unsigned long addr);

#endif
