/* SPDX-License-Identifier: GPL-2.0 */
/* What sessions of /dev/jifl do, by their kinds. */
#ifndef JIFL_HOST_TOOLS_H
#define JIFL_HOST_TOOLS_H

#include "../call/tool.h"

extern const struct jifl_tool jifl_tools;

#endif
