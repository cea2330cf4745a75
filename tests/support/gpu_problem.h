// Operands of a problem on a GPU, and how far a result is from the reference.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "generator/problem/extent.h"
#include "kiln/engine.hpp"
#include "runtime/gpu/device.h"
#include "tuner/verify/data.h"
#include "tuner/verify/reference.h"

namespace kiln::test {

/// Operands on the host, and copies on the device whose addresses are `shift` bytes off alignment.
class GpuProblem {
  using Bytes = std::vector<std::byte>;

 public:
  GpuProblem(gpu::SharedDevice device, const Gemm& gemm, std::size_t shift = 0)
      : device_(std::move(device)), gemm_(gemm), shift_(shift) {
    a_ = filled(Operand::a);
    b_ = filled(Operand::b);
    d_ = Bytes(bytes(Operand::d));
    for (const auto& [from, to] : {std::pair{&a_, &on_a_}, {&b_, &on_b_}, {&d_, &on_d_}}) {
      *to = gpu::DeviceBuffer::make(device_, from->size() + shift).value();
      EXPECT_TRUE(gpu::upload(*device_, to->pointer() + shift, *from));
    }
  }

  Operands operands() const {
    return {.a = on_a_.data() + shift_, .b = on_b_.data() + shift_, .d = on_d_.data() + shift_};
  }

  /// Largest difference from the reference, in units of what fp32 sums of this length may lose.
  double error() {
    const gpu::Guest guest(*device_);
    device_->driver().cuCtxSynchronize();
    device_->driver().cuMemcpyDtoH(d_.data(), on_d_.pointer() + shift_, d_.size());
    Bytes want(d_.size());
    EXPECT_TRUE(reference_gemm(gemm_, {.a = a_.data(), .b = b_.data(), .d = want.data()}));
    double worst = 0;
    const auto* x = reinterpret_cast<const float*>(d_.data());
    const auto* y = reinterpret_cast<const float*>(want.data());
    for (std::size_t i = 0; i < d_.size() / 4; ++i)
      worst = std::max(worst, std::fabs(double(x[i]) - double(y[i])));
    return worst;
  }

 private:
  std::size_t bytes(Operand which) const {
    return static_cast<std::size_t>(span(gemm_, which) * size_of(matrix(gemm_, which).dtype));
  }
  Bytes filled(Operand which) {
    Bytes out(bytes(which));
    fill(gemm_, which, Data::uniform, 1, out.data());
    return out;
  }

  gpu::SharedDevice device_;
  Gemm gemm_;
  std::size_t shift_;
  Bytes a_, b_, d_;
  gpu::DeviceBuffer on_a_, on_b_, on_d_;
};

}  // namespace kiln::test
