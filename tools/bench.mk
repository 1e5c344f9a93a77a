# `make bench`: what a hit costs, in one run, against the floor and against other tools. See docs/bench.md.

BENCH_ARGS ?=

.PHONY: bench bench-stacks bench-symbols
bench: $(PROG) $(BUILD)/tests/bench/hits $(BUILD)/tests/bench/ptrace_loop | packages-bench ## measures a hit against perf, bpftrace, gdb and lldb
	@$(PYTHON) -B tests/bench/bench.py --watchctl $(PROG) --hits $(BUILD)/tests/bench/hits \
		--ptrace-loop $(BUILD)/tests/bench/ptrace_loop \
		--json $(BUILD)/bench.json $(BENCH_ARGS)
	@$(MAKE) --no-print-directory bench-stacks bench-symbols

STACK_BENCH := $(BUILD)/tests/bench/captures $(BUILD)/tests/bench/walks
STACK_BENCH_ARGS ?=
bench-stacks: $(PROG) $(STACK_BENCH) | packages-bench ## what a stack and a capture cost, against other walkers
	@$(PYTHON) -B tests/bench/stacks.py --watchctl $(PROG) --captures $(BUILD)/tests/bench/captures \
		--walks $(BUILD)/tests/bench/walks --json $(BUILD)/bench-stacks.json $(STACK_BENCH_ARGS)

SYMBOL_BENCH_ARGS ?=
bench-symbols: $(PROG) | packages-bench ## naming the addresses of a recording, against perf script
	@$(PYTHON) -B tests/bench/symbols.py --watchctl $(PROG) --json $(BUILD)/bench-symbols.json $(SYMBOL_BENCH_ARGS)

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

-include $(BUILD)/tests/bench/hits.d
