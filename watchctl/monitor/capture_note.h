/* capture_note - where a mapped module has the descriptor of its copy of libstackwalk, by its ELF notes. */
#ifndef WATCHCTL_MONITOR_CAPTURE_NOTE_H
#define WATCHCTL_MONITOR_CAPTURE_NOTE_H

#include "watchctl/code/elf/module.h"
#include "watchctl/code/memory_view.h"

/* From the process's memory alone: the file may be gone. False: there is none. */
bool capture_note_find(const struct memory_view *mem, const struct module *m, uint64_t *ret);

#endif
