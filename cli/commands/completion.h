// Completion scripts of shells, from the tree of commands.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace kiln::cli {

std::string bash_completion(const CLI::App& root);
std::string zsh_completion(const CLI::App& root);
std::string fish_completion(const CLI::App& root);

}  // namespace kiln::cli
