"""A watchctl that stands still before a certain step of what it has a thread of the target do."""
import os
import subprocess
import threading

from waiting import WAIT

# In a `long ptrace(int request, ...)` that stands before libc's: that one as `real`, and what it was called with.
PTRACE_ARGUMENTS = r"""	long (*real)(int, ...) = (long (*)(int, ...))dlsym(RTLD_NEXT, "ptrace");
	va_list ap;
	va_start(ap, request);
	pid_t pid = va_arg(ap, pid_t);
	void *a = va_arg(ap, void *), *b = va_arg(ap, void *);
	va_end(ap);
"""

PRELOAD = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#define PTRACE_SETREGS 13
#include <sys/user.h>
#include <unistd.h>
static int n;
/* Before the n-th time that a thread is sent where CONDITION holds of its registers: tells so, and waits. */
long ptrace(int request, ...)
{
""" + PTRACE_ARGUMENTS + r"""	struct user_regs_struct *r = b;
	char c;
	if (request == PTRACE_SETREGS && r->orig_rax == -1ULL && (CONDITION) && ++n == atoi(getenv("AT_STEP"))) {
		int fd = open(getenv("TELL"), O_WRONLY);
		if (write(fd, "x", 1) != 1)
			abort();
		close(fd);
		fd = open(getenv("WAIT"), O_RDONLY);
		if (read(fd, &c, 1) != 1)
			abort();
		close(fd);
	}
	return real(request, pid, a, b);
}
"""


class Between:
    """@condition: in C, of the registers `r` that a thread is about to be given."""

    def __init__(self, where, condition):
        self.where = where
        self.library = where / "between.so"
        self.runs = 0
        (where / "between.c").write_text(PRELOAD.replace("CONDITION", condition))
        subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-w", str(where / "between.c"), "-o", str(self.library), "-ldl"],
                       check=True, timeout=WAIT)

    def run(self, n, what, start, monkeypatch):
        """Runs `start` with a watchctl that does `what` before the n-th such step."""
        self.runs += 1
        tell, wait = self.where / f"tell{self.runs}", self.where / f"wait{self.runs}"
        os.mkfifo(tell)
        os.mkfifo(wait)
        for name, value in (("LD_PRELOAD", self.library), ("ASAN_OPTIONS", "verify_asan_link_order=0"), ("AT_STEP", n),
                            ("TELL", tell), ("WAIT", wait)):
            monkeypatch.setenv(name, str(value))
        done = []

        def meddle():
            with open(tell, "rb") as f:
                f.read(1)
            done.append(what())
            with open(wait, "wb") as f:
                f.write(b"x")

        worker = threading.Thread(target=meddle, daemon=True)
        worker.start()
        result = start()
        worker.join(timeout=WAIT)
        assert done, "it was never between the two"
        return result
