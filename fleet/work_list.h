// What a fleet tunes: a list that is the same wherever it is read, and what of it concerns one
// device. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cache/exchange/recorded_calls.h"
#include "generator/problem/device_caps.h"
#include "kiln/range.hpp"

namespace kiln {

/// One problem, or range of problems, to be tuned.
struct FleetItem {
  Gemm gemm;  // of a range, that of the largest size
  std::optional<GemmRange> range = {};
  int threads = 0;          // 0: the device's own number
  std::string device = {};  // fingerprint of the only device that it is for; empty: every one
  auto operator<=>(const FleetItem&) const = default;
};

/// The problem or range as a line, with the threads where they are given.
std::string text(const FleetItem& item);

/// In one spelling, each once, longest first: ranges, then by operations, then by text. The order
/// follows from the items alone, whatever was tuned already.
std::vector<FleetItem> ordered(std::vector<FleetItem> items);

/// What was recorded, of all devices, as `kiln tune --recorded` groups it: four and more problems
/// that differ in m alone are a range, unless `each`. Whether one of them is tuned does not count:
/// it changes while a fleet works. `threads`: 0, or the only number of them that counts.
std::vector<FleetItem> recorded_list(const std::vector<RecordedCalls>& rows, int threads,
                                     bool each);

/// Those of a list that concern a device, in the list's order: spelt as its plans are, each once.
std::vector<FleetItem> of_device(const std::vector<FleetItem>& list, const DeviceCaps& device);

}  // namespace kiln
