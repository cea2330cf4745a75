#include "runtime/clang/link.h"

#include <lld/Common/Driver.h>
#include <llvm/Support/raw_ostream.h>

#include <vector>

#include "runtime/clang/link_gate.h"
#include "runtime/clang/memory_file.h"

LLD_HAS_DRIVER(elf)

namespace kiln::clang_side {

namespace {

/// Runs lld over one object, with `options` before the names of the files.
Linked link(std::string_view object, std::vector<const char*> options) {
  static auto& gate = *new LinkGate;
  const InputFile input(object);
  OutputFile output;
  if (!input.good() || !output.good())
    return {{}, "link: no memory file or pipe could be made: too many open files?"};

  const std::string from = input.path();
  const std::string to = output.path();
  options.insert(options.end(), {"-o", to.c_str(), from.c_str()});
  std::string text;
  llvm::raw_string_ostream messages(text);
  const std::string error = gate.pass(text, [&]() -> LinkerRun {
    const auto done = lld::lldMain(options, messages, messages, {{lld::Gnu, &lld::elf::link}});
    return {done.retCode, done.canRunAgain};
  });
  if (!error.empty()) return {{}, error};
  Linked linked{output.finish(), {}};
  if (linked.image.empty()) linked.error = "link: lld wrote nothing";
  return linked;
}

}  // namespace

Linked link_shared(std::string_view object) {
  // -Bsymbolic: a kernel's own calls stay inside it. -z now: no lazy binding inside a timed call.
  return link(object,
              {"ld.lld", "-shared", "-Bsymbolic", "--strip-all", "--gc-sections", "--build-id=none",
               "--hash-style=gnu", "--threads=1", "-z", "now", "-z", "noseparate-code"});
}

Linked link_code_object(std::string_view object) {
  return link(object, {"ld.lld", "-m", "elf64_amdgpu", "-shared", "--no-undefined", "--strip-all",
                       "--build-id=none", "--threads=1"});
}

}  // namespace kiln::clang_side
