// Every matrix instruction of every target, run by the emulator on random bits, against what the
// recorded layouts and the formats' definitions say.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <cfloat>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "generator/families/hip/common/instructions.h"
#include "generator/render/embedded.h"
#include "generator/render/emulated.h"
#include "generator/render/template.h"
#include "runtime/compiler.h"
#include "runtime/emulator/kernel.h"
#include "support/mfma_oracle.h"

namespace kiln::hip::mfma_instructions_test {

using test::get_bits;
using test::MfmaEntry;
using test::MfmaFormats;
using test::MfmaInputs;
using test::MfmaRegisters;
using test::MfmaTable;
using test::put_bits;

const std::map<std::string, std::string>& files() {
  static const auto all = test::mfma_layout_files();
  return all;
}

std::string file(std::string_view path) {
  for (const EmbeddedFile& f : embedded_templates())
    if (f.path == path)
      return fmt::format("\n// ---- {} ----\n{}", path,
                         expand(f.text, {{"scales", "0"},
                                         {"zeros", "0"},
                                         {"groups", "0"},
                                         {"row_groups", "0"},
                                         {"scale_d", "none"},
                                         {"zero_a", "none"},
                                         {"indexed", "0"},
                                         {"amax", "0"},
                                         {"expression", ""},
                                         {"expressed", "0"}})
                             .value());
  return {};
}

/// The dense instructions of a target, scaled ones included.
std::vector<const MfmaInstruction*> dense(const std::string& arch) {
  std::vector<const MfmaInstruction*> all;
  for (const MfmaInstruction& i : kMfma)
    if (!i.sparse && (i.archs & arch_set(arch)) != 0) all.push_back(&i);
  return all;
}

/// One wave that runs the instruction numbered `m` on the registers in A and stores D's. Each lane
/// has 32 words for each of a, b, c and the scales of either.
std::string probe(const std::vector<const MfmaInstruction*>& instructions) {
  std::string text = "// A probe.\n" + file("cuda/common/abi.h") + file("hip/common/types.h") +
                     "\n// ---- parameters ----\n\n// ---- probe ----\n"
                     "template <int N> struct Words { u32 word[N]; };\n"
                     "template <int N> static Words<N> take(const u32* from) {\n"
                     "  Words<N> w;\n  __builtin_memcpy(&w, from, sizeof(w));\n  return w;\n}\n"
                     "extern \"C\" void kiln_gemm(KilnGpuArgs args) {\n"
                     "  const u32 lane = __builtin_amdgcn_workitem_id_x();\n"
                     "  const u32* in = (const u32*)args.a + lane * 160;\n"
                     "  u32* out = (u32*)args.d + lane * 32;\n  switch (args.m) {\n";
  for (std::size_t i = 0; i < instructions.size(); ++i) {
    const MfmaInstruction& row = *instructions[i];
    const auto issue = [&](const std::string& immediates) {
      return fmt::format(
          "const auto d = __builtin_amdgcn_{}(take<{}>(in), take<{}>(in + 32), take<{}>(in + 64), "
          "{});\n__builtin_memcpy(out, &d, sizeof(d));\n",
          row.builtin, row.scaled() ? 8 : row.a_registers(), row.scaled() ? 8 : row.b_registers(),
          row.accumulator_registers(), immediates);
    };
    text += fmt::format("case {}: {{\n", i);
    if (row.scaled())
      text +=
          fmt::format("if (args.k) {{ {} }} else {{ {} }}\n",
                      issue("args.lda, args.ldb, args.stride_a, in[96], args.stride_b, in[128]"),
                      issue("args.lda, args.ldb, args.stride_a, 0, args.stride_b, 0"));
    else
      text += issue("0, 0, 0");
    text += "break; }\n";
  }
  return text + "}\n}\n";
}

/// A probe of one target, ready to run.
struct Probe {
  std::string arch;
  std::vector<const MfmaInstruction*> instructions;
  EmulatedKernel kernel;

