// SPDX-License-Identifier: GPL-2.0
/*
 * Writing live text. Those who write have their proofs: jump.c, tools/probe/int3.c. Each of them
 * writes one byte that is the beginning of an instruction, or bytes that nobody executes, and has
 * all processors forget what they have fetched in between.
 *
 * enter/call_site.c needs none of this: it has the kernel change a whole instruction.
 */
#include <linux/cpu.h>
#include <linux/mutex.h>

#include "../kernel.h"
#include "../compat/import.h"
#include "../compat/ksym.h"
#include "../compat/poke.h"
#include "poke.h"

/* The kernel's own. NULL: nothing is written. */
static struct mutex *kprobe_mutex_found, *text_mutex_found;

int jifl_poke_init(void)
{
	kprobe_mutex_found = (struct mutex *)jifl_ksym("kprobe_mutex");
	text_mutex_found = (struct mutex *)jifl_ksym("text_mutex");
	return 0;
}

bool jifl_poke_works(void)
{
	return kprobe_mutex_found && text_mutex_found && jifl_imported(text_poke) &&
	       jifl_compat_poke_works() && jifl_imported(get_kprobe);
}

void jifl_poke_lock(void)
{
	mutex_lock(kprobe_mutex_found);
	cpus_read_lock();
	mutex_lock(text_mutex_found);
}

void jifl_poke_unlock(void)
{
	mutex_unlock(text_mutex_found);
	cpus_read_unlock();
	mutex_unlock(kprobe_mutex_found);
}

void jifl_poke(unsigned long at, const u8 *bytes, u32 n)
{
	jifl_import(text_poke)((void *)at, bytes, n);
}

void jifl_poke_sync(void)
{
	jifl_compat_poke_sync();
}
