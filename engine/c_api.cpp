// The C face: calls to the Engine, errors to codes and a message. No exception crosses it.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "engine/c_values.h"
#include "kiln/host.hpp"
#include "kiln/quantise.hpp"
#include "runtime/log.h"
#include "runtime/no_cancel.h"

struct kiln_engine {
  kiln::Engine engine;
};
struct kiln_plan {
  kiln::Plan plan;
};
struct kiln_call_log {
  kiln::CallLog log;
};
struct kiln_range_plan {
  kiln::RangePlan plan;
};

namespace kiln {
namespace {

thread_local std::string last_error;

constexpr kiln_status status_of(ErrorCode code) {
  return static_cast<kiln_status>(static_cast<int>(code) + 1);
}
static_assert(status_of(ErrorCode::bad_input) == KILN_BAD_INPUT);
static_assert(status_of(ErrorCode::unsupported) == KILN_UNSUPPORTED);
static_assert(status_of(ErrorCode::device) == KILN_DEVICE);
static_assert(status_of(ErrorCode::compiler) == KILN_COMPILER);
static_assert(status_of(ErrorCode::database) == KILN_DATABASE);
static_assert(status_of(ErrorCode::not_tuned) == KILN_NOT_TUNED);
static_assert(status_of(ErrorCode::verification) == KILN_VERIFICATION);
static_assert(status_of(ErrorCode::internal) == KILN_INTERNAL);

kiln_status refuse(const Error& error) {
  const bool names_fields =
      error.code == ErrorCode::bad_input || error.code == ErrorCode::unsupported;
  last_error = names_fields ? in_words_of_c(error.message) : error.message;
  return status_of(error.code);
}

kiln_status unexpected(const char* what) noexcept {
  try {
    last_error = std::string("unexpected exception: ") + what;
  } catch (...) {
    last_error.clear();  // no memory even for the message
  }
  return KILN_INTERNAL;
}

/// Runs `body`, which returns a Status; keeps the message and every exception on this side.
template <typename F>
kiln_status run(F&& body) noexcept {
  try {
    const Status status = body();
    return status ? KILN_OK : refuse(status.error());
  } catch (const std::exception& e) {
    return unexpected(e.what());
  } catch (...) {
    return unexpected("of no standard type");
  }
}

/// Moves a result into a new C object behind `out`.
template <typename Box, typename T>
Status hand_over(Result<T> result, Box** out) {
  if (!result) return tl::unexpected(result.error());
  *out = new Box{std::move(*result)};
  return {};
}

/// `problem()`: a Gemm or a range. Warnings that the report does not hold are logged.
template <typename Asked>
kiln_status tune_as(kiln_engine* engine, const kiln_tune_options* given, double default_seconds,
                    kiln_tune_report* report, Asked&& problem) {
  return run([&]() -> Status {
    if (engine == nullptr) return null_argument("engine");
    if (auto ok = check_report(report); !ok) return ok;
    const NoCancel whole;
    const auto options = options_of(given, default_seconds);
    if (!options) return tl::unexpected(options.error());
    const auto wanted = problem();
    if (!wanted) return tl::unexpected(wanted.error());
    const auto found = engine->engine.tune(*wanted, *options);
    if (!found) return tl::unexpected(found.error());
    if (!report_to(report, *found))
      for (const std::string& warning : found->warnings) log::warn("{}", warning);
    return {};
  });
}

using Describe = Result<std::string> (Engine::*)(const Gemm&, int);

kiln_status text_of(kiln_engine* engine, const kiln_gemm_desc* desc, int threads, char** text,
                    Describe describe) {
  return run([&]() -> Status {
    if (engine == nullptr) return null_argument("engine");
    if (text == nullptr) return null_argument("text");
    *text = nullptr;
    const auto gemm = gemm_of(desc);
    if (!gemm) return tl::unexpected(gemm.error());
    const auto found = (engine->engine.*describe)(*gemm, threads);
    if (!found) return tl::unexpected(found.error());
    *text = ::strdup(found->c_str());
    if (*text == nullptr) throw std::bad_alloc();
    return {};
  });
}

/// C's answer of a pool is an int.
struct CThreads {
  int (*run)(void*, int, void (*)(void*, int), void*);
  void* pool;
};

}  // namespace
}  // namespace kiln

