# Checks of the source and of what it does with bad luck: layers, lint, format, sanitizers, fuzzing.
# None of them writes into the tree, but for format-fix.

SOURCE_DIRS := $(wildcard .ci calltrace completion debian debugger examples handler lldb-scripts probe stackwalk tests tools watchctl)
C_FILES = $(sort $(shell find $(SOURCE_DIRS) -name '*.[ch]' -o -name '*.cc' -o -name '*.hh'))
PRODUCT_C = $(filter-out %.bpf.c,$(filter calltrace/% handler/% probe/% stackwalk/% watchctl/%,$(filter %.c,$(C_FILES))))
SHELL_SCRIPTS = $(sort $(shell grep -rlIE '^\#!.*[/ ](ba)?sh( |$$)|^\# shellcheck shell=' $(SOURCE_DIRS)))
# The headers that the build makes: some sources cannot be parsed without them.
GENERATED := $(BUILD)/handler_image.h $(BUILD)/record.skel.h $(BUILD)/tasks.skel.h $(BUILD)/flow.skel.h $(BUILD)/syscall_names.h $(BUILD)/page_assets.h $(BUILD)/page_diff_assets.h $(BUILD)/perfetto_trace.pb-c.h

# The files that differ from a commit, and those that git does not know yet.
changed_since = $(shell git diff --name-only --diff-filter=d $(1) && git ls-files --others --exclude-standard)

.PHONY: check layers sleeps lines schema-show lint tidy analyze cppcheck shellcheck manlint format format-fix
.PHONY: asan tsan tsan-parts valgrind fuzz fuzz-programs
check: layers sleeps lines lint format ## layers, sleeps, lines, lint, format: what is known without running anything

layers: all ## every include and every symbol against the layers
	@tools/layers . $(BUILD)

sleeps: ## every test that sleeps for a fixed time has a reason in tests/sleeps.txt
	@tools/check-sleeps

lines: ## what a change adds (since LINT_SINCE): comments that begin with What or Who, lines of over 120 columns
	@tools/check-lines $(or $(LINT_SINCE),$(shell tools/lint-since))

# FORMAT_SINCE=COMMIT: only the files that differ from it.
FORMAT_SINCE ?=
FORMAT_C = $(if $(FORMAT_SINCE),$(filter $(C_FILES),$(call changed_since,$(FORMAT_SINCE))),$(C_FILES))
format: | packages-check ## lists the files that clang-format would change
	@printf '%s\n' $(FORMAT_C) | xargs -r -P"$$(nproc)" -n64 $(CLANG_FORMAT) --dry-run -Werror 2>&1 \
		| sed -n 's/^\([^ :]*\):.*code should be.*/\1/p' | sort -u \
		| sed 's/^/not formatted (make format-fix): /' | { ! grep .; }
	@echo "format: $(words $(FORMAT_C)) files"

format-fix: | packages-check ## rewrites them
	$(CLANG_FORMAT) -i $(C_FILES)

# Of each file what is its own, behind what it includes.
SCHEMA_OWN = $(CC) -E -std=gnu11 -D_GNU_SOURCE -I. watchctl/trace/log/$(1) \
	| awk -v own="$(1)" '/^\# [0-9]+ "/ { mine = index($$3, own); next } mine && NF'
schema-show: | packages-check ## what the rows of events expand to: the metadata, what writes an event, what reads it
	@$(call SCHEMA_OWN,tracelog_event_text.c) | tr -d '\n' | sed 's/\\"/\x01/g; s/" *"//g; s/\\n/\n/g; s/\\t/\t/g; s/\x01/"/g'
	@for f in encode decode; do $(call SCHEMA_OWN,tracelog_$$f.c) | $(CLANG_FORMAT); done

lint: tidy analyze cppcheck shellcheck manlint ## clang-tidy, gcc's analyzer, cppcheck, shellcheck, groff

