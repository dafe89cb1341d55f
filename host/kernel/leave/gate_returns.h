/* SPDX-License-Identifier: GPL-2.0 */
/* Tasks that sleep, and would come back to the gate of a jump (text/jump.h). */
#ifndef JIFL_HOST_GATE_RETURNS_H
#define JIFL_HOST_GATE_RETURNS_H

#include "walk.h"

/*
 * Has the task come back to the text, if it would come back to a gate that nobody uses any more.
 * By jifl_evict, with the machine stopped and returns shown.
 */
void jifl_gate_returns_end(struct task_struct *task, struct jifl_words words);

#endif
