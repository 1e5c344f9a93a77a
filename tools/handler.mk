# The injected image: handler/ linked at address 0, cut to its bytes, embedded into the library.

HANDLER_OBJ := $(patsubst %,$(BUILD)/%.image.o,$(HANDLER_SRC))

$(BUILD)/handler/%.c.image.o: handler/%.c $(BUILD)/flags | packages
	@mkdir -p $(@D)
	$(if $(Q),@echo "  HANDLER $<")
	$(Q)$(CC) $(HANDLER_CFLAGS) -c -o $@ $<

$(BUILD)/handler/%.S.image.o: handler/%.S $(BUILD)/flags | packages
	@mkdir -p $(@D)
	$(Q)$(CC) -I. -MMD -MP -c -o $@ $<

# A relocation against an absolute address would be wrong wherever the image is mapped.
$(BUILD)/handler/image.elf: $(HANDLER_OBJ) handler/handler.ld
	$(if $(Q),@echo "  LD      $@")
	$(Q)readelf -Wr $(HANDLER_OBJ) | awk '/^Relocation section/ { section = $$3 } \
		/R_X86_64_(64|32|32S|GOTPCREL[A-Z]*) / && section !~ /debug|eh_frame/ \
		{ print "absolute relocation in the handler:", section, $$0; bad = 1 } END { exit bad }'
	$(Q)ld -T handler/handler.ld -nostdlib --build-id=none -z noexecstack -o $@ $(HANDLER_OBJ)

$(BUILD)/handler/image.bin: $(BUILD)/handler/image.elf
	$(Q)objcopy -O binary --only-section=.text $< $@

$(BUILD)/handler_image.h: $(BUILD)/handler/image.elf
	$(Q)nm $< | awk '$$3 ~ /^(handler_entry|handler_restorer|remote_syscall|remote_read|remote_rewrite|remote_return)$$/ \
		{printf "#define IMAGE_%s 0x%s\n", toupper($$3), $$1}' > $@

$(BUILD)/handler/image_blob.o: $(BUILD)/handler/image.bin
	$(Q)printf '.section .rodata\n.globl handler_image, handler_image_end\nhandler_image:\n.incbin "%s"\nhandler_image_end:\n.section .note.GNU-stack,"",@progbits\n' $< \
		| $(CC) -c -x assembler -o $@ -

$(LIB_OBJ): | $(BUILD)/handler_image.h
LIB_OBJ += $(BUILD)/handler/image_blob.o
$(LIB): $(BUILD)/handler/image_blob.o

-include $(HANDLER_OBJ:.o=.d)
