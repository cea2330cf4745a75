// `mpirun kiln tune --mpi` with real MPI libraries, four ranks on four invented GPUs.
#include <gmock/gmock.h>

#include <algorithm>
#include <cstdint>
#include <future>
#include <limits>

#include "fleet/hand_out.h"
#include "fleet/rank_message.h"
#include "support/invented_node.h"
#include "support/paths.h"

namespace kiln::fleet_mpi_test {

TEST(FleetHandOut, GivesEachPlaceOnceAKind) {
  HandOut queue;
  queue.add(0, "fast", 3);
  queue.add(1, "fast", 3);
  queue.add(2, "slow", 1);
  queue.add(3, "", 0);
  EXPECT_EQ(queue.next(1), 0u) << "the longest first";
  EXPECT_EQ(queue.next(0), 1u);
  EXPECT_EQ(queue.next(2), 0u);
  EXPECT_EQ(queue.next(3), std::nullopt);
  EXPECT_EQ(queue.next(2), std::nullopt);
  queue.give_back(1);
  EXPECT_EQ(queue.next(1), std::nullopt) << "a machine that could not";
  EXPECT_EQ(queue.left(), (std::map<std::string, std::size_t>{{"fast", 2}}));
  EXPECT_EQ(queue.next(0), 0u);
  EXPECT_EQ(queue.next(0), 2u);
  EXPECT_EQ(queue.next(0), std::nullopt);
  EXPECT_TRUE(queue.left().empty());
}

TEST(FleetHandOut, APlaceThatTwoMachinesCouldNotTuneIsLeft) {
  HandOut queue;
  for (const int rank : {0, 1, 2}) queue.add(rank, "fast", 1);
  EXPECT_EQ(queue.next(0), 0u);
  queue.give_back(0);
  EXPECT_EQ(queue.next(1), 0u);
  queue.give_back(1);
  EXPECT_EQ(queue.next(2), std::nullopt);
}

TEST(FleetMessages, WhatThisKilnDoesNotSendIsNamed) {
  const RankQuestion good{.rank = 3, .what = RankAsks::next, .places = 5, .kind = "fast"};
  const auto wrong = [&](auto change) {
    RankQuestion question = good;
    change(question);
    return wrong_with(question, 4);
  };
  EXPECT_EQ(wrong([](RankQuestion&) {}), "");
  using testing::HasSubstr;
  EXPECT_THAT(wrong([](RankQuestion& q) { q.begin = 3; }), HasSubstr("another version"));
  EXPECT_THAT(wrong([](RankQuestion& q) { q.end = 0; }), HasSubstr("another version"));
  for (const int rank : {-1, 4, std::numeric_limits<int>::max()})
    EXPECT_THAT(wrong([&](RankQuestion& q) { q.rank = rank; }), HasSubstr("must be 0 to 3"));
  for (const int what : {-1, 5})
    EXPECT_THAT(wrong([&](RankQuestion& q) { q.what = static_cast<RankAsks>(what); }),
                HasSubstr(fmt::format("asks for {}", what)));
  EXPECT_THAT(wrong([](RankQuestion& q) { q.places = -1; }), HasSubstr("places = -1"));
  EXPECT_THAT(wrong([](RankQuestion& q) { std::ranges::fill(q.kind, 'x'); }),
              HasSubstr("has no end"));
}

TEST(FleetMessages, AnAnswerIsAPlaceOfTheList) {
  const auto wrong = [](std::int64_t place, std::int64_t places) {
    return wrong_with(RankAnswer{.place = place}, places);
  };
  for (const std::int64_t place : {-1, 0, 4}) EXPECT_EQ(wrong(place, 5), "");
  EXPECT_EQ(wrong(0, 0), "") << "go on";
  for (const std::int64_t place : {std::int64_t{-2}, std::int64_t{5}, INT64_MAX})
    EXPECT_NE(wrong(place, 5), "") << place;
  EXPECT_NE(wrong_with(RankAnswer{.begin = 0}, 5), "");
}

}  // namespace kiln::fleet_mpi_test

#ifdef KILN_HAS_FAKE_HIP

