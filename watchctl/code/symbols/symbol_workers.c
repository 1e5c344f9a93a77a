/*
 * The jobs are sorted by file and address, so that neighbours share what must be read for them, and cut into
 * slices. Workers are forked and take one slice after the other from a counter in shared memory; what they
 * find comes back through a pipe each:
 *
 *	u32 size, u8 type, then
 *	ANSWER	u32 job, u64 start, u32 nframes, nframes * { u32 line, u8 has, function NUL, file NUL }
 *	FACTS	u32 job (any of the file), u8 state, u8 detail, u8 damaged, u8 has, debug path NUL
 *
 * Before each job a worker notes its number in shared memory: when it dies, that is the culprit. The
 * file of that job is marked, and everything not answered yet is done again, with less of that file read.
 */
#include "watchctl/code/symbols/symbol_workers.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/confine.h"
#include "watchctl/base/memory.h"
#include "watchctl/base/read_failure.h"
#include "watchctl/base/text_buf.h"
#include "watchctl/base/vec.h"
#include "watchctl/code/elf/debuginfod.h"

#define WORKERS_MAX 8
#define TICK_MS 100 /* how often progress is reported and looked at */
#define TICK_SHORT_MS 10
/* Opening a file costs a worker as much as so many addresses: fewer are not worth a slice of their own. */
#define SLICE_MIN 256
#define NO_JOB UINT32_MAX
#define MESSAGE_MAX (16u << 20) /* of an honest worker's; names are shorter */

enum message_type { MESSAGE_ANSWER = 1, MESSAGE_FACTS = 2 };

#define HAS_FUNCTION 1
#define HAS_FILE 2

struct slice {
	uint32_t first, end; /* jobs */
};

struct shared {
	_Atomic uint32_t next; /* slice */
	_Atomic uint32_t at[WORKERS_MAX];
	_Atomic uint32_t
		ran_out; /* a worker had not all the memory it needed: its answers may lack something */
	_Atomic int why; /* errno with which a worker could not read a file */
	atomic_flag reported;
	char path[512];
};

struct worker {
	pid_t pid;
	int fd;
	uint8_t *buf; /* received, not used yet */
	size_t len, cap;
	uint32_t at;	 /* last seen in shared memory */
	uint64_t cpu_ns; /* ... and its CPU time then */
	bool stalled;
};

struct round {
	struct symbol_job *job;
	size_t njobs;
	struct slice *slice;
	size_t nslices, slice_cap;
	struct shared *shared;
	struct worker worker[WORKERS_MAX];
	unsigned int nworkers;
	struct strings *pool;
	unsigned int stall_ms;
	const struct symbol_progress *progress;
	size_t done;
	bool no_memory;
	bool did_harm; /* a file did, in this round */
};

/* In the worker */

struct out {
	struct shared *shared;
	int fd;
	struct text_buf buf;
};

/* Before it ends: what its owner is to say. */
static void report_lacks(struct shared *s)
{
	char path[sizeof(s->path)];
	int why;

	if (memory_ran_out())
		atomic_store(&s->ran_out, 1);
	if (!read_failure_take(path, sizeof(path), &why) || atomic_flag_test_and_set(&s->reported))
		return;
	memcpy(s->path, path, sizeof(path));
	atomic_store(&s->why, why);
}

static _Noreturn void give_up(struct shared *s)
{
	report_lacks(s);
	_exit(1);
}

static void symbol_workers_put(struct out *o, const void *bytes, size_t n)
{
	text_buf_put(&o->buf, bytes, n);
	if (o->buf.failed)
		give_up(o->shared);
}

static void put_u8(struct out *o, uint8_t v)
{
	symbol_workers_put(o, &v, sizeof(v));
}

static void put_u32(struct out *o, uint32_t v)
{
	symbol_workers_put(o, &v, sizeof(v));
}

static void put_string(struct out *o, const char *s)
{
	symbol_workers_put(o, s ? s : "", (s ? strlen(s) : 0) + 1);
}

