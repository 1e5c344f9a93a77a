/*
 * Whether instructions are missing. All opcodes of all maps are decoded, in their forms with a memory
 * operand: each name that this yields must be among the forms executed, or not be for programs, or be refused
 * by this processor, which is found out by trying. Here the decoder may be asked: it is not asked for any
 * truth about an instruction, only for names.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <Zydis/Zydis.h>

#include "tests/truth/truth.h"

#define NAMES (ZYDIS_MNEMONIC_MAX_VALUE + 1)

struct sample {
	uint8_t bytes[INSN_MAX];
	uint8_t len;
	bool privileged;
};

static bool executed[NAMES];
static struct sample sample[NAMES]; /* len 0: no form of it accesses memory */

/* Not to be tried blindly, and why they are not among the forms. */
static const struct {
	ZydisMnemonic name;
	const char *reason;
} left_out[] = {
	{ ZYDIS_MNEMONIC_INSB, "needs permission for I/O ports" },
	{ ZYDIS_MNEMONIC_INSW, "needs permission for I/O ports" },
	{ ZYDIS_MNEMONIC_INSD, "needs permission for I/O ports" },
	{ ZYDIS_MNEMONIC_OUTSB, "needs permission for I/O ports" },
	{ ZYDIS_MNEMONIC_OUTSW, "needs permission for I/O ports" },
	{ ZYDIS_MNEMONIC_OUTSD, "needs permission for I/O ports" },
	{ ZYDIS_MNEMONIC_LGDT, "privileged" },
	{ ZYDIS_MNEMONIC_LFS, "takes the thread's fs base away" },
	{ ZYDIS_MNEMONIC_IRET, "goes to an address of 16 bits" },
};

void coverage_form(const struct truth_form *f)
{
	ZydisDecoder decoder;
	ZydisDecodedInstruction i;

	ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	if (ZYAN_SUCCESS(
		    ZydisDecoderDecodeInstruction(&decoder, NULL, f->insn, (size_t)(f->end - f->insn), &i)))
		executed[i.mnemonic] = true;
}

/* Takes the name that @bytes decode to, if they access memory. */
static void take(const ZydisDecoder *decoder, const uint8_t *bytes)
{
	ZydisDecodedOperand op[ZYDIS_MAX_OPERAND_COUNT];
	ZydisDecodedInstruction i;
	bool memory = false;

	if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(decoder, bytes, INSN_MAX, &i, op)))
		return;
	for (unsigned int k = 0; k < i.operand_count; k++)
		memory |= op[k].type == ZYDIS_OPERAND_TYPE_MEMORY &&
			  op[k].mem.type != ZYDIS_MEMOP_TYPE_AGEN && op[k].mem.type != ZYDIS_MEMOP_TYPE_MIB;
	if (!memory || sample[i.mnemonic].len)
		return;
	memcpy(sample[i.mnemonic].bytes, bytes, i.length);
	sample[i.mnemonic].len = i.length;
	sample[i.mnemonic].privileged = i.attributes & ZYDIS_ATTRIB_IS_PRIVILEGED;
}

/* One opcode after @prefix, with each register field and with rbx, or rbx and a vector, as the address. */
static void take_opcode(const ZydisDecoder *decoder, const uint8_t *prefix, size_t n, unsigned int opcode)
{
	for (unsigned int reg = 0; reg < 8; reg++) {
		uint8_t plain[INSN_MAX] = { 0 }, vector[INSN_MAX] = { 0 };

		memcpy(plain, prefix, n);
		plain[n] = (uint8_t)opcode;
		plain[n + 1] = (uint8_t)(reg << 3 | 3);
		take(decoder, plain);
		memcpy(vector, plain, n + 1);
		vector[n + 1] = (uint8_t)(reg << 3 | 4);
		vector[n + 2] = 2 << 3 | 3; /* [rbx + (r)dx or xmm2] */
		take(decoder, vector);
	}
}

