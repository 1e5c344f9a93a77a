# What the project needs from Debian, by name, and how it is installed when missing.

PACKAGES_BUILD := gcc make pkg-config clang libdw-dev libelf-dev libzydis-dev libcapstone-dev libunwind-dev libiberty-dev libbpf-dev zlib1g-dev bpftool libprotobuf-c-dev protobuf-c-compiler libreadline-dev libncurses-dev
PACKAGES_LLDB := liblldb-19-dev g++
PACKAGES_PASS := llvm-19-dev libcpptoml-dev g++
# A plugin for the clang of Debian 12, too.
PACKAGES_PASS_OLDER := llvm-14-dev
PACKAGES_TEST := $(PACKAGES_LLDB) $(PACKAGES_PASS) $(PACKAGES_PASS_OLDER) clang-19 clang-14 lld-19 lldb-19 python3-lldb-19 g++ libcmocka-dev python3-pytest python3-pytest-xdist python3-pytest-timeout python3-pyte babeltrace2 gdb musl-tools golang-go rustc gfortran gnat fp-compiler sqlite3 \
	python3-dbg libc6-dbg binutils procps util-linux perl luajit \
	dwz elfutils xz-utils libdebuginfod1 openssl git \
	zsh lua5.1 jq graphviz sed gawk bc bzip2 file tree chromium python3-websocket \
	strace valgrind linux-perf groff-base redis-server redis-tools postgresql-15 nginx nodejs openjdk-17-jdk-headless
PACKAGES_FLOW := xvfb xterm xdotool dbus tmux libglib2.0-bin
PACKAGES_CHECK := clang-format clang-tidy cppcheck shellcheck groff-base libclang-rt-14-dev
PACKAGES_DEB := $(PACKAGES_PASS) $(PACKAGES_PASS_OLDER) debhelper dpkg-dev fakeroot lintian python3-pytest pkg-config
PACKAGES_ORACLE := mawk bash
PACKAGES_DEMO := python3-dbg libc6-dbg
PACKAGES_BENCH := $(PACKAGES_PASS) clang-19 uftrace linux-perf python3-dbg libc6-dbg bpftrace gdb lldb-19 redis-server redis-tools

.PHONY: packages packages-test packages-oracle packages-check packages-demo packages-bench packages-deb
packages:
	@tools/install-packages $(PACKAGES_BUILD)
packages-test: packages
	@tools/install-packages $(PACKAGES_TEST)
packages-check: packages
	@tools/install-packages $(PACKAGES_CHECK)
packages-demo: packages
	@tools/install-packages $(PACKAGES_DEMO)
packages-bench: packages
	@tools/install-packages $(PACKAGES_BENCH)
packages-oracle: packages-test
	@tools/install-packages $(PACKAGES_ORACLE)
packages-deb: packages
	@tools/install-packages $(PACKAGES_DEB) $(PACKAGES_LLDB)
