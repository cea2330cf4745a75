#include "cache/layers/fast_numerics.h"

#include <SQLiteCpp/Statement.h>

#include <string>
#include <utility>
#include <vector>

#include "cache/rows/proof_text.h"
#include "cache/rows/rows.h"
#include "cache/rows/seal.h"

namespace kiln {
namespace {

/// Envelopes' proofs end with a problem's text. Those of kernels that promote are of both kinds.
void add_envelopes(SQLite::Database& db) {
  std::vector<std::pair<std::int64_t, std::string>> added;
  SQLite::Statement row(db,
                        "SELECT rowid, problem_key FROM verification WHERE problem_key LIKE ?1 || "
                        "'%' AND binary_key IN (SELECT binary_key FROM measurement JOIN problem ON "
                        "problem.id = problem_id WHERE numerics = 'fast')");
  row.bind(1, kEnvelopePrefix);
  while (row.executeStep()) {
    const std::string proof = row.getColumn(1).getString();
    const std::size_t shape = proof.rfind(';') + 1;
    const auto gemm = parse_gemm(proof.substr(shape));
    if (!gemm) continue;
    const Gemm fast = gemm->with_numerics(Numerics::fast);
    if (Problem::of(fast))
      added.emplace_back(row.getColumn(0).getInt64(), proof.substr(0, shape) + text(fast));
  }
  row.reset();
  for (const auto& [id, proof] : added) {
    SQLite::Statement add(db, R"sql(
      INSERT OR IGNORE INTO verification (binary_key, problem_key, runtime, created)
      SELECT binary_key, ?2, runtime, created FROM verification WHERE rowid = ?1)sql");
    add.bind(1, id);
    add.bind(2, proof);
    add.exec();
  }
}

/// A winner that promotes is a winner where sums must be promoted as well. It was verified under
/// the bound that `fast` has now, which is wider for k over 512; that of db/h200.kiln was verified
/// under the bound of `ieee` too, on an H100.
void copy_promoted(SQLite::Database& db, const std::vector<std::int64_t>& winners) {
  for (const std::int64_t id : winners) {
    SQLite::Statement row(db, R"sql(
      SELECT problem_id FROM measurement JOIN config ON config.id = config_id
      JOIN problem ON problem.id = problem_id
      WHERE measurement.id = ? AND numerics = 'fast' AND config.text LIKE '% promote=1%')sql");
    row.bind(1, id);
    if (!row.executeStep()) continue;
    const auto fast = read_problem(db, row.getColumn(0).getInt64());
    row.reset();
    if (!fast) continue;
    SQLite::Statement copy(db, R"sql(
      INSERT INTO measurement (device_id, problem_id, policy, determinism, toolchain_id, config_id,
        session_id, predicted_ns, round, verified, median_ns, low_ns, high_ns, samples, binary_key,
        launch, winner, created)
      SELECT device_id, ?2, policy, determinism, toolchain_id, config_id, session_id, predicted_ns,
        round, verified, median_ns, low_ns, high_ns, samples, binary_key, launch, 1, created
      FROM measurement WHERE id = ?1 RETURNING id)sql");
    copy.bind(1, id);
    copy.bind(2, problem_row(db, fast->with_numerics(Numerics::ieee)));
    copy.executeStep();
    const std::int64_t copied = copy.getColumn(0).getInt64();
    copy.reset();
    seal_measurement(db, copied);
  }
}

}  // namespace

void make_small_floats_fast(SQLite::Database& db) {
  std::vector<std::int64_t> whole;
  SQLite::Statement winners(db, R"sql(
    SELECT measurement.id FROM measurement JOIN problem ON problem.id = problem_id
    WHERE winner = 1 AND a_dtype LIKE 'fp8_e_m_')sql");
  while (winners.executeStep()) {
    const std::int64_t id = winners.getColumn(0).getInt64();
    if (measurement_sealed(db, id)) whole.push_back(id);
  }
  winners.reset();
  db.exec(R"sql(
UPDATE problem SET numerics = 'fast', key = key || 'numerics=fast;',
  class = class || 'numerics=fast;'
WHERE a_dtype LIKE 'fp8_e_m_' AND b_dtype LIKE 'fp8_e_m_' AND
  scale_a NOT IN ('line_128', 'square_128', 'mx_32') AND
  EXISTS (SELECT 1 FROM measurement WHERE problem_id = problem.id) AND
  NOT EXISTS (SELECT 1 FROM measurement JOIN device ON device.id = device_id
    WHERE problem_id = problem.id AND NOT (vendor = 'nvidia' AND sm BETWEEN 89 AND 99));
UPDATE fit SET class = class || 'numerics=fast;'
WHERE class || 'numerics=fast;' IN (SELECT class FROM problem);
UPDATE range SET rest = rest || 'numerics=fast;', shape = shape || ' numerics=fast'
WHERE rest LIKE '%a_dtype=fp8_e_m_;%b_dtype=fp8_e_m_;%' AND
  rest NOT LIKE '%scale_a=%128;%' AND rest NOT LIKE '%scale_a=mx_32;%' AND
  device_id IN (SELECT id FROM device WHERE vendor = 'nvidia' AND sm BETWEEN 89 AND 99);
UPDATE OR IGNORE verification
SET problem_key = replace(problem_key, ' threads=', 'numerics=fast; threads=')
WHERE problem_key LIKE '%;b_packed=%' AND binary_key IN (
  SELECT binary_key FROM measurement JOIN problem ON problem.id = problem_id
  WHERE numerics = 'fast');
)sql");
  add_envelopes(db);
  for (const std::int64_t id : whole) seal_measurement(db, id);
  copy_promoted(db, whole);
}

}  // namespace kiln
