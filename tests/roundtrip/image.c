// SPDX-License-Identifier: GPL-2.0
/* See image.h: ELF, exports, thunks, relocations. */
#define _GNU_SOURCE
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "image.h"

/* Where symbols of other modules are put: within reach, and no text. */
#define ELSEWHERE 0xffffffffb8000000ull

/* struct kernel_symbol, with relative references */
struct export {
	s32 value, name, space;
};

static void die(const char *path, const char *what)
{
	fprintf(stderr, "%s: %s\n", path, what);
	exit(2);
}

static void read_stream(struct image *image, FILE *f)
{
	u64 room = 1 << 20;
	size_t n;

	image->file = malloc(room);
	while ((n = fread(image->file + image->file_size, 1, room - image->file_size, f))) {
		image->file_size += n;
		if (image->file_size == room)
			image->file = realloc(image->file, room *= 2);
	}
}

static void read_file(struct image *image, const char *path)
{
	bool packed = strlen(path) > 3 && !strcmp(path + strlen(path) - 3, ".xz");
	char *command = NULL;
	FILE *f;

	if (packed && asprintf(&command, "xz -dc '%s'", path) < 0)
		die(path, "no memory");
	f = packed ? popen(command, "r") : fopen(path, "r");
	if (!f)
		die(path, "cannot be opened");
	read_stream(image, f);
	if ((packed ? pclose(f) : fclose(f)) || image->file_size < sizeof(Elf64_Ehdr) ||
	    memcmp(image->file, ELFMAG, SELFMAG))
		die(path, "cannot be read as ELF");
	free(command);
}

static const Elf64_Ehdr *header(const struct image *image)
{
	return (const void *)image->file;
}

static Elf64_Shdr *section_header(const struct image *image, u32 i)
{
	return (Elf64_Shdr *)(image->file + header(image)->e_shoff) + i;
}

static const char *section_name(const struct image *image, u32 i)
{
	return (const char *)image->file +
	       section_header(image, header(image)->e_shstrndx)->sh_offset +
	       section_header(image, i)->sh_name;
}

static void add_sections(struct image *image)
{
	u32 i, n = header(image)->e_shnum;
	struct image_section *s;

	image->sections = calloc(n, sizeof(*image->sections));
	for (i = 0; i < n; i++) {
		const Elf64_Shdr *h = section_header(image, i);

		s = &image->sections[image->nsections];
		if (!(h->sh_flags & SHF_ALLOC) || !h->sh_addr)
			continue;
		s->addr = h->sh_addr;
		s->size = h->sh_size;
		s->text = h->sh_flags & SHF_EXECINSTR;
		s->bytes = h->sh_type == SHT_NOBITS ? NULL : image->file + h->sh_offset;
		image->nsections++;
		if (!strcmp(section_name(image, i), ".orc_unwind_ip")) {
			image->orc = (const void *)s->bytes;
			image->orc_addr = s->addr;
			image->norc = s->size / 4;
		}
	}
}

static const u8 *bytes_at(const struct image *image, u64 addr, bool text, u64 *left)
{
	u32 i;

	for (i = 0; i < image->nsections; i++) {
		const struct image_section *s = &image->sections[i];

		if (addr - s->addr >= s->size || !s->bytes || (text && !s->text))
			continue;
		*left = s->size - (addr - s->addr);
		return s->bytes + (addr - s->addr);
	}
	return NULL;
}

const u8 *image_text(const struct image *image, u64 addr, u64 *left)
{
	return bytes_at(image, addr, true, left);
}

const struct image_thunk *image_thunk_at(const struct image *image, u64 addr)
{
	u32 i;

	for (i = 0; i < image->nthunks; i++)
		if (image->thunks[i].addr == addr)
			return &image->thunks[i];
	return NULL;
}

/* --- what is patched at load --------------------------------------------------------------- */

static void add_site(struct image *image, u64 addr, u8 len)
{
	image->sites = realloc(image->sites, (image->nsites + 1) * sizeof(*image->sites));
	image->sites[image->nsites++] = (struct image_site){ .addr = addr, .len = len };
}

/*
 * struct alt_instr: the site relative to itself first, the lengths of both sides
 * last; 12 bytes, 14 since the feature's number is 32 bits wide.
 */