  static Result<Probe> make(const std::string& arch) {
    auto instructions = dense(arch);
    Source source;
    source.file_name = "probe.hip";
    source.text = probe(instructions);
    GpuLaunch launch;
    GpuStep step;
    step.block.x = 64;
    launch.steps.push_back(step);
    const auto exchanged = emulated(source, launch, Vendor::amd);
    if (!exchanged) return tl::unexpected(exchanged.error());
    const auto compiler = host_compiler();
    if (!compiler) return tl::unexpected(compiler.error());
    const auto binary = (*compiler)->compile(*exchanged);
    if (!binary) return tl::unexpected(binary.error());
    auto kernel = EmulatedKernel::load(binary->image, launch, caps_named(arch).value());
    if (!kernel) return tl::unexpected(kernel.error());
    return Probe{arch, std::move(instructions), std::move(*kernel)};
  }

  Result<MfmaRegisters> run(std::size_t number, const MfmaInputs& in, int format_a,
                            int format_b) const {
    std::vector<std::uint32_t> words;
    for (std::size_t lane = 0; lane < 64; ++lane)
      for (const MfmaRegisters* r : {&in.a, &in.b, &in.c, &in.scale_a, &in.scale_b})
        words.insert(words.end(), (*r)[lane].begin(), (*r)[lane].end());
    MfmaRegisters out{};
    KilnGpuArgs args{};
    args.a = words.data();
    args.d = out.data();
    args.m = static_cast<long long>(number);
    args.k = in.scaled ? 1 : 0;
    args.lda = format_a, args.ldb = format_b;
    args.stride_a = in.select_a, args.stride_b = in.select_b;
    if (Status ok = kernel.run(args, 0); !ok) return tl::unexpected(ok.error());
    return out;
  }
};

std::string format_name(Element e) {
  switch (e) {
    case Element::f64:
      return "f64";
    case Element::f32:
      return "f32";
    case Element::xf32:
      return "xf32";
    case Element::f16:
      return "f16";
    case Element::bf16:
      return "bf16";
    case Element::fp8:
      return "fp8";
    case Element::bf8:
      return "bf8";
    default:
      return "i8";
  }
}

constexpr const char* kScaledFormats[] = {"fp8", "bf8", "fp6", "bf6", "fp4"};

/// What an instruction is to be tried with: its operands' formats and its recorded layout.
struct Case {
  std::size_t number;
  int format_a = 0, format_b = 0;
  MfmaFormats formats;
  const MfmaTable* table;
  std::string name;
};

/// The record of an instruction; of those that a later target has unchanged, the earlier one's.
const MfmaTable* table(const std::string& arch, const std::string& name) {
  static std::map<std::string, MfmaTable> read;
  for (const std::string& of : {arch, std::string("gfx942")}) {
    const std::string file = of + ".v_" + name + ".csv";
    if (const auto found = files().find(file); found != files().end())
      return &read.try_emplace(file, found->second).first->second;
  }
  return nullptr;
}

std::vector<Case> cases(const std::string& arch) {
  std::vector<Case> all;
  const bool fnuz = arch == "gfx942";
  const auto instructions = dense(arch);
  for (std::size_t n = 0; n < instructions.size(); ++n) {
    const MfmaInstruction& i = *instructions[n];
    const std::string mnemonic(i.mnemonic);
    const auto sum = test::mfma_format(format_name(i.sum), false);
    if (!i.scaled()) {
      all.push_back({n,
                     0,
                     0,
                     {test::mfma_format(format_name(i.a), fnuz),
                      test::mfma_format(format_name(i.b), fnuz), sum, i.a == Element::xf32},
                     table(arch, mnemonic),
                     arch + " " + mnemonic});
      continue;
    }
    for (int a = 0; a < 5; ++a)
      for (int b = 0; b < 5; ++b) {
        // Layouts are recorded by width, under the name of the first format of it.
        const std::string of_a = kScaledFormats[a], of_b = kScaledFormats[b];
        const std::string width_a = "fp" + of_a.substr(2), width_b = "fp" + of_b.substr(2);
        all.push_back({n,
                       a,
                       b,
                       {test::mfma_format(of_a, false), test::mfma_format(of_b, false), sum},
                       table(arch, fmt::format("{}.{}_{}", mnemonic, width_a, width_b)),
                       fmt::format("{} {} {}_{}", arch, mnemonic, of_a, of_b)});
      }
  }
  return all;
}

/// Raw bits; without infinities and NaNs; of about one size, so that every product counts.
enum class Draw { raw, finite, level };

void draw(MfmaRegisters& to, const std::vector<MfmaEntry>& entries, const test::MfmaFormat& f,
          Draw how, std::mt19937& random) {
  for (auto& lane : to)
    for (auto& word : lane) word = static_cast<std::uint32_t>(random());
  if (how == Draw::raw || f.integer()) return;
  for (const MfmaEntry& e : entries) {
    std::uint64_t code = get_bits(to, e.lane, e.bit, e.bits);
    if (how == Draw::level && f.exponent_bits() > 3) {
      const std::uint64_t top = (std::uint64_t{1} << f.exponent_bits()) - 1;
      const auto exponent = static_cast<std::uint64_t>(f.bias) - 1 + random() % 3;
      code = (code & ~(top << f.mantissa)) | exponent << f.mantissa;
    }
    // Without the exponent's last bit no format has anything but numbers, −0 of some aside.
    if (!std::isfinite(test::mfma_value(f, code))) code &= ~(std::uint64_t{1} << f.mantissa);
    if (!std::isfinite(test::mfma_value(f, code))) code = 0;
    put_bits(to, e.lane, e.bit, e.bits, code);
  }
}

void draw_scales(MfmaInputs& in, const MfmaTable& t, Draw how, std::mt19937& random) {
  for (MfmaRegisters* r : {&in.scale_a, &in.scale_b})
    for (auto& lane : *r)
      for (auto& word : lane) {
        word = static_cast<std::uint32_t>(random());
        if (how == Draw::level) word = (word & 0x07070707) + 0x7c7c7c7c;
      }
  in.select_a = static_cast<int>(random() % 4);
  in.select_b = static_cast<int>(random() % 4);
  if (how != Draw::finite) return;
  for (const auto& [matrix, r, select] :
       {std::tuple{"SA", &in.scale_a, in.select_a}, std::tuple{"SB", &in.scale_b, in.select_b}})
    for (const MfmaEntry& e : t.entries.at(matrix))
      if (e.block == select && get_bits(*r, e.lane, e.bit, e.bits) == 255)
        put_bits(*r, e.lane, e.bit, e.bits, 254);
}

/// How an element of the sums differs from what it must be, or nothing. `judged` counts those that
/// could be compared in full.
std::string wrong(const test::MfmaExpected& want, std::uint64_t got, const MfmaFormats& f, int k,
                  int& judged) {
  if (f.sum.integer()) {
    ++judged;
    const auto bits = static_cast<std::uint32_t>(static_cast<std::int64_t>(want.value));
    return bits == got ? "" : fmt::format("{} instead of {}", got, bits);
  }
  const long double x = test::mfma_value(f.sum, got);
  const auto differs = [&] {
    return fmt::format("{} instead of {}", static_cast<double>(x), static_cast<double>(want.value));
  };
  const bool wide = f.sum.bits == 64;
  const long double most = wide ? DBL_MAX : FLT_MAX;
  if (!std::isfinite(want.value)) {
    ++judged;
    const bool same = std::isnan(want.value) ? std::isnan(x) : x == want.value;
    return same ? "" : differs();
  }
  // Terms beyond the type's range: in fp64 they may overflow before they cancel.
  if (wide && want.size > most) return "";
  if (std::fabs(want.value) > most * (1 + 0x1p-23L))
    return !std::isinf(x) || std::signbit(x) != std::signbit(want.value) ? differs() : "";
  if (std::fabs(want.value) > most * (1 - 0x1p-23L)) return "";
  ++judged;
  // One rounding to the type, and those of a sum in double.
  const long double allowed = (wide ? 0 : std::fabs(want.value) * 0x1p-24L + 0x1p-150L) +
                              want.size * (k + 2) * 0x1p-53L + (wide ? 0x1p-1073L : 0);
  return std::fabs(x - want.value) <= allowed ? "" : differs();
}

/// Tries one instruction with one drawing; true when nothing was wrong.
bool check(const Probe& probe, const Case& c, Draw how, bool scaled, std::mt19937& random) {
  const MfmaTable& t = *c.table;
  MfmaInputs in;
  draw(in.a, t.entries.at("A"), c.formats.a, how, random);
  draw(in.b, t.entries.at("B"), c.formats.b, how, random);
  draw(in.c, t.entries.at("C"), c.formats.sum, how, random);
  in.scaled = scaled;
  if (probe.instructions[c.number]->scaled()) draw_scales(in, t, how, random);
  const auto out = probe.run(c.number, in, c.format_a, c.format_b);
  if (!out) {
    ADD_FAILURE() << c.name << ": " << out.error().message;
    return false;
  }
  const auto expected = test::mfma_expected(t, in, c.formats);
  int judged = 0;
  for (const auto& want : expected) {
    const std::string why = wrong(want, get_bits(*out, want.at.lane, want.at.bit, want.at.bits),
                                  c.formats, t.k, judged);
    if (why.empty()) continue;
    ADD_FAILURE() << c.name << " drawing " << static_cast<int>(how) << " scaled " << scaled
                  << ": block " << want.at.block << " (" << want.at.i << ", " << want.at.j << ") "
                  << why;
    return false;
  }
  const bool all = judged == static_cast<int>(expected.size());
  EXPECT_TRUE(how != Draw::level || all) << c.name;
  return true;
}

class MfmaInstructions : public testing::TestWithParam<std::pair<const char*, int>> {};

TEST_P(MfmaInstructions, AreWhatTheirLayoutsSay) {
  const auto [arch, wanted] = GetParam();
  const auto probe = Probe::make(arch);
  ASSERT_TRUE(probe) << probe.error().message;
  std::mt19937 random(20260727);
  int right = 0;
  for (const Case& c : cases(probe->arch)) {
    const MfmaInstruction& i = *probe->instructions[c.number];
    ASSERT_NE(c.table, nullptr) << c.name << " has no record";
    ASSERT_EQ(c.table->mn, i.mn) << c.name;
    ASSERT_EQ(c.table->k, i.k) << c.name;
    ASSERT_EQ(c.table->blocks, i.blocks) << c.name;
    bool fine = true;
    for (const Draw how : {Draw::raw, Draw::finite, Draw::level}) {
      fine = fine && check(*probe, c, how, false, random);
      // Each byte of the scales' registers comes up.
      for (int times = 0; i.scaled() && times < 3; ++times)
        fine = fine && check(*probe, c, how, true, random);
    }
    right += fine;
  }
  EXPECT_EQ(right, wanted) << "instructions, each pair of formats counted";
}

INSTANTIATE_TEST_SUITE_P(Targets, MfmaInstructions,
                         testing::Values(std::pair{"gfx90a", 27}, std::pair{"gfx942", 32},
                                         std::pair{"gfx950", 85}),
                         [](const auto& info) { return std::string(info.param.first); });

TEST(MfmaRecords, AreAllUsed) {
  std::set<const MfmaTable*> used;
  for (const char* arch : {"gfx90a", "gfx942", "gfx950"})
    for (const Case& c : cases(arch)) used.insert(c.table);
  EXPECT_EQ(used.size(), files().size() - 1) << "the list of instructions is not a layout";
}

TEST(MfmaScales, ZerosInARegisterAreAScale) {
  const auto probe = Probe::make("gfx950");
  ASSERT_TRUE(probe) << probe.error().message;
  for (const Case& c : cases(probe->arch)) {
    if (!probe->instructions[c.number]->scaled() || c.format_a != 4 || c.format_b != 4) continue;
    MfmaInputs in;
    for (auto* r : {&in.a, &in.b})
      for (auto& lane : *r) lane.fill(0x22222222);  // ones
    in.scaled = true;
    const auto scaled = probe->run(c.number, in, 4, 4);
    ASSERT_TRUE(scaled) << scaled.error().message;
    EXPECT_EQ((*scaled)[0][0], 0u) << "2^-254 is nothing in fp32";
    in.scaled = false;
    const auto plain = probe->run(c.number, in, 4, 4);
    ASSERT_TRUE(plain) << plain.error().message;
    EXPECT_EQ(std::bit_cast<float>((*plain)[0][0]), static_cast<float>(c.table->k));
  }
}

TEST(MfmaScales, OnlyFourBytesCanBeSelected) {
  const auto probe = Probe::make("gfx950");
  ASSERT_TRUE(probe) << probe.error().message;
  MfmaInputs in;
  in.scaled = true;
  in.select_b = 4;
  for (std::size_t n = 0; n < probe->instructions.size(); ++n) {
    if (!probe->instructions[n]->scaled()) continue;
    const auto out = probe->run(n, in, 0, 0);
    ASSERT_FALSE(out);
    EXPECT_NE(out.error().message.find("scales of byte 4"), std::string::npos);
  }
}

}  // namespace kiln::hip::mfma_instructions_test
