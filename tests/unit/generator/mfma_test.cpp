// The table of matrix instructions against layouts that were recorded elsewhere.
#include <gtest/gtest.h>

#include <set>

#include "generator/families/hip/common/instructions.h"
#include "support/mfma_layouts.h"

namespace kiln::hip::mfma_test {

const std::map<std::string, std::string>& files() {
  static const auto all = test::mfma_layout_files();
  return all;
}

std::string mnemonic(const std::string& printed) { return printed.substr(2); }  // without "v_"

const MfmaInstruction* row_for(const std::string& target, const std::string& name) {
  for (const auto& i : kMfma)
    if (i.mnemonic == name && (i.archs & arch_set(target)) != 0) return &i;
  return nullptr;
}

std::string element_name(Element e) {
  switch (e) {
    case Element::f64:
      return "fp64";
    case Element::f32:
      return "fp32";
    case Element::xf32:
      return "xf32";
    case Element::f16:
      return "fp16";
    case Element::bf16:
      return "bf16";
    case Element::i8:
      return "int8";
    case Element::i32:
      return "int32";
    case Element::fp8:
      return "amd_fp8";
    case Element::bf8:
      return "amd_bf8";
    case Element::f8f6f4:
      return "f8f6f4";
  }
  return "";
}

TEST(Mfma, EveryRecordedInstructionIsARow) {
  const auto rows = test::csv_rows(files().at("instructions.csv"));
  ASSERT_EQ(rows.size(), std::size(kMfma));
  std::set<const MfmaInstruction*> seen;
  for (const auto& r : rows) {
    const MfmaInstruction* i = row_for(r[0], mnemonic(r[1]));
    ASSERT_NE(i, nullptr) << r[0] << " " << r[1];
    SCOPED_TRACE(r[0] + " " + r[1]);
    EXPECT_TRUE(seen.insert(i).second);
    EXPECT_EQ(std::to_string(i->mn), r[3]);
    EXPECT_EQ(r[3], r[4]);
    EXPECT_EQ(std::to_string(i->k), r[5]);
    EXPECT_EQ(std::to_string(i->blocks), r[6]);
    EXPECT_EQ(i->flops(), std::stod(r[8]));
    EXPECT_EQ(element_name(i->a), r[9]);
    EXPECT_EQ(element_name(i->sum), r[10]);
    EXPECT_EQ(i->sparse, r[1].find("smfmac") != std::string::npos);
    // Of f8f6f4 the record gives both, the narrow formats' first.
    if (i->scaled())
      EXPECT_NE(r[7].find(" or " + std::to_string(i->cycles) + " "), std::string::npos);
    else
      EXPECT_EQ(std::to_string(i->cycles), r[7]);
  }
}

/// Bits of one operand of f8f6f4, by its name in a file's name.
int bits_named(const std::string& name) { return std::stoi(name.substr(2)); }

/// Checks one recorded file; returns the number of entries compared.
int check_layout(const std::string& name, const std::string& text) {
  const auto dot = name.find('.');
  const std::string target = name.substr(0, dot);
  std::string instruction = name.substr(dot + 1, name.size() - dot - 1 - 4);
  std::string formats;
  if (const auto at = instruction.find('.'); at != std::string::npos) {
    formats = instruction.substr(at + 1);
    instruction.resize(at);
  }
  const MfmaInstruction* i = row_for(target, mnemonic(instruction));
  EXPECT_NE(i, nullptr) << name;
  if (i == nullptr) return 0;
  int compared = 0;
  for (const auto& r : test::csv_rows(text)) {
    if (r[0] == "SA" || r[0] == "SB") continue;  // scales: kernels here do not use them
    const int block = std::stoi(r[1]), lane = std::stoi(r[5]);
    const int low = std::stoi(r[6]), high = std::stoi(r[7]);
    int bits = bits_of(r[0] == "A" ? i->a : r[0] == "B" ? i->b : i->sum);
    Place place{};
    if (r[0] == "C" || r[0] == "D") {
      place = sum_place(*i, block, std::stoi(r[2]), std::stoi(r[3]));
    } else {
      if (!formats.empty())
        bits = bits_named(r[0] == "A" ? formats.substr(0, 3) : formats.substr(4));
      const int row = std::stoi(r[0] == "A" ? r[2] : r[3]);
      // Narrow formats lie in one run of 32 k; the table's rule is that of the 8-bit ones.
      if (bits < 8) {
        const int k = std::stoi(r[4]);
        place = {row + i->mn * (k / 32), k % 32};
      } else {
        place = operand_place(*i, block, row, std::stoi(r[4]));
      }
    }
    ++compared;
    const Place recorded{lane, low / bits};
    if (place == recorded && high - low + 1 == bits) continue;
    ADD_FAILURE() << name << ": " << r[0] << " block " << block << " (" << r[2] << ", " << r[3]
                  << ", " << r[4] << ") lies in lane " << lane << " bit " << low << ", not lane "
                  << place.lane << " element " << place.index;
    return compared;
  }
  return compared;
}

TEST(Mfma, EveryElementLiesWhereItWasRecorded) {
  int compared = 0, layouts = 0;
  for (const auto& [name, text] : files()) {
    if (name == "instructions.csv") continue;
    compared += check_layout(name, text);
    ++layouts;
  }
  EXPECT_GE(layouts, 80);
  EXPECT_GT(compared, 200000);
}

TEST(Mfma, TypesFindTheirInstructions) {
  EXPECT_EQ(mfma_for("gfx942", bf16, bf16, 16, 16)->builtin, "mfma_f32_16x16x16bf16_1k");
  EXPECT_EQ(mfma_for("gfx950", bf16, bf16, 16, 32)->builtin, "mfma_f32_16x16x32_bf16");
  EXPECT_EQ(mfma_for("gfx942", bf16, bf16, 16, 32), nullptr);
  EXPECT_EQ(mfma_for("gfx942", fp8_e4m3fnuz, fp8_e5m2fnuz, 32, 16)->builtin,
            "mfma_f32_32x32x16_fp8_bf8");
  EXPECT_EQ(mfma_for("gfx942", fp8_e4m3, fp8_e4m3, 32, 16), nullptr) << "gfx942 reads FNUZ only";
  EXPECT_EQ(mfma_for("gfx950", fp8_e4m3fnuz, fp8_e4m3fnuz, 32, 16), nullptr);
  EXPECT_TRUE(mfma_for("gfx950", fp8_e4m3, fp8_e5m2, 16, 128)->scaled());
  EXPECT_EQ(mfma_for("gfx950", tf32, tf32, 16, 8), nullptr) << "gfx950 has no xf32";
  EXPECT_NE(mfma_for("gfx942", tf32, tf32, 16, 8), nullptr);
  EXPECT_EQ(mfma_for("gfx1100", bf16, bf16, 16, 16), nullptr);
}

}  // namespace kiln::hip::mfma_test
