// signature - reads debug information. A parameter is taken for that of the source that a record of the compiler says it
// is, and for none otherwise.
#include "calltrace/pass/signature.h"

#include <cstdlib>
#include <cstring>
#include <string>

#include <llvm/BinaryFormat/Dwarf.h>
#include <llvm/IR/DebugInfo.h>
#include <llvm/IR/DebugInfoMetadata.h>
#include <llvm/IR/Function.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/Module.h>

#include "watchctl/trace/calls/signature_text.h"

namespace
{

// Types

// Names of one line.
std::string clean(llvm::StringRef name)
{
	std::string text = name.str();

	for (auto &c : text)
		if (c == '\n' || c == '\0')
			c = ' ';
	return text;
}

const llvm::DIType *base_of(const llvm::DIDerivedType *t)
{
	return t->getBaseType();
}

// How the source spells it.
std::string name_of(const llvm::DIType *t, int depth = 0)
{
	if (!t)
		return "void";
	if (depth > 8)
		return "...";
	if (!t->getName().empty()) {
		const bool is_tag = t->getTag() == llvm::dwarf::DW_TAG_structure_type ||
				    t->getTag() == llvm::dwarf::DW_TAG_union_type ||
				    t->getTag() == llvm::dwarf::DW_TAG_enumeration_type;
		const bool is_c = is_tag && llvm::cast<llvm::DICompositeType>(t)->getIdentifier().empty();
		const char *word = !is_c					       ? ""
				   : t->getTag() == llvm::dwarf::DW_TAG_structure_type ? "struct "
				   : t->getTag() == llvm::dwarf::DW_TAG_union_type     ? "union "
										       : "enum ";

		return word + clean(t->getName());
	}
	if (const auto *d = llvm::dyn_cast<llvm::DIDerivedType>(t)) {
		const std::string of = name_of(base_of(d), depth + 1);

		switch (d->getTag()) {
		case llvm::dwarf::DW_TAG_pointer_type:
			return of + (of.back() == '*' ? "*" : " *");
		case llvm::dwarf::DW_TAG_reference_type:
			return of + " &";
		case llvm::dwarf::DW_TAG_rvalue_reference_type:
			return of + " &&";
		case llvm::dwarf::DW_TAG_const_type:
			return base_of(d) && llvm::isa<llvm::DIDerivedType>(base_of(d)) &&
					       base_of(d)->getName().empty()
				       ? of + " const"
				       : "const " + of;
		case llvm::dwarf::DW_TAG_volatile_type:
			return "volatile " + of;
		default:
			return of;
		}
	}
	return llvm::isa<llvm::DISubroutineType>(t) ? "function" : "?";
}

// Without what changes neither size nor meaning.
const llvm::DIType *bare(const llvm::DIType *t)
{
	for (int i = 0; i < 64; i++) {
		const auto *d = llvm::dyn_cast_or_null<llvm::DIDerivedType>(t);

		if (!d)
			return t;
		switch (d->getTag()) {
		case llvm::dwarf::DW_TAG_typedef:
		case llvm::dwarf::DW_TAG_const_type:
		case llvm::dwarf::DW_TAG_volatile_type:
		case llvm::dwarf::DW_TAG_restrict_type:
		case llvm::dwarf::DW_TAG_atomic_type:
			t = base_of(d);
			break;
		default:
			return t;
		}
	}
	return nullptr;
}

bool is_pointer(const llvm::DIType *t)
{
	t = bare(t);
	if (!t)
		return false;
	return t->getTag() == llvm::dwarf::DW_TAG_pointer_type ||
	       t->getTag() == llvm::dwarf::DW_TAG_reference_type ||
	       t->getTag() == llvm::dwarf::DW_TAG_rvalue_reference_type;
}

// An enumeration: its own size, or that of what is below it.
bool is_signed(const llvm::DIType *t)
{
	const auto *b = llvm::dyn_cast_or_null<llvm::DIBasicType>(bare(t));

	return !b || b->getEncoding() == llvm::dwarf::DW_ATE_signed ||
	       b->getEncoding() == llvm::dwarf::DW_ATE_signed_char;
}

signature_kind kind_of_basic(const llvm::DIBasicType *t)
{
	switch (t->getEncoding()) {
	case llvm::dwarf::DW_ATE_boolean:
		return SIGNATURE_BOOL;
	case llvm::dwarf::DW_ATE_signed_char:
		return SIGNATURE_CHAR;
	case llvm::dwarf::DW_ATE_signed:
		return SIGNATURE_SIGNED;
	case llvm::dwarf::DW_ATE_unsigned:
	case llvm::dwarf::DW_ATE_unsigned_char:
	case llvm::dwarf::DW_ATE_UTF:
		return SIGNATURE_UNSIGNED;
	case llvm::dwarf::DW_ATE_float:
		return SIGNATURE_FLOAT;
	default:
		return SIGNATURE_OTHER;
	}
}

signature_kind kind_of(const llvm::DIType *t)
{
	const auto *b = bare(t);

	if (!b)
		return SIGNATURE_VOID;
	if (const auto *basic = llvm::dyn_cast<llvm::DIBasicType>(b))
		return kind_of_basic(basic);
	if (is_pointer(b))
		return SIGNATURE_POINTER;
	if (llvm::isa<llvm::DISubroutineType>(b))
		return SIGNATURE_CODE;
	if (b->getTag() == llvm::dwarf::DW_TAG_enumeration_type)
		return is_signed(llvm::cast<llvm::DICompositeType>(b)->getBaseType()) ? SIGNATURE_SIGNED_ENUM
										      : SIGNATURE_ENUM;
	return SIGNATURE_OTHER;
}

void put_enumerators(std::string &text, const llvm::DIType *t)
{
	int n = 0;

	for (const auto *element : llvm::cast<llvm::DICompositeType>(bare(t))->getElements()) {
		const auto *e = llvm::dyn_cast_or_null<llvm::DIEnumerator>(element);

		if (e && n++ < SIGNATURE_ENUMERATORS_MAX && e->getValue().getSignificantBits() <= 64)
			text += SIGNATURE_ENUMERATOR +
				std::to_string(e->isUnsigned()
						       ? static_cast<int64_t>(e->getValue().getZExtValue())
						       : e->getValue().getSExtValue()) +
				" " + clean(e->getName()) + "\n";
	}
	text += std::string(1, SIGNATURE_END) + "\n";
}

void put_type(std::string &text, const llvm::DIType *t, int depth)
{
	const auto *b = bare(t);
	const auto kind = depth > SIGNATURE_DEPTH_MAX ? SIGNATURE_OTHER : kind_of(t);
	const auto size = kind == SIGNATURE_POINTER ? 8 : b ? b->getSizeInBits() / 8 : 0;

	text += static_cast<char>(kind) + std::to_string(size) + " " + name_of(t) + "\n";
	if (kind == SIGNATURE_ENUM || kind == SIGNATURE_SIGNED_ENUM)
		put_enumerators(text, t);
	else if (kind == SIGNATURE_POINTER)
		put_type(text, base_of(llvm::cast<llvm::DIDerivedType>(b)), depth + 1);
}

const llvm::DIType *target_of(const llvm::DIType *t)
{
	return is_pointer(t) ? base_of(llvm::cast<llvm::DIDerivedType>(bare(t))) : nullptr;
}

signature_pointee pointee_of(const llvm::DIType *t)
{
	const auto *to = bare(target_of(t));
	const uint64_t size = to ? to->getSizeInBits() / 8 : 0;
	signature_pointee ret{};

	ret.size = static_cast<unsigned int>(size < UINT32_MAX ? size : UINT32_MAX);
	ret.is_char = kind_of(to) == SIGNATURE_CHAR && size == 1;
	return ret;
}

void put_line(std::string &text, signature_kind kind, unsigned int size, const std::string &name)
{
	text += static_cast<char>(kind) + std::to_string(size) + " " + name + "\n";
}

// The target of a pointer of which @bytes are recorded: as its type says, several of these, or bytes.
void put_target(std::string &text, const llvm::DIType *to, const signature_pointee &p)
{
	const auto kind = kind_of(to);
	const bool has_elements = p.size && p.bytes % p.size == 0 && kind != SIGNATURE_OTHER &&
				  !(kind == SIGNATURE_UNSIGNED && p.size == 1);

	if (p.bytes == p.size) {
		put_type(text, to, 1);
	} else if (has_elements) {
		put_line(text, SIGNATURE_ARRAY, p.bytes,
			 name_of(to) + "[" + std::to_string(p.bytes / p.size) + "]");
		put_type(text, to, 2);
	} else {
		put_line(text, SIGNATURE_OTHER, p.bytes, name_of(to));
	}
}

// A parameter or result.
void put_value_type(std::string &text, const llvm::DIType *t, const signature_pointee &p)
{
	if (!p.bytes) {
		put_type(text, t, 0);
		return;
	}
	put_line(text, p.is_string ? SIGNATURE_STRING : SIGNATURE_POINTER, 8, name_of(t));
	if (p.is_string)
		put_type(text, target_of(t), 1);
	else
		put_target(text, target_of(t), p);
}

// Values

// The bytes of a value of this type in a register; 0: it is in none, or in several.
unsigned int register_bytes(llvm::Type *t)
{
	if (t->isIntegerTy() && t->getIntegerBitWidth() <= 64)
		return (t->getIntegerBitWidth() + 7) / 8;
	return t->isPointerTy() ? 8 : t->isFloatTy() ? 4 : t->isDoubleTy() ? 8 : 0;
}

bool fits(llvm::Type *t, const llvm::DIType *type)
{
	const auto kind = kind_of(type);
	const auto *b = bare(type);
	const unsigned int have = register_bytes(t);
	const bool is_float = t->isFloatTy() || t->isDoubleTy();

	if (!have || !b || kind == SIGNATURE_OTHER || kind == SIGNATURE_CODE || kind == SIGNATURE_VOID)
		return false;
	if (kind == SIGNATURE_POINTER)
		return t->isPointerTy() || (t->isIntegerTy() && have == 8);
	return !t->isPointerTy() && is_float == (kind == SIGNATURE_FLOAT) && have >= b->getSizeInBits() / 8 &&
	       (!is_float || have == b->getSizeInBits() / 8);
}

// Which parameter a value is, by the compiler's records in the block with which the function begins.
struct Parameters {
	struct signature *s;
	const llvm::Function *f;
	const llvm::DITypeRefArray types;
	bool is_seen[SIGNATURE_PARAMS_MAX] = {};
	bool is_in_loop = false; // to which the first block leads

