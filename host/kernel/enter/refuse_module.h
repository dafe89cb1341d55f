/* SPDX-License-Identifier: GPL-2.0 */
/* Functions of modules that are refused by their names, where many are asked about. */
#ifndef JIFL_HOST_REFUSE_MODULE_H
#define JIFL_HOST_REFUSE_MODULE_H

#include <linux/types.h>

#include "function.h"

/*
 * Between these two many functions may be asked about, and a table of one module may be kept. The
 * module cannot go meanwhile. Process context; both sleep.
 */
void jifl_refuse_in_modules_begin(void);
void jifl_refuse_in_modules_end(void);
/*
 * Is known from a table what is to be said of the function? Then *why is that: JIFL_REFUSED_UNKNOWN
 * if none begins there. Process context; sleeps.
 */
bool jifl_refuse_in_module(unsigned long begin, enum jifl_refusal *why);

#endif
