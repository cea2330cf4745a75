#include "bench/call_operands.h"

#include <span>

#include "bench/result_check.h"
#include "generator/problem/extent.h"
#include "generator/problem/operands.h"
#include "generator/problem/product_list.h"
#include "runtime/cpu/cpu.h"

namespace kiln {

Result<CallOperands> CallOperands::make(gpu::SharedDevice gpu, const Gemm& gemm, int threads) {
  const auto host = detect_cpu(gpu ? 1 : threads);
  if (!host) return tl::unexpected(host.error());
  auto sets = OperandSets::make(gemm, *host, 1);
  if (!sets) return tl::unexpected(sets.error());
  poison_d(gemm, (*sets)[0]);
  CallOperands made(std::move(gpu), gemm, std::move(*sets));
  if (!made.gpu_) {
    made.operands_ = made.sets_[0];
    made.operands_.threads = threads;
  } else if (Status ok = made.upload(); !ok) {
    return tl::unexpected(ok.error());
  }
  return made;
}

Status CallOperands::wait() const {
  if (!gpu_) return {};
  const gpu::Guest guest(*gpu_);
  return gpu::check(gpu_->driver(), gpu_->driver().cuCtxSynchronize(), "cuCtxSynchronize");
}

Result<bool> CallOperands::right() {
  if (Status done = wait(); !done) return tl::unexpected(done.error());
  if (gpu_) {
    const gpu::Guest guest(*gpu_);
    const gpu::Driver& d = gpu_->driver();
    for (const Operand which : kOperands) {
      if (!is_output(gemm_, which)) continue;
      auto* const to = const_cast<void*>(pointer(sets_[0], which));
      const auto from = reinterpret_cast<gpu::DevicePointer>(pointer(operands_, which));
      const auto bytes = static_cast<std::size_t>(span_bytes(gemm_, which));
      if (Status ok = gpu::check(d, d.cuMemcpyDtoH(to, from, bytes), "cuMemcpyDtoH"); !ok)
        return tl::unexpected(ok.error());
    }
  }
  return !ResultCheck(gemm_, sets_[0], 1).fault_of(sets_[0].d);
}

Result<void*> CallOperands::copied(const void* from, std::int64_t bytes) {
  if (from == nullptr || bytes == 0) return nullptr;
  const auto size = static_cast<std::size_t>(bytes);
  auto buffer = gpu::DeviceBuffer::make(gpu_, size);
  if (!buffer) return tl::unexpected(buffer.error());
  const std::span bytes_of_it{static_cast<const std::byte*>(from), size};
  if (Status ok = gpu::upload(*gpu_, buffer->pointer(), bytes_of_it); !ok)
    return tl::unexpected(ok.error());
  copies_.push_back(std::move(*buffer));
  return copies_.back().data();
}

Status CallOperands::upload() {
  Status ok;
  for_each_operand([&](auto which) {
    if (!ok || which == Operand::c) return;
    if (const ExtraOperand* const extra = extra_of(gemm_, which); extra != nullptr && extra->host) {
      pointer<which>(operands_) = pointer<which>(sets_[0]);
      return;
    }
    const auto copy = copied(pointer<which>(sets_[0]), span_bytes(gemm_, which));
    if (!copy)
      ok = tl::unexpected(copy.error());
    else
      pointer<which>(operands_) = *copy;
  });
  if (!lists_products(gemm_)) return ok;
  list_ = entries_of(gemm_, sets_[0].groups, operands_);
  operands_.list = list_.data();
  return ok;
}

}  // namespace kiln
