# The programs that the end-to-end tests watch. Each says in its first lines how it is built; tests/e2e/recipes.py reads
# them. They are ordinary programs: neither CC nor CFLAGS has a part in them.

.PHONY: victims
ifeq ($(filter clean help uninstall,$(MAKECMDGOALS)),)
# The folders, too: a victim may come or go.
$(BUILD)/victims.mk: tests/e2e/recipes.py tests/victims tests/hostile $(wildcard tests/victims/*.* tests/hostile/*.*)
	@mkdir -p $(@D)
	@PYTHONDONTWRITEBYTECODE=1 $(PYTHON) tests/e2e/recipes.py $(BUILD) > $@.new && mv $@.new $@
-include $(BUILD)/victims.mk
endif

victims: $(VICTIMS) | packages-test ## the programs that the end-to-end tests watch
	@PYTHONDONTWRITEBYTECODE=1 $(PYTHON) tests/e2e/recipes.py --missing

# Warnings are shown if the compiler fails, or with V=1. Go and rustc keep things at home; a rustc of rustup finds
# itself there. A build that is interrupted leaves no half of a program.
VICTIM_ENV = MAKEFLAGS= RUSTUP_HOME="$${RUSTUP_HOME:-$$HOME/.rustup}" HOME="$(abspath $(@D))" \
	GOCACHE="$(abspath $(@D))/gocache"
VICTIM = $(VICTIM_$(@F))
$(VICTIMS): | packages-test
	@mkdir -p $(@D)
	$(Q)command -v $(firstword $(VICTIM)) > /dev/null || exit 0; $(if $(Q),echo "  VICTIM  $(@F)";) \
		$(VICTIM_ENV) $(if $(Q),tools/quietly) $(VICTIM) && mv -f $@.new $@

$(BUILD)/libstackwalk.so: $(CAPTURE_SO) ;
