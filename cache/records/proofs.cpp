// What code was verified for: a problem, or the envelope of a code class.
#include <fmt/format.h>

#include "cache/codec/codec.h"
#include "cache/layers/layers.h"
#include "cache/rows/seal.h"
#include "generator/space/code_class.h"
#include "generator/space/launch_text.h"
#include "runtime/backend.h"
#include "tuner/verify/envelope.h"

namespace kiln {

std::string proof_text(const BestKey& key, const Config& config) {
  return fmt::format("{} threads={} launch={}", key_text(key.gemm), key.device.compute_units,
                     content_hash(launch_text(key.problem(), key.device, config)));
}

std::string envelope_text(const Problem& problem, const DeviceCaps& device, const Config& config) {
  return envelope_text(problem, device, config, code_class(problem, device, config));
}

std::string envelope_text(const Problem& problem, const DeviceCaps& device, const Config& config,
                          const CodeClass& code) {
  const bool host = on_host(device);
  return fmt::format("{}{};code={:x}{:016x};launch={};threads={};{}", kEnvelopePrefix,
                     host ? kHostEnvelope : kGpuEnvelope, code.high, code.low,
                     content_hash(launch_text(problem, device, config)),
                     host ? device.compute_units : 0, text(problem.given));
}

namespace {

void add_proof(SQLite::Database& db, const std::string& binary_key, const std::string& proof,
               const std::string& runtime) {
  SQLite::Statement row(db, R"sql(
      INSERT OR IGNORE INTO verification (binary_key, problem_key, runtime, created)
      VALUES (?, ?, ?, strftime('%Y-%m-%dT%H:%M:%SZ', 'now')))sql");
  row.bind(1, binary_key);
  row.bind(2, proof);
  row.bind(3, runtime);
  row.exec();
}

}  // namespace

Status Store::proved(const std::string& binary_key, const BestKey& key, const Config& config,
                     const std::string& runtime) {
  return write(*impl_, [&](SQLite::Database& db) -> Status {
    add_proof(db, binary_key, proof_text(key, config), runtime);
    return {};
  });
}

Status Store::proved_envelope(const Record& record) {
  return write(*impl_, [&](SQLite::Database& db) -> Status {
    add_proof(db, record.measured.binary_key,
              envelope_text(record.key.problem(), record.key.device, record.measured.config),
              record.validators.runtime);
    return {};
  });
}

bool Store::Impl::proven(const std::string& binary_key, const BestKey& key, const Config& config,
                         const std::string& runtime) {
  if (!own().trusted) return false;
  return lookup(own(), [&] {
    SQLite::Statement row(*own().db,
                          "SELECT 1 FROM verification WHERE binary_key = ? AND problem_key = ? AND "
                          "runtime = ?");
    row.bind(1, binary_key);
    row.bind(2, proof_text(key, config));
    row.bind(3, runtime);
    return row.executeStep();
  });
}

bool Store::proven(const std::string& binary_key, const BestKey& key, const Config& config,
                   const std::string& runtime) {
  const QuietLock lock(impl_->mutex);
  return impl_->proven(binary_key, key, config, runtime);
}

bool Store::code_proven(const Record& record) {
  const QuietLock lock(impl_->mutex);
  const DeviceCaps& device = record.key.device;
  const Config& config = record.measured.config;
  const Problem own = record.key.problem();
  if (!broken_rule(own, device, config).empty()) return false;
  const CodeClass code = code_class(own, device, config);
  // One proof serves all problems with the same code: it names the one that it began with.
  const auto holds = [&](const std::string& proof) {
    const std::size_t shape = proof.rfind(';');
    const auto gemm = parse_gemm(proof.substr(shape == proof.npos ? 0 : shape + 1));
    if (!gemm || class_text(*gemm) != class_text(record.key.gemm)) return false;
    const Problem problem = Problem::of(*gemm).value();
    return broken_rule(problem, device, config).empty() &&
           code_class(problem, device, config) == code &&
           proof == envelope_text(problem, device, config);
  };
  return impl_->in_trusted([&](Layer& layer) {
    SQLite::Statement row(*layer.db,
                          "SELECT problem_key FROM verification WHERE binary_key = ?1 "
                          "AND problem_key LIKE ?2 || '%'");
    row.bind(1, record.measured.binary_key);
    row.bind(2, kEnvelopePrefix);
    while (row.executeStep())
      if (holds(text_of(row.getColumn(0)))) return true;
    return false;
  });
}

bool Store::envelope_proven(const Record& record) {
  if (record.measured.binary_key.empty() || !code_proven(record)) return false;
  const QuietLock lock(impl_->mutex);
  // The proof is of the code; that the code is the config's is what the winner's seal says.
  return impl_->in_trusted([&](Layer& layer) {
    SQLite::Statement row(*layer.db,
                          "SELECT id FROM measurement WHERE winner = 1 AND binary_key = ?1 AND "
                          "config_id = (SELECT id FROM config WHERE text = ?2) AND "
                          "problem_id = (SELECT id FROM problem WHERE key = ?3)");
    row.bind(1, record.measured.binary_key);
    row.bind(2, text(record.measured.config));
    row.bind(3, key_text(record.key.gemm));
    while (row.executeStep())
      if (measurement_sealed(*layer.db, row.getColumn(0).getInt64())) return true;
    return false;
  });
}

}  // namespace kiln
