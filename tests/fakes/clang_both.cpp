// The in-process compiler, but what it makes for AMD GPUs carries its emulated twin behind it,
// which the fake HIP runtime runs. $KILN_REAL_CLANG names the compiler that does the work. What was
// compiled once is kept in $KILN_FAKE_CLANG_KEPT: tests start dozens of processes that compile the
// same kernels.
#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>
#include <xxhash.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
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
  std::string bytes, error, log;
};

namespace fs = std::filesystem;

/// Where a job's result is kept; empty: nowhere. A compiler that was built again, this one or the
/// real one, has a folder of its own.
fs::path kept_at(const KilnClangJob& job) {
  static const fs::path folder = [] {
    const char* all = std::getenv("KILN_FAKE_CLANG_KEPT");
    if (all == nullptr) return fs::path();
    std::string stamp;
    for (const char* part : {std::getenv("KILN_CLANG"), std::getenv("KILN_REAL_CLANG")})
      stamp += fmt::format("{}-", fs::last_write_time(part).time_since_epoch().count());
    const fs::path mine = fs::path(all) / stamp;
    std::error_code ignored;
    if (!fs::exists(mine)) fs::remove_all(all, ignored);
    fs::create_directories(mine, ignored);
    return mine;
  }();
  if (folder.empty()) return folder;
  std::string key = job.file_name;
  for (std::size_t i = 0; i < job.flag_count; ++i) (key += '\0') += job.flags[i];
  (key += '\0').append(job.source, job.source_bytes);
  const XXH128_hash_t hash = XXH3_128bits(key.data(), key.size());
  return folder / fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

/// What a kept file begins with; the log and the image follow.
struct Kept {
  std::size_t log_bytes, image_bytes;
  long long code_bytes, stack_bytes, spills;
};

void keep(const fs::path& path, const KilnClangResult& made) {
  if (path.empty()) return;
  const Kept head{std::strlen(made.log), made.byte_count, made.code_bytes, made.stack_bytes,
                  made.spills};
  fs::path fresh = path;
  fresh += fmt::format(".{}.{}", getpid(), fmt::ptr(&made));
  {
    std::ofstream out(fresh, std::ios::binary);
    out.write(reinterpret_cast<const char*>(&head), sizeof head);
    out.write(made.log, std::streamsize(head.log_bytes));
    out.write(made.bytes, std::streamsize(head.image_bytes));
    if (!out) return;
  }
  std::error_code ignored;  // a candidate's cage has no files
  fs::rename(fresh, path, ignored);
}

bool kept_before(const fs::path& path, Owned& owned, KilnClangResult& result) {
  if (path.empty()) return false;
  std::ifstream in(path, std::ios::binary);
  const std::string all{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  Kept head;
  if (all.size() < sizeof head) return false;
  std::memcpy(&head, all.data(), sizeof head);
  if (all.size() != sizeof head + head.log_bytes + head.image_bytes) return false;
  owned.log = all.substr(sizeof head, head.log_bytes);
  owned.bytes = all.substr(sizeof head + head.log_bytes);
  result = {.bytes = owned.bytes.data(),
            .byte_count = owned.bytes.size(),
            .log = owned.log.c_str(),
            .error = nullptr,
            .code_bytes = head.code_bytes,
            .stack_bytes = head.stack_bytes,
            .spills = head.spills,
            .owner = &owned};
  return true;
}

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
  const bool both = job->output == kKilnClangImage && for_amd(*job);
  const fs::path kept = both ? kept_at(*job) : fs::path();
  if (kept_before(kept, *owned, *result)) return;
  real().compile(job, &owned->real);
  *result = owned->real;
  result->owner = owned;
  if (result->error != nullptr || !both) return;
  owned->bytes.assign(result->bytes, result->byte_count);
  append_twin(*job, *owned);
  result->bytes = owned->bytes.data();
  result->byte_count = owned->bytes.size();
  if (!owned->error.empty())
    result->error = owned->error.c_str();
  else
    keep(kept, *result);
}

void kiln_clang_free(KilnClangResult* result) {
  auto* owned = static_cast<Owned*>(result->owner);
  if (owned->real.owner != nullptr) real().free(&owned->real);
  delete owned;
}
}
#pragma GCC visibility pop
