#include "watchctl/code/elf/core_file.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/procfs.h>
#include <sys/stat.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/vec.h"

#define PAGE 4096u
#define PHDRS_MAX (1u << 22)
#define NOTES_MAX (1u << 30)
#define MODULE_PHDRS_MAX 64u
#define SIGINFO_SIGNAL 0 /* offset of si_signo */

struct core_segment {
	uint64_t address, len; /* what is in the file */
	uint64_t offset;
	bool is_writable;
};

/* A part of a file that was mapped. */
struct core_mapping {
	uint64_t start, end, offset;
	const char *path; /* in the notes */
};

struct file_of_module {
	struct core_module module;
	int fd; /* -1: not to be read */
};

struct core_file {
	int fd;
	char *path;
	uint64_t size;
	bool is_cut;
	struct core_segment *segment;
	size_t nsegments, segment_cap;
	uint8_t *notes;
	size_t notes_len, notes_cap;
	struct core_mapping *mapping;
	size_t nmappings, mapping_cap;
	struct file_of_module **module;
	size_t nmodules, module_cap;
	struct core_process process;
	uint64_t phdrs; /* address of the executable's; 0: not known */
};

static bool read_at(int fd, uint64_t offset, void *buf, size_t len)
{
	while (len) {
		const ssize_t n = offset <= INT64_MAX ? pread(fd, buf, len, (off_t)offset) : 0;

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		buf = (char *)buf + n;
		offset += (uint64_t)n;
		len -= (size_t)n;
	}
	return true;
}

/* O_NONBLOCK: a fifo of that name must not hold us up. -1: no regular file, or it cannot be read. */
static int open_regular(const char *path, uint64_t *size)
{
	scoped(closep) int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return -1;
	*size = (uint64_t)st.st_size;
	return take_fd(fd);
}

static bool is_elf(const Elf64_Ehdr *e)
{
	return !memcmp(e->e_ident, ELFMAG, SELFMAG);
}

static bool is_ours(const Elf64_Ehdr *e)
{
	return is_elf(e) && e->e_ident[EI_CLASS] == ELFCLASS64 && e->e_ident[EI_DATA] == ELFDATA2LSB &&
	       e->e_machine == EM_X86_64;
}

bool core_file_is(const char *path)
{
	uint64_t size;
	scoped(closep) int fd = open_regular(path, &size);
	Elf64_Ehdr e = { 0 };

	/* The type lies at the same place in each class of ELF files. */
	if (fd < 0 || !read_at(fd, 0, &e, offsetof(Elf64_Ehdr, e_machine)) || !is_elf(&e))
		return false;
	return e.e_ident[EI_DATA] == ELFDATA2MSB ? e.e_type == (ET_CORE << 8) : e.e_type == ET_CORE;
}

/* Notes */

struct note {
	uint32_t type;
	const char *name; /* of name_len bytes */
	uint32_t name_len;
	const uint8_t *desc;
	uint32_t len;
};

/* The next of the notes in [@buf, @buf + @len), from *@at on. False: there are no more. */
static bool note_next(const uint8_t *buf, size_t len, size_t *at, struct note *ret)
{
	Elf64_Nhdr n;
	uint64_t name, desc, end;

	if (*at > len || len - *at < sizeof(n))
		return false;
	memcpy(&n, buf + *at, sizeof(n));
	name = *at + sizeof(n);
	desc = name + ((n.n_namesz + 3ull) & ~3ull);
	end = desc + n.n_descsz;
	if (desc > len || end > len)
		return false;
	*ret = (struct note){ n.n_type, (const char *)buf + name, n.n_namesz, buf + desc, n.n_descsz };
	*at = (end + 3) & ~3ull;
	return true;
}

static bool note_is(const struct note *n, const char *name, uint32_t type)
{
	const size_t len = strlen(name);

	return n->type == type && n->name_len >= len && n->name_len <= len + 1 && !memcmp(n->name, name, len);
}

static uint8_t find_build_id(const uint8_t *notes, size_t len, uint8_t *ret)
{
	struct note n;

	for (size_t at = 0; note_next(notes, len, &at, &n);) {
		if (!note_is(&n, "GNU", NT_GNU_BUILD_ID) || n.len > BUILD_ID_MAX)
			continue;
		memcpy(ret, n.desc, n.len);
		return (uint8_t)n.len;
	}
	return 0;
}

static void take_status(struct core_file *c, const struct note *n)
{
	struct elf_prstatus s;

	if (n->len < sizeof(s) || c->process.tid)
		return;
	memcpy(&s, n->desc, sizeof(s));
	c->process.tid = s.pr_pid;
	if (!c->process.signal)
		c->process.signal = s.pr_cursig;
}

