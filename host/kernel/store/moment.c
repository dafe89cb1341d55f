// SPDX-License-Identifier: GPL-2.0
/* A processor's time stamp counter and the clock; see moment.h. */
#include <linux/ktime.h>	/* and timekeeping.h, which does not stand alone */
#include <linux/preempt.h>
#include <linux/smp.h>
#include <asm/cpufeature.h>
#include <asm/div64.h>
#include <asm/tsc.h>

#include "../kernel.h"
#include "moment.h"
#include "percpu.h"

#define TRIES		4
#define MOST_TRIES	16
#define WELL		20	/* pairs that took less than this part of a millisecond are good */

bool jifl_moment_may(void)
{
	return boot_cpu_has(X86_FEATURE_TSC) && tsc_khz;
}

/* What a hypervisor shows it keeps going. */
bool jifl_moment_is_steady(void)
{
	return jifl_moment_may() && (boot_cpu_has(X86_FEATURE_HYPERVISOR) ||
				     (boot_cpu_has(X86_FEATURE_CONSTANT_TSC) &&
				      boot_cpu_has(X86_FEATURE_NONSTOP_TSC)));
}

/*
 * The two are read one after the other: of some such pairs, the one that took least. A virtual
 * processor may rest in between, again and again. Then more are tried.
 */
static void jifl_moment_now(void *moment)
{
	struct jifl_moment *m = moment;
	u64 begin, ns, took, least = U64_MAX;
	int i;

	jifl_own_begin();
	for (i = 0; i < TRIES || (i < MOST_TRIES && least > tsc_khz / WELL); i++) {
		begin = rdtsc_ordered();
		ns = ktime_get_mono_fast_ns();
		took = rdtsc_ordered() - begin;
		if (took < least) {
			least = took;
			*m = (struct jifl_moment){ .tsc = begin + took / 2, .ns = ns };
		}
	}
	jifl_own_end();
}

struct jifl_moment jifl_moment_of(unsigned int cpu)
{
	struct jifl_moment m;

	if (smp_call_function_single(cpu, jifl_moment_now, &m, true)) {
		preempt_disable();
		jifl_moment_now(&m);
		preempt_enable();
	}
	return m;
}

static u64 jifl_moment_length(u64 ticks)
{
	return mul_u64_u64_div_u64(ticks, NSEC_PER_MSEC, tsc_khz);
}

/*
 * Do the two belong together? Between them counters may have been set back, on the way into
 * suspend, or the first was another processor's. The clock may be a tenth faster or slower than it
 * was made to be (timekeeping_adjust).
 */
static bool jifl_moment_follows(const struct jifl_moment *now, const struct jifl_moment *before)
{
	const u64 ns = now->ns - before->ns;

	return before->tsc < now->tsc && before->ns < now->ns &&
	       abs((s64)(jifl_moment_length(now->tsc - before->tsc) - ns)) < ns / 8;
}

u64 jifl_moment_at(const struct jifl_moment *before, const struct jifl_moment *now, u64 tsc)
{
	const u64 back = now->tsc - tsc;

	if ((s64)back < 0)
		return now->ns + jifl_moment_length(-back);
	if (jifl_moment_follows(now, before))
		return now->ns - min(now->ns, mul_u64_u64_div_u64(back, now->ns - before->ns,
								  now->tsc - before->tsc));
	return now->ns - min(now->ns, jifl_moment_length(back));
}
