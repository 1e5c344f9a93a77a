/*
 * Functions that leave otherwise than by returning, by name: of glibc 2.0 to 2.41 and musl, libgcc's and
 * libunwind's unwinder (Itanium C++ ABI, level 1 and 2), libstdc++ and libc++abi.
 */
#include "watchctl/step/model/track.h"

#include <string.h>

struct leaver {
	const char *name;
	enum track_leaves leaves;
};

static const struct leaver leavers[] = {
	{ "__cxa_throw", TRACK_THROWS },
	{ "__cxa_rethrow", TRACK_THROWS },
	{ "__cxa_throw_bad_array_new_length", TRACK_THROWS },
	{ "__cxa_bad_cast", TRACK_THROWS },
	{ "__cxa_bad_typeid", TRACK_THROWS },
	{ "_Unwind_RaiseException", TRACK_THROWS },
	{ "_Unwind_ForcedUnwind", TRACK_FORCES },
	{ "_Unwind_Resume_or_Rethrow", TRACK_THROWS },
	{ "_Unwind_Resume", TRACK_RESUMES },
	{ "__cxa_end_cleanup", TRACK_RESUMES },
	{ "__cxa_begin_catch", TRACK_CATCHES },
	{ "__cxa_get_exception_ptr", TRACK_CATCHES },
	{ "longjmp", TRACK_JUMPS },
	{ "_longjmp", TRACK_JUMPS },
	{ "siglongjmp", TRACK_JUMPS },
	{ "__libc_longjmp", TRACK_JUMPS },
	{ "__libc_siglongjmp", TRACK_JUMPS },
	{ "__longjmp_chk", TRACK_JUMPS },
	{ "setjmp", TRACK_SETS_JUMP },
	{ "_setjmp", TRACK_SETS_JUMP },
	{ "__setjmp", TRACK_SETS_JUMP },
	{ "sigsetjmp", TRACK_SETS_JUMP },
	{ "__sigsetjmp", TRACK_SETS_JUMP },
	{ "swapcontext", TRACK_SWITCHES },
	{ "setcontext", TRACK_SWITCHES },
	{ "pthread_exit", TRACK_ENDS_THREAD },
	{ "thrd_exit", TRACK_ENDS_THREAD },
	{ "exit", TRACK_ENDS_PROCESS },
	{ "_exit", TRACK_ENDS_PROCESS },
	{ "_Exit", TRACK_ENDS_PROCESS },
	{ "quick_exit", TRACK_ENDS_PROCESS },
	{ "abort", TRACK_ENDS_PROCESS },
	{ "__assert_fail", TRACK_ENDS_PROCESS },
	{ "__assert_perror_fail", TRACK_ENDS_PROCESS },
	{ "__assert", TRACK_ENDS_PROCESS },
	{ "__stack_chk_fail", TRACK_ENDS_PROCESS },
	{ "__fortify_fail", TRACK_ENDS_PROCESS },
	{ "__chk_fail", TRACK_ENDS_PROCESS },
	{ "err", TRACK_ENDS_PROCESS },
	{ "errx", TRACK_ENDS_PROCESS },
	{ "verr", TRACK_ENDS_PROCESS },
	{ "verrx", TRACK_ENDS_PROCESS },
	{ "execve", TRACK_EXECS },
	{ "execv", TRACK_EXECS },
	{ "execvp", TRACK_EXECS },
	{ "execvpe", TRACK_EXECS },
	{ "execl", TRACK_EXECS },
	{ "execle", TRACK_EXECS },
	{ "execlp", TRACK_EXECS },
	{ "execveat", TRACK_EXECS },
	{ "fexecve", TRACK_EXECS },
};

/* libstdc++ throws from functions of its own, so that headers need not: functexcept.h. */
static bool is_libstdcxx_thrower(const char *name)
{
	static const char demangled[] = "std::__throw_", mangled[] = "_ZSt";

	if (strncmp(name, demangled, sizeof(demangled) - 1) == 0)
		return true;
	if (strncmp(name, mangled, sizeof(mangled) - 1) != 0)
		return false;
	name += sizeof(mangled) - 1;
	return strncmp(name + strspn(name, "0123456789"), "__throw_", 8) == 0;
}

enum track_leaves track_leaves_of(const char *name)
{
	for (size_t i = 0; i < sizeof(leavers) / sizeof(leavers[0]); i++)
		if (strcmp(leavers[i].name, name) == 0)
			return leavers[i].leaves;
	if (is_libstdcxx_thrower(name) ||
	    strcmp(name, "_ZSt17rethrow_exceptionNSt15__exception_ptr13exception_ptrE") == 0 ||
	    strncmp(name, "std::rethrow_exception(", 23) == 0)
		return TRACK_THROWS;
	return TRACK_NORMAL;
}
