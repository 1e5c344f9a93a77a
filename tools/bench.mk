# `make bench`: what a hit costs, in one run, against the floor and against other tools. See docs/bench.md.

BENCH_ARGS ?=

.PHONY: bench
bench: $(PROG) $(BUILD)/tests/bench/hits $(BUILD)/tests/bench/ptrace_loop | packages-bench ## measures a hit against perf, bpftrace, gdb and lldb
	@$(PYTHON) -B tests/bench/bench.py --watchctl $(PROG) --hits $(BUILD)/tests/bench/hits \
		--ptrace-loop $(BUILD)/tests/bench/ptrace_loop \
		--json $(BUILD)/bench.json $(BENCH_ARGS)

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
