// The environment is read in one place, and by a program with more rights than its user not at all:
// variables name libraries and programs that kiln runs and files that it writes.
#include "runtime/env.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

#include "support/child.h"
#include "support/kiln_command.h"
#include "support/paths.h"
#include "support/temp_dir.h"

namespace kiln::env_test {

namespace fs = std::filesystem;

constexpr std::string_view kFolders[] = {"include", "generator", "runtime", "tuner",
                                         "cache",   "engine",    "bench",   "fleet",
                                         "cli",     "hooks",     "python",  "templates"};
/// Where env() is.
constexpr std::string_view kReaders[] = {"runtime/env.h", "hooks/common/env.h"};
/// Where a child's environment is made from this process's.
constexpr std::string_view kPassers[] = {"runtime/worker_program.cpp", "bench/environment.cpp"};

bool is_source(const fs::path& path) {
  static const std::vector<std::string> endings = {".h", ".hpp", ".c", ".cpp", ".inc"};
  return std::ranges::find(endings, path.extension().string()) != endings.end();
}

/// What is wrong with a file of this name and text, or nothing.
std::string complaint(const std::string& name, const std::string& text) {
  static const std::regex dropped(R"re(//[^\n]*|"(?:[^"\\\n]|\\.)*")re");
  static const std::regex reads(R"(\b(secure_)?getenv\b)"), whole(R"(\benviron\b)");
  if (text.find("getenv") == text.npos && text.find("environ") == text.npos) return {};
  const std::string code = std::regex_replace(text, dropped, " ");
  const auto among = [&](const auto& names) {
    return std::ranges::find(names, name) != names + std::size(names);
  };
  if (std::regex_search(code, reads) && !among(kReaders))
    return name + ": reads the environment itself; call env()";
  if (std::regex_search(code, whole) && !among(kPassers))
    return name + ": takes the whole environment";
  return {};
}

TEST(Env, NothingElseReadsTheEnvironment) {
  const fs::path root = test::source_dir();
  int files = 0;
  for (const auto folder : kFolders)
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      if (!entry.is_regular_file() || !is_source(entry.path())) continue;
      std::ifstream file(entry.path());
      const std::string text{std::istreambuf_iterator<char>(file), {}};
      EXPECT_EQ(complaint(fs::relative(entry.path(), root).generic_string(), text), "");
      ++files;
    }
  EXPECT_GT(files, 300) << "the scan found too little to mean anything";
}

TEST(Env, PlantedReadersAreSeen) {
  using testing::EndsWith;
  EXPECT_EQ(complaint("engine/x.cpp", "// getenv\nconst char* x = env(\"getenv\");"), "");
  EXPECT_EQ(complaint("runtime/env.h", "return ::secure_getenv(name);"), "");
  for (const char* text : {"std::getenv(\"X\")", "::getenv(x)", "secure_getenv(x)"})
    EXPECT_THAT(complaint("engine/x.cpp", text), EndsWith("call env()")) << text;
  EXPECT_THAT(complaint("engine/x.cpp", "extern char** environ;"),
              EndsWith("the whole environment"));
}

TEST(Env, IsReadInAnOrdinaryProgram) {
  EXPECT_TRUE(test::in_child([] {
    ::setenv("KILN_TEST_OF_ENV", "a value", 1);
    const char* set = env("KILN_TEST_OF_ENV");
    if (set == nullptr || std::string_view(set) != "a value") return false;
    ::unsetenv("KILN_TEST_OF_ENV");
    return env("KILN_TEST_OF_ENV") == nullptr && !env_is_foreign();
  }));
}

/// A copy of the command that runs as `nobody` whoever starts it; empty where none can be made.
fs::path command_of_nobody(const fs::path& folder) {
  constexpr uid_t kNobody = 65534;
  if (::geteuid() != 0) return {};
  const fs::path file = folder / "kiln";
  fs::copy_file(test::build_dir() + "/bin/kiln", file);
  if (::chown(file.c_str(), kNobody, kNobody) != 0 || ::chmod(file.c_str(), 04755) != 0) return {};
  fs::permissions(folder, fs::perms::all);
  return file;
}

/// What `command` says where $KILN_DB names `database`.
std::string said_of(const fs::path& command, const fs::path& database, const fs::path& folder) {
  const fs::path said = folder / "said";
  const std::string line = "KILN_DB='" + database.string() + "' '" + command.string() +
                           "' db stats >'" + said.string() + "' 2>&1 </dev/null";
  (void)!std::system(line.c_str());
  return test::KilnCommand::read(said);
}

TEST(Env, IsNotReadByAProgramWithMoreRightsThanItsUser) {
  TempDir folder;
  const fs::path command = command_of_nobody(folder.path());
  if (command.empty()) GTEST_SKIP() << "only root can make a program of another user";
  const fs::path database = folder / "named.db";
  EXPECT_THAT(said_of(test::build_dir() + "/bin/kiln", database, folder.path()),
              testing::HasSubstr(database.string()))
      << "the command does not say which database it took";
  fs::remove(database);
  const std::string said = said_of(command, database, folder.path());
  EXPECT_NE(said, "") << "the copy did not start";
  EXPECT_THAT(said, testing::Not(testing::HasSubstr(database.string())));
  EXPECT_FALSE(fs::exists(database)) << "made with the rights of the program's owner";
}

}  // namespace kiln::env_test
