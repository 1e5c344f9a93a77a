/* The description of events in the metadata: made from tracelog_rows.h. */
#include "watchctl/trace/log/tracelog_format.h"

#include "watchctl/trace/log/tracelog_rows.h"
#include "watchctl/trace/log/tracelog_wire.h"

#define LINE(type, name) "\t\t" type " " name ";\n"
#define INNER_LINE(type, name) "\t" LINE(type, name)

#define TEXT(kind, ...) TEXT_##kind(__VA_ARGS__)
#define TEXT_FIELD(wire, name, ...) LINE(CTF_##wire, #name)
#define TEXT_FIELD_IF(wire, name, ...) LINE(CTF_##wire, #name)
#define TEXT_HAND(wire, name, ...) LINE(CTF_##wire, #name)
#define TEXT_BYTES(name, length, ...) LINE(CTF_u8, #length) LINE(CTF_hex8, #name "[" #length "]")
#define TEXT_POINTED(wire, name, length, ...) LINE(CTF_##wire, #length) LINE(CTF_hex8, #name "[" #length "]")
#define TEXT_BUILD_ID(name, ...) LINE(CTF_string, #name)
#define TEXT_BUILD_ID_OF(name, ...) LINE(CTF_string, #name)
#define TEXT_STACK(...) LINE(CTF_u32, "stack")
#define TEXT_BEFORE(...) LINE(CTF_u48, "before_ns")
#define TEXT_MORE(...)
#define TEXT_LIST(name, number, member, n, max, bytes, kept, rows) \
	LINE(CTF_u32, #number) "\t\tstruct {\n" rows(INNER) "\t\t} " #name "[" #number "];\n"

#define INNER(kind, ...) INNER_##kind(__VA_ARGS__)
#define INNER_FIELD(wire, name, ...) INNER_LINE(CTF_##wire, #name)

#define DECLARATION(name) CTF_DECLARE_##name
#define EVENT_TEXT(type, number, name, rows)                               \
	"event {\n"                                                        \
	"\tname = \"" #name "\";\n\tid = " #number ";\n\tstream_id = 0;\n" \
	"\tfields := struct {\n" rows(TEXT) "\t};\n};\n"

const char tracelog_events_text[] = "\n"
				    "typealias integer {\n"
				    "\tsize = 64; align = 8; signed = false; map = clock.monotonic.value;\n"
				    "} := clock_t;\n"
				    "\n"
				    "stream {\n"
				    "\tid = 0;\n"
				    "\tpacket.context := struct {\n"
				    "\t\tclock_t timestamp_begin;\n"
				    "\t\tclock_t timestamp_end;\n"
				    "\t\tuint64_t content_size;\n"
				    "\t\tuint64_t packet_size;\n"
				    "\t\tuint64_t events_discarded;\n"
				    "\t};\n"
				    "\tevent.header := struct {\n"
				    "\t\tuint16_t id;\n"
				    "\t\tclock_t timestamp;\n"
				    "\t};\n"
				    "\tevent.context := struct {\n"
				    "\t\tuint32_t size;\n"
				    "\t};\n"
				    "};\n"
				    "\n" LOG_EVENTS(EVENT_TEXT, EVENT_TEXT, EVENT_TEXT, DECLARATION);

const char tracelog_symbol_event_text[] = LOG_SYMBOL_EVENT(EVENT_TEXT);