	void name(const llvm::DILocalVariable *v)
	{
		const unsigned int i = v->getArg() - 1;

		if (v->getArg() && i < s->nparams && !s->name[i])
			s->name[i] = strdup(clean(v->getName()).c_str());
	}

	void take(const llvm::DILocalVariable *v, const llvm::DILocation *at, const llvm::DIExpression *e,
		  llvm::Value *value)
	{
		const unsigned int i = v->getArg() - 1;

		if (!v->getArg() || i >= s->nparams || (at && at->getInlinedAt()) || !value)
			return;
		name(v);
		// A later one may be of another parameter, which was assigned to it.
		if (is_seen[i])
			return;
		is_seen[i] = true;
		auto *phi = llvm::dyn_cast<llvm::PHINode>(value);

		if (is_in_loop && (!phi || phi->getBasicBlockIndex(&f->getEntryBlock()) < 0))
			return;
		if (is_in_loop)
			value = phi->getIncomingValueForBlock(&f->getEntryBlock());
		// A truth value is one bit here, and a byte in the source.
		const bool is_whole = !e->getNumElements() || value->getType()->isIntegerTy(1);

		// A constant: all that call it pass the same.
		if ((!llvm::isa<llvm::Argument>(value) && !llvm::isa<llvm::ConstantInt>(value) &&
		     !llvm::isa<llvm::ConstantFP>(value)) ||
		    !is_whole)
			value = stored(value);
		if (value && fits(value->getType(), types[i + 1]))
			s->param[i] = llvm::wrap(value);
	}

