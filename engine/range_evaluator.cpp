#include "engine/range_evaluator.h"

#include <algorithm>
#include <atomic>
#include <thread>

#include "cache/records/binaries.h"
#include "cache/records/measurements.h"
#include "cache/records/proofs.h"
#include "generator/render/code_key.h"
#include "generator/render/render.h"
#include "generator/space/space.h"
#include "runtime/cpu/affinity.h"
#include "tuner/worker/process.h"

namespace kiln {

RangeEvaluator::RangeEvaluator(Engine::Impl& engine, const GemmRange& range, int threads,
                               Compiler& compiler, const TuneOptions& options,
                               std::vector<std::string>& warnings)
    : engine_(engine),
      range_(range),
      threads_(threads),
      compiler_(compiler),
      options_(options),
      warnings_(warnings),
      made_by_(engine.now),
      worker_(std::make_shared<IdleWorker>()) {
  made_by_.compiler = compiler.version();
}

BestKey RangeEvaluator::key_at(std::int64_t size) const {
  return engine_.key_of(range_.at(size), threads_);
}

bool RangeEvaluator::cancelled() const {
  return engine_.background.closing() || (options_.cancelled && options_.cancelled());
}

void RangeEvaluator::note(const std::string& warning) {
  if (std::ranges::find(warnings_, warning) == warnings_.end()) warnings_.push_back(warning);
}

void RangeEvaluator::note(const Status& status) {
  if (!status) note(status.error().message);
}

void RangeEvaluator::compile_ahead(const std::vector<std::pair<std::int64_t, Config>>& wanted) {
  SearchInput share;
  engine_.tuning.share_code(share, compiler_);
  std::atomic<std::size_t> next{0};
  const auto compile_all = [&](const auto& stopped) {
    for (std::size_t i; (i = next.fetch_add(1)) < wanted.size() && !stopped();) {
      const BestKey key = key_at(wanted[i].first);
      const auto source = render(key.problem(), key.device, wanted[i].second);
      if (!source || share.stored(*source)) continue;
      if (const auto binary = compiler_.compile(*source)) share.compiled(*source, *binary);
    }
  };
  std::vector<std::jthread> helpers;
  for (int i = 1; i < usable_threads(); ++i)
    helpers.emplace_back(
        [&](const std::stop_token& stop) { compile_all([&] { return stop.stop_requested(); }); });
  compile_all([&] { return cancelled(); });  // the caller's callback, on the caller's thread
  if (!cancelled()) return;
  for (std::jthread& helper : helpers) helper.request_stop();
}

/// It is kept until another size has one: a device has one at a time.
Result<Evaluator*> RangeEvaluator::evaluator_at(std::int64_t size) {
  if (evaluator_ && bench_size_ == size) return evaluator_.get();
  evaluator_.reset();
  const BestKey key = key_at(size);
  SearchInput input{.gemm = key.gemm, .device = key.device, .options = options_};
  input.options.threads = key.device.compute_units;
  input.options.cancelled = [this] { return cancelled(); };
  input.device_index = engine_.gpu ? engine_.gpu->ordinal() : 0;
  input.worker = worker_;
  engine_.tuning.share_code(input, compiler_);
  auto evaluator = engine_.tuning.make_evaluator(input, compiler_);
  if (!evaluator) return tl::unexpected(evaluator.error());
  evaluator_ = std::move(*evaluator);
  bench_size_ = size;
  return evaluator_.get();
}

Result<std::vector<Measured>> RangeEvaluator::screen(std::int64_t size,
                                                     const std::vector<Config>& configs) {
  return evaluator_at(size).map(
      [&](Evaluator* evaluator) { return take(size, evaluator->screen(configs)); });
}

Result<std::vector<Measured>> RangeEvaluator::race(std::int64_t size,
                                                   const std::vector<Measured>& finalists) {
  return evaluator_at(size).map(
      [&](Evaluator* evaluator) { return take(size, evaluator->race(finalists)); });
}

/// Those that ran. All are stored as evidence, and of each that ran what it takes to serve by it is
/// kept.
std::vector<Measured> RangeEvaluator::take(std::int64_t size, std::vector<Measured> rows) {
  std::erase_if(rows, [](const Measured& row) { return is_library(row.config); });
  const BestKey key = key_at(size);
  for (Measured& row : rows) {
    row.predicted_ns = predict_ns(key.problem(), key.device, row.config);
    note(engine_.store->measurements().put(key, made_by_, row));
    if (!row.ok()) continue;
    if (const Artifact* made = evaluator_->artifact(row.config); made && made->binary)
      keep(size, row, *made);
  }
  std::erase_if(rows, [](const Measured& row) { return !row.ok(); });
  return rows;
}

void RangeEvaluator::keep(std::int64_t size, const Measured& row, const Artifact& made) {
  const auto [code, fresh] = code_.try_emplace(code_key(made.source));
  if (fresh)
    code->second = {.key = row.binary_key,
                    .code_key = code->first,
                    .compiler = compiler_.version(),
                    .source = made.source.text,
                    .image = made.binary->image};
  if (row.verified) timed_[row.config].push_back({size, row, code->first});
}

bool RangeEvaluator::store(const Timed& timed) {
  const BestKey key = key_at(timed.size);
  const StoredBinary& code = code_.at(timed.code);
  Measured stored = timed.row;
  stored.binary_key = code.key;
  const Record made{.key = key, .validators = made_by_, .measured = stored};
  if (!engine_.store->proofs().code_proven(made))
    if (const Status proof = engine_.admission.prove_envelope(made, code.image); !proof) {
      note(proof);
      return false;
    }
  for (const Status& written : {engine_.store->binaries().put(code),
                                engine_.store->measurements().put(key, made_by_, stored)})
    if (!written) {
      note(written);
      return false;
    }
  return true;
}

}  // namespace kiln
