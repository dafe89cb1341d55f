// SPDX-License-Identifier: GPL-2.0
/*
 * The table of doors that lead straight to an entry piece. The stubs of functions (run/stubs.S)
 * read it at a distance from the address behind the fentry site that is the same for all sites. A
 * call that finds its piece there executes no C code. What is said of sites holds for the calls in
 * the gates of jumps, too (notrace.c): there jifl_jump_stub is the stub.
 *
 * The table takes as many addresses as the kernel's text and its modules (2 GiB), so an address
 * leads to its place without a search. A place is the low half of a piece's address. It has memory
 * only where there is a door: one page of it for each page of text that has a door's site.
 *
 * A door leads straight only if all calls of its function go to one piece, and none needs a hook at
 * its return: no session of the target has a filter, and none follows its calls to their end
 * (jifl_choose_is_settled in session/choose_piece.c). All other calls go to jifl_choose_copy, which
 * looks the target up itself.
 *
 * 1. A stub sends a call straight on only where guard.c would let it in. jifl_choose_copy decides
 *    about all other calls, and counts those as missed that guard.c does not let in.
 *    a. At task level: no NMI, interrupt or softirq is counted on this CPU, no code of the module's
 *       runs here, rsp is on the task's stack, and the task neither is idle nor stops the machine.
 *       All this but the count is looked at when a stack calls the first time, and is remembered in
 *       the CPU's jifl_cpu.stack: guard.c proves that it still holds where rsp is on the stack that
 *       is remembered. If the thread is preempted after these checks, they still hold for it: they
 *       are about the task, but for the module's own code, which runs only while preemption is off.
 *    b. In an interrupt or softirq that is counted: no NMI is, and no code of the module's runs on
 *       this CPU at such a level. A call that goes straight on has no hook. So no session follows
 *       it, and it needs no lanes (step 3 in the head of call/levels.c). Where an interrupt is not
 *       counted yet, or not any more, guard.c says what holds (step 3 there).
 * 2. Where RCU does not watch, no call may go straight on either. Where an interrupt or softirq is
 *    counted, RCU watches: RCU is told of an interrupt before it is counted, and of its end when it
 *    is not counted any more (irqentry_enter, irqentry_exit, irq_enter). At task level this is an
 *    idle task, or one that is idle for a while (play_idle_precise; PF_IDLE), or code on the way
 *    between user and kernel mode on a CPU that tracks contexts (nohz_full). Where a CPU tracks
 *    them, no function gets a place here, and neither with PREEMPT_RT, which counts softirqs
 *    elsewhere.
 * 3. A place belongs to one site. Sites are five bytes apart at least, and a place has four. It has
 *    memory from before its door is armed until no thread is in a stub for a door of any function
 *    (steps 1 to 4 in the head of function.c): from before a site calls jifl_function_stub, and
 *    from before the int3 of the first jump leads to a gate. It is 0 until a piece is written
 *    there, or the address behind the site itself: as long as no session is armed at the function,
 *    there is nothing to ask, and the stub returns as for any other call that runs natively. So a
 *    thread reads a piece of its own function there, that function, or 0, even if it is preempted
 *    in between. A place that is not at an address divisible by four may be read while one half is
 *    written. It stays 0.
 * 4. The piece in a place is that of a way. It becomes 0 before code that the piece leads to is
 *    taken away (step 8 in the head of session/mix.c), or leads to the function itself, and it
 *    becomes 0 before the door is given back. A thread that has read it before has it in rax or in
 *    the slot of its return address, in the stub, where leave/evict.c finds it.
 * 5. The table itself stays until no site and no jump leads to a stub and no thread is in one. If
 *    ftrace does not give sites back, the table stays for good (function.c). While somebody's
 *    kprobe keeps a jump, it stays, too (jifl_notrace_has_doors).
 * 6. When a stub returns, rax has no address of a piece any more. Otherwise leave/evict.c would
 *    take the thread for one that is about to enter, for as long as it leaves rax as it is.
 *
 * Registers: jifl_function_stub changes rax and r10. At the beginning of a compiled function these
 * hold nothing. rax has the number of vector registers, which the kernel's callers do not set
 * (-mskip-rax-setup). r10 is the static chain of nested functions, which the kernel does not have
 * (System V ABI 3.2.3). BPF's trampolines, which are called from the same sites, change both, too.
 * jifl_jump_stub changes nothing, because assembly may pass anything.
 *
 * KASAN keeps memory for an eighth of all addresses that are taken. So a kernel with KASAN has no
 * table, and all calls go to jifl_choose_copy.
 */
#include <linux/align.h>
#include <linux/build_bug.h>
#include <linux/context_tracking_state.h>
#include <linux/gfp.h>
#include <linux/list.h>
#include <linux/mm.h>
#include <linux/pgtable.h>
#include <linux/preempt.h>
#include <linux/sched.h>
#include <linux/vmalloc.h>

#include "../kernel.h"
#include "../plant.h"
#include "../compat/current.h"
#include "../compat/import.h"
#include "../compat/ksym.h"
#include "../store/percpu.h"
#include "../run/stubs.h"
#include "door_table.h"

/* From the first address that text can have up to the last one. */
#define TABLE_SIZE	(2UL << 30)

/*
 * The place of an address is so many bytes before it. A site behind an endbr64 ends at 9, any other
 * one at 5, and functions begin at addresses divisible by four, but for some that are rarely run.
 * The call of a gate ends at 5 (text/gate.c).
 */
#define PLACE_SHIFT	1

