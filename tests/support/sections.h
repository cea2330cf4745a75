// A rendered source as its sections: what each template file became, and the parameters.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kiln::test {

struct Section {
  std::string name;  // a template's path, or "parameters"; of what stands before all, nothing
  std::string text;  // the line that names it included
};

inline std::vector<Section> sections_of(std::string_view source) {
  constexpr std::string_view kMark = "\n// ---- ";
  std::vector<Section> all{{"", ""}};
  while (!source.empty()) {
    const auto next = source.find(kMark, 1);
    const std::string_view text = source.substr(0, next);
    if (text.starts_with(kMark)) {
      const auto name = text.substr(kMark.size(), text.find(" ----\n") - kMark.size());
      all.push_back({std::string(name), std::string(text)});
    } else {
      all.back().text += text;
    }
    source.remove_prefix(text.size());
  }
  return all;
}

}  // namespace kiln::test
