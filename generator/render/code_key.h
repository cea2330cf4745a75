// What a piece of generated code is known by: its tokens and the flags it is compiled with, target
// included. Comments, white space, the head that names problem and config, and file names are no
// part of it, so that one binary serves every record that renders to the same code.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "generator/render/render.h"

namespace kiln {

/// The tokens of C++, CUDA or HIP source, each with a NUL behind it; the ends of preprocessor
/// directives count as tokens. Text that is not well formed (an unclosed comment, say) still gives
/// a unique list.
std::string code_tokens(std::string_view text);

/// 32 hex digits: hash of `code_tokens(text)` and the flags in their order.
std::string code_key(std::string_view text, const std::vector<std::string>& flags);
std::string code_key(const Source& source);

/// The text without the comment lines at its start, which name device, problem and config.
std::string_view without_head(std::string_view text);

}  // namespace kiln
