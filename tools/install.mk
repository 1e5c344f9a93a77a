# Installation below $(DESTDIR)$(PREFIX). Completions go where bash-completion and zsh look for them.

INSTALL ?= install
BINDIR := $(DESTDIR)$(PREFIX)/bin
MANDIR := $(DESTDIR)$(PREFIX)/share/man
DOCDIR := $(DESTDIR)$(PREFIX)/share/doc/watchctl
LIBEXECDIR := $(DESTDIR)$(PREFIX)/libexec/watchctl
SHAREDIR := $(DESTDIR)$(PREFIX)/share/watchctl
BASHDIR := $(DESTDIR)$(PREFIX)/share/bash-completion/completions
# Debian's zsh looks here; below /usr/local in a folder of its own.
ZSHDIR := $(DESTDIR)$(PREFIX)/share/zsh/$(if $(filter /usr,$(PREFIX)),vendor-completions,site-functions)

LIBDIR ?= $(PREFIX)/lib
INCLUDEDIR := $(DESTDIR)$(PREFIX)/include
# Not below LIBDIR, which may be one of several: steprec_load.py looks here.
PLUGINDIR := $(DESTDIR)$(PREFIX)/lib/watchctl

MAN_PAGES := $(wildcard man/*.[1-8])
EXAMPLES := $(wildcard examples/*)
DEBUGGER_SCRIPTS := $(wildcard debugger/*.py)
# Below DOCDIR as in the tree, so that the links between them lead somewhere.
# calltrace-cc and calltrace-opt, where they were built.
CALLTRACE_PROGRAMS = $(if $(PASS_BUILT),$(CALLTRACE_CC) $(CALLTRACE_OPT))
DOCS := $(wildcard README.md CONTRIBUTING.md tests/README.md docs/*.md docs/tasks/*.md docs/pictures/*.png) $(EXAMPLES)
PLUGINS = $(if $(filter none,$(LLDB)),,$(STEPREC_SO))

INSTALL_DATA = $(INSTALL) -D -m 644

.PHONY: install uninstall
install: all ## program, library, man pages, completions, debugger commands, docs; PREFIX=/usr/local, DESTDIR=
	$(INSTALL) -D -m 755 $(PROG) $(BINDIR)/watchctl
	$(INSTALL) -D -m 755 $(STEP_PROG) $(LIBEXECDIR)/watchctl-step
	$(foreach f,$(PLUGINS),$(INSTALL_DATA) -t $(PLUGINDIR) $(f) &&) :
	$(INSTALL_DATA) -t $(SHAREDIR)/lldb $(STEPREC_SCRIPTS)
	$(INSTALL_DATA) -t $(SHAREDIR)/debugger $(DEBUGGER_SCRIPTS)
	$(foreach page,$(MAN_PAGES),$(INSTALL_DATA) -t $(MANDIR)/man$(subst .,,$(suffix $(page))) $(page) &&) :
	$(INSTALL_DATA) completion/watchctl.bash $(BASHDIR)/watchctl
	$(INSTALL_DATA) completion/_watchctl $(ZSHDIR)/_watchctl
	$(INSTALL_DATA) $(CAPTURE_SO) $(DESTDIR)$(LIBDIR)/$(CAPTURE_SONAME)
	ln -sf $(CAPTURE_SONAME) $(DESTDIR)$(LIBDIR)/libstackwalk.so
	$(INSTALL_DATA) $(CAPTURE_LIB) $(DESTDIR)$(LIBDIR)/libstackwalk.a
	$(INSTALL_DATA) stackwalk/stackwalk.h $(INCLUDEDIR)/stackwalk.h
	$(INSTALL_DATA) $(CALLTRACE_SO) $(DESTDIR)$(LIBDIR)/$(CALLTRACE_SONAME)
	ln -sf $(CALLTRACE_SONAME) $(DESTDIR)$(LIBDIR)/libcalltrace.so
	$(INSTALL_DATA) $(CALLTRACE_LIB) $(DESTDIR)$(LIBDIR)/libcalltrace.a
	$(INSTALL_DATA) $(CALLTRACE_STUB_SO) $(DESTDIR)$(LIBDIR)/$(CALLTRACE_STUB_SONAME)
	ln -sf $(CALLTRACE_STUB_SONAME) $(DESTDIR)$(LIBDIR)/libcalltrace-stub.so
	$(INSTALL_DATA) $(CALLTRACE_STUB_LIB) $(DESTDIR)$(LIBDIR)/libcalltrace-stub.a
	$(INSTALL_DATA) calltrace/calltrace.h $(INCLUDEDIR)/calltrace.h
	$(foreach f,$(PASSES),$(INSTALL_DATA) -t $(PLUGINDIR) $(f) &&) :
	$(foreach f,$(CALLTRACE_PROGRAMS),$(INSTALL) -D -m 755 $(f) $(BINDIR)/$(notdir $(f)) &&) :
	$(if $(PASS_BUILT),ln -sf calltrace-cc $(BINDIR)/calltrace-c++)
	$(if $(PASS_BUILT),ln -sf libcalltrace-pass-$(PASS_NEWEST).so $(PLUGINDIR)/libcalltrace-pass.so)
	$(if $(PASS_BUILT),$(INSTALL_DATA) completion/calltrace-opt.bash $(BASHDIR)/calltrace-opt)
	$(INSTALL_DATA) probe/probe.h $(INCLUDEDIR)/watchctl/probe.h
	$(INSTALL_DATA) $(BUILD)/probe/runtime.o $(PLUGINDIR)/probe_runtime.o
	$(INSTALL) -d $(DESTDIR)$(LIBDIR)/pkgconfig
	sed -e 's,@PREFIX@,$(PREFIX),; s,@LIBDIR@,$(LIBDIR),; s,@VERSION@,$(VERSION),' stackwalk/stackwalk.pc.in \
		> $(DESTDIR)$(LIBDIR)/pkgconfig/stackwalk.pc
	$(foreach doc,$(DOCS),$(INSTALL_DATA) $(doc) $(DOCDIR)/$(doc) &&) :
	$(if $(DESTDIR),,-ldconfig)

# Folders that others share stay; our own go, when nobody has put anything into them.
uninstall: ## removes what install placed
	rm -f $(addprefix $(BINDIR)/,watchctl calltrace-cc calltrace-c++ calltrace-opt) $(LIBEXECDIR)/watchctl-step $(BASHDIR)/watchctl $(BASHDIR)/calltrace-opt $(ZSHDIR)/_watchctl
	rm -f $(foreach page,$(MAN_PAGES),$(MANDIR)/man$(subst .,,$(suffix $(page)))/$(notdir $(page)))
	rm -f $(addprefix $(DOCDIR)/,$(DOCS)) $(addprefix $(INCLUDEDIR)/,stackwalk.h calltrace.h watchctl/probe.h)
	rm -f $(addprefix $(DESTDIR)$(LIBDIR)/,$(CAPTURE_SONAME) libstackwalk.so libstackwalk.a pkgconfig/stackwalk.pc)
	rm -f $(addprefix $(DESTDIR)$(LIBDIR)/,$(CALLTRACE_SONAME) libcalltrace.so libcalltrace.a $(CALLTRACE_STUB_SONAME) libcalltrace-stub.so libcalltrace-stub.a)
	rm -f $(addprefix $(PLUGINDIR)/,$(notdir $(STEPREC_SO) $(PASS) $(PASS_VERSIONS:%=libcalltrace-pass-%.so)) probe_runtime.o) $(addprefix $(SHAREDIR)/lldb/,$(notdir $(STEPREC_SCRIPTS)))
	rm -rf $(addsuffix /__pycache__,$(SHAREDIR)/lldb $(SHAREDIR)/debugger)
	rm -f $(addprefix $(SHAREDIR)/debugger/,$(notdir $(DEBUGGER_SCRIPTS)))
	-rmdir $(INCLUDEDIR)/watchctl $(LIBEXECDIR) $(PLUGINDIR) $(SHAREDIR)/lldb $(SHAREDIR)/debugger $(SHAREDIR) \
		$(DOCDIR)/docs/tasks $(DOCDIR)/docs/pictures $(DOCDIR)/docs $(DOCDIR)/tests $(DOCDIR)/examples $(DOCDIR) 2>/dev/null || :

# Debian packages, from a copy of the tree as a source package has it: without build folders.
DEB := $(BUILD)/deb
DEB_TREE := $(DEB)/watchctl-$(VERSION)
DEB_BUILD_OPTIONS ?= parallel=$(shell nproc) nocheck

.PHONY: deb deb-check
deb: | packages-deb ## Debian packages, source and binary, into $(BUILD)/deb
	@test "$$(dpkg-parsechangelog -S Version)" = $(VERSION) \
		|| { echo "debian/changelog and the Makefile do not agree on the version" >&2; exit 1; }
	@rm -rf $(DEB) && mkdir -p $(DEB_TREE)
	@tar -c --exclude=./.git --exclude='./build*' --exclude=__pycache__ --exclude=.pytest_cache . | tar -x -C $(DEB_TREE)
	@cd $(DEB_TREE) && env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL -u BUILD -u CC -u CFLAGS -u V DEB_BUILD_OPTIONS="$(DEB_BUILD_OPTIONS)" \
		dpkg-buildpackage -us -uc > ../build.log 2>&1 || { tail -n 40 ../build.log >&2; exit 1; }
	@cd $(DEB) && ls -1 *.deb *.dsc

deb-check: deb ## builds the packages, asks lintian, and uses them unpacked
	@cd $(DEB) && lintian --fail-on error *.changes
	@DEB="$(abspath $(DEB))" PYTHONDONTWRITEBYTECODE=1 $(PYTEST) -rsfE -p no:cacheprovider tests/package
