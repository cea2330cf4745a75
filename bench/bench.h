// `kiln bench`: a list of shapes, raced one after the other on a device of any kind, reported as
// they are known. Knows the Engine and the peers; knows no command line.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "bench/report.h"
#include "kiln/engine.hpp"

namespace kiln {

struct BenchOptions {
  std::vector<Gemm> gemms;
  std::vector<int> threads;  ///< counts to race at; empty: 1 and every core, or a GPU's one
  OpenOptions open;
  bool tune = false;                           ///< tune first what has no valid record
  std::chrono::duration<double> budget{10.0};  ///< of tuning, for each shape
  int candidates = 0;                          ///< the most of each search; 0: any number
  std::vector<std::string> peers;              ///< names, on CPUs; empty: all that are installed
  ContestOptions contest;
  std::function<void(std::size_t races)> on_start;
  std::function<void(const MachineLine&)> on_machine;
  std::function<void(const Peer&)> on_peer;
  std::function<void(const AbsentPeer&)> on_absent;
  std::function<void(const ContestResult&)> on_row;
  std::function<void(const ShapeFailure&)> on_failure;
  /// Tuning as it goes; which shape of how many comes first.
  std::function<void(std::size_t shape, const Gemm&, int threads, const Progress&)> on_tune;
  /// What became of tuning a shape.
  std::function<void(const Gemm&, const Result<TuneReport>&)> on_tuned;
  std::function<bool()> cancelled;  ///< asked before each shape, and while it is tuned
};

/// Call enter_peer_environment() first. A shape that fails is reported and the next one is raced.
/// Errors: bad_input (a peer's name, threads), and those of Engine::open and open_track().
Result<BenchReport> run_bench(const BenchOptions& options);

}  // namespace kiln
