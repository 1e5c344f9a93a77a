/*
 * How the file is found. A module names a path by which it could be opened when the list of modules
 * was made; since then the file may have been replaced, or the process (and with it /proc/PID/root)
 * may have gone. What is opened is compared by build id with what was mapped. Where it is not the
 * same, a debug file of the right build id still gives every name.
 *
 * libdwfl gets the real path with our descriptor, so that a debuglink is looked up next to where the
 * file lives ("/usr/lib/x/.debug/"), and the debug folder of the process's root as one more place.
 */
#include "stackwalk/elffile.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stackwalk/module_elf.h"
#include "watchctl/base/cleanup.h"

struct elffile {
	char *path, *open_path;
	uint8_t build_id[BUILD_ID_MAX];
	uint8_t build_id_len;
	bool deleted;
	int fd; /* held from the start for files below /proc, else -1 until opened */
	bool opened, asked_dwarf;
	enum elffile_state state;
	char *debug_path; /* where libdwfl looks; callbacks points to it */
	Dwfl_Callbacks callbacks;
	Dwfl *dwfl;
	Dwfl_Module *mod;
	Dwarf *dwarf;
	Dwarf_Addr dwarf_bias;
};

static bool path_is_below_proc(const char *path)
{
	return strncmp(path, "/proc/", 6) == 0;
}

/* Devices and pipes may do things when they are opened: only regular files are. */
static int open_regular(const char *path)
{
	struct stat st;

	if (stat(path, &st) < 0 || !S_ISREG(st.st_mode))
		return -1;
	return open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
}

struct elffile *elffile_new(const struct module *m)
{
	struct elffile *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->fd = -1;
	f->path = strdup(m->path);
	f->open_path = strdup(m->open_path ? m->open_path : m->path);
	if (!f->path || !f->open_path) {
		elffile_free(f);
		return NULL;
	}
	memcpy(f->build_id, m->build_id, m->build_id_len);
	f->build_id_len = m->build_id_len;
	f->deleted = m->deleted;
	if (path_is_below_proc(f->open_path))
		f->fd = open_regular(f->open_path);
	return f;
}

void elffile_free(struct elffile *f)
{
	if (!f)
		return;
	if (f->dwfl)
		dwfl_end(f->dwfl);
	if (f->fd >= 0)
		close(f->fd);
	free(f->debug_path);
	free(f->path);
	free(f->open_path);
	free(f);
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

static enum elffile_state open_main(struct elffile *f)
{
	struct module_elf head;

	if (f->fd < 0)
		f->fd = strcmp(f->path, "[vdso]") == 0 ? open_vdso() : open_regular(f->open_path);
	if (f->fd < 0 || !module_elf_from_file(f->fd, &head))
		return ELFFILE_MISSING;
	return build_id_matches(f, &head) ? ELFFILE_OK : ELFFILE_STALE;
}

/* "/proc/PID/root" when that is where the file is opened from, else "". */
static int root_prefix_len(const struct elffile *f)
{
	const char *root = path_is_below_proc(f->open_path) ? strstr(f->open_path, "/root/") : NULL;

	return root ? (int)(root - f->open_path) + 5 : 0;
}

/* Opens the debug file that goes by our build id, to stand in for a file that is gone. */
static bool open_debug_only(struct elffile *f)
{
	char id[2 * BUILD_ID_MAX + 1], path[PATH_MAX];
	struct module_elf head;
	int fd;

	if (f->build_id_len < 2)
		return false;
	for (size_t i = 0; i < f->build_id_len; i++)
		snprintf(id + 2 * i, 3, "%02x", f->build_id[i]);
	snprintf(path, sizeof(path), "/usr/lib/debug/.build-id/%.2s/%s.debug", id, id + 2);
	fd = open_regular(path);
	if (fd < 0)
		return false;
	/* Its notes may have no contents here; the name is the proof. */
	if (!module_elf_from_file(fd, &head)) {
		close(fd);
		return false;
	}
	if (f->fd >= 0)
		close(f->fd);
	f->fd = fd;
	return true;
}

static bool report_to_dwfl(struct elffile *f)
{
	int root = root_prefix_len(f), fd;

	if (asprintf(&f->debug_path,
		     root ? ":.debug:/usr/lib/debug:%.*s/usr/lib/debug" : ":.debug:/usr/lib/debug", root,
		     f->open_path) < 0) {
		f->debug_path = NULL;
		return false;
	}
	f->callbacks = (Dwfl_Callbacks){ .find_elf = dwfl_build_id_find_elf,
					 .find_debuginfo = dwfl_standard_find_debuginfo,
					 .debuginfo_path = &f->debug_path };
	f->dwfl = dwfl_begin(&f->callbacks);
	if (!f->dwfl)
		return false;
	fd = fcntl(f->fd, F_DUPFD_CLOEXEC, 3);
	dwfl_report_begin(f->dwfl);
	f->mod = dwfl_report_elf(f->dwfl, f->path, f->path, fd, 0, true);
	if (!f->mod && fd >= 0)
		close(fd);
	dwfl_report_end(f->dwfl, NULL, NULL);
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
	return f->state;
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

Dwarf *elffile_dwarf(struct elffile *f, uint64_t *bias)
{
	Dwfl_Module *mod = elffile_dwfl(f);

	if (mod && !f->asked_dwarf) {
		f->asked_dwarf = true;
		f->dwarf = dwfl_module_getdwarf(mod, &f->dwarf_bias);
	}
	*bias = f->dwarf_bias;
	return f->dwarf;
}
