/* The session, its files, and the functions in them. Types: lldb_shim_type.cc. */
#include "watchctl/step/lldb/lldb_shim_objects.hh"

#include <cstring>
#include <mutex>

#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include "watchctl/base/error.h"

using lldb::SBAddress;
using lldb::SBDebugger;
using lldb::SBModule;
using lldb::SBModuleSpec;
using lldb::SBSymbol;
using lldb::SBTarget;
using lldb::SBType;
using lldb::SBValue;
using lldb::SBValueList;

#define SAME_NAME_MAX 256 /* variables */

const char *lldb_shim_version(void)
{
	static std::string text;
	static std::once_flag once;

	try {
		/* "lldb version 19.1.7", and who built it on further lines. */
		std::call_once(once, [] {
			std::string all = SBDebugger::GetVersionString();
			size_t at = all.find("version "), end;

			at = at == std::string::npos ? 0 : at + strlen("version ");
			end = all.find_first_of(" \n(", at);
			text = "LLDB " + all.substr(at, end == std::string::npos ? end : end - at);
		});
	} catch (...) {
		return "LLDB";
	}
	return text.c_str();
}

const char *lldb_session_keep(struct lldb_session *s, const char *text)
{
	return text ? s->strings.emplace(text).first->c_str() : nullptr;
}

struct lldb_session *lldb_session_of(SBDebugger debugger, SBTarget target, lldb::SBProcess process)
{
	auto *s = new (std::nothrow) lldb_session();

	if (!s)
		return nullptr;
	s->debugger = debugger;
	s->target = target;
	s->process = process;
	return s;
}

/* LLDB is initialised once and stays so: its Terminate() runs into threads of its own that still work. */
static struct wc_error *initialize()
{
	static std::once_flag once;
	static std::string why;

	std::call_once(once, [] {
		lldb::SBError e = SBDebugger::InitializeWithErrorHandling();

		if (e.Fail())
			why = e.GetCString() ? e.GetCString() : "no reason given";
	});
	return why.empty() ? nullptr : wc_error_new(WC_ENOTSUP, "LLDB does not start: %s", why.c_str());
}

/* What LLDB thinks of the debug information that it reads is not for our user's terminal. */
static void silence(SBDebugger &debugger)
{
	int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);

	if (fd >= 0)
		debugger.SetErrorFile(lldb::SBFile(fd, "w", true));
}

struct wc_error *lldb_session_open(const char *exe, struct lldb_session **ret)
{
	return lldb_guarded([&]() -> struct wc_error * {
		struct wc_error *err = initialize();
		struct lldb_session *s;
		lldb::SBError why;

		if (err)
			return err;
		s = lldb_session_of(SBDebugger::Create(false), SBTarget(), lldb::SBProcess());
		if (!s)
			return &wc_enomem;
		s->owns_debugger = true;
		s->debugger.SetAsync(false);
		silence(s->debugger);
		s->target = s->debugger.CreateTarget(exe, nullptr, nullptr, false, why);
		if (!s->target.IsValid()) {
			lldb_session_close(s);
			return wc_error_new(WC_ETARGET, "LLDB cannot read the program %s: %s", exe,
					    why.GetCString() ? why.GetCString() : "no reason given");
		}
		*ret = s;
		return nullptr;
	});
}

void lldb_session_close(struct lldb_session *s)
{
	if (!s)
		return;
	(void)lldb_guarded([&]() -> struct wc_error * {
		SBDebugger debugger = s->debugger;
		SBTarget target = s->target;
		bool owns = s->owns_debugger;

		delete s; /* first of all what refers to the target's types */
		if (owns) {
			debugger.DeleteTarget(target);
			SBDebugger::Destroy(debugger);
		}
		return nullptr;
	});
}

static bool module_is(const struct lldb_module &have, const struct module *m)
{
	return have.path == m->path && have.build_id.size() == m->build_id_len &&
	       memcmp(have.build_id.data(), m->build_id, m->build_id_len) == 0;
}

/* The kernel's one image of the vdso, as a file; -1: there is none. */
static int open_vdso()
{
	const char *base = reinterpret_cast<const char *>(getauxval(AT_SYSINFO_EHDR));
	long page = sysconf(_SC_PAGESIZE);
	int fd = base ? memfd_create("vdso", MFD_CLOEXEC) : -1;

	/* As many pages as there are: write() finds the end, where a read would fault. */
	if (fd >= 0)
		for (int i = 0; i < 16 && write(fd, base + i * page, (size_t)page) == page; i++)
			;
	return fd;
}

