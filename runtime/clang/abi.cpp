#include <clang/Basic/Version.h>

#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "runtime/clang/guard.h"
#include "runtime/clang/link.h"
#include "runtime/clang/object_info.h"
#include "runtime/clang/translate.h"
#include "runtime/clang_abi.h"

#define KILN_EXPORT __attribute__((visibility("default")))

namespace kiln::clang_side {
namespace {

struct Owner {
  std::string log, error;
  std::vector<char> bytes;
  ObjectInfo info;
  long long spills = 0;
};

void run(const KilnClangJob& job, Owner& out) {
  const std::string text(job.source, job.source_bytes);
  const std::vector<std::string> flags(job.flags, job.flags + job.flag_count);
  const bool image = job.output == kKilnClangImage;
  Translation translation;
  const auto crash = run_guarded([&] {
    translate(text, job.file_name, flags, image ? Emit::object : Emit::assembly, translation);
  });
  out.log = translation.log;
  out.error = crash ? *crash : translation.error;
  if (!out.error.empty()) return;
  out.spills = translation.spills;
  const std::string_view made(translation.bytes.data(), translation.bytes.size());
  if (!image) {
    out.bytes.assign(made.begin(), made.end());
    return;
  }
  out.info = inspect_object(made);
  Linked linked;
  const auto link_crash =
      run_guarded([&] { linked = for_device(flags) ? link_code_object(made) : link_shared(made); });
  out.error = link_crash ? *link_crash : linked.error;
  out.bytes = std::move(linked.image);
}

}  // namespace
}  // namespace kiln::clang_side

extern "C" {

KILN_EXPORT int kiln_clang_abi() { return kKilnClangAbi; }

KILN_EXPORT const char* kiln_clang_version() {
  static const auto& version = *new std::string(clang::getClangFullVersion());
  return version.c_str();
}

KILN_EXPORT void kiln_clang_compile(const KilnClangJob* job, KilnClangResult* result) {
  using kiln::clang_side::Owner;
  auto owner = std::make_unique<Owner>();
  try {
    kiln::clang_side::run(*job, *owner);
  } catch (const std::exception& e) {
    owner->error = e.what();
  }
  *result = {owner->bytes.data(),    owner->bytes.size(),
             owner->log.c_str(),     owner->error.empty() ? nullptr : owner->error.c_str(),
             owner->info.code_bytes, owner->info.stack_bytes,
             owner->spills,          owner.get()};
  static_cast<void>(owner.release());
}

KILN_EXPORT void kiln_clang_free(KilnClangResult* result) {
  delete static_cast<kiln::clang_side::Owner*>(result->owner);
  *result = {};
}
}