static void take_info(struct core_file *c, const struct note *n)
{
	struct elf_prpsinfo p;

	if (n->len < sizeof(p))
		return;
	memcpy(&p, n->desc, sizeof(p));
	c->process.pid = p.pr_pid;
	memcpy(c->process.comm, p.pr_fname, sizeof(p.pr_fname));
	memcpy(c->process.args, p.pr_psargs, sizeof(p.pr_psargs));
	for (size_t i = strlen(c->process.args); i && c->process.args[i - 1] == ' '; i--)
		c->process.args[i - 1] = '\0';
}

static void take_auxv(struct core_file *c, const struct note *n)
{
	Elf64_auxv_t a;

	for (size_t at = 0; n->len - at >= sizeof(a); at += sizeof(a)) {
		memcpy(&a, n->desc + at, sizeof(a));
		if (a.a_type == AT_PHDR)
			c->phdrs = a.a_un.a_val;
	}
}

/* count, size of a page; so often start, end, page of the file; so many names. False: no memory. */
static bool take_mappings(struct core_file *c, const struct note *n)
{
	uint64_t head[2], entry[3];
	const char *name, *end = (const char *)n->desc + n->len;

	if (n->len < sizeof(head))
		return true;
	memcpy(head, n->desc, sizeof(head));
	if (head[0] > (n->len - sizeof(head)) / sizeof(entry))
		return true;
	name = (const char *)n->desc + sizeof(head) + head[0] * sizeof(entry);
	for (uint64_t i = 0; i < head[0]; i++) {
		const size_t len = strnlen(name, (size_t)(end - name));

		if (name + len == end)
			break;
		memcpy(entry, n->desc + sizeof(head) + i * sizeof(entry), sizeof(entry));
		if (entry[0] < entry[1] &&
		    !vec_push(c->mapping, c->nmappings, c->mapping_cap,
			      (struct core_mapping){ entry[0], entry[1], entry[2] * head[1], name }))
			return false;
		name += len + 1;
	}
	return true;
}

static struct wc_error *take_notes(struct core_file *c)
{
	struct note n;

	for (size_t at = 0; note_next(c->notes, c->notes_len, &at, &n);) {
		if (note_is(&n, "CORE", NT_SIGINFO) && n.len >= sizeof(int) && !c->process.signal)
			memcpy(&c->process.signal, n.desc + SIGINFO_SIGNAL, sizeof(int));
		else if (note_is(&n, "CORE", NT_PRSTATUS))
			take_status(c, &n);
		else if (note_is(&n, "CORE", NT_PRPSINFO))
			take_info(c, &n);
		else if (note_is(&n, "CORE", NT_AUXV))
			take_auxv(c, &n);
		else if (note_is(&n, "CORE", NT_FILE) && !take_mappings(c, &n))
			return &wc_enomem;
	}
	return NULL;
}

/* Segments */

static struct wc_error *cut_short(const struct core_file *c, const char *what)
{
	return wc_error_new(
		WC_ELOG,
		"the core %s is cut short: it ends before %s (a limit, as of ulimit -c, or a full "
		"disk, may have ended it; let the program leave a whole one)",
		c->path, what);
}

static struct wc_error *take_note_segment(struct core_file *c, const Elf64_Phdr *p)
{
	if (p->p_offset > c->size || p->p_filesz > c->size - p->p_offset)
		return cut_short(c, "its notes do");
	if (p->p_filesz > NOTES_MAX)
		return wc_error_new(WC_ELOG, "the core %s is damaged: its notes are too large", c->path);
	if (!vec_reserve((void **)&c->notes, &c->notes_cap, p->p_filesz + 1, 1))
		return &wc_enomem;
	c->notes_len = p->p_filesz;
	if (!read_at(c->fd, p->p_offset, c->notes, c->notes_len))
		return wc_error_errno(WC_ELOG, errno, "cannot read the core %s", c->path);
	return take_notes(c);
}

static struct wc_error *take_load_segment(struct core_file *c, const Elf64_Phdr *p)
{
	struct core_segment s = { p->p_vaddr, p->p_filesz, p->p_offset, p->p_flags & PF_W };

	if (p->p_offset > c->size || p->p_filesz > c->size - p->p_offset) {
		c->is_cut = true;
		s.len = p->p_offset > c->size ? 0 : c->size - p->p_offset;
	}
	if (!s.len || s.address + s.len < s.address)
		return NULL;
	return vec_push(c->segment, c->nsegments, c->segment_cap, s) ? NULL : &wc_enomem;
}

static struct wc_error *read_head(struct core_file *c, Elf64_Ehdr *e, uint32_t *nphdrs)
{
	Elf64_Shdr first;

