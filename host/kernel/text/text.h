/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What stands at an address. The functions that answer are jifl_host_classify and jifl_host_text
 * of engine/host.h.
 */
#ifndef JIFL_HOST_TEXT_H
#define JIFL_HOST_TEXT_H

#include <linux/types.h>

int jifl_text_init(void);
void jifl_text_exit(void);
/* Is it in the core kernel's text? Any context. */
bool jifl_text_is_core(unsigned long addr);

#endif
