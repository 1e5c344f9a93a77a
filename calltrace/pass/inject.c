#include "calltrace/pass/inject.h"

#include <stdio.h>
#include <string.h>

#include "calltrace/config/filters.h"
#include "calltrace/pass/attributes.h"
#include "calltrace/pass/inject_impl.h"
#include "calltrace/pass/symbols.h"

#define PRESERVE_ALL 15 /* llvm/IR/CallingConv.h */
#define TURN "__calltrace_turn"

/* Declarations */

static LLVMMetadataRef weights(struct inject *in, unsigned int yes, unsigned int no)
{
	LLVMMetadataRef part[3] = {
		LLVMMDStringInContext2(in->context, "branch_weights", 14),
		LLVMValueAsMetadata(LLVMConstInt(in->i32, yes, 0)),
		LLVMValueAsMetadata(LLVMConstInt(in->i32, no, 0)),
	};

	return LLVMMDNodeInContext2(in->context, part, 3);
}

static LLVMValueRef intrinsic(struct inject *in, const char *name, LLVMTypeRef *overload, size_t n,
			      LLVMTypeRef *type)
{
	const unsigned int id = LLVMLookupIntrinsicID(name, strlen(name));

	*type = LLVMIntrinsicGetType(in->context, id, overload, n);
	return LLVMGetIntrinsicDeclaration(in->module, id, overload, n);
}

_Static_assert(sizeof(struct calltrace_slot) == 16 && offsetof(struct calltrace_slot, tsc) == 0 &&
		       offsetof(struct calltrace_slot, what) == 8 &&
		       offsetof(struct calltrace_slot, frame) == 12 && CALLTRACE_CHUNK == 0x10000,
	       "the assembly has these numbers");

#define TAKE_SLOT                                      \
	"movq __calltrace_at@GOTTPOFF(%rip), %rax\n\t" \
	"movl $$16, ${1:k}\n\t"                        \
	"xaddq $1, %fs:(%rax)\n\t"
#define WRITE_TIME            \
	"rdtsc\n\t"           \
	"shlq $$32, %rdx\n\t" \
	"orq %rax, %rdx\n\t"  \
	"movq %rdx, ($1)\n\t"
#define WRITE_VALUE "movq $4, ($1)\n\t"
#define WRITE_SLOT                    \
	"leal ${2:c}(%rip), %eax\n\t" \
	"movl ${3:k}, 12($1)\n\t"     \
	"movl %eax, 8($1)\n\t"        \
	"cmpw $$-16, ${1:w}"

/*
 * Takes a slot and writes it: $2 is what (a constant), $3 the frame. $0: the chunk ends behind it. In assembly, as an
 * address of the initial-exec model and an exchange-and-add of one thread have no words in IR; the whole of it, as
 * that is compiled faster.
 */
static void declare_write(struct inject *in)
{
	static const char timed[] = TAKE_SLOT WRITE_TIME WRITE_SLOT, untimed[] = TAKE_SLOT WRITE_SLOT;
	static const char constraints[] =
		"={@ccz},=&r,i,r,~{rax},~{rdx},~{memory},~{dirflag},~{fpsr},~{flags}";
	const char *text = in->flags & CALLTRACE_NO_TIME ? untimed : timed;
	LLVMTypeRef result[2] = { in->i8, in->i64 }, params[2] = { in->ptr, in->ptr };

	in->write_type = LLVMFunctionType(LLVMStructTypeInContext(in->context, result, 2, 0), params, 2, 0);
	/* Before LLVM 19 it does not say that it leaves them as they are. */
	in->write = LLVMGetInlineAsm(in->write_type, (char *)text, strlen(text), (char *)constraints,
				     sizeof(constraints) - 1, 1, 0, LLVMInlineAsmDialectATT, 0);
}

/* The same of a value, $4, with a constant, $3, in the place of the frame. */
static void declare_value(struct inject *in)
{
	static const char text[] = TAKE_SLOT WRITE_VALUE "leal ${2:c}(%rip), %eax\n\t"
							 "movl $3, 12($1)\n\t"
							 "movl %eax, 8($1)\n\t"
							 "cmpw $$-16, ${1:w}";
	static const char constraints[] = "={@ccz},=&r,i,i,r,~{rax},~{memory},~{dirflag},~{fpsr},~{flags}";
	LLVMTypeRef result[2] = { in->i8, in->i64 }, params[3] = { in->ptr, in->ptr, in->i64 };

	in->value_type = LLVMFunctionType(LLVMStructTypeInContext(in->context, result, 2, 0), params, 3, 0);
	in->value = LLVMGetInlineAsm(in->value_type, (char *)text, sizeof(text) - 1, (char *)constraints,
				     sizeof(constraints) - 1, 1, 0, LLVMInlineAsmDialectATT, 0);
}

/* Bound when the program is loaded: what binds at the first call does not preserve all registers. */
static void declare_turn(struct inject *in)
{
	static const char *const attribute[] = { "nonlazybind", "nounwind", "cold" };
	LLVMTypeRef params[2] = { in->ptr, in->ptr };
	size_t i;

	in->turn_type = LLVMFunctionType(in->nothing, params, 2, 0);
	in->turn = LLVMAddFunction(in->module, TURN, in->turn_type);
	LLVMSetFunctionCallConv(in->turn, PRESERVE_ALL);
	for (i = 0; i < sizeof(attribute) / sizeof(*attribute); i++)
		LLVMAddAttributeAtIndex(
			in->turn, LLVMAttributeFunctionIndex,
			LLVMCreateEnumAttribute(
				in->context,
				LLVMGetEnumAttributeKindForName(attribute[i], strlen(attribute[i])), 0));
}