static void symbol_workers_flush(struct out *o)
{
	for (size_t at = 0; at < o->buf.len;) {
		ssize_t n = write(o->fd, o->buf.bytes + at, o->buf.len - at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			_exit(1);
		at += (size_t)n;
	}
	text_buf_empty(&o->buf);
}

static size_t message_begin(struct out *o, enum message_type type)
{
	size_t start = o->buf.len;

	put_u32(o, 0);
	put_u8(o, (uint8_t)type);
	return start;
}

static void message_end(struct out *o, size_t start)
{
	uint32_t size = (uint32_t)(o->buf.len - start);

	memcpy(o->buf.bytes + start, &size, sizeof(size));
	if (o->buf.len > 32768)
		symbol_workers_flush(o);
}

static void send_answer(struct out *o, uint32_t job, const struct symbol_answer *a)
{
	size_t start = message_begin(o, MESSAGE_ANSWER);

	put_u32(o, job);
	symbol_workers_put(o, &a->start, sizeof(a->start));
	put_u32(o, a->nframes);
	for (uint32_t i = 0; i < a->nframes; i++) {
		const struct frame_name *f = &a->frame[i];

		put_u32(o, f->line);
		put_u8(o, (f->function ? HAS_FUNCTION : 0) | (f->file ? HAS_FILE : 0));
		put_string(o, f->function);
		put_string(o, f->file);
	}
	message_end(o, start);
}

static void send_facts(struct out *o, uint32_t job, const struct symbol_facts *facts)
{
	size_t start = message_begin(o, MESSAGE_FACTS);

	put_u32(o, job);
	put_u8(o, (uint8_t)facts->state);
	put_u8(o, (uint8_t)facts->detail);
	put_u8(o, facts->damaged);
	put_u8(o, facts->debug_path ? HAS_FILE : 0);
	put_string(o, facts->debug_path);
	message_end(o, start);
}

static void run_slice(struct round *r, const struct slice *s, struct out *o, _Atomic uint32_t *at)
{
	for (uint32_t i = s->first; i < s->end; i++) {
		const struct symbol_answer *a;

		if (r->job[i].answer)
			continue;
		atomic_store(at, i);
		if (i == s->first || r->job[i].file != r->job[i - 1].file)
			send_facts(o, i, symbol_file_facts(r->job[i].file));
		a = symbol_file_resolve(r->job[i].file, r->job[i].vaddr, r->pool);
		if (!a)
			give_up(r->shared);
		send_answer(o, i, a);
	}
	atomic_store(at, NO_JOB);
	symbol_workers_flush(o);
}

/* Whoever called us may catch these and go on, which is not for a worker: it is to die of them. */
static void die_of_faults(void)
{
	static const int fault[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT };

	for (size_t i = 0; i < sizeof(fault) / sizeof(fault[0]); i++)
		signal(fault[i], SIG_DFL);
}

static _Noreturn void symbol_workers_work(struct round *r, unsigned int number, int fd, pid_t parent)
{
	struct out o = { .shared = r->shared, .fd = fd };
	char path[sizeof(r->shared->path)];
	uint32_t i;
	int why;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_DUMPABLE, 0);
	die_of_faults();
	read_failure_take(path, sizeof(path), &why); /* our parent's */
	if (getppid() != parent)
		_exit(1);
	confine_reader(debuginfod_is_configured());
	while ((i = atomic_fetch_add(&r->shared->next, 1)) < r->nslices)
		run_slice(r, &r->slice[i], &o, &r->shared->at[number]);
	symbol_workers_flush(&o);
	report_lacks(r->shared);
	_exit(0);
}

/* What comes back. A worker that went mad may have written anything. */

struct in {
	const uint8_t *p, *end;
	bool bad;
};

static void get(struct in *in, void *ret, size_t n)
{
	if ((size_t)(in->end - in->p) < n) {
		in->bad = true;
		memset(ret, 0, n);
		return;
	}
	memcpy(ret, in->p, n);
	in->p += n;
}

static uint8_t get_u8(struct in *in)
{
	uint8_t v;

	get(in, &v, sizeof(v));
	return v;
}

static uint32_t get_u32(struct in *in)
{
	uint32_t v;

	get(in, &v, sizeof(v));
	return v;
}

static const char *get_string(struct in *in)
{
	const uint8_t *nul = memchr(in->p, '\0', (size_t)(in->end - in->p));
	const char *s = (const char *)in->p;

	if (!nul) {
		in->bad = true;
		return "";
	}
	in->p = nul + 1;
	return s;
}

static void take_answer(struct round *r, struct in *in)
{
	scoped(freep) struct frame_name *frame = NULL;
	uint32_t job = get_u32(in), nframes;
	struct symbol_answer *a;
	uint64_t start;

	get(in, &start, sizeof(start));
	nframes = get_u32(in);
	/* A frame takes at least 7 bytes. */
	if (in->bad || job >= r->njobs || !nframes || nframes > (size_t)(in->end - in->p) / 7)
		return;
	frame = calloc(nframes, sizeof(*frame));
	if (!frame) {
		r->no_memory = true;
		return;
	}
	for (uint32_t i = 0; i < nframes; i++) {
		const char *function, *file;
		uint8_t has;

		frame[i].line = get_u32(in);
		has = get_u8(in);
		function = get_string(in);
		file = get_string(in);
		frame[i].function = has & HAS_FUNCTION ? function : NULL;
		frame[i].file = has & HAS_FILE ? file : NULL;
	}
	if (in->bad || r->job[job].answer)
		return;
	a = symbol_answer_new(r->pool, start, frame, nframes);
	if (!a) {
		r->no_memory = true;
		return;
	}
	a->from_file = true;
	r->job[job].answer = a;
	r->done++;
}

