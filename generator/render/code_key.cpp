#include "generator/render/code_key.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cctype>

namespace kiln {
namespace {

bool begins_name(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool in_number(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '\'';
}

/// Punctuators of more than one character, longest first.
constexpr std::array<std::string_view, 26> kLongPunctuators{
    "<<=", ">>=", "...", "->*", "<=>", "::", "->", "++", "--", "<<", ">>", "<=", ">=",
    "==",  "!=",  "&&",  "||",  "+=",  "-=", "*=", "/=", "%=", "&=", "|=", "^=", "##"};

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}

  std::string tokens() {
    while (at_ < text_.size()) step();
    end_directive();
    return std::move(out_);
  }

 private:
  bool follows(std::string_view what) const { return text_.substr(at_).starts_with(what); }

  void step() {
    const char c = text_[at_];
    if (follows("\\\n")) return skip(2);  // a continued line
    if (c == '\n') {
      end_directive();
      return skip(1);
    }
    if (std::isspace(static_cast<unsigned char>(c))) return skip(1);
    if (follows("//")) return skip(std::min(text_.find('\n', at_), text_.size()) - at_);
    if (follows("/*")) {
      const auto end = text_.find("*/", at_ + 2);
      return skip((end == text_.npos ? text_.size() : end + 2) - at_);
    }
    if (c == '#' && first_on_line()) directive_ = true;
    take(token_length());
  }

  /// Whether nothing but white space stands before this place in its line.
  bool first_on_line() const {
    std::size_t i = at_;
    while (i > 0 && text_[i - 1] != '\n') {
      if (!std::isspace(static_cast<unsigned char>(text_[i - 1]))) return false;
      --i;
    }
    return true;
  }

  std::size_t token_length() const {
    const char c = text_[at_];
    if (const std::size_t raw = raw_string_length(); raw != 0) return raw;
    if (c == '"' || c == '\'') return quoted_length(c);
    if (begins_name(c) || std::isdigit(static_cast<unsigned char>(c)) ||
        (c == '.' && at_ + 1 < text_.size() &&
         std::isdigit(static_cast<unsigned char>(text_[at_ + 1]))))
      return word_length();
    for (const std::string_view punctuator : kLongPunctuators)
      if (follows(punctuator)) return punctuator.size();
    return 1;
  }

  /// A name or a number: 1e-5 and 0x1p+3 hold a sign.
  std::size_t word_length() const {
    const bool number = !begins_name(text_[at_]);
    std::size_t end = at_;
    while (end < text_.size()) {
      const char c = text_[end];
      const char before = end > at_ ? text_[end - 1] : '\0';
      const bool sign = number && (c == '+' || c == '-') &&
                        std::string_view("eEpP").find(before) != std::string_view::npos;
      const bool more = number ? in_number(c) || sign
                               : begins_name(c) || std::isdigit(static_cast<unsigned char>(c));
      if (!more) break;
      ++end;
    }
    return end - at_;
  }

  std::size_t quoted_length(char quote) const {
    std::size_t end = at_ + 1;
    while (end < text_.size() && text_[end] != quote) end += text_[end] == '\\' ? 2 : 1;
    return std::min(end + 1, text_.size()) - at_;
  }

  /// R"x(…)x"; 0 where none begins.
  std::size_t raw_string_length() const {
    if (!follows("R\"")) return 0;
    const std::size_t open = text_.find('(', at_);
    if (open == text_.npos) return 0;
    const std::string close = fmt::format("){}\"", text_.substr(at_ + 2, open - at_ - 2));
    const std::size_t end = text_.find(close, open);
    return (end == text_.npos ? text_.size() : end + close.size()) - at_;
  }

  void skip(std::size_t count) { at_ += count; }
  void take(std::size_t count) {
    out_ += text_.substr(at_, count);
    out_ += '\0';
    at_ += count;
  }
  void end_directive() {
    if (directive_) out_ += std::string_view("<end of directive>\0", 19);
    directive_ = false;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  bool directive_ = false;  // inside a preprocessor directive, whose end is the end of its line
  std::string out_;
};

}  // namespace

std::string code_tokens(std::string_view text) { return Lexer(text).tokens(); }

std::string code_key(std::string_view text, const std::vector<std::string>& flags) {
  std::string all = code_tokens(text);
  for (const std::string& flag : flags) all += fmt::format("\nflag {}:{}", flag.size(), flag);
  const XXH128_hash_t hash = XXH3_128bits(all.data(), all.size());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

std::string code_key(const Source& source) { return code_key(source.text, source.flags); }

std::string_view without_head(std::string_view text) {
  while (text.starts_with("// ") && !text.starts_with("// ----"))
    text.remove_prefix(std::min(text.find('\n'), text.size() - 1) + 1);
  return text;
}

}  // namespace kiln
