# The proofs of step, diff and patch on real programs and on faults: minutes. `make test` runs a quick part of them.

PROOF_FAULTS ?= 320
PROOF_SEEDED ?= 250
PROOF_RUN := WATCHCTL="$(abspath $(PROG))" PYTHONDONTWRITEBYTECODE=1 $(PYTHON)

.PHONY: proof
proof: $(PROG) | packages-test ## good runs against good ones, injected and seeded faults: what diff says must be right (minutes)
	$(Q)$(MAKE) --no-print-directory e2e E2E="tests/e2e/test_step_proof.py -k good_runs"
	@$(PROOF_RUN) tests/proof/inputs.py
	@$(PROOF_RUN) tests/proof/faults.py -n $(PROOF_FAULTS)
	@$(PROOF_RUN) tests/proof/seeded.py -n $(PROOF_SEEDED)
	@$(PROOF_RUN) tests/proof/seeded.py -n $(PROOF_SEEDED) --garbage

# Logs of every kind, damaged at random: DAMAGE_N=10000 takes a quarter of an hour with two processors.
DAMAGE_N ?= 500
DAMAGE_SEED ?= 1
DAMAGE_LOGS := $(addprefix $(BUILD)/tests/bench/,accesslog-gen steplog-gen ring-gen)

.PHONY: damage-proof
damage-proof: $(PROG) $(DAMAGE_LOGS) ## DAMAGE_N randomly damaged logs, read by each command: none crashes, misreads, or is silent
	@$(PROOF_RUN) tests/damage/damage.py $(BUILD) -n $(DAMAGE_N) -s $(DAMAGE_SEED)

# Patches in packaged programs: --only CLASS/MODULE, --quick and others by PATCH_ARGS.
PATCH_CYCLES ?= 300
PATCH_SEED ?= 1
PATCH_ARGS ?=

.PHONY: patch-proof
patch-proof: $(PROG) | packages-test ## all instructions of a kind patched in real programs: same output, counts as gdb and strace have them, no harm (minutes)
	@$(PROOF_RUN) tests/proof/patches.py --cycles $(PATCH_CYCLES) --seed $(PATCH_SEED) $(PATCH_ARGS)

# Traces of packaged programs: --only PROGRAM, --quick by TRACE_ARGS.
TRACE_SEED ?= 1
TRACE_ARGS ?=

.PHONY: trace-proof
trace-proof: $(PROG) | packages-test ## all functions of real programs traced: same output, calls as callgrind counts them, each with its end (minutes)
	@$(PROOF_RUN) tests/proof/traces.py --seed $(TRACE_SEED) $(TRACE_ARGS)

.PHONY: compile-proof
compile-proof: all $(SQLITE_SOURCE)/package.json $(LUA_SOURCE)/package.json | packages-test ## programs built to be traced: every entry and exit as they and callgrind count them (minutes)
	$(Q)$(MAKE) --no-print-directory e2e E2E="tests/e2e/test_calltrace.py"
	@$(PROOF_RUN) tests/proof/compile.py --build $(BUILD) --watchctl $(PROG) --sqlite $(SQLITE_SOURCE)/deps/sqlite3 --lua $(LUA_SOURCE)/src

# Programs that know their own causes: --programs N, --first SEED and others by FLOW_ARGS. One takes a second.
FLOW_ARGS ?=

.PHONY: flow-proof
flow-proof: $(PROG) $(BUILD)/tests/victims/causes | packages-test ## generated programs that log their own causes: the edges of flow graph must be those (minutes)
	@$(PROOF_RUN) tests/proof/flow.py --watchctl $(abspath $(PROG)) --causes $(abspath $(BUILD)/tests/victims/causes) \
		--json $(BUILD)/flow-proof.json $(FLOW_ARGS)

# Paths through real programs: --only SCENE by FLOW_REAL_ARGS. A scene whose programs are not installed is skipped, and said.
FLOW_REAL_ARGS ?=

.PHONY: flow-real-proof
flow-real-proof: $(PROG) | packages-test ## packaged programs that ask one another, recorded: flow path leads back over those that took part (a minute)
	@tools/install-packages $(PACKAGES_FLOW) || :
	@$(PROOF_RUN) tests/proof/flow_real.py --json $(BUILD)/flow-real-proof.json $(FLOW_REAL_ARGS)

$(BUILD)/tests/victims/causes: tests/victims/causes.c
	@mkdir -p $(@D)
	$(if $(Q),@echo "  CC      $<")
	$(Q)$(CC) $(BASE_CFLAGS) -O1 -g -o $@ $< -lpthread

# Explanations of hangs: --only NAME, --quick, --peers and others by EXPLAIN_ARGS. The limit holds on a quiet machine.
EXPLAIN_ARGS ?=

.PHONY: explain-live-proof
explain-live-proof: $(PROG) | packages-test ## hangs made on purpose, of known cause, also in real programs: flow explain must blame the right thread (minutes)
	@$(PROOF_RUN) tests/proof/explain.py $(EXPLAIN_ARGS)

.PHONY: explain-log-proof
explain-log-proof: $(PROG) | packages-test ## hangs made on purpose, recorded: flow explain LOG must blame the right thread
	@$(PROOF_RUN) tests/proof/explain_log.py $(EXPLAIN_ARGS)

# Public corpora of faulty programs: CORPORA is the folder that has them or gets them; --program GLOB, -n and others by
# CORPUS_ARGS. Without a corpus it is skipped, which is said.
CORPORA ?= $(BUILD)/corpora
CORPUS_ARGS ?=

.PHONY: corpus-proof
corpus-proof: $(PROG) | packages-test ## known faults of public corpora of C programs: diff must lead to the faulty function (an hour)
	@mkdir -p $(CORPORA)
	@$(PROOF_RUN) tests/proof/corpus.py --corpora $(CORPORA) --json $(BUILD)/corpus-proof.json $(CORPUS_ARGS) || [ $$? = 77 ]
