// shim - what LLVM has no C interface for: being loaded as a plugin, and lists of constructors.
#include "calltrace/pass/inject.h"

#include <cstring>

#include <llvm/Demangle/Demangle.h>
#include <llvm/IR/CFG.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Passes/PassPlugin.h>
#include <llvm/Transforms/Utils/BasicBlockUtils.h>
#include <llvm/Transforms/Utils/EscapeEnumerator.h>
#include <llvm/Transforms/Utils/ModuleUtils.h>

namespace
{

// The first one that programs may use is 101.
constexpr int kPriority = 100;

struct InjectCalltrace : llvm::PassInfoMixin<InjectCalltrace> {
	llvm::PreservedAnalyses run(llvm::Module &m, llvm::ModuleAnalysisManager &)
	{
		return calltrace_inject_here(llvm::wrap(&m)) ? llvm::PreservedAnalyses::none()
							     : llvm::PreservedAnalyses::all();
	}
	static bool isRequired()
	{
		return true;
	}
};

struct MarkCalltrace : llvm::PassInfoMixin<MarkCalltrace> {
	llvm::PreservedAnalyses run(llvm::Module &m, llvm::ModuleAnalysisManager &)
	{
		return calltrace_mark_here(llvm::wrap(&m)) ? llvm::PreservedAnalyses::none()
							   : llvm::PreservedAnalyses::all();
	}
	static bool isRequired()
	{
		return true;
	}
};

void add_passes(llvm::PassBuilder &builder)
{
	builder.registerPipelineParsingCallback([](llvm::StringRef name, llvm::ModulePassManager &passes,
						   llvm::ArrayRef<llvm::PassBuilder::PipelineElement>) {
		if (name != "inject-calltrace")
			return false;
		passes.addPass(InjectCalltrace());
		return true;
	});
	builder.registerPipelineEarlySimplificationEPCallback(
		[](llvm::ModulePassManager &passes, llvm::OptimizationLevel) {
			passes.addPass(MarkCalltrace());
		});
	builder.registerOptimizerLastEPCallback([](llvm::ModulePassManager &passes, llvm::OptimizationLevel) {
		passes.addPass(InjectCalltrace());
	});
}

llvm::Constant *constant(LLVMValueRef key)
{
	return llvm::cast<llvm::Constant>(llvm::unwrap(key));
}

// _R..., or _ZN...17h0123456789abcdefE, which C++ could have, too, but has not.
bool is_of_rust(llvm::StringRef name)
{
	return name.substr(0, 2) == "_R" || (name.substr(0, 3) == "_ZN" && name.size() > 23 &&
					     name.back() == 'E' && name.substr(name.size() - 20, 3) == "17h");
}

} // namespace

extern "C" void calltrace_shim_constructor(LLVMModuleRef m, LLVMValueRef f, LLVMValueRef key)
{
	llvm::appendToGlobalCtors(*llvm::unwrap(m), llvm::unwrap<llvm::Function>(f), kPriority,
				  constant(key));
}

extern "C" void calltrace_shim_destructor(LLVMModuleRef m, LLVMValueRef f, LLVMValueRef key)
{
	llvm::appendToGlobalDtors(*llvm::unwrap(m), llvm::unwrap<llvm::Function>(f), kPriority,
				  constant(key));
}

extern "C" LLVMValueRef calltrace_shim_function(LLVMValueRef v)
{
	return llvm::wrap(llvm::dyn_cast<llvm::Function>(llvm::unwrap(v)->stripPointerCasts()));
}

extern "C" bool calltrace_shim_keep_call(LLVMValueRef call)
{
	auto *i = llvm::unwrap<llvm::CallInst>(call);

	if (i->isMustTailCall())
		return false;
	i->setTailCallKind(llvm::CallInst::TCK_NoTail);
	return true;
}

// The call that @block ends with, before it goes to another one; or nullptr.
static llvm::CallInst *last_call(llvm::BasicBlock *block)
{
	auto *branch = llvm::dyn_cast<llvm::BranchInst>(block->getTerminator());
	auto *last = branch && branch->isUnconditional() ? branch->getPrevNonDebugInstruction() : nullptr;
	auto *call = llvm::dyn_cast_or_null<llvm::CallInst>(last);

	return call && call->isTailCall() ? call : nullptr;
}

