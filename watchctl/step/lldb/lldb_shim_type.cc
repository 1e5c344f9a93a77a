/* LLDB's types as those of a log: what a type is, and what it consists of. */
#include "watchctl/step/lldb/lldb_shim_objects.hh"

#include <cstring>

using lldb::SBType;
using lldb::SBTypeMember;

struct lldb_type *lldb_module_type(struct lldb_module *m, SBType type, bool is_c)
{
	const char *name = type.IsValid() ? type.GetName() : nullptr;

	if (!type.IsValid())
		return nullptr;
	std::vector<struct lldb_type *> &same = m->types[name ? name : ""];

	for (struct lldb_type *t : same)
		if (t->type == type)
			return t;
	m->session->types.emplace_back();
	struct lldb_type *t = &m->session->types.back();

	t->session = m->session;
	t->module = m;
	t->type = type;
	t->is_c = is_c;
	same.push_back(t);
	return t;
}

static enum type_kind basic_kind(lldb::BasicType basic)
{
	switch (basic) {
	case lldb::eBasicTypeVoid:
		return TYPE_VOID;
	case lldb::eBasicTypeBool:
		return TYPE_BOOL;
	case lldb::eBasicTypeSignedChar:
	case lldb::eBasicTypeWChar:
	case lldb::eBasicTypeSignedWChar:
	case lldb::eBasicTypeShort:
	case lldb::eBasicTypeInt:
	case lldb::eBasicTypeLong:
	case lldb::eBasicTypeLongLong:
	case lldb::eBasicTypeInt128:
		return TYPE_SIGNED;
	case lldb::eBasicTypeUnsignedChar:
	case lldb::eBasicTypeUnsignedWChar:
	case lldb::eBasicTypeChar16:
	case lldb::eBasicTypeChar32:
	case lldb::eBasicTypeUnsignedShort:
	case lldb::eBasicTypeUnsignedInt:
	case lldb::eBasicTypeUnsignedLong:
	case lldb::eBasicTypeUnsignedLongLong:
	case lldb::eBasicTypeUnsignedInt128:
		return TYPE_UNSIGNED;
	case lldb::eBasicTypeHalf:
	case lldb::eBasicTypeFloat:
	case lldb::eBasicTypeDouble:
	case lldb::eBasicTypeLongDouble:
		return TYPE_FLOAT;
	default:
		return TYPE_UNKNOWN;
	}
}

/* By name: LLDB numbers char as signed char, and has no number for C++20's char8_t before 16. */
static bool is_character(SBType type)
{
	SBType plain = type.GetCanonicalType().GetUnqualifiedType();
	const char *name = plain.GetName();

	return name && plain.GetByteSize() == 1 && (!strcmp(name, "char") || !strcmp(name, "char8_t"));
}

static void fill_basic(struct lldb_type *t, SBType canonical)
{
	t->info.kind = is_character(canonical) ? TYPE_CHAR
					       : basic_kind(canonical.GetUnqualifiedType().GetBasicType());
}

/* Not all versions number complex types, but their sizes differ. */
static void fill_complex(struct lldb_type *t)
{
	lldb::BasicType part = t->info.size == 8    ? lldb::eBasicTypeFloat
			       : t->info.size == 16 ? lldb::eBasicTypeDouble
						    : lldb::eBasicTypeLongDouble;

	t->info.kind = TYPE_ARRAY;
	t->info.is_complex = true;
	t->info.target = lldb_module_type(t->module, t->module->module.GetBasicType(part), t->is_c);
}

static void fill_pointer(struct lldb_type *t, SBType canonical)
{
	SBType to = t->type.IsTypedefType() ? canonical.GetPointeeType() : t->type.GetPointeeType();

	if (!to.IsValid())
		to = canonical.IsReferenceType() ? canonical.GetDereferencedType()
						 : canonical.GetPointeeType();
	t->info.kind = !canonical.IsReferenceType() && is_character(to) ? TYPE_STRING : TYPE_POINTER;
	if (to.IsValid() && to.GetCanonicalType().GetUnqualifiedType().GetBasicType() != lldb::eBasicTypeVoid)
		t->info.target = lldb_module_type(t->module, to, t->is_c);
}

static void fill_enum(struct lldb_type *t, SBType canonical)
{
	lldb::SBTypeEnumMemberList list = canonical.GetEnumMembers();
	SBType integer = canonical.GetEnumerationIntegerType();

	t->info.kind = TYPE_ENUM;
	/* LLDB before 15 reports no integer type: a negative enumerator shows the sign as well. */
	t->info.is_signed =
		integer.IsValid() && basic_kind(integer.GetCanonicalType().GetBasicType()) == TYPE_SIGNED;
	for (uint32_t k = 0; k < list.GetSize(); k++) {
		lldb::SBTypeEnumMember member = list.GetTypeEnumMemberAtIndex(k);
		const char *name = lldb_session_keep(t->session, member.GetName());

		t->enumerators.push_back({ const_cast<char *>(name ? name : ""), member.GetValueAsSigned() });
		t->info.is_signed |= !integer.IsValid() && member.GetValueAsSigned() < 0;
	}
	t->info.nenumerators = (uint32_t)t->enumerators.size();
	t->info.enumerator = t->enumerators.data();
}

