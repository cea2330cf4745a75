// Kernels of the problems of one class: those among which a miss chooses.
#include <SQLiteCpp/Statement.h>
#include <fmt/format.h>

#include <iterator>
#include <map>

#include "cache/keys.h"
#include "cache/layers/layers.h"
#include "cache/records/winners.h"
#include "cache/rows/queries.h"
#include "cache/rows/rows.h"

namespace kiln {
namespace {

std::vector<KernelRow> kernels_in(const Layers& layers, Layer& layer, std::size_t number,
                                  const BestKey& key, const Validators& now) {
  std::vector<KernelRow> kernels;
  std::map<std::int64_t, std::optional<Config>> configs;
  // CROSS JOIN: from the problems of the class, which few others share, not from all winners.
  SQLite::Statement row(
      *layer.db,
      fmt::format("SELECT measurement.id, config.id, config.text, measurement.binary_key, "
                  "measurement.verified FROM problem CROSS JOIN {} "
                  "WHERE problem.id = measurement.problem_id AND problem.class = ?2 AND "
                  "measurement.winner = 1 AND measurement.failure IS NULL AND {} "
                  "GROUP BY measurement.problem_id, measurement.config_id, measurement.binary_key "
                  "ORDER BY measurement.id",
                  kMeasurementJoin, kKernelCondition));
  bind_key(row, key, now);
  row.bind(2, class_text(key.gemm));
  while (row.executeStep()) {
    const std::int64_t id = row.getColumn(0).getInt64();
    if (layers.is_bad(layer, "measurement", id)) continue;
    auto [config, unread] = configs.try_emplace(row.getColumn(1).getInt64());
    if (unread)
      if (auto parsed = parse_config(row.getColumn(2).getString()))
        config->second = std::move(*parsed);
    if (!config->second) continue;
    kernels.push_back({.config = *config->second,
                       // Who may not give code names none.
                       .binary_key = layer.trusted ? text_of(row.getColumn(3)) : std::string(),
                       .verified = row.getColumn(4).getInt() == 1,
                       .layer = number,
                       .id = id});
  }
  return kernels;
}

/// Whole records of one file, by their kernels.
class Records {
 public:
  Records(Layer& layer, const BestKey& key)
      : layer_(layer),
        key_(key),
        class_(class_text(key.gemm)),
        problems_(*layer.db),
        row_(*layer.db, fmt::format("SELECT {}, measurement.problem_id, measurement.created, "
                                    "measurement.toolchain_id FROM {} WHERE measurement.id = ?",
                                    kMeasuredColumns, kMeasurementJoin)) {}

  std::optional<Record> read(const KernelRow& kernel) {
    row_.reset();
    row_.bind(1, kernel.id);
    if (!row_.executeStep()) return std::nullopt;
    auto measured = read_measured(row_);
    auto gemm = problems_.read(row_.getColumn(kMeasuredColumnCount).getInt64());
    const std::int64_t toolchain = row_.getColumn(kMeasuredColumnCount + 2).getInt64();
    auto [made_by, unread] = toolchains_.try_emplace(toolchain);
    if (unread) made_by->second = read_toolchain(*layer_.db, toolchain);
    if (!measured || !measured->ok() || !gemm || !made_by->second) return std::nullopt;
    if (!layer_.trusted) measured->binary_key.clear();
    // The file may have changed since.
    if (measured->config != kernel.config || measured->binary_key != kernel.binary_key ||
        class_text(*gemm) != class_)
      return std::nullopt;
    Record record{.key = key_,
                  .validators = *made_by->second,
                  .measured = std::move(*measured),
                  .created = text_of(row_.getColumn(kMeasuredColumnCount + 1)),
                  .database = layer_.path};
    record.key.gemm = *gemm;
    return record;
  }

 private:
  Layer& layer_;
  const BestKey& key_;
  const std::string class_;
  RowsById<Gemm> problems_;
  SQLite::Statement row_;
  std::map<std::int64_t, std::optional<Validators>> toolchains_;  // few, and read many times
};

}  // namespace

std::vector<KernelRow> Winners::kernels_like(const BestKey& key, const Validators& now) {
  const QuietLock lock(layers_.mutex());
  std::vector<KernelRow> all;
  for (std::size_t i = 0; i < layers_.all().size(); ++i) {
    Layer& layer = layers_.all()[i];
    auto kernels = lookup(layer, [&] { return kernels_in(layers_, layer, i, key, now); });
    all.insert(all.end(), std::make_move_iterator(kernels.begin()),
               std::make_move_iterator(kernels.end()));
  }
  return all;
}

std::optional<Record> Winners::record_of(const BestKey& key, const KernelRow& row) {
  const QuietLock lock(layers_.mutex());
  Layer& layer = layers_.all().at(row.layer);
  return lookup(layer, [&] { return Records(layer, key).read(row); });
}

std::vector<Record> Winners::tuned_like(const BestKey& key, const Validators& now) {
  const QuietLock lock(layers_.mutex());
  std::vector<Record> all;
  for (std::size_t i = 0; i < layers_.all().size(); ++i) {
    Layer& layer = layers_.all()[i];
    auto records = lookup(layer, [&] {
      std::vector<Record> found;
      Records reader(layer, key);
      for (const KernelRow& kernel : kernels_in(layers_, layer, i, key, now))
        if (auto record = reader.read(kernel)) found.push_back(std::move(*record));
      return found;
    });
    all.insert(all.end(), std::make_move_iterator(records.begin()),
               std::make_move_iterator(records.end()));
  }
  return all;
}

}  // namespace kiln
