# What `watchctl export --to perfetto` writes its messages with: made of their description by protobuf-c's compiler.

PERFETTO_PROTO := watchctl/view/export/perfetto_trace.proto
PERFETTO_C := $(BUILD)/perfetto_trace.pb-c

$(PERFETTO_C).c: $(PERFETTO_PROTO) | packages
	@mkdir -p $(@D)
	$(if $(Q),@echo "  PROTO   $<")
	$(Q)protoc-c --proto_path=$(<D) --c_out=$(@D) $<

$(PERFETTO_C).h: $(PERFETTO_C).c ;

$(PERFETTO_C).o: $(PERFETTO_C).c $(BUILD)/flags
	$(Q)$(CC) $(BASE_CFLAGS) $(CFLAGS) -c -o $@ $<

$(BUILD)/watchctl/view/export/export_perfetto_file.o: | $(PERFETTO_C).h

-include $(PERFETTO_C).d
