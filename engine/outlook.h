// What tuning a problem would gain, told from what is stored and from models, before it is tuned.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "kiln/engine.hpp"

namespace kiln {

struct BestKey;

/// The least that the analytic model predicts of any legal config; 0: there is none.
double best_prediction(const BestKey& key);

/// What an Outlook's `tuned_ns` comes from.
enum class Basis : std::uint8_t {
  stored,      ///< the problem is tuned: its own record
  neighbours,  ///< the model fitted to tuned problems of the same types and layouts
  corrected,   ///< the analytic model, times what it was off by for the device's tuned problems
  model,       ///< the analytic model alone: nothing is tuned on this device
  none         ///< nothing computes it but the reference kernel
};
/// Name of a basis.
std::string_view name(Basis basis);

struct Outlook {
  Match match = Match::reference;  // of the kernel that gemm() runs now
  std::string config;              // of that kernel
  double now_ns = 0;               // stored or predicted time of it; 0 = unknown
  double tuned_ns = 0;             // what a search may be expected to find; 0 = unknown
  Basis basis = Basis::none;       // of tuned_ns
  double gain = 0;                 // share of a call's time that tuning would save, 0 to 1
};

/// Looks the problem up as gemm() does; a miss may compile and verify. `called_ns`: mean time of
/// its calls as measured, 0 = none; the gain is a share of that where the problem is not tuned.
/// Errors: as Engine::plan().
Result<Outlook> outlook(Engine& engine, const Gemm& gemm, int threads, double called_ns);

}  // namespace kiln