extern "C" {

kiln_status kiln_open(const kiln_options* options, kiln_engine** engine) {
  return kiln::run([&]() -> kiln::Status {
    if (engine == nullptr) return kiln::null_argument("engine");
    *engine = nullptr;
    auto wanted = kiln::options_of(options);
    if (!wanted) return tl::unexpected(wanted.error());
    return kiln::hand_over(kiln::Engine::open(std::move(*wanted)), engine);
  });
}

void kiln_close(kiln_engine* engine) { delete engine; }

kiln_status kiln_tune(kiln_engine* engine, const kiln_gemm_desc* desc, double seconds, int threads,
                      kiln_tune_report* report) {
  kiln_tune_options options;
  kiln_tune_options_init(&options);
  options.seconds = seconds;
  options.threads = threads;
  return kiln_tune_with(engine, desc, &options, report);
}

kiln_status kiln_tune_with(kiln_engine* engine, const kiln_gemm_desc* desc,
                           const kiln_tune_options* options, kiln_tune_report* report) {
  constexpr double kSeconds = 10;
  return kiln::tune_as(engine, options, kSeconds, report, [&] { return kiln::gemm_of(desc); });
}

kiln_status kiln_tune_range(kiln_engine* engine, const kiln_gemm_desc* desc, kiln_size size,
                            int64_t first, int64_t last, double seconds, int threads,
                            kiln_tune_report* report) {
  kiln_tune_options options;
  kiln_tune_options_init(&options);
  options.seconds = seconds;
  options.threads = threads;
  return kiln_tune_range_with(engine, desc, size, first, last, &options, report);
}

kiln_status kiln_tune_range_with(kiln_engine* engine, const kiln_gemm_desc* desc, kiln_size size,
                                 int64_t first, int64_t last, const kiln_tune_options* options,
                                 kiln_tune_report* report) {
  constexpr double kMinute = 60;
  return kiln::tune_as(engine, options, kMinute, report,
                       [&] { return kiln::range_of(desc, size, first, last); });
}

void kiln_set_log(kiln_log_callback callback, void* user) {
  if (callback == nullptr) return kiln::set_log(nullptr);
  kiln::set_log([callback, user](kiln::LogLevel level, std::string_view message) {
    callback(user, static_cast<kiln_log_level>(level), std::string(message).c_str());
  });
}

kiln_status kiln_set_log_level(kiln_log_level level) {
  return kiln::run([&]() -> kiln::Status {
    const auto known = kiln::level_of(level);
    if (!known) return tl::unexpected(known.error());
    kiln::set_log_level(*known);
    return {};
  });
}

void kiln_lend_threads(int (*run)(void*, int, void (*)(void*, int), void*), void* pool) {
  if (run == nullptr) return kiln::lend_threads({});
  const auto lent = [](void* of, int count, void (*task)(void*, int), void* context) {
    const auto& threads = *static_cast<const kiln::CThreads*>(of);
    return threads.run(threads.pool, count, task, context) != 0;
  };
  // Kept, as all that was lent.
  kiln::lend_threads({.run = lent, .pool = new kiln::CThreads{run, pool}});
}

void kiln_lend_memory(void* (*allocate)(void*, size_t, size_t),
                      void (*release)(void*, void*, size_t), void* user) {
  kiln::lend_memory({allocate, release, user});
}

kiln_status kiln_range_plan_make(kiln_engine* engine, const kiln_gemm_desc* desc, kiln_size size,
                                 int64_t first, int64_t last, int threads, kiln_range_plan** plan) {
  return kiln::run([&]() -> kiln::Status {
    if (engine == nullptr) return kiln::null_argument("engine");
    if (plan == nullptr) return kiln::null_argument("plan");
    *plan = nullptr;
    const auto range = kiln::range_of(desc, size, first, last);
    if (!range) return tl::unexpected(range.error());
    return kiln::hand_over(engine->engine.plan(*range, threads), plan);
  });
}

kiln_status kiln_range_plan_run(const kiln_range_plan* plan, int64_t size,
                                const kiln_operands* operands) {
  return kiln::run([&]() -> kiln::Status {
    if (plan == nullptr) return kiln::null_argument("plan");
    const auto given = kiln::operands_of(operands);
    if (!given) return tl::unexpected(given.error());
    return plan->plan.run(size, *given);
  });
}

int64_t kiln_range_plan_workspace_bytes(const kiln_range_plan* plan) {
  return plan == nullptr ? 0 : plan->plan.workspace_bytes();
}

void kiln_range_plan_free(kiln_range_plan* plan) {
  const kiln::NoCancel whole;
  delete plan;
}

kiln_status kiln_gemm(kiln_engine* engine, const kiln_gemm_desc* desc,
                      const kiln_operands* operands) {
  return kiln::run([&]() -> kiln::Status {
    if (engine == nullptr) return kiln::null_argument("engine");
    const auto gemm = kiln::gemm_of(desc);
    if (!gemm) return tl::unexpected(gemm.error());
    const auto given = kiln::operands_of(operands);
    if (!given) return tl::unexpected(given.error());
    return engine->engine.gemm(*gemm, *given);
  });
}

kiln_status kiln_plan_make(kiln_engine* engine, const kiln_gemm_desc* desc, int threads,
                           kiln_plan** plan) {
  return kiln::run([&]() -> kiln::Status {
    if (engine == nullptr) return kiln::null_argument("engine");
    if (plan == nullptr) return kiln::null_argument("plan");
    *plan = nullptr;
    const auto gemm = kiln::gemm_of(desc);
    if (!gemm) return tl::unexpected(gemm.error());
    return kiln::hand_over(engine->engine.plan(*gemm, threads), plan);
  });
}

kiln_status kiln_plan_run(const kiln_plan* plan, const kiln_operands* operands) {
  return kiln::run([&]() -> kiln::Status {
    if (plan == nullptr) return kiln::null_argument("plan");
    const auto given = kiln::operands_of(operands);
    if (!given) return tl::unexpected(given.error());
    return plan->plan.run(*given);
  });
}

int64_t kiln_plan_workspace_bytes(const kiln_plan* plan) {
  return plan == nullptr ? 0 : plan->plan.workspace_bytes();
}

int kiln_plan_library_race(const kiln_plan* plan, double* kernel_ns, double* library_ns) {
  if (plan == nullptr) return 0;
  const auto race = plan->plan.library_race();
  if (!race) return 0;
  if (kernel_ns != nullptr) *kernel_ns = race->kernel_ns;
  if (library_ns != nullptr) *library_ns = race->library_ns;
  return 1;
}

void kiln_plan_free(kiln_plan* plan) {
  const kiln::NoCancel whole;
  delete plan;
}

kiln_status kiln_counted_calls(kiln_engine* engine, kiln_calls_callback tell, void* user) {
  return kiln::run([&]() -> kiln::Status {
    if (engine == nullptr) return kiln::null_argument("engine");
    if (tell == nullptr) return kiln::null_argument("tell");
    for (const kiln::CallCount& count : engine->engine.counted_calls())
      tell(user, kiln::text(count.gemm).c_str(), count.threads, count.calls, count.ns_per_call);
    return {};
  });
}

kiln_status kiln_call_log_make(kiln_engine* engine, const kiln_gemm_desc* desc, int threads,
                               kiln_call_log** log) {
  return kiln::run([&]() -> kiln::Status {
    if (engine == nullptr) return kiln::null_argument("engine");
    if (log == nullptr) return kiln::null_argument("log");
    *log = nullptr;
    const auto gemm = kiln::gemm_of(desc);
    if (!gemm) return tl::unexpected(gemm.error());
    auto made = engine->engine.call_log(*gemm, threads);
    if (!made) return tl::unexpected(made.error());
    if (*made) *log = new kiln_call_log{std::move(**made)};
    return {};
  });
}

int kiln_call_log_wants_time(const kiln_call_log* log) {
  return log != nullptr && log->log.wants_time() ? 1 : 0;
}

void kiln_call_log_add(const kiln_call_log* log, double ns) {
  if (log != nullptr) log->log.add(ns);
}

void kiln_call_log_free(kiln_call_log* log) { delete log; }

kiln_status kiln_pack_b(kiln_engine* engine, const kiln_gemm_desc* desc, const void* b, int threads,
                        kiln_packed_b** packed) {
  return kiln::run([&]() -> kiln::Status {
    if (engine == nullptr) return kiln::null_argument("engine");
    if (packed == nullptr) return kiln::null_argument("packed");
    *packed = nullptr;
    const auto gemm = kiln::gemm_of(desc);
    if (!gemm) return tl::unexpected(gemm.error());
    return kiln::hand_over(engine->engine.pack_b(*gemm, b, threads), packed);
  });
}

size_t kiln_packed_b_bytes(const kiln_packed_b* packed) {
  return packed == nullptr ? 0 : packed->packed.bytes();
}

void kiln_packed_b_free(kiln_packed_b* packed) {
  const kiln::NoCancel whole;
  delete packed;
}

kiln_status kiln_column_sums(const kiln_gemm_desc* desc, const void* b, int32_t* sums) {
  return kiln::run([&]() -> kiln::Status {
    if (sums == nullptr) return kiln::null_argument("sums");
    const auto gemm = kiln::gemm_of(desc);
    if (!gemm) return tl::unexpected(gemm.error());
    const auto made = kiln::column_sums(*gemm, b);
    if (!made) return tl::unexpected(made.error());
    std::ranges::copy(*made, sums);
    return {};
  });
}

kiln_status kiln_expression_parse(const char* text, int* expression) {
  return kiln::run([&]() -> kiln::Status {
    if (text == nullptr) return kiln::null_argument("text");
    if (expression == nullptr) return kiln::null_argument("expression");
    const auto parsed = kiln::Expression::parse(text);
    if (!parsed) return tl::unexpected(parsed.error());
    *expression = static_cast<int>(parsed->id());
    return {};
  });
}

const char* kiln_expression_text(int expression) {
  const auto found = kiln::Expression::of_id(expression);
  return found && !found->empty() ? found->text().data() : nullptr;  // of a std::string
}

kiln_status kiln_explain(kiln_engine* engine, const kiln_gemm_desc* desc, int threads,
                         char** text) {
  return kiln::text_of(engine, desc, threads, text, &kiln::Engine::explain);
}

kiln_status kiln_source(kiln_engine* engine, const kiln_gemm_desc* desc, int threads, char** text) {
  return kiln::text_of(engine, desc, threads, text, &kiln::Engine::source);
}

void kiln_string_free(char* text) { std::free(text); }

const char* kiln_last_error(void) { return kiln::last_error.c_str(); }

const char* kiln_status_name(kiln_status status) {
  if (status == KILN_OK) return "ok";
  if (status < KILN_OK || status > KILN_INTERNAL) return "unknown status";
  return kiln::name(static_cast<kiln::ErrorCode>(status - 1)).data();
}

const char* kiln_blas_library(void) { return kiln::blas_library().data(); }

const char* kiln_version(void) { return kiln::version().data(); }

}  // extern "C"