static void add_member(struct lldb_type *t, SBTypeMember member, bool is_base)
{
	SBType type = member.GetType();
	uint64_t bits = member.GetOffsetInBits(), storage = type.GetByteSize() * 8;
	struct lldb_member m = {};
	const char *name = is_base ? "" : member.GetName();

	m.name = lldb_session_keep(t->session, name ? name : "");
	m.type = lldb_module_type(t->module, type, t->is_c);
	m.offset = (uint32_t)(bits / 8);
	m.is_base = is_base;
	if (member.IsBitfield()) {
		m.bit_size = (uint8_t)member.GetBitfieldSizeInBits();
		/* From the unit of its type in which it lies; packed ones may cross that. */
		if (storage && bits % storage + m.bit_size <= storage)
			m.offset = (uint32_t)(bits / storage * (storage / 8));
		m.bit_offset = (uint8_t)(bits - (uint64_t)m.offset * 8);
	}
	if (m.type)
		t->members.push_back(m);
}

/* Whether a base class is a virtual one, whose place each object has by itself. */
static bool is_virtual_base(SBType type, const char *name)
{
	for (uint32_t i = 0; i < type.GetNumberOfVirtualBaseClasses(); i++) {
		const char *other = type.GetVirtualBaseClassAtIndex(i).GetName();

		if (name && other && !strcmp(name, other))
			return true;
	}
	return false;
}

static void fill_record(struct lldb_type *t, SBType canonical)
{
	t->info.kind = canonical.GetTypeClass() == lldb::eTypeClassUnion ? TYPE_UNION : TYPE_STRUCT;
	/* Asking for the size completes the type, if it can be. */
	t->info.is_incomplete =
		!canonical.IsTypeComplete() || (!canonical.GetByteSize() && !canonical.GetNumberOfFields());
	for (uint32_t i = 0; i < canonical.GetNumberOfDirectBaseClasses(); i++) {
		SBTypeMember base = canonical.GetDirectBaseClassAtIndex(i);

		if (!is_virtual_base(canonical, base.GetName()) && base.GetType().GetByteSize())
			add_member(t, base, true);
	}
	for (uint32_t i = 0; i < canonical.GetNumberOfFields(); i++)
		add_member(t, canonical.GetFieldAtIndex(i), false);
	t->info.nmembers = (uint32_t)t->members.size();
	t->info.member = t->members.data();
}

static void fill_array(struct lldb_type *t, SBType element, bool is_vector)
{
	t->info.kind = TYPE_ARRAY;
	t->info.is_vector = is_vector;
	t->info.target = lldb_module_type(t->module, element, t->is_c);
}

static void fill(struct lldb_type *t)
{
	SBType canonical = t->type.GetCanonicalType();

	t->info.size = (uint32_t)canonical.GetByteSize();
	switch (canonical.GetTypeClass()) {
	case lldb::eTypeClassBuiltin:
		fill_basic(t, canonical);
		break;
	case lldb::eTypeClassComplexFloat:
		fill_complex(t);
		break;
	case lldb::eTypeClassPointer:
	case lldb::eTypeClassReference:
		fill_pointer(t, canonical);
		break;
	case lldb::eTypeClassEnumeration:
		fill_enum(t, canonical);
		break;
	case lldb::eTypeClassStruct:
	case lldb::eTypeClassClass:
	case lldb::eTypeClassUnion:
		fill_record(t, canonical);
		break;
	case lldb::eTypeClassArray:
		fill_array(t, canonical.GetArrayElementType(), false);
		break;
	case lldb::eTypeClassVector:
		fill_array(t, canonical.GetVectorElementType(), true);
		break;
	case lldb::eTypeClassFunction:
		t->info.kind = TYPE_CODE;
		t->info.size = 0;
		break;
	default:
		break;
	}
	if (t->info.kind == TYPE_VOID)
		t->info.size = 0;
}

/* "struct", "union", "enum", for a type that is one and has a name; else NULL. */
static const char *keyword_of(SBType type)
{
	const char *name = type.GetName();

	if (!name || name[0] == '(')
		return nullptr;
	switch (type.GetTypeClass()) {
	case lldb::eTypeClassStruct:
	case lldb::eTypeClassClass:
		return "struct ";
	case lldb::eTypeClassUnion:
		return "union ";
	case lldb::eTypeClassEnumeration:
		return "enum ";
	default:
		return nullptr;
	}
}

/* LLDB says "const node *" where the source says "const struct node *". */
static std::string c_name(SBType type, std::string name)
{
	const char *keyword, *tag;
	size_t at;

	for (;;) {
		if (type.IsTypedefType())
			return name;
		if (type.IsPointerType())
			type = type.GetPointeeType();
		else if (type.IsArrayType())
			type = type.GetArrayElementType();
		else
			break;
	}
	type = type.GetUnqualifiedType();
	keyword = keyword_of(type);
	tag = type.GetName();
	at = keyword ? name.find(tag) : std::string::npos;
	return at == std::string::npos ? name : name.insert(at, keyword);
}

static void fill_name(struct lldb_type *t)
{
	const char *name = t->type.GetDisplayTypeName();

	if (name && t->is_c)
		t->info.name = lldb_session_keep(t->session, c_name(t->type, name).c_str());
	else
		t->info.name = lldb_session_keep(t->session, name);
}

const struct lldb_type_info *lldb_type_info(const struct lldb_type *type)
{
	/* A handle is made const for callers; what it caches is ours. */
	auto *t = const_cast<struct lldb_type *>(type);

	if (!t->done) {
		t->done = true;
		try {
			fill_name(t);
			fill(t);
		} catch (...) {
			t->info.kind = TYPE_UNKNOWN;
			t->info.nmembers = t->info.nenumerators = 0;
		}
	}
	return &t->info;
}
