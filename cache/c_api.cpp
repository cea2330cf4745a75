// The C face: descriptors to values, errors to codes and a message. No exception crosses it.
#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <new>

#include "cache/store.h"
#include "kiln/engine.hpp"
#include "kiln/kiln.h"

struct kiln_engine {
  kiln::Engine engine;
};
struct kiln_plan {
  kiln::Plan plan;
};
struct kiln_packed_b {
  kiln::PackedB packed;
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
static_assert(static_cast<int>(DType::s32) == KILN_S32);
static_assert(static_cast<int>(DType::fp8_e5m2fnuz) == KILN_FP8_E5M2FNUZ);
static_assert(static_cast<int>(DType::fp4_e2m1) == KILN_FP4_E2M1);
static_assert(static_cast<int>(Scale::mx_32) == KILN_SCALE_MX_32);
static_assert(static_cast<int>(Activation::silu) == KILN_SILU);
static_assert(static_cast<int>(Bias::per_column) == KILN_BIAS_PER_COLUMN);
static_assert(static_cast<int>(Policy::error) == KILN_POLICY_ERROR);

kiln_status refuse(const Error& error) {
  last_error = error.message;
  return status_of(error.code);
}

/// Runs `body`, which returns a Status; keeps the message and every exception on this side.
template <typename F>
kiln_status run(F&& body) noexcept {
  try {
    const Status status = body();
    return status ? KILN_OK : refuse(status.error());
  } catch (const std::exception& e) {
    try {
      last_error = std::string("unexpected exception: ") + e.what();
    } catch (...) {
      last_error.clear();  // no memory even for the message
    }
    return KILN_INTERNAL;
  }
}

Status null_argument(std::string_view name) {
  return fail(ErrorCode::bad_input, fmt::format("{} = null", name));
}

/// A struct from a caller built against this header (or a later one: what it adds is not read).
template <typename T>
Status check_size(const T* value, std::string_view name, std::string_view init) {
  if (value == nullptr) return null_argument(name);
  if (value->size >= sizeof(T)) return {};
  return fail(ErrorCode::bad_input,
              fmt::format("{}->size = {}: must be at least {}; was {} called?", name, value->size,
                          sizeof(T), init));
}

/// Out of range stays out of range, so that validate() names it. Read as bytes: a C caller may have
/// left anything there, and loading that as an enum would be undefined.
template <typename E, typename C>
E enum_of(const C& field) {
  static_assert(sizeof(C) == sizeof(int));
  int value = 0;
  std::memcpy(&value, &field, sizeof value);
  return static_cast<E>(value < 0 || value > 255 ? 255 : value);
}

Matrix matrix_of(const kiln_matrix& x) {
  return {.dtype = enum_of<DType>(x.dtype),
          .order = enum_of<Order>(x.order),
          .transposed = x.transposed != 0,
          .ld = x.ld,
          .batch_stride = x.batch_stride};
}

kiln_matrix matrix_of(const Matrix& x) {
  return {.dtype = static_cast<kiln_dtype>(x.dtype),
          .order = static_cast<kiln_order>(x.order),
          .transposed = x.transposed ? 1 : 0,
          .ld = x.ld,
          .batch_stride = x.batch_stride};
}

Result<Gemm> gemm_of(const kiln_gemm_desc* desc) {
  if (Status ok = check_size(desc, "desc", "kiln_gemm_desc_init()"); !ok)
    return tl::unexpected(ok.error());
  return Gemm{.m = desc->m,
              .n = desc->n,
              .k = desc->k,
              .batch = desc->batch,
              .a = matrix_of(desc->a),
              .b = matrix_of(desc->b),
              .c = matrix_of(desc->c),
              .d = matrix_of(desc->d),
              .accumulator = enum_of<DType>(desc->accumulator),
              .epilogue = {.bias = enum_of<Bias>(desc->bias),
                           .activation = enum_of<Activation>(desc->activation),
                           .residual = desc->residual != 0},
              .alignment = desc->alignment,
              .b_packed = desc->b_packed != 0,
              .scale_a = enum_of<Scale>(desc->scale_a),
              .scale_b = enum_of<Scale>(desc->scale_b)};
}

Operands operands_of(const kiln_operands& x) {
  return {.a = x.a,
          .b = x.b,
          .packed_b = x.packed_b != nullptr ? &x.packed_b->packed : nullptr,
          .c = x.c,
          .d = x.d,
          .bias = x.bias,
          .residual = x.residual,
          .alpha = x.alpha,
          .beta = x.beta,
          .threads = x.threads,
          .stream = x.stream,
          .workspace = x.workspace,
          .workspace_bytes = x.workspace_bytes,
          .scale_a = x.scale_a,
          .scale_b = x.scale_b};
}

Result<OpenOptions> options_of(const kiln_options* given) {
  OpenOptions options;
  if (given == nullptr) return options;
  if (Status ok = check_size(given, "options", "kiln_options_init()"); !ok)
    return tl::unexpected(ok.error());
  options.policy = enum_of<Policy>(given->policy);
  if (options.policy > Policy::error)
    return fail(ErrorCode::bad_input, fmt::format("options->policy = {}: no such policy",
                                                  static_cast<int>(options.policy)));
  if (given->device != nullptr) options.device = given->device;
  if (given->database != nullptr) options.database = given->database;
  options.shipped = split_paths(given->shipped != nullptr ? given->shipped : "");
  options.determinism = given->any_order != 0 ? Determinism::any : Determinism::run_to_run;
  options.threads = given->threads;
  options.allow_vendor = given->allow_vendor != 0;
  return options;
}

void fill(const TuneReport& report, kiln_tune_report& out) {
  out.median_ns = report.timing.median_ns;
  out.low_ns = report.timing.low_ns;
  out.high_ns = report.timing.high_ns;
  out.measured = report.measured;
  out.failed = report.failed;
  out.already_tuned = report.already_tuned ? 1 : 0;
  out.seconds = report.seconds;
  const std::size_t length = std::min(report.config.size(), sizeof out.config - 1);
  std::memcpy(out.config, report.config.data(), length);
  out.config[length] = '\0';
}

/// Moves a result into a new C object behind `out`.
template <typename Box, typename T>
Status hand_over(Result<T> result, Box** out) {
  if (!result) return tl::unexpected(result.error());
  *out = new Box{std::move(*result)};
  return {};
}

}  // namespace
}  // namespace kiln

