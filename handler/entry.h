/*
 * entry - what entry.S, which cannot include wire.h, knows of it (main.c checks that it is so); and how much
 * stack the handler may need.
 */
#ifndef HANDLER_ENTRY_H
#define HANDLER_ENTRY_H

#define ENTRY_NWATCHES 204 /* of struct wire_control */
#define ENTRY_WATCH 448
#define ENTRY_WATCH_SIZE 64
#define ENTRY_WATCHES 16
#define ENTRY_ROOM 4096

#endif