// Gives each of the calls that lead to nothing but this return one of its own.
static void split_return(llvm::ReturnInst *r)
{
	auto *block = r->getParent();
	const llvm::SmallVector<llvm::BasicBlock *, 8> before(llvm::pred_begin(block), llvm::pred_end(block));

	if (block->getFirstNonPHIOrDbg() != r)
		return;
	for (auto *b : before) {
		auto *call = last_call(b);
		auto *value = r->getReturnValue();
		auto *phi = llvm::dyn_cast_or_null<llvm::PHINode>(value);

		if (phi && phi->getParent() == block)
			value = phi->getIncomingValueForBlock(b);
		if (call && (!value || value == call))
			llvm::FoldReturnIntoUncondBranch(r, block, b);
	}
	if (block != &block->getParent()->getEntryBlock() && llvm::pred_empty(block))
		llvm::DeleteDeadBlock(block);
}

extern "C" void calltrace_shim_split_returns(LLVMValueRef f)
{
	llvm::SmallVector<llvm::ReturnInst *, 8> returns;

	for (auto &block : *llvm::unwrap<llvm::Function>(f))
		if (auto *r = llvm::dyn_cast<llvm::ReturnInst>(block.getTerminator()))
			returns.push_back(r);
	for (auto *r : returns)
		split_return(r);
}

extern "C" bool calltrace_shim_is_exact(LLVMValueRef f)
{
	const auto *function = llvm::unwrap<llvm::Function>(f);

	return function->isDSOLocal() && function->hasExactDefinition();
}

extern "C" void calltrace_shim_is_mark(LLVMValueRef f)
{
	auto *function = llvm::unwrap<llvm::Function>(f);

	function->setOnlyAccessesInaccessibleMemory();
	function->setDoesNotThrow();
	function->setWillReturn();
	function->addFnAttr(llvm::Attribute::NoMerge); // two of them would become one with variables
}

// That of a function which has one; or of the language, which C++ and Rust show by their names.
extern "C" LLVMValueRef calltrace_shim_personality(LLVMModuleRef m)
{
	auto *module = llvm::unwrap(m);
	bool is_rust = false, is_cxx = false;

	for (auto &f : *module) {
		if (f.hasPersonalityFn())
			return llvm::wrap(f.getPersonalityFn());
		is_rust = is_rust || is_of_rust(f.getName());
		is_cxx = is_cxx || f.getName().substr(0, 2) == "_Z";
	}
	auto *type = llvm::FunctionType::get(llvm::Type::getInt32Ty(module->getContext()), true);
	const char *name = is_rust  ? "rust_eh_personality"
			   : is_cxx ? "__gxx_personality_v0"
				    : "__gcc_personality_v0";

	return llvm::wrap(llvm::cast<llvm::Constant>(module->getOrInsertFunction(name, type).getCallee()));
}

extern "C" void calltrace_shim_each_exit(LLVMValueRef f, LLVMValueRef personality,
					 void (*fn)(void *ctx, LLVMBuilderRef b, LLVMValueRef before),
					 void *ctx)
{
	auto *function = llvm::unwrap<llvm::Function>(f);
	const bool had = function->hasPersonalityFn();

	if (!had && !function->doesNotThrow())
		function->setPersonalityFn(llvm::unwrap<llvm::Constant>(personality));
	llvm::EscapeEnumerator exits(*function, "calltrace.unwind");
	while (auto *b = exits.Next())
		fn(ctx, llvm::wrap(b), llvm::wrap(&*b->GetInsertPoint()));
}

extern "C" LLVMBasicBlockRef calltrace_shim_split(LLVMValueRef at)
{
	auto *instruction = llvm::unwrap<llvm::Instruction>(at);
	auto *before = instruction->getParent(), *rest = before->splitBasicBlock(instruction);

	before->getTerminator()->eraseFromParent();
	return llvm::wrap(rest);
}

extern "C" void calltrace_shim_forget_metadata(LLVMModuleRef m, const char *name)
{
	if (auto *list = llvm::unwrap(m)->getNamedMetadata(name))
		list->eraseFromParent();
}

extern "C" char *calltrace_shim_demangle(const char *linkage_name)
{
	return strdup(llvm::demangle(linkage_name).c_str());
}

extern "C" __attribute__((visibility("default"))) llvm::PassPluginLibraryInfo llvmGetPassPluginInfo()
{
	return { LLVM_PLUGIN_API_VERSION, "calltrace", WATCHCTL_VERSION, add_passes };
}