	// That which is stored into the variable @value when the function begins.
	static llvm::Value *stored(llvm::Value *value)
	{
		llvm::Argument *found = nullptr;

		if (!llvm::isa<llvm::AllocaInst>(value))
			return nullptr;
		for (auto *user : value->users()) {
			auto *store = llvm::dyn_cast<llvm::StoreInst>(user);

			if (!store || store->getPointerOperand() != value)
				continue;
			auto *what = store->getValueOperand();
			auto *wider = llvm::dyn_cast<llvm::ZExtInst>(what);

			if (wider && wider->getSrcTy()->isIntegerTy(1))
				what = wider->getOperand(0);
			if (auto *argument = llvm::dyn_cast<llvm::Argument>(what))
				found = argument;
		}
		return found;
	}
};

void find_in_block(Parameters &p, llvm::BasicBlock &block)
{
	for (auto &i : block) {
#if LLVM_VERSION_MAJOR >= 19
		for (llvm::DbgVariableRecord &r : llvm::filterDbgVars(i.getDbgRecordRange()))
			if (r.getNumVariableLocationOps() == 1)
				p.take(r.getVariable(), r.getDebugLoc().get(), r.getExpression(),
				       r.getVariableLocationOp(0));
#endif
		if (auto *d = llvm::dyn_cast<llvm::DbgVariableIntrinsic>(&i))
			if (d->getNumVariableLocationOps() == 1)
				p.take(d->getVariable(), d->getDebugLoc().get(), d->getExpression(),
				       d->getVariableLocationOp(0));
	}
}

void find_parameters(llvm::Function &f, const llvm::DISubprogram *sp, const llvm::DITypeRefArray &types,
		     struct signature *s)
{
	Parameters p{ s, &f, types };

