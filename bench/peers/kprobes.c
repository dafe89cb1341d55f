// SPDX-License-Identifier: GPL-2.0
/*
 * Kprobes. The kernel and a sysctl, debug.kprobes-optimization, decide whether kprobes become
 * jumps. A post_handler would keep a probe an int3 too, but it would also make the kernel
 * single-step, which a plain probe does not need.
 */
#include <linux/delay.h>
#include <linux/kprobes.h>
#include <linux/linkage.h>
#include <linux/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <asm/ibt.h>
#include <asm/text-patching.h>

#include "peers.h"

#define SETTLE_MS	60000
#define SETTLE_STEP_MS	20

static struct kprobe **probes;
static int nprobes, room;

static int count_handler(struct kprobe *p, struct pt_regs *regs)
{
	peers_count();
	return 0;
}
NOKPROBE_SYMBOL(count_handler);

static int trace_handler(struct kprobe *p, struct pt_regs *regs)
{
	peers_trace((unsigned long)p->addr);
	return 0;
}
NOKPROBE_SYMBOL(trace_handler);

static int make_room(void)
{
	int more = max(2 * room, 256);
	struct kprobe **p;

	if (nprobes < room)
		return 0;
	p = kvcalloc(more, sizeof(*p), GFP_KERNEL);
	if (!p)
		return -ENOMEM;
	if (probes)
		memcpy(p, probes, nprobes * sizeof(*p));
	kvfree(probes);
	probes = p;
	room = more;
	return 0;
}

int peers_kprobe_add(unsigned long addr, enum peers_job job)
{
	struct kprobe *p;
	int err = make_room();

	if (err)
		return err;
	p = kzalloc(sizeof(*p), GFP_KERNEL);
	if (!p)
		return -ENOMEM;
	p->addr = (kprobe_opcode_t *)addr;
	p->pre_handler = job == PEERS_TRACE ? trace_handler : count_handler;
	err = register_kprobe(p);
	if (err)
		kfree(p);
	else
		probes[nprobes++] = p;
	return err;
}

/* --- what became of them ----------------------------------------------------------------- */

/*
 * debugfs' list says [OPTIMIZED] also for probes that are only queued for it. The text is
 * reliable: a probe is an int3, a jump, or ftrace's call.
 */
static u8 first_byte(const struct kprobe *p)
{
	return READ_ONCE(*(u8 *)p->addr);
}

unsigned long peers_kprobes_jumps(void)
{
	unsigned long sum = 0;
	int i;

	for (i = 0; i < nprobes; i++)
		sum += first_byte(probes[i]) == JMP32_INSN_OPCODE;
	return sum;
}

/*
 * A function that can certainly be optimised. It has no return, because kernels up to 6.4 take a
 * return through a thunk for an indirect jump (insn_is_indirect_jump()). Nobody calls it.
 */
void jifl_peers_last(void);
asm("	.pushsection .text, \"ax\", @progbits\n"
    "	.type jifl_peers_last, @function\n"
    "	.globl jifl_peers_last\n"
    "jifl_peers_last:\n"
    ASM_ENDBR
    "	movl $1, %eax\n"
    "	jmp jifl_peers_last\n"
    "	.size jifl_peers_last, .-jifl_peers_last\n"
    "	.popsection\n");

static int wait_for_jump(const struct kprobe *p)
{
	int ms;

	for (ms = 0; ms < SETTLE_MS; ms += SETTLE_STEP_MS) {
		if (first_byte(p) == JMP32_INSN_OPCODE)
			return 0;
		if (fatal_signal_pending(current))
			return -EINTR;
		msleep(SETTLE_STEP_MS);
	}
	return -ETIMEDOUT;
}

/*
 * The optimiser takes all queued probes in one run, under a mutex that unregister_kprobe() needs
 * too. So when the last probe is a jump, and gone, the other probes have become what they will be.
 */
int peers_kprobes_settle(void)
{
	struct kprobe last = {
		.addr = (kprobe_opcode_t *)jifl_peers_last,
		.pre_handler = count_handler,
	};
	int err = register_kprobe(&last);

	if (err)
		return err;
	err = wait_for_jump(&last);
	unregister_kprobe(&last);
	return err;
}

unsigned long peers_kprobes_missed(void)
{
	unsigned long sum = 0;
	int i;

	for (i = 0; i < nprobes; i++)
		sum += probes[i]->nmissed;
	return sum;
}

void peers_kprobes_remove(void)
{
	/* Removes all at once, because each removal waits for handlers. */
	if (nprobes)
		unregister_kprobes(probes, nprobes);
	while (nprobes)
		kfree(probes[--nprobes]);
	kvfree(probes);
	probes = NULL;
	room = 0;
}
