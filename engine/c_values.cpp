#include "engine/c_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "cache/store.h"

namespace kiln {
namespace {

static_assert(static_cast<int>(DType::s32) == KILN_S32);
static_assert(static_cast<int>(DType::fp8_e5m2fnuz) == KILN_FP8_E5M2FNUZ);
static_assert(static_cast<int>(DType::fp4_e2m1) == KILN_FP4_E2M1);
static_assert(static_cast<int>(Order::column_major) == KILN_COLUMN_MAJOR);
static_assert(static_cast<int>(Scale::mx_32) == KILN_SCALE_MX_32);
static_assert(static_cast<int>(Activation::silu) == KILN_SILU);
static_assert(static_cast<int>(Bias::per_column) == KILN_BIAS_PER_COLUMN);
static_assert(static_cast<int>(Policy::error) == KILN_POLICY_ERROR);

/// No header of any version has a larger struct: more is memory that no init function has seen.
constexpr std::size_t kLargestSize = 1 << 16;

/// What is known of one struct: its name in messages, the bytes without which it says nothing, and
/// what the fields beyond a caller's size are taken to be.
template <typename T>
struct Shape {
  const char* name;
  std::size_t least;
  T defaults;
};

constexpr kiln_gemm_desc default_desc() {
  kiln_gemm_desc desc{};
  desc.batch = 1;
  desc.alignment = 1;
  return desc;
}

constexpr kiln_operands default_operands() {
  kiln_operands operands{};
  operands.alpha = 1.0;
  return operands;
}

constexpr Shape<kiln_gemm_desc> kDesc{"desc", offsetof(kiln_gemm_desc, residual), default_desc()};
constexpr Shape<kiln_operands> kOperandsShape{"operands", offsetof(kiln_operands, bias),
                                              default_operands()};
constexpr Shape<kiln_options> kOptions{"options", sizeof(std::size_t), {}};
constexpr Shape<kiln_tune_report> kReport{"report", sizeof(std::size_t), {}};

template <typename T>
Status check_size(const Shape<T>& shape, const T* given) {
  if (given == nullptr) return null_argument(shape.name);
  const std::size_t size = given->size;
  if (size < shape.least || size > kLargestSize || size % alignof(T) != 0)
    return fail(
        ErrorCode::bad_input,
        fmt::format("{0}->size = {1}: no size of this struct; was its init function called?",
                    shape.name, size));
  const auto* bytes = reinterpret_cast<const unsigned char*>(given);
  for (std::size_t i = sizeof(T); i < size; ++i)
    if (bytes[i] != 0)
      return fail(
          ErrorCode::bad_input,
          fmt::format("{}->size = {}: byte {} is {}: a field of a newer kiln than this one, "
                      "{}, which knows {} bytes",
                      shape.name, size, i, bytes[i], version(), sizeof(T)));
  return {};
}

/// `given` itself when it has this library's size; else `room`, filled from it. Errors: bad_input.
template <typename T>
Result<const T*> whole(const Shape<T>& shape, const T* given, T& room) {
  if (given != nullptr && given->size == sizeof(T)) [[likely]]
    return given;
  if (Status ok = check_size(shape, given); !ok) return tl::unexpected(ok.error());
  room = shape.defaults;
  std::memcpy(&room, given, std::min(given->size, sizeof(T)));
  return &room;
}

/// Writes `value` into a caller's struct of `size` bytes; bytes that this library does not know
/// become 0.
template <typename T>
void initialise(T* to, std::size_t size, T value) {
  if (to == nullptr || size < sizeof(std::size_t)) return;
  value.size = size;
  std::memcpy(to, &value, std::min(size, sizeof(T)));
  if (size > sizeof(T))
    std::memset(reinterpret_cast<unsigned char*>(to) + sizeof(T), 0, size - sizeof(T));
}

/// Reads enumerators, which a C caller may have set to any integer: loading such a one as an enum
/// would be undefined. Remembers the first that does not exist.
class Enumerators {
 public:
  /// `operand` is the letter of a matrix's field, 0 for a field of the problem.
  template <typename E, typename C>
  E read(const C& field, E last, const char* name, const char* what, char operand = 0) {
    static_assert(sizeof(C) == sizeof(int));
    int value = 0;
    std::memcpy(&value, &field, sizeof value);
    if (value >= 0 && value <= static_cast<int>(last)) [[likely]]
      return static_cast<E>(value);
    if (name_ == nullptr) {
      name_ = name;
      what_ = what;
      value_ = value;
      operand_ = operand;
    }
    return E{};
  }

  Status status() const {
    if (name_ == nullptr) [[likely]]
      return {};
    const std::string field = operand_ != 0 ? fmt::format("{}.{}", operand_, name_) : name_;
    return fail(ErrorCode::bad_input, fmt::format("{} = {}: no such {}", field, value_, what_));
  }

