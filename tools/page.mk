# What the page of `watchctl report --html` is made of: the script and the style are each put together from their
# parts and built into the library as they are, and their checksums go into the page's policy.

PAGE_DIR := watchctl/view/page
PAGE_SHARED := $(addprefix $(PAGE_DIR)/,page_common.js page_fragment.js page_tabs.js page_tree.js page_flame.js page_theme.js)
PAGE_LANES := $(addprefix $(PAGE_DIR)/,page_bytes.js page_lanes.js)
PAGE_JS := $(addprefix $(PAGE_DIR)/,page_data.js page_value.js page_filter.js page_chart.js page_move.js page_trees.js page_tables.js page_event.js page_main.js)
CALLS_DIR := watchctl/view/callpage
CALLS_JS := $(addprefix $(CALLS_DIR)/,calls_data.js calls_model.js calls_state.js calls_paint.js calls_chart.js calls_move.js calls_tree.js calls_tables.js calls_detail.js calls_main.js)
FLOW_DIR := watchctl/cli/flow/page
FLOW_JS := $(addprefix $(FLOW_DIR)/,flow_data.js flow_words.js flow_path.js flow_state.js flow_paint.js flow_arrows.js flow_move.js flow_detail.js flow_main.js)

# One asset: its name, the files that it is put together from, with a wrapping for scripts.
define PAGE_SCRIPT
$(BUILD)/page/$(1): $(2) tools/page.mk
	@mkdir -p $$(@D)
	$$(Q){ printf '"use strict";\n(() => {\n'; cat $(2); printf '})();\n'; } > $$@
endef
define PAGE_PLAIN
$(BUILD)/page/$(1): $(2) tools/page.mk
	@mkdir -p $$(@D)
	$$(Q)cat $(2) > $$@
endef
define PAGE_BODY
$(BUILD)/page/$(1): $(PAGE_DIR)/page_header.html $(2) tools/page.mk
	@mkdir -p $$(@D)
	$$(Q){ printf '%s\n' '$(3)'; cat $(PAGE_DIR)/page_header.html $(2); } > $$@
endef
$(eval $(call PAGE_SCRIPT,script.js,$(PAGE_SHARED) $(PAGE_JS)))
$(eval $(call PAGE_PLAIN,style.css,$(PAGE_DIR)/page.css))
$(eval $(call PAGE_BODY,body.html,$(PAGE_DIR)/page.html,<body>))
$(eval $(call PAGE_SCRIPT,calls.js,$(PAGE_SHARED) $(PAGE_LANES) $(CALLS_JS)))
$(eval $(call PAGE_PLAIN,calls.css,$(PAGE_DIR)/page.css $(CALLS_DIR)/calls.css))
$(eval $(call PAGE_BODY,calls.html,$(CALLS_DIR)/calls.html,<body class="calls">))
$(eval $(call PAGE_SCRIPT,flow.js,$(addprefix $(PAGE_DIR)/,page_common.js page_fragment.js page_theme.js) $(PAGE_LANES) $(FLOW_JS)))
$(eval $(call PAGE_PLAIN,flow.css,$(PAGE_DIR)/page.css $(FLOW_DIR)/flow.css))
$(eval $(call PAGE_BODY,flow.html,$(FLOW_DIR)/flow.html,<body class="flow">))
$(eval $(call PAGE_PLAIN,diff.css,watchctl/view/diff/html/diff.css))
PAGE_ASSETS := script.js style.css body.html calls.js calls.css calls.html flow.js flow.css flow.html diff.css

# sha256-..., as a Content-Security-Policy has it.
PAGE_HASH = sha256-$$(sha256sum $(1) | cut -c1-64 | tr a-f A-F | basenc -d --base16 | base64)
$(BUILD)/page_assets.h: $(PAGE_ASSETS:%=$(BUILD)/page/%)
	$(Q)printf '#define %s "%s"\n' \
		PAGE_SCRIPT_HASH "$(call PAGE_HASH,$(BUILD)/page/script.js)" PAGE_STYLE_HASH "$(call PAGE_HASH,$(BUILD)/page/style.css)" \
		CALLS_SCRIPT_HASH "$(call PAGE_HASH,$(BUILD)/page/calls.js)" CALLS_STYLE_HASH "$(call PAGE_HASH,$(BUILD)/page/calls.css)" \
		FLOW_SCRIPT_HASH "$(call PAGE_HASH,$(BUILD)/page/flow.js)" FLOW_STYLE_HASH "$(call PAGE_HASH,$(BUILD)/page/flow.css)" > $@

$(BUILD)/page_diff_assets.h: $(BUILD)/page/diff.css
	$(Q)printf '#define DIFF_STYLE_HASH "%s"\n' "$(call PAGE_HASH,$(BUILD)/page/diff.css)" > $@

$(BUILD)/page/assets.o: $(PAGE_ASSETS:%=$(BUILD)/page/%)
	$(Q)for asset in $(PAGE_ASSETS); do \
		name=page_$$(echo $$asset | tr . _); \
		printf '.globl %s, %s_end\n%s:\n.incbin "%s"\n%s_end:\n.byte 0\n' \
			$$name $$name $$name $(BUILD)/page/$$asset $$name; \
	done | { echo '.section .rodata'; cat; echo '.section .note.GNU-stack,"",@progbits'; } | $(CC) -c -x assembler -o $@ -

$(BUILD)/watchctl/view/page/page_shell.o: $(BUILD)/page_assets.h
$(BUILD)/watchctl/view/diff/html/diff_html.o: $(BUILD)/page_diff_assets.h
LIB_OBJ += $(BUILD)/page/assets.o
$(LIB): $(BUILD)/page/assets.o

# A log of that many accesses, and how long the page takes to be made and to open.
PAGE_ACCESSES ?= 1000000
.PHONY: bench-page
bench-page: $(PROG) $(BUILD)/tests/bench/pagelog-gen | packages-test ## the report page of a large log: making it, opening it
	@$(PYTHON) -B tests/bench/page.py --watchctl $(PROG) --generator $(BUILD)/tests/bench/pagelog-gen \
		--accesses $(PAGE_ACCESSES) --json $(BUILD)/bench-page.json

$(BUILD)/tests/bench/pagelog-gen: tests/bench/pagelog_gen.c $(LIB) | packages
	@mkdir -p $(@D)
	$(if $(Q),@echo "  CC      $<")
	$(Q)$(CC) $(BASE_CFLAGS) $(CFLAGS) -o $@ $(filter %.c,$^) $(LIB) $(LIBS)

.PHONY: bench-page-steps
bench-page-steps: $(PROG) $(BUILD)/tests/bench/steplog-gen | packages-test ## the report page of a million calls: making it, opening it
	@$(PYTHON) -B tests/bench/page_steps.py --watchctl $(PROG) --generator $(BUILD)/tests/bench/steplog-gen \
		--calls $(PAGE_ACCESSES) --json $(BUILD)/bench-page-steps.json
