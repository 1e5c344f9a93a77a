#include "watchctl/cli/output/log_operand.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/code/elf/core_file.h"
#include "watchctl/trace/core/core_log.h"

struct made_log {
	struct made_log *next;
	const char *core;   /* as the user names it */
	char *folder, *log; /* the second one in the first */
};

/* For what ends the process. Entries are never taken out of it. */
static struct made_log *_Atomic made;
static pid_t maker; /* children have a copy of it, and no business there */

/* As the kernel has it. */
struct entry {
	uint64_t inode, offset;
	uint16_t len;
	uint8_t type;
	char name[];
};

/* System calls alone: a signal may have interrupted anything. */
static void empty_folder(const char *folder)
{
	_Alignas(struct entry) char buf[4096];
	const int dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	long n;

	if (dir < 0)
		return;
	while ((n = syscall(SYS_getdents64, dir, buf, sizeof(buf))) > 0) {
		for (long at = 0; at < n;) {
			const struct entry *e = (const struct entry *)(buf + at);

			unlinkat(dir, e->name, 0); /* "." and "..": it cannot */
			at += e->len;
		}
	}
	close(dir);
}

static void remove_all(void)
{
	if (getpid() != maker)
		return;
	for (const struct made_log *m = made; m; m = m->next) {
		empty_folder(m->log);
		rmdir(m->log);
		rmdir(m->folder);
	}
}

static void remove_and_die(int sig)
{
	remove_all();
	signal(sig, SIG_DFL);
	raise(sig);
}

/* Leaves signals alone that are handled already, or that we were started to ignore. */
static void remove_at_end(void)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
	const struct sigaction ours = { .sa_handler = remove_and_die };
	struct sigaction old;

	maker = getpid();
	atexit(remove_all);
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		if (!sigaction(signals[i], NULL, &old) && old.sa_handler == SIG_DFL)
			sigaction(signals[i], &ours, NULL);
}

static void made_log_freep(struct made_log **m)
{
	if (!*m)
		return;
	free((*m)->folder);
	free((*m)->log);
	free(*m);
}

/* A folder, and the name of a log in it, that of the core. */
static struct wc_error *make_folder(const char *core, struct made_log *ret)
{
	const char *tmp = getenv("TMPDIR"), *slash = strrchr(core, '/');

	tmp = tmp && *tmp ? tmp : "/tmp";
	if (asprintf(&ret->folder, "%s/watchctl-core-XXXXXX", tmp) < 0) {
		ret->folder = NULL;
		return &wc_enomem;
	}
	if (!mkdtemp(ret->folder))
		return wc_error_errno(WC_ELOG, errno,
				      "cannot make a folder in %s for the calls of the core (set TMPDIR)",
				      tmp);
	if (asprintf(&ret->log, "%s/%s", ret->folder, slash ? slash + 1 : core) < 0) {
		ret->log = NULL;
		rmdir(ret->folder);
		return &wc_enomem;
	}
	ret->core = core;
	return NULL;
}

struct wc_error *log_operand_open(const char **log)
{
	scoped(made_log_freep) struct made_log *m = NULL;
	const char *core = *log;
	struct wc_error *err;

	if (!core_file_is(core))
		return NULL;
	m = calloc(1, sizeof(*m));
	if (!m)
		return &wc_enomem;
	err = make_folder(core, m);
	if (err)
		return err;
	if (!made)
		remove_at_end();
	m->next = made;
	made = m;
	*log = m->log;
	m = NULL;
	return core_log_write(core, *log);
}

const char *log_operand_name(const char *log)
{
	for (const struct made_log *m = made; m; m = m->next)
		if (m->log == log)
			return m->core;
	return log;
}
