#include "cli/commands/completion.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <optional>

#include "bench/suites.h"
#include "cache/keys.h"
#include "cli/commands.h"
#include "cli/output/report.h"
#include "cli/tree.h"
#include "generator/problem/device_caps.h"
#include "generator/problem/fields.h"

namespace kiln::cli {
namespace {

constexpr Manual kCompletionManual{
    "completion", "Print the completion script of a shell",
    "  The script is made from the command's own sub-commands and options. An installed kiln has\n"
    "  it where the shells look for it; for another one, load what this prints.",
    "  source <(kiln completion bash)\n"
    "  kiln completion zsh > ~/.zfunc/_kiln\n"
    "  kiln completion fish > ~/.config/fish/completions/kiln.fish"};

/// What a value may be: files, or these words.
struct Values {
  bool files = false;
  std::vector<std::string> words = {};
};

Values values_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  for (const char* file : {"FILE", "FOLDER", "DIR", "OLD"})
    if (type.starts_with(file)) return {.files = true};
  Values values;
  if (type == "DEVICE") {
    values.words = {"cpu", "cuda:0", "hip:0"};
    for (std::string& name : cpu_names()) values.words.push_back(std::move(name));
    for (std::string& name : gpu_targets()) values.words.push_back(std::move(name));
  } else if (type == "CLASS") {
    const auto& names = EnumNames<Determinism>::names;
    values.words.assign(names.begin(), names.end());
  } else if (type.starts_with("LIST")) {
    values.words = suite_names();
  } else if (type == "SHELL") {
    values.words = {"bash", "zsh", "fish"};
  }
  return values;
}

/// The first sentence, or as much of it as fits a line beside a name.
std::string brief(std::string text) {
  constexpr std::size_t kMost = 68;
  for (const char* end : {". ", "; ", ": "}) text = text.substr(0, text.find(end));
  if (text.size() <= kMost) return text;
  return text.substr(0, text.rfind(' ', kMost)) + "...";
}

/// In single quotes, as all three shells read them but for how a quote is escaped.
std::string quoted(const std::string& text, const char* quote) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string(quote) : std::string(1, c);
  return out + "'";
}
constexpr const char* kPosixQuote = "'\\''";
constexpr const char* kFishQuote = "\\'";

/// `kiln help` takes the names of commands.
std::vector<const CLI::App*> offered(const CommandNode& node, const CLI::App& root) {
  const bool any = node.words == "kiln help" || node.words == "kiln man";
  return commands_below(any ? root : *node.app);
}

bool takes_files(const CLI::App& app) {
  for (const CLI::Option* option : positionals(app))
    if (option->get_name().starts_with("file")) return true;
  return false;
}

/// Lines `"kiln tune --file" | …) action ;;` for every option that takes a value.
std::string posix_values(const CLI::App& root, const char* files, const char* words) {
  std::string out;
  for (const CommandNode& node : command_tree(root))
    for (const CLI::Option* option : shown_options(*node.app)) {
      if (!takes_value(*option)) continue;
      std::string pattern;
      for (const std::string& name : spellings(*option))
        pattern += fmt::format("{}\"{} {}\"", pattern.empty() ? "" : " | ", node.words, name);
      const Values values = values_of(*option);
      const std::string action =
          values.files           ? files
          : values.words.empty() ? std::string(":")
                                 : fmt::format(fmt::runtime(words), fmt::join(values.words, " "));
      out += fmt::format("    {})\n      {}\n      return ;;\n", pattern, action);
    }
  return out;
}

/// Lines `"kiln db") …` that walk one word further down.
std::string posix_walk(const CLI::App& root) {
  std::vector<std::string> all;
  for (const CommandNode& node : command_tree(root))
    if (node.app != &root) all.push_back(fmt::format("\"{}\"", node.words));
  return fmt::format("      {}) at=\"$at $word\" ;;\n", fmt::join(all, " | "));
}

}  // namespace

std::string bash_completion(const CLI::App& root) {
  std::string out = fmt::format(
      "# Completion of kiln for bash; made by `kiln completion bash`.\n"
      "_kiln() {{\n"
      "  local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD - 1]}}\n"
      "  local at=kiln words= files= i word\n"
      "  COMPREPLY=()\n"
      "  for ((i = 1; i < COMP_CWORD; i++)); do\n"
      "    word=${{COMP_WORDS[i]}}\n"
      "    case \"$at $word\" in\n{}    esac\n"
      "  done\n"
      "  case \"$at $prev\" in\n{}  esac\n"
      "  case \"$at\" in\n",
      posix_walk(root),
      posix_values(root, "compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -f -- \"$cur\"))",
                   "COMPREPLY=($(compgen -W \"{}\" -- \"$cur\"))"));
  for (const CommandNode& node : command_tree(root)) {
    std::vector<std::string> words;
    for (const CLI::App* sub : offered(node, root)) words.push_back(sub->get_name());
    for (const CLI::Option* option : shown_options(*node.app))
      for (const std::string& name : spellings(*option)) words.push_back(name);
    for (const CLI::Option* option : positionals(*node.app))
      for (const std::string& word : values_of(*option).words) words.push_back(word);
    out += fmt::format("    \"{}\") words=\"{}\"{} ;;\n", node.words, fmt::join(words, " "),
                       takes_files(*node.app) ? " files=1" : "");
  }
  return out +
         "  esac\n"
         "  COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
         "  if [[ $files && $cur != -* ]]; then\n"
         "    compopt -o filenames 2>/dev/null\n"
         "    COMPREPLY+=($(compgen -f -- \"$cur\"))\n"
         "  fi\n"
         "}\n"
         "complete -F _kiln kiln\n";
}

