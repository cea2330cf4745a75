#include "tuner/measure/operand_sets.h"

#include <errno.h>
#include <fmt/format.h>
#include <string.h>
#include <sys/mman.h>

#include <algorithm>
#include <utility>

#include "generator/problem/extent.h"
#include "runtime/memory.h"
#include "tuner/measure/measure.h"
#include "tuner/verify/data.h"

namespace kiln {
namespace {

/// Where each operand of a set lies, in bytes from the set's start.
struct Layout {
  std::int64_t a, b, d, bias, residual, scale_a, scale_b, bytes;
};

Layout layout_of(const Gemm& gemm) {
  const std::int64_t alignment = std::max(64, gemm.alignment);
  std::int64_t end = 0;
  const auto place = [&](std::int64_t bytes) {
    const std::int64_t at = end;
    end += (bytes + alignment - 1) / alignment * alignment;
    return at;
  };
  Layout layout{};
  layout.a = place(span_bytes(gemm, Operand::a));
  layout.b = place(span_bytes(gemm, Operand::b));
  layout.d = place(span_bytes(gemm, Operand::d));
  layout.bias = place(bias_length(gemm) * size_of(bias_type(gemm)));
  layout.residual = place(gemm.epilogue.residual ? span_bytes(gemm, Operand::d) : 0);
  layout.scale_a = place(scale_bytes(gemm, Operand::a));
  layout.scale_b = place(scale_bytes(gemm, Operand::b));
  layout.bytes = end;
  return layout;
}

}  // namespace

std::int64_t touched_bytes(const Gemm& gemm) { return layout_of(gemm).bytes; }

double OperandSets::bytes_needed(const Gemm& gemm, const DeviceCaps& device) {
  const std::int64_t set = std::max<std::int64_t>(1, touched_bytes(gemm));
  return static_cast<double>(set) * rotation_sets(set, device);
}

Result<OperandSets> OperandSets::make(const Gemm& gemm, const DeviceCaps& device,
                                      std::uint64_t seed) {
  if (Status room = room_for(bytes_needed(gemm, device), available_memory(),
                             fmt::format("operands of '{}'", text(gemm)));
      !room)
    return tl::unexpected(room.error());
  const Layout layout = layout_of(gemm);
  const int count = rotation_sets(std::max<std::int64_t>(1, layout.bytes), device);
  OperandSets sets;
  sets.set_bytes_ = layout.bytes;
  sets.mapped_ = static_cast<std::size_t>(std::max<std::int64_t>(1, layout.bytes) * count);
  void* memory = mmap(nullptr, sets.mapped_, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED)
    return fail(ErrorCode::device, fmt::format("{} bytes of operands for '{}': {}", sets.mapped_,
                                               text(gemm), strerror(errno)));
  sets.memory_ = static_cast<std::byte*>(memory);

  std::byte* first = sets.memory_;
  fill(gemm, Input::a, Data::uniform, seed, first + layout.a);
  fill(gemm, Input::b, Data::uniform, seed, first + layout.b);
  fill_bias(gemm, Data::uniform, seed, first + layout.bias);
  if (gemm.epilogue.residual)
    fill(gemm, Input::residual, Data::uniform, seed, first + layout.residual);
  fill_scales(gemm, Operand::a, Data::uniform, seed, first + layout.scale_a);
  fill_scales(gemm, Operand::b, Data::uniform, seed, first + layout.scale_b);
  for (int i = 0; i < count; ++i) {
    std::byte* base = first + i * layout.bytes;
    // D is written too: the first call of a set should not pay for its page faults.
    memset(base + layout.d, 0, static_cast<std::size_t>(layout.bias - layout.d));
    if (i > 0) memcpy(base, first, static_cast<std::size_t>(layout.d));
    if (i > 0)
      memcpy(base + layout.bias, first + layout.bias,
             static_cast<std::size_t>(layout.bytes - layout.bias));
    Operands o;
    o.a = base + layout.a;
    o.b = base + layout.b;
    o.c = o.d = base + layout.d;
    o.bias = gemm.epilogue.bias == Bias::none ? nullptr : base + layout.bias;
    o.residual = gemm.epilogue.residual ? base + layout.residual : nullptr;
    o.scale_a = gemm.scale_a == Scale::none ? nullptr : base + layout.scale_a;
    o.scale_b = gemm.scale_b == Scale::none ? nullptr : base + layout.scale_b;
    sets.sets_.push_back(o);
  }
  return sets;
}

OperandSets::OperandSets(OperandSets&& other) noexcept { *this = std::move(other); }

OperandSets& OperandSets::operator=(OperandSets&& other) noexcept {
  std::swap(memory_, other.memory_);
  std::swap(mapped_, other.mapped_);
  std::swap(set_bytes_, other.set_bytes_);
  std::swap(sets_, other.sets_);
  return *this;
}

OperandSets::~OperandSets() {
  if (memory_) munmap(memory_, mapped_);
}

}  // namespace kiln
