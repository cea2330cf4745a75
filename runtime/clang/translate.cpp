#include "runtime/clang/translate.h"

#include <clang/Basic/DiagnosticIDs.h>
#include <clang/Basic/DiagnosticOptions.h>
#include <clang/CodeGen/CodeGenAction.h>
#include <clang/Driver/Compilation.h>
#include <clang/Driver/Driver.h>
#include <clang/Driver/Job.h>
#include <clang/Frontend/CompilerInstance.h>
#include <clang/Frontend/CompilerInvocation.h>
#include <clang/Frontend/FrontendOptions.h>
#include <clang/Frontend/TextDiagnosticPrinter.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/Support/MemoryBuffer.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/VirtualFileSystem.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/TargetParser/Host.h>

#include <algorithm>
#include <iterator>
#include <memory>

namespace kiln::clang_side {
namespace {

constexpr const char* kDeviceFlag = "--offload-arch=";

// Prints warnings and errors, and counts the spills that the register allocator's remarks tell of.
class Listener : public clang::TextDiagnosticPrinter {
 public:
  using clang::TextDiagnosticPrinter::TextDiagnosticPrinter;

  void HandleDiagnostic(clang::DiagnosticsEngine::Level level,
                        const clang::Diagnostic& info) override {
    if (level != clang::DiagnosticsEngine::Remark) {
      clang::TextDiagnosticPrinter::HandleDiagnostic(level, info);
      return;
    }
    llvm::SmallString<256> text;
    info.FormatDiagnostic(text);
    count(text);
  }

  long long spills() const { return spills_; }

 private:
  // "6 spills 1.1e+01 total spills cost 6 reloads 9.0e+00 total reloads cost generated in
  // function": loops have remarks of their own, which the function's total already holds.
  void count(llvm::StringRef text) {
    if (!text.contains("generated in function")) return;
    const auto words = text.split(" spills ");
    if (words.second.empty()) return;
    // What stands before " spills " may begin with other counts; npos + 1 is 0.
    const llvm::StringRef number = words.first.substr(words.first.rfind(' ') + 1);
    if (long long n = 0; !number.getAsInteger(10, n)) spills_ += n;
  }

