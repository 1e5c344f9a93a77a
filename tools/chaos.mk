# `make chaos`: watchctl comes and goes, is killed, stopped and starved, on a program that checks itself all the while;
# the same on programs that are hard to watch (tests/chaos/odd*), each of which must get on as one does that nobody watches;
# and how long a program is held up (none of it with STALLS=), also one with many threads and mappings. CHAOS_S seconds (hours: CHAOS_S=36000), from
# CHAOS_SEED on. CHAOS_ARGS='--kinds blocked_signals,forking_server' chooses kinds of cycle (--help lists them), CHAOS_ARGS='--cycles N' how many.

CHAOS_S ?= 180
CHAOS_SEED ?=
CHAOS_FIRST ?= 0
CHAOS_ARGS ?=
STALLS ?= handler ring
STALLS_ARGS ?=
STALLS_MANY := --threads 500 --mappings 61000
CHAOS_DIR := $(BUILD)/tests/chaos
CHAOS_CFLAGS := -std=gnu11 -D_GNU_SOURCE -O2 -g -Wall -Wextra -Wno-unused-parameter -pthread -I.

.PHONY: chaos stalls
chaos: all $(CHAOS_DIR)/chaos $(CHAOS_DIR)/odd $(CHAOS_DIR)/stalls | packages-test ## kills, stops and starves watchctl on a program that checks itself (CHAOS_S seconds)
	@# 77: this machine cannot, which is said.
	@env --default-signal $(PYTHON) -B tests/chaos/chaos.py --watchctl $(abspath $(PROG)) --program $(abspath $(CHAOS_DIR)/chaos) --odd $(abspath $(CHAOS_DIR)/odd) \
		--seconds $(CHAOS_S) $(if $(CHAOS_SEED),--seed $(CHAOS_SEED)) --first $(CHAOS_FIRST) --json $(BUILD)/chaos.json $(CHAOS_ARGS) \
		|| [ $$? = 77 ]
	@$(if $(STALLS),$(MAKE) --no-print-directory stalls)

stalls: all $(CHAOS_DIR)/stalls ## how long a program is held up by an attach, and by a hit, with the engines STALLS
	@failed=; for engine in $(STALLS); do \
		env --default-signal $(PYTHON) -B tests/chaos/stalls.py --watchctl $(PROG) --program $(CHAOS_DIR)/stalls --engine=$$engine \
			--json $(BUILD)/stalls-$$engine.json $(STALLS_ARGS) || [ $$? = 77 ] || failed=1; \
		$(PYTHON) -B tests/chaos/stalls.py --watchctl $(PROG) --program $(CHAOS_DIR)/stalls --engine=$$engine $(STALLS_MANY) \
			--json $(BUILD)/stalls-many-$$engine.json $(STALLS_ARGS) || [ $$? = 77 ] || failed=1; \
	done; [ ! "$$failed" ]

$(CHAOS_DIR)/chaos: $(wildcard tests/chaos/chaos*.c tests/chaos/chaos*.S tests/chaos/chaos*.h)
	@mkdir -p $(@D)
	$(if $(Q),@echo "  CC      $@")
	$(Q)$(CC) $(CHAOS_CFLAGS) -o $@ $(filter %.c %.S,$^)

$(CHAOS_DIR)/odd: $(wildcard tests/chaos/odd*.c tests/chaos/odd.h) tests/victims/dispatch.h
	@mkdir -p $(@D)
	$(if $(Q),@echo "  CC      $@")
	$(Q)$(CC) $(CHAOS_CFLAGS) -o $@ $(filter %.c,$^)

$(CHAOS_DIR)/stalls: tests/chaos/stalls.c
	@mkdir -p $(@D)
	$(if $(Q),@echo "  CC      $<")
	$(Q)$(CC) $(CHAOS_CFLAGS) -o $@ $<
