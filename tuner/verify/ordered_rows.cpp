#include "tuner/verify/ordered_rows.h"

namespace kiln {

std::vector<std::byte> OrderedRows::copied(Operand which, const void* operand,
                                           const void* index) const {
  std::vector<std::byte> lines(static_cast<std::size_t>(given_.m * line_bytes(given_, which)));
  gather_lines(given_, which, operand, {index, 0, given_.m}, lines.data());
  return lines;
}

void OrderedRows::read_inputs(const Operands& operands) {
  if (is_gathered(given_, Operand::a)) a_ = copied(Operand::a, operands.a, operands.index_a);
  if (is_gathered(given_, Operand::scale_a))
    scale_a_ = copied(Operand::scale_a, operands.scale_a, operands.index_a);
}

void OrderedRows::read_d(const Operands& operands) {
  if (scatters(given_)) d_ = copied(Operand::d, operands.d, operands.index_d);
}

void OrderedRows::bind(Operands& operands) const {
  if (is_gathered(given_, Operand::a)) operands.a = a_.data();
  if (is_gathered(given_, Operand::scale_a)) operands.scale_a = scale_a_.data();
  if (scatters(given_)) operands.d = const_cast<std::byte*>(d_.data());
}

}  // namespace kiln
