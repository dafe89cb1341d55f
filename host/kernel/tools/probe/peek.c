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
#include <linux/bitops.h>
#include <linux/minmax.h>
#include <linux/sched.h>
#include <linux/string.h>
#include <linux/uaccess.h>
#include <asm/processor.h>
#include <asm/unwind.h>
#include <asm/vsyscall.h>

#include "../../kernel.h"
#include "../../plant.h"
#include "../../compat/ksym.h"
#include "../../run/codemem.h"
#include "../../run/unwind.h"
#include "act.h"
#include "load.h"

/*
 * Addresses that copy_from_kernel_nofault would read, too, and read at once here: kernel memory
 * below the page of vsyscalls. What the kernel asks before that is asked here: other addresses
 * that are not canonical would warn.
 */
static __always_inline bool jifl_peek_is_plain(u64 address)
{
	static_assert(JIFL_LOAD_END == (s64)VSYSCALL_ADDR - (s64)sizeof(u64));
	return (s64)address < JIFL_LOAD_END &&
	       (s64)address >> (boot_cpu_data.x86_virt_bits - 1) == -1;
}

/* As copy_from_kernel_nofault: one load. */
#define jifl_peek_load(to, address, type, faults) \
	do { \
		type value_; \
		__get_kernel_nofault(&value_, (const type *)(unsigned long)(address), type, \
				     faults); \
		*(to) = value_; \
	} while (0)

static bool jifl_peek(void *to, u64 address, size_t size)
{
	/* What would go on at address 0. */
	if (address + size - 1 < address)
		return false;
	if (address < TASK_SIZE_MAX)
		return !copy_from_user_nofault(to, (const void __user *)address, size);
	return !copy_from_kernel_nofault(to, (const void *)address, size);
}

/* *value was 0. */
static bool jifl_peek_raw(u64 address, u8 width, u64 *value)
{
	if (!jifl_peek_is_plain(address))
		return jifl_peek(value, address, width);
	switch (width) {
	case 1:
		jifl_peek_load(value, address, u8, faults);
		return true;
	case 2:
		jifl_peek_load(value, address, u16, faults);
		return true;
	case 4:
		jifl_peek_load(value, address, u32, faults);
		return true;
	default:
		jifl_peek_load(value, address, u64, faults);
		return true;
	}
faults:
	return false;
}

bool jifl_peek_number(u64 address, u8 width, bool is_signed, u64 *value)
{
	u64 raw = 0;

	if (!jifl_peek_raw(address, width, &raw))
		return false;
	/* The sign moves in from the highest bit of the number. */
	if (is_signed)
		raw = (u64)((s64)(raw << (64 - width * 8)) >> (64 - width * 8));
	*value = raw;
	return true;
}

/* The bytes of a word that are 0 have their highest bit set; bytes behind the first may, too. */
static u64 jifl_peek_zeroes(u64 word)
{
	return (word - 0x0101010101010101) & ~word & 0x8080808080808080;
}

/*
 * Reads up to the end of the aligned word, and no further than max: an aligned word lies in one
 * page, what is behind the string's end may fault. Returns how many bytes; 0: it faults.
 */
static u32 jifl_peek_step(u64 address, u64 *word, u32 max)
{
	const u32 step = min_t(u32, sizeof(*word) - (address & (sizeof(*word) - 1)), max);

	*word = 0;
	if (step == sizeof(*word))
		return jifl_peek_raw(address, sizeof(*word), word) ? step : 0;
	return jifl_peek(word, address, step) ? step : 0;
}

int jifl_peek_string(u64 address, char *to, u32 max)
{
	u32 n = 0, step;
	u64 word, zeroes;

	while (n < max - 1) {
		step = jifl_peek_step(address, &word, max - 1 - n);
		if (!step)
			return -EFAULT;
		if (step == sizeof(word))
			memcpy(to + n, &word, sizeof(word));
		else
			memcpy(to + n, &word, step);
		zeroes = jifl_peek_zeroes(word);
		if (zeroes && __ffs64(zeroes) / BITS_PER_BYTE < step)
			return n + __ffs64(zeroes) / BITS_PER_BYTE;
		n += step;
		address += step;
	}
	to[n] = '\0';
	return n;
}

int jifl_peek_is(u64 address, const char *string, u32 len, bool cut)
{
	/* With the end, which the session's string does not have. */
	const u32 whole = cut ? len : len + 1;
	u32 n = 0, step;
	u64 word;

	do {
		step = jifl_peek_step(address, &word, whole - n);
		if (!step)
			return -EFAULT;
		if (memcmp(&word, string + n, min(step, len - n)))
			return 0;
		n += step;
		address += step;
	} while (n < whole);
	return cut || !((const char *)&word)[step - 1];
}

/* The innermost callers, max of them at most. */
static u32 jifl_peek_frames(struct pt_regs *regs, u64 *frames, u32 max)
{
	struct unwind_state state;
	unsigned long address;
	u32 n = 0;
	/* The code of the place may itself be a callback of somebody's walk. */
	const u64 outer = jifl_unwind_keep();

	/* The first frame is that of the caller. */
	for (unwind_start(&state, current, regs, NULL);
	     !unwind_done(&state) && n < max; unwind_next_frame(&state)) {
		address = unwind_get_return_address(&state);
		if (!address)
			break;
		frames[n++] = jifl_unwind_original(address);
	}
	jifl_unwind_give_back(outer);
	return n;
}

u32 jifl_peek_stack(struct pt_regs *regs, u64 frames[JIFL_FRAMES_MAX])
{
	memset(frames, 0, JIFL_FRAMES_MAX * sizeof(*frames));
	return jifl_peek_frames(regs, frames, JIFL_FRAMES_MAX);
}

/* Where tracers have functions return to instead. */
static unsigned long jifl_peek_trampolines[2];

void jifl_peek_init(void)
{
	jifl_peek_trampolines[0] = jifl_ksym("return_to_handler");
	jifl_peek_trampolines[1] = jifl_ksym("arch_rethook_trampoline");
}

/* It is no address of the cache's, and of no trampoline: nothing else stands for the caller's. */
static bool jifl_peek_is_callers(unsigned long address)
{
	return !jifl_codemem_has(address) && jifl_unwind_original(address) == address &&
	       address != jifl_peek_trampolines[0] && address != jifl_peek_trampolines[1];
}

bool jifl_peek_caller(struct pt_regs *regs, bool begins, u64 *caller)
{
	if (begins) {
		*caller = *(const unsigned long *)regs->sp;
		if (jifl_peek_is_callers(*caller))
			return true;
	}
	return jifl_peek_frames(regs, caller, 1) == 1;
}
