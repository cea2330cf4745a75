// The command on GPUs that are not here: emulated ones, and those it only ranks kernels for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/kiln_command.h"
#include "support/worker_script.h"

namespace kiln::cli_gpu_test {

using nlohmann::json;
using test::CommandResult;
using test::KilnCommand;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

const std::string kShape = "bf16 N T 128 128 256";

TEST(CliEmulated, RandomSweepsPassOnEveryMaker) {
  for (const std::string device : {"emu:gfx942", "emu:sm_80", "emu:gfx1100"}) {
    const CommandResult result = KilnCommand{}(
        {"verify", "--device", device, "--threads", "6", "--random", "3", "--seed", "5", "--json"});
    EXPECT_EQ(result.exit_code, 0) << device << result.out << result.err;
    const auto rows = result.json();
    ASSERT_GE(rows.size(), 4u);
    EXPECT_EQ(rows.back()["summary"]["problems"], 3);
    EXPECT_EQ(rows.back()["summary"]["failed"], 0);
    EXPECT_EQ(rows[0]["device"], device);
  }
}

TEST(CliEmulated, AGivenConfigIsChecked) {
  const std::string config = "hip_simt tile_m=64 tile_n=64 tile_k=16 each_m=4 each_n=4 pad=4";
  const CommandResult result = KilnCommand{}({"verify", "--device", "emu:gfx950", "--shape",
                                              "fp32 N N 50 60 70", "--config", config, "--json"});
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_EQ(result.json().at(0)["config"], config);
}

TEST(CliEmulated, FailurePrintsACommandThatRepeatsIt) {
  const test::WorkerScript worker(test::kCompilesAlone);
  KilnCommand kiln;
  kiln.environment["KILN_WORKER"] = worker.path();
  const CommandResult broken =
      kiln({"verify", "--device", "emu:gfx90a", "--threads", "6", "--random", "1", "--json"});
  EXPECT_EQ(broken.exit_code, 1);
  EXPECT_THAT(broken.json().at(0)["repeat"].get<std::string>(),
              AllOf(HasSubstr("--device emu:gfx90a --threads 6"), HasSubstr("--config")));
}

TEST(CliDevices, SaysWhatIsHereAndWhatCanBeEmulated) {
  const KilnCommand kiln;
  const json cpu = kiln({"devices", "--json"}).json().at(0);
  EXPECT_THAT(cpu["emulated"].get<std::vector<std::string>>(),
              AllOf(Contains("emu:gfx942"), Contains("emu:gfx950"), Contains("emu:sm_90a")));
  EXPECT_TRUE(cpu["gpus"].is_array());
  const json emulated = kiln({"devices", "--device", "emu:gfx950", "--json"}).json().at(0);
  EXPECT_TRUE(emulated["emulated"].get<bool>());
  EXPECT_EQ(emulated["chiplets"], 8);
  EXPECT_THAT(kiln({"devices", "--device", "gfx950"}).out, HasSubstr("not here"));
}

TEST(CliDevices, SaysWhatFormatTheMatrixInstructionsRead) {
  const std::string ocp = "fp8 N T 64 64 64 align=16", own = "fp8fnuz N T 64 64 64 align=16";
  const auto advice = HasSubstr("shapes that begin with fp8fnuz");
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"compile", "--device", "gfx942", "--sample", "1"},
        {"verify", "--device", "emu:gfx942", "--threads", "2", "--random", "1"},
        {"explain", "--device", "gfx942"},
        {"tune", "--device", "gfx942", "--offline", "--budget", "0.01"}}) {  // clock: refused
    const auto said = [&](const std::string& shape) {
      auto arguments = command;
      arguments.insert(arguments.end(), {"--shape", shape});
      return KilnCommand{}(arguments).err;
    };
    EXPECT_THAT(said(ocp), advice) << command[0];
    EXPECT_THAT(said(own), Not(advice)) << command[0];
  }
}

TEST(CliOffline, PredictsListsExplainsAndShows) {
  const KilnCommand kiln;
  const CommandResult tuned = kiln(
      // clock: one candidate at least is compiled
      {"tune", "--offline", "--device", "gfx942", "--shape", kShape, "--budget", "2", "--json"});
  ASSERT_EQ(tuned.exit_code, 0) << tuned.err;
  const json row = tuned.json().at(0);
  EXPECT_TRUE(row["predicted"].get<bool>());
  EXPECT_GT(row["predicted_ns"].get<double>(), 0);
  EXPECT_TRUE(row["proven"].get<bool>());
  EXPECT_EQ(row["conflict_cycles"], 0);
  EXPECT_EQ(tuned.json().back()["summary"]["predicted"], 1);
  const std::string config = row["config"];

  const auto listed = kiln({"db", "list", "--json"}).json();
  ASSERT_EQ(listed.size(), 2u);
  EXPECT_TRUE(listed[0]["predicted"].get<bool>());
  EXPECT_THAT(kiln({"db", "list"}).out, HasSubstr("predicted "));

  const auto explain = [&](const char* device) {
    return kiln({"explain", "--device", device, "--shape", kShape});
  };
  EXPECT_THAT(explain("gfx942").out, AllOf(HasSubstr(config), HasSubstr("never measured")));
  const CommandResult other = explain("gfx950");
  EXPECT_EQ(other.exit_code, 1);
  EXPECT_THAT(other.err, HasSubstr("nothing was predicted"));

  const CommandResult shown = kiln({"show", "--device", "gfx942", "--shape", kShape, "--isa"});
  EXPECT_EQ(shown.exit_code, 0) << shown.err;
  EXPECT_THAT(shown.out, AllOf(HasSubstr("; loop"), HasSubstr("matrix"), HasSubstr("v_mfma_")));
  EXPECT_THAT(shown.err, AllOf(HasSubstr(config), HasSubstr("predicted without the device")));
}

TEST(CliShowGpu, InstructionsOfOtherDevices) {
  const KilnCommand kiln;
  const CommandResult cpu = kiln({"show", "--device", "portable", "--shape", kShape, "--isa"});
  EXPECT_EQ(cpu.exit_code, 0) << cpu.err;
  EXPECT_THAT(cpu.out, HasSubstr("ret"));
  // No toolkit in sight: a sentence, not a guess.
  KilnCommand bare;
  bare.environment["PATH"] = "/nowhere";
  bare.environment["CUDA_HOME"] = bare.environment["CUDA_PATH"] = "/nowhere";
  const CommandResult nvidia = bare({"show", "--device", "sm_80", "--shape", kShape, "--isa"});
  if (std::filesystem::exists("/usr/local/cuda/bin/nvdisasm")) return;
  EXPECT_EQ(nvidia.exit_code, 3);
  EXPECT_THAT(nvidia.err, testing::AnyOf(HasSubstr("nvdisasm"), HasSubstr("libnvrtc")));
}

}  // namespace kiln::cli_gpu_test
