#include "watchctl/trace/calls/call_format.h"

#include <stddef.h>

#include "watchctl/trace/log/tracelog_check.h"

#define EVENT_TEXT(name, id, fields)                                                              \
	"event {\n"                                                                               \
	"\tname = \"" name "\";\n\tid = " id ";\n\tstream_id = 1;\n\tfields := struct {\n" fields \
	"\t};\n};\n"

/* Words have no alignment, which would become that of the fields around them: these begin at bit 34 of the event. */
const char call_stream_text[] =
	"\n"
	"typealias integer { size = 2; align = 1; signed = false; } := uint2_t;\n"
	"typealias integer { size = 30; align = 1; signed = false; } := uint30_t;\n"
	"typealias integer { size = 64; align = 1; signed = false; base = 16; } := word64_t;\n"
	"typealias integer {\n"
	"\tsize = 32; align = 1; signed = false; map = clock.monotonic.value;\n"
	"} := clock32_t;\n"
	"\n" CALL_STREAM_BEGIN "\tpacket.context := struct {\n"
	"\t\tclock_t timestamp_begin;\n"
	"\t\tclock_t timestamp_end;\n"
	"\t\tuint64_t content_size;\n"
	"\t\tuint64_t packet_size;\n"
	"\t\tuint64_t events_discarded;\n"
	"\t\tint32_t pid;\n"
	"\t\tint32_t tid;\n"
	"\t\tuint32_t packet;\n"
	"\t\thex32_t crc32c;\n"
	"\t};\n"
	"\tevent.header := struct {\n"
	"\t\tuint2_t id;\n"
	"\t\tclock32_t timestamp;\n"
	"\t};\n"
	"};\n"
	"\n" EVENT_TEXT("entry", "0", "\t\tuint30_t function;\n")
		EVENT_TEXT("exit", "1", "\t\tuint30_t function;\n")
			EVENT_TEXT("exit_unseen", "2", "\t\tuint30_t function;\n")
				EVENT_TEXT("more", "3", "\t\tuint30_t nwords;\n\t\tword64_t word[nwords];\n");

uint32_t call_packet_checksum(const struct call_packet *p, uint64_t len)
{
	return crc32c_around(p, offsetof(struct call_packet, crc32c), len);
}
