/* flow_kernel.bpf.h - of the kernel's structs the members that flow.bpf.c reads; their places come from the running kernel's BTF. */
#ifndef WATCHCTL_FLOW_KERNEL_FLOW_KERNEL_BPF_H
#define WATCHCTL_FLOW_KERNEL_FLOW_KERNEL_BPF_H

#include <stdint.h>

#define KERNEL_STRUCT __attribute__((preserve_access_index))

struct pt_regs {
	unsigned long r10, si, di, orig_ax;
} KERNEL_STRUCT;

struct file;

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
} KERNEL_STRUCT;

struct files_struct {
	struct fdtable *fdt;
} KERNEL_STRUCT;

struct rq {
	int cpu;
} KERNEL_STRUCT;

struct cfs_rq {
	struct rq *rq;
} KERNEL_STRUCT;

struct sched_entity {
	struct cfs_rq *cfs_rq;
} KERNEL_STRUCT;

struct task_struct {
	struct sched_entity se;
	unsigned int flags;
	int pid, tgid, exit_code;
	char comm[16];
	struct files_struct *files;
	struct task_struct *real_parent;
} KERNEL_STRUCT;

struct inode {
	uint16_t i_mode;
	unsigned long i_ino;
	uint32_t i_rdev;
} KERNEL_STRUCT;

struct file_operations {
	void *release;
} KERNEL_STRUCT;

struct file {
	struct inode *f_inode;
	const struct file_operations *f_op;
	void *private_data;
} KERNEL_STRUCT;

struct eventfd_ctx {
	unsigned int flags;
	int id;
} KERNEL_STRUCT;

struct tty_driver {
	int major;
} KERNEL_STRUCT;

struct tty_struct {
	int index;
	struct tty_driver *driver;
} KERNEL_STRUCT;

struct tty_file_private {
	struct tty_struct *tty;
} KERNEL_STRUCT;

struct in6_addr {
	uint32_t word[4];
};

struct ns_common {
	unsigned int inum;
} KERNEL_STRUCT;

struct net {
	struct ns_common ns;
} KERNEL_STRUCT;

typedef struct {
	struct net *net;
} KERNEL_STRUCT possible_net_t;

struct sock_common {
	uint32_t skc_daddr, skc_rcv_saddr;
	uint16_t skc_dport, skc_num, skc_family;
	possible_net_t skc_net;
	struct in6_addr skc_v6_daddr, skc_v6_rcv_saddr;
} KERNEL_STRUCT;

struct socket;

struct sock {
	struct sock_common __sk_common;
	struct socket *sk_socket;
} KERNEL_STRUCT;

struct socket {
	struct file *file;
	struct sock *sk;
} KERNEL_STRUCT;

struct unix_sock {
	struct sock *peer;
} KERNEL_STRUCT;

struct hrtimer {
	void *function;
} KERNEL_STRUCT;

struct timer_list {
	void *function;
} KERNEL_STRUCT;

#endif