  long long spills_ = 0;
};

void initialise_targets() {
  static const bool done = [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    LLVMInitializeX86AsmParser();
    LLVMInitializeAArch64TargetInfo();
    LLVMInitializeAArch64Target();
    LLVMInitializeAArch64TargetMC();
    LLVMInitializeAArch64AsmPrinter();
    LLVMInitializeAArch64AsmParser();
    LLVMInitializeAMDGPUTargetInfo();
    LLVMInitializeAMDGPUTarget();
    LLVMInitializeAMDGPUTargetMC();
    LLVMInitializeAMDGPUAsmPrinter();
    LLVMInitializeAMDGPUAsmParser();
    return true;
  }();
  static_cast<void>(done);
}

// What a host kernel is compiled with, after the source's own flags, so that these hold. No unwind
// tables: nothing throws through a kernel, and they are a third of a small image.
constexpr const char* kHostFlags[] = {
    "-fPIC", "-nostdinc", "-nostdinc++",        "-Qn",
    "-x",    "c++",       "-fno-unwind-tables", "-fno-asynchronous-unwind-tables"};
// And what a GPU's kernel is compiled with: the device's side alone, as a bare object, without the
// vendor's headers and libraries. The compiler's default code object version needs ROCm 6.3.
constexpr const char* kDeviceFlags[] = {"-nostdinc",
                                        "-nostdinc++",
                                        "-Qn",
                                        "-x",
                                        "hip",
                                        "--cuda-device-only",
                                        "--no-gpu-bundle-output",
                                        "-nogpuinc",
                                        "-nogpulib",
                                        "-mcode-object-version=5"};

std::vector<std::string> command_line(const std::string& file,
                                      const std::vector<std::string>& flags, Emit emit) {
  std::vector<std::string> line{"clang++", "--no-default-config"};
  line.insert(line.end(), flags.begin(), flags.end());
  const bool device = for_device(flags);
  if (device)
    line.insert(line.end(), std::begin(kDeviceFlags), std::end(kDeviceFlags));
  else
    line.insert(line.end(), std::begin(kHostFlags), std::end(kHostFlags));
  // A device's driver would plan a link after `-c`; what is emitted is decided by the action.
  if (emit == Emit::object && !device)
    for (const char* flag : {"-fstack-size-section", "-Rpass-missed=regalloc", "-c"})
      line.emplace_back(flag);
  else
    line.emplace_back("-S");
  line.push_back(file);
  return line;
}

std::vector<const char*> pointers(const std::vector<std::string>& words) {
  std::vector<const char*> out;
  out.reserve(words.size());
  for (const auto& word : words) out.push_back(word.c_str());
  return out;
}

// Process-wide options that the driver adds by itself, both needless here: the module says its
// version too, and every function of a kernel's source is internal as it stands.
bool driver_adds_for_devices(llvm::StringRef argument) {
  return argument.starts_with("--amdhsa-code-object-version=") ||
         argument == "-amdgpu-internalize-symbols";
}

// The driver's arguments for the one compile step, or the reason there is none.
std::string frontend_arguments(clang::driver::Compilation* compilation,
                               std::vector<std::string>& arguments) {
  if (compilation == nullptr) return "the flags were not understood";
  const auto& jobs = compilation->getJobs();
  if (jobs.size() != 1)
    return std::string("the flags ask for ")
        .append(std::to_string(jobs.size()))
        .append(" steps, not one");
  for (const llvm::StringRef argument : jobs.begin()->getArguments()) {
    if (driver_adds_for_devices(argument) && arguments.back() == "-mllvm") {
      arguments.pop_back();
      continue;
    }
    // It leaves every AST and module to the end of the process: a leak where the process lives on.
    if (argument != "-disable-free") arguments.emplace_back(argument);
  }
  if (arguments.empty() || arguments.front() != "-cc1") return "the flags ask for no compile step";
  return {};
}

// What would reach beyond this one compile: options of the whole process, and foreign code.
std::string forbidden(const clang::FrontendOptions& options) {
  if (!options.LLVMArgs.empty())
    return "flag -mllvm " + options.LLVMArgs.front() + ": it would change every later compile";
  if (!options.Plugins.empty()) return "flag -load " + options.Plugins.front() + ": no plugins";
  return {};
}

using Files = llvm::IntrusiveRefCntPtr<llvm::vfs::InMemoryFileSystem>;

Files only_file(const std::string& path, const std::string& text) {
  auto files = llvm::makeIntrusiveRefCnt<llvm::vfs::InMemoryFileSystem>();
  files->setCurrentWorkingDirectory("/kiln");
  files->addFile(path, 0, llvm::MemoryBuffer::getMemBuffer(text, path));
  return files;
}

// From a command line as a person would write it to what the compiler proper is asked to do. Null,
// and `error` set, when the flags make no sense.
std::shared_ptr<clang::CompilerInvocation> invocation_for(const std::vector<std::string>& line,
                                                          const Files& files,
                                                          clang::DiagnosticsEngine& diagnostics,
                                                          std::string& error) {
  clang::driver::Driver driver("/kiln/clang++", llvm::sys::getDefaultTargetTriple(), diagnostics,
                               "kiln", files);
  driver.setCheckInputsExist(false);
  const std::unique_ptr<clang::driver::Compilation> compilation(
      driver.BuildCompilation(pointers(line)));
  std::vector<std::string> arguments;
  error = frontend_arguments(compilation.get(), arguments);
  if (!error.empty()) return nullptr;
  auto words = pointers(arguments);
  words.erase(words.begin());  // -cc1
  auto invocation = std::make_shared<clang::CompilerInvocation>();
  if (diagnostics.hasErrorOccurred() ||
      !clang::CompilerInvocation::CreateFromArgs(*invocation, words, diagnostics, "clang++")) {
    error = "the flags were not understood";
    return nullptr;
  }
  error = forbidden(invocation->getFrontendOpts());
  return error.empty() ? invocation : nullptr;
}

}  // namespace

bool for_device(const std::vector<std::string>& flags) {
  return std::any_of(flags.begin(), flags.end(),
                     [](const std::string& flag) { return flag.starts_with(kDeviceFlag); });
}

void translate(const std::string& text, const std::string& file_name,
               const std::vector<std::string>& flags, Emit emit, Translation& out) {
  initialise_targets();
  const std::string path = "/kiln/" + file_name;
  const Files files = only_file(path, text);
  llvm::raw_string_ostream log(out.log);
  clang::DiagnosticOptions options;
  Listener listener(log, options);
  clang::DiagnosticsEngine diagnostics(clang::DiagnosticIDs::create(), options, &listener,
                                       /*ShouldOwnClient=*/false);
  auto invocation = invocation_for(command_line(path, flags, emit), files, diagnostics, out.error);
  if (invocation == nullptr) return;

  llvm::LLVMContext context;
  clang::CompilerInstance compiler(std::move(invocation));
  compiler.setVirtualFileSystem(files);
  compiler.createDiagnostics(&listener, /*ShouldOwnClient=*/false);
  compiler.setVerboseOutputStream(llvm::nulls());  // "1 warning generated." would go to stderr
  compiler.setOutputStream(std::make_unique<llvm::raw_svector_ostream>(out.bytes));
  clang::EmitObjAction to_object(&context);
  clang::EmitAssemblyAction to_assembly(&context);
  clang::FrontendAction& action =
      emit == Emit::object ? static_cast<clang::FrontendAction&>(to_object) : to_assembly;
  if (!compiler.ExecuteAction(action) || compiler.getDiagnostics().hasErrorOccurred())
    out.error = "the source does not compile";
  out.spills = listener.spills();
}

}  // namespace kiln::clang_side
