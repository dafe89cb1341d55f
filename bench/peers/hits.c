// SPDX-License-Identifier: GPL-2.0
/*
 * Counters and rings. The rings are allocated, because modules have little room for static per-CPU
 * data.
 */
#include <linux/cpumask.h>
#include <linux/slab.h>

#include "peers.h"

DEFINE_PER_CPU(struct peers_cpu, peers_cpu);

int peers_hits_create(void)
{
	int cpu;

	for_each_possible_cpu(cpu) {
		unsigned long *ring = kcalloc(PEERS_RING, sizeof(*ring), GFP_KERNEL);

		if (!ring) {
			peers_hits_destroy();
			return -ENOMEM;
		}
		per_cpu(peers_cpu.ring, cpu) = ring;
	}
	return 0;
}

/* Called when nothing probes any more. */
void peers_hits_destroy(void)
{
	int cpu;

	for_each_possible_cpu(cpu) {
		kfree(per_cpu(peers_cpu.ring, cpu));
		per_cpu(peers_cpu.ring, cpu) = NULL;
	}
}

void peers_hits_reset(void)
{
	int cpu;

	for_each_possible_cpu(cpu)
		per_cpu(peers_cpu.hits, cpu) = 0;
}

unsigned long peers_hits_sum(void)
{
	unsigned long sum = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		sum += READ_ONCE(per_cpu(peers_cpu.hits, cpu));
	return sum;
}
