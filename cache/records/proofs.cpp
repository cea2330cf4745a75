#include "cache/records/proofs.h"

#include <SQLiteCpp/Statement.h>

#include "cache/keys.h"
#include "cache/layers/layers.h"
#include "cache/rows/proof_text.h"
#include "cache/rows/rows.h"
#include "cache/rows/seal.h"
#include "generator/space/code_class.h"

namespace kiln {
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

Status Proofs::proved(const std::string& binary_key, const BestKey& key, const Config& config,
                      const std::string& runtime) {
  return layers_.write([&](SQLite::Database& db) -> Status {
    add_proof(db, binary_key, proof_text(key, config), runtime);
    return {};
  });
}

Status Proofs::proved_envelope(const Record& record) {
  return layers_.write([&](SQLite::Database& db) -> Status {
    add_proof(db, record.measured.binary_key,
              envelope_text(record.key.problem(), record.key.device, record.measured.config),
              record.validators.runtime);
    return {};
  });
}

bool is_proven(Layers& layers, const std::string& binary_key, const BestKey& key,
               const Config& config, const std::string& runtime) {
  if (!layers.own().trusted) return false;
  return lookup(layers.own(), [&] {
    SQLite::Statement row(*layers.own().db,
                          "SELECT 1 FROM verification WHERE binary_key = ? AND problem_key = ? AND "
                          "runtime = ?");
    row.bind(1, binary_key);
    row.bind(2, proof_text(key, config));
    row.bind(3, runtime);
    return row.executeStep();
  });
}

bool Proofs::proven(const std::string& binary_key, const BestKey& key, const Config& config,
                    const std::string& runtime) {
  const QuietLock lock(layers_.mutex());
  return is_proven(layers_, binary_key, key, config, runtime);
}

bool Proofs::code_proven(const Record& record) {
  const QuietLock lock(layers_.mutex());
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
  return layers_.in_trusted([&](Layer& layer) {
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

bool Proofs::envelope_proven(const Record& record) {
  if (record.measured.binary_key.empty() || !code_proven(record)) return false;
  const QuietLock lock(layers_.mutex());
  // The proof is of the code; that the code is the config's is what the winner's seal says.
  return layers_.in_trusted([&](Layer& layer) {
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
