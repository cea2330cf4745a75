// Everything that a database holds, as lines in the order of its keys: row ids and the runs that
// rows belong to are left out.
#pragma once

#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Statement.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <sstream>
#include <string>

namespace kiln::test {

inline std::string database_dump(const std::filesystem::path& file) {
  SQLite::Database db(file.string(), SQLite::OPEN_READONLY, 5000);
  std::string all;
  for (const char* query : {
           "SELECT * FROM device",
           "SELECT * FROM toolchain",
           "SELECT * FROM problem",
           "SELECT * FROM config",
           "SELECT hash, bytes FROM source",
           "SELECT key, code_key, compiler, hash, bytes, seal, created, quarantined FROM binary",
           "SELECT key, hex(data) FROM binary JOIN binary_data USING (id)",
           "SELECT * FROM verification",
           "SELECT d.key, p.key, policy, determinism, t.key, c.text, predicted_ns, round, "
           "verified, median_ns, low_ns, high_ns, samples, failure, detail, binary_key, launch, "
           "seal, winner, created, quarantined FROM measurement "
           "JOIN device d ON d.id = device_id JOIN problem p ON p.id = problem_id "
           "JOIN toolchain t ON t.id = toolchain_id JOIN config c ON c.id = config_id",
           "SELECT d.key, p.key, policy, determinism, t.key, seconds, budget_seconds, "
           "spent_seconds, measured, failed, enumerated, whole_space, interrupted, created "
           "FROM search JOIN device d ON d.id = device_id JOIN problem p ON p.id = problem_id "
           "JOIN toolchain t ON t.id = toolchain_id",
           "SELECT key, dtype, flops, created FROM peak JOIN device d ON d.id = device_id",
           "SELECT key, fp32_flops, fp64_flops, bf16_flops, int8_flops, l1_read, l2_read, "
           "l3_read, dram_read, created FROM limits JOIN device d ON d.id = device_id",
           "SELECT key, class, policy, determinism, hash, created FROM fit "
           "JOIN device d ON d.id = device_id",
           "SELECT key, shape, policy, determinism, hash, created FROM range "
           "JOIN device d ON d.id = device_id",
       }) {
    std::multiset<std::string> lines;
    SQLite::Statement row(db, query);
    while (row.executeStep()) {
      std::string line;
      for (int i = 0; i < row.getColumnCount(); ++i)
        if (row.getColumnName(i) != std::string("id"))
          line += std::string(row.getColumn(i).isNull() ? "NULL" : row.getColumn(i).getString()) +
                  " | ";
      lines.insert(line);
    }
    all += std::string("-- ") + query + "\n";
    for (const std::string& line : lines) all += line + "\n";
  }
  return all;
}

/// The first lines by which two dumps differ; empty: none do.
inline std::string first_difference(const std::string& a, const std::string& b) {
  std::istringstream left(a), right(b);
  for (std::string x, y;;) {
    const bool more = static_cast<bool>(std::getline(left, x));
    if (more != static_cast<bool>(std::getline(right, y))) return (more ? x : y) + "\n(no other)";
    if (!more) return {};
    const auto at = std::ranges::mismatch(x, y).in1;
    const auto from = std::max<std::ptrdiff_t>(0, at - x.begin() - 80);
    if (x != y) return x.substr(from) + "\n" + (from < std::ssize(y) ? y.substr(from) : y);
  }
}

}  // namespace kiln::test
