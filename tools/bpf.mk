# What runs in the kernel: compiled for its virtual machine, turned into a C header that carries the bytes.

$(BUILD)/record.bpf.o: watchctl/engine/kernel/record.bpf.c | packages
	@mkdir -p $(@D)
	$(if $(Q),@echo "  BPF     $<")
	$(Q)$(CLANG) -O2 -g -Wall -ffreestanding -mcpu=v3 -target bpf -I. -I/usr/include/$(shell $(CC) -print-multiarch) \
		-MMD -MP -MT $@ -c -o $@ $<

$(BUILD)/record.skel.h: $(BUILD)/record.bpf.o
	$(Q)PATH="$$PATH:/usr/sbin" bpftool gen skeleton $< name record_bpf > $@ || { rm -f $@; exit 1; }

$(BUILD)/watchctl/engine/kernel/kernel_recorder.o: | $(BUILD)/record.skel.h

-include $(BUILD)/record.bpf.d
