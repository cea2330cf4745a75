// Shape lines: any text gives a problem or an error that says something, and a problem survives a
// round trip through its own text.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "generator/problem/problem.h"
#include "kiln/gemm.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto gemm = kiln::parse_gemm({reinterpret_cast<const char*>(data), size});
  if (!gemm) {
    if (gemm.error().message.empty()) std::abort();
    return 0;
  }
  const auto again = kiln::parse_gemm(kiln::text(*gemm));
  if (!again || *again != *gemm) std::abort();
  if (kiln::validate(*gemm)) kiln::Problem::of(*gemm).value();
  return 0;
}
