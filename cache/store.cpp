// Opening and looking up.
#include "cache/store.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "cache/layers/layers.h"
#include "cache/layers/move_aside.h"
#include "cache/rows/seal.h"
#include "generator/space/launch_text.h"
#include "runtime/log.h"

namespace kiln {

void bind_key(SQLite::Statement& row, const BestKey& key, const Validators& now) {
  row.bind(1, key_text(key.device));
  row.bind(2, key_text(key.gemm));
  row.bind(3, key.policy);
  row.bind(4, std::get<std::string>(to_value(key.determinism)));
  row.bind(5, now.template_hash);
  row.bind(6, now.compiler);
}

void bind_fit_key(SQLite::Statement& row, const BestKey& key) {
  row.bind(1, key_text(key.device));
  row.bind(2, class_text(key.gemm));
  row.bind(3, key.policy);
  bind_value(row, 4, to_value(key.determinism));
}

namespace {

constexpr int kKeyColumns = 11;  // of kMeasuredColumns; what follows them in a SELECT starts here

/// The file that nobody named. What lies in its place must not keep every program from running.
Result<Layer> open_default(const std::filesystem::path& file) {
  std::optional<FileId> damaged;
  auto layer = open_own(file, &damaged);
  if (layer || !damaged) return layer;
  const auto aside = move_aside(file, *damaged, today());
  if (!aside) {
    log::warn("{}; {}; winners will not be stored", layer.error().message, aside.error().message);
    return open_in_memory();
  }
  if (!aside->empty())
    log::warn("database {}: damaged, or not kiln's: it was renamed to {}, and a new one is made",
              file.string(), aside->string());
  return open_own(file);
}

}  // namespace

Store::Store(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Store::~Store() {
  const QuietScope scope;  // closing takes SQLite's locks
  impl_.reset();
}

Result<std::unique_ptr<Store>> Store::open(const StoreOptions& options) {
  const QuietScope scope;
  auto impl = std::make_unique<Impl>();
  impl->memory_wanted = options.database == kInMemory;
  const bool in_memory = options.database.empty() || impl->memory_wanted;
  auto own = in_memory            ? open_in_memory()
             : options.by_default ? open_default(options.database)
                                  : open_own(options.database);
  if (!own) return tl::unexpected(own.error());
  impl->layers.push_back(std::move(*own));
  for (const auto& file : options.shipped) {
    auto layer = open_shipped(file);
    if (!layer) return tl::unexpected(layer.error());
    impl->layers.push_back(std::move(*layer));
  }
  return std::unique_ptr<Store>(new Store(std::move(impl)));
}

std::filesystem::path Store::path() const { return impl_->layers.front().path; }

bool Store::Impl::is_bad(const Layer& layer, std::string_view table, std::int64_t id) const {
  return bad_rows.contains(fmt::format("{}:{}:{}", layer.path.string(), table, id));
}

void Store::Impl::quarantine(Layer& layer, std::string_view table, std::int64_t id,
                             std::string_view reason) {
  log::warn("database {}: {} row {} quarantined: {}", layer.path.string(), table, id, reason);
  const bool marked =
      layer.writable && lookup(layer, [&] {
        SQLite::Statement mark(*layer.db,
                               fmt::format("UPDATE {} SET quarantined = ? WHERE id = ?", table));
        mark.bind(1, std::string(reason));
        mark.bind(2, id);
        return mark.exec() == 1;
      });
  if (!marked) bad_rows.insert(fmt::format("{}:{}:{}", layer.path.string(), table, id));
}

std::optional<StoredBinary> Store::Impl::code_of(Layer& layer, std::int64_t binary_id) {
  if (is_bad(layer, "binary", binary_id)) return std::nullopt;
  auto binary = read_binary(*layer.db, binary_id);
  if (!binary) {
    quarantine(layer, "binary", binary_id, "its bytes, source or seal do not match");
    return std::nullopt;
  }
  if (!layer.trusted) binary->image.clear();
  return binary;
}

void Store::Impl::attach_code(Layer& layer, Record& record) {
  SQLite::Statement find(*layer.db, "SELECT id FROM binary WHERE key = ? AND quarantined IS NULL");
  find.bind(1, record.measured.binary_key);
  if (!find.executeStep()) return;
  const std::int64_t id = find.getColumn(0).getInt64();
  find.reset();
  if (auto binary = code_of(layer, id)) {
    record.source = std::move(binary->source);
    record.image = std::move(binary->image);
  }
}

std::optional<Record> Store::Impl::best_in(Layer& layer, const BestKey& key,
                                           const Validators& now) {
  if (!layer.winners.may_hold(*layer.db, key)) return std::nullopt;
  SQLite::Statement row(
      *layer.db, fmt::format("SELECT {}, measurement.id, measurement.toolchain_id, "
                             "measurement.created, measurement.launch FROM {} WHERE {} "
                             "AND {} AND measurement.winner = 1 "
                             "ORDER BY {} DESC, measurement.created DESC, measurement.id DESC",
                             kMeasuredColumns, kMeasurementJoin, kProblemCondition,
                             kSettingCondition, kTemplateCondition));
  bind_key(row, key, now);
  std::vector<std::int64_t> broken;
  std::optional<Record> found;
  while (!found && row.executeStep()) {
    const std::int64_t id = row.getColumn(kKeyColumns).getInt64();
    if (is_bad(layer, "measurement", id)) continue;
    auto measured = read_measured(row);
    auto made_by = read_toolchain(*layer.db, row.getColumn(kKeyColumns + 1).getInt64());
    if (!measured || !measured->ok() || !made_by || !measurement_sealed(*layer.db, id)) {
      broken.push_back(id);
      continue;
    }
    const std::string launch = row.getColumn(kKeyColumns + 3).getString();
    if (!launch.empty() && launch != launch_text(key.problem(), key.device, measured->config)) {
      log::debug(
          "database {}: config '{}' for {}: skipped, its stored launch is not the one made now",
          layer.path.string(), text(measured->config), text(key.gemm));
      continue;
    }
    found = Record{.key = key,
                   .validators = std::move(*made_by),
                   .measured = std::move(*measured),
                   .launch = launch,
                   .created = text_of(row.getColumn(kKeyColumns + 2)),
                   .database = layer.path,
                   .writable = layer.writable,
                   .searched = search_beside(*layer.db, id)};
  }
  row.reset();
  for (const std::int64_t id : broken)
    quarantine(layer, "measurement", id,
               "its config, round, timing or toolchain cannot be read, or its seal is not that of "
               "its fields");
  if (found) attach_code(layer, *found);
  return found;
}

std::optional<Record> Store::best(const BestKey& key, const Validators& now) {
  const QuietLock lock(impl_->mutex);
  for (Layer& layer : impl_->layers) {
    auto record = lookup(layer, [&] { return impl_->best_in(layer, key, now); });
    if (!record) continue;
    if ((record->validators.runtime != now.runtime || record->launch.empty()) &&
        impl_->proven(record->measured.binary_key, key, record->measured.config, now.runtime)) {
      record->validators.runtime = now.runtime;
      record->launch = launch_text(key.problem(), key.device, record->measured.config);
    }
    return record;
  }
  return std::nullopt;
}

namespace {

std::vector<KernelRow> kernels_in(const Store::Impl& store, Layer& layer, std::size_t number,
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
    if (store.is_bad(layer, "measurement", id)) continue;
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
    auto gemm = problems_.read(row_.getColumn(kKeyColumns).getInt64());
    const std::int64_t toolchain = row_.getColumn(kKeyColumns + 2).getInt64();
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
                  .created = text_of(row_.getColumn(kKeyColumns + 1)),
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

std::vector<KernelRow> Store::kernels_like(const BestKey& key, const Validators& now) {
  const QuietLock lock(impl_->mutex);
  std::vector<KernelRow> all;
  for (std::size_t i = 0; i < impl_->layers.size(); ++i) {
    Layer& layer = impl_->layers[i];
    auto kernels = lookup(layer, [&] { return kernels_in(*impl_, layer, i, key, now); });
    all.insert(all.end(), std::make_move_iterator(kernels.begin()),
               std::make_move_iterator(kernels.end()));
  }
  return all;
}

std::optional<Record> Store::record_of(const BestKey& key, const KernelRow& row) {
  const QuietLock lock(impl_->mutex);
  Layer& layer = impl_->layers.at(row.layer);
  return lookup(layer, [&] { return Records(layer, key).read(row); });
}

std::vector<Record> Store::tuned_like(const BestKey& key, const Validators& now) {
  const QuietLock lock(impl_->mutex);
  std::vector<Record> all;
  for (std::size_t i = 0; i < impl_->layers.size(); ++i) {
    Layer& layer = impl_->layers[i];
    auto records = lookup(layer, [&] {
      std::vector<Record> found;
      Records reader(layer, key);
      for (const KernelRow& kernel : kernels_in(*impl_, layer, i, key, now))
        if (auto record = reader.read(kernel)) found.push_back(std::move(*record));
      return found;
    });
    all.insert(all.end(), std::make_move_iterator(records.begin()),
               std::make_move_iterator(records.end()));
  }
  return all;
}

std::vector<TimedConfig> Store::timed_like(const BestKey& key) {
  const QuietLock lock(impl_->mutex);
  std::vector<TimedConfig> all;
  const auto add_from = [&](Layer& layer) {
    // Problems and configs are few, and each is read many times.
    std::map<std::int64_t, std::optional<Gemm>> problems;
    std::map<std::string, std::optional<Config>> configs;
    RowsById<Gemm> rows(*layer.db);
    SQLite::Statement row(*layer.db, R"sql(
      SELECT measurement.problem_id, config.text, median_ns FROM measurement
        JOIN config ON config.id = measurement.config_id
        JOIN problem ON problem.id = measurement.problem_id
      WHERE measurement.device_id = (SELECT id FROM device WHERE key = ?1) AND problem.class = ?2
        AND policy = ?3 AND determinism = ?4 AND median_ns IS NOT NULL AND quarantined IS NULL
      ORDER BY measurement.id DESC)sql");
    bind_fit_key(row, key);
    while (row.executeStep()) {
      const std::int64_t id = row.getColumn(0).getInt64();
      auto [gemm, fresh] = problems.try_emplace(id);
      if (fresh) gemm->second = rows.read(id);
      const std::string text = row.getColumn(1).getString();
      auto [config, unknown] = configs.try_emplace(text);
      if (unknown)
        if (auto parsed = parse_config(text)) config->second = std::move(*parsed);
      const double ns = row.getColumn(2).getDouble();
      if (gemm->second && config->second && std::isfinite(ns) && ns > 0)
        all.push_back({*gemm->second, *config->second, ns});
    }
    return true;
  };
  for (Layer& layer : impl_->layers) lookup(layer, [&] { return add_from(layer); });
  return all;
}

std::optional<FittedModel> Store::fit(const BestKey& key) {
  const QuietLock lock(impl_->mutex);
  const auto of_layer = [&](Layer& layer) -> std::optional<FittedModel> {
    SQLite::Statement row(*layer.db,
                          "SELECT id FROM fit WHERE device_id = "
                          "(SELECT id FROM device WHERE key = ?1) AND class = ?2 AND "
                          "policy = ?3 AND determinism = ?4");
    bind_fit_key(row, key);
    return row.executeStep() ? read_fit(*layer.db, row.getColumn(0).getInt64()) : std::nullopt;
  };
  for (Layer& layer : impl_->layers)
    if (auto model = lookup(layer, [&] { return of_layer(layer); })) return model;
  return std::nullopt;
}

std::vector<Measured> Store::known(const BestKey& key, const Validators& now) {
  const QuietLock lock(impl_->mutex);
  std::vector<Measured> all;
  std::set<Config> seen;
  const auto add_from = [&](Layer& layer) {
    SQLite::Statement row(
        *layer.db, fmt::format("SELECT {} FROM {} WHERE {} AND {} AND {} ORDER BY measurement.id",
                               kMeasuredColumns, kMeasurementJoin, kProblemCondition,
                               kSettingCondition, kTemplateCondition));
    bind_key(row, key, now);
    while (row.executeStep()) {
      auto measured = read_measured(row);
      if (measured && seen.insert(measured->config).second) all.push_back(std::move(*measured));
    }
    return true;
  };
  for (Layer& layer : impl_->layers) lookup(layer, [&] { return add_from(layer); });
  return all;
}

std::vector<Measured> Store::winners_and_libraries(const BestKey& key) {
  const QuietLock lock(impl_->mutex);
  std::vector<Measured> all;
  const auto add_from = [&](Layer& layer) {
    SQLite::Statement row(
        *layer.db, fmt::format("SELECT {} FROM {} WHERE {} AND {} AND measurement.median_ns IS NOT "
                               "NULL AND (measurement.winner = 1 OR config.text LIKE '{} %' OR "
                               "config.text LIKE '{} %') "
                               "ORDER BY measurement.id DESC",
                               kMeasuredColumns, kMeasurementJoin, kProblemCondition,
                               kSettingCondition, BlasLibrary::kFamily, CudaLibrary::kFamily));
    bind_key(row, key, {});
    while (row.executeStep())
      if (auto measured = read_measured(row)) all.push_back(std::move(*measured));
    return true;
  };
  for (Layer& layer : impl_->layers) lookup(layer, [&] { return add_from(layer); });
  return all;
}

double Store::peak(const DeviceCaps& device, DType type) {
  const QuietLock lock(impl_->mutex);
  double most = 0;
  for (Layer& layer : impl_->layers) {
    const auto flops = lookup(layer, [&]() -> std::optional<double> {
      SQLite::Statement row(*layer.db,
                            "SELECT id FROM peak WHERE device_id = (SELECT id FROM device WHERE "
                            "key = ?) AND dtype = ?");
      row.bind(1, key_text(device));
      row.bind(2, std::get<std::string>(to_value(type)));
      if (!row.executeStep()) return std::nullopt;
      return read_peak(*layer.db, row.getColumn(0).getInt64());
    });
    most = std::max(most, flops.value_or(0));
  }
  return most;
}

std::optional<StoredBinary> Store::binary(const std::string& code_key,
                                          const std::string& compiler) {
  const QuietLock lock(impl_->mutex);
  for (Layer& layer : impl_->layers) {
    if (!layer.trusted) continue;
    auto found = lookup(layer, [&]() -> std::optional<StoredBinary> {
      SQLite::Statement row(*layer.db,
                            "SELECT id FROM binary WHERE code_key = ?1 AND quarantined IS NULL "
                            "AND (?2 = '' OR compiler = ?2) ORDER BY id DESC");
      row.bind(1, code_key);
      row.bind(2, compiler);
      std::vector<std::int64_t> ids;
      while (row.executeStep()) ids.push_back(row.getColumn(0).getInt64());
      for (const std::int64_t id : ids)
        if (auto binary = impl_->code_of(layer, id)) return binary;
      return std::nullopt;
    });
    if (found) return found;
  }
  return std::nullopt;
}

bool Store::knows(const DeviceCaps& device) {
  const QuietLock lock(impl_->mutex);
  return impl_->in_trusted([&](Layer& layer) {
    SQLite::Statement row(*layer.db, "SELECT 1 FROM device WHERE key = ?");
    row.bind(1, key_text(device));
    return row.executeStep();
  });
}

std::vector<DeviceCaps> Store::devices() {
  const QuietLock lock(impl_->mutex);
  std::vector<DeviceCaps> all;
  for (Layer& layer : impl_->layers) {
    if (!layer.trusted) continue;
    lookup(layer, [&] {
      SQLite::Statement row(*layer.db, "SELECT id FROM device ORDER BY id");
      while (row.executeStep())
        if (auto device = read_device(*layer.db, row.getColumn(0).getInt64()))
          if (std::ranges::find(all, *device) == all.end()) all.push_back(std::move(*device));
      return true;
    });
  }
  return all;
}

std::optional<StoredBinary> Store::code(const std::string& binary_key) {
  const QuietLock lock(impl_->mutex);
  for (Layer& layer : impl_->layers) {
    if (!layer.trusted) continue;
    auto found = lookup(layer, [&]() -> std::optional<StoredBinary> {
      SQLite::Statement row(*layer.db,
                            "SELECT id FROM binary WHERE key = ? AND quarantined IS NULL");
      row.bind(1, binary_key);
      if (!row.executeStep()) return std::nullopt;
      const std::int64_t id = row.getColumn(0).getInt64();
      row.reset();
      return impl_->code_of(layer, id);
    });
    if (found) return found;
  }
  return std::nullopt;
}

}  // namespace kiln
