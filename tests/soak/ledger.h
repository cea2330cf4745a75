// What writers of a database reported as written, kept by a process that outlives them, and whether
// the file still holds it. Knows the store; knows no kernel.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <utility>

#include "tuner/verify/data.h"

namespace kiln::soak {

/// One thing that was written, as it goes through a pipe.
struct Written {
  enum Kind : std::int32_t { row, code, winner, proof, tuned } kind = row;
  std::array<std::int32_t, 3> what{};  // row, winner, proof: problem, config; code: config; tuned:
                                       // m, n, k of an fp32 product
};

/// Writes rows, code, winners and proofs to the file, `count` rounds of them, each reported through
/// `pipe` once the store said that it was written. Returns what failed; "" when nothing did.
std::string write_rounds(const std::filesystem::path& file, int count, Random& random, int pipe);

class Ledger {
 public:
  void add(const Written& written);
  /// Opens the file, checks it and looks for all that was added; then writes something new. What is
  /// wrong; "" when nothing is.
  std::string missing_from(const std::filesystem::path& file) const;
  const std::set<std::array<std::int32_t, 3>>& tuned() const { return tuned_; }
  std::size_t size() const { return rows_.size() + codes_.size() + proofs_.size() + tuned_.size(); }

 private:
  std::set<std::pair<std::int32_t, std::int32_t>> rows_, proofs_;
  std::set<std::int32_t> codes_, winners_;
  std::set<std::array<std::int32_t, 3>> tuned_;
};

/// Sends one record; what fits a pipe arrives whole.
void report(int pipe, const Written& written);

}  // namespace kiln::soak
