# The guard: compiled for the kernel's virtual machine, turned into a C header that carries its bytes.

$(BUILD)/guard.bpf.o: watchctl/engine/guard.bpf.c | packages
	@mkdir -p $(@D)
	$(if $(Q),@echo "  BPF     $<")
	$(Q)$(CLANG) -O2 -g -Wall -target bpf -I/usr/include/$(shell $(CC) -print-multiarch) -c -o $@ $<

$(BUILD)/guard.skel.h: $(BUILD)/guard.bpf.o
	$(Q)PATH="$$PATH:/usr/sbin" bpftool gen skeleton $< name guard_bpf > $@ || { rm -f $@; exit 1; }

$(BUILD)/watchctl/engine/perf_guard.o: | $(BUILD)/guard.skel.h
