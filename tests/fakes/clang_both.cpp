// The in-process compiler, but what it makes for AMD GPUs carries its emulated twin behind it,
// which the fake HIP runtime runs. $KILN_REAL_CLANG names the compiler that does the work.
#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "fakes/hip_control.h"
#include "generator/render/emulated.h"
#include "runtime/clang_abi.h"
#include "runtime/hip/code_object.h"

namespace {

using namespace kiln;

struct Real {
  KilnClangAbiFn abi;
  KilnClangVersionFn version;
  KilnClangCompileFn compile;
  KilnClangFreeFn free;
};

const Real& real() {
  static const Real functions = [] {
    void* object = dlopen(std::getenv("KILN_REAL_CLANG"), RTLD_NOW | RTLD_LOCAL);
    if (object == nullptr) std::abort();
    const auto load = [&](const char* name) { return dlsym(object, name); };
    return Real{reinterpret_cast<KilnClangAbiFn>(load("kiln_clang_abi")),
                reinterpret_cast<KilnClangVersionFn>(load("kiln_clang_version")),
                reinterpret_cast<KilnClangCompileFn>(load("kiln_clang_compile")),
                reinterpret_cast<KilnClangFreeFn>(load("kiln_clang_free"))};
  }();
  return functions;
}

/// What a result of ours owns, the real one included.
struct Owned {
  KilnClangResult real{};
  std::string bytes, error;
};

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

void append_twin(const KilnClangJob& job, Owned& owned) {
  const auto* image = reinterpret_cast<const std::byte*>(owned.bytes.data());
  const auto object = hip::read_code_object({image, owned.bytes.size()});
  auto twin = emulated(
      {.text = std::string(job.source, job.source_bytes), .file_name = job.file_name, .flags = {}},
      {}, Vendor::amd);
  if (!object || !twin) {
    owned.error = (object ? twin.error() : object.error()).message;
    return;
  }
  twin->text += entries_of(*object);
  std::vector<const char*> flags;
  for (const std::string& flag : twin->flags) flags.push_back(flag.c_str());
  const KilnClangJob twin_job{twin->text.data(), twin->text.size(), twin->file_name.c_str(),
                              flags.data(),      flags.size(),      kKilnClangImage};
  KilnClangResult made{};
  real().compile(&twin_job, &made);
  if (made.error != nullptr) {
    owned.error = fmt::format("emulated twin: {}: {}", made.error, made.log);
  } else {
    const test::EmulatedTrailer head{.bytes = made.byte_count};
    owned.bytes.append(reinterpret_cast<const char*>(&head), sizeof head);
    owned.bytes.append(made.bytes, made.byte_count);
  }
  real().free(&made);
}

bool for_amd(const KilnClangJob& job) {
  for (std::size_t i = 0; i < job.flag_count; ++i)
    if (std::strncmp(job.flags[i], "--offload-arch=", 15) == 0) return true;
  return false;
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

int kiln_clang_abi() { return real().abi(); }
const char* kiln_clang_version() { return real().version(); }

void kiln_clang_compile(const KilnClangJob* job, KilnClangResult* result) {
  auto* owned = new Owned;
  real().compile(job, &owned->real);
  *result = owned->real;
  result->owner = owned;
  if (result->error != nullptr || job->output != kKilnClangImage || !for_amd(*job)) return;
  owned->bytes.assign(result->bytes, result->byte_count);
  append_twin(*job, *owned);
  result->bytes = owned->bytes.data();
  result->byte_count = owned->bytes.size();
  if (!owned->error.empty()) result->error = owned->error.c_str();
}

void kiln_clang_free(KilnClangResult* result) {
  auto* owned = static_cast<Owned*>(result->owner);
  real().free(&owned->real);
  delete owned;
}
}
#pragma GCC visibility pop