static void take_legacy(const ZydisDecoder *decoder)
{
	static const uint8_t repeat[] = { 0, 0xf2, 0xf3 };
	static const uint8_t maps[][2] = { { 0 }, { 0x0f }, { 0x0f, 0x38 }, { 0x0f, 0x3a } };

	for (unsigned int choice = 0; choice < 3 * 2 * 2 * 4; choice++) {
		unsigned int map = choice & 3, wide = choice >> 2 & 1, word = choice >> 3 & 1,
			     rep = choice >> 4;
		uint8_t prefix[8];
		size_t n = 0;

		if (word)
			prefix[n++] = 0x66;
		if (repeat[rep])
			prefix[n++] = repeat[rep];
		if (wide)
			prefix[n++] = 0x48;
		for (unsigned int k = 0; k < 2 && maps[map][k]; k++)
			prefix[n++] = maps[map][k];
		for (unsigned int opcode = 0; opcode < 256; opcode++)
			take_opcode(decoder, prefix, n, opcode);
	}
}

static void take_vex(const ZydisDecoder *decoder)
{
	for (unsigned int choice = 0; choice < 32 * 16; choice++) {
		/* W, vvvv inverted, L, pp: the second source is register 1, or none */
		unsigned int map = choice >> 4, low = choice & 15;
		uint8_t vex[3] = { 0xc4, (uint8_t)(0xe0 | map),
				   (uint8_t)((low & 8) << 4 | 0x70 | (low & 7)) };
		uint8_t none[3] = { 0xc4, vex[1], (uint8_t)(vex[2] | 0x78) };
		uint8_t xop[3] = { 0x8f, vex[1], vex[2] };

		for (unsigned int opcode = 0; opcode < 256; opcode++) {
			take_opcode(decoder, vex, 3, opcode);
			take_opcode(decoder, none, 3, opcode);
			if (map >= 8)
				take_opcode(decoder, xop, 3, opcode);
		}
	}
}

static void take_evex(const ZydisDecoder *decoder)
{
	for (unsigned int choice = 0; choice < 8 * 2 * 4 * 4 * 2; choice++) {
		unsigned int map = choice & 7, wide = choice >> 3 & 1, pp = choice >> 4 & 3,
			     length = choice >> 6 & 3;
		uint8_t mask = choice >> 8 & 1;
		uint8_t evex[4] = { 0x62, (uint8_t)(0xf0 | map), (uint8_t)(wide << 7 | 0x74 | pp),
				    (uint8_t)(length << 5 | 0x08 | mask) };
		uint8_t none[4] = { 0x62, evex[1], (uint8_t)(evex[2] | 0x78), evex[3] };

		for (unsigned int opcode = 0; opcode < 256; opcode++) {
			take_opcode(decoder, evex, 4, opcode);
			take_opcode(decoder, none, 4, opcode);
		}
	}
}

static const char *left_out_because(ZydisMnemonic name)
{
	for (size_t i = 0; i < sizeof(left_out) / sizeof(*left_out); i++)
		if (left_out[i].name == name)
			return left_out[i].reason;
	return sample[name].privileged ? "privileged" : NULL;
}

/* Whether the processor knows it: in a process of its own, as nobody has looked what else it does. */
static bool is_refused(const struct sample *s)
{
	int status;
	pid_t pid = fork();

	if (pid < 0)
		return false;
	if (!pid) {
		alarm(2);
		_exit(truth_try(s->bytes, s->len) == SIGILL ? 1 : 0);
	}
	return waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 1;
}

bool coverage_report(void)
{
	unsigned int names = 0, covered = 0, reasoned = 0, refused = 0, missing = 0;
	ZydisDecoder decoder;

	ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	take_legacy(&decoder);
	take_vex(&decoder);
	take_evex(&decoder);
	fflush(stdout);
	for (ZydisMnemonic name = 0; name < NAMES; name++) {
		const char *text = ZydisMnemonicGetString(name);

		if (!sample[name].len)
			continue;
		names++;
		if (executed[name]) {
			covered++;
		} else if (left_out_because(name)) {
			reasoned++;
		} else if (is_refused(&sample[name])) {
			refused++;
		} else {
			missing++;
			printf("not executed, and this processor knows it: %s\n", text ? text : "?");
		}
	}
	printf("\ninstructions with a memory operand, by name: %u; executed %u, privileged or for no program "
	       "%u, refused "
	       "by this processor %u, missing %u\n",
	       names, covered, reasoned, refused, missing);
	return !missing;
}
