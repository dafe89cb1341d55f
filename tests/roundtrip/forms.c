// SPDX-License-Identifier: GPL-2.0
/* See forms.h. A hash table with open addressing. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "forms.h"

static struct form forms[1 << 16];
static u32 nforms;

static u64 mix(u64 h, u64 v)
{
	h = (h ^ v) * 0x9e3779b97f4a7c15ull;
	return h ^ h >> 29;
}

static u64 memory_key(u64 h, const ZydisDecodedOperand *op)
{
	h = mix(h, op->mem.base == ZYDIS_REGISTER_NONE ? 0 :
		op->mem.base == ZYDIS_REGISTER_RIP ? 1 :
		op->mem.base == ZYDIS_REGISTER_RSP ? 2 : 3);
	h = mix(h, op->mem.index != ZYDIS_REGISTER_NONE ? op->mem.scale : 0);
	/* Segments that are those of the base register anyway count as one. */
	return mix(h, op->mem.segment == ZYDIS_REGISTER_GS ? 1 :
		   op->mem.segment == ZYDIS_REGISTER_FS ? 2 : 0);
}

static u64 key_of(const ZydisDecodedInstruction *insn, const ZydisDecodedOperand *ops)
{
	u64 h = mix(insn->mnemonic, (u64)insn->encoding << 16 | (u64)insn->opcode_map << 8 |
		    insn->opcode);
	u32 i;

	h = mix(h, insn->attributes & (ZYDIS_ATTRIB_HAS_LOCK | ZYDIS_ATTRIB_HAS_REP |
				       ZYDIS_ATTRIB_HAS_REPE | ZYDIS_ATTRIB_HAS_REPNE));
	h = mix(h, (u64)insn->operand_width << 16 | insn->address_width);
	h = mix(h, insn->raw.disp.size);
	for (i = 0; i < insn->operand_count_visible; i++) {
		h = mix(h, (u64)ops[i].type << 32 | (u64)ops[i].encoding << 16 | ops[i].size);
		if (ops[i].type == ZYDIS_OPERAND_TYPE_MEMORY)
			h = memory_key(h, &ops[i]);
		else if (ops[i].type == ZYDIS_OPERAND_TYPE_REGISTER)
			h = mix(h, ZydisRegisterGetClass(ops[i].reg.value));
	}
	return h ? h : 1;
}

void form_add(const ZydisDecodedInstruction *insn, const ZydisDecodedOperand *ops,
	      const u8 *bytes)
{
	u64 key = key_of(insn, ops);
	struct form *f = &forms[key % JIFL_ARRAY_LEN(forms)];

	while (f->key && f->key != key)
		f = f + 1 < forms + JIFL_ARRAY_LEN(forms) ? f + 1 : forms;
	f->count++;
	if (f->key)
		return;
	if (++nforms == JIFL_ARRAY_LEN(forms)) {
		fprintf(stderr, "no room for another form\n");
		exit(2);
	}
	f->key = key;
	f->len = insn->length;
	memcpy(f->bytes, bytes, insn->length);
}

u32 form_total(void)
{
	return nforms;
}

void form_write(const char *path)
{
	FILE *f = fopen(path, "w");
	u32 i;

	if (!f) {
		perror(path);
		exit(2);
	}
	for (i = 0; i < JIFL_ARRAY_LEN(forms); i++)
		if (forms[i].key)
			fwrite(&forms[i], sizeof(forms[i]), 1, f);
	if (fclose(f)) {
		perror(path);
		exit(2);
	}
}
