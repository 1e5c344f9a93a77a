# `make bench`: what a hit costs, in one run, against the floor and against other tools. See docs/bench.md.

BENCH_ARGS ?=

.PHONY: bench bench-stacks bench-symbols bench-steps
bench: $(PROG) $(BUILD)/tests/bench/hits $(BUILD)/tests/bench/ptrace_loop | packages-bench ## measures a hit against perf, bpftrace, gdb and lldb
	@$(PYTHON) -B tests/bench/bench.py --watchctl $(PROG) --hits $(BUILD)/tests/bench/hits \
		--ptrace-loop $(BUILD)/tests/bench/ptrace_loop \
		--json $(BUILD)/bench.json $(BENCH_ARGS)
	@$(MAKE) --no-print-directory bench-stacks bench-symbols bench-steps

STACK_BENCH := $(BUILD)/tests/bench/captures $(BUILD)/tests/bench/walks
STACK_BENCH_ARGS ?=
bench-stacks: $(PROG) $(STACK_BENCH) | packages-bench ## what a stack and a capture cost, against other walkers
	@$(PYTHON) -B tests/bench/stacks.py --watchctl $(PROG) --captures $(BUILD)/tests/bench/captures \
		--walks $(BUILD)/tests/bench/walks --json $(BUILD)/bench-stacks.json $(STACK_BENCH_ARGS)

SYMBOL_BENCH_ARGS ?=
bench-symbols: $(PROG) | packages-bench ## naming the addresses of a recording, against perf script
	@$(PYTHON) -B tests/bench/symbols.py --watchctl $(PROG) --json $(BUILD)/bench-symbols.json $(SYMBOL_BENCH_ARGS)

PATCH_PLAN_ARGS ?=
.PHONY: bench-patch-plan
bench-patch-plan: $(PROG) | packages-bench ## the planner of patches: instructions a second, and sites without a trap
	@$(PYTHON) -B tests/bench/patch_plan.py --watchctl $(PROG) --json $(BUILD)/bench-patch-plan.json $(PATCH_PLAN_ARGS)

PATCH_BENCH_ARGS ?=
.PHONY: bench-patch
bench-patch: $(PROG) $(BUILD)/tests/bench/patch_calls | packages-bench ## what a probe costs, against a uprobe
	@$(PYTHON) -B tests/bench/patch_hits.py --watchctl $(PROG) --calls $(abspath $(BUILD)/tests/bench/patch_calls) \
		--json $(BUILD)/bench-patch.json $(PATCH_BENCH_ARGS)

TRACE_BENCH_ARGS ?=
.PHONY: bench-trace
bench-trace: $(PROG) $(BUILD)/tests/bench/patch_calls | packages-bench ## what recording every call costs, against uftrace and uprobes
	@$(PYTHON) -B tests/bench/trace_calls.py --watchctl $(abspath $(PROG)) --calls $(abspath $(BUILD)/tests/bench/patch_calls) \
		--json $(BUILD)/bench-trace.json $(TRACE_BENCH_ARGS)

.PHONY: bench-flow
bench-flow: $(PROG) $(BUILD)/tests/bench/flow_events $(BUILD)/tests/bench/flow_floor $(BUILD)/flow_floor.bpf.o | packages-bench ## what recording the system's events costs, against perf record and ftrace
	@$(PYTHON) -B tests/bench/flow.py --watchctl $(abspath $(PROG)) --events $(abspath $(BUILD)/tests/bench/flow_events) \
		--floor $(abspath $(BUILD)/tests/bench/flow_floor) $(abspath $(BUILD)/flow_floor.bpf.o) --json $(BUILD)/bench-flow.json $(FLOW_BENCH_ARGS)

$(BUILD)/tests/bench/flow_events: tests/bench/flow_events.c | packages-bench
	@mkdir -p $(@D)
	$(if $(Q),@echo "  CC      $<")
	$(Q)$(CC) $(BASE_CFLAGS) -O2 -g -o $@ $<

$(BUILD)/tests/bench/flow_floor: tests/bench/flow_floor.c | packages-bench
	@mkdir -p $(@D)
	$(if $(Q),@echo "  CC      $<")
	$(Q)$(CC) $(BASE_CFLAGS) -O2 -g -o $@ $< -lbpf

$(BUILD)/tests/bench/patch_calls: tests/bench/patch_calls.c | packages-bench
	@mkdir -p $(@D)
	$(if $(Q),@echo "  CC      $<")
	$(Q)$(CC) $(BASE_CFLAGS) -O2 -g -o $@ $<

