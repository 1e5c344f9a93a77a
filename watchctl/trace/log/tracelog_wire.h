/*
 * tracelog_wire - how a field is stored, and what CTF calls that: the words of tracelog_rows.h. Little endian, no
 * padding anywhere. Inside of those who expand its rows.
 */
#ifndef WATCHCTL_TRACE_LOG_TRACELOG_WIRE_H
#define WATCHCTL_TRACE_LOG_TRACELOG_WIRE_H

/* A word a line. */
/* clang-format off */

/* W(wire, stored as, C type) */
#define LOG_NUMBERS(W) \
	W(i32, u32, int32_t) \
	W(i64, u64, int64_t) \
	W(hex8, u8, uint8_t) \
	W(hex64, u64, uint64_t) \
	W(recording_withheld, u8, uint8_t) \
	W(recording_inputs, u8, uint8_t)

/* W(wire, least, most): a byte; what is beyond is damage */
#define LOG_ENUMS(W) \
	W(access_kind, 0, ACCESS_EXECUTE) \
	W(value_kind, 0, VALUE_AGGREGATE) \
	W(type_kind, 0, TYPE_REGISTER) \
	W(region_kind, 0, REGION_FILE) \
	W(range_what, RANGE_BEGIN, RANGE_STOPPED) \
	W(return_how, RETURN_RETURNED, RETURN_UNKNOWN) \
	W(input_kind, INPUT_ARGUMENTS, INPUT_RANDOM) \
	W(probe_when, 0, PROBE_IN_PLACE) \
	W(probe_tactic, 0, PROBE_TACTIC_SOURCE)

/*
 * Strings end with a NUL byte:
 *
 *	string, optional		no longer than TRACELOG_STRING_MAX; of an optional one, "" stands for NULL
 *	name, optional_name		no longer than NAME_MAX_BYTES: an event that has many must fit into a packet
 */
#define NAME_MAX_BYTES 4096u
#define ENUMERATORS_BYTES (1u << 20) /* those of a type that do not fit are shown as numbers */

/* Whether a member is stored as one of these. */
#define WIRE_IS_TEXT(member) _Generic((member), const char *: true, char *: true, default: false)

/* Bytes at least, of those that are in lists */
enum {
	WIRE_LEAST_u8 = 1,
	WIRE_LEAST_u32 = 4,
	WIRE_LEAST_i64 = 8,
	WIRE_LEAST_optional = 1,
	WIRE_LEAST_name = 1,
	WIRE_LEAST_optional_name = 1,
};

/* CTF's names */

#define CTF_u1 "uint1_t"
#define CTF_u5 "uint5_t"
#define CTF_u8 "uint8_t"
#define CTF_u16 "uint16_t"
#define CTF_u32 "uint32_t"
#define CTF_u48 "uint48_t"
#define CTF_u64 "uint64_t"
#define CTF_i32 "int32_t"
#define CTF_i64 "int64_t"
#define CTF_hex8 "hex8_t"
#define CTF_hex32 "hex32_t"
#define CTF_hex64 "hex64_t"
#define CTF_flag "uint8_t"
#define CTF_string "string"
#define CTF_optional "string"
#define CTF_name "string"
#define CTF_optional_name "string"
#define CTF_access_kind "enum access_kind"
#define CTF_withheld "enum withheld"
#define CTF_walk_end "enum walk_end"
#define CTF_value_kind "enum value_kind"
#define CTF_type_kind "enum type_kind"
#define CTF_region_kind "enum region_kind"
#define CTF_range_what "enum range_what"
#define CTF_return_how "enum return_how"
#define CTF_input_kind "enum input_kind"
#define CTF_probe_when "enum probe_when"
#define CTF_probe_tactic "enum probe_tactic"
#define CTF_probe_kind "enum probe_kind"
#define CTF_reemitted "enum : uint8_t { end = 0, begin = 1 }"
#define CTF_recording_withheld "enum : uint8_t { nothing = 0, some = 1, all = 2 }"
#define CTF_recording_inputs "enum : uint8_t { none = 0, start = 1, range = 2, whole = 3 }"
#define CTF_regs \
	"struct {\n" \
	"\t\t\thex64_t rax; hex64_t rdx; hex64_t rcx; hex64_t rbx;\n" \
	"\t\t\thex64_t rsi; hex64_t rdi; hex64_t rbp; hex64_t rsp;\n" \
	"\t\t\thex64_t r8; hex64_t r9; hex64_t r10; hex64_t r11;\n" \
	"\t\t\thex64_t r12; hex64_t r13; hex64_t r14; hex64_t r15;\n" \
	"\t\t\thex64_t rip; hex64_t rflags; hex64_t fs_base;\n" \
	"\t\t}"

