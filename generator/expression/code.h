// An expression as the lines of a template that compute it. Knows the names that templates/*/common
// give to loads and functions; knows no family.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>

#include "generator/expression/program.h"
#include "generator/space/template_values.h"

namespace kiln::expression {

/// What a vendor's templates call the parts of an element.
struct Dialect {
  /// Of an expression that a problem's fields spell: which arguments of a call its operands are.
  std::span<const Argument> arguments = {};
  /// The type of a bias that is not the problem's: callers of kernels convert it.
  std::string_view bias = {};
  std::string_view (*type)(DType);  // of an operand's elements
  /// The name of an operand's value {x}, and its definition: "x.{x}".
  std::string_view operand, definition;
  /// The load of an operand: {x} is its name, {ld} its leading dimension's.
  std::string_view one, along_m, along_n, rows, columns;
  /// The load of one in the host's memory, if kernels have its value in place of its address, and
  /// that value of {type}, of the member {from} of a call.
  std::string_view one_of_host = {}, value_in = {};
  /// The same where {per} neighbours of a row share an element, if that is written otherwise than
  /// by dividing {column}.
  std::string_view shared_along_n = {}, shared_rows = {}, shared_columns = {};
  /// Stores `{value}` of an element of D, of type {type}, to {x}; and as it is, to a row.
  std::string_view store_rows, store_columns, store_value;
  /// The same of a value that is kept in 16 bits, which have it.
  std::string_view store_narrow = {};
  /// Stores of a row's value, of a column's, and of all, by one element of theirs.
  std::string_view store_along_m, store_along_n, store_one;
  /// And of what {per} neighbours of a row share.
  std::string_view store_shared_rows, store_shared_columns;
  /// Of a step whose threads have several neighbours of a row: their loads from a row-major matrix
  /// and from a vector, the value of one of them, and their stores, {value} being of one, to a row.
  std::string_view some_of_rows = {}, some_along_n = {}, of_some = {}, store_some = {};
  /// And what it read once for all of a row.
  std::string_view of_line = {};
  /// Of the step behind the reductions: what holds a block's values {x}, `{value}` put there, its
  /// load behind the reduction, and that by {how} of {per} neighbours.
  std::string_view block_field, keep_block, block = {}, reduce_block;
  std::string_view value;          // the type of values
  std::string_view second;         // the element of a gate's second product; the first one's is v
  std::string_view m, n;           // the indices as values
  std::string_view m_behind = {};  // m in the step behind the reductions, where rows are moved
  /// D's row that is the first of those that kernels are called with, a member of `args`; whether
  /// kernels move pointers by it.
  std::string_view first_row = {};
  bool moves_rows = false;
  /// The remainder of n by a power of two, of which {mask} are the bits below.
  std::string_view last_bits_of_n = {};
  /// A function that multiplies, where a product with an operator could be fused with an addition
  /// in one kernel and not in another.
  std::string_view product = {};
  /// And one that divides, where the operator takes longer.
  std::string_view quotient = {};
  /// Fetches the line of a row-major matrix that has the element (to, first), to write it or not.
  std::string_view fetch = {};
  /// Leaves `{value}` to a later statement that stores it, as the value `left`.
  std::string_view leave = {}, left = {};
  /// The address of the element ({row}, {column}) in a vector, in a row-major and in a column-major
  /// matrix, a store of two neighbours of a line, and whether such pairs are words of memory.
  std::string_view place_along_m = {}, place_along_n = {}, place_of_row = {}, place_of_column = {},
                   store_pair_of_row = {}, store_pair_of_column = {}, in_words = {};
};

/// What the templates of both vendors' GPUs call alike: a thread has one element.
constexpr Dialect dialect_of_gpus(std::string_view (*type)(DType)) {
  return {.type = type,
          .operand = "x.{x}",
          .definition = "x.{x}",
          .one = "to_real(*out.{x})",
          .one_of_host = "to_real(out.{x})",
          .value_in = "value_in<{type}>({from})",
          .store_rows = "out.{x}[row * out.{ld} + column] = from_real({value}, {type}{{}});",
          .store_columns = "out.{x}[column * out.{ld} + row] = from_real({value}, {type}{{}});",
          .store_value = "out.{x}[row * out.{ld} + column] = {value};",
          .store_along_m = "if (column == 0) out.{x}[row] = from_real({value}, {type}{{}});",
          .store_along_n = "if (row == 0) out.{x}[column] = from_real({value}, {type}{{}});",
          .store_one = "if (row == 0 && column == 0) *out.{x} = from_real({value}, {type}{{}});",
          .store_shared_rows =
              "if (column % {per} == 0)\n"
              "  out.{x}[row * out.{ld} + column / {per}] = "
              "from_real({value}, {type}{{}});",
          .store_shared_columns =
              "if (column % {per} == 0)\n"
              "  out.{x}[column / {per} * out.{ld} + row] = "
              "from_real({value}, {type}{{}});",
          .some_of_rows = "load_some(all.{x}, out.{x} + {row} * out.{ld} + first, left);",
          .some_along_n = "load_some(all.{x}, out.{x} + first, left);",
          .of_some = "to_real(all.{x}.element[i])",
          .store_some =
              "store_some(out.{x} + row * out.{ld} + first, left,\n"
              "           [&](int i) {{ return x[i].{x}; }});",
          .of_line = "line.{x}",
          .block_field = "Real {x};",
          .keep_block = "x.{x} = {value};",
          .reduce_block =
              "reduce_block<{how}, {per}>(x, left, [](ReadBehind& e) -> Real& "
              "{{ return e.{x}; }});",
          .value = "Real",
          .second = "x.other",
          .m = "Real(row)",
          .n = "Real(column)",
          .last_bits_of_n = "Real(column & {mask})",
          .leave = "x.{x} = {value};",
          .left = "x.{x}"};
}

/// The dialect in which kernels compute groups that share the rows of one D.
constexpr Dialect of_rows_in_groups(Dialect dialect) {
  dialect.m_behind = dialect.m;  // that step sees D's own rows
  dialect.m = "Real(row + out.first_row)";
  dialect.first_row = "args.first_row";
  dialect.moves_rows = true;
  return dialect;
}

/// Which functions the templates must define: `uses_<name>` for each row of kFunctions;
/// `expressed`: whether there is an expression; `stores_d`, whether there is a D; `outputs`,
/// `stores_matrices`, `reduces`, `reduces_rows`, `reduces_columns`, `reduces_all` and
/// `reduces_exponentials`: whether it stores beside D, and whether some of that is a matrix, is
/// reduced, of rows (or of all, which is of rows first), of columns, is one value, is made of e^x;
/// `reduces_first`: whether steps reduce before that; `behind`: whether a step follows the
/// reductions, for D (`behind_d`), for more than one row (`behind_rows`) and column, and whether it
/// reduces blocks (`behind_blocks`), and whether it reads a value of each element that is the
/// kernel's D (`kept_in_d`); `reads_pairs`: whether kernels fetch what is read of
/// neighbours; `shares`: whether neighbours share elements of what is read or stored; `reads_m`:
/// whether values are made of the index m; `reads_host`: whether it reads the host's memory.
void add_values(TemplateValues& to, const Expression& expression);

/// Whether one of the functions is made of e^x.
bool uses_exponential(const Expression& expression);

/// Whether a value is operand i: a half has those of the other one too.
bool reads(const Program& program, std::size_t i);

/// About how many instructions of a GPU's thread an element takes, with loads and stores beside D.
double work_of(const Expression& expression);

/// The files that templates include where an expression is, with `expression/` before their names:
/// `members` of Output, `pointers` that fill them, `fields` for the values of operands, `loads` of
/// them, `fetches` of rows of matrices, `values`, which make v from v and store what is stored
/// beside D, or leave it to `stored` for matrices, and to `kept` and `together`, which leave in the
/// workspace what is reduced, of one element and of several; `reductions` and `rest`, which steps
/// of a GPU run, the output that blocks work on being `output`, and `reductions_of_rows`,
/// `reductions_of_columns` and `rest_of_rows`, which steps of a CPU run; of a half that a step
/// follows, its `behind_members`, `behind_pointers`, `behind_fields`, `behind_loads`,
/// `behind_values`, `behind_stored` and `behind_reductions`, of several neighbours `behind_some`,
/// `behind_some_loads` and `behind_some_stored`, of a row `behind_line_fields` and
/// `behind_line_loads`, the caller's D (`behind_d`), and of blocks, which it reduces,
/// `block_fields`, `block_loads`, `block_values` and `blocks_reduced`. Where kernels fetch what is
/// read of neighbours: `pair_fields`, `pair_values`, `pair_in_lane` and `pair_of_lanes`. `types`:
/// of operands and outputs. Nothing where there is no expression.
std::map<std::string, std::string, std::less<>> code_of(const Expression& expression,
                                                        const ExtraTypes& types,
                                                        const Dialect& dialect);

/// Further files, for kernels whose lanes hold two neighbours along `along`: `words`, what is read
/// of matrices and of vectors, `words_inside` and `words_at_edge`, loads of it, `split`,
/// which makes values of it, `vectors`, loads of single values, `stored_alone` and `stored_pairs`,
/// and `pairs_fit`, which says whether neighbours are words of memory. `brings`: matrices of D's
/// shape come through a ring in shared memory: `brought_lines` copy theirs, if `brought_fit` says
/// so, `brought_sizes` are constants, `words_of_part` loads what came, `words_under` the same from
/// memory.
std::map<std::string, std::string, std::less<>> pairs_of(const Expression& expression,
                                                         const ExtraTypes& types, Index along,
                                                         bool brings, const Dialect& dialect);

}  // namespace kiln::expression
