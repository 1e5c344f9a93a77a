# Installation below $(DESTDIR)$(PREFIX). Completions go where bash-completion and zsh look for them.

INSTALL ?= install
BINDIR := $(DESTDIR)$(PREFIX)/bin
MANDIR := $(DESTDIR)$(PREFIX)/share/man
DOCDIR := $(DESTDIR)$(PREFIX)/share/doc/watchctl
LIBEXECDIR := $(DESTDIR)$(PREFIX)/libexec/watchctl
LLDBDIR := $(DESTDIR)$(PREFIX)/share/watchctl/lldb
BASHDIR := $(DESTDIR)$(PREFIX)/share/bash-completion/completions
# Debian's zsh looks here; below /usr/local in a folder of its own.
ZSHDIR := $(DESTDIR)$(PREFIX)/share/zsh/$(if $(filter /usr,$(PREFIX)),vendor-completions,site-functions)

LIBDIR ?= $(PREFIX)/lib
INCLUDEDIR := $(DESTDIR)$(PREFIX)/include
EXAMPLES := $(wildcard examples/*)

MAN_PAGES := $(wildcard man/*.[1-8])
DOCS := $(wildcard README.md docs/*.md)

.PHONY: install uninstall
install: all ## program, library, man pages, completions, docs; PREFIX=/usr/local, DESTDIR=
	$(INSTALL) -D -m 755 $(PROG) $(BINDIR)/watchctl
	$(INSTALL) -D -m 755 $(STEP_PROG) $(LIBEXECDIR)/watchctl-step
	$(foreach f,$(filter-out none,$(if $(filter none,$(LLDB)),none,$(STEPREC_SO))),$(INSTALL) -D -m 644 -t $(DESTDIR)$(LIBDIR)/watchctl $(f) &&) :
	$(INSTALL) -D -m 644 -t $(LLDBDIR) $(STEPREC_SCRIPTS)
	$(foreach page,$(MAN_PAGES),$(INSTALL) -D -m 644 -t $(MANDIR)/man$(subst .,,$(suffix $(page))) $(page) &&) :
	$(INSTALL) -D -m 644 completion/watchctl.bash $(BASHDIR)/watchctl
	$(INSTALL) -D -m 644 completion/_watchctl $(ZSHDIR)/_watchctl
	$(INSTALL) -D -m 644 $(CAPTURE_SO) $(DESTDIR)$(LIBDIR)/$(CAPTURE_SONAME)
	ln -sf $(CAPTURE_SONAME) $(DESTDIR)$(LIBDIR)/libstackwalk.so
	$(INSTALL) -D -m 644 $(CAPTURE_LIB) $(DESTDIR)$(LIBDIR)/libstackwalk.a
	$(INSTALL) -D -m 644 capture/stackwalk.h $(INCLUDEDIR)/stackwalk.h
	$(INSTALL) -d $(DESTDIR)$(LIBDIR)/pkgconfig
	sed -e 's,@PREFIX@,$(PREFIX),; s,@LIBDIR@,$(LIBDIR),; s,@VERSION@,$(VERSION),' capture/stackwalk.pc.in \
		> $(DESTDIR)$(LIBDIR)/pkgconfig/stackwalk.pc
	$(INSTALL) -D -m 644 -t $(DOCDIR)/examples $(EXAMPLES)
	$(if $(DESTDIR),,-ldconfig)
	$(if $(DOCS),$(INSTALL) -D -m 644 -t $(DOCDIR) $(DOCS))

uninstall: ## removes what install placed
	rm -f $(BINDIR)/watchctl $(LIBEXECDIR)/watchctl-step $(BASHDIR)/watchctl $(ZSHDIR)/_watchctl
	rm -f $(foreach page,$(MAN_PAGES),$(MANDIR)/man$(subst .,,$(suffix $(page)))/$(notdir $(page)))
	rm -f $(addprefix $(DOCDIR)/,$(notdir $(DOCS)) $(EXAMPLES)) $(INCLUDEDIR)/stackwalk.h
	rm -f $(addprefix $(DESTDIR)$(LIBDIR)/,$(CAPTURE_SONAME) libstackwalk.so libstackwalk.a pkgconfig/stackwalk.pc)
	rm -rf $(DESTDIR)$(LIBDIR)/watchctl $(dir $(LLDBDIR))
	-rmdir $(LIBEXECDIR) $(DOCDIR)/examples 2>/dev/null || :
	-rmdir $(DOCDIR) 2>/dev/null || :
