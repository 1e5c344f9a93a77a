# What a drop-in library (`watchctl patch --library`) does in a program: probe/library/ linked at address 0, embedded into the library.

# The code has one page, and runs once: it is to be small.
LIBRARY_SMALL := -Os

LIBRARY_OBJ := $(BUILD)/probe/library/library.image.o

$(LIBRARY_OBJ): probe/library/library.c $(BUILD)/flags | packages
	@mkdir -p $(@D)
	$(if $(Q),@echo "  PROBE   $<")
	$(Q)$(CC) $(HANDLER_CFLAGS) $(LIBRARY_SMALL) -g0 -c -o $@ $<

# A relocation against an absolute address would be wrong wherever the library is mapped.
$(BUILD)/probe/library/library.bin: $(LIBRARY_OBJ) probe/library/library.ld
	$(Q)readelf -Wr $(LIBRARY_OBJ) | awk '/R_X86_64_(64|32|32S|GOTPCREL[A-Z]*) / \
		{ print "absolute relocation in the code of drop-in libraries:", $$0; bad = 1 } END { exit bad }'
	$(Q)ld -T probe/library/library.ld -nostdlib --build-id=none -z noexecstack -e 0 -o $(@:.bin=.elf) $(LIBRARY_OBJ)
	$(Q)objcopy -O binary --only-section=.text $(@:.bin=.elf) $@

$(BUILD)/probe/library/blob.o: $(BUILD)/probe/library/library.bin
	$(Q)printf '.section .rodata\n.globl library_code, library_code_end\nlibrary_code:\n.incbin "%s"\nlibrary_code_end:\n.section .note.GNU-stack,"",@progbits\n' $< \
		| $(CC) -c -x assembler -o $@ -

LIB_OBJ += $(BUILD)/probe/library/blob.o
$(LIB): $(BUILD)/probe/library/blob.o

-include $(LIBRARY_OBJ:.o=.d)
