/* Programs that do nothing, attached as `flow record`'s are: what the kernel takes for that alone. For `make bench-flow`. */
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

SEC("tp_btf/sys_exit")
int floor_return(void *ctx)
{
	(void)ctx;
	return 0;
}

SEC("tp_btf/sched_switch")
int floor_switch(void *ctx)
{
	(void)ctx;
	return 0;
}

SEC("tp_btf/sched_waking")
int floor_waking(void *ctx)
{
	(void)ctx;
	return 0;
}

char licence[] SEC("license") = "GPL";
