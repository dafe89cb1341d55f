/* SPDX-License-Identifier: GPL-2.0 */
/* Plugins, for the other folders of the host. The plugins' own API is include/jifl.h. */
#ifndef JIFL_HOST_PLUGINS_H
#define JIFL_HOST_PLUGINS_H

#include <linux/types.h>

struct jifl_plugin_info;
struct jifl_plugin_read;

int jifl_plugin_init(void);
void jifl_plugin_exit(void);
int jifl_plugin_ctl(const char *name, bool start);
int jifl_plugin_info(unsigned int index, struct jifl_plugin_info *info);
/* JIFL_IOC_PLUGIN_READ. Sleeps. */
int jifl_plugin_read(struct jifl_plugin_read *req);

#endif
