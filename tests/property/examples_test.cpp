// `kiln examples`: the kernels of one instruction are right, hold that instruction, and a wrong one
// is told from a right one; the peaks are those that AMD publishes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <regex>
#include <string>

#include "generator/problem/device_caps.h"
#include "support/kiln_command.h"
#include "tuner/verify/mfma_example.h"

namespace kiln::examples_test {

using testing::HasSubstr;

TEST(MfmaExamples, AreRightAndHoldTheirInstruction) {
  ASSERT_EQ(mfma_examples().size(), 5u);
  for (const MfmaExample& e : mfma_examples()) {
    SCOPED_TRACE(e.name);
    const auto proof = prove(e, 7);
    ASSERT_TRUE(proof) << proof.error().message;
    EXPECT_EQ(proof->first_wrong, "");
    EXPECT_EQ(proof->wrong, 0);
    EXPECT_EQ(proof->elements, 4 * e.instruction().mn * e.instruction().mn);
    EXPECT_EQ(proof->object.resources.spills, 0);
    const auto compiler = compiler_for(hip_caps_named(e.arch).value());
    ASSERT_TRUE(compiler) << compiler.error().message;
    const auto assembly = (*compiler)->assembly(proof->source);
    ASSERT_TRUE(assembly) << assembly.error().message;
    const std::regex matrix(R"(\tv_(\w*mfma\w+))");
    const std::sregex_iterator first(assembly->begin(), assembly->end(), matrix), end;
    ASSERT_EQ(std::distance(first, end), 1);
    EXPECT_EQ((*first)[1].str(), e.mnemonic);
  }
}

TEST(MfmaExamples, WrongOnesAreFound) {
  for (const MfmaExample& e : mfma_examples()) {
    if (!e.scaled()) continue;
    MfmaExample wrong = e;
    wrong.format_code = 2;
    const auto proof = prove(wrong, 7);
    ASSERT_TRUE(proof) << proof.error().message;
    EXPECT_FALSE(proof->right()) << e.name;
    EXPECT_GT(proof->wrong, proof->elements / 2);
  }
}

/// Dense peaks of AMD's data sheets (MI300X, MI325X, MI355X), in TFLOP/s, where the instruction is
/// one of the fastest of its type.
TEST(MfmaExamples, PeaksAreThePublishedOnes) {
  const std::map<std::string, std::map<std::string, double>> published{
      {"fp32_32x32x2", {{"MI300X", 163.4}, {"MI325X", 163.4}, {"MI355X", 157.3}}},
      {"fp16_16x16x16", {{"MI300X", 1307.4}, {"MI325X", 1307.4}}},
      {"fp8_32x32x16", {{"MI300X", 2614.9}, {"MI325X", 2614.9}}},
      {"mxfp8_32x32x64", {{"MI355X", 5033.2}}},
      {"mxfp4_32x32x64", {{"MI355X", 10066.3}}}};
  for (const MfmaExample& e : mfma_examples()) {
    const auto& of = published.at(std::string(e.name));
    std::size_t found = 0;
    for (const MatrixPeak& peak : peaks_of(e)) {
      const auto figure = of.find(peak.model);
      if (figure == of.end()) continue;
      EXPECT_NEAR(peak.tflops, figure->second, 0.1) << e.name << " on " << peak.model;
      ++found;
    }
    EXPECT_EQ(found, of.size()) << e.name;
  }
}

TEST(ExamplesCommand, PrintsProvesAndKeeps) {
  const test::KilnCommand kiln;
  const auto keep = (kiln.folder / "kept").string();
  const auto json = kiln({"examples", "mfma", "--json", "--keep", keep});
  EXPECT_EQ(json.exit_code, 0) << json.err;
  const auto rows = json.json();
  ASSERT_EQ(rows.size(), mfma_examples().size());
  for (const auto& row : rows) {
    EXPECT_TRUE(row["ok"].get<bool>()) << row.dump();
    EXPECT_FALSE(row["peaks"].empty());
    EXPECT_EQ(test::KilnCommand::read(row["file"].get<std::string>()),
              row["source"].get<std::string>());
    auto object = std::filesystem::path(row["file"].get<std::string>());
    EXPECT_THAT(test::KilnCommand::read(object.replace_extension(".hsaco")),
                testing::StartsWith("\x7f"
                                    "ELF"));
  }
  const auto text = kiln({"examples", "mfma", "--only", "mxfp4_32x32x64", "--source"});
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("elements equal to the exact sums"));
  EXPECT_THAT(text.out, HasSubstr("10066.3"));
  EXPECT_THAT(text.out, HasSubstr("__builtin_amdgcn_mfma_scale_f32_32x32x64_f8f6f4"));
  EXPECT_EQ(kiln({"examples", "mfma", "--only", "nothing"}).exit_code, 2);
}

}  // namespace kiln::examples_test
