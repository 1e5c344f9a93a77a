# Tests. Unit: one cmocka program a module, tests/unit/ROOM/test_NAME.c, linked with the whole library, as a shared one:
# of an archive of 28 MB, 160 programs take minutes to link.
# End to end: pytest on the program as it was built; victims.mk builds those that it watches.

UNIT_SRC := $(wildcard tests/unit/*/test_*.c)
UNIT_BIN := $(patsubst %.c,$(BUILD)/tests/unit/%,$(notdir $(UNIT_SRC)))
# `make unit UNIT="trace view/test_diff"`: the programs of rooms, or single ones.
UNIT ?=
UNIT_NAMED = $(filter $(foreach u,$(UNIT),tests/unit/$(u).c tests/unit/$(u)/%),$(UNIT_SRC))
UNIT_RUN = $(if $(UNIT),$(patsubst %.c,$(BUILD)/tests/unit/%,$(notdir $(UNIT_NAMED))),$(UNIT_BIN))
LIB_SO := $(BUILD)/libwatchctl.so
vpath test_%.c $(sort $(dir $(UNIT_SRC)))
E2E ?= tests/e2e
PYTEST ?= $(PYTHON) -m pytest

# What takes long, or judges time or chance, is marked slow, and runs in `make test-slow`. Who asks for tests by E2E gets all that fit.
E2E_MARK ?= $(if $(filter tests/e2e,$(E2E)),not slow)

.PHONY: test test-slow unit e2e e2e-durations near oracle
test: | packages-test ## unit and end-to-end tests, but for the slow ones
	$(Q)$(MAKE) --no-print-directory unit
	$(Q)$(MAKE) --no-print-directory e2e

unit: $(UNIT_RUN) ## unit tests only: make unit UNIT="trace view/test_diff" (rooms, or single programs)
	@$(if $(UNIT_RUN),,echo "make unit: no unit test is below tests/unit/ by the name $(UNIT)" >&2; exit 2)
	@tools/run-units $(UNIT_RUN)

LOG_GENERATORS := \
	$(addprefix $(BUILD)/tests/bench/,steplog-gen ring-gen accesslog-gen probelog-gen calllog-gen pagelog-gen)
e2e: all victims faults-programs $(CAPTURE_SO) $(CAPTURE_LIB) $(LOG_GENERATORS) | packages-test
e2e: ## end-to-end tests only: make e2e E2E="tests/e2e/test_report.py -k json"
	@BUILD="$(BUILD)" WATCHCTL="$(abspath $(PROG))" PYTHONDONTWRITEBYTECODE=1 PYTEST="$(PYTEST)" E2E_MARK="$(E2E_MARK)" tools/run-e2e $(E2E)

test-slow: ## end-to-end tests that take long, judge time or chance, or repeat a claim (E2E_SAMPLE=0/6: a sixth)
	$(Q)$(MAKE) --no-print-directory e2e E2E_MARK=slow

e2e-durations: ## end-to-end tests, and how long each takes into tests/e2e/durations.txt (on a quiet machine)
	$(Q)E2E_WRITE_DURATIONS=1 E2E_SHARE=all $(MAKE) --no-print-directory e2e

# NEAR="--since COMMIT --seconds 30 --plan"
NEAR ?=
near: | packages-test packages-check ## checks and tests of what a change is near to, in two minutes (NEAR=--plan)
	@BUILD="$(BUILD)" $(PYTHON) -B tools/near $(NEAR)

oracle: $(LIB) $(CAPTURE_SO) | packages-oracle ## our unwinder against gdb, libunwind and libdwfl, on real programs (minutes)
	@tests/oracle/run-gdb-oracle $(BUILD)
	@tests/oracle/run-unwind-oracle $(BUILD)
	@tests/oracle/run-preload-oracle $(BUILD)

$(LIB_SO): $(LIB_OBJ) tools/test.mk
	$(if $(Q),@echo "  LD      $@")
	$(Q)$(CC) -shared $(CFLAGS) $(LDFLAGS) -o $@ $(LIB_OBJ) $(LIBS)

# Tests themselves are not optimized: most of the time goes into compiling them. Those that look at their own code, or
# at all of their own memory, or compute much, are, and have the library inside.
UNIT_WHOLE := $(addprefix $(BUILD)/tests/unit/test_,forked listing patch_group self_walk stepper_ptrace_harm trampoline)
UNIT_CFLAGS = $(CFLAGS:-O2=-O0)
UNIT_LIB = $(LIB_SO) -Wl,-rpath,$(abspath $(BUILD))
$(UNIT_WHOLE): UNIT_CFLAGS = $(CFLAGS)
$(UNIT_WHOLE): UNIT_LIB = $(LIB)
$(UNIT_WHOLE): $(LIB)
$(filter-out $(UNIT_WHOLE),$(UNIT_BIN)): $(LIB_SO)

$(UNIT_BIN): $(BUILD)/tests/unit/%: %.c $(CAPTURE_PARTS) $(CALLTRACE_PARTS) tools/test.mk | packages-test
	@mkdir -p $(@D)
	$(if $(Q),@echo "  UNIT    $*")
	$(Q)$(CC) $(BASE_CFLAGS) $(PKG_CFLAGS) $(UNIT_CFLAGS) $(LDFLAGS) -o $@ $< \
		$(UNIT_LIB) $(UNIT_MORE) $(CAPTURE_PARTS) $(CALLTRACE_PARTS) $(UNIT_LIB) $(LIBS) $(UNIT_LIBS) -lcmocka

-include $(UNIT_BIN:%=%.d)

# The command of FRESH in a bare Debian: FRESH_DIR=DIR keeps its root file system, and what was installed there.
FRESH ?= make demo test
.PHONY: fresh
fresh: ## what FRESH says (make demo test), in a new, bare Debian 12: shows what only this machine has
	@FRESH_DIR="$(FRESH_DIR)" tools/fresh $(FRESH)
