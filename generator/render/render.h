// From a point of the space to text: what a person would have written for that config.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "generator/space/space.h"

namespace kiln {

struct Parameters;

/// Generated text, self-contained: its header comment states device, problem, config and the
/// command that compiles it standalone.
struct Source {
  std::string text;
  std::string file_name;           // "kiln_host_packed_<hash>.cpp"
  std::vector<std::string> flags;  // what follows the compiler's name: -std=…, -O3, -march=…
};

/// Errors: bad_input (a broken rule, by name).
Result<Source> render(const Problem& problem, const DeviceCaps& device, const Config& config);

/// The templates one behind the other, the parameters after the types that they may name. Errors:
/// internal (a template asks for a value that the parameters lack).
Result<std::string> paste(std::span<const std::string_view> files, const Parameters& parameters);

/// The command that makes a kernel of the file by hand.
std::string compile_command(Vendor vendor, const Source& source);

/// Hash of the text of every template that the vendor's families paste: a validator of stored
/// records, which a change for another vendor leaves valid.
std::string template_hash(Vendor vendor);

}  // namespace kiln
