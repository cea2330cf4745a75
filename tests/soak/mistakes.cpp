#include "soak/mistakes.h"

#include <cctype>
#include <climits>
#include <cstring>

#include "generator/problem/extent.h"
#include "generator/problem/gemm_types.h"
#include "kiln/dtype.hpp"

namespace kiln::soak {
namespace {

/// Any bits, as a C caller may leave them in an enum: an assignment would be undefined.
template <typename E>
void set_bits(E& field, int value) {
  static_assert(sizeof(E) == sizeof value);
  std::memcpy(&field, &value, sizeof value);
}

bool small_float(DType type) { return is_floating(type) && bits_of(type) <= 8; }

template <kiln_matrix kiln_gemm_desc::*Which, int Value>
bool wrong_dtype(Arguments& x) {
  set_bits((x.desc.*Which).dtype, Value);
  return true;
}
template <kiln_matrix kiln_gemm_desc::*Which, int Value>
bool wrong_order(Arguments& x) {
  set_bits((x.desc.*Which).order, Value);
  return true;
}
template <kiln_matrix kiln_gemm_desc::*Which, std::int64_t Value>
bool wrong_stride(Arguments& x) {
  (x.desc.*Which).batch_stride = Value;
  return Value < 0 || x.gemm.batch > 1;
}
template <kiln_matrix kiln_gemm_desc::*Which>
bool negative_ld(Arguments& x) {
  (x.desc.*Which).ld = -1;
  return true;
}
template <kiln_matrix kiln_gemm_desc::*Which, Operand Of>
bool short_ld(Arguments& x) {
  (x.desc.*Which).ld = extent(x.gemm, Of).length - 1;
  return extent(x.gemm, Of).length > 1;
}
/// One line of it is legal: nothing lies a pitch away.
template <kiln_matrix kiln_gemm_desc::*Which, Operand Of>
bool huge_ld(Arguments& x) {
  (x.desc.*Which).ld = INT64_MAX;
  return extent(x.gemm, Of).lines > 1 || bits_of(matrix(x.gemm, Of).dtype) > 8;
}
template <auto Field, int Value>
bool wrong_enum(Arguments& x) {
  set_bits(x.desc.*Field, Value);
  return true;
}
template <auto Field, std::int64_t Value>
bool wrong_number(Arguments& x) {
  x.desc.*Field = Value;
  return true;
}

// One row a field of each matrix.
#define KILN_MATRIX_MISTAKES(x, X)                                                             \
  {"dtype -1 of " #x, #x ".dtype", wrong_dtype<&kiln_gemm_desc::x, -1>},                       \
      {"dtype 77 of " #x, #x ".dtype", wrong_dtype<&kiln_gemm_desc::x, 77>},                   \
      {"dtype 256 of " #x, #x ".dtype", wrong_dtype<&kiln_gemm_desc::x, 256>},                 \
      {"order -1 of " #x, #x ".order", wrong_order<&kiln_gemm_desc::x, -1>},                   \
      {"order 2 of " #x, #x ".order", wrong_order<&kiln_gemm_desc::x, 2>},                     \
      {"order 256 of " #x, #x ".order", wrong_order<&kiln_gemm_desc::x, 256>},                 \
      {"negative stride of " #x, #x ".batch_stride", wrong_stride<&kiln_gemm_desc::x, -1>},    \
      {"huge stride of " #x, #x ".batch_stride", wrong_stride<&kiln_gemm_desc::x, INT64_MAX>}, \
      {"negative ld of " #x, #x ".ld", negative_ld<&kiln_gemm_desc::x>},                       \
      {"short ld of " #x, #x ".ld", short_ld<&kiln_gemm_desc::x, Operand::x>}, {               \
    "huge ld of " #x, #x ".ld", huge_ld<&kiln_gemm_desc::x, Operand::x>                        \
  }

constexpr Mistake kProblemMistakes[] = {
    KILN_MATRIX_MISTAKES(a, A),
    KILN_MATRIX_MISTAKES(b, B),
    KILN_MATRIX_MISTAKES(c, C),
    KILN_MATRIX_MISTAKES(d, D),
    {"m -1", "m", wrong_number<&kiln_gemm_desc::m, -1>},
    {"m least", "m", wrong_number<&kiln_gemm_desc::m, INT64_MIN>},
    {"n -1", "n", wrong_number<&kiln_gemm_desc::n, -1>},
    {"n least", "n", wrong_number<&kiln_gemm_desc::n, INT64_MIN>},
    {"k -1", "k", wrong_number<&kiln_gemm_desc::k, -1>},
    {"k least", "k", wrong_number<&kiln_gemm_desc::k, INT64_MIN>},
    {"batch 0", "batch", wrong_number<&kiln_gemm_desc::batch, 0>},
    {"batch -1", "batch", wrong_number<&kiln_gemm_desc::batch, -1>},
    {"huge product", "m*n*k*batch",
     [](Arguments& x) {
       x.desc.m = x.desc.n = x.desc.k = std::int64_t{1} << 40;
       return true;
     }},
    {"huge batch", "m*n*k*batch",
     [](Arguments& x) {
       x.desc.batch = INT64_MAX;
       return x.gemm.m * x.gemm.n * x.gemm.k > 1;
     }},
    {"accumulator -1", "accumulator", wrong_enum<&kiln_gemm_desc::accumulator, -1>},
    {"accumulator 99", "accumulator", wrong_enum<&kiln_gemm_desc::accumulator, 99>},
    {"accumulator 256", "accumulator", wrong_enum<&kiln_gemm_desc::accumulator, 256>},
    {"accumulator fp16", "accumulator", wrong_enum<&kiln_gemm_desc::accumulator, KILN_FP16>},
    {"bias -1", "bias", wrong_enum<&kiln_gemm_desc::bias, -1>},
    {"bias 3", "bias", wrong_enum<&kiln_gemm_desc::bias, 3>},
    {"bias 256", "bias", wrong_enum<&kiln_gemm_desc::bias, 256>},
    {"activation -1", "activation", wrong_enum<&kiln_gemm_desc::activation, -1>},
    {"activation 5", "activation", wrong_enum<&kiln_gemm_desc::activation, 5>},
    {"activation 256", "activation", wrong_enum<&kiln_gemm_desc::activation, 256>},
    {"scale_a -1", "scale_a", wrong_enum<&kiln_gemm_desc::scale_a, -1>},
    {"scale_a 8", "scale_a", wrong_enum<&kiln_gemm_desc::scale_a, 8>},
    {"scale_a 256", "scale_a", wrong_enum<&kiln_gemm_desc::scale_a, 256>},
    {"scale_b -1", "scale_b", wrong_enum<&kiln_gemm_desc::scale_b, -1>},
    {"scale_b 8", "scale_b", wrong_enum<&kiln_gemm_desc::scale_b, 8>},
    {"scale_b 256", "scale_b", wrong_enum<&kiln_gemm_desc::scale_b, 256>},
    {"scale_order_a -1", "scale_order_a", wrong_enum<&kiln_gemm_desc::scale_order_a, -1>},
    {"scale_order_b 3", "scale_order_b", wrong_enum<&kiln_gemm_desc::scale_order_b, 3>},
    {"an order of other scales", "scale_order_a",
     [](Arguments& x) {
       x.desc.scale_order_a = KILN_SCALE_ORDER_BLOCKS;
       return x.gemm.a.q.scale != Scale::line_128;
     }},
    {"numerics -1", "numerics", wrong_enum<&kiln_gemm_desc::numerics, -1>},
    {"numerics 3", "numerics", wrong_enum<&kiln_gemm_desc::numerics, 3>},
    {"numerics 256", "numerics", wrong_enum<&kiln_gemm_desc::numerics, 256>},
    {"gate -1", "gate", wrong_enum<&kiln_gemm_desc::gate, -1>},
    {"gate 6", "gate", wrong_enum<&kiln_gemm_desc::gate, 6>},
    {"gate 256", "gate", wrong_enum<&kiln_gemm_desc::gate, 256>},
    {"gate_order -1", "gate_order", wrong_enum<&kiln_gemm_desc::gate_order, -1>},
    {"gate_order 2", "gate_order", wrong_enum<&kiln_gemm_desc::gate_order, 2>},
    {"a gate and an activation", "gate",
     [](Arguments& x) {
       x.desc.gate = KILN_GATE_SILU;
       x.desc.activation = KILN_RELU;
       return true;
     }},
    {"grouping -1", "grouping", wrong_enum<&kiln_gemm_desc::grouping, -1>},
    {"grouping beyond the last", "grouping",
     wrong_enum<&kiln_gemm_desc::grouping, KILN_GROUPING_LIST + 1>},
    {"grouping 256", "grouping", wrong_enum<&kiln_gemm_desc::grouping, 256>},
    {"gather -1", "gather", wrong_enum<&kiln_gemm_desc::gather, -1>},
    {"gather 2", "gather", wrong_enum<&kiln_gemm_desc::gather, 2>},
    {"scatter beyond the last", "scatter",
     wrong_enum<&kiln_gemm_desc::scatter, KILN_SCATTER_WEIGHTED + 1>},
    {"rows of A without a list", "rows_of_a",
     [](Arguments& x) {
       x.desc.rows_of_a = 1;
       const auto* const rows = std::get_if<GroupsOfRows>(&x.gemm.groups);
       return rows == nullptr || !rows->gather;
     }},
    {"fewer than no rows of D", "rows_of_d",
     [](Arguments& x) {
       x.desc.rows_of_d = -1;
       return true;
     }},
    {"a scatter without groups", "scatter",
     [](Arguments& x) {
       x.desc.scatter = KILN_SCATTER_ROWS;
       return x.gemm.grouping() != Grouping::rows;
     }},
    {"the largest magnitude of integers", "amax_d",
     [](Arguments& x) {
       x.desc.amax_d = 1;
       return !is_floating(x.gemm.d.dtype) && x.gemm.d.q.scale == Scale::none;
     }},
    {"packed B of groups", "b_packed",
     [](Arguments& x) {
       x.desc.grouping = KILN_GROUPING_ROWS;
       x.desc.b_packed = 1;
       return x.gemm.d.order == Order::row_major;
     }},
    {"zero -1", "zero", wrong_enum<&kiln_gemm_desc::zero, -1>},
    {"zero 3", "zero", wrong_enum<&kiln_gemm_desc::zero, 3>},
    {"scale_type 256", "scale_type", wrong_enum<&kiln_gemm_desc::scale_type, 256>},
    {"scale_type s8", "scale_type", wrong_enum<&kiln_gemm_desc::scale_type, KILN_S8>},
    {"zero points of a type that has none", "zero",
     [](Arguments& x) {
       x.desc.zero = KILN_ZERO_INTEGER;
       return !has_weights(x.gemm) && x.gemm.a.q.scale == Scale::none &&
              x.gemm.b.q.scale == Scale::none;
     }},
    {"scales of a type that has none", "scale_a",
     [](Arguments& x) {
       x.desc.scale_a = KILN_SCALE_LINE;
       return !small_float(x.gemm.a.dtype) && x.gemm.accumulator != s32;
     }},
    {"blocks along k of integers", "scale_a",
     [](Arguments& x) {
       x.desc.scale_a = KILN_SCALE_LINE_128;
       return x.gemm.accumulator == s32;
     }},
    {"zero points of A without scales", "zero_a",
     [](Arguments& x) {
       x.desc.zero_a = KILN_SCALE_LINE;
       return x.gemm.a.q.scale == Scale::none;
     }},
    {"zero_a -1", "zero_a", wrong_enum<&kiln_gemm_desc::zero_a, -1>},
    {"zero_a 8", "zero_a", wrong_enum<&kiln_gemm_desc::zero_a, 8>},
    {"blocks along k of one operand", "scale_a",
     [](Arguments& x) {
       x.desc.scale_a = KILN_SCALE_LINE_128;
       return small_float(x.gemm.a.dtype) && x.gemm.b.q.scale == Scale::none &&
              !needs_mx(*type_row(x.gemm.a.dtype, x.gemm.b.dtype));
     }},
    {"a pair of types without kernels", "a.dtype",
     [](Arguments& x) {
       x.desc.a.dtype = KILN_FP32;
       x.desc.b.dtype = KILN_FP64;
       return true;
     }},
    {"an output type that the pair has not", "d.dtype",
     [](Arguments& x) {
       x.desc.c.dtype = x.desc.d.dtype = x.gemm.accumulator == fp64 ? KILN_FP32 : KILN_FP64;
       return true;
     }},
    {"c of another type than d", "c.dtype",
     [](Arguments& x) {
       x.desc.c.dtype = x.gemm.d.dtype == fp32 ? KILN_FP16 : KILN_FP32;
       return true;
     }},
    {"c of another order than d", "c.order",
     [](Arguments& x) {
       x.desc.c.order = x.gemm.d.order == Order::row_major ? KILN_COLUMN_MAJOR : KILN_ROW_MAJOR;
       return true;
     }},
    {"c transposed", "c.transposed",
     [](Arguments& x) {
       x.desc.c.transposed = 1;
       return true;
     }},
    {"d transposed", "d.transposed",
     [](Arguments& x) {
       x.desc.d.transposed = 1;
       return true;
     }},
    {"batches of d that overlap", "d.batch_stride",
     [](Arguments& x) {
       x.desc.batch = 2;
       x.desc.a.batch_stride = x.desc.b.batch_stride = x.desc.c.batch_stride = 0;
       x.desc.d.batch_stride = 1;
       return extent(x.gemm, Operand::d).length > 1;
     }},
    {"alignment 0", "alignment", wrong_number<&kiln_gemm_desc::alignment, 0>},
    {"alignment -1", "alignment", wrong_number<&kiln_gemm_desc::alignment, -1>},
    {"alignment 3", "alignment", wrong_number<&kiln_gemm_desc::alignment, 3>},
    {"alignment 48", "alignment", wrong_number<&kiln_gemm_desc::alignment, 48>},
    {"alignment 8192", "alignment", wrong_number<&kiln_gemm_desc::alignment, 8192>},
    {"alignment least", "alignment", wrong_number<&kiln_gemm_desc::alignment, INT_MIN>},
    {"packed B and a column-major D", "b_packed",
     [](Arguments& x) {
       x.desc.b_packed = 1;
       x.desc.c.order = x.desc.d.order = KILN_COLUMN_MAJOR;
       return x.gemm.d.order == Order::column_major;
     }},
    {"packed B with scales", "b_packed",
     [](Arguments& x) {
       x.desc.b_packed = 1;
       return x.gemm.a.q.scale != Scale::none && x.gemm.accumulator != s32 &&
              x.gemm.d.order == Order::row_major;
     }},
    {"packed B of weights", "b_packed",
     [](Arguments& x) {
       x.desc.b_packed = 1;
       return has_weights(x.gemm);
     }},
    {"desc size 0", "desc->size", wrong_number<&kiln_gemm_desc::size, 0>},
    {"desc size 3", "desc->size", wrong_number<&kiln_gemm_desc::size, 3>},
};

template <auto Field>
bool no_operand(Arguments& x) {
  if (x.operands.*Field == nullptr) return false;
  x.operands.*Field = nullptr;
  return true;
}
template <auto Field>
bool over_d(Arguments& x) {
  if (x.operands.*Field == nullptr) return false;
  x.operands.*Field = x.operands.d;
  return true;
}
void* one_further(const void* pointer) {
  return const_cast<char*>(static_cast<const char*>(pointer) + 1);
}
template <auto Field>
bool misaligned(Arguments& x) {
  if (x.operands.*Field == nullptr || x.gemm.alignment == 1) return false;
  x.operands.*Field = one_further(x.operands.*Field);
  return true;
}
template <auto Field>
bool misaligned_scale(Arguments& x) {
  if (x.operands.*Field == nullptr) return false;
  x.operands.*Field = one_further(x.operands.*Field);
  return true;
}
template <int Value>
bool wrong_threads(Arguments& x) {
  x.operands.threads = Value;
  return true;
}
template <std::size_t Value>
bool wrong_operands_size(Arguments& x) {
  x.operands.size = Value;
  return true;
}

constexpr Mistake kOperandMistakes[] = {
    {"no a", "a", no_operand<&kiln_operands::a>},
    {"no b", "b",
     [](Arguments& x) { return !x.gemm.b_packed && no_operand<&kiln_operands::b>(x); }},
    {"no c", "c",
     [](Arguments& x) {
       x.operands.c = nullptr;
       x.operands.beta = 1;
       return present(x.gemm, Operand::c);
     }},
    {"no d", "d", no_operand<&kiln_operands::d>},
    {"no bias", "bias", no_operand<&kiln_operands::bias>},
    {"no residual", "residual", no_operand<&kiln_operands::residual>},
    {"no scale_a", "scale_a", no_operand<&kiln_operands::scale_a>},
    {"no scale_b", "scale_b", no_operand<&kiln_operands::scale_b>},
    {"no zero_b", "zero_b", no_operand<&kiln_operands::zero_b>},
    {"no groups", "groups", no_operand<&kiln_operands::groups>},
    {"no zero_a", "zero_a", no_operand<&kiln_operands::zero_a>},
    {"no column_sums_b", "column_sums_b", no_operand<&kiln_operands::column_sums_b>},
    {"no index_a", "index_a", no_operand<&kiln_operands::index_a>},
    {"no index_d", "index_d", no_operand<&kiln_operands::index_d>},
    {"no row_weights", "row_weights", no_operand<&kiln_operands::row_weights>},
    {"no scale_d", "scale_d", no_operand<&kiln_operands::scale_d>},
    {"no amax_d", "amax_d", no_operand<&kiln_operands::amax_d>},
    {"a over d", "a", over_d<&kiln_operands::a>},
    {"b over d", "b",
     [](Arguments& x) { return !x.gemm.b_packed && over_d<&kiln_operands::b>(x); }},
    {"bias over d", "bias", over_d<&kiln_operands::bias>},
    {"residual over d", "residual", over_d<&kiln_operands::residual>},
    {"scale_a over d", "scale_a", over_d<&kiln_operands::scale_a>},
    {"scale_b over d", "scale_b", over_d<&kiln_operands::scale_b>},
    {"zero_b over d", "zero_b", over_d<&kiln_operands::zero_b>},
    {"groups over d", "groups", over_d<&kiln_operands::groups>},
    {"column_sums_b over d", "column_sums_b", over_d<&kiln_operands::column_sums_b>},
    {"index_a over d", "index_a", over_d<&kiln_operands::index_a>},
    {"index_d over d", "index_d", over_d<&kiln_operands::index_d>},
    {"row_weights over d", "row_weights", over_d<&kiln_operands::row_weights>},
    {"scale_d over d", "scale_d", over_d<&kiln_operands::scale_d>},
    {"amax_d over d", "amax_d", over_d<&kiln_operands::amax_d>},
    {"c a little further than d", "c",
     [](Arguments& x) {
       const int bytes = size_of(x.gemm.d.dtype);
       x.operands.c = static_cast<const char*>(x.operands.d) + bytes;
       x.operands.beta = 1;
       return present(x.gemm, Operand::c) && extent(x.gemm, Operand::d).length > 1;
     }},
    {"misaligned a", "a", misaligned<&kiln_operands::a>},
    {"misaligned b", "b",
     [](Arguments& x) { return !x.gemm.b_packed && misaligned<&kiln_operands::b>(x); }},
    {"misaligned c", "c",
     [](Arguments& x) { return x.operands.beta != 0 && misaligned<&kiln_operands::c>(x); }},
    {"misaligned residual", "residual", misaligned<&kiln_operands::residual>},
    {"misaligned d", "d",
     [](Arguments& x) {
       x.operands.d = static_cast<char*>(x.operands.d) + 1;
       return x.gemm.alignment > 1;
     }},
    {"misaligned scale_a", "scale_a", misaligned_scale<&kiln_operands::scale_a>},
    {"misaligned scale_b", "scale_b", misaligned_scale<&kiln_operands::scale_b>},
    {"misaligned groups", "groups", misaligned_scale<&kiln_operands::groups>},
    {"misaligned zero_a", "zero_a", misaligned_scale<&kiln_operands::zero_a>},
    {"misaligned index_a", "index_a", misaligned_scale<&kiln_operands::index_a>},
    {"misaligned index_d", "index_d", misaligned_scale<&kiln_operands::index_d>},
    {"misaligned row_weights", "row_weights", misaligned_scale<&kiln_operands::row_weights>},
    {"misaligned scale_d", "scale_d", misaligned_scale<&kiln_operands::scale_d>},
    {"misaligned amax_d", "amax_d", misaligned_scale<&kiln_operands::amax_d>},
    {"no packed B", "packed_b",
     [](Arguments& x) { return x.gemm.b_packed && no_operand<&kiln_operands::packed_b>(x); }},
    {"B packed for another problem", "packed_b",
     [](Arguments& x) {
       x.operands.packed_b = x.foreign;
       return x.gemm.b_packed;
     }},
    {"threads -1", "threads", wrong_threads<-1>},
    {"threads 100000", "threads", wrong_threads<100000>},
    {"operands size 0", "operands->size", wrong_operands_size<0>},
    {"operands size 3", "operands->size", wrong_operands_size<3>},
};

bool in_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

}  // namespace

std::span<const Mistake> problem_mistakes() { return kProblemMistakes; }
std::span<const Mistake> operand_mistakes() { return kOperandMistakes; }

bool names_field(std::string_view message, std::string_view field) {
  for (std::size_t at = message.find(field); at != message.npos; at = message.find(field, at + 1)) {
    const std::size_t end = at + field.size();
    if ((at == 0 || !in_word(message[at - 1])) && (end == message.size() || !in_word(message[end])))
      return true;
  }
  return false;
}

}  // namespace kiln::soak
