#include "cache/proved_code.h"

#include <SQLiteCpp/Statement.h>
#include <fmt/format.h>

#include <string>
#include <vector>

#include "cache/codec.h"
#include "cache/store_impl.h"
#include "generator/space/launch_text.h"
#include "runtime/backend.h"
#include "tuner/verify/envelope.h"

namespace kiln {
namespace {

struct OldProof {
  std::int64_t id = 0;
  std::string binary_key, text;
};

std::vector<OldProof> old_proofs(SQLite::Database& db) {
  std::vector<OldProof> all;
  SQLite::Statement row(db,
                        "SELECT rowid, binary_key, problem_key FROM verification "
                        "WHERE problem_key LIKE ? || '%'");
  row.bind(1, kEnvelopePrefix);
  while (row.executeStep())
    all.push_back(
        {row.getColumn(0).getInt64(), row.getColumn(1).getString(), row.getColumn(2).getString()});
  return all;
}

/// What such a proof said.
std::string old_text(const Gemm& gemm, const DeviceCaps& device, const Config& config) {
  return fmt::format("{}1;launch={};{}", kEnvelopePrefix,
                     content_hash(launch_text(gemm, device, config)), text(gemm));
}

/// The texts that a proof has now: one for each device and config with its code.
std::vector<std::string> new_texts(SQLite::Database& db, const OldProof& proof) {
  std::vector<std::string> texts;
  const auto shape = parse_gemm(proof.text.substr(proof.text.rfind(';') + 1));
  if (!shape) return texts;
  SQLite::Statement row(db,
                        "SELECT DISTINCT device_id, config.text FROM measurement "
                        "JOIN config ON config.id = config_id "
                        "WHERE binary_key = ? AND winner = 1");
  row.bind(1, proof.binary_key);
  while (row.executeStep()) {
    const auto device = read_device(db, row.getColumn(0).getInt64());
    const auto config = parse_config(row.getColumn(1).getString());
    if (!device || !config || on_host(*device)) continue;
    if (!broken_rule(canonicalise(*shape), *device, *config).empty()) continue;
    if (proof.text == old_text(*shape, *device, *config))
      texts.push_back(envelope_text(*shape, *device, *config));
  }
  return texts;
}

}  // namespace

void name_proved_code(SQLite::Database& db) {
  for (const OldProof& proof : old_proofs(db)) {
    for (const std::string& text : new_texts(db, proof)) {
      SQLite::Statement add(db,
                            "INSERT OR IGNORE INTO verification (binary_key, problem_key, runtime, "
                            "created) SELECT binary_key, ?2, runtime, created FROM verification "
                            "WHERE rowid = ?1");
      add.bind(1, proof.id);
      add.bind(2, text);
      add.exec();
    }
    SQLite::Statement drop(db, "DELETE FROM verification WHERE rowid = ?");
    drop.bind(1, proof.id);
    drop.exec();
  }
}

}  // namespace kiln