extern "C" {

void kiln_gemm_desc_init(kiln_gemm_desc* desc, int64_t m, int64_t n, int64_t k, kiln_dtype dtype) {
  if (desc == nullptr) return;
  const auto g = kiln::Gemm::row_major(m, n, k, kiln::enum_of<kiln::DType>(dtype));
  *desc = {.size = sizeof *desc,
           .m = m,
           .n = n,
           .k = k,
           .batch = 1,
           .a = kiln::matrix_of(g.a),
           .b = kiln::matrix_of(g.b),
           .c = kiln::matrix_of(g.c),
           .d = kiln::matrix_of(g.d),
           .accumulator = static_cast<kiln_dtype>(g.accumulator),
           .bias = KILN_BIAS_NONE,
           .activation = KILN_ACTIVATION_NONE,
           .residual = 0,
           .alignment = 1,
           .b_packed = 0,
           .scale_a = KILN_SCALE_NONE,
           .scale_b = KILN_SCALE_NONE};
}

void kiln_options_init(kiln_options* options) {
  if (options == nullptr) return;
  *options = {};
  options->size = sizeof *options;
}

void kiln_operands_init(kiln_operands* operands) {
  if (operands == nullptr) return;
  *operands = {};
  operands->size = sizeof *operands;
  operands->alpha = 1.0;
}

void kiln_tune_report_init(kiln_tune_report* report) {
  if (report == nullptr) return;
  *report = {};
  report->size = sizeof *report;
}

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
  return kiln::run([&]() -> kiln::Status {
    if (engine == nullptr) return kiln::null_argument("engine");
    if (report != nullptr)
      if (auto ok = kiln::check_size(report, "report", "kiln_tune_report_init()"); !ok) return ok;
    const auto gemm = kiln::gemm_of(desc);
    if (!gemm) return tl::unexpected(gemm.error());
    kiln::TuneOptions options;
    if (seconds > 0) options.budget = std::chrono::duration<double>(seconds);
    options.threads = threads;
    const auto found = engine->engine.tune(*gemm, options);
    if (!found) return tl::unexpected(found.error());
    if (report != nullptr) kiln::fill(*found, *report);
    return {};
  });
}

kiln_status kiln_gemm(kiln_engine* engine, const kiln_gemm_desc* desc,
                      const kiln_operands* operands) {
  return kiln::run([&]() -> kiln::Status {
    if (engine == nullptr) return kiln::null_argument("engine");
    const auto gemm = kiln::gemm_of(desc);
    if (!gemm) return tl::unexpected(gemm.error());
    if (auto ok = kiln::check_size(operands, "operands", "kiln_operands_init()"); !ok) return ok;
    return engine->engine.gemm(*gemm, kiln::operands_of(*operands));
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
    if (auto ok = kiln::check_size(operands, "operands", "kiln_operands_init()"); !ok) return ok;
    return plan->plan.run(kiln::operands_of(*operands));
  });
}

int64_t kiln_plan_workspace_bytes(const kiln_plan* plan) {
  return plan == nullptr ? 0 : plan->plan.workspace_bytes();
}

void kiln_plan_free(kiln_plan* plan) { delete plan; }

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

void kiln_packed_b_free(kiln_packed_b* packed) { delete packed; }

kiln_status kiln_explain(kiln_engine* engine, const kiln_gemm_desc* desc, int threads,
                         char** text) {
  return kiln::run([&]() -> kiln::Status {
    if (engine == nullptr) return kiln::null_argument("engine");
    if (text == nullptr) return kiln::null_argument("text");
    *text = nullptr;
    const auto gemm = kiln::gemm_of(desc);
    if (!gemm) return tl::unexpected(gemm.error());
    const auto found = engine->engine.explain(*gemm, threads);
    if (!found) return tl::unexpected(found.error());
    *text = ::strdup(found->c_str());
    if (*text == nullptr) throw std::bad_alloc();
    return {};
  });
}

void kiln_string_free(char* text) { std::free(text); }

const char* kiln_last_error(void) { return kiln::last_error.c_str(); }

const char* kiln_status_name(kiln_status status) {
  if (status == KILN_OK) return "ok";
  if (status < KILN_OK || status > KILN_INTERNAL) return "unknown status";
  return kiln::name(static_cast<kiln::ErrorCode>(status - 1)).data();
}

const char* kiln_version(void) { return kiln::version().data(); }

}  // extern "C"
