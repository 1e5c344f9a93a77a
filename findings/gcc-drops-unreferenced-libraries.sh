#!/bin/bash
# Debian 12's gcc drops a shared library that no object refers to, unless a sanitizer is asked for
#
# Versions: gcc-12 12.2.0-14+deb12u1 and clang-14 14.0.6 of Debian 12, binutils 2.40.
# A guess: -lNAME on the command line puts NAME into the program's list of needed libraries, as GNU ld's manual says of
# its default; and an option of the compiler that adds checks does not change which libraries a program has.
# Seen: Debian's gcc hands --as-needed to the linker, in front of all else. A library that is linked for its
# constructor alone (a tracer, a profiler, an allocator) is not there at run time, without a word; with
# -fsanitize=undefined it is, since the specs leave the option out for every -fsanitize. clang keeps it. An archive that
# refers to a library named before it does not link, either: the library counts as not needed at its place.
# Whom it hurts: who links such a library and tests with a sanitizer, or with clang: the program that is shipped is
# not traced. -Wl,--no-as-needed in front of the library keeps it.
set -euo pipefail
export LC_ALL=C
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
chmod 755 "$dir"
cd "$dir"
fetch()
{
	for p in "$@"; do
		apt-get -qq -o APT::Sandbox::User=root download "$p" && dpkg -x "${p%%=*}"_*.deb root
	done
}
fetch gcc-12=12.2.0-14+deb12u1 cpp-12=12.2.0-14+deb12u1 libgcc-12-dev=12.2.0-14+deb12u1 libubsan1=12.2.0-14+deb12u1 \
	binutils-x86-64-linux-gnu=2.40-2 libbinutils=2.40-2 libisl23=0.25-1.1 libmpc3=1.3.1-1 libmpfr6=4.2.0-1 \
	clang-14=1:14.0.6-12 libclang-cpp14=1:14.0.6-12 libclang-common-14-dev=1:14.0.6-12 libllvm14=1:14.0.6-12
lib=$dir/root/usr/lib
export LD_LIBRARY_PATH=$lib/x86_64-linux-gnu:$lib/llvm-14/lib PATH=$dir/root/usr/bin:$PATH
ln -sf x86_64-linux-gnu-ld "$dir/root/usr/bin/ld"
ln -sf x86_64-linux-gnu-as "$dir/root/usr/bin/as"

cat >tracer.c <<'C'
#include <unistd.h>
__attribute__((constructor)) static void begin(void) { if (write(1, "tracing\n", 8) != 8) _exit(1); }
int tracer_version(void) { return 1; }
C
echo 'int main(void) { return 0; }' >app.c
echo 'int tracer_version(void); int helper(void) { return tracer_version(); }' >helper.c
echo 'int helper(void); int main(void) { return helper() - 1; }' >uses.c
gcc-12 -shared -fPIC -o libtracer.so tracer.c

needed() # COMPILER OPTION...: whether the program has the library
{
	"$@" -o app app.c -L. -ltracer -Wl,-rpath,"$dir"
	if [ "$(./app)" = tracing ]; then echo yes; else echo no; fi
}
links() # COMPILER OPTION...: an archive behind the library that it needs
{
	if "$@" -o uses uses.c -L. -ltracer libhelper.a -Wl,-rpath,"$dir" 2>error; then echo yes; else echo no; fi
}
gcc-12 -c helper.c
x86_64-linux-gnu-ar rcs libhelper.a helper.o

said=$(
	echo "gcc: $(needed gcc-12)"
	echo "gcc -fsanitize=undefined: $(needed gcc-12 -fsanitize=undefined)"
	echo "gcc -Wl,--no-as-needed: $(needed gcc-12 -Wl,--no-as-needed)"
	echo "clang: $(needed clang-14)"
	echo "gcc, archive behind it: $(links gcc-12)"
	echo "clang, archive behind it: $(links clang-14)"
)
echo "$said"
diff <(echo "$said") - <<'END'
gcc: no
gcc -fsanitize=undefined: yes
gcc -Wl,--no-as-needed: yes
clang: yes
gcc, archive behind it: no
clang, archive behind it: yes
END