static bool fits_alternatives(const struct image *image, const Elf64_Shdr *h, u32 size)
{
	u64 i, left;
	s32 site;

	for (i = 0; i + size <= h->sh_size; i += size) {
		memcpy(&site, image->file + h->sh_offset + i, 4);
		if (!image_text(image, h->sh_addr + i + (s64)site, &left))
			return false;
	}
	return i == h->sh_size;
}

static void add_alternatives(struct image *image, const Elf64_Shdr *h)
{
	u32 size = fits_alternatives(image, h, 12) ? 12 : 14;
	const u8 *entry;
	s32 site;
	u64 i;

	if (!fits_alternatives(image, h, size))
		die("image", "its alternatives are not understood");
	for (i = 0; i < h->sh_size; i += size) {
		entry = image->file + h->sh_offset + i;
		memcpy(&site, entry, 4);
		add_site(image, h->sh_addr + i + (s64)site, entry[size - 2]);
	}
}

/* struct paravirt_patch_site: the address, 8 bytes; type and length, one each */
static void add_paravirt(struct image *image, const Elf64_Shdr *h)
{
	const u8 *entry;
	u64 i, addr;

	for (i = 0; i < h->sh_size; i += 16) {
		entry = image->file + h->sh_offset + i;
		memcpy(&addr, entry, 8);
		add_site(image, addr, entry[9]);
	}
}

static int compare_sites(const void *a, const void *b)
{
	const struct image_site *x = a, *y = b;

	return x->addr < y->addr ? -1 : x->addr > y->addr;
}

static void add_sites(struct image *image)
{
	u32 i;

	for (i = 0; i < header(image)->e_shnum; i++) {
		if (!strcmp(section_name(image, i), ".altinstructions"))
			add_alternatives(image, section_header(image, i));
		else if (!strcmp(section_name(image, i), ".parainstructions"))
			add_paravirt(image, section_header(image, i));
	}
	qsort(image->sites, image->nsites, sizeof(*image->sites), compare_sites);
}

