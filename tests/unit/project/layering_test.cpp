// Enforces the one-way order of the folders, and of the folders within one where it states one: a
// file includes only from its own folder and from those to the left of it; heavy libraries stay in
// the one folder that may know them; assembly of GPU templates stays in headers of wrappers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <regex>
#include <string>
#include <vector>

#include "support/paths.h"

namespace kiln::layering_test {

namespace fs = std::filesystem;

/// In processing order. "kiln/…" is how include/kiln is spelled in an #include.
constexpr std::array<std::string_view, 12> kOrder = {"kiln",  "templates", "generator", "runtime",
                                                     "tuner", "cache",     "engine",    "bench",
                                                     "fleet", "cli",       "python",    "hooks"};

/// The folders within a folder, in processing order, where it states one. A header that lies beside
/// them comes before all of them; a source that lies beside them may include any.
const std::map<std::string, std::vector<std::string>> kInner = {
    {"tuner", {"verify", "measure", "search", "worker", "offline"}},
    {"cache", {"codec", "rows", "layers", "records", "exchange"}},
    {"cli", {"output", "commands"}}};

/// Folders that are users of kiln: the public headers are all they may include of it.
constexpr std::array<std::string_view, 2> kUsers = {"python", "hooks"};

/// Outside headers that only the named folders may include.
const std::multimap<std::string, std::string> kOwners = {
    {"SQLiteCpp/", "cache"}, {"sqlite3.h", "cache"},  {"clang/", "runtime"},
    {"llvm/", "runtime"},    {"lld/", "runtime"},     {"CLI/", "cli"},
    {"dlfcn.h", "runtime"},  {"dlfcn.h", "bench"},    {"hwloc", "runtime"},
    {"Eigen/", "bench"},     {"libxsmm", "bench"},    {"spdlog/", "runtime"},
    {"Python.h", "python"},  {"pybind11/", "python"}, {"dlpack/", "python"},
    {"dlfcn.h", "fleet"},    {"dlfcn.h", "hooks"},    {"cublas", "hooks"},
    {"cuda", "hooks"}};

struct Include {
  fs::path file;  // relative to the source tree
  int line = 0;
  std::string folder;  // of the including file, as in kOrder
  std::string target;  // what is between the quotes or brackets
  bool quoted = false;
};

std::vector<Include> includes_in(std::istream& text, const fs::path& file,
                                 const std::string& folder) {
  static const std::regex pattern(R"re(^\s*#\s*include\s*([<"])([^>"]+)[>"])re");
  std::vector<Include> found;
  std::string line;
  for (int number = 1; std::getline(text, line); ++number)
    if (std::smatch match; std::regex_search(line, match, pattern))
      found.push_back({file, number, folder, match[2], match[1] == "\""});
  return found;
}

bool is_source(const fs::path& path) {
  static const std::vector<std::string> endings = {".h", ".hpp", ".c", ".cpp", ".inc"};
  return std::find(endings.begin(), endings.end(), path.extension()) != endings.end();
}

std::vector<Include> all_includes() {
  const fs::path root = test::source_dir();
  std::vector<Include> all;
  for (const auto folder : kOrder) {
    const fs::path dir = folder == "kiln" ? root / "include/kiln" : root / folder;
    for (const auto& entry : fs::recursive_directory_iterator(dir)) {
      if (!entry.is_regular_file() || !is_source(entry.path())) continue;
      std::ifstream text(entry.path());
      auto found = includes_in(text, fs::relative(entry.path(), root), std::string(folder));
      all.insert(all.end(), found.begin(), found.end());
    }
  }
  return all;
}

std::ptrdiff_t rank(std::string_view folder) {
  return std::find(kOrder.begin(), kOrder.end(), folder) - kOrder.begin();
}

/// Where a file stands in the order within its folder: 0 before the first inner folder, nothing for
/// an inner folder that the order does not name.
std::optional<std::ptrdiff_t> inner_rank(const std::vector<std::string>& order,
                                         const fs::path& file) {
  std::vector<std::string> parts;
  for (const fs::path& part : file) parts.push_back(part.string());
  if (parts.size() < 3) return file.extension() == ".cpp" ? std::ssize(order) : 0;
  const auto found = std::ranges::find(order, parts[1]);
  if (found == order.end()) return std::nullopt;
  return found - order.begin() + 1;
}

