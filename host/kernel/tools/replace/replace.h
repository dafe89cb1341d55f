/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The tool replace: calls of a function go to a function of a module.
 *
 *	replace.c	the tool
 *	hold.c		the modules stay while somebody is inside
 */
#ifndef JIFL_HOST_REPLACE_H
#define JIFL_HOST_REPLACE_H

#include <linux/types.h>
#include "../../../../include/uapi/jifl.h"

struct jifl_hold;

/*
 * Takes references to the module of the function at `with`, and to that of the function at
 * `address`. ERR_PTR(-ENOENT): at `with` no function of a live module begins that can be traced, or
 * one of the modules is about to go; ERR_PTR(-ENOMEM). Sleeps.
 */
struct jifl_hold *jifl_hold_take(u64 session, u64 address, u64 with);
/*
 * Gives them back: now, or when the last thread has left the module of `with`. No new thread comes
 * there by the door, and none is on its way there. Sleeps.
 */
void jifl_hold_end(struct jifl_hold *h);
/* Gives them back: no thread was led there. */
void jifl_hold_drop(struct jifl_hold *h);
/*
 * Fills the one with the next greater session number than req->session; -ENOENT: there is none.
 * Sleeps.
 */
int jifl_hold_info(struct jifl_replacement *req);
/* At the end. Nothing is held any more. */
void jifl_hold_exit(void);

#endif