static void take_facts(struct round *r, struct in *in)
{
	uint32_t job = get_u32(in);
	uint8_t state = get_u8(in), detail = get_u8(in), damaged = get_u8(in), has = get_u8(in);
	const char *path = get_string(in);
	struct symbol_facts facts = { .state = (enum symbol_source_state)state,
				      .detail = (enum symbol_detail)detail,
				      .damaged = damaged != 0,
				      .debug_path = has & HAS_FILE ? path : NULL };

	if (in->bad || job >= r->njobs || state > SYMBOL_SOURCE_MISSING || detail > SYMBOL_DETAIL_LINES)
		return;
	if (!symbol_file_set_facts(r->job[job].file, &facts))
		r->no_memory = true;
}

static void take_messages(struct round *r, struct worker *w)
{
	size_t at = 0;

	while (w->len - at >= 5) {
		struct in in = { .p = w->buf + at + 4 };
		uint32_t size;

		memcpy(&size, w->buf + at, sizeof(size));
		if (size < 5 || size > MESSAGE_MAX) {
			w->len = at = 0;
			break;
		}
		if (size > w->len - at)
			break;
		in.end = w->buf + at + size;
		if (get_u8(&in) == MESSAGE_ANSWER)
			take_answer(r, &in);
		else
			take_facts(r, &in);
		at += size;
	}
	memmove(w->buf, w->buf + at, w->len - at);
	w->len -= at;
}

/* False: it has ended. */
static bool receive(struct round *r, struct worker *w)
{
	ssize_t n;

	if (!vec_reserve((void **)&w->buf, &w->cap, w->len + 65536, 1)) {
		r->no_memory = true;
		return false;
	}
	n = read(w->fd, w->buf + w->len, w->cap - w->len);
	if (n < 0 && errno == EINTR)
		return true;
	if (n <= 0)
		return false;
	w->len += (size_t)n;
	take_messages(r, w);
	return true;
}

/* Workers */

static uint64_t cpu_time(pid_t pid)
{
	struct timespec ts;
	clockid_t clock;

	if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &ts) != 0)
		return 0;
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* CPU time, not time: who waits for a disk or a server, or is stopped by Ctrl-Z, does not hang. */
static void kill_if_stalled(const struct round *r, struct worker *w, unsigned int number)
{
	uint32_t at = atomic_load(&r->shared->at[number]);
	uint64_t cpu = cpu_time(w->pid);

	if (at != w->at || at == NO_JOB) {
		w->at = at;
		w->cpu_ns = cpu;
	} else if (cpu > w->cpu_ns + (uint64_t)r->stall_ms * 1000000u && !w->stalled) {
		w->stalled = true;
		kill(w->pid, SIGKILL);
	}
}

static bool start_worker(struct round *r)
{
	struct worker *w = &r->worker[r->nworkers];
	pid_t parent = getpid();
	int fd[2];

	if (pipe2(fd, O_CLOEXEC) < 0)
		return false;
	*w = (struct worker){ .at = NO_JOB };
	atomic_store(&r->shared->at[r->nworkers], NO_JOB);
	w->pid = fork();
	if (w->pid == 0) {
		close(fd[0]);
		symbol_workers_work(r, r->nworkers, fd[1], parent);
	}
	close(fd[1]);
	if (w->pid < 0) {
		close(fd[0]);
		return false;
	}
	w->fd = fd[0];
	r->nworkers++;
	return true;
}

/* A worker that did not reach its end was brought down by the file it was reading. */
static void end_worker(struct round *r, struct worker *w, unsigned int number)
{
	uint32_t at;
	int status;

	close(take_fd(w->fd));
	free(take_ptr(w->buf));
	if (r->no_memory)
		kill(w->pid, SIGKILL);
	while (waitpid(w->pid, &status, 0) < 0)
		if (errno != EINTR)
			return;
	at = atomic_load(&r->shared->at[number]);
	r->no_memory |= atomic_load(&r->shared->ran_out) != 0;
	if (r->no_memory || (WIFEXITED(status) && WEXITSTATUS(status) == 0))
		return;
	/* Otherwise nothing of a file was being read, and there is no way on. */
	r->no_memory = at >= r->njobs;
	if (r->no_memory)
		return;
	symbol_file_did_harm(r->job[at].file);
	r->did_harm = true;
}

static void report_progress(const struct round *r)
{
	if (r->progress && r->progress->report)
		r->progress->report(r->progress->ctx, r->done, r->njobs);
}

