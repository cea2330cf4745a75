// Every family has what makes it known and tested: a golden to read, a page, a sample that computes
// its problem, a place where its configs are drawn, planted bugs or the reason why there are none,
// and on GPUs tests of its own. docs/adding-a-family.md leads through them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <string>
#include <vector>

#include "generator/families/cpu/amx/config.h"
#include "generator/space/family.h"
#include "generator/space/platform.h"
#include "support/compiled.h"
#include "support/emulated.h"
#include "support/family_samples.h"
#include "support/paths.h"

namespace kiln::families_test {

namespace fs = std::filesystem;

const fs::path kRoot = test::source_dir();

/// The file's text; empty when there is none.
std::string text_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// Of the family's own tests: cuda_mma, tests/families/cuda/mma.
fs::path folder_of(const Family& family) {
  std::string name(family.name);
  name.replace(name.find('_'), 1, "/");
  if (family.vendor == Vendor::cpu) name.replace(0, name.find('/'), "cpu");
  return kRoot / "tests/families" / name;
}

/// Families that render kernels; a library's choices have no source.
std::vector<const Family*> generated() {
  std::vector<const Family*> all;
  for (const Family& family : families())
    if (!family.files.empty()) all.push_back(&family);
  return all;
}

const test::FamilySample* sample_of(std::string_view family) {
  for (const test::FamilySample& sample : test::kFamilySamples)
    if (sample.family == family) return &sample;
  return nullptr;
}

TEST(EveryFamily, HasAGoldenToRead) {
  for (const Family* family : generated()) {
    const std::string file =
        std::string(family->name) + '.' + std::string(platform_of(family->vendor).extension);
    const std::string golden = text_of(kRoot / "tests/golden/kept" / file);
    EXPECT_TRUE(contains(golden, "\n// config:  " + std::string(family->name) + ' '))
        << "tests/golden/kept/" << file
        << ": a whole kernel of the family, by a row of tests/golden/render_test.cpp";
  }
}

TEST(EveryFamily, HasAPage) {
  const std::string overview = text_of(kRoot / "docs/families/overview.md");
  for (const Family& family : families()) {
    const std::string page = std::string(family.name) + ".md";
    EXPECT_TRUE(
        text_of(kRoot / "docs/families" / page).starts_with("# " + std::string(family.name)))
        << "docs/families/" << page;
    EXPECT_TRUE(contains(overview, '(' + page + ')'))
        << "docs/families/overview.md has no row for " << family.name;
  }
}

TEST(EveryFamily, HasASampleThatIsRight) {
  for (const Family* family : generated()) {
    const test::FamilySample* sample = sample_of(family->name);
    ASSERT_NE(sample, nullptr) << family->name << ": no row in tests/support/family_samples.h";
    const auto gemm = parse_gemm(sample->shape);
    ASSERT_TRUE(gemm) << gemm.error().message;
    const auto config = parse_config(sample->config);
    ASSERT_TRUE(config) << config.error().message;
    EXPECT_EQ(family_name(*config), family->name);
    DeviceCaps device = caps_named(sample->device).value();
    if (family->vendor == Vendor::cpu) {
      device.compute_units = 1;
      EXPECT_TRUE(render(Problem::of(*gemm).value(), device, *config))
          << render(Problem::of(*gemm).value(), device, *config).error().message;
      if (!test::runnable(sample->device, 1)) continue;
      auto kernel = test::compiled(*gemm, device, *config);
      ASSERT_TRUE(kernel) << family->name << ": " << kernel.error().message;
      auto verifier = Verifier::make(*gemm, {.seed = 1, .effort = Effort::full});
      ASSERT_TRUE(verifier) << verifier.error().message;
      const auto verdict =
          verifier->check([&](const Operands& operands) { return kernel->run(operands); },
                          flushed_by(*gemm, device, *config));
      EXPECT_TRUE(verdict) << family->name << ": " << verdict.error().detail;
    } else {
      device.compute_units = 4;
      const auto kernel = test::emulated_kernel(*gemm, device, *config);
      ASSERT_TRUE(kernel) << family->name << ": " << kernel.error().message;
      const Verdict verdict = test::verify_emulated(*gemm, *kernel, 0);
      EXPECT_TRUE(verdict) << family->name << ": " << (verdict ? "" : verdict.error().detail);
    }
  }
}

/// CPU families need no row: kernels_test.cpp draws from whatever the space of a sample holds.
TEST(EveryFamily, IsDrawnOnTheEmulator) {
  for (const Family* family : generated()) {
    if (family->vendor == Vendor::cpu) continue;
    bool drawn = false;
    for (const test::Target& target : test::kDrawnOnTheEmulator)
      drawn = drawn || target.family == family->name;
    for (const test::DrawnElsewhere& elsewhere : test::kDrawnElsewhere)
      if (elsewhere.family == family->name) {
        drawn = true;
        EXPECT_TRUE(fs::exists(folder_of(*family) / elsewhere.file)) << elsewhere.file;
      }
    EXPECT_TRUE(drawn) << family->name << ": no row in kDrawnOnTheEmulator";
  }
}

/// host_amx: HostAmx.
std::string config_type(std::string_view family) {
  std::string type;
  bool begins = true;
  for (const char c : family) {
    if (c != '_') type += begins ? char(std::toupper(c)) : c;
    begins = c == '_';
  }
  return type;
}

/// Bugs planted in each config type's kernels: `Base kName{…, Type{…}}` and rows of `{&kName, …}`.
std::map<std::string, int> planted_bugs() {
  static const std::regex base(R"(const Base (k\w+)\{[^;]*?\b((?:Host|Cuda|Hip)[A-Z]\w*)\{)");
  std::map<std::string, int> planted;
  for (const auto& entry : fs::recursive_directory_iterator(kRoot / "tests")) {
    if (entry.path().extension() != ".cpp") continue;
    const std::string text = text_of(entry.path());
    for (std::sregex_iterator found(text.begin(), text.end(), base), end; found != end; ++found) {
      const std::string row = "{&" + (*found)[1].str() + ',';
      for (auto at = text.find(row); at != std::string::npos; at = text.find(row, at + 1))
        ++planted[(*found)[2].str()];
    }
  }
  return planted;
}

TEST(EveryFamily, HasPlantedBugsOrSaysWhyNot) {
  constexpr int kFewest = 5;
  const auto planted = planted_bugs();
  for (const Family* family : generated()) {
    const test::FamilySample* sample = sample_of(family->name);
    ASSERT_NE(sample, nullptr) << family->name;
    const auto found = planted.find(config_type(family->name));
    const int count = found == planted.end() ? 0 : found->second;
    if (sample->no_planted_bugs != nullptr)
      EXPECT_EQ(count, 0) << family->name << " has planted bugs: its row needs no reason";
    else
      EXPECT_GE(count, kFewest) << family->name << ": a *mutants_test.cpp of its folder";
  }
}

/// CPU families have none: what is asked of one is asked of all, by tests/unit and
/// kernels_test.cpp.
TEST(EveryFamily, OfAGpuHasTestsOfItsOwn) {
  for (const Family* family : generated()) {
    if (family->vendor == Vendor::cpu) continue;
    const fs::path folder = folder_of(*family);
    const bool tested =
        fs::is_directory(folder) &&
        std::any_of(fs::directory_iterator(folder), {}, [](const fs::directory_entry& entry) {
          return entry.path().filename().string().ends_with("_test.cpp");
        });
    EXPECT_TRUE(tested) << family->name << ": no *_test.cpp in " << folder;
  }
}

TEST(FamilySamples, AreOfFamiliesThatExist) {
  std::vector<std::string_view> names;
  for (const Family* family : generated()) names.push_back(family->name);
  const auto expect_known = [&](std::string_view name) {
    EXPECT_EQ(std::count(names.begin(), names.end(), name), 1) << name;
  };
  for (const auto& sample : test::kFamilySamples) expect_known(sample.family);
  for (const auto& target : test::kDrawnOnTheEmulator) expect_known(target.family);
  for (const auto& elsewhere : test::kDrawnElsewhere) expect_known(elsewhere.family);
  EXPECT_EQ(std::size(test::kFamilySamples), names.size());
}

}  // namespace kiln::families_test
