# libcalltrace, what a program links that was built with the call tracer's pass: as libstackwalk, a shared library and an
# archive of one object, by the rules in capture.mk. Needs nothing but libc.

CALLTRACE_RT_SRC := $(wildcard calltrace/runtime/*.c)
CALLTRACE_RT_OBJ := $(CALLTRACE_RT_SRC:%.c=$(BUILD)/pic/%.o) $(BUILD)/pic/calltrace/runtime/turn.o
CALLTRACE_LOG_SRC := $(addprefix watchctl/trace/calls/,call_format.c call_metadata.c call_signature.c) watchctl/trace/log/tracelog_member.c $(LOG_WRITER_SRC)
CALLTRACE_OBJ := $(CALLTRACE_RT_OBJ) $(CALLTRACE_LOG_SRC:%.c=$(BUILD)/pic/%.o)
CALLTRACE_SONAME := libcalltrace.so.0
CALLTRACE_SO := $(BUILD)/$(CALLTRACE_SONAME)
CALLTRACE_LIB := $(BUILD)/libcalltrace.a
# The same names, which do nothing.
CALLTRACE_STUB_OBJ := $(BUILD)/pic/calltrace/stub/calltrace_stub.o
CALLTRACE_STUB_SONAME := libcalltrace-stub.so.0
CALLTRACE_STUB_SO := $(BUILD)/$(CALLTRACE_STUB_SONAME)
CALLTRACE_STUB_LIB := $(BUILD)/libcalltrace-stub.a
# For tests: every part can be called. What they share with the library is in libwatchctl.
CALLTRACE_PARTS := $(BUILD)/libcalltrace-parts.a

# A turn may come in the program's memcpy(): it calls none, not even where the compiler would.
$(CALLTRACE_RT_OBJ): CAPTURE_PLAIN += -fno-builtin $(if $(findstring clang,$(CC)),,-fno-tree-loop-distribute-patterns)

all: $(CALLTRACE_SO) $(CALLTRACE_LIB) $(CALLTRACE_STUB_SO) $(CALLTRACE_STUB_LIB)

# Never unloaded: threads may be inside, or have yet to end.
$(CALLTRACE_SO): $(CALLTRACE_OBJ) calltrace/runtime/libcalltrace.map
	$(if $(Q),@echo "  LD      $@")
	$(Q)$(CC) -shared $(CAPTURE_PLAIN) $(LDFLAGS) -Wl,-soname,$(CALLTRACE_SONAME) -Wl,--gc-sections -Wl,-z,now,-z,relro,-z,nodelete,-z,defs \
		-Wl,--version-script=calltrace/runtime/libcalltrace.map -o $@ $(CALLTRACE_OBJ) -lpthread
	$(Q)ln -sf $(CALLTRACE_SONAME) $(BUILD)/libcalltrace.so

$(CALLTRACE_LIB): $(CALLTRACE_OBJ)
	$(if $(Q),@echo "  AR      $@")
	$(Q)$(LD) -r -o $(BUILD)/pic/calltrace.o $(CALLTRACE_OBJ)
	$(Q)$(OBJCOPY) --localize-hidden $(BUILD)/pic/calltrace.o
	$(Q)rm -f $@ && ar rcs $@ $(BUILD)/pic/calltrace.o

$(CALLTRACE_STUB_SO): $(CALLTRACE_STUB_OBJ) calltrace/runtime/libcalltrace.map
	$(if $(Q),@echo "  LD      $@")
	$(Q)$(CC) -shared $(CAPTURE_PLAIN) $(LDFLAGS) -Wl,-soname,$(CALLTRACE_STUB_SONAME) -Wl,-z,now,-z,relro,-z,defs \
		-Wl,--version-script=calltrace/runtime/libcalltrace.map -o $@ $<
	$(Q)ln -sf $(CALLTRACE_STUB_SONAME) $(BUILD)/libcalltrace-stub.so

$(CALLTRACE_STUB_LIB): $(CALLTRACE_STUB_OBJ)
	$(if $(Q),@echo "  AR      $@")
	$(Q)rm -f $@ && ar rcs $@ $<

$(CALLTRACE_PARTS): $(CALLTRACE_RT_OBJ)
	$(Q)rm -f $@ && ar rcs $@ $^

-include $(CALLTRACE_STUB_OBJ:.o=.d) $(CALLTRACE_RT_SRC:%.c=$(BUILD)/pic/%.d) $(CALLTRACE_LOG_SRC:%.c=$(BUILD)/pic/%.d)
