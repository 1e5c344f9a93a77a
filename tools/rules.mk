# The rules of the graph of causes, built into the library: name, NUL, text, NUL, the defaults first.

RULES_DIR := watchctl/flow/rules
RULES := $(RULES_DIR)/default.rules $(sort $(wildcard $(RULES_DIR)/sets/*.rules))

$(BUILD)/rules/texts.o: $(RULES) tools/rules.mk
	@mkdir -p $(@D)
	$(Q){ printf '.section .rodata\n.globl flow_rules_texts\nflow_rules_texts:\n'; \
		for file in $(RULES); do printf '.asciz "%s"\n.incbin "%s"\n.byte 0\n' "$$(basename $$file .rules)" $$file; done; \
		printf '.byte 0\n.section .note.GNU-stack,"",@progbits\n'; } | $(CC) -c -x assembler -o $@ -

LIB_OBJ += $(BUILD)/rules/texts.o
$(LIB): $(BUILD)/rules/texts.o
