#include "watchctl/flow/kernel/kernel_tasks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "tasks.skel.h"
#include "watchctl/base/cleanup.h"

#define AT_ONCE 64

struct kernel_tasks {
	struct tasks_bpf *bpf;
	struct bpf_link *link;
};

static int say_nothing(enum libbpf_print_level level, const char *fmt, va_list ap)
{
	(void)level, (void)fmt, (void)ap;
	return 0;
}

static const char *reason(int error)
{
	switch (error) {
	case EPERM:
	case EACCES:
		return "BPF programs need root, or CAP_BPF and CAP_PERFMON";
	case ENOENT:
	case ESRCH:
	case EOPNOTSUPP:
		return "this kernel has no description of its types (CONFIG_DEBUG_INFO_BTF), or no BPF iterators";
	default:
		return "the kernel refuses the BPF program that reads its threads";
	}
}

struct kernel_tasks *kernel_tasks_open(const char **why)
{
	libbpf_print_fn_t old = libbpf_set_print(say_nothing);
	struct kernel_tasks *k = calloc(1, sizeof(*k));

	*why = "there is no memory";
	if (k) {
		errno = 0;
		k->bpf = tasks_bpf__open_and_load();
		if (k->bpf)
			k->link = bpf_program__attach_iter(k->bpf->progs.tasks_look, NULL);
		if (!k->link) {
			*why = reason(errno);
			kernel_tasks_close(k);
			k = NULL;
		}
	}
	libbpf_set_print(old);
	return k;
}

void kernel_tasks_close(struct kernel_tasks *k)
{
	if (!k)
		return;
	bpf_link__destroy(k->link);
	tasks_bpf__destroy(k->bpf);
	free(k);
}

bool kernel_tasks_read(struct kernel_tasks *k, bool (*take)(void *ctx, const struct tasks_record *r),
		       void *ctx)
{
	scoped(closep) int fd = bpf_iter_create(bpf_link__fd(k->link));
	struct tasks_record record[AT_ONCE];
	size_t have = 0;
	ssize_t n;

	/* The kernel gives whole and parts of records, as they fit its buffer. */
	while (fd >= 0 && (n = read(fd, (char *)record + have, sizeof(record) - have)) > 0) {
		size_t whole = (have + (size_t)n) / sizeof(record[0]);

		for (size_t i = 0; i < whole; i++)
			if (!take(ctx, &record[i]))
				return false;
		have = have + (size_t)n - whole * sizeof(record[0]);
		memmove(record, record + whole, have);
	}
	return fd >= 0 && n == 0 && have == 0;
}
