#include "runtime/cuda/nvrtc_compiler.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <mutex>
#include <optional>

#include "runtime/exit_gate.h"
#include "runtime/gpu/shared_library.h"
#include "runtime/left_behind.h"
#include "runtime/work_counts.h"

namespace kiln {
namespace {

using Program = struct OpaqueNvrtcProgram*;

/// NVRTC's functions that kiln calls, named as there.
struct Nvrtc {
  int (*nvrtcVersion)(int* major, int* minor);
  const char* (*nvrtcGetErrorString)(int);
  int (*nvrtcCreateProgram)(Program*, const char* source, const char* name, int headers,
                            const char* const*, const char* const*);
  int (*nvrtcDestroyProgram)(Program*);
  int (*nvrtcCompileProgram)(Program, int count, const char* const* options);
  int (*nvrtcGetProgramLogSize)(Program, std::size_t*);
  int (*nvrtcGetProgramLog)(Program, char*);
  int (*nvrtcGetCUBINSize)(Program, std::size_t*);
  int (*nvrtcGetCUBIN)(Program, char*);
  int (*nvrtcGetPTXSize)(Program, std::size_t*);
  int (*nvrtcGetPTX)(Program, char*);
};

Result<Nvrtc> open_nvrtc() {
  const auto library = gpu::SharedLibrary::open(
      gpu::toolkit_names({"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"}));
  if (!library) return fail(ErrorCode::compiler, "no NVRTC: " + library.error().message);
  Nvrtc n{};
  std::string missing;
  const auto load = [&](auto& function, const char* symbol) {
    if (!library->load(function, symbol)) missing = symbol;
  };
  load(n.nvrtcVersion, "nvrtcVersion");
  load(n.nvrtcGetErrorString, "nvrtcGetErrorString");
  load(n.nvrtcCreateProgram, "nvrtcCreateProgram");
  load(n.nvrtcDestroyProgram, "nvrtcDestroyProgram");
  load(n.nvrtcCompileProgram, "nvrtcCompileProgram");
  load(n.nvrtcGetProgramLogSize, "nvrtcGetProgramLogSize");
  load(n.nvrtcGetProgramLog, "nvrtcGetProgramLog");
  load(n.nvrtcGetCUBINSize, "nvrtcGetCUBINSize");
  load(n.nvrtcGetCUBIN, "nvrtcGetCUBIN");
  load(n.nvrtcGetPTXSize, "nvrtcGetPTXSize");
  load(n.nvrtcGetPTX, "nvrtcGetPTX");
  if (!missing.empty())
    return fail(ErrorCode::compiler,
                fmt::format("{} has no {}: too old a NVRTC", library->name(), missing));
  ExitGate::guard_opened_library();
  return n;
}

/// The whole number that ends right before `label`, or 0.
std::int64_t number_before(std::string_view line, std::string_view label) {
  const std::size_t at = line.find(label);
  if (at == line.npos) return 0;
  std::size_t begin = at;
  while (begin > 0 && line[begin - 1] >= '0' && line[begin - 1] <= '9') --begin;
  std::int64_t value = 0;
  std::from_chars(line.data() + begin, line.data() + at, value);
  return value;
}

template <typename F>
void for_each_line(std::string_view text, F&& f) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    f(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

/// NVRTC counts the end of its texts among their characters.
void trim_nul(std::string& text) {
  while (!text.empty() && text.back() == '\0') text.pop_back();
}

/// A source being compiled.
class Job {
 public:
  explicit Job(const Nvrtc& n) : n_(n) {}
  ~Job() {
    if (program_ != nullptr) n_.nvrtcDestroyProgram(&program_);
  }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  Status compile(const Source& source) {
    if (Status ok = check(n_.nvrtcCreateProgram(&program_, source.text.c_str(),
                                                source.file_name.c_str(), 0, nullptr, nullptr),
                          "nvrtcCreateProgram");
        !ok)
      return ok;
    std::vector<const char*> options;
    for (const std::string& flag : source.flags) options.push_back(flag.c_str());
    options.push_back("--ptxas-options=-v");
    const int code =
        n_.nvrtcCompileProgram(program_, static_cast<int>(options.size()), options.data());
    log_ = text(n_.nvrtcGetProgramLogSize, n_.nvrtcGetProgramLog);
    trim_nul(log_);
    if (code == 0) return {};
    return fail(ErrorCode::compiler,
                fmt::format("{} ({}): {}\n{}", source.file_name, fmt::join(source.flags, " "),
                            n_.nvrtcGetErrorString(code), log_));
  }

  const std::string& log() const { return log_; }

  /// A text or image of the program, by NVRTC's pair of functions; empty when it has none.
  std::string text(int (*size_of)(Program, std::size_t*), int (*get)(Program, char*)) const {
    std::size_t size = 0;
    if (size_of(program_, &size) != 0 || size == 0) return {};
    std::string out(size, '\0');
    if (get(program_, out.data()) != 0) return {};
    return out;
  }

 private:
  Status check(int code, const char* call) const {
    if (code == 0) return {};
    return fail(ErrorCode::compiler, fmt::format("{}: {}", call, n_.nvrtcGetErrorString(code)));
  }

  const Nvrtc& n_;
  Program program_ = nullptr;
  std::string log_;
};

class NvrtcCompiler final : public Compiler {
 public:
  explicit NvrtcCompiler(const Nvrtc& n) : n_(n) {
    int major = 0, minor = 0;
    n_.nvrtcVersion(&major, &minor);
    version_ = fmt::format("nvrtc {}.{}", major, minor);
  }

  Result<Binary> compile(const Source& source) override {
    const ExitGate gate;
    if (!gate.open()) return not_at_exit(source);
    begin(source);
    count_work(Work::nvrtc);
    Job job(n_);
    if (Status ok = job.compile(source); !ok) return tl::unexpected(ok.error());
    if (const auto warning = performance_warning(job.log()); !warning.empty())
      return fail(ErrorCode::compiler, fmt::format("{}: {}", source.file_name, warning));
    const std::string image = job.text(n_.nvrtcGetCUBINSize, n_.nvrtcGetCUBIN);
    if (image.empty())
      return fail(ErrorCode::compiler,
                  fmt::format("{}: NVRTC made no cubin: its target must be sm_NN, not compute_NN",
                              source.file_name));
    Binary binary;
    binary.log = job.log();
    binary.resources = ptxas_resources(binary.log);
    binary.resources.code_bytes = static_cast<std::int64_t>(image.size());
    const auto* bytes = reinterpret_cast<const std::byte*>(image.data());
    binary.image.assign(bytes, bytes + image.size());
    return binary;
  }

  Result<Binary> compile_unless(const std::stop_token& stop, const Source& source) override {
    return compile_or_leave(*this, stop, source);
  }

  Result<std::string> assembly(const Source& source) override {
    const ExitGate gate;
    if (!gate.open()) return not_at_exit(source);
    begin(source);
    count_work(Work::nvrtc);
    Job job(n_);
    if (Status ok = job.compile(source); !ok) return tl::unexpected(ok.error());
    std::string ptx = job.text(n_.nvrtcGetPTXSize, n_.nvrtcGetPTX);
    trim_nul(ptx);
    return ptx;
  }

  std::string version() const override { return version_; }

 private:
  /// Some of what exit() ends NVRTC registers when it compiles for the first time. Compiles have to
  /// be waited for before that, so exit() is told of the library after a small one, whether
  /// that is right or not.
  void begin(const Source& like) {
    std::call_once(begun_, [&] {
      Job(n_).compile(
          {.text = "__global__ void first() {}", .file_name = "first.cu", .flags = like.flags});
      ExitGate::guard_opened_library();
    });
  }

  const Nvrtc n_;
  std::string version_;
  std::once_flag begun_;
};

}  // namespace

ResourceReport ptxas_resources(std::string_view log) {
  ResourceReport report;
  for_each_line(log, [&](std::string_view line) {
    report.registers = std::max(report.registers, number_before(line, " registers"));
    report.shared_bytes = std::max(report.shared_bytes, number_before(line, " bytes smem"));
    report.stack_bytes = std::max(report.stack_bytes, number_before(line, " bytes stack frame"));
    report.spills +=
        number_before(line, " bytes spill stores") + number_before(line, " bytes spill loads");
  });
  return report;
}

std::string_view performance_warning(std::string_view log) {
  std::string_view found;
  for_each_line(log, [&](std::string_view line) {
    // C7517 is no loss: a wait that the compiler adds where a kernel has waited already.
    if (found.empty() && line.find("(C75") != line.npos && line.find("(C7517)") == line.npos)
      found = line;
  });
  return found;
}

Result<Compiler*> nvrtc_compiler() {
  static const auto& compiler = *new Result<Compiler*>(
      open_nvrtc().map([](const Nvrtc& n) -> Compiler* { return new NvrtcCompiler(n); }));
  return compiler;
}

}  // namespace kiln
