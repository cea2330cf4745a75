// Makes a database of invented shapes, as long searches on two devices would have left it:
// report_invented FILE COUNT. Its texts hold what could end the page's script.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "cache/record.h"
#include "cache/records/devices.h"
#include "cache/records/measurements.h"
#include "cache/records/ranges.h"
#include "cache/records/winners.h"
#include "cache/rows/range_table.h"
#include "cache/store.h"
#include "generator/families/cpu/library/config.h"
#include "generator/families/cpu/packed/config.h"
#include "generator/families/cuda/library/config.h"
#include "generator/families/cuda/mma/config.h"
#include "generator/problem/extent.h"

namespace kiln {
namespace {

constexpr int kCandidates = 20;
const Validators kMadeBy{.template_hash = "t", .compiler = "c", .runtime = "r"};

struct Machine {
  DeviceCaps device;
  std::string policy;
  double flops = 0, bytes = 0;  // a second
  std::vector<DType> types;
};

std::vector<Machine> machines() {
  DeviceCaps cpu = cpu_caps_named("avx512").value();
  cpu.model = "Invented CPU </script><b>";
  cpu.compute_units = 2;
  DeviceCaps gpu = cuda_caps_named("sm_90a").value();
  gpu.model = "Invented GPU";
  return {{cpu, "cold-v1", 4e11, 3e10, {fp32, fp64, bf16}},
          {gpu, "cuda-cold-v1", 8e14, 3e12, {bf16, fp16, fp32}}};
}

class Inventor {
 public:
  explicit Inventor(Store& store) : store_(store) {}

  Status shape(const Machine& machine, const Gemm& gemm) {
    const BestKey key{.device = machine.device, .gemm = gemm, .policy = machine.policy};
    const double least =
        1e9 * std::max(gemm.flops() / machine.flops,
                       double(span_bytes(gemm, Operand::a) + span_bytes(gemm, Operand::b)) /
                           machine.bytes) +
        3000;
    std::vector<Config> tried;
    for (int i = 0; i < kCandidates; ++i) {
      const Config config = drawn(machine);
      if (std::ranges::find(tried, config) != tried.end()) continue;
      tried.push_back(config);
      const bool fails = i > 0 && random_() % 9 == 0;
      if (Status put = fails ? store_.measurements().put(key, kMadeBy, failure(config))
                             : time(key, config, least * (1.05 + 0.9 * share()));
          !put)
        return put;
    }
    const Config library =
        machine.device.vendor == Vendor::cpu ? Config(BlasLibrary{}) : Config(CudaLibrary{});
    if (Status put = time(key, library, least * (1.05 + 0.8 * share())); !put) return put;
    return store_.winners().make_winner(key, kMadeBy, tried.front());
  }

  Status range(const Machine& machine) {
    const GemmRange range = Gemm::row_major(4096, 4096, 4096, bf16).transpose_b().with_m(1, 4096);
    BestKey key{.device = machine.device, .policy = machine.policy};
    RangeTable table;
    for (std::int64_t m = 1; m <= range.last(); m *= 2) {
      key.gemm = range.at(m);
      if (Status put = shape(machine, key.gemm); !put) return put;
      const Config first = store_.measurements().known(key, kMadeBy).front().config;
      table.cells.push_back({m, m, first, 1000.0 * double(m)});
    }
    return store_.ranges().put(key, range, table);
  }

  std::int64_t size() { return std::int64_t(std::exp2(2 + 11 * share())); }
  std::uint64_t number() { return random_(); }

 private:
  double share() { return double(random_() >> 11) * 0x1p-53; }

  Config drawn(const Machine& machine) {
    if (machine.device.vendor == Vendor::cpu)
      return HostPacked{.mr = 4 + 2 * int(random_() % 5),
                        .nv = 1 + int(random_() % 4),
                        .kc = 128 << random_() % 3};
    return CudaMma{.block_m = 32 << random_() % 4,
                   .block_n = 32 << random_() % 4,
                   .stages = 2 + int(random_() % 4)};
  }

  Measured failure(const Config& config) {
    const auto kind = static_cast<Failure::Kind>(random_() % (int(Failure::kLastKind) + 1));
    return {.config = config, .outcome = Failure{kind, "what </script><!-- it said"}};
  }

  Status time(const BestKey& key, const Config& config, double ns) {
    return store_.measurements().put(key, kMadeBy,
                                     {.config = config,
                                      .predicted_ns = ns,
                                      .outcome = Timing{ns, ns * 0.99, ns * 1.01, 31},
                                      .round = Round::race,
                                      .verified = true});
  }

  Store& store_;
  std::mt19937_64 random_{7};
};

Status invent(const char* file, int count) {
  auto store = Store::open({.database = file});
  if (!store) return tl::unexpected(store.error());
  if (count == 0) return {};
  Inventor inventor(**store);
  const auto all = machines();
  if (Status put = inventor.range(all[1]); !put) return put;
  if (Status put = (*store)->devices().raise_peak(all[0].device, fp32, all[0].flops); !put)
    return put;
  for (int i = 13; i < count; ++i) {  // the range has thirteen
    const Machine& machine = all[i % all.size()];
    const DType type = machine.types[inventor.number() % machine.types.size()];
    Gemm gemm = Gemm::row_major(inventor.size(), inventor.size(), inventor.size(), type);
    if (inventor.number() % 2) gemm = gemm.transpose_b();
    if (Status put = inventor.shape(machine, gemm); !put) return put;
  }
  return {};
}

}  // namespace
}  // namespace kiln

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const kiln::Status made = kiln::invent(argv[1], std::atoi(argv[2]));
  if (!made) std::fprintf(stderr, "%s\n", made.error().message.c_str());
  return made ? 0 : 1;
}
