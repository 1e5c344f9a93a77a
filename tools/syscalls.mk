# The numbers of system calls, from the kernel's headers: a line SYSCALL(NUMBER, NAME) each.

$(BUILD)/syscall_names.h: tools/syscalls.mk | packages
	@mkdir -p $(@D)
	$(Q)echo '#include <asm/unistd_64.h>' | $(CC) -E -dM - \
		| sed -nE 's/^#define __NR_([a-z0-9_]+) ([0-9]+)$$/SYSCALL(\2, \1)/p' | sort -t'(' -k2n > $@
	$(Q)test -s $@

$(BUILD)/watchctl/base/syscall_name.o: | $(BUILD)/syscall_names.h
