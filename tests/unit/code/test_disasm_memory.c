/* Instructions as text where memory runs out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "watchctl/code/insn/disasm.h"

#define AT 0x401000ull

/* How often the allocator grants memory yet; negative: always. */
static int grants = -1;

#ifndef __SANITIZE_ADDRESS__
void *__libc_malloc(size_t len);
void *__libc_calloc(size_t n, size_t size);
void *malloc(size_t len);
void *calloc(size_t n, size_t size);

static bool is_granted(void)
{
	return grants < 0 || grants-- > 0;
}

/* Instead of the C library's, for capstone too. */
void *malloc(size_t len)
{
	return is_granted() ? __libc_malloc(len) : NULL;
}

void *calloc(size_t n, size_t size)
{
	return is_granted() ? __libc_calloc(n, size) : NULL;
}

#endif

/* In a process of its own, where capstone has not been asked before. Exit status 0: the text was right. */
static void ask_with_grants(int n, const uint8_t *bytes, size_t len, const char *expected)
{
	char text[96];

	grants = n;
	disasm_text(INSN_INTEL, bytes, len, AT, text, sizeof(text));
	grants = -1;
	_exit(strcmp(text, expected) != 0);
}

static void a_lack_of_memory_at_any_moment_does_no_harm(void **state)
{
	const uint8_t store[] = { 0x89, 0x05, 0xe4, 0x2e, 0x00, 0x00 };
	int status;

#ifdef __SANITIZE_ADDRESS__
	puts("skipped: the sanitizer has an allocator of its own");
	skip();
#endif
	for (int n = 0; n < 40; n++) {
		pid_t pid = fork();

		if (!pid)
			ask_with_grants(n, store, sizeof(store), "mov dword ptr [rip+0x2ee4], eax");
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_lack_of_memory_at_any_moment_does_no_harm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
