#include "cli/commands/report_page.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <ctime>

#include "bench/overview.h"
#include "cli/commands/bench_range.h"
#include "cli/output/report.h"

namespace kiln::cli {
namespace {

std::string_view part(std::string_view path) {
  const auto files = embedded_page();
  const auto at = std::ranges::find(files, path, &EmbeddedFile::path);
  assert(at != files.end());
  return at->text;
}

std::string html_escaped(std::string_view text) {
  std::string out;
  for (const char c : text)
    out += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : std::string(1, c);
  return out;
}

/// `</script>` and `<!--` inside a string of JSON are spelt without the '<'.
std::string script_safe(std::string_view json) {
  std::string out;
  for (const char c : json) c == '<' ? out += "\\u003c" : out += c;
  return out;
}

std::string slot(std::string_view name, const std::string& title, const std::string& data) {
  if (name == "title") return html_escaped(title);
  if (name == "data") return script_safe(data);
  const std::string_view file = part(name);
  return name.ends_with(".txt") ? html_escaped(file) : std::string(file);
}

/// "1 shape", "2 shapes".
std::string counted(std::size_t count, const char* noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

/// What was chosen for the landscape's axes. Errors: bad_input (one axis, more than two).
Result<Json> chosen_axes(const std::vector<std::string>& axes) {
  if (!axes.empty() && axes.size() != 2)
    return fail(
        ErrorCode::bad_input,
        fmt::format("axes = \"{}\": two keys of a config, as in left,right", fmt::join(axes, ",")));
  return Json(axes);
}

}  // namespace

void PageOptions::add_to(CLI::App& app) {
  CLI::Option* file =
      app.add_option("--out", out,
                     "Write a page, one HTML file, that shows what the database holds")
          ->type_name("FILE");
  app.add_option("--bench", races, "With --out: races too, as kiln bench --json printed them")
      ->type_name("FILE")
      ->needs(file);
  app.add_option("--axes", axes,
                 "With --out: the keys of a config over which candidates are shown first; the page "
                 "has them all to choose from")
      ->type_name("KEY,KEY")
      ->delimiter(',')
      ->needs(file);
  app.add_option("--title", title, "With --out: the page's title")
      ->type_name("TEXT")
      ->needs(file)
      ->capture_default_str();
}

std::string page_text(const std::string& title, const std::string& data) {
  constexpr std::string_view kOpen = "{{", kClose = "}}";
  std::string out;
  std::string_view rest = part("page.html");
  for (auto at = rest.find(kOpen); at != std::string_view::npos; at = rest.find(kOpen)) {
    const auto end = rest.find(kClose, at);
    out += rest.substr(0, at);
    out += slot(rest.substr(at + kOpen.size(), end - at - kOpen.size()), title, data);
    rest.remove_prefix(end + kClose.size());
  }
  return out.append(rest);
}

Result<Outcome> write_page(const Session& session, const PageOptions& page,
                           const DatabaseOptions& database) {
  const auto axes = chosen_axes(page.axes);
  if (!axes) return tl::unexpected(axes.error());
  const auto store = open_existing_store(database);
  if (!store) return tl::unexpected(store.error());
  auto overview = overview_of(**store);
  if (!overview) return tl::unexpected(overview.error());
  for (const std::string& file : page.races)
    if (Status added = add_races(*overview, file); !added) return tl::unexpected(added.error());
  Json data = to_json(*overview);
  data["title"] = page.title;
  data["axes"] = *axes;
  data["made"] = fmt::format("{:%Y-%m-%d %H:%M} UTC", fmt::gmtime(std::time(nullptr)));
  const std::string text =
      page_text(page.title, data.dump(-1, ' ', true, Json::error_handler_t::replace));
  if (Status written = write_text("out", page.out, text); !written)
    return tl::unexpected(written.error());
  if (session.json)
    print_json({{"out", page.out},
                {"bytes", text.size()},
                {"shapes", overview->shapes.size()},
                {"devices", overview->devices.size()}});
  else
    fmt::print("{}: {}, {} on {}\n", page.out, human_bytes(double(text.size())),
               counted(overview->shapes.size(), "shape"),
               counted(overview->devices.size(), "device"));
  return Outcome::done;
}

}  // namespace kiln::cli
