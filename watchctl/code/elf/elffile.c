/*
 * How the file is found. A module names a path by which it could be opened when the list of modules
 * was made; since then the file may have been replaced, or the process (and with it /proc/PID/root)
 * may have gone. What is opened is compared by build id with what was mapped. Where it is not the
 * same, a debug file of the right build id still gives every name.
 *
 * libdwfl gets the real path with our descriptor, and asks back (find_debuginfo) for the separate file when
 * it needs one. dwz's shared file is handed to libdw afterwards: what libdwfl finds by itself is not compared
 * by build id, and another version of it would give wrong names.
 */
#include "watchctl/code/elf/elffile.h"

#include <elfutils/libdwelf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/read_failure.h"
#include "watchctl/code/elf/module_elf.h"

struct elffile {
	char *path, *open_path;
	uint8_t build_id[BUILD_ID_MAX];
	uint8_t build_id_len;
	bool deleted;
	int fd; /* held from the start for files below /proc, else -1 until opened */
	bool opened, asked_dwarf;
	enum elffile_state state;
	int why; /* errno with which it could not be opened or read, or 0 */
	const struct symbol_search *search;
	char *root;	  /* "/proc/PID/root" when that is where the file is opened from, else "" */
	char *debug_path; /* of the separate file, once it was found */
	Dwfl_Callbacks callbacks;
	Dwfl *dwfl;
	Dwfl_Module *mod;
	Dwarf *dwarf;
	Dwarf_Addr dwarf_bias;
	Dwarf *alt; /* dwz's shared file */
	int alt_fd;
};

static bool path_is_below_proc(const char *path)
{
	return strncmp(path, "/proc/", 6) == 0;
}

/* "/proc/PID/root" when that is where the file is opened from, else "". */
static char *root_prefix(const char *open_path)
{
	const char *root = path_is_below_proc(open_path) ? strstr(open_path, "/root/") : NULL;

	return root ? strndup(open_path, (size_t)(root - open_path) + 5) : strdup("");
}

struct elffile *elffile_new_searched(const struct module *m, const struct symbol_search *search)
{
	struct elffile *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->fd = f->alt_fd = -1;
	f->search = search;
	f->path = strdup(m->path);
	f->open_path = symbol_search_module_path(search, m->path);
	if (!f->open_path)
		f->open_path = strdup(m->open_path ? m->open_path : m->path);
	f->root = f->open_path ? root_prefix(f->open_path) : NULL;
	if (!f->path || !f->open_path || !f->root) {
		elffile_free(f);
		return NULL;
	}
	memcpy(f->build_id, m->build_id, m->build_id_len);
	f->build_id_len = m->build_id_len;
	f->deleted = m->deleted;
	if (path_is_below_proc(f->open_path))
		f->fd = symbol_search_open_regular(f->open_path);
	return f;
}

struct elffile *elffile_new(const struct module *m)
{
	return elffile_new_searched(m, NULL);
}

void elffile_free(struct elffile *f)
{
	if (!f)
		return;
	if (f->dwfl)
		dwfl_end(f->dwfl);
	if (f->alt)
		dwarf_end(f->alt);
	if (f->alt_fd >= 0)
		close(f->alt_fd);
	if (f->fd >= 0)
		close(f->fd);
	free(f->root);
	free(f->debug_path);
	free(f->path);
	free(f->open_path);
	free(f);
}

void elffile_abandon(struct elffile *f)
{
	f->opened = f->asked_dwarf = true;
	f->state = ELFFILE_MISSING;
	f->dwfl = NULL;
	f->mod = NULL;
	f->dwarf = f->alt = NULL;
}

bool elffile_is_for(const struct elffile *f, const struct module *m)
{
	if (f->build_id_len != m->build_id_len || memcmp(f->build_id, m->build_id, m->build_id_len) != 0)
		return false;
	return strcmp(f->path, m->path) == 0 &&
	       (m->build_id_len || strcmp(f->open_path, m->open_path ? m->open_path : m->path) == 0);
}