/* What the target has already, as the main program or what the dynamic loader plugin has found. */
static SBModule find_loaded(SBTarget &target, const struct module *m)
{
	uint32_t n = target.GetNumModules();

	for (uint32_t i = 0; i < n; i++) {
		SBModule module = target.GetModuleAtIndex(i);
		const uint8_t *uuid = module.GetUUIDBytes();
		const char *text = module.GetUUIDString();
		char path[4096];

		/* As text it reports its length: two digits a byte, and dashes. */
		if (uuid && text && m->build_id_len) {
			size_t digits = strlen(text);

			for (const char *p = text; *p; p++)
				digits -= *p == '-';
			if (digits / 2 == m->build_id_len && memcmp(uuid, m->build_id, m->build_id_len) == 0)
				return module;
			continue;
		}
		if (module.GetFileSpec().GetPath(path, sizeof(path)) &&
		    (!strcmp(path, m->path) || (m->open_path && !strcmp(path, m->open_path))))
			return module;
	}
	return SBModule();
}

/*
 * A session with a process finds out by itself what is loaded: a module that it does not know (yet) is only
 * looked at, not added to its target.
 */
static SBModule open_module(struct lldb_session *s, const struct module *m)
{
	bool is_vdso = !strcmp(m->path, "[vdso]");
	SBModule found = find_loaded(s->target, m);
	SBModuleSpec spec;
	int fd = -1;

	if (found.IsValid() || (!is_vdso && m->path[0] != '/'))
		return found;
	if (is_vdso) {
		char path[64];

		fd = open_vdso();
		snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)getpid(), fd);
		spec.SetFileSpec(lldb::SBFileSpec(path, false));
	} else {
		spec.SetFileSpec(lldb::SBFileSpec(m->open_path ? m->open_path : m->path, false));
	}
	if (m->build_id_len && !is_vdso)
		spec.SetUUIDBytes(m->build_id, m->build_id_len);
	if (fd >= 0 || !is_vdso)
		found = SBModule(spec);
	if (fd >= 0) {
		found.GetNumSymbols(); /* while it can be read */
		close(fd);
	}
	return found;
}

struct wc_error *lldb_session_module(struct lldb_session *s, const struct module *m, struct lldb_module **ret)
{
	return lldb_guarded([&]() -> struct wc_error * {
		for (struct lldb_module &have : s->modules)
			if (module_is(have, m)) {
				*ret = have.module.IsValid() ? &have : nullptr;
				return nullptr;
			}
		s->modules.emplace_back();
		struct lldb_module &add = s->modules.back();

		add.session = s;
		add.path = m->path;
		add.build_id.assign(m->build_id, m->build_id + m->build_id_len);
		add.module = open_module(s, m);
		*ret = add.module.IsValid() ? &add : nullptr;
		return nullptr;
	});
}

static bool fill_symbol(struct lldb_session *s, SBSymbol symbol, struct lldb_symbol *ret)
{
	lldb::SymbolType type = symbol.GetType();
	uint64_t start, end;
	const char *name;

	if (type != lldb::eSymbolTypeCode && type != lldb::eSymbolTypeResolver)
		return false;
	start = symbol.GetStartAddress().GetFileAddress();
	end = symbol.GetEndAddress().GetFileAddress();
	if (start == LLDB_INVALID_ADDRESS ||
	    symbol.GetStartAddress().GetSection().GetSectionType() != lldb::eSectionTypeCode)
		return false;
	*ret = {};
	ret->address = start;
	ret->size = end == LLDB_INVALID_ADDRESS || end < start ? 0 : end - start;
	ret->is_resolver = type == lldb::eSymbolTypeResolver;
	if (!symbol.IsSynthetic()) {
		name = symbol.GetMangledName();
		ret->name = lldb_session_keep(s, name ? name : symbol.GetName());
	}
	return true;
}

struct wc_error *lldb_module_symbols(struct lldb_module *m,
				     bool (*each)(void *ctx, const struct lldb_symbol *symbol), void *ctx)
{
	return lldb_guarded([&]() -> struct wc_error * {
		size_t n = m->module.GetNumSymbols();
		struct lldb_symbol symbol;

		for (size_t i = 0; i < n; i++)
			if (fill_symbol(m->session, m->module.GetSymbolAtIndex(i), &symbol) &&
			    !each(ctx, &symbol))
				return &wc_enomem;
		return nullptr;
	});
}

/* DWARF's numbers (DWARF 5, table 7.17, and those given out since), which LLDB's are. */
static enum lldb_language language_of(unsigned int number)
{
	switch (number) {
	case 0x01: /* C89 */
	case 0x02: /* C */
	case 0x0c: /* C99 */
	case 0x1d: /* C11 */
	case 0x2c: /* C17 */
	case 0x3e: /* C23 */
		return LLDB_LANGUAGE_C;
	case 0x04: /* C++ */
	case 0x19: /* C++03 */
	case 0x1a: /* C++11 */
	case 0x21: /* C++14 */
	case 0x2a: /* C++17 */
	case 0x2b: /* C++20 */
	case 0x3a: /* C++23 */
		return LLDB_LANGUAGE_CPP;
	case 0x1c:
		return LLDB_LANGUAGE_RUST;
	case 0x16:
		return LLDB_LANGUAGE_GO;
	default:
		return LLDB_LANGUAGE_OTHER;
	}
}