namespace kiln::fleet_mpi_test {

using test::CommandResult;
using test::InventedNode;
using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using testing::Le;
using testing::Pair;
using testing::SizeIs;

/// A node whose command is started by Open MPI, or by MPICH.
struct MpiNode : InventedNode {
  explicit MpiNode(int ranks = 4, const std::string& cards = "0,0,0,0") : InventedNode(cards) {
    launcher = {"mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-n",
                std::to_string(ranks)};
  }
  CommandResult operator()(std::vector<std::string> more) const {
    return InventedNode::operator()(more);
  }
  CommandResult tune_all(const std::string& device = "hip:local") const {
    return (*this)(tune({"--mpi", "--device", device}));
  }
  CommandResult alone(const std::vector<std::string>& words) {
    const auto launched = std::exchange(launcher, {});
    auto result = (*this)(words);
    launcher = launched;
    return result;
  }
};

TEST(FleetMpi, FourRanksTuneEachShapeOnceAndARerunWhatAKilledOneLeft) {
  MpiNode node;
  const int shapes = test::fleet_shapes();
  node.write_list(shapes);
  auto first = std::async(std::launch::async, [&] { return node.tune_all(); });
  ASSERT_TRUE(test::kill_one_after(node.out, static_cast<std::size_t>(shapes) / 3));
  EXPECT_NE(first.get().exit_code, 0) << "mpirun ends the other ranks too";
  EXPECT_TRUE(test::tuning_into(node.out).empty());
  const auto before = test::tuned_in(node.out);
  EXPECT_LT(before.size(), static_cast<std::size_t>(shapes));

  const CommandResult second = node.tune_all();
  EXPECT_EQ(second.exit_code, 0) << second.out << second.err;
  EXPECT_THAT(test::tuned_in(node.out), Each(Pair(testing::_, Le(1)))) << "none twice";
  EXPECT_THAT(node.alone({"fleet", "status", node.out}).out,
              HasSubstr(fmt::format("{0} of {0} shapes tuned", shapes)));
  const std::string merged = node.alone({"fleet", "merge", node.out, "--json"}).json()[0]["file"];
  EXPECT_EQ(node.alone({"db", "check", "--db", merged}).exit_code, 0);
  const auto listed = node.alone({"db", "list", "--db", merged, "--json"}).json();
  EXPECT_EQ(listed.back()["summary"]["records"], shapes);

  const CommandResult third = node.tune_all();
  EXPECT_EQ(third.exit_code, 0);
  EXPECT_THAT(test::tuned_in(node.out), Each(Pair(testing::_, Le(1))));
}

TEST(FleetMpi, RanksThatShareADeviceQueueAndUnequalOnesTuneTheWholeListEach) {
  const MpiNode node(3, "0,1");  // two ranks on the first card, one on the second
  node.write_list(2);
  const CommandResult result = node.tune_all();
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_THAT(test::tuned_in(node.out), AllOf(SizeIs(2), Each(Pair(testing::_, 2))));
  EXPECT_EQ(std::ranges::count_if(result.json(),
                                  [](const auto& row) {
                                    return row.value("held", 0) == 2 && row["missing"].empty();
                                  }),
            2);
}

TEST(FleetMpi, TheLibraryIsThatOfTheLauncher) {
  MpiNode node(2);
  node.launcher = {"mpiexec.hydra", "-n", "2"};
  node.write_list(2);
  const CommandResult result = node({"tune", "--mpi", "--file", node.list, "--out", node.out,
                                     // clock: spent when the first candidate is timed
                                     "--budget", "0.01", "--device", "hip:local"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("2 ranks (libmpich.so.12)"), HasSubstr("2 of 2 shapes tuned")));
  EXPECT_THAT(test::tuned_in(node.out), AllOf(SizeIs(2), Each(Pair(testing::_, 1))));
}

TEST(FleetMpi, WhatIsMissingIsNamed) {
  InventedNode node;
  node.write_list(1);
  const auto refused = [&](std::vector<std::string> more, int code, const std::string& reason) {
    const auto result = node(node.tune(more));
    EXPECT_EQ(result.exit_code, code) << result.out << result.err;
    EXPECT_THAT(result.err, HasSubstr(reason));
  };
  refused({"--mpi", "--device", "cuda:local"}, 3, "device = cuda:local: no GPU of this kind");
  refused({"--mpi", "--shard", "1/2"}, 2, "excludes");
  node.environment["KILN_MPI"] = "/nowhere/libmpi.so";
  refused({"--mpi", "--device", "hip:0"}, 3, "none of /nowhere/libmpi.so could be opened");
  node.environment["KILN_MPI"] = test::fake_hip_path();
  refused({"--mpi", "--device", "hip:0"}, 3, "neither Open MPI nor of MPICH's family");
}

}  // namespace kiln::fleet_mpi_test

#endif
