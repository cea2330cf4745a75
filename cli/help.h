// How help pages are laid out: CLI11's pages with long descriptions wrapped. Knows no command.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace kiln::cli {

class HelpFormatter : public CLI::Formatter {
 public:
  HelpFormatter();
  std::string make_option_desc(const CLI::Option* option) const override;
  std::string make_subcommand(const CLI::App* sub) const override;

 private:
  std::string wrapped(const std::string& text) const;
};

}  // namespace kiln::cli
