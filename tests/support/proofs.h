// Outcomes of checks that depend on nothing but text: a kernel's tokens, its launch, a problem, a
// seed, the sources of the emulator and the verification. tests/proofs/<test file>.txt keeps them
// by the hash of that text, so that a check whose text is unchanged need not run again in every CI
// run.
//
// KILN_PROVE unset: outcomes that are not kept are computed, and a fixed part of those that are.
// KILN_PROVE=1:     what is not kept is computed, and the file written anew, without what no check
//                   asked for.
// KILN_PROVE=all:   everything is computed, and the file written anew; nightly.
// Both are for a whole test file (ctest -R NAME): under a filter the others' outcomes are lost.
//
// What is kept as right must come out right wherever it is computed. Only a run writes the files;
// their lines are sorted: "<16 hex digits> <outcome>".
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace kiln::test {

/// The outcome of `check` for `text`: one line; "" where nothing is wrong. Kept beside the running
/// test's file; one kept outcome in `sample` is computed all the same. Nothing is kept under
/// another seed than the usual one (KILN_SEED, KILN_THOROUGH).
std::string proof(std::string_view text, const std::function<std::string()>& check,
                  std::uint64_t sample = 128);

/// Hashes of the sources, comments aside, by which the emulator and the verification decide; and by
/// which a kernel runs on this CPU and is verified.
const std::string& emulation_sources();
const std::string& host_sources();

}  // namespace kiln::test
