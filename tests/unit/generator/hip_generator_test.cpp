// The HIP families without a device: banks, legality, launches and what is rendered.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "generator/families/hip/common/lds.h"
#include "generator/families/hip/mfma/config.h"
#include "generator/families/hip/mfma/sizes.h"
#include "generator/families/hip/simt/config.h"
#include "generator/problem/gemm_types.h"
#include "generator/render/embedded.h"
#include "generator/space/family.h"
#include "support/hip.h"

namespace kiln::hip_generator_test {

using hip::lds_turns;
using hip::LdsOp;
using test::problem;
using test::ranked;
using testing::HasSubstr;
using testing::Not;

hip::LaneAddresses rows_of(int pitch, int lanes_of_row) {
  hip::LaneAddresses at{};
  for (int lane = 0; lane < 64; ++lane)
    at[static_cast<std::size_t>(lane)] =
        static_cast<std::uint32_t>(lane % lanes_of_row * pitch + lane / lanes_of_row * 16);
  return at;
}

TEST(LdsTurns, AddressesSideBySideMeetNobody) {
  hip::LaneAddresses at{};
  for (int lane = 0; lane < 64; ++lane) at[static_cast<std::size_t>(lane)] = 16u * unsigned(lane);
  for (const auto arch : {hip::kGfx942, hip::kGfx950})
    for (const auto op : {LdsOp::read_b128, LdsOp::write_b128})
      EXPECT_EQ(lds_turns(arch, op, at).lost(), 0);
  EXPECT_EQ(lds_turns(hip::kGfx942, LdsOp::read_b128, at).taken, 8);
  EXPECT_EQ(lds_turns(hip::kGfx950, LdsOp::read_b128, at).taken, 4);
}

TEST(LdsTurns, OneAddressIsServedAtOnce) {
  const hip::LaneAddresses at{};
  EXPECT_EQ(lds_turns(hip::kGfx942, LdsOp::read_b128, at).taken, 8);
}

TEST(LdsTurns, AColumnOfUnitsMeetsItself) {
  // 16 rows of 128 bytes: all lanes of a row's column want the same four banks of 32.
  const auto turns = lds_turns(hip::kGfx942, LdsOp::read_b128, rows_of(128, 16));
  EXPECT_GE(turns.taken, 4 * turns.least);
  // Rows that are 16 bytes longer are shifted by four banks each.
  EXPECT_LT(lds_turns(hip::kGfx942, LdsOp::read_b128, rows_of(144, 16)).taken, turns.taken);
}

TEST(LdsTurns, GroupsAreThoseOfTheTarget) {
  // Lanes 0 and 20 share a group of gfx942, lanes 0 and 4 do not.
  const auto colliding = [](int lane) {
    hip::LaneAddresses at{};
    for (int i = 0; i < 64; ++i) at[static_cast<std::size_t>(i)] = 0;
    at[static_cast<std::size_t>(lane)] = 4096;
    at[0] = 8192;
    return at;
  };
  const auto turns = [&](int lane) {
    return lds_turns(hip::kGfx942, LdsOp::read_b128, colliding(lane)).taken;
  };
  EXPECT_EQ(turns(20), 10);  // three addresses in one group
  EXPECT_EQ(turns(4), 10);   // two and two, in two groups
  EXPECT_EQ(lds_turns(hip::kGfx950, LdsOp::read_b128, colliding(20)).taken, 6);
}

/// What the space offers for large problems reads shared memory without conflicts.
TEST(HipMfma, TheBestConfigsReadWithoutConflicts) {
  for (const char* name : {"gfx90a", "gfx942", "gfx950"}) {
    const DeviceCaps device = hip_caps_named(name).value();
    for (const char* line : {"bf16 N T 8192 8192 8192 align=16", "int8 N T 4096 4096 4096 align=16",
                             "fp32 N T 4096 4096 4096 align=16"}) {
      const Gemm gemm = problem(line);
      const auto configs = ranked<HipMfma>(gemm, device);
      ASSERT_GT(configs.size(), 100u) << name << " " << line;
      for (std::size_t i = 0; i < 20; ++i) {
        const auto& c = configs[i].as<HipMfma>();
        const auto plan = hip::mfma_sizes(Problem::of(gemm).value(), device, c);
        const auto turns = hip::stage_turns(plan, device, c);
        EXPECT_EQ(turns.reads.lost(), 0) << name << " " << text(configs[i]);
      }
    }
  }
}

/// "Matrix units are the limit" is what the model says of its favourite for large squares.
TEST(HipMfma, TheModelsFavouriteIsBoundByProducts) {
  for (const auto& [name, line] : {std::pair{"gfx942", "bf16 N T 8192 8192 8192 align=16"},
                                   {"gfx942", "fp8fnuz N T 8192 8192 8192 align=16"},
                                   {"gfx950", "bf16 N T 8192 8192 8192 align=16"},
                                   {"gfx950", "fp8 N T 8192 8192 8192 align=16"}}) {
    const DeviceCaps device = hip_caps_named(name).value();
    const Gemm gemm = problem(line);
    const auto configs = ranked<HipMfma>(gemm, device);
    ASSERT_FALSE(configs.empty());
    const auto& c = configs[0].as<HipMfma>();
    const auto plan = hip::mfma_sizes(Problem::of(gemm).value(), device, c);
    const auto turns = hip::stage_turns(plan, device, c);
    EXPECT_LT(turns.reads.taken + turns.writes.taken, hip::multiply_cycles(plan))
        << name << " " << text(configs[0]);
    EXPECT_EQ(turns.reads.lost(), 0);
    const double share = hip::stage_cost(plan, device, c).share_of_peak();
    EXPECT_GE(share, 0.9) << name << " " << text(configs[0]);
    std::printf("%s %s: %.1f %% of the matrix units' peak in the main loop\n  %s\n", name, line,
                100 * share, text(configs[0]).c_str());
  }
}

TEST(HipFamilies, EveryTypeHasAKernelOnEveryTarget) {
  for (const char* name : {"gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1200"})
    for (const TypeRow& row : kTypeRows) {
      Gemm gemm = problem(std::string(row.word) + " N N 70 50 30");
      const auto space = space_for(Problem::of(gemm).value(), hip_caps_named(name).value());
      ASSERT_TRUE(space) << name << " " << row.word << ": " << space.error().message;
    }
}

/// Every type that a target's matrix units multiply, with each shape of its fastest instructions.
TEST(HipMfma, EveryMatrixTypeHasItsShapes) {
  using Shapes = std::set<std::pair<int, int>>;  // rows, k
  struct Expected {
    const char* arch;
    const char* types;
    Shapes shapes;
  };
  const Expected all[] = {
      {"gfx90a", "fp64", {{16, 4}}},
      {"gfx90a", "fp32", {{16, 4}, {32, 2}}},
      {"gfx90a", "tf32", {}},
      {"gfx90a", "fp16", {{16, 16}, {32, 8}}},
      {"gfx90a", "bf16", {{16, 16}, {32, 8}}},
      {"gfx90a", "int8", {{16, 16}, {32, 8}}},
      {"gfx90a", "fp8", {}},
      {"gfx90a", "fp8fnuz", {}},
      {"gfx942", "fp64", {{16, 4}}},
      {"gfx942", "fp32", {{16, 4}, {32, 2}}},
      {"gfx942", "tf32", {{16, 8}, {32, 4}}},
      {"gfx942", "fp16", {{16, 16}, {32, 8}}},
      {"gfx942", "bf16", {{16, 16}, {32, 8}}},
      {"gfx942", "int8", {{16, 32}, {32, 16}}},
      {"gfx942", "fp8", {}},
      {"gfx942", "fp8fnuz", {{16, 32}, {32, 16}}},
      {"gfx942", "e4m3e5m2fnuz", {{16, 32}, {32, 16}}},
      {"gfx942", "e5m2e4m3fnuz", {{16, 32}, {32, 16}}},
      {"gfx950", "fp64", {{16, 4}}},
      {"gfx950", "fp32", {{16, 4}, {32, 2}}},
      {"gfx950", "tf32", {}},
      {"gfx950", "fp16", {{16, 32}, {32, 16}}},
      {"gfx950", "bf16", {{16, 32}, {32, 16}}},
      {"gfx950", "int8", {{16, 64}, {32, 32}}},
      {"gfx950", "fp8", {{16, 128}, {32, 64}}},
      {"gfx950", "fp8fnuz", {}},
      {"gfx950", "e4m3e5m2", {{16, 128}, {32, 64}}},
      {"gfx950", "e5m2e4m3", {{16, 128}, {32, 64}}},
  };
  for (const Expected& e : all) {
    Shapes found;
    for (const Config& c : ranked<HipMfma>(problem(std::string(e.types) + " N T 256 256 512"),
                                           hip_caps_named(e.arch).value()))
      found.insert({c.as<HipMfma>().rows, c.as<HipMfma>().k});
    EXPECT_EQ(found, e.shapes) << e.arch << " " << e.types;
  }
}

/// Operands across k that gfx950 turns over while it reads them: without conflicts, as far as the
/// rule for reads of 8 bytes goes.
TEST(HipMfma, TurningReadsMeetNoConflicts) {
  const DeviceCaps device = hip_caps_named("gfx950").value();
  for (const char* types : {"bf16", "fp16", "int8", "fp8"}) {
    const Gemm gemm = problem(std::string(types) + " T N 512 512 1024 align=16");
    int turned = 0;
    for (const Config& config : ranked<HipMfma>(gemm, device)) {
      const auto& c = config.as<HipMfma>();
      if (!c.turn || c.tile_m < 32 || c.tile_n < 32) continue;
      const auto turns =
          hip::stage_turns(hip::mfma_sizes(Problem::of(gemm).value(), device, c), device, c);
      ASSERT_EQ(turns.reads.lost(), 0) << text(config);
      ++turned;
    }
    EXPECT_GT(turned, 100) << types;
  }
}

TEST(HipFamilies, ConfigsSurviveTheirText) {
  const auto configs =
      ranked<HipMfma>(problem("fp16 T N 512 512 512"), hip_caps_named("gfx942").value());
  ASSERT_FALSE(configs.empty());
  for (std::size_t i = 0; i < configs.size(); i += 97)
    EXPECT_EQ(parse_config(text(configs[i])).value(), configs[i]);
  const Config simt = HipSimt{};
  EXPECT_EQ(parse_config(text(simt)).value(), simt);
}

TEST(HipFamilies, LaunchesCoverTheProblem) {
  const DeviceCaps device = hip_caps_named("gfx942").value();
  const Gemm gemm = problem("bf16 N T 1000 500 4096 batch=3");
  for (const Config& config : ranked<HipMfma>(gemm, device)) {
    const auto& c = config.as<HipMfma>();
    const auto canonical = Problem::of(gemm).value();
    const GpuLaunch launch = family_of(config, device.vendor).launch(canonical, device, config);
    ASSERT_EQ(launch.steps.size(), 1u);
    const auto tiles = ceil_div(1000, c.tile_m) * ceil_div(500, c.tile_n) * 3;
    EXPECT_EQ(launch.steps[0].grid.count(), tiles * c.splits);
    EXPECT_EQ(launch.steps[0].block.count(), 64 * c.waves_m * c.waves_n);
    if (c.splits == 1)
      EXPECT_EQ(launch.workspace_bytes, 0);
    else
      EXPECT_EQ(launch.workspace_bytes - launch.zeroed_bytes,
                tiles * c.splits * c.tile_m * c.tile_n * 4);
  }
  EXPECT_TRUE(family_of(HipMfma{}, Vendor::amd)
                  .launch(Problem::of(problem("bf16 N T 0 5 6")).value(), device, HipMfma{})
                  .steps.empty());
}

TEST(HipFamilies, ListsBeginWithTheirEntries) {
  const DeviceCaps device = hip_caps_named("gfx942").value();
  const Gemm gemm = problem("bf16 N T 500 300 4096 groups=70 grouped=list align=16");
  for (const Config& config : {Config(HipMfma{.depth = 64, .staging = Staging::single}),
                               Config(HipSimt{.tile_m = 64, .tile_n = 64})}) {
    ASSERT_EQ(broken_rule(Problem::of(gemm).value(), device, config), "");
    const GpuLaunch launch =
        family_of(config, device.vendor).launch(Problem::of(gemm).value(), device, config);
    ASSERT_EQ(launch.steps.size(), 4u);
    for (std::int64_t i = 0; i < 3; ++i) {
      EXPECT_EQ(launch.steps[std::size_t(i)].entry, "kiln_take_list");
      EXPECT_EQ(launch.steps[std::size_t(i)].first_entry, 32 * i);
    }
    const std::int64_t tile = config.is<HipMfma>() ? 256 : 64;
    EXPECT_EQ(launch.steps[3].grid.count(), 70 * ceil_div(500, tile) * ceil_div(300, tile));
    EXPECT_EQ(launch.workspace_bytes, 70 * (104 + 4));
  }
}

TEST(HipFamilies, SourcesHoldNoDeadBranches) {
  const DeviceCaps device = hip_caps_named("gfx950").value();
  const Gemm gemm = problem("bf16 N T 4096 4096 4096 align=16");
  HipMfma c{.rows = 16, .k = 32, .staging = Staging::direct, .chunk = 64};
  const auto direct = render(Problem::of(gemm).value(), device, c);
  ASSERT_TRUE(direct) << direct.error().message;
  EXPECT_THAT(direct->text, HasSubstr("mfma_16x16x32_bf16"));
  EXPECT_THAT(direct->text, HasSubstr("clang++ -x hip --cuda-device-only"));
  EXPECT_THAT(direct->text, HasSubstr("struct Direct"));
  EXPECT_THAT(direct->text, Not(HasSubstr("struct Next")));
  EXPECT_THAT(direct->text, Not(HasSubstr("set_priority")));
  EXPECT_THAT(direct->text, Not(HasSubstr("//%")));
  c.staging = Staging::single;
  c.priority = true;
  const auto single = render(Problem::of(gemm).value(), device, c);
  ASSERT_TRUE(single) << single.error().message;
  EXPECT_THAT(single->text, HasSubstr("set_priority"));
  EXPECT_THAT(single->text, Not(HasSubstr("load_stage")));
}

TEST(HipFamilies, IllegalConfigsNameTheirRule) {
  const auto rule = [](const char* line, const char* device, HipMfma c) {
    return std::string(
        broken_rule(Problem::of(problem(line)).value(), hip_caps_named(device).value(), c));
  };
  const char* square = "bf16 N T 4096 4096 4096 align=16";
  EXPECT_EQ(rule(square, "gfx942", {.rows = 16, .k = 32}),
            "the target has a matrix instruction of rows and k for the types; m and n are at least "
            "1, B is not packed");
  EXPECT_EQ(
      rule(square, "gfx942", {.tile_m = 40}),
      "tile_m is a multiple of waves_m*rows, tile_n of waves_n*rows, and waves are at most 16");
  EXPECT_EQ(rule(square, "gfx942", {.depth = 48}),
            "depth is 32 to 512, a multiple of 16 and whole steps of the instruction");
  EXPECT_EQ(rule(square, "gfx942", {.staging = Staging::twice}), "stages fit shared memory");
  EXPECT_EQ(rule(square, "gfx90a", {.depth = 64, .staging = Staging::direct, .chunk = 0}),
            "staging=direct needs gfx942 or gfx950, k-major operands or turn=1, loads of 4 bytes "
            "(16 on gfx950) that threads divide evenly, and no banks=padded");
  EXPECT_EQ(
      rule("bf16 N N 4096 4096 4096 align=16", "gfx942", {.depth = 64, .staging = Staging::direct}),
      "staging=direct needs gfx942 or gfx950, k-major operands or turn=1, loads of 4 bytes (16 on "
      "gfx950) that threads divide evenly, and no banks=padded");
  const char* across = "bf16 T N 4096 4096 4096 align=16";
  const char* turning =
      "turn=1 needs gfx950, elements of 1 or 2 bytes, and an operand that is not k-major with a "
      "power of two as its tile";
  EXPECT_EQ(rule(across, "gfx942", {.depth = 64, .staging = Staging::single, .turn = true}),
            turning);
  EXPECT_EQ(rule(square, "gfx950", {.k = 32, .depth = 64, .chunk = 0, .turn = true}), turning);
  EXPECT_EQ(rule(across, "gfx950",
                 {.k = 32, .depth = 64, .staging = Staging::direct, .chunk = 0, .turn = true}),
            "");
  const char* taking =
      "pace=pingpong needs 8 waves and two buffers, pace=interleaved 4 waves, 2 steps and 4-byte "
      "loads, both priority=0 and fence=0";
  EXPECT_EQ(rule(square, "gfx950",
                 {.k = 32, .staging = Staging::single, .chunk = 0, .pace = Pace::pingpong}),
            taking);
  EXPECT_EQ(rule(square, "gfx950", {.k = 32, .chunk = 0, .pace = Pace::interleaved}), taking);
  EXPECT_EQ(rule(square, "gfx950", {.k = 32, .chunk = 0, .priority = true, .pace = Pace::pingpong}),
            taking);
  // Loads of two bytes are put together at once, which no pace can hide.
  const HipMfma between{.tile_m = 64,
                        .tile_n = 64,
                        .depth = 128,
                        .waves_m = 2,
                        .waves_n = 2,
                        .staging = Staging::single,
                        .chunk = 0,
                        .pace = Pace::interleaved};
  EXPECT_EQ(rule("bf16 N T 512 512 512 align=4", "gfx942", between), "");
  EXPECT_EQ(rule("bf16 N T 512 512 511 align=2", "gfx942", between), taking);
  const char* ends =
      "staging=direct and pace=interleaved need operands whose lines end alike: no list, and no "
      "k-major operand in groups of k";
  const char* list = "bf16 N T 512 512 512 groups=3 grouped=list align=16";
  const HipMfma direct{.depth = 64, .staging = Staging::direct};
  EXPECT_EQ(rule(list, "gfx942", between), ends);
  EXPECT_EQ(rule(list, "gfx942", direct), ends);
  EXPECT_EQ(rule("bf16 N T 512 512 512 groups=3 grouped=k align=16", "gfx942", direct), ends);
  EXPECT_EQ(rule("bf16 T N 512 512 512 groups=3 grouped=k align=16", "gfx942", between), "");
  EXPECT_EQ(rule(list, "gfx942", {.depth = 64, .staging = Staging::single, .splits = 2}),
            "groups: splits=1");
  const HipMfma any{.depth = 64, .staging = Staging::single};
  EXPECT_EQ(rule("bf16 N T 512 512 512 groups=3 grouped=list gate=silu", "gfx942", any),
            "the family computes gated products");
  EXPECT_EQ(rule("fp8 N T 512 512 512 groups=3 grouped=list scale=line", "gfx942", any),
            "the family applies the operands' scales");
  EXPECT_EQ(
      rule("bf16 N T 512 512 512 groups=3 grouped=list out=fp8_e4m3 scale_d=tensor", "gfx942", any),
      "the family writes a D with such scales");
  EXPECT_EQ(broken_rule(
                Problem::of(problem("fp8 N T 512 512 512 groups=3 grouped=k scale=1x128")).value(),
                hip_caps_named("gfx942").value(), HipSimt{}),
            "groups of floats have no scales of A's rows, those of k none of blocks");
  EXPECT_EQ(rule(square, "gfx90a", {.depth = 64, .chunk = 16}),
            "group is 1 to 64, chunk 0 to 1024, 0 on a device of one chiplet");
  EXPECT_EQ(rule(square, "gfx942", {.depth = 64, .staging = Staging::single, .splits = 65}),
            "splits is 1 to 64, with 2 or more stages of k each");
  EXPECT_EQ(rule(square, "gfx942", {.depth = 64, .waves_m = 1, .waves_n = 1}),
            "accumulators, fragments and the next stage fit the registers");
}

TEST(SlowTypes, FormatsWithoutMatrixInstructionsAreSaid) {
  const auto said = [](const char* line, const char* card) {
    return slow_types(problem(line), caps_named(card).value());
  };
  EXPECT_THAT(said("fp8 N T 512 512 512", "gfx942"),
              testing::AllOf(HasSubstr("gfx942 has no matrix instruction for fp8_e4m3"),
                             HasSubstr("shapes that begin with fp8fnuz")));
  EXPECT_THAT(said("fp8fnuz N T 512 512 512", "gfx950"), HasSubstr("shapes that begin with fp8)"));
  for (const char* line : {"fp8fnuz N T 512 512 512", "bf16 N T 512 512 512"})
    EXPECT_EQ(said(line, "gfx942"), "") << line;
  EXPECT_EQ(said("fp8 N T 512 512 512", "gfx950"), "");
  EXPECT_EQ(said("fp8 N T 512 512 512", "gfx90a"), "") << "which has neither";
  EXPECT_EQ(said("fp8 N T 512 512 512", "sm_90a"), "");
}

/// Lines of a template without their indentation.
std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    const auto line = text.substr(0, end);
    lines.push_back(line.substr(std::min(line.find_first_not_of(' '), line.size())));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

/// A mend in one of two copies would miss the other.
TEST(HipTemplates, NoFunctionStandsTwice) {
  constexpr std::size_t kRun = 12;  // lines; declarations and loops' heads repeat for less
  std::map<std::vector<std::string_view>, std::string_view> first_in;
  for (const EmbeddedFile& file : embedded_templates()) {
    if (!file.path.starts_with("hip/")) continue;
    const auto lines = lines_of(file.text);
    for (std::size_t i = 0; i + kRun <= lines.size(); ++i) {
      const std::vector<std::string_view> run(lines.begin() + std::ptrdiff_t(i),
                                              lines.begin() + std::ptrdiff_t(i + kRun));
      const auto [place, fresh] = first_in.emplace(run, file.path);
      EXPECT_TRUE(fresh || place->second == file.path)
          << file.path << ':' << i + 1 << " and " << place->second << ": " << run[0];
    }
  }
}

}  // namespace kiln::hip_generator_test
