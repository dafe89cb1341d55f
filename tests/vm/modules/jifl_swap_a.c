// SPDX-License-Identifier: GPL-2.0
/* One of two; see swap.h. */
#include "swap.h"