/* @name: of the module. */
static void prepare(struct inject *in, LLVMModuleRef m, const char *name)
{
	LLVMContextRef c = LLVMGetModuleContext(m);

	in->module = m;
	in->context = c;
	in->builder = LLVMCreateBuilderInContext(c);
	in->i8 = LLVMInt8TypeInContext(c);
	in->i32 = LLVMInt32TypeInContext(c);
	in->i64 = LLVMInt64TypeInContext(c);
	in->ptr = LLVMPointerType(in->i8, 0); /* of any type, from LLVM 15 on */
	in->nothing = LLVMVoidTypeInContext(c);
	in->frame = intrinsic(in, "llvm.addressofreturnaddress", &in->ptr, 1, &in->frame_type);
	in->likely = weights(in, 2000, 1);
	in->unlikely = weights(in, 1, 2000);
	in->id = symbol_hash(name, strlen(name));
	declare_write(in);
	declare_value(in);
	declare_turn(in);
}

/* Says how much of what @name points to is wanted, which takes from @left. */
static void want_memory(const struct capture *c, const char *name, uint32_t *left,
			struct signature_pointee *to)
{
	uint32_t bytes = 0;
	const enum capture_memory how = capture_memory_of(c, name, &bytes);

	to->is_string = how == CAPTURE_STRING || (how == CAPTURE_TYPE && to->is_char);
	if (to->is_string)
		bytes = CAPTURE_BYTES_MAX;
	else if (how == CAPTURE_TYPE)
		bytes = to->size < CAPTURE_BYTES_MAX ? to->size : CAPTURE_BYTES_MAX;
	if (bytes > *left)
		bytes = *left;
	to->bytes = how ? bytes : 0;
	*left -= to->bytes;
}

/* Those of its values that are wanted, and where they are. */
static void find_values(struct inject *in, const struct choice *c, struct captured *ret)
{
	uint32_t left = CALLTRACE_MEMORY_SUM, left_of_result = CAPTURE_BYTES_MAX;
	bool has_types;
	unsigned int i;

	if (!c->capture)
		return;
	has_types = signature_read(c->function, &ret->s);
	for (i = 0; i < ret->s.nparams && has_types; i++) {
		if (!capture_has(c->capture, ret->s.name[i], ret->s.is_pointer[i]))
			ret->s.param[i] = NULL;
		else if (ret->s.param[i] && ret->s.is_pointer[i])
			want_memory(c->capture, ret->s.name[i], &left, &ret->s.to[i]);
	}
	ret->has_result = ret->s.has_result && capture_has(c->capture, "return", ret->s.result_is_pointer);
	if (ret->has_result && ret->s.result_is_pointer)
		want_memory(c->capture, "return", &left_of_result, &ret->s.result_to);
	if (has_types && signature_write(c->function, &ret->s)) {
		in->typed++;
		return;
	}
	signature_deinit(&ret->s);
	ret->has_result = false;
	in->untyped++;
}

static void inject_function(struct inject *in, const struct choice *c)
{
	struct captured values = { 0 };
	unsigned int i;

	find_values(in, c, &values);
	inject_events(in, c->function, inject_record(in, c, &values), &values);
	for (i = 0; i < values.s.nparams; i++)
		if (values.s.to[i].bytes)
			attributes_read_through(c->function, values.s.param[i]);
	signature_deinit(&values.s);
}

static void inject_all(struct inject *in, const struct choices *c)
{
	size_t i;

	for (i = 0; i < c->n; i++) {
		const struct choice *each = &c->choice[i];

		if (!each->function || (!each->is_traced && !each->has_marks))
			continue;
		if (!each->has_marks)
			inject_function(in, each);
		attributes_correct(each->function);
		attributes_keep_apart(each->function);
	}
}

static uint32_t flags_of(const struct settings *s)
{
	return (settings_is(s, SET_enable_runtime) ? 0 : CALLTRACE_STARTS_OFF) |
	       (settings_is(s, SET_initialize_runtime) ? 0 : CALLTRACE_WAITS) |
	       (settings_is(s, SET_time) ? 0 : CALLTRACE_NO_TIME);
}

bool calltrace_inject(LLVMModuleRef m, const struct settings *s, struct text_buf *symbols)
{
	struct choices c = { 0 };
	bool has_changed = false;
	size_t len;
	const char *id = settings_text(s, SET_module_id), *name = *id ? id : LLVMGetSourceFileName(m, &len);

	if (LLVMGetNamedFunction(m, TURN))
		return false;
	if (!choices_make(&c, m, s)) {
		fprintf(stderr, "calltrace: no memory; the functions of %s are not traced\n", name);
	} else if (c.can_trace && settings_is(s, SET_inject_instrumentation)) {
		struct inject in = { .choices = &c, .flags = flags_of(s) };

		prepare(&in, m, name);
		inject_registration(&in);
		if (!inject_marks(&in, &c))
			fprintf(stderr, "calltrace: no memory; inlined functions of %s are not all traced\n",
				name);
		inject_all(&in, &c);
		/* Those that the compiler makes of its own, as thunks, have none in any case. */
		if (in.untyped && !in.typed)
			fprintf(stderr,
				"calltrace: the values of %u functions of %s are not recorded: they have no debug "
				"information (-g)\n",
				in.untyped, name);
		LLVMDisposeBuilder(in.builder);
		has_changed = true;
	} else if (c.n && strncmp(LLVMGetTarget(m), "x86_64", 6) != 0) {
		fprintf(stderr,
			"calltrace: %s is for %s, and its functions are not traced: those of x86-64 are\n",
			name, LLVMGetTarget(m));
	}
	symbols_put(symbols, &c, name);
	choices_deinit(&c);
	return has_changed;
}
