// The in-process compiler, but what it makes for AMD GPUs carries its emulated twin behind it,
// which the fake HIP runtime runs. The real compiler does the work (fakes/kept_compiles.h).
#include <fmt/format.h>

#include <cstring>
#include <string>
#include <vector>

#include "fakes/hip_control.h"
#include "fakes/kept_compiles.h"
#include "generator/render/emulated.h"
#include "runtime/hip/code_object.h"

namespace {

using namespace kiln;
using test::Compiled;

/// Entries that take a launch's parameters as they are: one pointer to each.
std::string entries_of(const hip::CodeObject& object) {
  std::string text = R"(
template <int... I> struct Places {};
template <int N, int... I> struct Counted : Counted<N - 1, N - 1, I...> {};
template <int... I> struct Counted<0, I...> { using Type = Places<I...>; };
template <typename T> struct Plain { using Type = T; };
template <typename T> struct Plain<const T> { using Type = T; };
template <typename... A, int... I>
void launched(void (*kernel)(A...), void** parameters, Places<I...>) {
  kernel(*(typename Plain<A>::Type*)parameters[I]...);
}
template <typename... A>
void launched(void (*kernel)(A...), void** parameters) {
  launched(kernel, parameters, typename Counted<sizeof...(A)>::Type());
}
)";
  for (const hip::KernelResources& kernel : object.kernels)
    text += fmt::format(
        "extern \"C\" __attribute__((visibility(\"default\"))) void kiln_emu_{0}(const void* "
        "parameters, const void*) {{ launched({0}, (void**)parameters); }}\n",
        kernel.name);
  return text;
}

void append_twin(const KilnClangJob& job, Compiled& made) {
  const auto* image = reinterpret_cast<const std::byte*>(made.bytes.data());
  const auto object = hip::read_code_object({image, made.bytes.size()});
  auto twin = emulated(
      {.text = std::string(job.source, job.source_bytes), .file_name = job.file_name, .flags = {}},
      {}, Vendor::amd);
  made.failed = !object || !twin;
  if (made.failed) {
    made.error = (object ? twin.error() : object.error()).message;
    return;
  }
  twin->text += entries_of(*object);
  std::vector<const char*> flags;
  for (const std::string& flag : twin->flags) flags.push_back(flag.c_str());
  const Compiled other =
      test::compiled({twin->text.data(), twin->text.size(), twin->file_name.c_str(), flags.data(),
                      flags.size(), kKilnClangImage});
  made.failed = other.failed;
  if (other.failed) {
    made.error = fmt::format("emulated twin: {}: {}", other.error, other.log);
    return;
  }
  const test::EmulatedTrailer head{.bytes = other.bytes.size()};
  made.bytes.append(reinterpret_cast<const char*>(&head), sizeof head);
  made.bytes += other.bytes;
}

bool for_amd(const KilnClangJob& job) {
  for (std::size_t i = 0; i < job.flag_count; ++i)
    if (std::strncmp(job.flags[i], "--offload-arch=", 15) == 0) return true;
  return false;
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

int kiln_clang_abi() { return kKilnClangAbi; }
const char* kiln_clang_version() { return test::real_version(); }

void kiln_clang_compile(const KilnClangJob* job, KilnClangResult* result) {
  auto* const made = new Compiled(test::compiled(*job));
  if (!made->failed && job->output == kKilnClangImage && for_amd(*job)) append_twin(*job, *made);
  *result = made->as_result();
}

void kiln_clang_free(KilnClangResult* result) { delete static_cast<Compiled*>(result->owner); }
}
#pragma GCC visibility pop
