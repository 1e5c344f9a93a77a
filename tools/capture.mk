# libstackwalk, what a program links: a shared library, and an archive of one object in which only the public names are
# global. Needs nothing but libc.

CAPTURE_CFLAGS := -std=gnu11 -D_GNU_SOURCE -DWATCHCTL_VERSION='"$(VERSION)"' -I. $(WARN) -MMD -MP -fPIC \
	-fvisibility=hidden -ftls-model=initial-exec -fno-semantic-interposition -ffunction-sections
# All that a library of ours needs to write a log.
LOG_WRITER_SRC := $(addprefix watchctl/trace/log/,tracelog_writer.c tracelog_writer_open.c tracelog_encode.c \
		tracelog_encode_probe.c tracelog_event_text.c tracelog_metadata.c tracelog_check.c tracelog_files.c \
		tracelog_reemit.c tracelog_ring.c) \
	$(addprefix watchctl/base/,error.c map64.c utf8.c)
CAPTURE_SRC := $(wildcard stackwalk/*.c watchctl/code/unwind/eh_frame*.c watchctl/trace/tags/tag_*.c) \
	$(LOG_WRITER_SRC) watchctl/base/time/tsc_clock.c watchctl/base/time/tsc_usable.c
CAPTURE_OBJ := $(CAPTURE_SRC:%.c=$(BUILD)/pic/%.o) $(BUILD)/pic/stackwalk/capture_entry.o
CAPTURE_SONAME := libstackwalk.so.0
CAPTURE_SO := $(BUILD)/$(CAPTURE_SONAME)
CAPTURE_LIB := $(BUILD)/libstackwalk.a
# For tests: every part can be called.
CAPTURE_PARTS := $(BUILD)/libstackwalk-parts.a
# Never instrumented: it walks stacks, and runs where a sanitizer's runtime must not be called.
CAPTURE_PLAIN = $(filter-out -fsanitize% -fno-sanitize%,$(CFLAGS))
OBJCOPY ?= objcopy

all: $(CAPTURE_SO) $(CAPTURE_LIB)

$(BUILD)/pic/%.o: %.c $(BUILD)/flags | packages
	@mkdir -p $(@D)
	$(if $(Q),@echo "  CC      $< (library)")
	$(Q)$(CC) $(CAPTURE_CFLAGS) $(CAPTURE_PLAIN) -c -o $@ $<

$(BUILD)/pic/%.o: %.S $(BUILD)/flags | packages
	@mkdir -p $(@D)
	$(if $(Q),@echo "  AS      $< (library)")
	$(Q)$(CC) -c -o $@ $<

# Never unloaded: threads may be inside, or have yet to end.
$(CAPTURE_SO): $(CAPTURE_OBJ) stackwalk/libstackwalk.map
	$(if $(Q),@echo "  LD      $@")
	$(Q)$(CC) -shared $(CAPTURE_PLAIN) $(LDFLAGS) -Wl,-soname,$(CAPTURE_SONAME) -Wl,--gc-sections -Wl,-z,now,-z,relro,-z,nodelete,-z,defs \
		-Wl,--version-script=stackwalk/libstackwalk.map -o $@ $(CAPTURE_OBJ) -lpthread
	$(Q)ln -sf $(CAPTURE_SONAME) $(BUILD)/libstackwalk.so

$(CAPTURE_LIB): $(CAPTURE_OBJ)
	$(if $(Q),@echo "  AR      $@")
	$(Q)$(LD) -r -o $(BUILD)/pic/stackwalk.o $(CAPTURE_OBJ)
	$(Q)$(OBJCOPY) --localize-hidden $(BUILD)/pic/stackwalk.o
	$(Q)rm -f $@ && ar rcs $@ $(BUILD)/pic/stackwalk.o

$(CAPTURE_PARTS): $(CAPTURE_OBJ)
	$(Q)rm -f $@ && ar rcs $@ $^

-include $(CAPTURE_SRC:%.c=$(BUILD)/pic/%.d)