/// What is wrong with an include of the same folder, or nothing.
std::string inner_complaint(const Include& include) {
  const auto order = kInner.find(include.folder);
  if (order == kInner.end() || !include.target.starts_with(include.folder + "/")) return {};
  const auto from = inner_rank(order->second, include.file);
  const auto to = inner_rank(order->second, include.target);
  if (!from || !to) return ": not one of the folders within " + include.folder;
  return *to > *from ? ": points right within " + include.folder : std::string();
}

/// What is wrong with one include, or nothing.
std::string complaint(const Include& include) {
  const std::string where =
      include.file.string() + ":" + std::to_string(include.line) + " includes " + include.target;
  for (const auto& [prefix, ignored] : kOwners) {
    if (!include.target.starts_with(prefix)) continue;
    const auto [first, last] = kOwners.equal_range(prefix);
    if (std::none_of(first, last, [&](auto& row) { return row.second == include.folder; }))
      return where + ": not in a folder that may know it";
  }
  if (!include.quoted) return {};
  const auto slash = include.target.find('/');
  if (slash == std::string::npos) return {};  // a file of the same directory
  const auto target = rank(include.target.substr(0, slash));
  if (target == std::ssize(kOrder)) return where + ": not one of the folders";
  if (target > rank(include.folder)) return where + ": points right";
  if (std::ranges::find(kUsers, include.folder) != kUsers.end() && target != rank("kiln") &&
      target != rank(include.folder))
    return where + ": not a public header";
  const std::string inner = inner_complaint(include);
  return inner.empty() ? std::string() : where + inner;
}

/// What is wrong with the one include of a file "folder/…" with this text.
std::string complaint_about(const fs::path& folder, const std::string& text,
                            const char* name = "made_up.h") {
  std::istringstream stream(text);
  const auto found = includes_in(stream, folder / name, folder.begin()->string());
  return found.size() == 1 ? complaint(found[0]) : "no include found";
}

