# What probes have in a program: probe/ linked to one object, which `watchctl patch` links the user's functions with; and the
# header for them. Both are embedded into the library.

PROBE_SRC := $(wildcard probe/*.c probe/*.S)
PROBE_OBJ := $(patsubst %,$(BUILD)/%.image.o,$(PROBE_SRC))

$(BUILD)/probe/%.c.image.o: probe/%.c $(BUILD)/flags | packages
	@mkdir -p $(@D)
	$(if $(Q),@echo "  PROBE   $<")
	$(Q)$(CC) $(HANDLER_CFLAGS) -g0 -c -o $@ $<

$(BUILD)/probe/%.S.image.o: probe/%.S $(BUILD)/flags | packages
	@mkdir -p $(@D)
	$(Q)$(CC) -I. -MMD -MP -c -o $@ $<

$(BUILD)/probe/runtime.o: $(PROBE_OBJ)
	$(Q)ld -r -o $@ $(PROBE_OBJ)

# The probes of `watchctl trace`, linked as `watchctl patch` links a user's.
$(BUILD)/probe/calls.so: $(wildcard probe/calls/*) $(BUILD)/probe/runtime.o $(BUILD)/flags | packages
	$(if $(Q),@echo "  PROBE   $<")
	$(Q)$(CC) $(HANDLER_CFLAGS) -MF $(BUILD)/probe/calls.d -g0 -shared -nostdlib -Wl,-Bsymbolic -Wl,-z,noexecstack \
		-Wl,-z,max-page-size=4096 -Wl,-z,norelro -Wl,--build-id=none -o $@ $(filter probe/%.c probe/%.S,$^) $(BUILD)/probe/runtime.o

$(BUILD)/probe/calls_blob.o: $(BUILD)/probe/calls.so
	$(Q)printf '.section .rodata\n.balign 8\n.globl probe_calls, probe_calls_end\nprobe_calls:\n.incbin "%s"\nprobe_calls_end:\n.section .note.GNU-stack,"",@progbits\n' $< \
		| $(CC) -c -x assembler -o $@ -

LIB_OBJ += $(BUILD)/probe/calls_blob.o
$(LIB): $(BUILD)/probe/calls_blob.o

$(BUILD)/probe/blob.o: $(BUILD)/probe/runtime.o probe/probe.h
	$(Q)printf '.section .rodata\n.globl probe_runtime, probe_runtime_end, probe_header, probe_header_end\nprobe_runtime:\n.incbin "%s"\nprobe_runtime_end:\nprobe_header:\n.incbin "probe/probe.h"\nprobe_header_end:\n.section .note.GNU-stack,"",@progbits\n' $< \
		| $(CC) -c -x assembler -o $@ -

LIB_OBJ += $(BUILD)/probe/blob.o
$(LIB): $(BUILD)/probe/blob.o

-include $(PROBE_OBJ:.o=.d) $(BUILD)/probe/calls.d
