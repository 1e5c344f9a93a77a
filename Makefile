# watchctl: build, test, install. `make help` lists the targets.
#
#	CC=clang make			another compiler
#	make BUILD=build-x V=1		another build folder, commands shown
#	make install DESTDIR=/tmp/x PREFIX=/usr

ifeq ($(origin CC),default)
CC := gcc
endif
CXX ?= g++
CLANG ?= clang
CLANG_FORMAT ?= clang-format
CLANG_TIDY ?= clang-tidy
PYTHON ?= /usr/bin/python3
BUILD ?= build
PREFIX ?= /usr/local
V ?= 0
Q := $(if $(filter 1,$(V)),,@)
VERSION := 0.1.0

include tools/packages.mk

# What is missing is installed before anything is looked for below: make reads everything again when this file
# is made. LLDB is wanted, not needed: without it, `watchctl step` says so. LLVM likewise: without it, there is no
# calltrace-cc.
LLDB_ASKED := $(LLDB)
PASS_ASKED := $(PASS_LLVM)
ifeq ($(filter clean help uninstall,$(MAKECMDGOALS)),)
$(BUILD)/packages.made: tools/packages.mk
	@mkdir -p $(@D)
	@tools/install-packages $(PACKAGES_BUILD)
	@$(if $(filter none,$(LLDB_ASKED)),:,tools/install-packages $(PACKAGES_LLDB) || :)
	@$(if $(filter none,$(PASS_ASKED)),:,tools/install-packages $(PACKAGES_PASS) || :)
	@touch $@
-include $(BUILD)/packages.made
endif

CFLAGS ?= -O2 -g
WARN := -Wall -Wextra -Wmissing-prototypes -Wstrict-prototypes -Wpointer-arith -Wvla -Wno-unused-parameter
# Position independent: the library is a part of LLDB's plugin, too.
BASE_CFLAGS := -std=gnu11 -fPIC -D_GNU_SOURCE -DWATCHCTL_VERSION='"$(VERSION)"' -I. -I$(BUILD) $(WARN) -MMD -MP
PKGS := libdw libelf
PKG_CFLAGS := $(shell pkg-config --cflags $(PKGS) 2>/dev/null)
# Every allocation of ours goes through watchctl/base/memory.c, which notes that one has failed. Who links the library
# by hand takes the options from $(BUILD)/libwatchctl.flags.
WRAPPED := malloc calloc realloc reallocarray aligned_alloc strdup strndup asprintf vasprintf __asprintf_chk __vasprintf_chk open_memstream
LIBS := $(WRAPPED:%=-Wl,--wrap=%) $(shell pkg-config --libs $(PKGS) 2>/dev/null) -lZydis -lcapstone -lunwind-x86_64 -lbpf -lz -liberty -lprotobuf-c -lpthread
# Of `watchctl top` and of the REPL.
CLI_LIBS := -lreadline -lncursesw -ltinfo

# The handler runs inside the traced program: freestanding, position independent, general registers only.
HANDLER_CFLAGS := -std=gnu11 -O2 -g -I. $(WARN) -MMD -MP -ffreestanding -fPIC -fvisibility=hidden \
	-mgeneral-regs-only -mno-red-zone -fno-stack-protector -fno-asynchronous-unwind-tables \
	-fcf-protection=none -fomit-frame-pointer -fno-builtin -fno-jump-tables
# Neither compiler may turn a loop into a call of memset; clang has no option for it of its own.
HANDLER_CFLAGS += $(if $(findstring clang,$(CC)),,-fno-tree-loop-distribute-patterns)

# A room is a folder with its sub-folders. What needs LLDB is linked into watchctl-step and the plugin alone.
room = $(sort $(shell find $(1) -name '*.c' ! -name '*.bpf.c'))
LIB_SRC := $(filter-out watchctl/step/lldb/%,$(call room,$(addprefix watchctl/,base code trace target session patch engine step flow monitor view)))
# Of the runtime that is in traced programs: the rules by which events become calls, for who reads them in a core.
LIB_SRC += $(addprefix calltrace/runtime/,open_calls.c open_memory.c call_output.c event_pairs.c)
STEP_CLI_SRC := watchctl/cli/step_main.c watchctl/cli/request/step_from_watch.c
CLI_SRC := $(filter-out $(STEP_CLI_SRC) watchctl/cli/steprec/%,$(call room,watchctl/cli))
LIB_OBJ := $(LIB_SRC:%.c=$(BUILD)/%.o) $(BUILD)/perfetto_trace.pb-c.o
CLI_OBJ := $(CLI_SRC:%.c=$(BUILD)/%.o)
LIB := $(BUILD)/libwatchctl.a
PROG := $(BUILD)/bin/watchctl
HANDLER_SRC := $(wildcard handler/*.c handler/*.S)

.DEFAULT_GOAL := all
.PHONY: all clean help
all: $(PROG) $(BUILD)/bin/watchctl-step

help: ## this list
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | sort | expand -t 16

# Another compiler or other flags: everything is compiled again.
FLAGS_NOW = $(CC) $(BASE_CFLAGS) $(PKG_CFLAGS) $(CFLAGS) $(LLDB) $(PASS_NEWEST) $(HANDLER_CFLAGS)
$(BUILD)/flags: FORCE
	@mkdir -p $(@D)
	@printf '%s\n' '$(subst ','\'',$(FLAGS_NOW))' | cmp -s - $@ || printf '%s\n' '$(subst ','\'',$(FLAGS_NOW))' > $@
FORCE:
.PHONY: FORCE

$(BUILD)/%.o: %.c $(BUILD)/flags | packages
	@mkdir -p $(@D)
	$(if $(Q),@echo "  CC      $<")
	$(Q)$(CC) $(BASE_CFLAGS) $(PKG_CFLAGS) $(CFLAGS) -c -o $@ $<

$(LIB): $(LIB_OBJ)
	@rm -f $@
	$(if $(Q),@echo "  AR      $@")
	$(Q)ar rcs $@ $^
	@printf '%s\n' $(WRAPPED:%=-Wl,--wrap=%) > $(BUILD)/libwatchctl.flags

$(PROG): $(CLI_OBJ) $(LIB)
	@mkdir -p $(@D)
	$(if $(Q),@echo "  LD      $@")
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $(CLI_OBJ) $(LIB) $(LIBS) $(CLI_LIBS)

clean: ## removes what was built
	rm -rf $(BUILD) build-*

include $(wildcard $(patsubst %,tools/%.mk, \
	handler probe library page rules lldb capture calltrace calltrace-runtime bpf \
	protobuf syscalls demo victims test truth proof faults chaos check nightly bench \
	install))
-include $(LIB_OBJ:.o=.d) $(CLI_OBJ:.o=.d) $(STEP_CLI_SRC:%.c=$(BUILD)/%.d)