	find_in_block(p, f.getEntryBlock());
	// Of a recursion that has become a loop, it is the loop that knows them.
	p.is_in_loop = true;
	if (auto *loop = f.getEntryBlock().getSingleSuccessor())
		find_in_block(p, *loop);
	for (const auto *node : sp->getRetainedNodes())
		if (const auto *v = llvm::dyn_cast_or_null<llvm::DILocalVariable>(node))
			p.name(v);
}

} // namespace

extern "C" int signature_read(LLVMValueRef function, struct signature *ret)
{
	auto &f = *llvm::unwrap<llvm::Function>(function);
	const auto *sp = f.getSubprogram();

	*ret = {};
	if (!sp || !sp->getType() || !sp->getType()->getTypeArray() || !sp->getType()->getTypeArray().size())
		return 0;
	const auto types = sp->getType()->getTypeArray();
	const unsigned int n = types.size() - 1;

	// A last one of nothing is that of "...".
	ret->nparams = n < SIGNATURE_PARAMS_MAX ? n : SIGNATURE_PARAMS_MAX;
	if (ret->nparams && ret->nparams == n && !types[n])
		ret->nparams--;
	find_parameters(f, sp, types, ret);
	for (unsigned int i = 0; i < ret->nparams; i++) {
		if (!ret->name[i])
			ret->name[i] = strdup("");
		if (!ret->name[i])
			return 0;
		ret->is_pointer[i] = is_pointer(types[i + 1]);
		ret->to[i] = pointee_of(types[i + 1]);
	}
	ret->has_result = types[0] && fits(f.getReturnType(), types[0]);
	ret->result_is_pointer = is_pointer(types[0]);
	ret->result_to = pointee_of(types[0]);
	return 1;
}

extern "C" int signature_write(LLVMValueRef function, struct signature *s)
{
	const auto types = llvm::unwrap<llvm::Function>(function)->getSubprogram()->getType()->getTypeArray();
	std::string text;

	put_value_type(text, types[0], s->result_to);
	for (unsigned int i = 0; i < s->nparams; i++) {
		text += std::string(1, SIGNATURE_PARAM) + s->name[i] + "\n";
		put_value_type(text, types[i + 1], s->to[i]);
	}
	s->text = strdup(text.c_str());
	return s->text != nullptr;
}

extern "C" void signature_deinit(struct signature *s)
{
	for (unsigned int i = 0; i < s->nparams; i++)
		std::free(s->name[i]);
	std::free(s->text);
	*s = {};
}
