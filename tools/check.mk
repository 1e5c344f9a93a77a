# Checks of the source and of what it does with bad luck: layers, lint, format, sanitizers, fuzzing.
# None of them writes into the tree, but for format-fix.

SOURCE_DIRS := $(wildcard .ci capture completion debian debugger examples handler lldb-scripts stackwalk tests tools watchctl)
C_FILES = $(sort $(shell find $(SOURCE_DIRS) -name '*.[ch]' -o -name '*.cc' -o -name '*.hh'))
PRODUCT_C = $(filter-out %.bpf.c,$(filter capture/% handler/% lldb-scripts/% stackwalk/% watchctl/%,$(filter %.c,$(C_FILES))))
SHELL_SCRIPTS = $(sort $(shell grep -rlIE '^\#!.*[/ ](ba)?sh( |$$)|^\# shellcheck shell=' $(SOURCE_DIRS)))
# The headers that the build makes: some sources cannot be parsed without them.
GENERATED := $(BUILD)/handler_image.h $(BUILD)/record.skel.h $(BUILD)/syscall_names.h $(BUILD)/page_assets.h

.PHONY: check layers lint tidy analyze cppcheck shellcheck manlint format format-fix asan fuzz fuzz-programs
check: layers lint format ## layers, lint and format: what can be known without running anything

layers: ## every include against the layers
	@tools/layers

format: | packages-check ## lists the files that clang-format would change
	@$(CLANG_FORMAT) --dry-run -Werror $(C_FILES) 2>&1 | sed -n 's/^\([^ :]*\):.*code should be.*/\1/p' \
		| sort -u | sed 's/^/not formatted (make format-fix): /' | { ! grep .; }
	@echo "format: $(words $(C_FILES)) files"

format-fix: | packages-check ## rewrites them
	$(CLANG_FORMAT) -i $(C_FILES)

lint: tidy analyze cppcheck shellcheck manlint ## clang-tidy, gcc's analyzer, cppcheck, shellcheck, groff

# A few files at a time, two runs at once. tools/tidy.h says why it is there; base/ defines what it wraps.
TIDY_CFLAGS := -std=gnu11 -D_GNU_SOURCE -DWATCHCTL_VERSION=\"$(VERSION)\" -DLLDB_SONAME=\"\" -DLLDB_VERSION=\"19\" -I. -I$(BUILD) $(PKG_CFLAGS)
TIDY_PLAIN = $(filter handler/% watchctl/base/%,$(PRODUCT_C))
TIDY = xargs -P2 -n4 sh -c 'tools/quietly $(CLANG_TIDY) --quiet --warnings-as-errors="*" "$$@" -- $(TIDY_CFLAGS) $(1)' tidy
tidy: $(GENERATED) | packages-check
	@printf '%s\n' $(TIDY_PLAIN) | $(call TIDY,)
	@printf '%s\n' $(filter-out $(TIDY_PLAIN),$(PRODUCT_C)) | $(call TIDY,-include tools/tidy.h)
	@echo "clang-tidy: $(words $(PRODUCT_C)) files"

# What owns memory is followed by gcc, which knows the cleanup attribute; clang-tidy and cppcheck do not:
# double free, use after free, unclosed files. Not leaks: gcc 12 loses what vec_push() stores (LeakSanitizer
# does not); nor uninitialised values: it takes arrays filled by a loop for unset (clang-tidy does not).
ANALYZE := -fanalyzer -Wno-analyzer-malloc-leak -Wno-analyzer-use-of-uninitialized-value -Werror
analyze: $(GENERATED) | packages-check
	@printf '%s\n' $(filter-out handler/%,$(PRODUCT_C)) \
		| xargs -P2 -n1 gcc $(filter-out -MMD -MP,$(BASE_CFLAGS)) $(PKG_CFLAGS) -O1 $(ANALYZE) -S -o /dev/null
	@echo "gcc -fanalyzer: $(words $(PRODUCT_C)) files"

cppcheck: $(GENERATED) | packages-check
	@cppcheck -j2 --quiet --enable=warning,style,performance,portability --std=c11 --library=posix \
		--inline-suppr --suppressions-list=tools/cppcheck.suppressions --error-exitcode=1 \
		--template='{file}:{line}: {severity}: {message} [{id}]' -D_GNU_SOURCE '-DPRIx64="lx"' '-DPRIu64="lu"' '-DPRId64="ld"' -I. -I$(BUILD) $(PRODUCT_C)
	@echo "cppcheck: $(words $(PRODUCT_C)) files"

shellcheck: | packages-check
	@shellcheck $(SHELL_SCRIPTS)
	@echo "shellcheck: $(words $(SHELL_SCRIPTS)) files"

manlint: | packages-check
	@mkdir -p $(BUILD)/manroot && ln -sfn $(CURDIR)/man $(BUILD)/manroot/man3
	@for page in $(MAN_PAGES); do groff -man -ww -z -Tutf8 -I$(BUILD)/manroot $$page 2>&1; done | ( ! grep . )
	@echo "man pages: $(words $(MAN_PAGES)) files"

# The library, the tests and the program with AddressSanitizer and UBSan. The handler is never instrumented:
# it runs in another program. Victims are ordinary programs, so the live tests show both sides of the fence.
SANITIZE := -O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all
asan: ## unit tests and live sessions under AddressSanitizer and UBSan
	$(Q)$(ASAN_MAKE) unit
	$(Q)$(ASAN_MAKE) e2e E2E="$(ASAN_E2E)"
ASAN_MAKE = ASAN_OPTIONS=detect_stack_use_after_return=1 \
	LSAN_OPTIONS=suppressions=$(CURDIR)/tools/lsan.suppressions:print_suppressions=0 $(MAKE) --no-print-directory BUILD=$(BUILD)-asan CFLAGS="$(SANITIZE)"
ASAN_E2E ?= $(addprefix tests/e2e/test_,report.py report_tags.py report_steps.py step.py diff.py symbolize.py tags.py accesses.py launch.py bad_input.py \
	bad_logs.py record.py flight_recorder.py export.py page.py top.py repl.py repl_values.py repl_terminal.py)

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

$(BUILD)/tests/fuzz/fuzz_%: tests/fuzz/fuzz_%.c $(LIB)
	@mkdir -p $(@D)
	$(if $(Q),@echo "  FUZZER  $*")
	$(Q)$(CC) $(BASE_CFLAGS) $(PKG_CFLAGS) $(CFLAGS) -fsanitize=fuzzer -o $@ $< $(LIB) $(LIBS)

-include $(FUZZ_ALL:%=$(BUILD)/tests/fuzz/fuzz_%.d)
