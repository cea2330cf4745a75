// Unrelated products as one call (Grouping::list): each is read as matmul() reads its own, then all
// must be of one kind. Copies nothing. Knows no engine.
#pragma once

#include <vector>

#include "problem.h"

namespace kiln::python {

/// One call of a list, and what has to live until it returns.
struct ListCall {
  Call call;  // the operands of all products aside
  std::vector<ListEntry> entries;
  py::list outs;                 // of each product
  std::vector<Call> of_product;  // keep what was made to read the arrays
};

/// `arguments`: of each product, at least one of them. `most`: m, n and k that the problem has at
/// least, `count`: products that it has at least, those behind the given ones empty. Throws what
/// call_of() does, the product's number before its message, and kiln.BadInput where products are
/// not alike.
ListCall list_call_of(const std::vector<Arguments>& arguments, Output output,
                      std::array<std::int64_t, 3> most, std::int64_t count);

void bind_product_list(py::module_& module);

}  // namespace kiln::python
