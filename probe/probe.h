/*
 * probe - what a probe function sees, and what it may call. `watchctl patch` compiles a file of probe functions and
 * runs them inside a program, at the instructions that its patterns find:
 *
 *	#include <watchctl/probe.h>
 *
 *	PROBE(on_cas)
 *	{
 *		probe_log("cas %p: %lx -> %lx", probe_address(p, 0), p->regs->rax, probe_operand(p, 1));
 *	}
 *
 * A probe runs on the stack of the thread that came to the instruction, in any thread, also in signal handlers, and
 * several at a time. It may use integers and pointers, memory of its own (static variables, atomically), and the
 * functions below; no thread-local variables, no libc; floating point in a PROBE_VECTOR() only. It must not block, and must
 * return.
 *
 * Reading a pointer of the program's that may be wrong is a fault of the program's: probe_read() reads it safely.
 */
#ifndef WATCHCTL_PROBE_H
#define WATCHCTL_PROBE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The general registers as the program has them at the instruction; rsp too. */
struct probe_regs {
	uint64_t r15, r14, r13, r12, r11, r10, r9, r8, rdi, rsi, rbp, rbx, rdx, rcx, rax;
	uint64_t flags; /* rflags */
	uint64_t rsp;
	uint64_t rip; /* of the instruction; after it, of the next one */
};

struct probe_site;

struct probe {
	const struct probe_site *site;
	struct probe_regs *regs; /* writing to it has an effect only under `instead`; never to rsp and rip */
};

/*
 * Defines a probe function; its parameter is called p. It is called otherwise than C functions are: it keeps all registers but
 * the flags, so only those are saved for it that it uses. The empty asm is for clang, which would leave such a function by a jump to
 * what it calls last, as if that kept them, too.
 */
#define PROBE(name)                                                                        \
	__attribute__((always_inline)) static inline void name##_body_(struct probe *p);   \
	__attribute__((used, visibility("default"), no_caller_saved_registers)) void name( \
		struct probe *p) __asm__(PROBE_PREFIX_ #name);                             \
	void name(struct probe *p)                                                         \
	{                                                                                  \
		name##_body_(p);                                                           \
		__asm__ volatile("");                                                      \
	}                                                                                  \
	static inline void name##_body_(__attribute__((unused)) struct probe *p)

/*
 * The same for a function that sees the vector registers, in its parameter called vector, and may use floating point. They are
 * saved for it and restored, which takes some hundred nanoseconds (make bench-patch) and up to 3 KB of the stack. Functions that
 * it calls and that use floating point, too, are defined with PROBE_USES_VECTOR.
 */
#define PROBE_VECTOR(name)                                                                                   \
	PROBE_USES_VECTOR __attribute__((noinline)) static void name##_vector_(struct probe *p,              \
									       struct probe_vector *vector); \
	PROBE(name)                                                                                          \
	{                                                                                                    \
		probe_with_vector_(p, name##_vector_);                                                       \
	}                                                                                                    \
	static void name##_vector_(__attribute__((unused)) struct probe *p,                                  \
				   __attribute__((unused)) struct probe_vector *vector)

/* Where they stand shows that they may. */
#define PROBE_USES_VECTOR __attribute__((target("sse2"), section("probe_vector")))

struct probe_vector;

/*
 * Copies the low @len bytes (at most 64) of vector register @n (0..31) to @to; of what the processor does not have, zeros. False: it does
 * not have all of them: 16 bytes of 16 registers, with AVX 32, with AVX-512 64 of 32 registers.
 */
bool probe_vector_read(const struct probe_vector *vector, unsigned int n, void *to, size_t len);

/* Under `instead`: the low @len bytes are written, those above stay. False: nothing was, as the above says, or for it is not `instead`. */
bool probe_vector_write(const struct probe *p, struct probe_vector *vector, unsigned int n, const void *from,
			size_t len);

/* The lowest part of a vector register: a scalar, like an argument or a result. 0 of a register that there is not. */
PROBE_USES_VECTOR static inline double probe_double(const struct probe_vector *vector, unsigned int n)
{
	double d;

	probe_vector_read(vector, n, &d, sizeof(d));
	return d;
}

PROBE_USES_VECTOR static inline float probe_float(const struct probe_vector *vector, unsigned int n)
{
	float f;

	probe_vector_read(vector, n, &f, sizeof(f));
	return f;
}

/* Of the symbols of probe functions: no other function can be taken for one. */
#define PROBE_PREFIX_ "probe_fn."

