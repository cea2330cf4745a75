// kiln's own plain product, then one pass of what follows it: what fusing both is worth. The pass
// is compiled for the problem, reads and writes whole vectors along rows, and runs on as many
// threads as the product.
#include <fmt/format.h>

#include <array>
#include <vector>

#include "bench/peer.h"
#include "engine/plan.h"
#include "generator/expression/halves.h"
#include "generator/families/cpu/common/host.h"
#include "generator/problem/epilogue.h"
#include "generator/problem/extent.h"
#include "generator/problem/fields.h"
#include "generator/problem/gate.h"
#include "generator/problem/problem.h"
#include "generator/render/render.h"
#include "runtime/compiler.h"
#include "runtime/cpu/cpu.h"
#include "runtime/cpu/kernel.h"
#include "runtime/cpu/reductions.h"
#include "runtime/cpu/thread_pool.h"

namespace kiln {
namespace {

constexpr std::array<std::string_view, 8> kFiles{"cpu/common/abi.h",    "cpu/common/types.h",
                                                 "cpu/common/vector.h", "cpu/common/small_floats.h",
                                                 "cpu/common/amax.h",   "cpu/common/epilogue.h",
                                                 "cpu/common/share.h",  "cpu/pass/pass.cpp"};

/// Whether rows are reduced as soon as they are there: nothing else is reduced.
bool row_by_row(const TemplateValues& values) {
  return values.at("reduces_rows") == "1" && values.at("reduces_columns") != "1" &&
         values.at("reduces_all") != "1";
}

struct Pass {
  Source source;
  bool row_by_row = false;
};

/// Errors: unsupported (types that no vectors compute).
Result<Pass> pass_of(const Problem& whole, const DeviceCaps& device) {
  const Problem problem = of_kernels(whole, /*in_d=*/false);
  const Isa isa = host::isas(device).front();
  const auto* const row = host::widening_instruction(isa, problem, device);
  const auto* const any = row != nullptr ? row : host::instruction(isa, problem, device);
  if (any == nullptr) return fail(ErrorCode::unsupported, "separate: no vectors of these types");
  Parameters parameters;
  host::add_common(parameters, problem, device, isa, *any, any->vector_bytes);
  host::add_shares(parameters, Parallel::m, 1, 1, 1);
  Pass pass;
  pass.row_by_row = row_by_row(parameters.values);
  parameters.values["row_by_row"] = value_of(pass.row_by_row);
  auto text = paste(kFiles, parameters);
  if (!text) return tl::unexpected(text.error());
  pass.source = {std::move(*text), "kiln_pass.cpp", host::flags(isa, device)};
  return pass;
}

class SeparateKernel final : public PeerKernel {
 public:
  static Result<std::unique_ptr<PeerKernel>> make(Plan product, const Gemm& gemm, int threads) {
    const auto device = detect_cpu(threads);
    if (!device) return tl::unexpected(device.error());
    const Problem problem = Problem::of(gemm).value();
    const auto pass = pass_of(problem, *device);
    if (!pass) return tl::unexpected(pass.error());
    const auto compiler = host_compiler();
    if (!compiler) return tl::unexpected(compiler.error());
    const auto binary = (*compiler)->compile(pass->source);
    if (!binary) return tl::unexpected(binary.error());
    auto kernel = HostKernel::load(binary->image);
    if (!kernel) return tl::unexpected(kernel.error());
    return std::unique_ptr<PeerKernel>(new SeparateKernel(
        std::move(product), problem, std::move(*kernel), threads, pass->row_by_row));
  }

  void run(const Operands& operands) override {
    Operands product = operands;
    product.threads = threads_;
    product.extra = {};
    product.outputs = {};
    product.bias = product.residual = nullptr;
    // In D's place, which saves a matrix, where there is a D.
    if (!own_d_.empty()) product.d = own_d_.data();
    (void)product_.run(product);  // which ran once
    Operands pass = operands;
    pass.c = product.d;
    pass.alpha = 0, pass.beta = 1;
    (void)follow(make_args(problem_, pass));
  }

