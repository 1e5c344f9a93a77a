# The proofs of step and diff on real programs and on faults: minutes. `make test` runs a quick part of them.

PROOF_FAULTS ?= 320
PROOF_SEEDED ?= 250
PROOF_RUN := WATCHCTL="$(abspath $(PROG))" PYTHONDONTWRITEBYTECODE=1 $(PYTHON)

.PHONY: proof
proof: $(PROG) | packages-test ## good runs against good ones, injected and seeded faults: what diff says must be right (minutes)
	$(Q)$(MAKE) --no-print-directory e2e E2E="tests/e2e/test_step_proof.py -k good_runs"
	@$(PROOF_RUN) tests/proof/faults.py -n $(PROOF_FAULTS)
	@$(PROOF_RUN) tests/proof/seeded.py -n $(PROOF_SEEDED)
	@$(PROOF_RUN) tests/proof/seeded.py -n $(PROOF_SEEDED) --garbage