	if (!read_at(c->fd, 0, e, sizeof(*e)))
		return cut_short(c, "its head does");
	if (!is_ours(e))
		return wc_error_new(WC_ELOG, "the core %s is not of an x86-64 program", c->path);
	*nphdrs = e->e_phnum;
	if (e->e_phnum == PN_XNUM) {
		if (!read_at(c->fd, e->e_shoff, &first, sizeof(first)))
			return cut_short(c, "the number of its segments");
		*nphdrs = first.sh_info;
	}
	if (e->e_phentsize != sizeof(Elf64_Phdr) || *nphdrs > PHDRS_MAX)
		return wc_error_new(WC_ELOG, "the core %s is damaged: it has no table of segments", c->path);
	return NULL;
}

static struct wc_error *read_segments(struct core_file *c)
{
	struct wc_error *err;
	uint32_t n = 0;
	bool has_notes = false;
	Elf64_Ehdr e;
	Elf64_Phdr p;

	err = read_head(c, &e, &n);
	for (uint32_t i = 0; i < n && !err; i++) {
		if (!read_at(c->fd, e.e_phoff + (uint64_t)i * sizeof(p), &p, sizeof(p)))
			return cut_short(c, "its table of segments does");
		if (p.p_type == PT_LOAD) {
			err = take_load_segment(c, &p);
		} else if (p.p_type == PT_NOTE && !has_notes) {
			has_notes = true;
			err = take_note_segment(c, &p);
		}
	}
	return err;
}

static const struct core_mapping *find_mapping(const struct core_file *c, uint64_t address)
{
	for (size_t i = 0; i < c->nmappings; i++)
		if (address - c->mapping[i].start < c->mapping[i].end - c->mapping[i].start)
			return &c->mapping[i];
	return NULL;
}

struct wc_error *core_file_open(const char *path, struct core_file **ret)
{
	scoped(core_file_closep) struct core_file *c = calloc(1, sizeof(*c));
	const struct core_mapping *exe;
	struct wc_error *err;

	if (!c)
		return &wc_enomem;
	c->fd = open_regular(path, &c->size);
	if (c->fd < 0)
		return wc_error_errno(WC_ELOG, errno, "cannot read the core %s", path);
	c->path = strdup(path);
	err = c->path ? read_segments(c) : &wc_enomem;
	if (err)
		return err;
	exe = find_mapping(c, c->phdrs);
	if (exe)
		snprintf(c->process.exe, sizeof(c->process.exe), "%s", exe->path);
	*ret = take_ptr(c);
	return NULL;
}

void core_file_close(struct core_file *c)
{
	if (!c)
		return;
	for (size_t i = 0; i < c->nmodules; i++) {
		closep(&c->module[i]->fd);
		free(c->module[i]);
	}
	closep(&c->fd);
	free(c->module);
	free(c->mapping);
	free(c->notes);
	free(c->segment);
	free(c->path);
	free(c);
}

void core_file_closep(struct core_file **c)
{
	core_file_close(*c);
}

const struct core_process *core_file_process(const struct core_file *c)
{
	return &c->process;
}

bool core_file_is_cut(const struct core_file *c)
{
	return c->is_cut;
}

size_t core_file_segments(const struct core_file *c)
{
	return c->nsegments;
}

bool core_file_writable(const struct core_file *c, size_t segment, uint64_t *address, uint64_t *len)
{
	*address = c->segment[segment].address;
	*len = c->segment[segment].len;
	return c->segment[segment].is_writable;
}

bool core_file_is_of_file(const struct core_file *c, uint64_t address)
{
	return find_mapping(c, address);
}

static const struct core_segment *find_segment(const struct core_file *c, uint64_t address)
{
	for (size_t i = 0; i < c->nsegments; i++)
		if (address - c->segment[i].address < c->segment[i].len)
			return &c->segment[i];
	return NULL;
}

/* Goes on in the next segment where one ends. */
bool core_file_read(const struct core_file *c, uint64_t address, void *buf, size_t len)
{
	while (len) {
		const struct core_segment *s = find_segment(c, address);
		uint64_t within, n;

		if (!s)
			return false;
		within = address - s->address;
		n = s->len - within < len ? s->len - within : len;
		if (!read_at(c->fd, s->offset + within, buf, n))
			return false;
		buf = (char *)buf + n;
		address += n;
		len -= n;
	}
	return true;
}

/* Modules */

/* The notes that @page, the first of a module, says are in it. */
static uint8_t build_id_in_page(const uint8_t page[PAGE], uint8_t *ret)
{
	Elf64_Ehdr e;
	Elf64_Phdr p;
	uint8_t len = 0;

	memcpy(&e, page, sizeof(e));
	if (!is_ours(&e) || e.e_phentsize != sizeof(p))
		return 0;
	for (unsigned int i = 0; i < e.e_phnum && i < MODULE_PHDRS_MAX && !len; i++) {
		if (e.e_phoff > PAGE - sizeof(p) * (i + 1))
			break;
		memcpy(&p, page + e.e_phoff + i * sizeof(p), sizeof(p));
		if (p.p_type == PT_NOTE && p.p_offset < PAGE && p.p_filesz <= PAGE - p.p_offset)
			len = find_build_id(page + p.p_offset, p.p_filesz, ret);
	}
	return len;
}

