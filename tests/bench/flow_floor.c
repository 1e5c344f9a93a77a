/* Attaches the programs of flow_floor.bpf.c, says so, and keeps them until its input ends. usage: flow_floor OBJECT */
#include <stdio.h>

#include <bpf/libbpf.h>

static int fail(const char *what)
{
	fprintf(stderr, "flow_floor: cannot %s\n", what);
	return 1;
}

int main(int argc, char **argv)
{
	struct bpf_object *object = argc == 2 ? bpf_object__open_file(argv[1], NULL) : NULL;
	struct bpf_program *p;

	if (!object || bpf_object__load(object))
		return fail("load the programs");
	bpf_object__for_each_program(p, object)
	{
		if (!bpf_program__attach(p))
			return fail("attach a program");
	}
	puts("ready");
	fflush(stdout);
	while (getchar() != EOF)
		;
	return 0; /* the kernel detaches them */
}
