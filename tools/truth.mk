# tests/truth: instructions are executed, and the product's verdicts held against what happened.

TRUTH_SRC := $(wildcard tests/truth/truth_*.c)
TRUTH_OBJ := $(TRUTH_SRC:%.c=$(BUILD)/%.o) $(BUILD)/tests/truth/truth_entry.o $(BUILD)/tests/truth/forms.o
TRUTH := $(BUILD)/tests/truth/truth
# GNU as, whatever the compiler: others know other names, and choose other encodings.
# The forms name their memory by its address, which must fit in 31 bits; as must the programs'.
TRUTH_CFLAGS := -fno-pie

TEXTS := $(BUILD)/tests/truth/texts
# Programs whose instructions are read as text, beside the bench's own.
TEXTS_OF ?= $(realpath $(shell $(CC) -print-file-name=libc.so.6) $(shell command -v $(PYTHON)))

.PHONY: truth truth-program truth-texts
truth: $(TRUTH) ## every kind of instruction executed under a watch, and what is said of it against what happened
	@$(TRUTH)

truth-program: $(TRUTH)

truth-texts: $(TRUTH) $(TEXTS) ## the texts of instructions, by capstone and by Zydis, held against the assembler
	@$(PYTHON) tests/truth/texts $(TRUTH) $(TEXTS) $(TEXTS_OF)

$(TEXTS): tests/truth/texts_list.c $(LIB) | packages-test
	@mkdir -p $(@D)
	$(if $(Q),@echo "  LD      $@")
	$(Q)$(CC) $(BASE_CFLAGS) $(PKG_CFLAGS) $(CFLAGS) $(LDFLAGS) -o $@ $< $(LIB) $(LIBS)

$(BUILD)/tests/truth/forms.S: tests/truth/generate $(wildcard tests/truth/*.py) | packages-test
	@mkdir -p $(@D)
	$(if $(Q),@echo "  FORMS   $@")
	$(Q)$(PYTHON) $< $@

$(BUILD)/tests/truth/forms.o: $(BUILD)/tests/truth/forms.S
	$(Q)as -o $@ $<

$(BUILD)/tests/truth/truth_entry.o: tests/truth/truth_entry.S
	@mkdir -p $(@D)
	$(Q)as -o $@ $<

$(BUILD)/tests/truth/truth_%.o: tests/truth/truth_%.c $(BUILD)/flags | packages-test
	@mkdir -p $(@D)
	$(if $(Q),@echo "  CC      $<")
	$(Q)$(CC) $(BASE_CFLAGS) $(PKG_CFLAGS) $(CFLAGS) $(TRUTH_CFLAGS) -c -o $@ $<

$(TRUTH): $(TRUTH_OBJ) $(LIB)
	$(if $(Q),@echo "  LD      $@")
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -no-pie -Wl,--defsym=truth_arena=0x10000000 -o $@ $(TRUTH_OBJ) $(LIB) $(LIBS)

-include $(TEXTS).d $(TRUTH_SRC:%.c=$(BUILD)/%.d)
