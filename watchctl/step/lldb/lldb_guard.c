/*
 * Shared with the guard is one book of breakpoints, in anonymous memory: as many entries as there can be,
 * most of which are never touched. An entry is in use while its address is not 0; entries are used again.
 *
 * Order, for a death between any two steps: an entry is written before the breakpoint is set, and cleared
 * after it is gone; a byte is put back only where int3 stands.
 */
#include "watchctl/step/lldb/lldb_guard.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "watchctl/base/map64.h"
#include "watchctl/target/proc/proc.h"
#include "watchctl/target/stop/helper_process.h"

#define BOOK_MAX (1u << 20)
#define INT3 0xccu
#define SETTLE_MS 200 /* for LLDB's server to see what its threads have met */
#define LET_GO_MS 3000

struct book_entry {
	uint64_t address; /* 0: free */
	uint8_t original;
};

struct book {
	uint32_t n;    /* entries that were ever in use */
	uint32_t done; /* the program was let go of by its owner */
	struct book_entry entry[BOOK_MAX];
};

struct lldb_guard {
	struct book *book;
	struct map64 place; /* address -> its entry, also if it is not in use at the moment */
	pid_t guard;
	int life; /* our end of the pipe that closes when we die */
};

/* The guard */

static void put_back(const struct book *b, pid_t pid)
{
	uint32_t i;

	for (i = 0; i < b->n && i < BOOK_MAX; i++) {
		const struct book_entry *e = &b->entry[i];
		const struct memory_view mem = proc_memory(&pid);
		uint8_t now = 0;

		if (e->address && memory_read(&mem, e->address, &now, 1) && now == INT3 &&
		    e->original != INT3)
			proc_write_force(pid, e->address, &e->original, 1);
	}
}

/* Everything of the owner's is closed, but what LLDB and its server talk by. */
static void keep_only(const struct lldb_sockets *connection, int life)
{
	int null = open("/dev/null", O_RDWR), fd;

	for (fd = 0; null >= 0 && fd < 3; fd++)
		dup2(null, fd);
	for (fd = 3; fd < LLDB_GUARD_FDS; fd++)
		if (fd != life && !connection->is[fd])
			close(fd);
	close_range(LLDB_GUARD_FDS, ~0u, 0);
	if (chdir("/"))
		return; /* then a file system stays busy while we live */
}

/* LLDB's words to its server (GDB's remote protocol). Where it is gone already, there is nobody to inform.
 */
static void report_server(const struct lldb_sockets *connection, const char *words)
{
	int fd;

	for (fd = 3; fd < LLDB_GUARD_FDS; fd++)
		if (connection->is[fd] && send(fd, words, strlen(words), MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
			continue;
}

static void nap(long ms)
{
	nanosleep(&(struct timespec){ .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 }, NULL);
}

static bool is_traced(pid_t pid)
{
	struct proc_status status;

	return proc_status_read(pid, pid, &status) && status.tracer;
}

/*
 * A thread that has met a breakpoint stands with a SIGTRAP that it would get if its tracer died: LLDB's
 * server has to let go in order. It can do so with threads that stand still.
 */
static void let_go(const struct book *b, const struct lldb_sockets *connection, pid_t pid)
{
	int ms;

	put_back(b, pid);
	report_server(connection, "\x03");
	nap(SETTLE_MS);
	put_back(b, pid); /* the owner's last words may have come in between */
	report_server(connection, "$D#44");
	for (ms = 0; ms < LET_GO_MS && is_traced(pid); ms += 10)
		nap(10);
	put_back(b, pid);
	close_range(3, ~0u, 0);
}

static void run_guard(const struct book *b, const struct lldb_sockets *connection, pid_t pid, int life)
{
	struct pollfd p = { .fd = life };

	setsid();
	helper_ignore_signals();
	helper_rename("lldb-guard", "lldb-guard");
	keep_only(connection, life);
	while (poll(&p, 1, -1) < 0 && errno == EINTR)
		;
	if (!__atomic_load_n(&b->done, __ATOMIC_ACQUIRE))
		let_go(b, connection, pid);
	_exit(0);
}

/* The owner's side */

static struct book *new_book(void)
{
	int flags = MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE;
	/* cppcheck-suppress invalidFunctionArg ; there is no file behind it */
	void *m = mmap(NULL, sizeof(struct book), PROT_READ | PROT_WRITE, flags, -1, 0);

	return m == MAP_FAILED ? NULL : m;
}

static bool lldb_guard_start(struct lldb_guard *g, const struct lldb_sockets *connection, pid_t pid)
{
	sigset_t all, old;
	int life[2];

	if (pipe2(life, O_CLOEXEC))
		return false;
	/* Of the owner's signal handlers none shall run in it. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	g->guard = fork();
	if (!g->guard) {
		close(life[1]);
		run_guard(g->book, connection, pid, life[0]);
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	close(life[0]);
	g->life = life[1];
	if (g->guard > 0)
		return true;
	close(g->life);
	return false;
}

void lldb_sockets_look(struct lldb_sockets *ret)
{
	struct stat s;
	int fd;

	for (fd = 0; fd < LLDB_GUARD_FDS; fd++)
		ret->is[fd] = !fstat(fd, &s) && S_ISSOCK(s.st_mode);
}

struct lldb_guard *lldb_guard_new(pid_t pid, const struct lldb_sockets *before)
{
	struct lldb_guard *g = calloc(1, sizeof(*g));
	struct lldb_sockets connection;
	int fd;

	if (!g)
		return NULL;
	lldb_sockets_look(&connection);
	for (fd = 0; fd < LLDB_GUARD_FDS; fd++)
		connection.is[fd] &= !before->is[fd];
	g->book = new_book();
	if (g->book && lldb_guard_start(g, &connection, pid))
		return g;
	if (g->book)
		munmap(g->book, sizeof(*g->book));
	free(g);
	return NULL;
}

static struct book_entry *find_entry(struct lldb_guard *g, uint64_t address)
{
	struct book_entry *e = map64_get(&g->place, address);

	if (e || g->book->n >= BOOK_MAX)
		return e;
	e = &g->book->entry[g->book->n];
	if (!map64_put(&g->place, address, e))
		return NULL;
	__atomic_store_n(&g->book->n, g->book->n + 1, __ATOMIC_RELEASE);
	return e;
}

bool lldb_guard_add(struct lldb_guard *g, uint64_t address, uint8_t original)
{
	struct book_entry *e = find_entry(g, address);

	if (!e)
		return false;
	e->original = original;
	__atomic_store_n(&e->address, address, __ATOMIC_RELEASE);
	return true;
}

void lldb_guard_remove(struct lldb_guard *g, uint64_t address)
{
	struct book_entry *e = map64_get(&g->place, address);

	if (e)
		__atomic_store_n(&e->address, 0, __ATOMIC_RELEASE);
}

void lldb_guard_free(struct lldb_guard *g)
{
	if (!g)
		return;
	__atomic_store_n(&g->book->done, 1, __ATOMIC_RELEASE);
	close(g->life);
	while (waitpid(g->guard, NULL, 0) < 0 && errno == EINTR)
		;
	munmap(g->book, sizeof(*g->book));
	map64_deinit(&g->place);
	free(g);
}
