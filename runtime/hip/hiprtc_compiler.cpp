#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <mutex>

#include "runtime/exit_gate.h"
#include "runtime/fork_gate.h"
#include "runtime/frames.h"
#include "runtime/hip/code_object.h"
#include "runtime/hip/compilers.h"
#include "runtime/hip/hiprtc.h"
#include "runtime/left_behind.h"
#include "runtime/work_counts.h"

namespace kiln::hip {
namespace {

constexpr std::string_view kArchFlag = "--offload-arch=";

/// What a compile yields, in this process or out of a child.
struct Outcome {
  std::string error;  // empty when it worked
  std::string log, code;
};

Outcome compile_here(const Hiprtc& api, const Source& source) {
  Outcome out;
  Hiprtc::Program program = nullptr;
  const auto failed = [&](const char* step, int code) {
    if (code != 0) out.error = fmt::format("{}: {}", step, api.error_text(code));
    return code != 0;
  };
  if (failed("hiprtcCreateProgram", api.create(&program, source.text.c_str(),
                                               source.file_name.c_str(), 0, nullptr, nullptr)))
    return out;
  std::vector<const char*> options;
  for (const auto& flag : source.flags) options.push_back(flag.c_str());
  const int compiled = api.compile(program, static_cast<int>(options.size()), options.data());
  std::size_t size = 0;
  if (api.log_size(program, &size) == 0 && size > 1) {
    out.log.resize(size);
    if (api.log(program, out.log.data()) != 0) out.log.clear();
    while (!out.log.empty() && out.log.back() == '\0') out.log.pop_back();
  }
  if (!failed("hiprtcCompileProgram", compiled) &&
      !failed("hiprtcGetCodeSize", api.code_size(program, &size))) {
    out.code.resize(size);
    failed("hiprtcGetCode", api.code(program, out.code.data()));
  }
  api.destroy(&program);
  return out;
}

/// The same in a forked child, whose end is an error here and no more.
Outcome compile_in_child(const Hiprtc& api, const Source& source) {
  const ForkGate gate;  // no other child gets the ends of the connection
  auto pair = socket_pair();
  if (!pair) return {pair.error().message, {}, {}};
  const OwnFork own;
  const pid_t child = ::fork();
  if (child == 0) {
    const Outcome made = compile_here(api, source);
    send_frame(pair->theirs.get(),
               std::array<std::string_view, 3>{made.error, made.log, made.code});
    ::_exit(0);
  }
  pair->theirs = Fd();
  if (child < 0) return {fmt::format("fork: {}", std::strerror(errno)), {}, {}};
  auto parts = receive_frame(pair->ours.get());
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!parts || parts->size() != 3)
    return {fmt::format("hipRTC {}.{} ended its process: {}", api.major, api.minor,
                        WIFSIGNALED(status) ? ::strsignal(WTERMSIG(status)) : "exit"),
            {},
            {}};
  return {std::move((*parts)[0]), std::move((*parts)[1]), std::move((*parts)[2])};
}

class HiprtcCompiler : public Compiler {
 public:
  explicit HiprtcCompiler(Hiprtc api) : api_(std::move(api)) {}

  Result<Binary> compile(const Source& source) override {
    const ExitGate gate;
    if (!gate.open()) return not_at_exit(source);
    count_work(Work::hiprtc);
    std::string arch;
    for (const auto& flag : source.flags)
      if (flag.starts_with(kArchFlag)) arch = flag.substr(kArchFlag.size());
    Outcome out;
    {
      // One at a time: a fork while another thread is inside would copy locks that it holds.
      const std::lock_guard lock(mutex_);
      out = api_.may_abort(arch) ? compile_in_child(api_, source) : compile_here(api_, source);
      std::call_once(compiled_, ExitGate::guard_opened_library);
    }
    if (!out.error.empty())
      return fail(ErrorCode::compiler, fmt::format("{}: {}{}{}", source.file_name, out.error,
                                                   out.log.empty() ? "" : "\n", out.log));
    Binary binary;
    const auto* bytes = reinterpret_cast<const std::byte*>(out.code.data());
    binary.image.assign(bytes, bytes + out.code.size());
    binary.log = out.log;
    const auto object = read_code_object(binary.image);
    if (!object) return tl::unexpected(object.error());
    binary.resources = report_of(*object);
    return binary;
  }

  Result<Binary> compile_unless(const std::stop_token& stop, const Source& source) override {
    return compile_or_leave(*this, stop, source);
  }

  Result<std::string> assembly(const Source& source) override {
    return fail(ErrorCode::unsupported,
                fmt::format("{}: hipRTC gives no assembly text; Clang does", source.file_name));
  }

  std::string version() const override {
    return fmt::format("hipRTC {}.{}", api_.major, api_.minor);
  }

 private:
  Hiprtc api_;
  std::mutex mutex_;
  std::once_flag compiled_;
};

}  // namespace

Result<Compiler*> hiprtc_compiler() {
  static std::mutex mutex;
  // Only success is kept: a library installed later is found by the next call.
  static Compiler* kept = nullptr;
  const std::lock_guard lock(mutex);
  if (kept == nullptr) {
    auto api = Hiprtc::open();
    if (!api) return tl::unexpected(api.error());
    ExitGate::guard_opened_library();
    kept = new HiprtcCompiler(std::move(*api));
  }
  return kept;
}

}  // namespace kiln::hip
