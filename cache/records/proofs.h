// What code was verified for: a problem, or the envelope of a code class.
#pragma once

#include <string>

#include "cache/record.h"
#include "kiln/error.hpp"

namespace kiln {

class Layers;

class Proofs {
 public:
  explicit Proofs(Layers& layers) : layers_(layers) {}

  /// Says that code was verified for a problem and its thread count, under today's launch of the
  /// config and under a runtime.
  Status proved(const std::string& binary_key, const BestKey& key, const Config& config,
                const std::string& runtime);
  /// Whether proved() stored this in the user's own file, and that is trusted.
  bool proven(const std::string& binary_key, const BestKey& key, const Config& config,
              const std::string& runtime);
  /// Says that a record's code was verified over the envelope of its problem
  /// (tuner/verify/envelope.h): it may run on every problem of the same code.
  Status proved_envelope(const Record& record);
  /// Whether proved_envelope() stored this in a file whose machine code may be loaded, of the code
  /// that the record names, of its class and of the launch that today's generator gives it.
  bool code_proven(const Record& record);
  /// The same of a record that is stored, under its seal: it may run.
  bool envelope_proven(const Record& record);

 private:
  Layers& layers_;
};

/// Proofs::proven() for a caller who holds the lock.
bool is_proven(Layers& layers, const std::string& binary_key, const BestKey& key,
               const Config& config, const std::string& runtime);

}  // namespace kiln