# LINT_SINCE=COMMIT: only the files that differ from it; the gate takes what tools/lint-since prints. LINT_SAMPLE=K/N: of
# all files, one part of N.
LINT_SINCE ?=
LINT_SAMPLE ?=
LINT_CHANGED = $(call changed_since,$(LINT_SINCE))
LINT_PART = $(shell printf '%s\n' $(PRODUCT_C) | awk 'NR % $(lastword $(subst /, ,$(LINT_SAMPLE))) == $(firstword $(subst /, ,$(LINT_SAMPLE)))')
LINT_C = $(if $(LINT_SINCE),$(filter $(PRODUCT_C),$(LINT_CHANGED)),$(if $(LINT_SAMPLE),$(LINT_PART),$(PRODUCT_C)))

# A few files at a time, two runs at once. tools/tidy.h says why it is there; base/ defines what it wraps.
TIDY_CFLAGS := -std=gnu11 -D_GNU_SOURCE -DWATCHCTL_VERSION=\"$(VERSION)\" -DLLDB_SONAME=\"\" -DLLDB_VERSION=\"19\" -DLLVM_MAJOR=\"19\" -I. -I$(BUILD) -isystem $(PASS_DIR)/include $(PKG_CFLAGS)
TIDY_PLAIN = $(filter calltrace/pass/% calltrace/cc/% handler/% probe/% watchctl/base/%,$(PRODUCT_C))
TIDY = xargs -r -P2 -n4 sh -c 'tools/quietly $(CLANG_TIDY) --quiet --warnings-as-errors="*" "$$@" -- $(TIDY_CFLAGS) $(1)' tidy
tidy: $(GENERATED) | packages-check
	@printf '%s\n' $(filter $(TIDY_PLAIN),$(LINT_C)) | $(call TIDY,)
	@printf '%s\n' $(filter-out $(TIDY_PLAIN),$(LINT_C)) | $(call TIDY,-include tools/tidy.h)
	@echo "clang-tidy: $(words $(LINT_C)) of $(words $(PRODUCT_C)) files"

# What owns memory is followed by gcc, which knows the cleanup attribute; clang-tidy and cppcheck do not:
# double free, use after free, unclosed files. Not leaks: gcc 12 loses what vec_push() stores (LeakSanitizer
# does not); nor uninitialised values: it takes arrays filled by a loop for unset (clang-tidy does not).
ANALYZE := -fanalyzer -Wno-analyzer-malloc-leak -Wno-analyzer-use-of-uninitialized-value -Werror
analyze: $(GENERATED) | packages-check
	@printf '%s\n' $(filter-out handler/% probe/%,$(LINT_C)) \
		| xargs -r -P2 -n1 gcc $(filter-out -MMD -MP,$(BASE_CFLAGS)) -isystem $(PASS_DIR)/include $(PKG_CFLAGS) -DLLVM_MAJOR=\"19\" -O1 $(ANALYZE) -S -o /dev/null
	@echo "gcc -fanalyzer: $(words $(LINT_C)) of $(words $(PRODUCT_C)) files"

cppcheck: $(GENERATED) | packages-check
	@printf '%s\n' $(LINT_C) | grep . > $(BUILD)/cppcheck.files || { echo "cppcheck: no file has changed"; exit 0; }; \
	cppcheck -j2 --quiet --enable=warning,style,performance,portability --std=c11 --library=posix \
		--inline-suppr --suppressions-list=tools/cppcheck.suppressions --error-exitcode=1 \
		--template='{file}:{line}: {severity}: {message} [{id}]' -D_GNU_SOURCE '-DPRIx64="lx"' '-DPRIu64="lu"' '-DPRId64="ld"' -DPROTOBUF_C_VERSION_NUMBER=1004001 -I. -I$(BUILD) --file-list=$(BUILD)/cppcheck.files
	@echo "cppcheck: $(words $(LINT_C)) of $(words $(PRODUCT_C)) files"

shellcheck: | packages-check
	@shellcheck $(SHELL_SCRIPTS)
	@echo "shellcheck: $(words $(SHELL_SCRIPTS)) files"

