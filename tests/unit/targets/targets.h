/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Functions to be run through the cache: each takes one number and returns one number, the same
 * for the same argument. targets.c is compiled in several ways; each way is one table.
 */
#ifndef JIFL_UNIT_TARGETS_H
#define JIFL_UNIT_TARGETS_H

typedef unsigned long (*target_fn)(unsigned long n);

struct target {
	const char *name;
	target_fn fn;
	unsigned long n;	/* an argument that makes it work for a while */
};

/* Ends with name NULL. */
extern const struct target targets_plain[];	/* -O2 */
extern const struct target targets_slow[];	/* -O0: frames, memory operands */
extern const struct target targets_thunk[];	/* retpolines and return thunks */
extern const struct target targets_kernel[]; /* the same, as kernels are compiled */
extern const struct target targets_asm[];	/* targets.S */

/* Work done by libraries on n bytes or rows; libraries.c. */
unsigned long library_zlib(unsigned long n);
unsigned long library_sqlite(unsigned long n);

/*
 * Calls unit_hook(n), (n + 1) and (n + 2), and gives the sum of what they
 * return. The test defines the hook, which runs natively.
 */
unsigned long target_hooks(unsigned long n);
unsigned long unit_hook(unsigned long n);
extern target_fn unit_hook_pointer;

/*
 * Faults at instruction target_fault_sites[site] on the address bad, and is to go
 * on at target_fault_fixup, which returns -14. bad - 40 must be readable.
 */
unsigned long target_faults(unsigned long site, unsigned long bad);
extern const unsigned long target_fault_sites[5];
extern const char target_fault_fixup[];

#endif
