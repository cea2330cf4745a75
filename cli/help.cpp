#include "cli/help.h"

#include <sstream>

namespace kiln::cli {
namespace {

constexpr std::size_t kPageWidth = 100;
constexpr std::size_t kNameWidth = 34;

}  // namespace

HelpFormatter::HelpFormatter() { column_width(kNameWidth); }

// Breaks lines only; CLI11 indents what follows a line break.
std::string HelpFormatter::wrapped(const std::string& text) const {
  std::istringstream words(text);
  std::string out;
  std::size_t column = 0;
  for (std::string word; words >> word;) {
    if (column > 0 && column + 1 + word.size() > kPageWidth - kNameWidth) {
      out += '\n';
      column = 0;
    } else if (column > 0) {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
  }
  return out;
}

std::string HelpFormatter::make_option_desc(const CLI::Option* option) const {
  return wrapped(option->get_description());
}

std::string HelpFormatter::make_subcommand(const CLI::App* sub) const {
  std::stringstream out;
  CLI::detail::format_help(out, sub->get_name(), wrapped(sub->get_description()), kNameWidth);
  return out.str();
}

}  // namespace kiln::cli
