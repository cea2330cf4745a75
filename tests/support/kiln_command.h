// The `kiln` command run as a child process: exit code, stdout and stderr of one run.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "support/paths.h"
#include "support/temp_dir.h"

namespace kiln::test {

struct CommandResult {
  int exit_code = -1;  // -1: a signal ended it
  std::string out, err;

  /// stdout as JSON objects, one a line; a line that is not one fails the test.
  std::vector<nlohmann::json> json() const {
    std::vector<nlohmann::json> objects;
    std::istringstream lines(out);
    for (std::string line; std::getline(lines, line);) {
      objects.push_back(nlohmann::json::parse(line, nullptr, false));
      EXPECT_TRUE(objects.back().is_object()) << "not a JSON object: " << line;
    }
    return objects;
  }
};

/// Runs the built command with a database and a cache folder of its own.
class KilnCommand {
 public:
  CommandResult operator()(const std::vector<std::string>& arguments) const {
    std::string line = "env -u KILN_DB_PATH";
    for (const auto& [name, value] : environment) line += ' ' + quoted(name + '=' + value);
    for (const std::string& word : launcher) line += ' ' + quoted(word);
    line += ' ' + quoted(build_dir() + "/bin/kiln");
    for (const std::string& argument : arguments) line += ' ' + quoted(argument);
    const std::filesystem::path out = folder / "stdout", err = folder / "stderr";
    line += " >" + quoted(out.string()) + " 2>" + quoted(err.string()) + " </dev/null";
    const int status = std::system(line.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read(out), read(err)};
  }

  static std::string read(const std::filesystem::path& file) {
    std::ostringstream text;
    text << std::ifstream(file).rdbuf();
    return text.str();
  }

  TempDir folder;
  std::vector<std::string> launcher = {};  // words before the command: mpirun -n 4
  std::map<std::string, std::string> environment{{"KILN_DB", (folder / "kiln.db").string()}};

 private:
  static std::string quoted(const std::string& word) {
    std::string out = "'";
    for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return out + "'";
  }
};

}  // namespace kiln::test
