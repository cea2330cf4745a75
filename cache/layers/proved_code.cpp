#include "cache/layers/proved_code.h"

#include <SQLiteCpp/Statement.h>
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "cache/codec/codec.h"
#include "cache/rows/proof_text.h"
#include "cache/rows/rows.h"
#include "generator/space/code_class.h"
#include "generator/space/launch_text.h"
#include "runtime/backend.h"
#include "tuner/verify/envelope.h"

namespace kiln {
namespace {

struct OldProof {
  std::int64_t id = 0;
  std::string binary_key, text;
};

std::vector<OldProof> old_proofs(SQLite::Database& db, std::string_view prefix) {
  std::vector<OldProof> all;
  SQLite::Statement row(db,
                        "SELECT rowid, binary_key, problem_key FROM verification "
                        "WHERE problem_key LIKE ? || '%'");
  row.bind(1, std::string(prefix));
  while (row.executeStep())
    all.push_back(
        {row.getColumn(0).getInt64(), row.getColumn(1).getString(), row.getColumn(2).getString()});
  return all;
}

/// What a proof says of a kernel.
using ProofText = std::string (*)(const Problem&, const DeviceCaps&, const Config&);

std::string text_without_code(const Problem& problem, const DeviceCaps& device,
                              const Config& config) {
  return fmt::format("{}1;launch={};{}", kEnvelopePrefix,
                     content_hash(launch_text(problem, device, config)), text(problem.given));
}

std::string text_of_schema7(const Problem& problem, const DeviceCaps& device,
                            const Config& config) {
  return envelope_text(problem, device, config, code_class_of_schema7(problem, device, config));
}

std::string text_of_schema8(const Problem& problem, const DeviceCaps& device,
                            const Config& config) {
  return envelope_text(problem, device, config, code_class_of_schema8(problem, device, config));
}

/// Whose code a step of the migrations knows anew.
enum class Of { gpus, hosts };

/// The texts that a proof has now: one for each device and config with its code.
std::vector<std::string> new_texts(SQLite::Database& db, const OldProof& proof, ProofText old_text,
                                   Of of) {
  std::vector<std::string> texts;
  const auto shape = parse_gemm(proof.text.substr(proof.text.rfind(';') + 1));
  if (!shape) return texts;
  const Problem problem = Problem::of(*shape).value();
  SQLite::Statement row(db,
                        "SELECT DISTINCT device_id, config.text FROM measurement "
                        "JOIN config ON config.id = config_id "
                        "WHERE binary_key = ? AND winner = 1");
  row.bind(1, proof.binary_key);
  while (row.executeStep()) {
    const auto device = read_device(db, row.getColumn(0).getInt64());
    const auto config = parse_config(row.getColumn(1).getString());
    if (!device || !config || on_host(*device) != (of == Of::hosts)) continue;
    if (!broken_rule(problem, *device, *config).empty()) continue;
    const std::string today = envelope_text(problem, *device, *config);
    if (proof.text == old_text(problem, *device, *config) || proof.text == today)
      texts.push_back(today);
  }
  return texts;
}

/// Proofs that begin with `prefix`.
void rewrite(SQLite::Database& db, ProofText old_text, std::string_view prefix, Of of) {
  for (const OldProof& proof : old_proofs(db, prefix)) {
    const auto texts = new_texts(db, proof, old_text, of);
    if (std::ranges::find(texts, proof.text) != texts.end()) continue;
    for (const std::string& text : texts) {
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

}  // namespace

void name_proved_code(SQLite::Database& db) {
  rewrite(db, text_without_code, kEnvelopePrefix, Of::gpus);
}

void rename_proved_code(SQLite::Database& db) {
  rewrite(db, text_of_schema7, fmt::format("{}{};", kEnvelopePrefix, kGpuEnvelope), Of::gpus);
}

void name_layouts_of_proved_code(SQLite::Database& db) {
  rewrite(db, text_of_schema8, fmt::format("{}{};", kEnvelopePrefix, kHostEnvelope), Of::hosts);
}

}  // namespace kiln
