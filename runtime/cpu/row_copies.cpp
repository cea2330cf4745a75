#include "runtime/cpu/row_copies.h"

#include <algorithm>

#include "runtime/cpu/thread_pool.h"
#include "runtime/workspace.h"

namespace kiln {
namespace {

/// Those that may be copied, in the order of their copies.
constexpr Operand kCopied[] = {Operand::a, Operand::scale_a, Operand::d};

bool is_copied(const Gemm& gemm, Operand which) {
  return is_gathered(gemm, which) || is_scattered(gemm, which);
}

/// Calls `f(thread, threads)`, where one is enough on this thread.
template <typename F>
void divided(int threads, F&& f) {
  if (threads > 1)
    parallel(threads, f);
  else
    f(0, 1);
}

}  // namespace

RowCopies::RowCopies(const Gemm& gemm, const KilnArgs& call, const Segment& of)
    : gemm_(gemm), call_(call), of_(of) {}

IndexedRows RowCopies::share(const void* index, int thread, int threads) const {
  const std::int64_t begin = of_.count * thread / threads;
  return {index, of_.first + begin, of_.count * (thread + 1) / threads - begin};
}

std::int64_t RowCopies::offset(Operand which) const {
  const std::int64_t unit = std::max(64, gemm_.alignment);
  std::int64_t at = 0;
  for (const Operand before : kCopied) {
    if (before == which) break;
    if (is_copied(gemm_, before))
      at += (of_.count * line_bytes(gemm_, before) + unit - 1) / unit * unit;
  }
  return at;
}

std::byte* RowCopies::copy(Operand which, std::int64_t row) const {
  return memory_ + offset(which) + row * line_bytes(gemm_, which);
}

Status RowCopies::gather(KilnArgs& to, int threads) {
  const std::int64_t d_bytes =
      is_copied(gemm_, Operand::d) ? of_.count * line_bytes(gemm_, Operand::d) : 0;
  const Result<void*> memory = operand_space(offset(Operand::d) + d_bytes);
  if (!memory) return tl::unexpected(memory.error());
  memory_ = static_cast<std::byte*>(*memory);
  if (is_copied(gemm_, Operand::d)) {
    to.d = copy(Operand::d);
    to.ldd = to.ldc = gemm_.n;
  }
  if (!gathers(gemm_)) return {};
  divided(threads, [&](int thread, int all) {
    const IndexedRows rows = share(call_.index_a, thread, all);
    for (const Operand which : {Operand::a, Operand::scale_a})
      if (is_gathered(gemm_, which))
        gather_lines(gemm_, which, pointer(call_, which), rows,
                     copy(which, rows.first - of_.first));
  });
  to.a = copy(Operand::a);
  to.lda = std::max<std::int64_t>(1, gemm_.k);
  if (is_gathered(gemm_, Operand::scale_a)) to.scale_a = copy(Operand::scale_a);
  return {};
}

void RowCopies::scatter(int threads) const {
  if (!scatters(gemm_)) return;
  divided(threads, [&](int thread, int all) {
    const IndexedRows rows = share(call_.index_d, thread, all);
    scatter_lines(gemm_, Operand::d, copy(Operand::d, rows.first - of_.first), rows, call_.d);
  });
}

}  // namespace kiln
