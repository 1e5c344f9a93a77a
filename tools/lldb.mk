# LLDB, behind watchctl/step/lldb/lldb_shim.h: the newest liblldb of 19 to 14 that the machine has, or none.
# `make LLDB=16` takes that one, `make LLDB=none` none.

LLDB_VERSIONS := 19 18 17 16 15 14
LLDB ?= $(firstword $(foreach v,$(LLDB_VERSIONS),$(if $(wildcard /usr/lib/llvm-$(v)/include/lldb/API/LLDB.h),$(v))) none)
LLDB_DIR := /usr/lib/llvm-$(LLDB)
LLDB_CXXFLAGS := -std=c++17 -fPIC -D_GNU_SOURCE -I. -isystem $(LLDB_DIR)/include -Wall -Wextra -Wno-unused-parameter -MMD -MP

# Sources of the plugin are linked into a library of their own.
STEPREC_C := $(wildcard watchctl/cli/steprec/*.c)
STEPREC_CC := watchctl/cli/steprec/lldb_shim_plugin.cc
LLDB_C := $(filter-out %_none.c,$(wildcard watchctl/step/lldb/*.c))
LLDB_CC := $(wildcard watchctl/step/lldb/*.cc)
LLDB_NONE := $(wildcard watchctl/step/lldb/*_none.c)
ifeq ($(LLDB),none)
LLDB_OBJ := $(LLDB_C:%.c=$(BUILD)/%.o) $(LLDB_NONE:%.c=$(BUILD)/%.o)
LLDB_LIBS :=
else
LLDB_OBJ := $(LLDB_C:%.c=$(BUILD)/%.o) $(LLDB_CC:%.cc=$(BUILD)/%.o)
# libgcc_s by name: what libunwind brings along defines the functions of C++ exceptions, too, and comes after it so.
LLDB_LIBS := -L$(LLDB_DIR)/lib -llldb-$(LLDB) -lstdc++ -lgcc_s
endif

LLDB_LIB := $(BUILD)/libwatchctl-lldb.a

.PHONY: lldb
lldb: $(LLDB_LIB)

$(LLDB_LIB): $(LLDB_OBJ)
	@rm -f $@
	$(if $(Q),@echo "  AR      $@")
	$(Q)ar rcs $@ $^

# Unit tests of what is in it.
LLDB_UNITS := $(addprefix $(BUILD)/tests/unit/,test_abi test_prototypes test_lldb_shim test_planner test_stepper_lldb test_stepper_lldb_harm test_lldb_process)
$(LLDB_UNITS): $(LLDB_LIB)
$(LLDB_UNITS): UNIT_MORE := $(LLDB_LIB)
$(LLDB_UNITS): UNIT_LIBS := $(LLDB_LIBS)

$(BUILD)/watchctl/%.o: watchctl/%.cc $(BUILD)/flags | packages
	@mkdir -p $(@D)
	$(if $(Q),@echo "  CXX     $<")
	$(Q)$(CXX) $(LLDB_CXXFLAGS) $(CFLAGS) -c -o $@ $<

-include $(LLDB_OBJ:.o=.d)

# watchctl-step does the work of `watchctl step`. It alone is linked with LLDB, which takes long to load.
STEP_PROG := $(BUILD)/bin/watchctl-step
STEP_CLI_OBJ := $(STEP_CLI_SRC:%.c=$(BUILD)/%.o)
STEP_SHARED_OBJ := $(filter-out $(BUILD)/watchctl/cli/main.o $(BUILD)/watchctl/cli/cmd_% $(BUILD)/watchctl/cli/command% $(BUILD)/watchctl/cli/top/% $(BUILD)/watchctl/cli/repl/%,$(CLI_OBJ))

$(STEP_PROG): $(STEP_CLI_OBJ) $(STEP_SHARED_OBJ) $(LLDB_LIB) $(LIB)
	@mkdir -p $(@D)
	$(if $(Q),@echo "  LD      $@")
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $(STEP_CLI_OBJ) $(STEP_SHARED_OBJ) $(LLDB_LIB) $(LIB) $(LIBS) $(LLDB_LIBS)

# What `watchctl step` looks for before it runs watchctl-step.
BASE_CFLAGS += -DLLDB_VERSION='"$(if $(filter none,$(LLDB)),19,$(LLDB))"' \
	-DLLDB_SONAME='"$(if $(filter none,$(LLDB)),,liblldb-$(LLDB).so.1)"'

# libsteprec.so: the steprec commands of an interactive LLDB, with what they need of the libraries; but for its entry
# nothing of it is seen from outside. Never unloaded: LLDB keeps pointers to its commands.
STEPREC_SO := $(BUILD)/lib/libsteprec.so
STEPREC_SCRIPTS := $(wildcard lldb-scripts/*.lldb lldb-scripts/steprec_load.py)
STEPREC_OBJ := $(STEPREC_C:%.c=$(BUILD)/%.o) $(STEPREC_CC:%.cc=$(BUILD)/%.o)

$(STEPREC_SO): $(STEPREC_OBJ) $(LLDB_LIB) $(LIB) watchctl/step/lldb/libsteprec.map
	@mkdir -p $(@D)
	$(if $(Q),@echo "  LD      $@")
	$(Q)$(CXX) -shared $(CFLAGS) $(LDFLAGS) -Wl,-z,now,-z,relro,-z,nodelete,-z,defs \
		-Wl,--version-script=watchctl/step/lldb/libsteprec.map -o $@ $(STEPREC_OBJ) $(LLDB_LIB) $(LIB) $(LIBS) $(LLDB_LIBS)

ifneq ($(LLDB),none)
all: $(STEPREC_SO)
endif

-include $(STEPREC_OBJ:.o=.d)
