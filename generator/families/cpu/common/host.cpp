#include "generator/families/cpu/common/host.h"

#include <fmt/format.h>

#include <utility>

#include "generator/expression/code.h"
#include "generator/problem/epilogue.h"
#include "generator/problem/extent.h"
#include "generator/problem/fields.h"
#include "generator/problem/gate.h"
#include "generator/problem/gemm_types.h"

namespace kiln::host {

std::string_view c_type(DType t) {
  switch (t) {
    case DType::fp32:
      return "float";
    case DType::fp64:
      return "double";
    case DType::fp16:
      return "Half";
    case DType::bf16:
      return "Bfloat";
    case DType::s8:
      return "i8";
    case DType::u8:
    case DType::s4:  // two to a byte
    case DType::u4:
    case DType::fp8_e4m3:  // codes of weights
    case DType::fp4_e2m1:
      return "u8";
    case DType::s32:
      return "i32";
    case DType::fp8_e5m2:
    case DType::tf32:
    case DType::fp8_e4m3fnuz:
    case DType::fp8_e5m2fnuz:
    case DType::fp6_e2m3:
    case DType::fp6_e3m2:
      break;  // no row of the instruction table computes them
  }
  return "";
}

namespace {

bool has(Isa isa, const DeviceCaps& device) {
  return isa == Isa::portable || (isa == Isa::avx2 ? device.cpu.avx2_fma : device.cpu.avx512);
}

/// Of vectors of L columns from `column` on, in one row: templates/cpu/common/functions.h.
constexpr expression::Dialect kDialect{
    .bias = "Real",
    .type = c_type,
    .operand = "{x}",
    .definition = "const Value {x}",
    .one = "same<L>(out.{x})",
    .along_m = "same<L>(out.{x} + {row})",
    .along_n = "load_real<L>(out.{x} + column, columns)",
    .rows = "load_real<L>(out.{x} + {row} * out.{ld} + column, columns)",
    .columns = "apart<L>(out.{x} + column * out.{ld} + {row}, out.{ld}, columns)",
    .shared_along_n = "shared<L, {per}>(out.{x}, 1, column, columns)",
    .shared_rows = "shared<L, {per}>(out.{x} + {row} * out.{ld}, 1, column, columns)",
    .shared_columns = "shared<L, {per}>(out.{x} + {row}, out.{ld}, column, columns)",
    .store_rows = "store_real<L>(out.{x} + row * out.{ld} + column, {value}, columns);",
    .store_columns = "scatter<L>(out.{x} + column * out.{ld} + row, out.{ld}, {value}, columns);",
    .store_value = "store_real<L>(out.{x} + row * out.{ld} + column, {value}, columns);",
    .store_narrow = "store_narrow<L>(out.{x} + row * out.{ld} + column, {value}, columns);",
    .store_along_m = "if (column == 0) store_real<L>(out.{x} + row, {value}, 1);",
    .store_along_n = "if (row == 0) store_real<L>(out.{x} + column, {value}, columns);",
    .store_one = "if (row == 0 && column == 0) store_real<L>(out.{x}, {value}, 1);",
    .store_shared_rows =
        "store_shared<L, {per}>(out.{x} + row * out.{ld}, 1, column, {value}, columns);",
    .store_shared_columns =
        "store_shared<L, {per}>(out.{x} + row, out.{ld}, column, {value}, columns);",
    .block_field = "Real {x}[kMostOfBlocks];",
    .keep_block = "store_real<L>(blocks.{x} + at, {value}, columns);",
    .block = "load_real<L>(blocks.{x} + at, columns)",
    .reduce_block = "BlocksOf<{how}, {per}>::reduce(blocks.{x}, columns);",
    .value = "Real",
    .second = "second",
    .m = "Value(Real(row + out.first_row))",
    .n = "counted<L>(column, Iota<L>{})",
    .first_row = "args.first_row",
    .fetch = "__builtin_prefetch(out.{x} + to * out.{ld} + first, {write});"};

}  // namespace

const DotInstruction* instruction(Isa isa, const Problem& problem, const DeviceCaps& device) {
  if (!has(isa, device)) return nullptr;
  if (has_weights(problem.gemm)) return kiln::widening_instruction(isa, fp32, fp32);
  return dot_instruction(isa, device.cpu, problem.gemm.a.dtype, problem.gemm.b.dtype);
}

const DotInstruction* widening_instruction(Isa isa, const Problem& problem,
                                           const DeviceCaps& device) {
  if (!has(isa, device)) return nullptr;
  return kiln::widening_instruction(isa, problem.gemm.a.dtype, problem.gemm.b.dtype);
}

std::vector<Isa> isas(const DeviceCaps& device) {
  if (device.cpu.avx512) return {Isa::avx512};
  if (device.cpu.avx2_fma) return {Isa::avx2};
  return {Isa::portable};
}

bool shifts_a(const Problem& problem, const DotInstruction& row) {
  return row.kind == Kind::vnni && problem.gemm.a.dtype == s8 && problem.gemm.b.dtype == s8;
}

bool needs_partial_accumulators(const Problem& problem) {
  return gated(problem.gemm) || problem.gemm.d.dtype != problem.gemm.accumulator ||
         !is_floating(problem.gemm.d.dtype);
}

void add_common(Parameters& to, const Problem& problem, const DeviceCaps& device, Isa isa,
                const DotInstruction& row, int vector_bytes, bool any_epilogue) {
  Gemm g = problem.gemm;
  if (any_epilogue) g.epilogue = {};
  to.constants.push_back({"using", "TypeA", std::string(c_type(g.a.dtype)), "elements of A"});
  to.constants.push_back({"using", "TypeB", std::string(c_type(g.b.dtype)), "elements of B"});
  const bool fp8_d = g.d.dtype == fp8_e4m3;
  to.constants.push_back(
      {"using", "TypeD", std::string(fp8_d ? "Float8" : c_type(g.d.dtype)), "elements of C and D"});
  to.constants.push_back(
      number("kVectorBytes", vector_bytes, fmt::format("accumulators of {}", row.name)));
  auto& v = to.values;
  v["kind"] = name(row.kind);
  v["isa"] = name(isa);
  v["masks"] = value_of(isa == Isa::avx512);
  v["f16c"] = value_of(isa != Isa::portable);
  v["fma"] = value_of(isa != Isa::portable || device.arch == "aarch64");
  v["unsigned_a"] = value_of(g.a.dtype == u8 || shifts_a(problem, row));
  v["dotted"] = value_of(row.group > 1);
  v["a_k_major"] = value_of(problem.a_k_major);
  v["b_k_major"] = value_of(problem.b_k_major);
  add_epilogue(v, g);
  v["epilogue"] = any_epilogue ? "call" : "constant";
  v["exponential"] = value_of(any_epilogue || expression::uses_exponential(epilogue_of(g)));
  expression::Dialect dialect = kDialect;
  dialect.arguments = arguments_of_epilogue(g);
  to.texts = expression::code_of(epilogue_of(g), types_of_epilogue(g), dialect);
  v["stacked"] = value_of(gated(g) && !interleaved(g));
  v["interleaved"] = value_of(interleaved(g));
  v["codes"] = "none";
  v["fp8_d"] = value_of(fp8_d);
  v["stream_d"] = "0";
  v["stream_rows"] = v["rows_d"] = "0";
  v["blocked"] = "0";
  v["long_runs"] = v["right_t1"] = "0";
  v["lone_column"] = "0";
  v["scales"] = value_of(g.a.q.scale != Scale::none || g.b.q.scale != Scale::none);
  for (const auto& [side, scale] : {std::pair{"a", g.a.q.scale}, {"b", g.b.q.scale}}) {
    const bool of_sums = g.accumulator == s32 && scale != Scale::none;
    v[fmt::format("line_scale_{}", side)] = value_of(of_sums);
    v[fmt::format("tensor_scale_{}", side)] = value_of(of_sums && scale == Scale::tensor);
  }
  v["mx_scales"] = value_of(g.b.q.scale == Scale::mx_32);
  v["zeros"] = value_of(g.b.q.zero != Zero::none);
  v["groups"] = value_of(false);
  v["scale_d"] = "none";
  v["zero_a"] = EnumNames<Zero>::names[static_cast<std::size_t>(g.a.q.zero)];
  v["indexed"] = value_of(false);
  v["amax"] = value_of(g.amax_d);
  v["accumulate"] = needs_partial_accumulators(problem) ? "workspace" : "d";
}

void add_weights(Parameters& to, const Gemm& gemm) {
  const int bits = bits_of(gemm.b.dtype), along = scale_block(gemm.b.q.scale).along;
  auto& v = to.values;
  v["weights"] = value_of(has_weights(gemm));
  v["code_bits"] = std::to_string(bits);
  v["signed_codes"] = value_of(gemm.b.dtype != u4);
  v["integer_zeros"] = value_of(gemm.b.q.zero == Zero::integer);
  v["whole_column"] = value_of(along == 0);
  const int columns = scale_block(gemm.b.q.scale).lines;
  v["squares"] = value_of(has_weights(gemm) && columns > 1);
  if (!has_weights(gemm)) return;
  v["codes"] = code_format(gemm.b.dtype)->kind;
  const auto use = [&](const char* name, std::string_view type, const char* gloss) {
    to.constants.push_back({"using", name, std::string(type), gloss});
  };
  use("TypeScale", gemm.b.q.scale == Scale::mx_32 ? "E8m0" : c_type(gemm.b.q.type), "scales of B");
  if (gemm.b.q.zero != Zero::none)
    use("TypeZero", c_type(dtype_of(gemm, Operand::zero_b)), "its zero points");
  to.constants.push_back(number("kCodeBits", bits, "bits of an element of B"));
  if (along > 0)
    to.constants.push_back(number("kGroupK", along, "elements along k that share a scale"));
  if (columns > 1)
    to.constants.push_back(number("kGroupColumns", columns, "columns of B that share a scale"));
}

KilnDivision division(int mc, int nc, int kc, Inner inner, Parallel parallel) {
  static_assert(int(Parallel::none) == kilnParallelNone &&
                int(Parallel::batch) == kilnParallelBatch && int(Parallel::m) == kilnParallelM &&
                int(Parallel::n) == kilnParallelN && int(Parallel::grid) == kilnParallelGrid &&
                int(Parallel::k) == kilnParallelK);
  return {mc, nc, kc, inner == Inner::columns, static_cast<int>(parallel)};
}

void add_shares(Parameters& to, Parallel way, int row_unit, int column_unit, int k_group) {
  const bool split_k = way == Parallel::k;
  to.values["split_k"] = value_of(split_k);
  const auto add = [&](const char* name, int unit, const char* gloss) {
    to.constants.push_back(number(name, unit, gloss));
  };
  if (split_k) return add("kKUnit", 4 * k_group, "k is divided among threads at multiples of this");
  add("kRowUnit", row_unit, "rows are divided among threads at multiples of this");
  add("kColumnUnit", column_unit, "columns are divided among threads at multiples of this");
}

bool stores_lone_column(const Gemm& gemm, int lanes, std::int64_t columns) {
  return columns % lanes == 1 && size_of(gemm.d.dtype) < 4;
}

std::string chain(const DotInstruction& row) { return fmt::format("{} chain", row.name); }

Tile tile_of(const Problem& problem, Tile canonical) {
  if (problem.swapped) {
    std::swap(canonical.m, canonical.n);
    std::swap(canonical.block_m, canonical.block_n);
    std::swap(canonical.step_m, canonical.step_n);
  }
  return canonical;
}

double flushed_by(Isa isa, const Gemm& gemm, const DeviceCaps& device) {
  const auto* row = dot_instruction(isa, device.cpu, gemm.a.dtype, gemm.b.dtype);
  return row != nullptr && row->flushes ? 0x1p-126 : 0;
}

std::vector<std::string> flags(Isa isa, const DeviceCaps& device) {
  std::vector<std::string> f{"-std=c++20",      "-O3",       "-ffp-contract=off",
                             "-fno-exceptions", "-fno-rtti", "-fno-math-errno",
                             "-Wno-psabi"};
  switch (isa) {
    case Isa::avx512:
    case Isa::amx:
      f.insert(f.end(), {"-march=x86-64-v4", "-mprefer-vector-width=512"});
      if (device.cpu.avx512_bf16) f.push_back("-mavx512bf16");
      if (device.cpu.avx512_vnni) f.push_back("-mavx512vnni");
      if (isa == Isa::amx) f.insert(f.end(), {"-mamx-tile", "-mamx-bf16", "-mamx-int8"});
      break;
    case Isa::avx2:
      f.push_back("-march=x86-64-v3");
      break;
    case Isa::portable:
      if (device.arch == "aarch64") f.push_back("--target=aarch64-linux-gnu");
      break;
  }
  return f;
}

Rates rates(const DeviceCaps& device, Isa isa) {
  const double ghz = device.ghz > 0 ? device.ghz : 3.0;
  const Microarchitecture& core = microarchitecture(device);
  const VectorRates& vectors = core.of(isa);
  return {.dots_per_ns = vectors.fmas * ghz,
          .l1 = vectors.l1 * ghz,
          .l2 = vectors.l2 * ghz,
          .l3 = core.l3 * ghz,
          .dram = core.memory,
          .cycle = 1 / ghz,
          .chains = vectors.fmas * vectors.latency};
}

double touched_bytes(const Gemm& g) {
  return double(g.m) * double(g.k) * size_of(g.a.dtype) +
         double(g.n) * double(g.k) * size_of(g.b.dtype) +
         double(g.m) * double(g.n) * size_of(g.d.dtype);
}

bool stays_in_cache(const DeviceCaps& device, double touched) {
  return touched <= 0.25 * double(device.l2_bytes);
}

bool rows_apart(const Matrix& matrix) { return double(matrix.ld) * size_of(matrix.dtype) >= 2048; }

double far_rate(const DeviceCaps& device, const Rates& rate, double touched, double bytes) {
  if (stays_in_cache(device, touched)) return rate.l2;
  return bytes < microarchitecture(device).far_bytes ? rate.l3 : rate.dram;
}

bool slow_pairs(const DeviceCaps& device) {
  const Microarchitecture& core = microarchitecture(device.cpu);
  return core.pairs < core.avx512.fmas;
}

double dots_of_a_pair(const DeviceCaps& device) {
  const Microarchitecture& core = microarchitecture(device);
  return core.avx512.fmas / core.pairs;
}

double dots_per_ns(const DeviceCaps& device, const DotInstruction& row) {
  const Rates all = rates(device, row.isa);
  const Microarchitecture& core = microarchitecture(device);
  if (row.kind == Kind::bf16) return core.pairs / all.cycle;
  return row.kind == Kind::vnni ? core.quads / all.cycle : all.dots_per_ns;
}

}  // namespace kiln::host