manlint: | packages-check
	@mkdir -p $(BUILD)/manroot && for s in 1 3; do ln -sfn $(CURDIR)/man $(BUILD)/manroot/man$$s; done
	@for page in $(MAN_PAGES); do groff -man -ww -z -Tutf8 -I$(BUILD)/manroot $$page 2>&1; done | ( ! grep . )
	@echo "man pages: $(words $(MAN_PAGES)) files"

# The library, the tests and the program with AddressSanitizer and UBSan. The handler is never instrumented:
# it runs in another program. Victims are ordinary programs, so the live tests show both sides of the fence.
SANITIZE := -O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all
# ASAN_SAMPLE=K/N: of the live sessions, one part of N; CI takes another part for each commit.
asan: ## unit tests and live sessions under AddressSanitizer and UBSan
	$(Q)$(ASAN_MAKE) unit
	$(Q)E2E_SAMPLE="$(ASAN_SAMPLE)" $(ASAN_MAKE) e2e E2E="$(ASAN_E2E)"
ASAN_MAKE = WAIT_FACTOR=4 ASAN_OPTIONS=detect_stack_use_after_return=1 \
	LSAN_OPTIONS=suppressions=$(CURDIR)/tools/lsan.suppressions:print_suppressions=0 $(MAKE) --no-print-directory BUILD=$(BUILD)-asan CFLAGS="$(SANITIZE)"
ASAN_E2E ?= $(addprefix tests/e2e/test_,report.py report_tags.py report_steps.py step.py diff.py symbolize.py tags.py accesses.py launch.py bad_input.py \
	bad_logs.py record.py flight_recorder.py export.py page.py top.py repl.py repl_values.py repl_terminal.py)

# Threads of ours: diff reads two logs in two, and libstackwalk is used by all of a program's and has one that writes
# the log. Here it is instrumented as well, other than everywhere else. Not test_self_walk:
# its signals interrupt ThreadSanitizer's own runtime, which has no rules to be walked by.
TSAN_FLAGS := -O1 -g -fno-omit-frame-pointer -fsanitize=thread
TSAN_UNITS ?= test_heartbeat test_out_queue test_diff test_diff_align test_diff_masks test_tag_collector test_capture_note test_progress
TSAN_E2E ?= tests/e2e/test_diff.py
TSAN_LOGS ?= 8
tsan: ## what has threads, under ThreadSanitizer
	$(Q)WAIT_FACTOR=4 TSAN_OPTIONS=halt_on_error=1:history_size=5:suppressions=$(CURDIR)/tools/tsan.suppressions $(MAKE) --no-print-directory BUILD=$(BUILD)-tsan \
		CFLAGS="$(TSAN_FLAGS)" CAPTURE_PLAIN="$(TSAN_FLAGS)" tsan-parts

tsan-parts: $(TSAN_UNITS:%=$(BUILD)/tests/unit/%) $(BUILD)/tests/threads/capture_threads
	@tools/run-units $(TSAN_UNITS:%=$(BUILD)/tests/unit/%)
	@dir=$$(mktemp -d) && $(BUILD)/tests/threads/capture_threads $$dir $(TSAN_LOGS) && rm -rf $$dir
	$(Q)$(MAKE) --no-print-directory e2e E2E="$(TSAN_E2E)"

$(BUILD)/tests/threads/capture_threads: tests/threads/capture_threads.c $(CAPTURE_PARTS) $(LIB)
	@mkdir -p $(@D)
	$(if $(Q),@echo "  CC      $@")
	$(Q)$(CC) $(BASE_CFLAGS) $(CFLAGS) $(LDFLAGS) -o $@ $< $(CAPTURE_PARTS) $(LIB) $(LIBS)