std::string zsh_completion(const CLI::App& root) {
  std::string out = fmt::format(
      "#compdef kiln\n"
      "# Completion of kiln for zsh; made by `kiln completion zsh`.\n"
      "_kiln() {{\n"
      "  local at=kiln word i\n"
      "  local -a commands options\n"
      "  for ((i = 2; i < CURRENT; i++)); do\n"
      "    word=${{words[i]}}\n"
      "    case \"$at $word\" in\n{}    esac\n"
      "  done\n"
      "  case \"$at ${{words[CURRENT-1]}}\" in\n{}  esac\n"
      "  case \"$at\" in\n",
      posix_walk(root), posix_values(root, "_files", "compadd -- {}"));
  const auto entry = [](const std::string& name, const std::string& text) {
    return fmt::format("      {}\n", quoted(fmt::format("{}:{}", name, brief(text)), kPosixQuote));
  };
  for (const CommandNode& node : command_tree(root)) {
    out += fmt::format("    \"{}\")\n", node.words);
    std::string commands, options;
    for (const CLI::App* sub : offered(node, root))
      commands += entry(sub->get_name(), sub->get_description());
    for (const CLI::Option* option : positionals(*node.app))
      for (const std::string& word : values_of(*option).words) commands += entry(word, "");
    for (const CLI::Option* option : shown_options(*node.app))
      for (const std::string& name : spellings(*option))
        options += entry(name, option->get_description());
    if (!commands.empty()) out += "    commands=(\n" + commands + "    )\n";
    out += "    options=(\n" + options + "    )\n";
    out += takes_files(*node.app) ? "    _files ;;\n" : "    ;;\n";
  }
  return out +
         "  esac\n"
         "  (( ${#commands} )) && _describe -t commands command commands\n"
         "  _describe -o -t options option options\n"
         "}\n"
         "if [[ ${funcstack[1]} == _kiln ]]; then _kiln \"$@\"; else compdef _kiln kiln; fi\n";
}

std::string fish_completion(const CLI::App& root) {
  std::vector<std::string> all;
  for (const CommandNode& node : command_tree(root))
    if (node.app != &root) all.push_back(quoted(node.words, kFishQuote));
  std::string out = fmt::format(
      "# Completion of kiln for fish; made by `kiln completion fish`.\n"
      "function __kiln_at\n"
      "  set -l at kiln\n"
      "  for word in (commandline -opc)[2..-1]\n"
      "    switch \"$at $word\"\n"
      "      case {}\n"
      "        set at \"$at $word\"\n"
      "    end\n"
      "  end\n"
      "  test \"$at\" = \"$argv[1]\"\n"
      "end\n"
      "complete -c kiln -f\n",
      fmt::join(all, " "));
  const auto quote = [](const std::string& text) { return quoted(text, kFishQuote); };
  for (const CommandNode& node : command_tree(root)) {
    const std::string when = fmt::format("complete -c kiln -n \"__kiln_at '{}'\"", node.words);
    for (const CLI::App* sub : offered(node, root))
      out += fmt::format("{} -a {} -d {}\n", when, sub->get_name(),
                         quote(brief(sub->get_description())));
    for (const CLI::Option* option : positionals(*node.app))
      for (const std::string& word : values_of(*option).words)
        out += fmt::format("{} -a {}\n", when, word);
    if (takes_files(*node.app)) out += when + " -F\n";
    for (const CLI::Option* option : shown_options(*node.app)) {
      out += when;
      for (const std::string& name : option->get_snames()) out += " -s " + name;
      for (const std::string& name : option->get_lnames()) out += " -l " + name;
      if (takes_value(*option)) {
        const Values values = values_of(*option);
        out += values.files ? " -r -F" : " -x";
        if (!values.words.empty())
          out += fmt::format(" -a {}", quote(fmt::format("{}", fmt::join(values.words, " "))));
      }
      out += fmt::format(" -d {}\n", quote(brief(option->get_description())));
    }
  }
  return out;
}

void add_completion(CLI::App& parent, Session& session) {
  auto shell = std::make_shared<std::string>();
  CLI::App* app = add_command(
      parent, session, kCompletionManual, [&parent, &session, shell]() -> Result<Outcome> {
        const std::string script = *shell == "bash"  ? bash_completion(parent)
                                   : *shell == "zsh" ? zsh_completion(parent)
                                                     : fish_completion(parent);
        if (session.json)
          print_json({{"shell", *shell}, {"script", script}});
        else
          fmt::print("{}", script);
        return Outcome::done;
      });
  app->add_option("shell", *shell, "bash, zsh or fish")
      ->type_name("SHELL")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}).description(""));
}

}  // namespace kiln::cli
