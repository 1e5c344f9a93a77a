# The pass of the compile-time tracer, a plugin of LLVM's. `make PASS_LLVM=none` builds none.

PASS_LLVM ?= $(firstword $(foreach v,19,$(if $(wildcard /usr/lib/llvm-$(v)/include/llvm-c/Core.h),$(v))) none)
PASS_DIR := /usr/lib/llvm-$(PASS_LLVM)
PASS_FLAGS := -O2 -g -fPIC -fvisibility=hidden -D_GNU_SOURCE -DWATCHCTL_VERSION='"$(VERSION)"' -I. -isystem $(PASS_DIR)/include $(filter-out -Wmissing-prototypes -Wstrict-prototypes,$(WARN)) -MMD -MP
CONFIG_BASE := $(addprefix watchctl/base/,error.c utf8.c map64.c text_buf.c words/similar.c words/edit_distance.c)
PASS_OBJ := $(patsubst %,$(BUILD)/%.o,$(basename $(foreach d,pass config,$(wildcard calltrace/$(d)/*.c calltrace/$(d)/*.cc))))
PASS_BASE := $(CONFIG_BASE:%.c=$(BUILD)/pic/%.o)
PASS := $(BUILD)/libcalltrace-pass.so

CALLTRACE_CC := $(BUILD)/bin/calltrace-cc
CALLTRACE_OPT := $(BUILD)/bin/calltrace-opt
CALLTRACE_OPT_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(wildcard calltrace/opt/*.c))

ifneq ($(PASS_LLVM),none)
all: $(PASS) $(CALLTRACE_CC) $(CALLTRACE_OPT)
endif

$(BUILD)/calltrace/pass/%.o $(BUILD)/calltrace/config/%.o $(BUILD)/calltrace/opt/%.o: PASS_FLAGS += -DLLVM_MAJOR='"$(PASS_LLVM)"'

define PASS_C
$(BUILD)/calltrace/$(1)/%.o: calltrace/$(1)/%.c $(BUILD)/flags | packages
	@mkdir -p $$(@D)
	$$(if $(Q),@echo "  CC      $$<")
	$$(Q)$$(CC) -std=gnu11 $$(PASS_FLAGS) -Wmissing-prototypes -Wstrict-prototypes -c -o $$@ $$<
endef
$(foreach d,pass config opt,$(eval $(call PASS_C,$(d))))

# The library of TOML has exceptions and types at run time.
$(BUILD)/calltrace/config/%.o: calltrace/config/%.cc $(BUILD)/flags | packages
	@mkdir -p $(@D)
	$(if $(Q),@echo "  CXX     $<")
	$(Q)$(CXX) -std=c++17 $(PASS_FLAGS) -c -o $@ $<

# As LLVM is built: without run-time type information.
$(BUILD)/calltrace/pass/%.o: calltrace/pass/%.cc $(BUILD)/flags | packages
	@mkdir -p $(@D)
	$(if $(Q),@echo "  CXX     $<")
	$(Q)$(CXX) -std=c++17 -fno-rtti -fno-exceptions $(PASS_FLAGS) -c -o $@ $<

# Its symbols of LLVM are those of the program that loads it.
$(PASS): $(PASS_OBJ) $(PASS_BASE)
	$(if $(Q),@echo "  LD      $@")
	$(Q)$(CXX) -shared $(LDFLAGS) -o $@ $^

$(CALLTRACE_OPT): $(CALLTRACE_OPT_OBJ) $(PASS_OBJ) $(PASS_BASE)
	@mkdir -p $(@D)
	$(if $(Q),@echo "  LD      $@")
	$(Q)$(CXX) $(LDFLAGS) -o $@ $^ -L$(PASS_DIR)/lib -lLLVM-$(PASS_LLVM)

-include $(PASS_OBJ:.o=.d) $(CALLTRACE_OPT_OBJ:.o=.d)

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
