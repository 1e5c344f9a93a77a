/* lldb_leaks - LLDB and the Python in it release little at their end: not what LeakSanitizer is to tell us.
 */
#ifndef TESTS_UNIT_LLDB_LEAKS_H
#define TESTS_UNIT_LLDB_LEAKS_H

const char *__lsan_default_suppressions(void);

/* Called by LeakSanitizer, if it is there. */
__attribute__((used)) const char *__lsan_default_suppressions(void)
{
	return "leak:libpython\nleak:liblldb\nleak:libLLVM\n";
}

#endif