static void fill_source(struct lldb_session *s, lldb::SBSymbolContext &at, struct lldb_function *f)
{
	lldb::SBLineEntry line = at.GetLineEntry();
	char path[4096];

	if (!line.IsValid() || !line.GetFileSpec().GetPath(path, sizeof(path)))
		return;
	f->file = lldb_session_keep(s, path);
	f->line = line.GetLine();
}

static void fill_params(struct lldb_module *m, lldb::SBFunction function, bool is_c,
			struct kept_function *kept)
{
	lldb::SBValueList args = function.GetBlock().GetVariables(m->session->target, true, false, false);
	uint32_t n = args.GetSize();

	for (uint32_t i = 0; i < n; i++) {
		lldb::SBValue arg = args.GetValueAtIndex(i);
		struct lldb_param param = {};

		param.name = lldb_session_keep(m->session, arg.GetName());
		if (param.name && !param.name[0])
			param.name = nullptr;
		param.type = lldb_module_type(m, arg.GetType(), is_c);
		kept->params.push_back(param);
	}
	kept->function.nparams = (uint32_t)kept->params.size();
	kept->function.param = kept->params.data();
}

static void fill_function(struct lldb_module *m, lldb::SBSymbolContext &at, lldb::SBFunction function,
			  struct kept_function *kept)
{
	struct lldb_function *f = &kept->function;
	unsigned int number = function.GetLanguage();
	const char *name = function.GetMangledName();

	if (!number)
		number = at.GetCompileUnit().GetLanguage();
	f->language = language_of(number);
	f->name = lldb_session_keep(m->session, name ? name : function.GetName());
	f->result = lldb_module_type(m, function.GetType().GetFunctionReturnType(),
				     f->language == LLDB_LANGUAGE_C);
	fill_source(m->session, at, f);
	fill_params(m, function, f->language == LLDB_LANGUAGE_C, kept);
}

struct wc_error *lldb_module_function(struct lldb_module *m, uint64_t address,
				      const struct lldb_function **ret)
{
	return lldb_guarded([&]() -> struct wc_error * {
		auto [it, is_new] = m->functions.try_emplace(address);
		struct kept_function *kept = &it->second;

		if (is_new) {
			lldb::SBSymbolContext at = m->module.ResolveSymbolContextForAddress(
				m->module.ResolveFileAddress(address), lldb::eSymbolContextCompUnit |
									       lldb::eSymbolContextFunction |
									       lldb::eSymbolContextLineEntry);
			lldb::SBFunction function = at.GetFunction();

			if (function.IsValid())
				fill_function(m, at, function, kept);
		}
		*ret = kept->function.name ? &kept->function : nullptr;
		return nullptr;
	});
}

/* Of a variable no language is known, but where it is declared. */
static bool is_declared_in_c(SBValue variable)
{
	const char *file = variable.GetDeclaration().GetFileSpec().GetFilename();
	size_t n = file ? strlen(file) : 0;

	return n > 2 && !strcmp(file + n - 2, ".c");
}

static const struct lldb_type *type_at(struct lldb_module *m, SBValueList variables, uint64_t address)
{
	uint32_t n = variables.GetSize();

	for (uint32_t i = 0; i < n; i++) {
		SBValue variable = variables.GetValueAtIndex(i);

		if (variable.GetAddress().GetFileAddress() == address)
			return lldb_module_type(m, variable.GetType(), is_declared_in_c(variable));
	}
	return nullptr;
}

struct wc_error *lldb_module_variable(struct lldb_module *m, const char *name, uint64_t address,
				      const struct lldb_type **ret)
{
	return lldb_guarded([&]() -> struct wc_error * {
		*ret = type_at(m, m->module.FindGlobalVariables(m->session->target, name, SAME_NAME_MAX),
			       address);
		return nullptr;
	});
}

/* In @block, and in those inside of it. */
static const struct lldb_type *static_in(struct lldb_module *m, lldb::SBBlock block, uint64_t address)
{
	const struct lldb_type *type =
		type_at(m, block.GetVariables(m->session->target, false, false, true), address);
	lldb::SBBlock inner = block.GetFirstChild();

	while (!type && inner.IsValid()) {
		type = static_in(m, inner, address);
		inner = inner.GetSibling();
	}
	return type;
}

struct wc_error *lldb_module_static(struct lldb_module *m, uint64_t function, uint64_t address,
				    const struct lldb_type **ret)
{
	return lldb_guarded([&]() -> struct wc_error * {
		lldb::SBSymbolContext at = m->module.ResolveSymbolContextForAddress(
			m->module.ResolveFileAddress(function), lldb::eSymbolContextFunction);
		lldb::SBFunction of = at.GetFunction();

		*ret = of.IsValid() ? static_in(m, of.GetBlock(), address) : nullptr;
		return nullptr;
	});
}
