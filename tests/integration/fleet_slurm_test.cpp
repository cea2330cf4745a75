// `kiln fleet slurm` on a real Slurm cluster of one node, whose four GPUs are invented.
#include <gmock/gmock.h>

#include <future>

#include "support/invented_node.h"
#include "support/paths.h"
#include "support/slurm_cluster.h"

#ifdef KILN_HAS_FAKE_HIP

namespace kiln::fleet_slurm_test {

using test::CommandResult;
using test::InventedNode;
using test::SlurmCluster;
using testing::Each;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Le;
using testing::Not;
using testing::Pair;

constexpr int kTasks = 4;

/// A node whose command asks its own Slurm, and whose tasks find a GPU of their own each, as they
/// do on four nodes: what tells invented GPUs apart is the folder of their locks.
struct SlurmNode : InventedNode {
  SlurmNode() {
    environment["SLURM_CONF"] = cluster.configuration();
    std::ofstream(command) << fmt::format(
        "#!/bin/sh\nexport KILN_LOCK_DIR={0}/locks-$SLURM_ARRAY_TASK_ID\n"
        "mkdir -p \"$KILN_LOCK_DIR\"\nexec {1}/bin/kiln \"$@\"\n",
        folder.path().string(), test::build_dir());
    std::filesystem::permissions(command, std::filesystem::perms::owner_all);
  }
  CommandResult run_array(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words{
        // clock: an option that is passed on
        "fleet",  "slurm",          "--file", list,     "--out", out,       "--budget",
        "0.01",   "--device",       "hip",    "--gpus", "1",     "--tasks", std::to_string(kTasks),
        "--kiln", command.string(), "--json"};
    words.insert(words.end(), more.begin(), more.end());
    return (*this)(words);
  }

  std::filesystem::path command = folder / "kiln-of-a-node";
  SlurmCluster cluster{folder / "slurm", kTasks};
};

TEST(FleetSlurm, AnArrayTunesEachShapeOnceAndARerunWhatAKilledTaskLeft) {
  const SlurmNode node;
  ASSERT_THAT(node.cluster.ready(), IsEmpty());
  const auto shapes = static_cast<std::size_t>(test::fleet_shapes());
  node.write_list(static_cast<int>(shapes));
  auto first = std::async(std::launch::async, [&] { return node.run_array(); });
  ASSERT_TRUE(test::kill_one_after(node.out, 1));
  const CommandResult cut = first.get();
  EXPECT_EQ(cut.exit_code, 1) << cut.out << cut.err;
  const auto left = cut.json().back()["missing"];
  EXPECT_THAT(left, Not(IsEmpty()));
  EXPECT_LE(left.size(), (shapes + kTasks - 1) / kTasks) << "the other tasks went on";

  const CommandResult second = node.run_array({"--missing"});
  EXPECT_EQ(second.exit_code, 0) << second.out << second.err;
  EXPECT_EQ(second.json().front()["tasks"], 1) << "only the killed one is submitted again";
  const auto after = test::tuned_in(node.out);
  EXPECT_THAT(after, Each(Pair(testing::_, Le(1)))) << "none twice";
  EXPECT_THAT(node({"fleet", "status", node.out}).out,
              HasSubstr(fmt::format("{0} of {0} shapes tuned", shapes)));

  const std::string merged = node({"fleet", "merge", node.out, "--json"}).json()[0]["file"];
  EXPECT_EQ(node({"db", "check", "--db", merged}).exit_code, 0);
  const auto listed = node({"db", "list", "--db", merged, "--json"}).json();
  EXPECT_EQ(listed.back()["summary"]["records"], shapes);

  const CommandResult third = node.run_array();
  EXPECT_EQ(third.exit_code, 0) << third.out << third.err;
  EXPECT_EQ(test::tuned_in(node.out), after);
}

TEST(FleetSlurm, WhatSlurmRefusesIsSaid) {
  const SlurmNode node;
  ASSERT_THAT(node.cluster.ready(), IsEmpty());
  node.write_list(1);
  const CommandResult refused = node.run_array({"--partition", "nowhere"});
  EXPECT_EQ(refused.exit_code, 3) << refused.out;
  EXPECT_THAT(refused.err, HasSubstr("invalid partition specified: nowhere"));
}

}  // namespace kiln::fleet_slurm_test

#endif
