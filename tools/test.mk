# Tests. Unit: one cmocka program a module, tests/unit/ROOM/test_NAME.c, linked with the whole library.
# End to end: pytest on the program as it was built; victims are compiled by tests/e2e/conftest.py.

UNIT_SRC := $(wildcard tests/unit/*/test_*.c)
UNIT_BIN := $(patsubst %.c,$(BUILD)/tests/unit/%,$(notdir $(UNIT_SRC)))
vpath test_%.c $(sort $(dir $(UNIT_SRC)))
E2E ?= tests/e2e
PYTEST ?= $(PYTHON) -m pytest

# What takes long, or judges time or chance, is marked slow, and runs in `make test-slow`. Who asks for tests by E2E gets all that fit.
E2E_MARK ?= $(if $(filter tests/e2e,$(E2E)),not slow)

.PHONY: test test-slow unit e2e oracle
test: | packages-test ## unit and end-to-end tests, but for the slow ones
	$(Q)$(MAKE) --no-print-directory unit
	$(Q)$(MAKE) --no-print-directory e2e

unit: $(UNIT_BIN) ## unit tests only
	@tools/run-units $(UNIT_BIN)

e2e: all faults-programs $(CAPTURE_SO) $(CAPTURE_LIB) $(BUILD)/tests/bench/steplog-gen $(BUILD)/tests/bench/ring-gen $(BUILD)/tests/bench/accesslog-gen $(BUILD)/tests/bench/probelog-gen $(BUILD)/tests/bench/calllog-gen $(BUILD)/tests/bench/pagelog-gen | packages-test ## end-to-end tests only: make e2e E2E="tests/e2e/test_report.py -k json"
	@BUILD="$(BUILD)" WATCHCTL="$(abspath $(PROG))" PYTHONDONTWRITEBYTECODE=1 PYTEST="$(PYTEST)" E2E_MARK="$(E2E_MARK)" tools/run-e2e $(E2E)

test-slow: ## end-to-end tests that take more than 3 s each, or judge time or chance (half an hour; E2E_SAMPLE=0/4: a quarter)
	$(Q)$(MAKE) --no-print-directory e2e E2E_MARK=slow

oracle: $(LIB) $(CAPTURE_SO) | packages-oracle ## our unwinder against gdb, libunwind and libdwfl, on real programs (minutes)
	@tests/oracle/run-gdb-oracle $(BUILD)
	@tests/oracle/run-unwind-oracle $(BUILD)
	@tests/oracle/run-preload-oracle $(BUILD)

$(UNIT_BIN): $(BUILD)/tests/unit/%: %.c $(LIB) $(CAPTURE_PARTS) $(CALLTRACE_PARTS) | packages-test
	@mkdir -p $(@D)
	$(if $(Q),@echo "  UNIT    $*")
	$(Q)$(CC) $(BASE_CFLAGS) $(PKG_CFLAGS) $(CFLAGS) $(LDFLAGS) -o $@ $< $(LIB) $(CAPTURE_PARTS) $(CALLTRACE_PARTS) $(LIB) $(LIBS) -lcmocka

-include $(UNIT_BIN:%=%.d)

# The command of FRESH in a bare Debian: FRESH_DIR=DIR keeps its root file system, and what was installed there.
FRESH ?= make demo test
.PHONY: fresh
fresh: ## what FRESH says (make demo test), in a new, bare Debian 12: shows what only this machine has
	@FRESH_DIR="$(FRESH_DIR)" tools/fresh $(FRESH)
