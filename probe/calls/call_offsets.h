/* call_offsets - members of the structs of call_wire.h, which checks these numbers, for assembly and for trampolines. */
#ifndef PROBE_CALLS_CALL_OFFSETS_H
#define PROBE_CALLS_CALL_OFFSETS_H

#define CALL_PLACE_SHIFT 6
#define CALL_PLACE_SIZE 64
#define CALL_PLACE_LAST 8
#define CALL_PLACE_TID 16
#define CALL_OFF_AT 0x400000
#define CALL_OFF_IGNORED 2 /* CALL_IGNORED */
#define CALL_OFF_VALUED 3  /* CALL_VALUED */
#define CALL_SLOT_SIZE 24
#define CALL_SLOT_PLACE 8
#define CALL_SLOT_RETURN 16
#define CALL_SITE_BITS 20

#endif