static_assert(offsetof(struct jifl_cpu, own) == JIFL_CPU_OWN);
static_assert(offsetof(struct jifl_cpu, own[JIFL_LEVEL_SOFTIRQ]) == JIFL_CPU_OWN_ABOVE);
static_assert(JIFL_LEVEL_SOFTIRQ == 1 && JIFL_LEVEL_IRQ == 2 && JIFL_NR_LEVELS == 3);
static_assert(offsetof(struct jifl_cpu, stack) == JIFL_CPU_STACK);

/* The place of an address is here, the address added. Read by the stubs. */
unsigned long jifl_door_table;

static struct vm_struct *area;		/* these four: jifl_session_mutex */
static LIST_HEAD(pages);		/* that are mapped there */
static struct mm_struct *init_mm_found;
static unsigned long reserved;		/* a page that has memory; 0: none is known */

/*
 * Offsets and masks that the stub cannot have from headers, as absolute symbols. In two halves: the
 * compiler takes no number of 32 bits whose highest bit is set, as masks of the preemption's count
 * have it since 7.3.
 */
static void __used jifl_doors_symbols(void)
{
#define SYMBOL(name, value)	asm(".globl " #name "\n" #name " = %c0 << 16 | %c1" \
				    : : "i" ((value) >> 16), "i" ((value) & 0xffff))
	SYMBOL(jifl_task_stack, offsetof(struct task_struct, stack));
	SYMBOL(jifl_task_flags, offsetof(struct task_struct, flags));
	SYMBOL(jifl_flag_thread, PF_KTHREAD | PF_IDLE);
	SYMBOL(jifl_flag_idle, PF_IDLE);
	SYMBOL(jifl_task_pid, offsetof(struct task_struct, pid));
	SYMBOL(jifl_task_class, offsetof(struct task_struct, sched_class));
	SYMBOL(jifl_preempt_interrupts, NMI_MASK | HARDIRQ_MASK | SOFTIRQ_OFFSET);
	SYMBOL(jifl_preempt_nmi, NMI_MASK);
#ifdef JIFL_TEST_BUILD
	SYMBOL(jifl_planted_door_nmi, jifl_host_plant_door_nmi);
	SYMBOL(jifl_planted_door_own, jifl_host_plant_door_own);
	SYMBOL(jifl_planted_door_own_above, jifl_host_plant_door_own_above);
	SYMBOL(jifl_planted_door_stack, jifl_host_plant_door_stack);
	SYMBOL(jifl_planted_door_idle, jifl_host_plant_door_idle);
	SYMBOL(jifl_planted_door_injected, jifl_host_plant_door_injected);
	SYMBOL(jifl_planted_door_injects, jifl_host_plant_door_injects);
	SYMBOL(jifl_planted_door_stopper, jifl_host_plant_door_stopper);
#endif
#undef SYMBOL
}

static bool has_table(void)
{
	return !IS_ENABLED(CONFIG_KASAN);
}

int jifl_doors_open(void)
{
	if (jifl_door_table || !has_table())
		return 0;
	init_mm_found = (struct mm_struct *)jifl_ksym("init_mm");
	area = JIFL_ALLOC(jifl_import(__get_vm_area_caller)(TABLE_SIZE, VM_MAP, VMALLOC_START,
							    VMALLOC_END,
							    __builtin_return_address(0)));
	if (!area)
		return -ENOMEM;
	jifl_door_table = (unsigned long)area->addr - __START_KERNEL_map - PLACE_SHIFT;
	return 0;
}

void jifl_doors_close(void)
{
	struct page *page, *next;

	if (!area)
		return;
	jifl_door_table = 0;
	free_vm_area(area);
	area = NULL;
	reserved = 0;
	/* Without this the kernel would flush the TLB some time later. */
	vm_unmap_aliases();
	list_for_each_entry_safe(page, next, &pages, lru) {
		list_del(&page->lru);
		__free_page(page);
	}
}

static int map_page(pte_t *pte, unsigned long addr, void *arg)
{
	struct page *page = arg;

	set_pte(pte, mk_pte(page, PAGE_KERNEL));
	return 0;
}

/* The page of the table at addr has memory when this returns 0; else -ENOMEM. */
static int reserve_page(unsigned long addr)
{
	struct page *page;
	int err;

	addr &= PAGE_MASK;
	if (vmalloc_to_page((void *)addr)) {
		reserved = addr;
		return 0;
	}
	page = JIFL_ALLOC(alloc_page(GFP_KERNEL | __GFP_ZERO));
	if (!page)
		return -ENOMEM;
	err = apply_to_page_range(init_mm_found, addr, PAGE_SIZE, map_page, page);
	if (err)
		__free_page(page);
	else
		list_add(&page->lru, &pages);
	reserved = err ? 0 : addr;
	return err;
}

int jifl_doors_reserve(u64 address)
{
	const unsigned long place = jifl_door_table + address;

	if (!has_table())
		return 0;
	/* Of tens of thousands most are on the page of the one before. */
	if (place >= reserved && place + sizeof(u32) <= reserved + PAGE_SIZE && reserved)
		return 0;
	return reserve_page(place) ?: reserve_page(place + sizeof(u32) - 1);
}

u32 *jifl_doors_take(u64 address)
{
	const unsigned long place = jifl_door_table + address;

	if (!has_table() || !IS_ALIGNED(place, sizeof(u32)) || context_tracking_enabled() ||
	    IS_ENABLED(CONFIG_PREEMPT_RT))
		return NULL;
	return (u32 *)place;
}

void jifl_doors_give(u32 *place)
{
	if (place)
		WRITE_ONCE(*place, 0);
}