/* The address of operand @n (0.. in Intel's order) if that is in memory; NULL: it is not, or cannot be known. */
void *probe_address(const struct probe *p, unsigned int n);

/* The value of operand @n, at most its low 8 bytes, without extension of the sign; 0: it has none. */
uint64_t probe_operand(const struct probe *p, unsigned int n);

/*
 * Copies @len bytes of the program's memory from @from, by the kernel, which finds out whether they are there. False:
 * they are not. Some hundred nanoseconds.
 */
bool probe_read(void *to, const void *from, size_t len);

/* The same for a string: at most @cap - 1 bytes and a NUL. False: it is not there; @to is "" then. */
bool probe_read_string(char *to, size_t cap, const char *from);

/* As of <string.h>, which need not be included. */
void *memcpy(void *__restrict to, const void *__restrict from, size_t n);
void *memmove(void *to, const void *from, size_t n);
void *memset(void *to, int byte, size_t n);
int memcmp(const void *a, const void *b, size_t n);
size_t strlen(const char *s);

/* The number of the thread, as gettid(2) has it. */
uint32_t probe_thread(void);

/* The time stamp counter. */
static inline uint64_t probe_ticks(void)
{
	uint32_t low, high;

	__asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
	return (uint64_t)high << 32 | low;
}

/* Records @value. */
#define probe_value(value) probe_put_value_(p, (uint64_t)(value))

/* Records the stack of the thread, from the instruction on, under @tag (a string literal), with @value. */
#define probe_stack(tag, value)                                                 \
	do {                                                                    \
		static const struct probe_format probe_tag_ = { "" tag, 0, 0 }; \
		probe_record_stack(p, &probe_tag_, (uint64_t)(value));          \
	} while (0)

/*
 * probe_log(format, ...) records a line of text. The format is a string literal as printf(3) has it, of d i u x X o c p s and
 * l ll z j t h hh, flags, width and precision (no "*"); at most 8 integers, pointers or strings, which are copied (63 bytes of
 * each; one that cannot be read does no harm). In a PROBE_VECTOR() also floats and doubles, for e f g a. It is put together when
 * the log is read.
 */
#define probe_log(...)                                                                                   \
	do {                                                                                             \
		_Static_assert(PROBE_KINDS_(__VA_ARGS__) < 0x10000, "probe_log() takes no long double"); \
		static const struct probe_format probe_format_ = { "" PROBE_FIRST_(__VA_ARGS__, _),      \
								   PROBE_COUNT_(__VA_ARGS__),            \
								   PROBE_KINDS_(__VA_ARGS__) };          \
		if (0)                                                                                   \
			probe_check_format_(__VA_ARGS__);                                                \
		probe_record_log(p, &probe_format_, PROBE_ARGS_(__VA_ARGS__));                           \
	} while (0)

/* From here on: how the macros above do it. */

struct probe_format {
	const char *text;
	uint32_t nargs;
	uint32_t kinds; /* bit n: argument n is a string; bit 8 + n: a double */
};

#define PROBE_ARGS_MAX 8
#define PROBE_STRING_MAX 64

void probe_with_vector_(struct probe *p, void (*body)(struct probe *p, struct probe_vector *vector));
void probe_record_value(const struct probe *p, uint64_t value);

/* By a call that keeps all registers: a probe that does nothing else saves none. */
__attribute__((unused, always_inline)) static inline void probe_put_value_(const struct probe *p,
									   uint64_t value)
{
	__asm__ volatile("call probe_put_value" : : "D"(p), "S"(value) : "cc", "memory");
}

void probe_record_stack(const struct probe *p, const struct probe_format *tag, uint64_t value);
void probe_record_log(const struct probe *p, const struct probe_format *f,
		      const uint64_t arg[PROBE_ARGS_MAX]);
/* Never called: for the compiler's warnings. */
__attribute__((unused, format(printf, 1, 2))) static inline void
probe_check_format_(__attribute__((unused)) const char *format, ...)
{
}

/*
 * Of the format and its arguments: how many those are, what each is, and each as 64 bits. Each macro takes the format first,
 * so that none is ever without an argument.
 */
#define PROBE_FIRST_(first, ...) first
#define PROBE_PICK_(f, a, b, c, d, e, g, h, i, j, k, l, m, n, ...) n
#define PROBE_MANY_ probe_log_takes_at_most_8_arguments
#define PROBE_COUNT_(...)                                                                                    \
	PROBE_PICK_(__VA_ARGS__, PROBE_MANY_, PROBE_MANY_, PROBE_MANY_, PROBE_MANY_, 8, 7, 6, 5, 4, 3, 2, 1, \
		    0, _)

