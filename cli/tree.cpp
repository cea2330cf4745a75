#include "cli/tree.h"

#include <sstream>

namespace kiln::cli {
namespace {

void add_below(const CLI::App& app, const std::string& words, std::vector<CommandNode>& all) {
  all.push_back({words, &app});
  for (const CLI::App* sub : commands_below(app))
    add_below(*sub, words + " " + sub->get_name(), all);
}

}  // namespace

std::vector<CommandNode> command_tree(const CLI::App& root) {
  std::vector<CommandNode> all;
  add_below(root, root.get_name(), all);
  return all;
}

std::vector<const CLI::App*> commands_below(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App* sub) { return !sub->get_group().empty(); });
}

std::vector<const CLI::Option*> shown_options(const CLI::App& app) {
  return app.get_options([](const CLI::Option* option) {
    return !option->get_group().empty() && !option->get_positional();
  });
}

std::vector<const CLI::Option*> positionals(const CLI::App& app) {
  return app.get_options([](const CLI::Option* option) { return option->get_positional(); });
}

std::vector<std::string> spellings(const CLI::Option& option) {
  std::vector<std::string> all;
  for (const std::string& name : option.get_snames()) all.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) all.push_back("--" + name);
  return all;
}

bool takes_value(const CLI::Option& option) { return option.get_items_expected_max() > 0; }

std::vector<Section> footer_sections(const CLI::App& app) {
  std::vector<Section> sections;
  std::istringstream lines(app.get_footer());
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty() && line.front() != ' ' && line.back() == ':')
      sections.push_back({line.substr(0, line.size() - 1), {}});
    else if (!sections.empty())
      sections.back().second.push_back(line);
  }
  for (auto& [title, body] : sections)
    while (!body.empty() && body.back().empty()) body.pop_back();
  return sections;
}

}  // namespace kiln::cli
