/* build: gcc -O2 -g */
/*
 * shape_jit - makes code at run time and calls `write_flag` from it. "pid N", then a line each; "ok" and the
 * addresses at which the frames outside the writing function go on, innermost first, up to main's.
 *
 *	framed		code that keeps a frame pointer
 *	twice		such code, called from such code by way of C
 *	writes		such code writes the variable itself
 *	frameless	code that uses rbp for something else: a number
 *	misleading	the same: an address in the stack, where no return address is
 *	memfd		framed, in shared memory that has a name
 *	moved		framed, in new memory, where the old is gone
 *	rewritten	writes, where other code was
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone, noipa))
#define HERE note((uintptr_t)__builtin_return_address(0))
#define SIZE 8192

volatile int flag;
static volatile int zero;
static uintptr_t trail[16];
static unsigned int ntrail;
static uint8_t *code, *end;

NOINLINE static void note(uintptr_t address)
{
	trail[ntrail++] = address;
}

NOINLINE void write_flag(void)
{
	HERE;
	flag++;
}

static void emit(const void *bytes, size_t n)
{
	memcpy(end, bytes, n);
	end += n;
}
#define EMIT(...) emit((const uint8_t[]){ __VA_ARGS__ }, sizeof((const uint8_t[]){ __VA_ARGS__ }))

static void emit_address(uintptr_t value)
{
	EMIT(0x48, 0xb8); /* mov rax, imm64 */
	emit(&value, sizeof(value));
}

/* push rbp; mov rbp, rsp; sub rsp, 32; call function; leave; ret */
static uint8_t *framed(void (*function)(void))
{
	uint8_t *start = end;

	EMIT(0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xec, 0x20);
	emit_address((uintptr_t)function);
	EMIT(0xff, 0xd0, 0xc9, 0xc3);
	return start;
}

/* push rbp; mov rbp, rsp; mov dword ptr [&flag], value; leave; ret */
static uint8_t *writes(uint32_t value)
{
	uint8_t *start = end;

	EMIT(0x55, 0x48, 0x89, 0xe5);
	emit_address((uintptr_t)&flag);
	EMIT(0xc7, 0x00);
	emit(&value, sizeof(value));
	EMIT(0xc9, 0xc3);
	return start;
}

/* push rbp; mov ebp, 5 | lea rbp, [rsp + 48]; sub rsp, 32; call function; add rsp, 32; pop rbp; ret */
static uint8_t *frameless(void (*function)(void), int misleading)
{
	uint8_t *start = end;

	EMIT(0x55);
	if (misleading)
		EMIT(0x48, 0x8d, 0x6c, 0x24, 0x30);
	else
		EMIT(0xbd, 0x05, 0x00, 0x00, 0x00);
	EMIT(0x48, 0x83, 0xec, 0x20);
	emit_address((uintptr_t)function);
	EMIT(0xff, 0xd0, 0x48, 0x83, 0xc4, 0x20, 0x5d, 0xc3);
	return start;
}

NOINLINE static int run(uint8_t *start)
{
	volatile uintptr_t filler[16] = { 1, 2, 3 };
	void (*function)(void);

	HERE;
	memcpy(&function, &start, sizeof(function));
	function();
	return zero + (int)filler[zero];
}

static uint8_t *second;

NOINLINE void run_second(void)
{
	HERE;
	run(second);
	zero = 0;
}

static void *memory(int fd)
{
	return mmap(NULL, SIZE, PROT_READ | PROT_WRITE | PROT_EXEC,
		    fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED, fd, 0);
}

static uint8_t *named_memory(void)
{
	int fd = memfd_create("doublemapper", 0);
	uint8_t *p = ftruncate(fd, SIZE) == 0 ? memory(fd) : MAP_FAILED;

	close(fd);
	return p;
}

NOINLINE static int obey(const char *shape)
{
	uint8_t *old = code;

	HERE;
	end = code;
	if (!strcmp(shape, "framed"))
		return run(framed(write_flag)) + zero;
	if (!strcmp(shape, "twice")) {
		second = framed(write_flag);
		return run(framed(run_second)) + zero;
	}
	if (!strcmp(shape, "writes"))
		return run(writes(1000)) + zero;
	if (!strcmp(shape, "rewritten")) {
		EMIT(0x90, 0x90); /* all of it lies a little further on */
		return run(writes(2000)) + zero;
	}
	if (!strcmp(shape, "frameless"))
		return run(frameless(write_flag, 0)) + zero;
	if (!strcmp(shape, "misleading"))
		return run(frameless(write_flag, 1)) + zero;
	code = end = strcmp(shape, "memfd") ? memory(-1) : named_memory();
	munmap(old, SIZE);
	return run(framed(write_flag)) + zero;
}

int main(void)
{
	char line[64];

	code = end = memory(-1);
	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("pid %d\n", getpid());
	while (fgets(line, sizeof(line), stdin)) {
		line[strcspn(line, "\n")] = '\0';
		ntrail = 0;
		HERE;
		obey(line);
		printf("ok %#lx", (unsigned long)(uintptr_t)code);
		while (ntrail)
			printf(" %#lx", (unsigned long)trail[--ntrail]);
		printf("\n");
	}
	return 0;
}
