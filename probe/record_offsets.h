/*
 * record_offsets - where assembly finds what it needs to count and to write a record: members of the structs of probe/wire.h, which
 * checks these numbers. For entry.S, call_buffered.S and record_value.S.
 */
#ifndef PROBE_RECORD_OFFSETS_H
#define PROBE_RECORD_OFFSETS_H

#define SITE_COUNTER 24
#define SITE_ID 32
#define COUNTER_LOST 8
#define SHARED_FLAGS 0
#define SHARED_TALLY_MASK 4
#define SHARED_NRINGS 8
#define SHARED_SLOTS 12
#define SHARED_TID_AT 16
#define SHARED_SLOT_AT 80
#define SHARED_CALLS_AT 88
#define SHARED_RING 128
#define SHARED_TALLY 8320
#define TALLY_SHIFT 4
#define TALLY_COUNT_AT 8
#define RING_SHIFT 7
#define RING_TAIL 64
#define RING_RETIRED 72
#define SLOT_KIND_WORD 4
#define SLOT_TIME 8
#define SLOT_TID 16
#define SLOT_SITE 20
#define SLOT_RESERVED 24
#define SLOT_WORDS 32
#define SLOT_SHIFT 6
#define HAS_RDPID 4  /* PROBE_RDPID */
#define FAST_CALLS 8 /* PROBE_FAST_CALLS */
#define TALLIED 16   /* PROBE_TALLIED */

#endif