# valgrind looks at what the sanitizers were not built into: libdw, libelf, readline. Not in its list: what it cannot
# emulate (debug registers, single steps by the trap flag, perf events that count its own instructions, SIGTRAP and faults
# that a test makes on purpose, 80-bit floats, allocators of a test's own, LLDB), and what takes it many minutes, for it is 20 to 50 times
# slower: large programs, which the sanitizers run.
VALGRIND_NOT := $(addprefix test_,access live live_watches ptrace mover_% handler target tracee kernel_access placed process_watch step_recorder \
	self_walk% planner probe_runtime lldb% steprec% cfi fault_guard abi direct_map) \
	$(addprefix test_,annotate code_name locate eh_frame_real symbol_damage symbol_sources symbol_names symbolizer module tls insn disasm_memory locate_languages progress stack_tree prototypes step_value tracelog_ring tracelog_follow)
VALGRIND := valgrind -q --error-exitcode=99 --leak-check=full --show-leak-kinds=definite,possible --errors-for-leak-kinds=definite,possible \
	--track-fds=no --trace-children=no --suppressions=$(CURDIR)/tools/valgrind.suppressions
VALGRIND_UNITS ?= $(filter-out $(VALGRIND_NOT),$(basename $(notdir $(UNIT_SRC))))
valgrind: $(VALGRIND_UNITS:%=$(BUILD)/tests/unit/%) all $(BUILD)/tests/bench/steplog-gen $(BUILD)/tests/bench/accesslog-gen | packages-check ## unit tests and sessions that read logs, under valgrind's memcheck
	@VALGRIND="$(VALGRIND)" WAIT_FACTOR=10 tools/run-valgrind $(BUILD) $(VALGRIND_UNITS)

# libFuzzer: `make fuzz FUZZ_S=600 FUZZ="tracelog cfi"`. What is found is left in $(BUILD)-fuzz/NAME-crash-*;
# new inputs go to $(BUILD)-fuzz/corpus/NAME, the seeds in tests/fuzz/corpus/NAME are only read.
FUZZ_S ?= 10
FUZZ_ALL := $(patsubst tests/fuzz/fuzz_%.c,%,$(wildcard tests/fuzz/fuzz_*.c))
FUZZ ?= $(FUZZ_ALL)
FUZZ_CFLAGS := -O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined,fuzzer-no-link -fno-sanitize-recover=all
fuzz: | packages-check ## libFuzzer on all that reads hostile bytes, FUZZ_S seconds each
	$(Q)$(MAKE) --no-print-directory CC=$(CLANG) BUILD=$(BUILD)-fuzz CFLAGS="$(FUZZ_CFLAGS)" fuzz-programs
	$(Q)FUZZ_S=$(FUZZ_S) tools/run-fuzzers $(BUILD)-fuzz $(FUZZ)

fuzz-programs: $(FUZZ_ALL:%=$(BUILD)/tests/fuzz/fuzz_%)

# What they share; and for those that read what people type, the command line but for its main.
FUZZ_PARTS := $(BUILD)/tests/fuzz/check.o $(BUILD)/tests/fuzz/log.o
FUZZ_CLI := $(filter-out $(BUILD)/watchctl/cli/main.o,$(CLI_OBJ))
$(BUILD)/tests/fuzz/fuzz_words: FUZZ_MORE := $(FUZZ_CLI)
$(BUILD)/tests/fuzz/fuzz_words: FUZZ_LIBS := $(CLI_LIBS)
$(BUILD)/tests/fuzz/fuzz_words: $(FUZZ_CLI)
$(BUILD)/tests/fuzz/fuzz_%: tests/fuzz/fuzz_%.c $(FUZZ_PARTS) $(LIB)
	@mkdir -p $(@D)
	$(if $(Q),@echo "  FUZZER  $*")
	$(Q)$(CC) $(BASE_CFLAGS) $(PKG_CFLAGS) $(CFLAGS) -fsanitize=fuzzer -o $@ $< $(FUZZ_MORE) $(FUZZ_PARTS) $(LIB) $(LIBS) $(FUZZ_LIBS)

.SECONDARY: $(FUZZ_PARTS)
-include $(FUZZ_ALL:%=$(BUILD)/tests/fuzz/fuzz_%.d) $(FUZZ_PARTS:.o=.d)