/* The vdso has no file. Every 64-bit process has the kernel's one image of it: take our own. */
static int open_vdso(void)
{
	const void *base = (const void *)getauxval(AT_SYSINFO_EHDR);
	struct module_elf head;
	scoped(closep) int fd = -1;
	uint64_t end = 0;

	if (!base || !module_elf_from_self(base, &head))
		return -1;
	for (size_t i = 0; i < head.nsegments; i++)
		if (head.segment[i].offset + head.segment[i].filesz > end)
			end = head.segment[i].offset + head.segment[i].filesz;
	/* The section headers and symbol table follow the segment, within its last page. */
	end = (end + 4095) & ~(uint64_t)4095;
	fd = memfd_create("vdso", MFD_CLOEXEC);
	if (fd < 0 || write(fd, base, end) != (ssize_t)end)
		return -1;
	return take_fd(fd);
}

static bool build_id_matches(const struct elffile *f, const struct module_elf *head)
{
	/* Without a build id nothing can be compared: a file that was replaced must not be trusted. */
	if (!f->build_id_len)
		return !f->deleted || path_is_below_proc(f->open_path);
	return head->build_id_len == f->build_id_len &&
	       memcmp(head->build_id, f->build_id, f->build_id_len) == 0;
}

bool elffile_hold(struct elffile *f)
{
	if (f->fd < 0 && !f->opened && f->path[0] == '/')
		f->fd = symbol_search_open_regular(f->open_path);
	return f->fd >= 0;
}

bool elffile_is_in_place(const struct elffile *f)
{
	scoped(closep) int fd = f->path[0] == '/' ? symbol_search_open_regular(f->path) : -1;
	struct module_elf head;

	return fd >= 0 && f->build_id_len && module_elf_from_file(fd, &head) && build_id_matches(f, &head);
}

static enum elffile_state open_main(struct elffile *f)
{
	struct module_elf head;

	errno = 0; /* what is no ELF file is no error */
	if (strcmp(f->path, "[vdso]") == 0)
		f->fd = open_vdso();
	else if (f->fd < 0 && f->path[0] == '/') /* "[jit]" is no file, whatever lies in our folder */
		f->fd = symbol_search_open_regular(f->open_path);
	if (f->fd < 0 || !module_elf_from_file(f->fd, &head)) {
		f->why = errno;
		return ELFFILE_MISSING;
	}
	return build_id_matches(f, &head) ? ELFFILE_OK : ELFFILE_STALE;
}

/* Opens the debug file that goes by our build id, to stand in for a file that is gone. */
static bool open_debug_only(struct elffile *f)
{
	scoped(freep) char *path = NULL;
	struct module_elf head;
	scoped(closep) int fd =
		symbol_search_open_build_id(f->search, f->root, f->build_id, f->build_id_len, &path);

	if (fd < 0)
		fd = symbol_search_fetch(f->search, f->build_id, f->build_id_len, &path);
	if (fd < 0 || !module_elf_from_file(fd, &head))
		return false;
	if (f->fd >= 0)
		close(f->fd);
	f->fd = take_fd(fd);
	free(f->debug_path);
	f->debug_path = take_ptr(path);
	return true;
}

/*
 * libdwfl asks for the separate file of a module: @link and @crc are its debuglink. It asks in the same way
 * for dwz's shared file, without a checksum: that is attach_alt()'s.
 */
static int find_debuginfo(Dwfl_Module *mod, void **userdata, const char *name, GElf_Addr base,
			  const char *file, const char *link, GElf_Word crc, char **ret)
{
	struct elffile *f = *userdata;
	struct debuglink l;
	int fd;

	if (!f || f->state == ELFFILE_DEBUG_ONLY || (link && !crc))
		return -1;
	l = (struct debuglink){ f->path, f->open_path, link, crc, f->build_id, f->build_id_len };
	fd = symbol_search_open_build_id(f->search, f->root, f->build_id, f->build_id_len, ret);
	if (fd < 0)
		fd = symbol_search_open_debuglink(f->search, f->root, &l, ret);
	if (fd < 0)
		fd = symbol_search_fetch(f->search, f->build_id, f->build_id_len, ret);
	if (fd >= 0 && !f->debug_path)
		f->debug_path = strdup(*ret);
	return fd;
}