/* 0x10000: a number that is none of 64 bits. What is made of all is struct probe_format's kinds. */
#define PROBE_KIND_(x)                                                                                  \
	_Generic((x), char * : 1u, const char * : 1u, volatile char * : 1u, const volatile char * : 1u, \
		 signed char * : 1u, const signed char * : 1u, unsigned char * : 1u,                    \
		 const unsigned char * : 1u, float : 0x100u, double : 0x100u, long double : 0x10000u,   \
		 default : 0u)
#define PROBE_K0_(f) 0u
#define PROBE_K1_(f, a) PROBE_KIND_(a)
#define PROBE_K2_(f, a, ...) (PROBE_KIND_(a) | PROBE_K1_(f, __VA_ARGS__) << 1)
#define PROBE_K3_(f, a, ...) (PROBE_KIND_(a) | PROBE_K2_(f, __VA_ARGS__) << 1)
#define PROBE_K4_(f, a, ...) (PROBE_KIND_(a) | PROBE_K3_(f, __VA_ARGS__) << 1)
#define PROBE_K5_(f, a, ...) (PROBE_KIND_(a) | PROBE_K4_(f, __VA_ARGS__) << 1)
#define PROBE_K6_(f, a, ...) (PROBE_KIND_(a) | PROBE_K5_(f, __VA_ARGS__) << 1)
#define PROBE_K7_(f, a, ...) (PROBE_KIND_(a) | PROBE_K6_(f, __VA_ARGS__) << 1)
#define PROBE_K8_(f, a, ...) (PROBE_KIND_(a) | PROBE_K7_(f, __VA_ARGS__) << 1)
#define PROBE_KINDS_(...)                                                                                  \
	PROBE_PICK_(__VA_ARGS__, PROBE_MANY_, PROBE_MANY_, PROBE_MANY_, PROBE_MANY_, PROBE_K8_, PROBE_K7_, \
		    PROBE_K6_, PROBE_K5_, PROBE_K4_, PROBE_K3_, PROBE_K2_, PROBE_K1_, PROBE_K0_, _)        \
	(__VA_ARGS__)

/* Pointers and integers of any size; a smaller signed one keeps its sign. A float is a double's bits. */
#define PROBE_BITS_(x)                                                                     \
	__extension__({                                                                    \
		__typeof__((x) + 0) probe_of_ = (x);                                       \
		union {                                                                    \
			double d;                                                          \
			uint64_t u;                                                        \
		} probe_bits_;                                                             \
		if (_Generic(probe_of_, float : 1, double : 1, default : 0))               \
			probe_bits_.d = _Generic(probe_of_, float                          \
						 : probe_of_, double                       \
						 : probe_of_, default : 0);                \
		else                                                                       \
			probe_bits_.u = _Generic(probe_of_, float : 0, double : 0, default \
						 : (uint64_t)(probe_of_));                 \
		probe_bits_.u;                                                             \
	})
#define PROBE_A0_(f) 0
#define PROBE_A1_(f, a) PROBE_BITS_(a)
#define PROBE_A2_(f, a, ...) PROBE_BITS_(a), PROBE_A1_(f, __VA_ARGS__)
#define PROBE_A3_(f, a, ...) PROBE_BITS_(a), PROBE_A2_(f, __VA_ARGS__)
#define PROBE_A4_(f, a, ...) PROBE_BITS_(a), PROBE_A3_(f, __VA_ARGS__)
#define PROBE_A5_(f, a, ...) PROBE_BITS_(a), PROBE_A4_(f, __VA_ARGS__)
#define PROBE_A6_(f, a, ...) PROBE_BITS_(a), PROBE_A5_(f, __VA_ARGS__)
#define PROBE_A7_(f, a, ...) PROBE_BITS_(a), PROBE_A6_(f, __VA_ARGS__)
#define PROBE_A8_(f, a, ...) PROBE_BITS_(a), PROBE_A7_(f, __VA_ARGS__)
#define PROBE_ARGS_(...)                                                                                   \
	((const uint64_t[PROBE_ARGS_MAX]){ PROBE_PICK_(__VA_ARGS__, PROBE_MANY_, PROBE_MANY_, PROBE_MANY_, \
						       PROBE_MANY_, PROBE_A8_, PROBE_A7_, PROBE_A6_,       \
						       PROBE_A5_, PROBE_A4_, PROBE_A3_, PROBE_A2_,         \
						       PROBE_A1_, PROBE_A0_, _)(__VA_ARGS__) })

#ifdef __cplusplus
}
#endif

#endif
