// Which problems a config computes with the same code: the sizes that are arguments of a kernel
// make no difference to it, those that became constants do. Knows parameters; renders nothing.
#pragma once

#include <compare>
#include <cstdint>

#include "generator/space/space.h"

namespace kiln {

/// A hash over all constants but hints, and over what the templates ask and what is not off: a
/// value that is added later, and is off, leaves proofs of code as they are. Problems for which a
/// config has the same class are computed by the same code.
struct CodeClass {
  std::uint64_t low = 0, high = 0;
  auto operator<=>(const CodeClass&) const = default;
};

/// `config` breaks no rule for the problem.
CodeClass code_class(const Problem& problem, const DeviceCaps& device, const Config& config);

/// What proofs in files of schema 8 name: for CPUs a hash without the layouts of A and B.
CodeClass code_class_of_schema8(const Problem& problem, const DeviceCaps& device,
                                const Config& config);

/// What proofs in files of schema 7 name: a hash over values that are off as well.
CodeClass code_class_of_schema7(const Problem& problem, const DeviceCaps& device,
                                const Config& config);

}  // namespace kiln
