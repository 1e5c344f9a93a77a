# The pass of the compile-time tracer, a plugin of LLVM's: one for each of its versions, for a plugin is of one of them.
# `make PASS_LLVM="19 14"` builds these, `make PASS_LLVM=none` none. What the newest one is made of has a name without it.

PASS_VERSIONS := 19 16 15 14
PASS_LLVM ?= $(or $(strip $(foreach v,$(PASS_VERSIONS),$(if $(wildcard /usr/lib/llvm-$(v)/include/llvm-c/Core.h),$(v)))),none)
PASS_BUILT := $(filter $(PASS_LLVM),$(PASS_VERSIONS))
PASS_NEWEST := $(firstword $(PASS_BUILT) none)
PASS_DIR := /usr/lib/llvm-$(PASS_NEWEST)
# Without what is LLVM's.
CONFIG_FLAGS := -O2 -g -fPIC -fvisibility=hidden -D_GNU_SOURCE -DWATCHCTL_VERSION='"$(VERSION)"' -I. $(filter-out -Wmissing-prototypes -Wstrict-prototypes,$(WARN)) -MMD -MP
pass_flags = $(CONFIG_FLAGS) -isystem /usr/lib/llvm-$(1)/include -DLLVM_MAJOR='"$(1)"'
PASS_C_FLAGS := -std=gnu11 -Wmissing-prototypes -Wstrict-prototypes
CONFIG_BASE := $(addprefix watchctl/base/,error.c utf8.c map64.c text_buf.c words/similar.c words/edit_distance.c)
CONFIG_OBJ := $(patsubst %,$(BUILD)/%.o,$(basename $(wildcard calltrace/config/*.c calltrace/config/*.cc)))
pass_obj = $(patsubst calltrace/pass/%,$(BUILD)/calltrace/pass-$(1)/%.o,$(basename $(wildcard calltrace/pass/*.c calltrace/pass/*.cc)))
# Built for it, and never instrumented: a compiler that knows nothing of a sanitizer loads it.
PASS_BASE := $(CONFIG_BASE:%.c=$(BUILD)/calltrace/%.o)
PASS := $(BUILD)/libcalltrace-pass.so
PASSES := $(PASS_BUILT:%=$(BUILD)/libcalltrace-pass-%.so)

CALLTRACE_CC := $(BUILD)/bin/calltrace-cc
CALLTRACE_OPT := $(BUILD)/bin/calltrace-opt
CALLTRACE_OPT_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(wildcard calltrace/opt/*.c))

ifneq ($(PASS_BUILT),)
all: $(PASSES) $(PASS) $(CALLTRACE_CC) $(CALLTRACE_OPT)
endif

$(BUILD)/calltrace/config/%.o: calltrace/config/%.c $(BUILD)/flags | packages
	@mkdir -p $(@D)
	$(if $(Q),@echo "  CC      $<")
	$(Q)$(CC) $(PASS_C_FLAGS) $(CONFIG_FLAGS) -c -o $@ $<

$(BUILD)/calltrace/watchctl/%.o: watchctl/%.c $(BUILD)/flags | packages
	@mkdir -p $(@D)
	$(if $(Q),@echo "  CC      $< (pass)")
	$(Q)$(CC) $(PASS_C_FLAGS) $(CONFIG_FLAGS) -c -o $@ $<

# The library of TOML has exceptions and types at run time.
$(BUILD)/calltrace/config/%.o: calltrace/config/%.cc $(BUILD)/flags | packages
	@mkdir -p $(@D)
	$(if $(Q),@echo "  CXX     $<")
	$(Q)$(CXX) -std=c++17 $(CONFIG_FLAGS) -c -o $@ $<

$(BUILD)/calltrace/opt/%.o: calltrace/opt/%.c $(BUILD)/flags | packages
	@mkdir -p $(@D)
	$(if $(Q),@echo "  CC      $<")
	$(Q)$(CC) $(PASS_C_FLAGS) $(call pass_flags,$(PASS_NEWEST)) -c -o $@ $<

# C++ as LLVM is built: without run-time type information. Symbols of LLVM are those of the program that loads the plugin.
define PASS_RULES
$(BUILD)/calltrace/pass-$(1)/%.o: calltrace/pass/%.c $(BUILD)/flags | packages
	@mkdir -p $$(@D)
	$$(if $(Q),@echo "  CC      $$< (LLVM $(1))")
	$$(Q)$$(CC) $(PASS_C_FLAGS) $$(call pass_flags,$(1)) -c -o $$@ $$<

$(BUILD)/calltrace/pass-$(1)/%.o: calltrace/pass/%.cc $(BUILD)/flags | packages
	@mkdir -p $$(@D)
	$$(if $(Q),@echo "  CXX     $$< (LLVM $(1))")
	$$(Q)$$(CXX) -std=c++17 -fno-rtti -fno-exceptions $$(call pass_flags,$(1)) -c -o $$@ $$<

$(BUILD)/libcalltrace-pass-$(1).so: $(call pass_obj,$(1)) $(CONFIG_OBJ) $(PASS_BASE)
	$$(if $(Q),@echo "  LD      $$@")
	$$(Q)$$(CXX) -shared $$(LDFLAGS) -o $$@ $$^

-include $(patsubst %.o,%.d,$(call pass_obj,$(1)))
endef
$(foreach v,$(PASS_BUILT),$(eval $(call PASS_RULES,$(v))))

$(PASS): $(BUILD)/libcalltrace-pass-$(PASS_NEWEST).so
	$(Q)ln -sf $(<F) $@

$(CALLTRACE_OPT): $(CALLTRACE_OPT_OBJ) $(call pass_obj,$(PASS_NEWEST)) $(CONFIG_OBJ) $(PASS_BASE)
	@mkdir -p $(@D)
	$(if $(Q),@echo "  LD      $@")
	$(Q)$(CXX) $(LDFLAGS) -o $@ $^ -L$(PASS_DIR)/lib -lLLVM-$(PASS_NEWEST)

-include $(CONFIG_OBJ:.o=.d) $(PASS_BASE:.o=.d) $(CALLTRACE_OPT_OBJ:.o=.d)

# The compilers with the pass and the runtime.
CALLTRACE_CC_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(wildcard calltrace/cc/*.c))
$(CALLTRACE_CC): $(CALLTRACE_CC_OBJ) $(BUILD)/calltrace/config/setting_names.o $(PASS_BASE)
	@mkdir -p $(@D)
	$(if $(Q),@echo "  LD      $@")
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^
	$(Q)ln -sf $(@F) $(@D)/calltrace-c++

-include $(CALLTRACE_CC_OBJ:.o=.d)

# SQLite's amalgamation and Lua, as npm has them, for the bench and the proof of the compile-time tracer.
COMPILE_SOURCES := $(BUILD)/sources
SQLITE_PACKAGE := better-sqlite3@13.2.0
LUA_PACKAGE := lua-src@5.3.5
$(COMPILE_SOURCES)/%/package.json:
	@mkdir -p $(@D)
	@command -v npm >/dev/null || { echo "npm is needed to get $*: install nodejs with npm" >&2; exit 1; }
	$(Q)cd $(COMPILE_SOURCES) && npm pack --silent $* >/dev/null && tar -x --strip-components=1 -C $* -f $(subst @,-,$*).tgz && rm $(subst @,-,$*).tgz
	@touch $@
SQLITE_SOURCE := $(COMPILE_SOURCES)/$(SQLITE_PACKAGE)
LUA_SOURCE := $(COMPILE_SOURCES)/$(LUA_PACKAGE)