/* Declarations, before the first event that has them */

#define CTF_DECLARE_blank "\n"
#define CTF_DECLARE_access_kind \
	"enum access_kind : uint8_t { unknown = 0, read = 1, write = 2, readwrite = 3, execute = 4 };\n"
#define CTF_DECLARE_withheld \
	"enum withheld : uint8_t { nothing = 0, values = 1, registers = 2, values_and_registers = 3 };\n"
#define CTF_DECLARE_walk_end \
	"enum walk_end : uint8_t {\n" \
	"\tcomplete = 0, depth = 1, unreadable = 2, no_rule = 3, not_ascending = 4, unknown_pc = 5\n" \
	"};\n"
#define CTF_DECLARE_value_kind \
	"enum value_kind : uint8_t {\n" \
	"\t\"unknown\" = 0, \"signed\" = 1, \"unsigned\" = 2, \"bool\" = 3, \"char\" = 4, \"float\" = 5,\n" \
	"\t\"pointer\" = 6, \"enum\" = 7, \"aggregate\" = 8\n" \
	"};\n"
#define CTF_DECLARE_type_kind \
	"enum type_kind : uint8_t {\n" \
	"\t\"unknown\" = 0, \"void\" = 1, \"signed\" = 2, \"unsigned\" = 3, \"bool\" = 4, \"char\" = 5,\n" \
	"\t\"float\" = 6, \"enum\" = 7, \"pointer\" = 8, \"string\" = 9, \"struct\" = 10, \"union\" = 11,\n" \
	"\t\"array\" = 12, \"code\" = 13, \"register\" = 14\n" \
	"};\n"
#define CTF_DECLARE_region_kind \
	"enum region_kind : uint8_t {\n" \
	"\t\"other\" = 0, \"heap\" = 1, \"stack\" = 2, \"anonymous\" = 3, \"file\" = 4\n" \
	"};\n"
#define CTF_DECLARE_range_what \
	"enum range_what : uint8_t {\n" \
	"\t\"begin\" = 1, \"reached\" = 2, \"returned\" = 3, \"limit\" = 4, \"stuck\" = 5, \"exited\" = 6,\n" \
	"\t\"execed\" = 7, \"stopped\" = 8\n" \
	"};\n"
#define CTF_DECLARE_return_how \
	"enum return_how : uint8_t {\n" \
	"\t\"returned\" = 1, \"exception\" = 2, \"longjmp\" = 3, \"thread_exit\" = 4, \"cancelled\" = 5,\n" \
	"\t\"process_exit\" = 6, \"exec\" = 7, \"never\" = 8, \"unknown\" = 9\n" \
	"};\n"
#define CTF_DECLARE_input_kind \
	"enum input_kind : uint8_t {\n" \
	"\t\"arguments\" = 1, \"environment\" = 2, \"directory\" = 3, \"file\" = 4, \"stream\" = 5,\n" \
	"\t\"map\" = 6, \"open\" = 7, \"status\" = 8, \"link\" = 9, \"entries\" = 10, \"clock\" = 11,\n" \
	"\t\"random\" = 12\n" \
	"};\n"
#define CTF_DECLARE_probe_when "enum probe_when : uint8_t { before = 0, after = 1, in_place = 2 };\n"
#define CTF_DECLARE_probe_tactic \
	"enum probe_tactic : uint8_t {\n" \
	"\tjump = 0, padding = 1, nop = 2, pun = 3, trap = 4, refused = 5, source = 6\n" \
	"};\n"
#define CTF_DECLARE_probe_kind "enum probe_kind : uint8_t { \"log\" = 1, \"value\" = 2, \"stack\" = 3 };\n"

/* clang-format on */

#endif