static bool report_to_dwfl(struct elffile *f)
{
	void **userdata;
	int fd;

	f->callbacks =
		(Dwfl_Callbacks){ .find_elf = dwfl_build_id_find_elf, .find_debuginfo = find_debuginfo };
	f->dwfl = dwfl_begin(&f->callbacks);
	if (!f->dwfl)
		return false;
	fd = fcntl(f->fd, F_DUPFD_CLOEXEC, 3);
	dwfl_report_begin(f->dwfl);
	f->mod = dwfl_report_elf(f->dwfl, f->path, f->path, fd, 0, true);
	if (!f->mod && fd >= 0)
		close(fd);
	dwfl_report_end(f->dwfl, NULL, NULL);
	if (f->mod && dwfl_module_info(f->mod, &userdata, NULL, NULL, NULL, NULL, NULL, NULL))
		*userdata = f;
	return f->mod != NULL;
}

enum elffile_state elffile_state(struct elffile *f)
{
	if (f->opened)
		return f->state;
	f->opened = true;
	f->state = open_main(f);
	if (f->state != ELFFILE_OK && open_debug_only(f))
		f->state = ELFFILE_DEBUG_ONLY;
	if ((f->state == ELFFILE_OK || f->state == ELFFILE_DEBUG_ONLY) && !report_to_dwfl(f))
		f->state = ELFFILE_MISSING;
	if (f->state == ELFFILE_MISSING)
		read_failure_note(f->open_path, f->why);
	return f->state;
}

const char *elffile_path(const struct elffile *f)
{
	return f->path;
}

Dwfl_Module *elffile_dwfl(struct elffile *f)
{
	elffile_state(f);
	return f->mod;
}

Elf *elffile_elf(struct elffile *f)
{
	Dwfl_Module *mod = elffile_dwfl(f);
	GElf_Addr bias;

	return mod ? dwfl_module_getelf(mod, &bias) : NULL;
}

/* Much of what dwz found twice is in a file that the packages share. */
static void attach_alt(struct elffile *f)
{
	const char *name, *file = f->debug_path ? f->debug_path : f->open_path;
	scoped(freep) char *path = NULL;
	const void *id;
	ssize_t id_len = dwelf_dwarf_gnu_debugaltlink(f->dwarf, &name, &id);

	if (id_len <= 0)
		return;
	f->alt_fd = symbol_search_open_altlink(f->search, f->root, file, name, id, (size_t)id_len, &path);
	f->alt = f->alt_fd >= 0 ? dwarf_begin(f->alt_fd, DWARF_C_READ) : NULL;
	if (f->alt)
		dwarf_setalt(f->dwarf, f->alt);
}

Dwarf *elffile_dwarf(struct elffile *f, uint64_t *bias)
{
	Dwfl_Module *mod = elffile_dwfl(f);

	if (mod && !f->asked_dwarf) {
		f->asked_dwarf = true;
		f->dwarf = dwfl_module_getdwarf(mod, &f->dwarf_bias);
		if (f->dwarf)
			attach_alt(f);
	}
	*bias = f->dwarf_bias;
	return f->dwarf;
}

const char *elffile_debug_path(struct elffile *f)
{
	return f->debug_path;
}

char *elffile_package(struct elffile *f)
{
	const char *const beside[] = { f->open_path, f->debug_path };

	for (size_t i = 0; i < sizeof(beside) / sizeof(*beside); i++) {
		scoped(freep) char *path = NULL;

		if (beside[i] && asprintf(&path, "%s.dwp", beside[i]) < 0)
			path = NULL;
		if (path && access(path, F_OK) == 0)
			return take_ptr(path);
	}
	return NULL;
}
