// Assembly of AMD kernels: any text gives counts, and no loop has more of anything than the text
// has lines.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "runtime/hip/isa_counts.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto lines = static_cast<int>(std::count(text.begin(), text.end(), '\n')) + 1;
  const auto loops = kiln::hip::count_loops(text);
  for (const auto& loop : loops)
    if (loop.counts.total > lines || loop.counts.matrix > loop.counts.total) std::abort();
  (void)kiln::hip::main_loop(loops);
  return 0;
}
