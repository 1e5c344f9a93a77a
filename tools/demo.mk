# `make demo`: the main job on a program nobody here wrote. Needs no root where the packages are there.

.PHONY: demo
demo: $(PROG) | packages-demo ## watches who grows the heap of Debian's python3, and who takes its global lock
	@tools/demo $(PROG)
