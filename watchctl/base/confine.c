#include "watchctl/base/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define X32_BIT 0x40000000u
#define WRITE_FLAGS (O_WRONLY | O_RDWR | O_CREAT | O_TRUNC)

/* What no reader does, to other processes and to the machine. */
static const unsigned int never[] = {
	SYS_execve,
	SYS_execveat,
	SYS_ptrace,
	SYS_process_vm_readv,
	SYS_process_vm_writev,
	SYS_kill,
	SYS_tkill,
	SYS_pidfd_send_signal,
	SYS_pidfd_getfd,
	SYS_perf_event_open,
	SYS_bpf,
	SYS_mount,
	SYS_umount2,
	SYS_pivot_root,
	SYS_chroot,
	SYS_unshare,
	SYS_setns,
	SYS_init_module,
	SYS_finit_module,
	SYS_delete_module,
	SYS_kexec_load,
	SYS_reboot,
	SYS_swapon,
	SYS_swapoff,
	SYS_keyctl,
	SYS_add_key,
	SYS_request_key,
	SYS_open_by_handle_at,
	SYS_setuid,
	SYS_setgid,
	SYS_setreuid,
	SYS_setregid,
	SYS_setresuid,
	SYS_setresgid,
	SYS_setgroups,
	SYS_capset,
	SYS_userfaultfd,
	SYS_io_uring_setup,
	SYS_settimeofday,
	SYS_clock_settime,
	SYS_sethostname,
	SYS_iopl,
	SYS_ioperm,
	SYS_acct,
	SYS_mknod,
	SYS_mknodat,
	SYS_quotactl,
	SYS_syslog,
};

/* What one that fetches a file, and keeps it, does as well. */
static const unsigned int fetching[] = {
	SYS_socket,    SYS_connect,   SYS_bind,	     SYS_listen,    SYS_accept,	     SYS_accept4,
	SYS_sendto,    SYS_sendmsg,   SYS_creat,     SYS_truncate,  SYS_rename,	     SYS_renameat,
	SYS_renameat2, SYS_unlink,    SYS_unlinkat,  SYS_mkdir,	    SYS_mkdirat,     SYS_rmdir,
	SYS_link,      SYS_linkat,    SYS_symlink,   SYS_symlinkat, SYS_chmod,	     SYS_fchmod,
	SYS_fchmodat,  SYS_chown,     SYS_lchown,    SYS_fchown,    SYS_fchownat,    SYS_utimensat,
	SYS_setxattr,  SYS_lsetxattr, SYS_fsetxattr, SYS_openat2,   SYS_removexattr,
};

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define HEAD_OPS 6    /* of another architecture, or its numbers: refused */
#define WRITING_OPS 5 /* refuse_writing() */
#define PROGRAM_MAX (HEAD_OPS + 2 * (COUNT(never) + COUNT(fetching)) + 2 * WRITING_OPS + 1)

struct program {
	struct sock_filter op[PROGRAM_MAX];
	unsigned short n;
};

static void confine_add(struct program *p, uint16_t code, uint32_t k, uint8_t jt, uint8_t jf)
{
	p->op[p->n++] = (struct sock_filter){ code, jt, jf, k };
}

static void confine_load(struct program *p, size_t offset)
{
	confine_add(p, BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset, 0, 0);
}

static void confine_refuse(struct program *p)
{
	confine_add(p, BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM, 0, 0);
}

static void refuse_all(struct program *p, const unsigned int *call, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++) {
		confine_add(p, BPF_JMP | BPF_JEQ | BPF_K, call[i], 0, 1);
		confine_refuse(p);
	}
}

/* @call with flags for writing in its argument @arg; the number of the call is loaded, before and after. */
static void refuse_writing(struct program *p, unsigned int call, unsigned int arg)
{
	confine_add(p, BPF_JMP | BPF_JEQ | BPF_K, call, 0, 4);
	confine_load(p, offsetof(struct seccomp_data, args) + 8 * arg);
	confine_add(p, BPF_JMP | BPF_JSET | BPF_K, WRITE_FLAGS, 0, 1);
	confine_refuse(p);
	confine_add(p, BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0, 0);
}

static void filter_calls(bool fetches)
{
	struct program p = { .n = 0 };
	struct sock_fprog prog = { .filter = p.op };

	confine_load(&p, offsetof(struct seccomp_data, arch));
	confine_add(&p, BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0);
	confine_refuse(&p);
	confine_load(&p, offsetof(struct seccomp_data, nr));
	confine_add(&p, BPF_JMP | BPF_JGE | BPF_K, X32_BIT, 0, 1);
	confine_refuse(&p);
	refuse_all(&p, never, COUNT(never));
	if (!fetches) {
		refuse_all(&p, fetching, COUNT(fetching));
		refuse_writing(&p, SYS_openat, 2);
		refuse_writing(&p, SYS_open, 1);
	}
	confine_add(&p, BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0, 0);
	prog.len = p.n;
	prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog);
}

static void drop_capabilities(void)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct had[2] = { 0 }, kept[2] = { 0 };

	if (syscall(SYS_capget, &head, had))
		return;
	kept[0].effective = kept[0].permitted = had[0].permitted & 1u << CAP_DAC_READ_SEARCH;
	syscall(SYS_capset, &head, kept);
	prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
}

void confine_reader(bool fetches)
{
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	drop_capabilities();
	filter_calls(fetches);
}