STEP_BENCH_ARGS ?=
bench-steps: all $(BUILD)/tests/bench/step_calls $(BUILD)/tests/bench/steplog-gen | packages-bench ## a recorded call against LLDB; diff of large logs
	@$(PYTHON) -B tests/bench/steps.py --watchctl $(PROG) --calls $(BUILD)/tests/bench/step_calls \
		--generator $(BUILD)/tests/bench/steplog-gen --json $(BUILD)/bench-steps.json $(STEP_BENCH_ARGS)

$(BUILD)/tests/bench/step_calls: tests/bench/step_calls.c | packages-bench
	@mkdir -p $(@D)
	$(if $(Q),@echo "  CC      $<")
	$(Q)$(CC) $(BASE_CFLAGS) -O1 -g -o $@ $<

# The same chain of functions twice, with and without frame pointers.
BENCH_FP = $(CC) $(BASE_CFLAGS) -O2 -g -fno-omit-frame-pointer -fno-optimize-sibling-calls -c -o $@ $<
BENCH_NOFP = $(CC) $(BASE_CFLAGS) -O2 -g -fomit-frame-pointer -fno-optimize-sibling-calls -DNO_FP -c -o $@ $<
$(BUILD)/tests/bench/captures_fp.o: tests/bench/captures_fp.c
	@mkdir -p $(@D)
	$(Q)$(BENCH_FP)
$(BUILD)/tests/bench/captures_nofp.o: tests/bench/captures_fp.c
	@mkdir -p $(@D)
	$(Q)$(BENCH_NOFP)
$(BUILD)/tests/bench/captures: tests/bench/captures.c $(BUILD)/tests/bench/captures_fp.o \
		$(BUILD)/tests/bench/captures_nofp.o $(CAPTURE_SO) | packages-bench
	@mkdir -p $(@D)
	$(if $(Q),@echo "  CC      $<")
	$(Q)$(CC) $(BASE_CFLAGS) -O2 -g -o $@ $< $(BUILD)/tests/bench/captures_fp.o $(BUILD)/tests/bench/captures_nofp.o \
		-L$(BUILD) -lstackwalk -Wl,-rpath,$(abspath $(BUILD)) -lpthread

# With our own parts, as a program that is linked with the library has them.
$(BUILD)/tests/bench/walks: tests/bench/walks.c $(LIB) $(CAPTURE_PARTS) | packages-bench
	@mkdir -p $(@D)
	$(if $(Q),@echo "  CC      $<")
	$(Q)$(CC) $(BASE_CFLAGS) -O2 -g -o $@ $< $(CAPTURE_PARTS) $(LIB) -lunwind -ldl

# With frame pointers, so that perf's frame-pointer walk works as well as ours.
$(BUILD)/tests/bench/hits: tests/bench/hits.c | packages-bench
	@mkdir -p $(@D)
	$(if $(Q),@echo "  CC      $<")
	$(Q)$(CC) $(BASE_CFLAGS) -O2 -g -fno-omit-frame-pointer -o $@ $< -lpthread

$(BUILD)/tests/bench/ptrace_loop: tests/bench/ptrace_loop.c | packages-bench
	@mkdir -p $(@D)
	$(if $(Q),@echo "  CC      $<")
	$(Q)$(CC) $(BASE_CFLAGS) -O2 -o $@ $<

# Step logs of any size, and what reading them costs.
STEPLOG_CALLS ?= 5000000
.PHONY: bench-steplog
bench-steplog: $(PROG) $(BUILD)/tests/bench/steplog-gen $(BUILD)/tests/bench/steplog-read ## reading a step log, and summing it up
	@rm -rf $(BUILD)/bench.steplog
	@$(BUILD)/tests/bench/steplog-gen -n $(STEPLOG_CALLS) $(BUILD)/bench.steplog
	@$(BUILD)/tests/bench/steplog-read $(BUILD)/bench.steplog
	@bash -c 'TIMEFORMAT="watchctl report: %R s"; time $(PROG) report $(BUILD)/bench.steplog >/dev/null'
	@rm -rf $(BUILD)/bench.steplog

STEPLOG_BIN := $(BUILD)/tests/bench/steplog-gen $(BUILD)/tests/bench/steplog-read
$(BUILD)/tests/bench/steplog-gen: tests/bench/steplog_change.c tests/bench/steplog_tables.c $(wildcard tests/bench/steplog_*.h)
$(STEPLOG_BIN): $(BUILD)/tests/bench/steplog-%: tests/bench/steplog_%.c $(LIB) | packages
	@mkdir -p $(@D)
	$(if $(Q),@echo "  CC      $<")
	$(Q)$(CC) $(BASE_CFLAGS) $(CFLAGS) -o $@ $(filter %.c,$^) $(LIB) $(LIBS)