bool image_is_patched(const struct image *image, u64 addr)
{
	u32 lo = 0, hi = image->nsites, mid;

	while (lo < hi) {
		mid = lo + (hi - lo) / 2;
		if (image->sites[mid].addr <= addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	/* Sites may begin at the same place, nested ones have the shorter second. */
	for (; lo-- && addr - image->sites[lo].addr < 64;)
		if (addr - image->sites[lo].addr < image->sites[lo].len)
			return true;
	return false;
}

/* --- exports of a kernel ------------------------------------------------------------- */

/* Calls fn(name, address, arg) for each exported symbol until it returns true. */
static bool each_export(const struct image *image,
			bool (*fn)(const char *name, u64 addr, void *arg), void *arg)
{
	u32 i, n = header(image)->e_shnum;

	for (i = 0; i < n; i++) {
		const Elf64_Shdr *h = section_header(image, i);
		u64 at = h->sh_addr, left;

		if (strcmp(section_name(image, i), "__ksymtab") &&
		    strcmp(section_name(image, i), "__ksymtab_gpl"))
			continue;
		for (; at < h->sh_addr + h->sh_size; at += sizeof(struct export)) {
			const struct export *e = (const void *)bytes_at(image, at, false, &left);
			const u8 *name = bytes_at(image, at + 4 + (s64)e->name, false, &left);

			if (name && fn((const char *)name, at + (s64)e->value, arg))
				return true;
		}
	}
	return false;
}

static const char *const registers[16] = {
	"rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi",
	"r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15",
};

static void add_thunk(struct image *image, u64 addr, u8 reg)
{
	image->thunks[image->nthunks++] = (struct image_thunk){ .addr = addr, .reg = reg };
	if (!image->thunks_start || addr < image->thunks_start)
		image->thunks_start = addr;
	if (addr + 32 > image->thunks_end)
		image->thunks_end = addr + 32;
}

static bool note_thunk(const char *name, u64 addr, void *arg)
{
	static const char prefix[] = "__x86_indirect_thunk_";
	u8 r;

	if (!strcmp(name, "__x86_return_thunk"))
		add_thunk(arg, addr, IMAGE_RETURN);
	if (strncmp(name, prefix, sizeof(prefix) - 1))
		return false;
	for (r = 0; r < 16; r++)
		if (!strcmp(name + sizeof(prefix) - 1, registers[r]))
			add_thunk(arg, addr, r);
	return false;
}

struct wanted {
	const char *name;
	u64 addr;
};

static bool is_wanted(const char *name, u64 addr, void *arg)
{
	struct wanted *w = arg;

	if (strcmp(name, w->name))
		return false;
	w->addr = addr;
	return true;
}

/* --- modules --------------------------------------------------------------------------- */

static u64 elsewhere(const char *name)
{
	u32 h = 2166136261u;

	while (*name)
		h = (h ^ (u8)*name++) * 16777619;
	return ELSEWHERE + (h & 0x3fffff0);
}

static u64 external(const struct image *kernel, const char *name)
{
	/* The hundreds of names of a module repeat over thousands of modules. */
	static struct { char name[64]; u64 addr; } memory[16384];
	u32 slot = (elsewhere(name) >> 4) % JIFL_ARRAY_LEN(memory);
	struct wanted w = { .name = name, .addr = elsewhere(name) };

	if (!strcmp(memory[slot].name, name))
		return memory[slot].addr;
	each_export(kernel, is_wanted, &w);
	if (strlen(name) < sizeof(memory[slot].name)) {
		strcpy(memory[slot].name, name);
		memory[slot].addr = w.addr;
	}
	return w.addr;
}

static void lay_out(struct image *image)
{
	u64 at = IMAGE_MODULE_BASE;
	u32 i;

	for (i = 0; i < header(image)->e_shnum; i++) {
		Elf64_Shdr *h = section_header(image, i);

		if (!(h->sh_flags & SHF_ALLOC) || !h->sh_size)
			continue;
		if (h->sh_addralign)
			at = (at + h->sh_addralign - 1) & ~(h->sh_addralign - 1);
		h->sh_addr = at;
		at += h->sh_size;
	}
}

static u64 symbol_address(const struct image *image, const Elf64_Sym *sym, const char *names,
			  const struct image *kernel)
{
	if (sym->st_shndx == SHN_UNDEF)
		return external(kernel, names + sym->st_name);
	if (sym->st_shndx >= SHN_LORESERVE)
		return sym->st_value;
	return section_header(image, sym->st_shndx)->sh_addr + sym->st_value;
}

static void relocate(u8 *field, u32 type, u64 value, u64 place)
{
	u32 v32;

	switch (type) {
	case R_X86_64_NONE:
		return;
	case R_X86_64_64:
		memcpy(field, &value, 8);
		return;
	case R_X86_64_PC32:
	case R_X86_64_PLT32:
		value -= place;
		/* fall through */
	case R_X86_64_32:
	case R_X86_64_32S:
		v32 = (u32)value;
		memcpy(field, &v32, 4);
		return;
	case R_X86_64_PC64:
		value -= place;
		memcpy(field, &value, 8);
		return;
	default:
		fprintf(stderr, "a relocation of type %u\n", type);
		exit(2);
	}
}

static void apply(struct image *image, u32 i, const struct image *kernel)
{
	const Elf64_Shdr *h = section_header(image, i), *to = section_header(image, h->sh_info);
	const Elf64_Shdr *symbols = section_header(image, h->sh_link);
	const Elf64_Sym *sym = (const void *)(image->file + symbols->sh_offset);
	const char *names = (const char *)image->file +
			    section_header(image, symbols->sh_link)->sh_offset;
	const Elf64_Rela *r = (const void *)(image->file + h->sh_offset);
	u64 n = h->sh_size / sizeof(*r);

	if (h->sh_type != SHT_RELA || !(to->sh_flags & SHF_ALLOC))
		return;
	for (; n--; r++)
		relocate(image->file + to->sh_offset + r->r_offset, ELF64_R_TYPE(r->r_info),
			 symbol_address(image, &sym[ELF64_R_SYM(r->r_info)], names, kernel) +
			 (u64)r->r_addend, to->sh_addr + r->r_offset);
}

/* ------------------------------------------------------------------------------------------ */

void image_open(struct image *image, const char *path, const struct image *kernel)
{
	u32 i;

	memset(image, 0, sizeof(*image));
	read_file(image, path);
	if (header(image)->e_type == ET_REL) {
		if (!kernel)
			die(path, "a module needs its kernel first");
		lay_out(image);
		for (i = 0; i < header(image)->e_shnum; i++)
			apply(image, i, kernel);
		add_sections(image);
		add_sites(image);
		return;
	}
	add_sections(image);
	add_sites(image);
	each_export(image, note_thunk, image);
	if (image->nthunks != JIFL_ARRAY_LEN(image->thunks))
		die(path, "its thunks are not found");
}

void image_close(struct image *image)
{
	free(image->file);
	free(image->sections);
	free(image->sites);
}
