// The environment in which peers run at their best. Libraries read it as they load, so a benchmark
// starts its own program again in a prepared one. Knows names of variables, nothing of problems.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "kiln/error.hpp"

namespace kiln {

struct PeerEnvironment {
  std::vector<std::string> unset;
  std::map<std::string, std::string> set;
};

/// F, BW, DQ and VL: what peers' AVX-512 kernels take for granted.
bool cpu_has_avx512();

/// What this CPU's peers want, each with its reason in environment.cpp.
PeerEnvironment peer_environment();

/// True when this process was started by enter_peer_environment().
bool in_peer_environment();

/// Replaces this process by the same program with the same arguments in the prepared environment;
/// returns at once when already there. Call it before threads exist and before load_peers().
/// Errors: device (the system refused; the message says what).
Status enter_peer_environment();

/// The current environment with `change` applied, as `NAME=value` lines.
std::vector<std::string> apply(const PeerEnvironment& change);

}  // namespace kiln