static void serve(struct round *r)
{
	unsigned int alive = r->nworkers;

	while (alive) {
		struct pollfd p[WORKERS_MAX];

		for (unsigned int i = 0; i < r->nworkers; i++)
			p[i] = (struct pollfd){ .fd = r->worker[i].fd, .events = POLLIN };
		if (poll(p, r->nworkers, r->stall_ms < 10 * TICK_MS ? TICK_SHORT_MS : TICK_MS) < 0 &&
		    errno != EINTR)
			r->no_memory = true;
		for (unsigned int i = 0; i < r->nworkers; i++) {
			struct worker *w = &r->worker[i];

			if (w->fd < 0)
				continue;
			kill_if_stalled(r, w, i);
			if ((p[i].revents && !receive(r, w)) || r->no_memory) {
				end_worker(r, w, i);
				alive--;
			}
		}
		report_progress(r);
	}
}

/* Slices */

static int job_cmp(const void *a, const void *b)
{
	const struct symbol_job *x = a, *y = b;

	if (x->file != y->file)
		return x->file < y->file ? -1 : 1;
	return x->vaddr < y->vaddr ? -1 : x->vaddr > y->vaddr;
}

static int slice_cmp(const void *a, const void *b)
{
	const struct slice *x = a, *y = b;
	uint32_t n = x->end - x->first, m = y->end - y->first;

	if (n != m)
		return n > m ? -1 : 1;
	return x->first < y->first ? -1 : x->first > y->first;
}

static bool cut(struct round *r, uint32_t first, uint32_t end, unsigned int cpus)
{
	uint32_t n = end - first, parts = n / SLICE_MIN;

	if (parts > cpus)
		parts = cpus;
	if (!parts)
		parts = 1;
	for (uint32_t i = 0; i < parts; i++) {
		struct slice s = { first + (uint32_t)((uint64_t)n * i / parts),
				   first + (uint32_t)((uint64_t)n * (i + 1) / parts) };

		if (!vec_push(r->slice, r->nslices, r->slice_cap, s))
			return false;
	}
	return true;
}

/* The unanswered jobs, the largest slices first: the last to be taken should be short. */
static bool make_slices(struct round *r, unsigned int cpus)
{
	uint32_t first = 0;

	r->nslices = 0;
	for (uint32_t i = 0; i < r->njobs; i++) {
		bool last = i + 1 == r->njobs || r->job[i + 1].file != r->job[i].file;

		if (!last)
			continue;
		while (first <= i && r->job[first].answer)
			first++;
		if (first <= i && !cut(r, first, i + 1, cpus))
			return false;
		first = i + 1;
	}
	if (r->nslices)
		qsort(r->slice, r->nslices, sizeof(*r->slice), slice_cmp);
	return true;
}

/* Without a single worker there is still this process. */
static bool do_it_ourselves(struct round *r)
{
	for (size_t i = 0; i < r->njobs; i++) {
		struct symbol_job *j = &r->job[i];

		if (!j->answer)
			j->answer = symbol_file_resolve(j->file, j->vaddr, r->pool);
		if (!j->answer)
			return false;
	}
	r->done = r->njobs;
	return true;
}

static bool run_round(struct round *r, unsigned int cpus)
{
	size_t done = r->done;

	r->nworkers = 0;
	r->did_harm = false;
	atomic_store(&r->shared->next, 0);
	while (r->nworkers < cpus && r->nworkers < r->nslices && start_worker(r))
		;
	if (!r->nworkers)
		return do_it_ourselves(r);
	serve(r);
	/* Each round answers something or finds a culprit: this comes to an end. */
	return !r->no_memory && (r->done > done || r->did_harm);
}

static unsigned int cpus_allowed(void)
{
	cpu_set_t set;
	int n = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;

	return n < 1 ? 1 : n > WORKERS_MAX ? WORKERS_MAX : (unsigned int)n;
}

bool symbol_workers_run(struct symbol_job *job, size_t n, struct strings *pool, unsigned int stall_ms,
			const struct symbol_progress *progress)
{
	struct round r = { .job = job, .njobs = n, .pool = pool, .stall_ms = stall_ms, .progress = progress };
	unsigned int cpus = cpus_allowed();
	bool ok = true;

	if (n >= NO_JOB)
		return false;
	qsort(job, n, sizeof(*job), job_cmp);
	/* cppcheck-suppress invalidFunctionArg ; there is no file behind it */
	r.shared = mmap(NULL, sizeof(*r.shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (r.shared == MAP_FAILED)
		return false;
	while (ok && r.done < n)
		ok = make_slices(&r, cpus) && run_round(&r, cpus);
	r.shared->path[sizeof(r.shared->path) - 1] = '\0'; /* whatever a worker that went mad has written */
	read_failure_note(r.shared->path, atomic_load(&r.shared->why));
	munmap(r.shared, sizeof(*r.shared));
	free(r.slice);
	return ok;
}
