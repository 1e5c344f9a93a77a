/* self_sections - what only the section headers of the program's file tell. For setup: uses files. */
#ifndef STACKWALK_SELF_SECTIONS_H
#define STACKWALK_SELF_SECTIONS_H

#include <stdint.h>

/* The address of .eh_frame in the file of the running program, without its bias; 0: it cannot be known. */
uint64_t self_eh_frame_address(void);

#endif
