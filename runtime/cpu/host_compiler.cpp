#include "runtime/cpu/host_compiler.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <xxhash.h>

#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <string_view>

#include "generator/render/code_key.h"
#include "runtime/clang_abi.h"
#include "runtime/cpu/clang_install_dir.h"
#include "runtime/cpu/compile_server.h"
#include "runtime/env.h"
#include "runtime/exit_gate.h"
#include "runtime/fault_handlers.h"
#include "runtime/log.h"
#include "runtime/memory_file.h"
#include "runtime/own_folder.h"
#include "runtime/quiet_lock.h"
#include "runtime/work_counts.h"
#include "runtime/worker_program.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

constexpr const char* kObjectName = "libkiln_clang.so";

struct Entry {
  KilnClangVersionFn version = nullptr;
  KilnClangCompileFn compile = nullptr;
  KilnClangFreeFn free = nullptr;
};

// One job's result, given back to the object that made it.
class Job {
 public:
  Job(const Entry& entry, const Source& source, KilnClangOutput output) : entry_(entry) {
    std::vector<const char*> flags;
    flags.reserve(source.flags.size());
    for (const auto& flag : source.flags) flags.push_back(flag.c_str());
    const KilnClangJob job{source.text.data(), source.text.size(), source.file_name.c_str(),
                           flags.data(),       flags.size(),       output};
    const ForkGate gate;  // a child would find LLVM's locks as this compile has them
    const FaultHandlers turn(FaultSide::compiler);
    count_work(Work::clang);
    entry_.compile(&job, &result_);
  }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;
  ~Job() { entry_.free(&result_); }

  const KilnClangResult& result() const { return result_; }

 private:
  const Entry& entry_;
  KilnClangResult result_{};
};

tl::unexpected<Error> compile_error(const Source& source, const KilnClangResult& result) {
  const std::string_view log = result.log;
  return fail(ErrorCode::compiler, fmt::format("{}: {}{}{}", source.file_name, result.error,
                                               log.empty() ? "" : "\n", log));
}

class HostCompiler : public Compiler {
 public:
  explicit HostCompiler(const Entry& entry) : entry_(entry), version_(entry.version()) {}

  Result<Binary> compile(const Source& source) override {
    const ExitGate gate;
    if (!gate.open()) return not_at_exit(source);
    const Job job(entry_, source, kKilnClangImage);
    std::call_once(compiled_, ExitGate::guard_opened_library);
    const auto& result = job.result();
    if (result.error != nullptr) return compile_error(source, result);
    Binary binary;
    const auto* bytes = reinterpret_cast<const std::byte*>(result.bytes);
    binary.image.assign(bytes, bytes + result.byte_count);
    binary.resources.code_bytes = result.code_bytes;
    binary.resources.stack_bytes = result.stack_bytes;
    binary.resources.spills = result.spills;
    binary.log = result.log;
    return binary;
  }

  Result<std::string> assembly(const Source& source) override {
    const ExitGate gate;
    if (!gate.open()) return not_at_exit(source);
    const Job job(entry_, source, kKilnClangAssembly);
    const auto& result = job.result();
    if (result.error != nullptr) return compile_error(source, result);
    return std::string(result.bytes, result.byte_count);
  }

  std::string version() const override { return version_; }

 private:
  Entry entry_;
  std::string version_;
  std::once_flag compiled_;
};

// The entry points of an opened object, or why it is not the compiler that this code speaks to.
std::string bind(void* handle, Entry& entry) {
  const auto abi = reinterpret_cast<KilnClangAbiFn>(::dlsym(handle, "kiln_clang_abi"));
  if (abi == nullptr) return "has no kiln_clang_abi";
  if (const int theirs = abi(); theirs != kKilnClangAbi)
    return fmt::format("speaks interface {}, this kiln speaks {}", theirs, int{kKilnClangAbi});
  entry.version = reinterpret_cast<KilnClangVersionFn>(::dlsym(handle, "kiln_clang_version"));
  entry.compile = reinterpret_cast<KilnClangCompileFn>(::dlsym(handle, "kiln_clang_compile"));
  entry.free = reinterpret_cast<KilnClangFreeFn>(::dlsym(handle, "kiln_clang_free"));
  if (entry.version == nullptr || entry.compile == nullptr || entry.free == nullptr)
    return fmt::format("lacks an entry point of interface {}", int{kKilnClangAbi});
  return {};
}

}  // namespace

std::vector<std::string> host_compiler_paths() {
  if (const char* chosen = env("KILN_CLANG"); chosen != nullptr && *chosen != '\0') return {chosen};
  std::vector<std::string> paths;
  if (const fs::path own = own_folder(); !own.empty()) {
    for (const fs::path& directory :
         {own, own / "kiln", own.parent_path() / "lib", own.parent_path() / "lib" / "kiln"})
      paths.push_back((directory / kObjectName).string());
  }
#ifdef KILN_HAS_LLVM
  paths.push_back((fs::path(clang_install_dir()) / kObjectName).string());
#endif
  paths.emplace_back(kObjectName);
  return paths;
}

Result<std::unique_ptr<Compiler>> open_host_compiler(const std::vector<std::string>& paths) {
  std::string tried;
  for (const auto& path : paths) {
    // Never closed: LLVM's own threads and handlers outlive any caller's interest.
    void* handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    Entry entry;
    const std::string refused = handle == nullptr ? ::dlerror() : bind(handle, entry);
    if (refused.empty()) {
      ExitGate::guard_opened_library();
      log::debug("compiler: {}", path);
      return std::make_unique<HostCompiler>(entry);
    }
    tried += fmt::format("\n  {}: {}", path, refused);
  }
  // dlopen() does not say whether the machine or the file is to blame.
  const Fd another(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const ErrorCode blamed = another.get() < 0 ? ErrorCode::device : ErrorCode::compiler;
  return fail(blamed, "no host compiler could be opened; tried" + tried);
}

namespace {

/// In a process of its own, and in this one where kiln-worker is not installed.
Result<std::unique_ptr<Compiler>> open_wherever_possible() {
  if (const auto worker = find_worker()) return open_compile_server(*worker, host_compiler_paths());
  return open_host_compiler(host_compiler_paths());
}

}  // namespace

Result<Compiler*> host_compiler() {
  static std::mutex mutex;
  // Only success is kept: a compiler installed or named later is found by the next call.
  static Compiler* kept = nullptr;
  const QuietLock lock(mutex);
  if (kept == nullptr) {
    auto opened = open_wherever_possible();
    if (!opened) {
#ifndef KILN_HAS_LLVM
      opened.error().message =
          "this build of kiln holds no host compiler (KILN_LLVM=OFF): " + opened.error().message;
#endif
      return tl::unexpected(opened.error());
    }
    kept = opened->release();
  }
  return kept;
}

tl::unexpected<Error> not_at_exit(const Source& source) {
  return fail(ErrorCode::compiler,
              fmt::format("{}: not compiled: the process is ending", source.file_name));
}

std::string binary_key(const Source& source, std::string_view compiler_version) {
  return binary_key(code_key(source), compiler_version);
}

std::string binary_key(std::string_view code_key, std::string_view compiler_version) {
  const std::string content = fmt::format("{} {}", code_key, compiler_version);
  const XXH128_hash_t hash = XXH3_128bits(content.data(), content.size());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

}  // namespace kiln
