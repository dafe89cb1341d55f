/* SPDX-License-Identifier: GPL-2.0 */
/* What the other rooms know of plugins; the plugins' own API is include/jifl.h. */
#ifndef JIFL_HOST_PLUGINS_H
#define JIFL_HOST_PLUGINS_H

#include <linux/types.h>

struct ir_block;
struct ir_insert;
struct jifl_plugin_info;
struct jifl_plugin_read;
struct jifl_aim;

int jifl_plugin_init(void);
void jifl_plugin_exit(void);
int jifl_plugin_ctl(const char *name, bool start);
int jifl_plugin_info(unsigned int index, struct jifl_plugin_info *info);
/* JIFL_IOC_PLUGIN_READ. Sleeps. */
int jifl_plugin_read(struct jifl_plugin_read *req);
/* A plugin session's parts of jifl_count_entry and jifl_count_insns. */
void jifl_plugin_entry(struct jifl_aim *aim,
		       struct ir_insert *entry, u32 *nentry,
		       struct ir_insert *exit, u32 *nexit);
void jifl_plugin_instrument(struct ir_block *b, void *arg);
/* The cache has been emptied, and nobody is inside. Under jifl_session_mutex; sleeps. */
void jifl_plugin_flushed(void);

#endif
