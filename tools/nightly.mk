# The long proofs, in parts that take turns: tools/nightly. NIGHTLY_S bounds the whole, NIGHTLY="chaos,fuzz elf" chooses parts.

NIGHTLY_S ?= 3600
NIGHTLY_DIR ?= .nightly
NIGHTLY ?=
# A document that gets the table: make nightly-report NIGHTLY_WRITE=docs/reliability.md
NIGHTLY_WRITE ?=

.PHONY: nightly nightly-report
nightly: | packages-test packages-check packages-deb packages-bench ## long proofs: fuzz, faults, chaos, sanitizers, corpora, slow tests; each call goes on where the last one ended (NIGHTLY_S seconds)
	@$(PYTHON) -B tools/nightly run --dir "$(NIGHTLY_DIR)" --seconds $(NIGHTLY_S) --only "$(NIGHTLY)"

nightly-report: ## what the parts of make nightly found when they ran last
	@$(PYTHON) -B tools/nightly report --dir "$(NIGHTLY_DIR)" --only "$(NIGHTLY)" $(if $(NIGHTLY_WRITE),--write "$(NIGHTLY_WRITE)")
