/*
 * eh_frame_find - the entries of .eh_frame and the one that describes an address; private to eh_frame.
 */
#ifndef WATCHCTL_CODE_UNWIND_EH_FRAME_FIND_H
#define WATCHCTL_CODE_UNWIND_EH_FRAME_FIND_H

#include "watchctl/code/unwind/eh_frame_read.h"

struct cie {
	struct cursor program;
	uint64_t code_align;
	int64_t data_align;
	uint64_t ra;
	uint8_t encoding; /* of the addresses in its FDEs */
	uint8_t lsda;	  /* of the addresses of their language-specific data; PE_OMIT: they have none */
	bool sized;	  /* its FDEs have augmentation data, which begins with its length */
	bool is_signal;
};

struct fde {
	struct cie cie;
	struct cursor program;
	uint64_t start, end;
	uint64_t lsda; /* where its language-specific data is; 0: it has none */
};

/* The FDE that holds @pc. False: none, or one that is not understood. */
bool eh_find_fde(const struct eh_image *image, uint64_t pc, struct fde *ret);

/* The same of the FDE at @entry. */
bool eh_fde_at(const struct eh_image *image, uint64_t entry, uint64_t pc, struct fde *ret);

#endif
