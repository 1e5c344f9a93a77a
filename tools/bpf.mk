# What runs in the kernel: compiled for its virtual machine, turned into a C header that carries the bytes.

BPF_OBJ := $(BUILD)/record.bpf.o $(BUILD)/tasks.bpf.o $(BUILD)/flow.bpf.o \
	$(BUILD)/flow_floor.bpf.o
$(BUILD)/record.bpf.o: watchctl/engine/kernel/record.bpf.c
$(BUILD)/tasks.bpf.o: watchctl/flow/kernel/tasks.bpf.c
$(BUILD)/flow.bpf.o: watchctl/flow/kernel/flow.bpf.c
$(BUILD)/flow_floor.bpf.o: tests/bench/flow_floor.bpf.c

$(BPF_OBJ): | packages
	@mkdir -p $(@D)
	$(if $(Q),@echo "  BPF     $<")
	$(Q)$(CLANG) -O2 -g -Wall -ffreestanding -mcpu=v3 -target bpf -I. -I/usr/include/$(shell $(CC) -print-multiarch) \
		-MMD -MP -MT $@ -c -o $@ $<

$(BUILD)/%.skel.h: $(BUILD)/%.bpf.o
	$(Q)PATH="$$PATH:/usr/sbin" bpftool gen skeleton $< name $*_bpf > $@ || { rm -f $@; exit 1; }

$(BUILD)/watchctl/engine/kernel/kernel_recorder.o: | $(BUILD)/record.skel.h
$(BUILD)/watchctl/flow/kernel/kernel_tasks.o: | $(BUILD)/tasks.skel.h
$(BUILD)/watchctl/flow/kernel/kernel_flow.o: | $(BUILD)/flow.skel.h

-include $(BPF_OBJ:.o=.d)
