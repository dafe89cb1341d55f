// SPDX-License-Identifier: GPL-2.0
/*
 * What programs at places read of the machine: memory, strings, stacks. Nothing faults: where
 * something cannot be read, that is the answer.
 *
 * Addresses below the end of user space are the task's own. In a softirq or an interrupt the task
 * is the interrupted one.
 *
 * Context: any, interrupts off.
 */
#include <linux/minmax.h>
#include <linux/sched.h>
#include <linux/string.h>
#include <linux/uaccess.h>
#include <asm/processor.h>
#include <asm/unwind.h>

#include "../../kernel.h"
#include "../../plant.h"
#include "../../run/unwind.h"
#include "act.h"

static bool jifl_peek(void *to, u64 address, size_t size)
{
	/* What would go on at address 0. */
	if (address + size - 1 < address)
		return false;
	if (address < TASK_SIZE_MAX)
		return !copy_from_user_nofault(to, (const void __user *)address, size);
	return !copy_from_kernel_nofault(to, (const void *)address, size);
}

bool jifl_peek_number(u64 address, u8 width, bool is_signed, u64 *value)
{
	u64 raw = 0;

	if (!jifl_peek(&raw, address, width))
		return false;
	/* The sign moves in from the highest bit of the number. */
	if (is_signed)
		raw = (u64)((s64)(raw << (64 - width * 8)) >> (64 - width * 8));
	*value = raw;
	return true;
}

int jifl_peek_string(u64 address, char *to, u32 max)
{
	u32 n = 0, step;
	const char *end;

	while (n < max - 1) {
		/* An aligned word lies in one page: what is behind the string's end may fault. */
		step = min_t(u32, sizeof(u64) - (address & (sizeof(u64) - 1)), max - 1 - n);
		if (!jifl_peek(to + n, address, step))
			return -EFAULT;
		end = memchr(to + n, 0, step);
		if (end)
			return end - to;
		n += step;
		address += step;
	}
	to[n] = '\0';
	return n;
}

int jifl_peek_is(u64 address, const char *string, u32 len)
{
	char word[sizeof(u64)];
	u32 n = 0, step;

	/* With the end, which the session's string does not have. */
	while (n <= len) {
		step = min_t(u32, sizeof(word) - (address & (sizeof(word) - 1)), len + 1 - n);
		if (!jifl_peek(word, address, step))
			return -EFAULT;
		if (memcmp(word, string + n, min(step, len - n)))
			return 0;
		n += step;
		address += step;
	}
	return !word[step - 1];
}

u32 jifl_peek_stack(struct pt_regs *regs, u64 frames[JIFL_FRAMES_MAX])
{
	struct unwind_state state;
	struct pt_regs outer;
	unsigned long address;
	u32 n = 0;

	/* The code of the place may itself be a callback of somebody's walk. */
	jifl_unwind_keep(&outer);
	memset(frames, 0, JIFL_FRAMES_MAX * sizeof(*frames));
	/* The first frame is that of the caller. */
	for (unwind_start(&state, current, regs, NULL);
	     !unwind_done(&state) && n < JIFL_FRAMES_MAX; unwind_next_frame(&state)) {
		address = unwind_get_return_address(&state);
		if (!address)
			break;
		frames[n++] = jifl_unwind_original(address);
	}
	jifl_unwind_give_back(&outer);
	return n;
}
