#include "watchctl/trace/flow/flow_format.h"

#include <stddef.h>

#include "watchctl/trace/log/tracelog_check.h"

#define BITS(n) "typealias integer { size = " #n "; align = 1; signed = false; } := uint" #n "_t;\n"

#define SIGNED_BITS(n) "typealias integer { size = " #n "; align = 1; signed = true; } := int" #n "_t;\n"

#define EVENT_TEXT(name, id, fields)                                                              \
	"event {\n"                                                                               \
	"\tname = \"" name "\";\n\tid = " id ";\n\tstream_id = 2;\n\tfields := struct {\n" fields \
	"\t};\n};\n"

#define SWITCH_TEXT             \
	"\t\tuint24_t next;\n"  \
	"\t\twhy_t why;\n"      \
	"\t\tuint3_t unused;\n" \
	"\t\tuint1_t in_fault;\n"

#define NUMBER_TEXT(name) "\t\tuint32_t " name ";\n"

/* Fields that are no multiple of 8 bits have no alignment, which would become that of the fields around them. */
const char flow_stream_text[] = "\n" BITS(3) BITS(4) BITS(7) BITS(9) BITS(11) BITS(19) BITS(22) BITS(23) BITS(24) SIGNED_BITS(19) SIGNED_BITS(
	23) "typealias integer { size = 32; align = 32; signed = false; } := word32_t;\n"
	    "typealias integer {\n"
	    "\tsize = 27; align = 1; signed = false; map = clock.monotonic.value;\n"
	    "} := clock27_t;\n"
	    "typealias integer {\n"
	    "\tsize = 64; align = 32; signed = false; map = clock.monotonic.value;\n"
	    "} := clock64_t;\n"
	    "typealias integer { size = 8; align = 8; signed = false; encoding = UTF8; } := text_t;\n"
	    "typealias enum : uint4_t {\n"
	    "\tpreempted = 0, yielded = 1, sleeps = 2, blocked = 3, stopped = 4, dead = 5, idle = 6,\n"
	    "\tuntold = 7,\n"
	    "} := why_t;\n"
	    "typealias enum : uint8_t {\n"
	    "\tthread = 0, softirq = 1, irq = 2, nmi = 3, unknown = 4,\n"
	    "} := context_t;\n"
	    "typealias enum : uint32_t {\n"
	    "\tthread = 0, softirq = 1, irq = 2, nmi = 3, unknown = 4,\n"
	    "} := context32_t;\n"
	    "typealias enum : uint8_t {\n"
	    "\twas = 0, fork = 1, exec = 2, rename = 3,\n"
	    "} := name_how_t;\n"
	    "typealias enum : uint4_t {\n"
	    "\tnone = 0, file = 1, pipe = 2, unix = 3, inet = 4, socket = 5, eventfd = 6, epoll = 7,\n"
	    "\ttimerfd = 8, pty_master = 9, pty = 10, tty = 11, device = 12, directory = 13, other = 14,\n"
	    "\tsemaphore = 15,\n"
	    "} := kind_t;\n"
	    "\n" FLOW_STREAM_BEGIN "\tpacket.context := struct {\n"
	    "\t\tclock_t timestamp_begin;\n"
	    "\t\tclock_t timestamp_end;\n"
	    "\t\tuint64_t content_size;\n"
	    "\t\tuint64_t packet_size;\n"
	    "\t\tuint64_t events_discarded;\n"
	    "\t\tuint32_t cpu;\n"
	    "\t\tuint32_t tid;\n"
	    "\t\tuint32_t packet;\n"
	    "\t\thex32_t crc32c;\n"
	    "\t};\n"
	    "\tevent.header := struct {\n"
	    "\t\tenum : uint5_t { compact = 0 ... 30, extended = 31 } id;\n"
	    "\t\tvariant <id> {\n"
	    "\t\t\tstruct {\n"
	    "\t\t\t\tclock27_t timestamp;\n"
	    "\t\t\t} compact;\n"
	    "\t\t\tstruct {\n"
	    "\t\t\t\tword32_t id;\n"
	    "\t\t\t\tclock64_t timestamp;\n"
	    "\t\t\t} extended;\n"
	    "\t\t} v;\n"
	    "\t};\n"
	    "};\n"
	    "\n" EVENT_TEXT("switch", "0", SWITCH_TEXT) EVENT_TEXT(
		    "wait_call", "1",
		    SWITCH_TEXT
		    "\t\tuint9_t call;\n\t\tuint23_t unused_2;\n") EVENT_TEXT("wait_on", "2",
									      SWITCH_TEXT
									      "\t\tuint9_t call;\n\t\tkind_t kind;\n\t\tuint19_t fd;\n\t\tuint32_t object;\n")
		    EVENT_TEXT("wait_futex", "3",
			       SWITCH_TEXT
			       "\t\tuint9_t op;\n\t\tuint1_t read;\n\t\tuint22_t unused_2;\n"
			       "\t\thex64_t address;\n\t\thex32_t word[3];\n") EVENT_TEXT("waking", "4",
											  "\t\tuint24_t target;\n\t\tcontext_t context;\n")
			    EVENT_TEXT("fork", "5", "\t\tuint24_t child;\n\t\tuint1_t is_thread;\n\t\tuint7_t unused;\n") EVENT_TEXT(
				    "name",
				    "6",
				    "\t\tuint24_t tid;\n\t\tname_how_t how;\n\t\tuint32_t pid;\n\t\tuint32_t parent;\n"
				    "\t\ttext_t comm[16];\n") EVENT_TEXT("exec",
									 "7", "\t\tuint24_t old_tid;\n\t\tuint8_t unused;\n")
				    EVENT_TEXT("exit", "8", NUMBER_TEXT("status")) EVENT_TEXT(
					    "call",
					    "9",
					    "\t\tuint9_t call;\n\t\tint23_t result;\n") EVENT_TEXT("call_big", "10", "\t\tuint9_t call;\n\t\tuint23_t unused;\n\t\tint64_t result;\n")
					    EVENT_TEXT("call_on", "11", "\t\tuint9_t call;\n\t\tkind_t kind;\n\t\tint19_t result;\n\t\tuint32_t object;\n") EVENT_TEXT(
						    "call_on_big", "12",
						    "\t\tuint9_t call;\n\t\tkind_t kind;\n\t\tuint19_t unused;\n\t\tuint32_t object;\n"
						    "\t\tint64_t result;\n") EVENT_TEXT("call_futex", "13", "\t\tuint9_t op;\n\t\tint23_t result;\n\t\thex64_t address;\n")
						    EVENT_TEXT("signal", "14", "\t\tuint24_t target;\n\t\tuint8_t signal;\n\t\tcontext32_t how;\n") EVENT_TEXT(
							    "signal_taken",
							    "15",
							    "\t\tuint8_t signal;\n\t\tuint24_t unused;\n") EVENT_TEXT("timer_set", "16", NUMBER_TEXT("timer"))
							    EVENT_TEXT("timer_fired", "17", NUMBER_TEXT("timer")) EVENT_TEXT(
								    "work_queued", "18",
								    NUMBER_TEXT(
									    "work")) EVENT_TEXT("work_began",
												"19", NUMBER_TEXT("work"))
								    EVENT_TEXT("work_ended", "20", NUMBER_TEXT("work")) EVENT_TEXT(
									    "uring_submit",
									    "21",
									    NUMBER_TEXT(
										    "request")) EVENT_TEXT("uring_done",
													   "22",
													   NUMBER_TEXT(
														   "request"))
									    EVENT_TEXT("block_issued", "23", NUMBER_TEXT("request")) EVENT_TEXT(
										    "block_done", "24",
										    NUMBER_TEXT("request"))
										    EVENT_TEXT(
											    "socket", "25",
											    "\t\tkind_t kind;\n\t\tuint1_t is_new;\n\t\tuint11_t unused;\n\t\tuint16_t port;\n\t\tuint32_t object;\n"
											    "\t\thex32_t other;\n"
											    "\t\thex32_t own_address;\n\t\thex32_t other_address;\n")
											    EVENT_TEXT(
												    "lost",
												    "26",
												    NUMBER_TEXT(
													    "count"))
												    EVENT_TEXT(
													    "stack",
													    "27",
													    "\t\tuint8_t depth;\n\t\tuint24_t unused;\n\t\thex64_t address[depth];\n")
													    EVENT_TEXT(
														    "time",
														    "31",
														    "");

uint32_t flow_packet_checksum(const struct flow_packet *p, uint64_t len)
{
	return crc32c_around(p, offsetof(struct flow_packet, crc32c), len);
}
