# The pass of the compile-time tracer, a plugin of LLVM's. `make PASS_LLVM=none` builds none.

PASS_LLVM ?= $(firstword $(foreach v,19,$(if $(wildcard /usr/lib/llvm-$(v)/include/llvm-c/Core.h),$(v))) none)
PASS_DIR := /usr/lib/llvm-$(PASS_LLVM)
PASS_FLAGS := -O2 -g -fPIC -fvisibility=hidden -D_GNU_SOURCE -DWATCHCTL_VERSION='"$(VERSION)"' -I. -isystem $(PASS_DIR)/include $(filter-out -Wmissing-prototypes -Wstrict-prototypes,$(WARN)) -MMD -MP
PASS_OBJ := $(patsubst %,$(BUILD)/%.o,$(basename $(wildcard calltrace/pass/*.c calltrace/pass/*.cc)))
PASS := $(BUILD)/libcalltrace-pass.so

CALLTRACE_CC := $(BUILD)/bin/calltrace-cc

ifneq ($(PASS_LLVM),none)
all: $(PASS) $(CALLTRACE_CC)
endif

$(BUILD)/calltrace/pass/%.o: calltrace/pass/%.c $(BUILD)/flags | packages
	@mkdir -p $(@D)
	$(if $(Q),@echo "  CC      $<")
	$(Q)$(CC) -std=gnu11 $(PASS_FLAGS) -Wmissing-prototypes -Wstrict-prototypes -c -o $@ $<

# As LLVM is built: without run-time type information.
$(BUILD)/calltrace/pass/%.o: calltrace/pass/%.cc $(BUILD)/flags | packages
	@mkdir -p $(@D)
	$(if $(Q),@echo "  CXX     $<")
	$(Q)$(CXX) -std=c++17 -fno-rtti -fno-exceptions $(PASS_FLAGS) -c -o $@ $<

# Its symbols of LLVM are those of the program that loads it.
$(PASS): $(PASS_OBJ)
	$(if $(Q),@echo "  LD      $@")
	$(Q)$(CXX) -shared $(LDFLAGS) -o $@ $(PASS_OBJ)

-include $(PASS_OBJ:.o=.d)

# The compilers with the pass and the runtime.
$(CALLTRACE_CC): $(BUILD)/calltrace/cc/calltrace_cc.o
	@mkdir -p $(@D)
	$(if $(Q),@echo "  LD      $@")
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $<
	$(Q)ln -sf $(@F) $(@D)/calltrace-c++

-include $(BUILD)/calltrace/cc/calltrace_cc.d

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