 private:
  SeparateKernel(Plan product, const Problem& problem, HostKernel kernel, int threads,
                 bool row_by_row)
      : product_(std::move(product)),
        problem_(problem),
        kernel_(std::move(kernel)),
        threads_(threads),
        row_by_row_(row_by_row) {
    const Gemm& g = problem_.gemm;
    if (!g.epilogue.expression.stores_d()) {
      Gemm plain = g;
      plain.epilogue = {};
      own_d_.resize(std::size_t(span_bytes(plain, Operand::d)));
    }
    if (row_by_row_) lines_.resize(std::size_t(threads_) * kExpressionOutputs * std::size_t(g.n));
  }

  Status follow(const HostArgs& args) {
    const auto pass = [&](const KilnArgs& own) {
      parallel(threads_, [&](int thread, int count) {
        KilnArgs mine = own;
        if (row_by_row_) keep_one_row(mine, thread);
        kernel_.gemm(&mine, thread, count);
      });
    };
    return reducing(
        args,
        [&](const HostArgs& own) {
          pass(own);
          return Status{};
        },
        [&](const KilnArgs& behind) {
          if (row_by_row_) return;
          for (const KilnGemmFn step : kernel_.reduce)
            if (step != nullptr)
              parallel(threads_, [&](int thread, int count) { step(&behind, thread, count); });
        });
  }

  /// What waits to be reduced is a row at a time, in memory of the thread's own.
  void keep_one_row(KilnArgs& to, int thread) {
    const Expression product = expression::of_product(problem_.gemm.epilogue.expression);
    const expression::Halves* const halves = product.program()->half_of;
    const std::array<void*, kExpressionOutputs> values = {to.outputs[0], to.outputs[1],
                                                          to.outputs[2], to.outputs[3]};
    for (std::size_t i = 0; i < product.outputs().size(); ++i) {
      const bool hidden = halves != nullptr && i >= halves->outputs;
      if (!hidden && !expression::is_reduced(product.outputs()[i])) continue;
      std::size_t first = 0;  // values that share memory go on sharing it
      while (values.at(first) != values.at(i)) ++first;
      to.outputs[i] = lines_.data() + (std::size_t(thread) * kExpressionOutputs + first) *
                                          std::size_t(problem_.gemm.n);
      to.output_ld[i] = to.output_stride[i] = 0;
    }
  }

  Plan product_;
  Problem problem_;
  HostKernel kernel_;
  int threads_;
  bool row_by_row_;
  std::vector<std::byte> own_d_;  // where none is stored
  std::vector<double> lines_;     // a row of each value that is reduced, for each thread
};

class SeparatePeer final : public Peer {
 public:
  explicit SeparatePeer(Engine& engine) : engine_(engine) {}
  std::string name() const override { return "separate"; }
  std::string version() const override { return fmt::format("kiln {}", kiln::version()); }
  std::string note() const override {
    return version() + ", its product and then a pass of what follows over D";
  }
  bool rounds_products() const override { return true; }
  bool supports(const Gemm& gemm, int) const override {
    const Gemm plain = plain_product_of(gemm);
    const DType type = gemm.d.dtype;
    return !epilogue_of(gemm).empty() && !gated(gemm) && is_plain_product(plain) &&
           !gemm.b_packed && (type == fp32 || type == fp64 || type == fp16 || type == bf16) &&
           is_floating(gemm.a.dtype);
  }
  Result<std::unique_ptr<PeerKernel>> prepare(const Gemm& gemm, int threads) override {
    auto product = engine_.plan(plain_product_of(gemm), threads);
    if (!product) return tl::unexpected(product.error());
    return SeparateKernel::make(std::move(*product), gemm, threads);
  }

 private:
  Engine& engine_;
};

}  // namespace

Gemm plain_product_of(Gemm gemm) {
  gemm.epilogue = {};
  return gemm;
}

std::unique_ptr<Peer> separate_peer(Engine& engine) {
  return std::make_unique<SeparatePeer>(engine);
}

}  // namespace kiln