 private:
  const char* name_ = nullptr;
  const char* what_ = nullptr;
  int value_ = 0;
  char operand_ = 0;
};

Matrix matrix_of(const kiln_matrix& x, Enumerators& enums, char operand) {
  return {.dtype = enums.read(x.dtype, DType::fp4_e2m1, "dtype", "type", operand),
          .order = enums.read(x.order, Order::column_major, "order", "order", operand),
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

/// Copies as much of `text` as fits, whole UTF-8 characters only. False when it was cut.
template <std::size_t N>
bool copy_text(std::string_view text, char (&to)[N]) {
  std::size_t length = std::min(text.size(), N - 1);
  const bool cut = length < text.size();
  while (cut && length > 0 && (static_cast<unsigned char>(text[length]) & 0xC0) == 0x80) --length;
  std::memcpy(to, text.data(), length);
  to[length] = '\0';
  return !cut;
}

}  // namespace

Status null_argument(std::string_view name) {
  return fail(ErrorCode::bad_input, fmt::format("{} = null", name));
}

Result<Gemm> gemm_of(const kiln_gemm_desc* given) {
  kiln_gemm_desc room;
  const auto known = whole(kDesc, given, room);
  if (!known) return tl::unexpected(known.error());
  const kiln_gemm_desc& desc = **known;
  Enumerators enums;
  Gemm gemm{.m = desc.m,
            .n = desc.n,
            .k = desc.k,
            .batch = desc.batch,
            .a = matrix_of(desc.a, enums, 'a'),
            .b = matrix_of(desc.b, enums, 'b'),
            .c = matrix_of(desc.c, enums, 'c'),
            .d = matrix_of(desc.d, enums, 'd'),
            .accumulator = enums.read(desc.accumulator, DType::fp4_e2m1, "accumulator", "type"),
            .epilogue = {.bias = enums.read(desc.bias, Bias::per_column, "bias", "bias"),
                         .activation = enums.read(desc.activation, Activation::silu, "activation",
                                                  "activation"),
                         .residual = desc.residual != 0},
            .alignment = desc.alignment,
            .b_packed = desc.b_packed != 0,
            .scale_a = enums.read(desc.scale_a, Scale::mx_32, "scale_a", "kind of scales"),
            .scale_b = enums.read(desc.scale_b, Scale::mx_32, "scale_b", "kind of scales")};
  if (Status ok = enums.status(); !ok) return tl::unexpected(ok.error());
  return gemm;
}

Result<Operands> operands_of(const kiln_operands* given) {
  kiln_operands room;
  const auto known = whole(kOperandsShape, given, room);
  if (!known) return tl::unexpected(known.error());
  const kiln_operands& x = **known;
  return Operands{.a = x.a,
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
  kiln_options room;
  const auto known = whole(kOptions, given, room);
  if (!known) return tl::unexpected(known.error());
  const kiln_options& x = **known;
  Enumerators enums;
  options.policy = enums.read(x.policy, Policy::error, "options->policy", "policy");
  if (Status ok = enums.status(); !ok) return tl::unexpected(ok.error());
  if (x.device != nullptr) options.device = x.device;
  if (x.database != nullptr) options.database = x.database;
  options.shipped = split_paths(x.shipped != nullptr ? x.shipped : "");
  options.determinism = x.any_order != 0 ? Determinism::any : Determinism::run_to_run;
  options.threads = x.threads;
  options.allow_vendor = x.allow_vendor != 0;
  return options;
}

Status check_report(const kiln_tune_report* report) {
  return report == nullptr ? Status{} : check_size(kReport, report);
}

bool report_to(kiln_tune_report* to, const TuneReport& report) {
  if (to == nullptr) return false;
  kiln_tune_report full{};
  full.size = to->size;
  full.median_ns = report.timing.median_ns;
  full.low_ns = report.timing.low_ns;
  full.high_ns = report.timing.high_ns;
  full.measured = report.measured;
  full.failed = report.failed;
  full.already_tuned = report.already_tuned ? 1 : 0;
  full.seconds = report.seconds;
  copy_text(report.config, full.config);
  full.stored = report.stored ? 1 : 0;
  full.warning_count = static_cast<int>(report.warnings.size());
  std::string lines;
  for (const std::string& warning : report.warnings) lines += warning + '\n';
  if (!lines.empty()) lines.pop_back();
  const bool all = copy_text(lines, full.warnings) && full.size >= sizeof full;
  std::memcpy(to, &full, std::min(full.size, sizeof full));
  return all;
}

}  // namespace kiln

extern "C" {

void kiln_gemm_desc_init_sized(kiln_gemm_desc* desc, size_t size, int64_t m, int64_t n, int64_t k,
                               int dtype) {
  const bool known = dtype >= 0 && dtype <= KILN_FP4_E2M1;
  const auto g = kiln::Gemm::row_major(m, n, k, static_cast<kiln::DType>(known ? dtype : 0));
  kiln_gemm_desc full = kiln::kDesc.defaults;
  full.m = m;
  full.n = n;
  full.k = k;
  full.a = kiln::matrix_of(g.a);
  full.b = kiln::matrix_of(g.b);
  full.c = kiln::matrix_of(g.c);
  full.d = kiln::matrix_of(g.d);
  full.accumulator = static_cast<kiln_dtype>(g.accumulator);
  // Kept as it was given, so that the call that uses it can name it.
  if (!known) std::memcpy(&full.a.dtype, &dtype, sizeof dtype);
  kiln::initialise(desc, size, full);
}

void kiln_options_init_sized(kiln_options* options, size_t size) {
  kiln::initialise(options, size, kiln::kOptions.defaults);
}

void kiln_operands_init_sized(kiln_operands* operands, size_t size) {
  kiln::initialise(operands, size, kiln::kOperandsShape.defaults);
}

void kiln_tune_report_init_sized(kiln_tune_report* report, size_t size) {
  kiln::initialise(report, size, kiln::kReport.defaults);
}

}  // extern "C"
