/*
 * tidy - what clang-tidy is told before each source file (see check.mk). The analyzer of clang 14 does
 * not use returns_nonnull: without this, every `return wc_error_new(...)` might be a success to it, and
 * what is written on success only would be uninitialised.
 */
#include "watchctl/base/error.h"

#define tidy_nonnull(call)                            \
	({                                            \
		struct wc_error *tidy_made_ = (call); \
		if (!tidy_made_)                      \
			__builtin_unreachable();      \
		tidy_made_;                           \
	})
#define wc_error_new(...) tidy_nonnull((wc_error_new)(__VA_ARGS__))
#define wc_error_errno(...) tidy_nonnull((wc_error_errno)(__VA_ARGS__))
#define wc_error_context(...) tidy_nonnull((wc_error_context)(__VA_ARGS__))
#define wc_error_hint(...) tidy_nonnull((wc_error_hint)(__VA_ARGS__))
