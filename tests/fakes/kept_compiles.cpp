#include "fakes/kept_compiles.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>

namespace kiln::test {
namespace {

namespace fs = std::filesystem;

struct Real {
  KilnClangVersionFn version;
  KilnClangCompileFn compile;
  KilnClangFreeFn free;
};

const Real& real() {
  static const Real functions = [] {
    void* object = dlopen(std::getenv("KILN_REAL_CLANG"), RTLD_NOW | RTLD_LOCAL);
    if (object == nullptr) std::abort();
    const auto load = [&](const char* name) { return dlsym(object, name); };
    return Real{reinterpret_cast<KilnClangVersionFn>(load("kiln_clang_version")),
                reinterpret_cast<KilnClangCompileFn>(load("kiln_clang_compile")),
                reinterpret_cast<KilnClangFreeFn>(load("kiln_clang_free"))};
  }();
  return functions;
}

std::string contents(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

/// What the compiler is: its own bytes, and the version of LLVM that they are linked to.
const std::string& identity() {
  static const std::string text = [] {
    const std::string object = contents(std::getenv("KILN_REAL_CLANG"));
    return fmt::format("{:016x} {}", XXH3_64bits(object.data(), object.size()), real().version());
  }();
  return text;
}

/// Where a job's result is kept; empty: nowhere.
fs::path kept_at(const KilnClangJob& job) {
  const char* const folder = std::getenv("KILN_KEPT_CODE");
  if (folder == nullptr) return {};
  std::string key =
      fmt::format("{} {} {}", identity(), static_cast<int>(job.output), job.file_name);
  for (std::size_t i = 0; i < job.flag_count; ++i) (key += '\0') += job.flags[i];
  (key += '\0').append(job.source, job.source_bytes);
  const XXH128_hash_t hash = XXH3_128bits(key.data(), key.size());
  return fs::path(folder) / fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

/// What a kept file begins with; the log and the bytes follow, of which `hash` is.
struct Head {
  XXH64_hash_t hash;
  std::size_t log_bytes, bytes;
  long long code_bytes, stack_bytes, spills;
};

void keep(const fs::path& path, const Compiled& made) {
  const std::string rest = made.log + made.bytes;
  const Head head{XXH3_64bits(rest.data(), rest.size()),
                  made.log.size(),
                  made.bytes.size(),
                  made.code_bytes,
                  made.stack_bytes,
                  made.spills};
  fs::path fresh = path;
  fresh += fmt::format(".{}.{}", ::getpid(), fmt::ptr(&made));
  std::error_code ignored;  // who may write no files keeps none
  fs::create_directories(path.parent_path(), ignored);
  {
    std::ofstream out(fresh, std::ios::binary);
    out.write(reinterpret_cast<const char*>(&head), sizeof head);
    out.write(rest.data(), std::streamsize(rest.size()));
    if (!out) return;
  }
  fs::rename(fresh, path, ignored);
}

std::optional<Compiled> kept_before(const fs::path& path) {
  const std::string all = contents(path);
  Head head;
  if (all.size() < sizeof head) return std::nullopt;
  std::memcpy(&head, all.data(), sizeof head);
  if (all.size() != sizeof head + head.log_bytes + head.bytes ||
      head.hash != XXH3_64bits(all.data() + sizeof head, all.size() - sizeof head))
    return std::nullopt;
  ::utimensat(AT_FDCWD, path.c_str(), nullptr, 0);  // files that nobody read for weeks are removed
  return Compiled{.bytes = all.substr(sizeof head + head.log_bytes),
                  .log = all.substr(sizeof head, head.log_bytes),
                  .error = {},
                  .code_bytes = head.code_bytes,
                  .stack_bytes = head.stack_bytes,
                  .spills = head.spills};
}

}  // namespace

KilnClangResult Compiled::as_result() {
  return {.bytes = bytes.data(),
          .byte_count = bytes.size(),
          .log = log.c_str(),
          .error = failed ? error.c_str() : nullptr,
          .code_bytes = code_bytes,
          .stack_bytes = stack_bytes,
          .spills = spills,
          .owner = this};
}

const char* real_version() { return real().version(); }

Compiled compiled(const KilnClangJob& job) {
  const fs::path path = kept_at(job);
  if (!path.empty())
    if (auto kept = kept_before(path)) return *std::move(kept);
  KilnClangResult result{};
  real().compile(&job, &result);
  Compiled made{
      .bytes = std::string(result.bytes == nullptr ? "" : result.bytes, result.byte_count),
      .log = result.log,
      .error = result.error == nullptr ? "" : result.error,
      .failed = result.error != nullptr,
      .code_bytes = result.code_bytes,
      .stack_bytes = result.stack_bytes,
      .spills = result.spills};
  real().free(&result);
  if (!made.failed && !path.empty()) keep(path, made);
  return made;
}

}  // namespace kiln::test
