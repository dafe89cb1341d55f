// SPDX-License-Identifier: GPL-2.0
/* The parameters of a module built for tests; see plant.h. */
#ifdef JIFL_TEST_BUILD
#include <linux/atomic.h>
#include <linux/kernel.h>
#include <linux/moduleparam.h>
#include <linux/string.h>

#include "kernel.h"
#include "plant.h"

static char *plant = "";
module_param(plant, charp, 0444);
MODULE_PARM_DESC(plant, "bug to plant, see plant.h");

/* Counted down by allocations: the one that finds 1 fails. */
static atomic_t fail_nth = ATOMIC_INIT(0);
module_param_named(fail_nth, fail_nth.counter, int, 0644);
MODULE_PARM_DESC(fail_nth, "let the nth allocation from here on fail");

static unsigned int failed;
module_param(failed, uint, 0444);
MODULE_PARM_DESC(failed, "allocations that were made to fail");

enum jifl_host_plant jifl_host_plant;

#define NAME(name, what) #name,
static const char * const names[] = { "", JIFL_HOST_PLANTS(NAME) };
#undef NAME

bool jifl_plant_fails(void)
{
	if (atomic_read(&fail_nth) <= 0 || atomic_dec_return(&fail_nth))
		return false;
	failed++;
	return true;
}

int jifl_plant_init(void)
{
	int i = match_string(names, ARRAY_SIZE(names), plant);

	if (i < 0) {
		pr_err("no plant is called %s\n", plant);
		return -EINVAL;
	}
	jifl_host_plant = i;
	return 0;
}
#endif
