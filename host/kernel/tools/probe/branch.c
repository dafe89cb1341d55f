// SPDX-License-Identifier: GPL-2.0
/*
 * Branches on conditions at which places are: which condition it is, and whether the branch is
 * taken.
 *
 * Context: jifl_probe_learn: process; jifl_probe_branches: any.
 */
#include <linux/preempt.h>
#include <linux/ptrace.h>
#include <linux/uaccess.h>
#include <asm/processor-flags.h>

#include "../../kernel.h"
#include "../../session/session.h"
#include "../../text/jump.h"
#include "../../text/overlay.h"
#include "probe.h"
#include "calls.h"

/* The condition of the branch beneath the breakpoint; negative: none is there that is known. */
static int jifl_probe_condition(unsigned long address)
{
	u8 b[3];

	/* A jump replaces no branch. */
	if (jifl_jump_has(address))
		return -EINVAL;
	if (copy_from_kernel_nofault(b, (void *)address, sizeof(b)))
		return -EINVAL;
	preempt_disable();
	jifl_overlay_is_own(address, &b[0]);
	preempt_enable();
	if ((b[0] & 0xf0) == 0x70)
		return b[0] & 0xf;
	if (b[0] == 0x0f && (b[1] & 0xf0) == 0x80)
		return b[1] & 0xf;
	if (b[0] == 0xe3)
		return JIFL_PROBE_JRCXZ;
	if (b[0] == 0x67 && b[1] == 0xe3)
		return JIFL_PROBE_JECXZ;
	return -EINVAL;
}

enum jifl_splice_refusal jifl_probe_learn(struct jifl_probe *p,
					   const struct jifl_probe_site *site)
{
	u32 i;

	for (i = site->first; i < site->first + site->n; i++) {
		struct jifl_probe_place *place = &p->places[i];
		const struct jifl_probe_call *call = jifl_probe_call(place);
		int cc;

		if (place->where == JIFL_SPLICE_BEFORE && !(call && call->taken))
			continue;
		cc = jifl_probe_condition(place->address);
		if (cc < 0)
			return JIFL_SPLICE_BRANCH;
		WRITE_ONCE(place->cc, cc);
	}
	return JIFL_SPLICE_OK;
}

/* Does a jcc with this condition branch? Intel SDM, volume 1, appendix B. */
bool jifl_probe_branches(u8 cc, const struct pt_regs *regs)
{
	const bool cf = regs->flags & X86_EFLAGS_CF, zf = regs->flags & X86_EFLAGS_ZF;
	const bool sf = regs->flags & X86_EFLAGS_SF, of = regs->flags & X86_EFLAGS_OF;
	bool holds = false;

	if (cc == JIFL_PROBE_JRCXZ)
		return !regs->cx;
	if (cc == JIFL_PROBE_JECXZ)
		return !(u32)regs->cx;
	switch (cc >> 1) {
	case 0:
		holds = of;
		break;
	case 1:
		holds = cf;
		break;
	case 2:
		holds = zf;
		break;
	case 3:
		holds = cf || zf;
		break;
	case 4:
		holds = sf;
		break;
	case 5:
		holds = regs->flags & X86_EFLAGS_PF;
		break;
	case 6:
		holds = sf != of;
		break;
	case 7:
		holds = zf || sf != of;
		break;
	}
	return holds != (cc & 1);
}
