/* SPDX-License-Identifier: GPL-2.0 */
/* Control flow at its extremes, in all ways of inserting, in caches of all sizes. */
#ifndef JIFL_FUZZ_SHAPES_H
#define JIFL_FUZZ_SHAPES_H

/* Returns how many failed. */
int shapes_run(void);

#endif
