# `make demo`: the main job on a program nobody here wrote. Needs no root where the packages are there.

.PHONY: demo pictures
demo: $(PROG) | packages-demo ## watches who grows the heap of Debian's python3, and who takes its global lock
	@tools/demo $(PROG)

pictures: $(PROG) | packages-test ## makes docs/pictures again: the report page and watchctl top, with headless Chromium
	@$(PYTHON) -B tools/pictures $(PROG) docs/pictures
