// shim - what LLVM has no C interface for: being loaded as a plugin, and lists of constructors.
#include "calltrace/pass/inject.h"

#include <cstring>

#include <llvm/Demangle/Demangle.h>
#include <llvm/IR/Module.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Passes/PassPlugin.h>
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

void add_passes(llvm::PassBuilder &builder)
{
	builder.registerPipelineParsingCallback([](llvm::StringRef name, llvm::ModulePassManager &passes,
						   llvm::ArrayRef<llvm::PassBuilder::PipelineElement>) {
		if (name != "inject-calltrace")
			return false;
		passes.addPass(InjectCalltrace());
		return true;
	});
	builder.registerOptimizerLastEPCallback([](llvm::ModulePassManager &passes, llvm::OptimizationLevel) {
		passes.addPass(InjectCalltrace());
	});
}

llvm::Constant *constant(LLVMValueRef key)
{
	return llvm::cast<llvm::Constant>(llvm::unwrap(key));
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

extern "C" bool calltrace_shim_is_exact(LLVMValueRef f)
{
	const auto *function = llvm::unwrap<llvm::Function>(f);

	return function->isDSOLocal() && function->hasExactDefinition();
}

extern "C" char *calltrace_shim_demangle(const char *linkage_name)
{
	return strdup(llvm::demangle(linkage_name).c_str());
}

extern "C" __attribute__((visibility("default"))) llvm::PassPluginLibraryInfo llvmGetPassPluginInfo()
{
	return { LLVM_PLUGIN_API_VERSION, "calltrace", WATCHCTL_VERSION, add_passes };
}
