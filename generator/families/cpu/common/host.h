// What the host families share: instruction choice, types, epilogue values and small arithmetic.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "generator/families/cpu/common/instructions.h"
#include "generator/families/cpu/common/microarchitectures.h"
#include "generator/problem/taken.h"
#include "generator/space/family.h"
#include "generator/space/parameters.h"

namespace kiln::host {

/// The row that computes the problem with `isa` on `device`, or null. Weights become fp32.
const DotInstruction* instruction(Isa isa, const Problem& problem, const DeviceCaps& device);

/// The row that computes the problem as fp32, or null.
const DotInstruction* widening_instruction(Isa isa, const Problem& problem,
                                           const DeviceCaps& device);

/// What the templates call a type; empty where no host kernel reads it.
std::string_view c_type(DType t);

/// Instruction sets that the device has, best first.
std::vector<Isa> isas(const DeviceCaps& device);

/// Both operands are signed bytes, and the instruction wants one unsigned: A is shifted by 128.
bool shifts_a(const Problem& problem, const DotInstruction& row);

/// The values and constants that templates/cpu/common/vector.h and epilogue.h expect.
void add_common(Parameters& to, const Problem& problem, const DeviceCaps& device, Isa isa,
                const DotInstruction& row, int vector_bytes, bool any_epilogue = false);
/// Constants and values of weights in groups, if B holds such: what decode.h and weights.cpp
/// expect.
void add_weights(Parameters& to, const Gemm& gemm);
/// Divides a call's work as a config's keys say; 0 stands for a key that the family has not.
KilnDivision division(int mc, int nc, int kc, Inner inner, Parallel parallel);
/// Whether k is divided among threads, and at which multiples the others are: what
/// templates/cpu/common/share.h expects.
void add_shares(Parameters& to, Parallel way, int row_unit, int column_unit, int k_group);
/// What templates/cpu/common/epilogue.h computes in every family.
inline constexpr Features kOffers = taken({"amax_d", "expression"});
/// A kernel that computes one group is called for each, and for each product of a list; rows are
/// taken and added by index around it.
inline constexpr Features kOffersGroups =
    kOffers | kAnyGroups | Features{Feature::lists, Feature::indexed_rows, Feature::added_rows};

/// Whether accumulators of a part of k need a workspace, because D's type would round them or D has
/// no room for both factors'.
bool needs_partial_accumulators(const Problem& problem);

/// Whether a vector of columns, whose number is a constant of the code, has one that D stores in
/// less than 4 bytes: what templates/cpu/common/vector.h must hide from the compiler.
bool stores_lone_column(const Gemm& gemm, int lanes, std::int64_t columns);

/// How an accumulator of this instruction takes one step of k after the other: see summation.h.
/// Instructions of one name round alike, whatever the width of their vectors.
std::string chain(const DotInstruction& row);

/// The tile of a canonical problem as the caller's m and n.
Tile tile_of(const Problem& problem, Tile canonical);

/// Registers that hold vectors.
constexpr int vector_registers(Isa isa) { return isa == Isa::avx512 || isa == Isa::amx ? 32 : 16; }

/// The most that a product or addition of the instructions may lose to flushed denormals.
double flushed_by(Isa isa, const Gemm& gemm, const DeviceCaps& device);

/// Compiler flags of `isa` on `device`, the target first.
std::vector<std::string> flags(Isa isa, const DeviceCaps& device);

/// The model's estimates of one core: its row of microarchitectures.h at its clock. Only ratios
/// matter.
struct Rates {
  double dots_per_ns;       // vector multiply-accumulates
  double l1, l2, l3, dram;  // bytes a nanosecond
  double cycle;             // nanoseconds
  double chains;            // dots that must be in flight, or they wait for each other
};
Rates rates(const DeviceCaps& device, Isa isa);

/// Bytes of A, B and D of one product.
double touched_bytes(const Gemm& gemm);
/// Whether a call that touches so many bytes finds them in cache: one of more than a quarter of L2
/// is one of many on other data, as it is measured.
bool stays_in_cache(const DeviceCaps& device, double touched);
/// Whether lines of a matrix lie so far apart that prefetchers begin anew at each.
bool rows_apart(const Matrix& matrix);
/// Bytes a nanosecond at which `bytes` of a caller's matrix come, all threads' together.
double far_rate(const DeviceCaps& device, const Rates& rate, double touched, double bytes);

/// Whether CPUs of these features multiply pairs of bf16 slower than they multiply them as fp32:
/// which configs there are depends on it, so the core's model does not.
bool slow_pairs(const DeviceCaps& device);
/// Vector multiply-accumulates that the core does in the time of one vdpbf16ps.
double dots_of_a_pair(const DeviceCaps& device);

/// Of a row's instruction, as Rates.
double dots_per_ns(const DeviceCaps& device, const DotInstruction& row);

}  // namespace kiln::host