/// C++ without comments (template directives are some) and the contents of strings.
std::string bare(const std::string& text) {
  static const std::regex dropped(R"re(//[^\n]*|"(?:[^"\\\n]|\\.)*")re");
  return std::regex_replace(text, dropped, " ");
}

/// What is wrong with the instructions of one GPU template, or nothing. Headers of wrappers, which
/// the emulator exchanges as a whole, hold all assembly and no algorithm.
std::string instructions_complaint(const std::string& name, const std::string& text) {
  static const std::regex assembly(R"(\b(asm|__asm|__asm__)\b)");
  static const std::regex control(R"(\b(if|for|while|do|switch|goto)\b)");
  const bool wrappers = name.ends_with("_ptx.h") || name.ends_with("_gcn.h");
  const std::string code = bare(text);
  if (!wrappers && std::regex_search(code, assembly))
    return name + ": assembly outside a header of wrappers (_ptx.h, _gcn.h)";
  if (wrappers && std::regex_search(code, control)) return name + ": more than wrappers";
  return {};
}

TEST(Layering, AssemblyStaysInHeadersOfWrappers) {
  int headers = 0;
  for (const char* vendor : {"cuda", "hip"})
    for (const auto& entry :
         fs::recursive_directory_iterator(fs::path(test::source_dir()) / "templates" / vendor)) {
      if (!entry.is_regular_file()) continue;
      std::ifstream file(entry.path());
      const std::string text{std::istreambuf_iterator<char>(file), {}};
      const std::string name = entry.path().filename().string();
      EXPECT_EQ(instructions_complaint(name, text), "") << entry.path();
      headers += name.ends_with("_ptx.h") || name.ends_with("_gcn.h") ? 1 : 0;
    }
  EXPECT_GT(headers, 10) << "the scan found too little to mean anything";
}

TEST(Layering, PlantedInstructionsAreSeen) {
  using testing::EndsWith;
  const std::string wrapper = "//% if async\nvoid f() { asm volatile(\"if %0;\"); }\n//% end\n";
  EXPECT_EQ(instructions_complaint("a_ptx.h", wrapper), "");
  EXPECT_EQ(instructions_complaint("a.cu", "// asm\nconst char* x = \"asm\";\n"), "");
  EXPECT_THAT(instructions_complaint("a.cu", wrapper), EndsWith("(_ptx.h, _gcn.h)"));
  EXPECT_THAT(instructions_complaint("a.h", "u32 f() __asm(\"llvm.x\");"),
              EndsWith("(_ptx.h, _gcn.h)"));
  EXPECT_THAT(instructions_complaint("a_ptx.h", "void f() { for (;;) asm(\"\"); }"),
              EndsWith("more than wrappers"));
}

TEST(Layering, EveryIncludePointsLeft) {
  const auto all = all_includes();
  EXPECT_GT(all.size(), 100u) << "the scan found too little to mean anything";
  for (const auto& include : all) EXPECT_EQ(complaint(include), "");
}

TEST(Layering, PlantedViolationsAreSeen) {
  using testing::EndsWith;
  EXPECT_EQ(complaint_about("tuner", "#include \"runtime/cpu/kernel.h\""), "");
  EXPECT_EQ(complaint_about("cache", "#include <SQLiteCpp/Database.h>"), "");
  EXPECT_THAT(complaint_about("generator", "#include \"runtime/cpu/kernel.h\""),
              EndsWith("points right"));
  EXPECT_THAT(complaint_about("kiln", "#include \"generator/space/space.h\""),
              EndsWith("points right"));
  EXPECT_THAT(complaint_about("tuner", "  #  include <sqlite3.h>"), EndsWith("may know it"));
  EXPECT_EQ(complaint_about("python", "#include \"kiln/engine.hpp\""), "");
  for (const char* user : {"python", "hooks"})
    EXPECT_THAT(complaint_about(user, "#include \"engine/plan.h\""),
                EndsWith("not a public header"));
  EXPECT_THAT(complaint_about("cli", "#include \"elsewhere/x.h\""),
              EndsWith("not one of the folders"));
}

TEST(Layering, PlantedViolationsWithinAFolderAreSeen) {
  using testing::EndsWith;
  EXPECT_EQ(complaint_about("cache/records", "#include \"cache/rows/rows.h\""), "");
  EXPECT_EQ(complaint_about("cache/records", "#include \"cache/records/proofs.h\""), "");
  EXPECT_EQ(complaint_about("cache/codec", "#include \"cache/store.h\""), "");
  EXPECT_EQ(complaint_about("cache", "#include \"cache/records/proofs.h\"", "store.cpp"), "");
  EXPECT_THAT(complaint_about("cache/rows", "#include \"cache/layers/layer.h\""),
              EndsWith("points right within cache"));
  EXPECT_THAT(complaint_about("cache", "#include \"cache/codec/codec.h\""),
              EndsWith("points right within cache"));
  EXPECT_THAT(complaint_about("cache/records", "#include \"cache/elsewhere/x.h\""),
              EndsWith("not one of the folders within cache"));
}

TEST(Layering, EveryInnerFolderIsNamed) {
  for (const auto& [folder, order] : kInner)
    for (const auto& entry : fs::directory_iterator(fs::path(test::source_dir()) / folder)) {
      if (!entry.is_directory()) continue;
      EXPECT_THAT(order, testing::Contains(entry.path().filename().string())) << folder;
    }
}

TEST(Layering, QuotedFilesExist) {
  const fs::path root = test::source_dir();
  for (const auto& include : all_includes()) {
    if (!include.quoted) continue;
    const bool exists = fs::exists(root / include.target) ||
                        fs::exists(root / "include" / include.target) ||
                        fs::exists(root / include.file.parent_path() / include.target);
    EXPECT_TRUE(exists) << include.file << ":" << include.line << " includes " << include.target;
  }
}

}  // namespace kiln::layering_test
