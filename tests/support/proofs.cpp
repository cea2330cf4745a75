#include "support/proofs.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <stdexcept>
#include <vector>

#include "generator/render/code_key.h"
#include "support/paths.h"

namespace kiln::test {
namespace {

namespace fs = std::filesystem;

enum class Mode { kept, missing, all };

Mode mode() {
  const char* given = std::getenv("KILN_PROVE");
  if (given == nullptr || *given == '\0') return Mode::kept;
  return std::string_view(given) == "all" ? Mode::all : Mode::missing;
}

std::string read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error(path.string() + ": cannot be read, and outcomes depend on it");
  return {std::istreambuf_iterator<char>(in), {}};
}

/// The beginning of a text, in one line.
std::string one_line(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c == '\n' || c == '\r'; }, ' ');
  return text.substr(0, 80);
}

/// The outcomes of one test file.
class File {
 public:
  explicit File(const std::string& name)
      : path_(fs::path(source_dir()) / "tests/proofs" / (name + ".txt")) {
    std::ifstream in(path_);
    for (std::string line; std::getline(in, line);)
      if (line.size() >= 16)
        kept_[std::strtoull(line.c_str(), nullptr, 16)] =
            line.substr(std::min<std::size_t>(17, line.size()));
  }

  ~File() {
    if (asked_.empty()) return;
    fmt::print("{}: {} outcomes, {} kept, {} computed\n", path_.filename().string(), asked_.size(),
               asked_.size() - static_cast<std::size_t>(fresh_), computed_);
    if (mode() == Mode::kept) {
      if (fresh_ > 0) fmt::print("KILN_PROVE=1 keeps the {} that were not\n", fresh_);
      return;
    }
    fs::create_directories(path_.parent_path());
    std::ofstream out(path_, std::ios::trunc);
    for (const auto& [key, outcome] : asked_)
      out << fmt::format("{:016x}{}{}\n", key, outcome.empty() ? "" : " ", outcome);
  }

  std::string outcome(std::uint64_t key, const std::function<std::string()>& check,
                      std::uint64_t sample) {
    if (const auto before = asked_.find(key); before != asked_.end()) return before->second;
    const auto kept = kept_.find(key);
    const bool runs = kept == kept_.end() || mode() == Mode::all || key % sample == 0;
    std::string now = runs ? one_line(check()) : kept->second;
    computed_ += runs;
    fresh_ += kept == kept_.end();
    // A planted bug that another schedule of threads hides is not a fault: its test tries other
    // orders.
    if (runs && kept != kept_.end() && kept->second.empty() && !now.empty())
      ADD_FAILURE() << path_ << ": " << fmt::format("{:016x}", key) << " is kept as \""
                    << kept->second << "\", now \"" << now << '"';
    asked_[key] = now;
    return now;
  }

 private:
  fs::path path_;
  std::map<std::uint64_t, std::string> kept_, asked_;
  int computed_ = 0, fresh_ = 0;
};

bool draws_as_usual() {
  const char* seed = std::getenv("KILN_SEED");
  const char* more = std::getenv("KILN_THOROUGH");
  const auto is_one = [](const char* given) {
    return given == nullptr || std::string_view(given) == "1";
  };
  return is_one(seed) && is_one(more);
}

/// What an operand is and holds, and whether a result is right.
constexpr const char* kVerification[] = {"tuner/verify",
                                         "generator/problem",
                                         "generator/expression/evaluate.h",
                                         "generator/expression/functions.cpp",
                                         "generator/expression/functions.h",
                                         "generator/expression/parse.cpp",
                                         "generator/expression/program.h",
                                         "templates/cuda/check/functions.h",
                                         "templates/cuda/check/intervals.h",
                                         "templates/cuda/check/reduced.h",
                                         "runtime/buffers.cpp",
                                         "include/kiln/gemm.hpp",
                                         "include/kiln/numeric.hpp",
                                         "include/kiln/small_formats.hpp",
                                         "include/kiln/dtype.hpp"};

/// A hash of files, and of those in folders.
std::string hash_of(std::vector<const char*> names) {
  names.insert(names.end(), std::begin(kVerification), std::end(kVerification));
  std::vector<fs::path> files;
  for (const char* name : names) {
    const fs::path path = fs::path(source_dir()) / name;
    if (!fs::is_directory(path)) {
      files.push_back(path);
      continue;
    }
    for (const auto& entry : fs::recursive_directory_iterator(path))
      if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  std::string all;
  for (const fs::path& file : files) {
    const std::string text = read(file);
    all += file.extension() == ".zst" ? text : code_tokens(text);
  }
  return fmt::format("{:016x}", XXH3_64bits(all.data(), all.size()));
}

}  // namespace

std::string proof(std::string_view text, const std::function<std::string()>& check,
                  std::uint64_t sample) {
  if (!draws_as_usual()) return check();
  static std::mutex mutex;
  static std::map<std::string, File> files;
  const std::lock_guard lock(mutex);
  const auto* const test = testing::UnitTest::GetInstance()->current_test_info();
  const std::string name = fs::path(test->file()).stem().string();
  File& file = files.try_emplace(name, name).first->second;
  return file.outcome(XXH3_64bits(text.data(), text.size()), check, sample);
}

const std::string& emulation_sources() {
  static const std::string hash =
      hash_of({"templates/emu", "runtime/emulator", "generator/render/emulated.cpp",
               "runtime/gpu/kernel.cpp", "data/mfma_layouts.tar.zst"});
  return hash;
}

const std::string& host_sources() {
  static const std::string hash = hash_of(
      {"runtime/cpu/kernel.cpp", "runtime/cpu/launch.cpp", "runtime/cpu/image.cpp",
       "runtime/cpu/row_copies.cpp", "runtime/cpu/packed_b.cpp", "runtime/cpu/added_rows.cpp",
       "runtime/cpu/reductions.h", "runtime/cpu/reductions.cpp", "runtime/cpu/sum_scales.h",
       "tuner/measure/bound_kernel.cpp"});
  return hash;
}

}  // namespace kiln::test
