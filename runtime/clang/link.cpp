#include "runtime/clang/link.h"

#include <lld/Common/Driver.h>
#include <llvm/Support/raw_ostream.h>

#include <mutex>

#include "runtime/clang/memory_file.h"

LLD_HAS_DRIVER(elf)

namespace kiln::clang_side {

Linked link_shared(std::string_view object) {
  // lld keeps its state in globals; two links at once are a SIGSEGV.
  static std::mutex mutex;
  const InputFile input(object);
  OutputFile output;
  if (!input.good() || !output.good())
    return {{}, "link: no memory file or pipe could be made: too many open files?"};

  const std::string from = input.path();
  const std::string to = output.path();
  // -Bsymbolic: a kernel's own calls stay inside it. -z now: no lazy binding inside a timed call.
  const char* arguments[] = {"ld.lld",
                             "-shared",
                             "-Bsymbolic",
                             "--strip-all",
                             "--gc-sections",
                             "--build-id=none",
                             "--hash-style=gnu",
                             "--threads=1",
                             "-z",
                             "now",
                             "-z",
                             "noseparate-code",
                             "-o",
                             to.c_str(),
                             from.c_str()};
  std::string text;
  llvm::raw_string_ostream messages(text);
  lld::Result result{};
  {
    const std::lock_guard lock(mutex);
    result = lld::lldMain(arguments, messages, messages, {{lld::Gnu, &lld::elf::link}});
  }
  if (result.retCode != 0) return {{}, "link: " + text};
  Linked linked{output.finish(), {}};
  if (linked.image.empty()) linked.error = "link: lld wrote nothing";
  return linked;
}

}  // namespace kiln::clang_side
