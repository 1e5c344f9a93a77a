/*
 * tracelog_check - the checksum of a packet: CRC-32C (Castagnoli), as iSCSI and ext4 use it. It reports a page
 * that a power cut has zeroed, or left half written, from what was recorded.
 */
#ifndef WATCHCTL_TRACE_LOG_TRACELOG_CHECK_H
#define WATCHCTL_TRACE_LOG_TRACELOG_CHECK_H

#include <stddef.h>
#include <stdint.h>

/* Goes on from @crc: 0, or what was returned for the bytes before. */
uint32_t crc32c(uint32_t crc, const void *bytes, size_t n);

/* The same without the CPU's instruction: for CPUs that lack it, and for tests. */
uint32_t crc32c_table(uint32_t crc, const void *bytes, size_t n);

/* Of @n bytes that have a checksum at @at: all of them but these four. */
uint32_t crc32c_around(const void *bytes, size_t at, size_t n);

/* Of the packet of @len bytes, all of it but the checksum itself, which must be in it. */
uint32_t tracelog_packet_checksum(const uint8_t *packet, size_t len);

#endif
