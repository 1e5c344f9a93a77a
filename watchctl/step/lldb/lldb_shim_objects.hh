/*
 * lldb_shim_objects - what the handles of lldb_shim.h are; only lldb_shim*.cc and the plugin know.
 *
 * Everything that is handed out is kept in containers that never move their items, and released with the
 * session. guarded() is the fence for exceptions: liblldb throws none, the standard library may.
 */
#ifndef WATCHCTL_STEP_LLDB_LLDB_SHIM_OBJECTS_HH
#define WATCHCTL_STEP_LLDB_LLDB_SHIM_OBJECTS_HH

#include <deque>
#include <map>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <lldb/API/LLDB.h>

#define _Static_assert static_assert /* C's name for it, in headers that C++ reads too */
extern "C" {
#include "watchctl/step/lldb/lldb_shim.h"
}
#undef _Static_assert

struct lldb_type {
	struct lldb_session *session;
	struct lldb_module *module;
	lldb::SBType type;
	bool is_c; /* its name needs "struct" */
	bool done;
	struct lldb_type_info info;
	std::vector<struct lldb_member> members;
	std::vector<struct enumerator> enumerators;
};

struct kept_function {
	struct lldb_function function;
	std::vector<struct lldb_param> params;
};

struct lldb_module {
	struct lldb_session *session;
	lldb::SBModule module;
	std::string path;
	std::vector<uint8_t> build_id;
	std::unordered_map<std::string, std::vector<struct lldb_type *>> types; /* by name */
	std::unordered_map<uint64_t, struct kept_function> functions;		/* by address */
};

struct lldb_session {
	lldb::SBDebugger debugger;
	lldb::SBTarget target;
	lldb::SBProcess process; /* invalid until lldb_shim_process makes one */
	bool owns_debugger;	 /* and its target; else they are the user's */
	std::unordered_set<std::string> strings;
	std::deque<struct lldb_module> modules;
	std::deque<struct lldb_type> types;
};

/* A session on what exists already: an interactive LLDB's. Its debugger and target are left alone at close.
 */
struct lldb_session *lldb_session_of(lldb::SBDebugger debugger, lldb::SBTarget target,
				     lldb::SBProcess process);

/* The one copy of @text, as long as the session lives; NULL stays NULL. */
const char *lldb_session_keep(struct lldb_session *s, const char *text);

/* The handle of @type; NULL: it is none. @is_c: it was met in code written in C. */
struct lldb_type *lldb_module_type(struct lldb_module *m, lldb::SBType type, bool is_c);

/* Runs @work, which returns an error or nullptr; memory that ran out becomes wc_enomem. */
template <typename Work> struct wc_error *lldb_guarded(Work work)
{
	try {
		return work();
	} catch (...) {
		return &wc_enomem;
	}
}

#endif