static uint64_t bias_of(const uint8_t page[PAGE], uint64_t start)
{
	Elf64_Ehdr e;
	Elf64_Phdr p;

	memcpy(&e, page, sizeof(e));
	for (unsigned int i = 0; is_ours(&e) && i < e.e_phnum && i < MODULE_PHDRS_MAX; i++) {
		if (e.e_phoff > PAGE - sizeof(p) * (i + 1))
			break;
		memcpy(&p, page + e.e_phoff + i * sizeof(p), sizeof(p));
		if (p.p_type == PT_LOAD && p.p_offset < PAGE)
			return start - (p.p_vaddr & ~(uint64_t)(PAGE - 1));
	}
	return start;
}

static void compare_module(const struct core_file *c, struct file_of_module *f)
{
	_Alignas(Elf64_Ehdr) uint8_t then[PAGE] = { 0 }, now[PAGE] = { 0 };
	const bool had = core_file_read(c, f->module.start, then, PAGE);
	const bool has = f->fd >= 0 && read_at(f->fd, 0, now, PAGE) && is_ours((const Elf64_Ehdr *)now);
	uint8_t id[BUILD_ID_MAX];
	uint8_t len;

	f->module.bias = bias_of(had ? then : now, f->module.start);
	f->module.build_id_len = build_id_in_page(had ? then : now, f->module.build_id);
	if (!has) {
		f->module.state = CORE_MODULE_MISSING;
		return;
	}
	len = build_id_in_page(now, id);
	if (!had)
		f->module.state = CORE_MODULE_UNCHECKED;
	else if (len && len == f->module.build_id_len)
		f->module.state = memcmp(id, f->module.build_id, len) ? CORE_MODULE_OTHER : CORE_MODULE_SAME;
	else
		f->module.state = memcmp(then, now, PAGE) ? CORE_MODULE_OTHER : CORE_MODULE_SAME;
}

/* Where the file of @m begins in memory: the nearest mapping of its first page below it. */
static uint64_t first_page(const struct core_file *c, const struct core_mapping *m)
{
	uint64_t start = 0;

	for (size_t i = 0; i < c->nmappings; i++) {
		const struct core_mapping *o = &c->mapping[i];

		if (!o->offset && o->start <= m->start && o->start > start && !strcmp(o->path, m->path))
			start = o->start;
	}
	return start ? start : m->start - m->offset;
}

static struct file_of_module *find_module(struct core_file *c, const struct core_mapping *m)
{
	const uint64_t start = first_page(c, m);
	struct file_of_module *f;
	uint64_t size;

	for (size_t i = 0; i < c->nmodules; i++)
		if (c->module[i]->module.start == start)
			return c->module[i];
	f = calloc(1, sizeof(*f));
	if (!f || !vec_push(c->module, c->nmodules, c->module_cap, f)) {
		free(f);
		return NULL;
	}
	f->module.path = m->path;
	f->module.start = start;
	f->fd = open_regular(m->path, &size);
	compare_module(c, f);
	if (f->module.state == CORE_MODULE_OTHER || f->module.state == CORE_MODULE_MISSING) {
		closep(&f->fd);
		f->fd = -1;
	}
	return f;
}

const struct core_module *core_file_module(struct core_file *c, uint64_t address)
{
	const struct core_mapping *m = find_mapping(c, address);
	struct file_of_module *f = m ? find_module(c, m) : NULL;

	return f ? &f->module : NULL;
}

bool core_file_read_constant(struct core_file *c, uint64_t address, void *buf, size_t len)
{
	const struct core_mapping *m;
	struct file_of_module *f;

	if (core_file_read(c, address, buf, len))
		return true;
	m = find_mapping(c, address);
	if (!m || len > m->end - address)
		return false;
	f = find_module(c, m);
	return f && f->fd >= 0 && read_at(f->fd, m->offset + (address - m->start), buf, len);
}

bool core_file_read_string(struct core_file *c, uint64_t address, char *buf, size_t cap)
{
	size_t have = 0, n = 64;

	/* In pieces that do not go beyond a page: what follows it may not be there. */
	for (; have < cap; have += n) {
		n = PAGE - (address + have) % PAGE;
		n = n < 256 ? n : 256;
		n = n < cap - have ? n : cap - have;
		if (!core_file_read_constant(c, address + have, buf + have, n))
			return false;
		if (memchr(buf + have, '\0', n))
			return true;
	}
	return false;
}
