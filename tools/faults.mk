# Fault injection: each call of ours that asks the kernel or the allocator for something fails once (tests/faults).

FAULTS_SO := $(BUILD)/tests/faults/libfaults.so
FAULTS_VICTIMS := $(addprefix $(BUILD)/victims/,hammer faults_steps faults_tags)
FAULTS_RUN = env --default-signal BUILD="$(BUILD)" PYTHONDONTWRITEBYTECODE=1 $(PYTHON) tests/faults/driver.py
# `make faults FAULTS="--scenario ring --sample 50"`; without, every way of every scenario: about an hour.
FAULTS ?=

.PHONY: faults faults-programs
faults: faults-programs ## every system call and allocation of ours fails once, in each scenario (an hour and more)
	@$(FAULTS_RUN) $(FAULTS)

faults-programs: all $(FAULTS_SO) $(FAULTS_VICTIMS)

# Never instrumented: it stands between the program and a sanitizer's runtime.
$(FAULTS_SO): tests/faults/faults.c tests/faults/faults_entry.S tests/faults/faults.h tests/faults/faults_list.h
	@mkdir -p $(@D)
	$(if $(Q),@echo "  LD      $@")
	$(Q)$(CC) -std=gnu11 -D_GNU_SOURCE -O2 -g $(WARN) -fPIC -shared -fno-builtin -I. -o $@ $(filter %.c %.S,$^) -ldl

$(BUILD)/victims/faults_%: tests/faults/faults_%.c $(CAPTURE_SO)
	@mkdir -p $(@D)
	$(if $(Q),@echo "  CC      $<")
	$(Q)gcc -O1 -g -Istackwalk -o $@ $< -L$(BUILD) -lstackwalk -Wl,-rpath,$(abspath $(BUILD))