# Logs of accesses, of what probes record, and of compact calls, of any size, for the tests of what reads them.
$(addprefix $(BUILD)/tests/bench/,accesslog-gen probelog-gen calllog-gen): $(BUILD)/tests/bench/%log-gen: tests/bench/%log_gen.c $(LIB) | packages
	@mkdir -p $(@D)
	$(if $(Q),@echo "  CC      $<")
	$(Q)$(CC) $(BASE_CFLAGS) $(CFLAGS) -o $@ $< $(LIB) $(LIBS)

# What an access costs in a log: time, bytes, and reading it again.
LOG_ACCESSES ?= 2000000
.PHONY: bench-log
bench-log: $(BUILD)/tests/bench/log-cost ## what the log costs: ns and bytes an access, events read a second
	@rm -rf $(BUILD)/bench.log && mkdir -p $(BUILD)/bench.log
	@$(BUILD)/tests/bench/log-cost $(BUILD)/bench.log $(LOG_ACCESSES)
	@rm -rf $(BUILD)/bench.log

# Costs of an entry or exit of a function in a log.
COMPACT_EVENTS ?= 20000000
.PHONY: bench-compact
bench-compact: $(BUILD)/tests/bench/compact-cost ## what calls cost in a log: ns and bytes an event, events read a second
	@rm -rf $(BUILD)/bench.compact && mkdir -p $(BUILD)/bench.compact
	@$(BUILD)/tests/bench/compact-cost $(BUILD)/bench.compact $(COMPACT_EVENTS)
	@rm -rf $(BUILD)/bench.compact

# Their calls and returns, merged by time, counted and printed.
.PHONY: bench-calllog
bench-calllog: $(PROG) $(BUILD)/tests/bench/calllog-gen ## reading calls of four threads in files of their own: the table of functions, and each call
	@rm -rf $(BUILD)/bench.calllog
	@$(BUILD)/tests/bench/calllog-gen -t 4 -n $$(($(COMPACT_EVENTS) / 4)) -f 20000 $(BUILD)/bench.calllog
	@bash -c 'TIMEFORMAT="watchctl report: %R s"; time $(PROG) report $(BUILD)/bench.calllog >/dev/null'
	@bash -c 'TIMEFORMAT="watchctl report --calls: %R s"; time $(PROG) report --calls $(BUILD)/bench.calllog >/dev/null'
	@rm -rf $(BUILD)/bench.calllog

LOG_BIN := $(BUILD)/tests/bench/log-cost $(BUILD)/tests/bench/ring-gen $(BUILD)/tests/bench/compact-cost
$(BUILD)/tests/bench/compact-cost: tests/bench/compact_cost.c
$(BUILD)/tests/bench/ring-gen: tests/bench/ring_gen.c
$(BUILD)/tests/bench/log-cost: tests/bench/log_cost.c
$(LOG_BIN): $(LIB) | packages
	@mkdir -p $(@D)
	$(if $(Q),@echo "  CC      $<")
	$(Q)$(CC) $(BASE_CFLAGS) $(CFLAGS) -o $@ $(filter %.c,$^) $(LIB) $(LIBS)

-include $(BUILD)/tests/bench/hits.d

# `make compare`: what other tools tell of accesses whose number and kind are known. See docs/comparison.md.
.PHONY: compare
compare: $(PROG) $(BUILD)/tests/compare/asked | packages-bench ## counts, kinds and harm beside gdb, lldb, perf and bpftrace
	@$(PYTHON) -B tests/compare/compare.py --watchctl $(PROG) --program $(BUILD)/tests/compare/asked \
		--json $(BUILD)/compare.json $(COMPARE_ARGS)

$(BUILD)/tests/compare/asked: tests/compare/asked.c tests/compare/accesses.h | packages-bench
	@mkdir -p $(@D)
	$(if $(Q),@echo "  CC      $<")
	$(Q)$(CC) -I. -Wall -Wextra -Wno-unused-parameter -O1 -g -o $@ $<

COMPILE_BENCH_ARGS ?=
.PHONY: bench-compile
bench-compile: all $(SQLITE_SOURCE)/package.json | packages-bench ## what a call costs that was compiled to be recorded, against hooks, XRay and uftrace; SQLite
	@$(PYTHON) -B tests/bench/compile_calls.py --build $(BUILD) --watchctl $(PROG) --sqlite $(SQLITE_SOURCE)/deps/sqlite3 \
		--json $(BUILD)/bench-compile.json $(COMPILE_BENCH_ARGS)
