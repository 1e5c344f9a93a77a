# Unit tests: one cmocka program a module, tests/unit/test_NAME.c, linked with the whole library.

UNIT_SRC := $(wildcard tests/unit/test_*.c)
UNIT_BIN := $(UNIT_SRC:%.c=$(BUILD)/%)

.PHONY: unit
unit: $(UNIT_BIN)
	@failed=0; for t in $(UNIT_BIN); do $$t || failed=1; done; exit $$failed

$(UNIT_BIN): $(BUILD)/tests/unit/%: tests/unit/%.c $(LIB) | packages-test
	@mkdir -p $(@D)
	$(if $(Q),@echo "  UNIT    $*")
	$(Q)$(CC) $(BASE_CFLAGS) $(PKG_CFLAGS) $(CFLAGS) $(LDFLAGS) -o $@ $< $(LIB) $(LIBS) -lcmocka

-include $(UNIT_BIN:%=%.d)
