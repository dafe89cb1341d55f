/* SPDX-License-Identifier: GPL-2.0 */
/* What holds of the code cache whenever nobody is in the engine. */
#ifndef JIFL_UNIT_INVARIANTS_H
#define JIFL_UNIT_INVARIANTS_H

/* Checks all of it; `when` goes into the messages. */
void check_cache(const char *when);

#endif
