// The command's own tree of sub-commands and options, as CLI11 parses it, for what is made from it:
// completion and man pages. So neither can go stale.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <utility>
#include <vector>

namespace kiln::cli {

/// One command: "kiln", "kiln tune", "kiln db list".
struct CommandNode {
  std::string words;
  const CLI::App* app;
};

/// The root first, every command before those below it.
std::vector<CommandNode> command_tree(const CLI::App& root);
/// The commands right below one.
std::vector<const CLI::App*> commands_below(const CLI::App& app);
/// Options that help pages show; positional arguments are not among them.
std::vector<const CLI::Option*> shown_options(const CLI::App& app);
std::vector<const CLI::Option*> positionals(const CLI::App& app);
/// "--budget", "-h".
std::vector<std::string> spellings(const CLI::Option& option);
bool takes_value(const CLI::Option& option);

/// A part of a help page's text after its options: "Description", and its indented lines.
using Section = std::pair<std::string, std::vector<std::string>>;
std::vector<Section> footer_sections(const CLI::App& app);

}  // namespace kiln::cli
