// `kiln report --out`: one HTML file that shows what databases hold. Knows how the page is put
// together; what is on it is bench/overview.h's, how it is drawn data/report's.
#pragma once

#include <CLI/CLI.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/options.h"
#include "cli/session.h"
#include "generator/render/embedded.h"

namespace kiln::cli {

struct PageOptions {
  std::string out;                 // --out; empty: no page is wanted
  std::vector<std::string> races;  // --bench
  std::vector<std::string> axes;   // --axes
  std::string title = "kiln report";

  void add_to(CLI::App& app);
};

/// The files of data/report that are parts of the page.
std::span<const EmbeddedFile> embedded_page();

/// The page: data/report/page.html with its slots filled: {{title}}, {{data}}, and names of files.
/// `data` is JSON and may hold any text: none of it ends the element that it stands in.
std::string page_text(const std::string& title, const std::string& data);

/// Errors: bad_input (--db names no file, a file of races), database, device (cannot be written).
Result<Outcome> write_page(const Session& session, const PageOptions& page,
                           const DatabaseOptions& database);

}  // namespace kiln::cli
