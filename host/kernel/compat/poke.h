/* SPDX-License-Identifier: GPL-2.0 */
/*
 * How the kernel changes its own text, by whatever name it has the function. Two functions got
 * other names in 6.16 and did not change otherwise. Which one a kernel has is asked at load.
 */
#ifndef JIFL_HOST_COMPAT_POKE_H
#define JIFL_HOST_COMPAT_POKE_H

#include "import.h"

/* Can live text be changed in steps, and can all processors be made to see it? */
static inline bool jifl_compat_poke_works(void)
{
	return (jifl_imported(smp_text_poke_single) || jifl_imported(text_poke_bp)) &&
	       (jifl_imported(smp_text_poke_sync_each_cpu) || jifl_imported(text_poke_sync));
}

/*
 * Changes an instruction that other processors may execute meanwhile. Under text_mutex; sleeps.
 * After jifl_compat_poke_works was true.
 */
static inline void jifl_compat_poke(void *addr, const void *bytes, size_t n)
{
	if (jifl_imported(smp_text_poke_single))
		jifl_import(smp_text_poke_single)(addr, bytes, n, NULL);
	else
		jifl_import(text_poke_bp)(addr, bytes, n, NULL);
}

/* Each processor has executed a serializing instruction when it returns. As above. */
static inline void jifl_compat_poke_sync(void)
{
	if (jifl_imported(smp_text_poke_sync_each_cpu))
		jifl_import(smp_text_poke_sync_each_cpu)();
	else
		jifl_import(text_poke_sync)();
}

/*
 * May the kernel write a lock prefix to one of these bytes, when a second processor comes up? Only
 * a kernel that does so has the function: up to 7.2, and built for several processors. Under
 * text_mutex.
 */
static inline bool jifl_compat_poke_reserved(unsigned long first, unsigned long last)
{
	return jifl_import(alternatives_text_reserved)((void *)first, (void *)last);
}

#endif
