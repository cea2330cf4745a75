// The word that a mistyped one was most likely meant to be: the one place that all parsers ask.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace kiln {

/// The word of `known` that is fewest edits away (a letter more, less, other, or two swapped; case
/// counts for nothing); empty where none is near: at most one edit in three letters.
std::string_view nearest_word(std::string_view word, std::span<const std::string_view> known);

/// What a message ends with: "; did you mean \"fp32\"?", or nothing.
std::string did_you_mean(std::string_view word, std::span<const std::string_view> known);
std::string did_you_mean(std::string_view word, std::span<const std::string> known);

/// ASCII letters in lower case.
std::string lower_case(std::string_view word);

}  // namespace kiln
