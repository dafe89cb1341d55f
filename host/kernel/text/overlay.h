/* SPDX-License-Identifier: GPL-2.0 */
/* Text beneath breakpoints of the module's own. */
#ifndef JIFL_HOST_OVERLAY_H
#define JIFL_HOST_OVERLAY_H

#include <linux/kprobes.h>
#include <linux/types.h>

/*
 * Kprobes with this handler are the module's own. on_lifted is called when the kernel takes one
 * away, with text_mutex held and preemption off. beneath tells of breakpoints that are none: is one
 * at addr, and on what does it stand? Any context, preemption off. At load, once.
 */
void jifl_overlay_init(kprobe_pre_handler_t handler, void (*on_lifted)(struct kprobe *probe),
		       bool (*beneath)(unsigned long addr, u8 *byte));
/* The kernel is about to change the text there, or has done so. With text_mutex held. */
void jifl_overlay_changes(unsigned long addr, const u8 *old, size_t len);
/*
 * Is there a breakpoint at addr, and is it the module's alone? *byte becomes what it stands on,
 * whose it may be; without one it stays. Any context, preemption off.
 */
bool jifl_overlay_is_own(unsigned long addr, u8 *byte);
/* Is there a kprobe at addr, anybody's? Any context, preemption off, or under jifl_poke_lock. */
bool jifl_overlay_has(unsigned long addr);

#endif
