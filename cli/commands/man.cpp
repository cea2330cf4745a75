// `kiln man`: man pages from the help of the commands, one a command.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>
#include <ctime>
#include <filesystem>

#include "cli/commands.h"
#include "cli/commands/bench_range.h"
#include "cli/output/report.h"
#include "cli/tree.h"
#include "generator/problem/did_you_mean.h"
#include "kiln/engine.hpp"
#include "runtime/env.h"

namespace kiln::cli {
namespace {

constexpr Manual kManManual{
    "man", "Print the manual of a command as a man page",
    "  The page is made from the same text as --help. An installed kiln has them all where man(1)\n"
    "  looks: kiln(1), kiln-tune(1), kiln-db-list(1). $SOURCE_DATE_EPOCH, seconds, is the date in "
    "a\n"
    "  page, else it is today's.",
    "  kiln man tune | man -l -\n"
    "  kiln man --write man1          # every page, into that folder"};

struct ManCommand {
  std::vector<std::string> topic;
  std::string write;
};

/// Text as roff prints it: a backslash, a control character that begins a line, options' hyphens. A
/// line may end between alternatives.
std::string roff(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (i == 0 && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else if (c == '|') {
      out += "|\\:";
    } else {
      out += c;
    }
  }
  return out;
}

std::string date() {
  const char* epoch = env("SOURCE_DATE_EPOCH");
  const std::time_t now = epoch ? std::strtoll(epoch, nullptr, 10) : std::time(nullptr);
  char text[16];
  std::tm fields{};
  gmtime_r(&now, &fields);
  std::strftime(text, sizeof text, "%Y-%m-%d", &fields);
  return text;
}

std::string page_name(std::string words) {
  for (char& c : words)
    if (c == ' ') c = '-';
  return words;
}

std::string upper(std::string text) {
  for (char& c : text)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  return text;
}

/// Lines indented by two are paragraphs, which end where a line ends with a sentence; deeper ones
/// stay as they are.
std::string prose(const std::vector<std::string>& lines) {
  std::string out;
  bool kept = false;
  for (const std::string& line : lines) {
    const bool deep = line.starts_with("    ");
    if (deep != kept) out += deep ? ".PP\n.nf\n" : ".fi\n.PP\n";
    if (line.empty()) continue;
    kept = deep;
    const std::string_view text = line.size() > 2 ? std::string_view(line).substr(2) : "";
    out += roff(text) + '\n';
    if (!deep && text.ends_with('.') && &line != &lines.back()) out += ".PP\n";
  }
  return kept ? out + ".fi\n" : out;
}

std::string as_it_is(const std::vector<std::string>& lines) {
  std::string out = ".nf\n";
  for (const std::string& line : lines)
    out += roff(line.size() > 2 ? std::string_view(line).substr(2) : std::string_view()) + '\n';
  return out + ".fi\n";
}

std::string option_text(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : spellings(option))
    names.push_back(fmt::format("\\fB{}\\fR", roff(name)));
  if (names.empty()) names.push_back(fmt::format("\\fI{}\\fR", roff(upper(option.get_name(true)))));
  std::string out = fmt::format(".TP\n{}", fmt::join(names, ", "));
  if (takes_value(option) && !spellings(option).empty())
    out += fmt::format(" \\fI{}\\fR", roff(option.get_type_name()));
  out += '\n' + roff(option.get_description());
  if (!option.get_default_str().empty() && takes_value(option))
    out += fmt::format(" (default {})", roff(option.get_default_str()));
  return out + '\n';
}

std::string synopsis(const CommandNode& node) {
  std::string out = fmt::format("\\fB{}\\fR", roff(node.words));
  if (!shown_options(*node.app).empty()) out += " [\\fIOPTIONS\\fR]";
  for (const CLI::Option* option : positionals(*node.app)) {
    const std::string name = fmt::format("\\fI{}\\fR", roff(upper(option->get_name(true))));
    out += option->get_required() ? " " + name : " [" + name + "]";
  }
  if (!commands_below(*node.app).empty()) out += " \\fICOMMAND\\fR";
  return out;
}

std::string see_also(const CommandNode& node, const std::vector<CommandNode>& tree) {
  std::vector<std::string> pages;
  const std::string above = node.words.substr(0, node.words.rfind(' '));
  for (const CommandNode& other : tree)
    if (other.words != node.words &&
        (other.words == above || other.words.substr(0, other.words.rfind(' ')) == above))
      pages.push_back(fmt::format("\\fB{}\\fR(1)", roff(page_name(other.words))));
  return pages.empty() ? "" : fmt::format(".SH SEE ALSO\n{}\n", fmt::join(pages, ",\n"));
}

/// Man's usual name of a help page's part.
std::string heading(const std::string& title) {
  return title == "Exit codes" ? "EXIT STATUS" : title == "Warnings" ? "ENVIRONMENT" : upper(title);
}

std::string page(const CommandNode& node, const std::vector<CommandNode>& tree) {
  const std::string name = page_name(node.words);
  std::string summary = node.app->get_description();
  std::string out =
      fmt::format(".TH {} 1 {} \"kiln {}\" \"kiln\"\n.SH NAME\n{} \\- {}\n", upper(name), date(),
                  version(), roff(name), roff(summary.substr(0, summary.find('\n'))));
  out += fmt::format(".SH SYNOPSIS\n{}\n", synopsis(node));
  const auto sections = footer_sections(*node.app);
  for (const auto& [title, lines] : sections)
    if (title == "Description") out.append(".SH DESCRIPTION\n").append(prose(lines));
  if (const auto below = commands_below(*node.app); !below.empty()) {
    out += ".SH COMMANDS\n";
    for (const CLI::App* sub : below)
      out += fmt::format(".TP\n\\fB{}\\fR(1)\n{}\n",
                         roff(page_name(node.words + " " + sub->get_name())),
                         roff(sub->get_description()));
  }
  out += ".SH OPTIONS\n";
  for (const CLI::Option* option : positionals(*node.app)) out += option_text(*option);
  for (const CLI::Option* option : shown_options(*node.app)) out += option_text(*option);
  for (const auto& [title, lines] : sections)
    if (title != "Description") out += fmt::format(".SH {}\n", heading(title)) + as_it_is(lines);
  return out + see_also(node, tree);
}

Result<Outcome> run(const Session& session, const CLI::App& root, const ManCommand& command) {
  const auto tree = command_tree(root);
  if (!command.write.empty()) {
    std::error_code code;
    std::filesystem::create_directories(command.write, code);
    for (const CommandNode& node : tree)
      if (Status written =
              write_text("write", fmt::format("{}/{}.1", command.write, page_name(node.words)),
                         page(node, tree));
          !written)
        return tl::unexpected(written.error());
    if (session.json) print_json({{"folder", command.write}, {"pages", tree.size()}});
    return Outcome::done;
  }
  std::string words = root.get_name();
  std::vector<std::string> known;
  for (const std::string& word : command.topic) words += " " + word;
  for (const CommandNode& node : tree) {
    known.push_back(node.words);
    if (node.words != words) continue;
    if (session.json)
      print_json({{"command", words}, {"page", page(node, tree)}});
    else
      fmt::print("{}", page(node, tree));
    return Outcome::done;
  }
  return fail(ErrorCode::bad_input, fmt::format("command = \"{}\": there is no such command{}",
                                                words, did_you_mean(words, known)));
}

}  // namespace

void add_man(CLI::App& parent, Session& session) {
  auto command = std::make_shared<ManCommand>();
  CLI::App* app = add_command(parent, session, kManManual, [&parent, &session, command] {
    return run(session, parent, *command);
  });
  app->add_option("command", command->topic, "The command; none: kiln itself");
  app->add_option("--write", command->write, "Write every page into this folder")
      ->type_name("FOLDER");
}

}  // namespace kiln::cli
