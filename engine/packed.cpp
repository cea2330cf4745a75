// Packed weights: made once, for every m.
#include <fmt/format.h>

#include "engine/engine_impl.h"

namespace kiln {
namespace {

/// Errors: bad_input (the field that differs, of those that the bytes depend on).
Status check_field(std::string_view name, std::int64_t packed, const Gemm& call,
                   std::int64_t called) {
  if (packed == called) return {};
  return fail(ErrorCode::bad_input,
              fmt::format("packed_b: packed for {0} = {1}, not {0} = {2}: {3}", name, packed,
                          called, text(call)));
}

}  // namespace

Status check_packed(const PackedB::Impl& packed, const Plan::Impl& plan) {
  const Gemm &made = packed.gemm, &call = plan.gemm;
  if (Status n = check_field("n", made.n, call, call.n); !n) return n;
  if (Status k = check_field("k", made.k, call, call.k); !k) return k;
  if (Status batch = check_field("batch", made.batch, call, call.batch); !batch) return batch;
  if (made.b.dtype != call.b.dtype)
    return fail(ErrorCode::bad_input,
                fmt::format("packed_b: packed for b.dtype = {}, not {}: {}", name(made.b.dtype),
                            name(call.b.dtype), text(call)));
  if (packed.layout != plan.packed_layout)
    return fail(ErrorCode::bad_input,
                fmt::format("packed_b: packed for another device's kernels ({}): {} reads {}",
                            text(packed.layout), text(call), text(plan.packed_layout)));
  return {};
}

Result<PackedB> Engine::pack_b(const Gemm& gemm, const void* b, int threads) {
  return shielded([&] { return impl_->pack_b(gemm, b, threads); });
}

Result<PackedB> Engine::Impl::pack_b(const Gemm& gemm, const void* b, int threads) {
  if (gpu)
    return fail(ErrorCode::unsupported, "packed_b: GPU kernels read B as it is; pass it unpacked");
  const Gemm packed = gemm.with_packed_b();
  const auto problem = Problem::of(packed);
  if (!problem) return tl::unexpected(problem.error());
  const auto count = threads_of(threads);
  if (!count) return tl::unexpected(count.error());
  if (b == nullptr && packed.n > 0 && packed.k > 0)
    return fail(ErrorCode::bad_input, fmt::format("b = null: {} needs it", text(packed)));
  const PackedLayout layout = packed_layout(*problem, device);
  auto copy = kiln::pack_b(layout, *problem, b, *count);
  if (!copy) return tl::unexpected(copy.error());
  return PackedB(std::make_shared<const PackedB::Impl>(
      PackedB::Impl{.gemm = packed, .layout = layout, .copy = std::move(*copy)}));
}

std::size_t PackedB::bytes() const { return static_cast<std::size_t>(impl_->copy.bytes); }

}  // namespace kiln
