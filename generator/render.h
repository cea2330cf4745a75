// From a point of the space to text: what a person would have written for that config.
#pragma once

#include <string>
#include <vector>

#include "generator/space.h"

namespace kiln {

/// Generated text, self-contained: its header comment states device, problem, config and the
/// command that compiles it standalone.
struct Source {
  std::string text;
  std::string file_name;           // "kiln_host_packed_<hash>.cpp"
  std::vector<std::string> flags;  // what follows the compiler's name: -std=…, -O3, -march=…
};

/// Errors: bad_input (a broken rule, by name).
Result<Source> render(const Gemm& gemm, const DeviceCaps& device, const Config& config);

/// Hash of every template's text: a validator of stored records.
std::string template_hash();

}  // namespace kiln
