#include "engine/c_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <tuple>
#include <type_traits>

#include "cache/store.h"
#include "generator/problem/fields.h"
#include "generator/problem/operands.h"
#include "generator/problem/size.h"

namespace kiln {
namespace {

static_assert(EnumNames<DType>::names.size() == KILN_U4 + 1);
static_assert(EnumNames<Order>::names.size() == KILN_COLUMN_MAJOR + 1);
static_assert(EnumNames<Scale>::names.size() == KILN_SCALE_LINE_64 + 1);
static_assert(EnumNames<ScaleOrder>::names.size() == KILN_SCALE_ORDER_BLOCKS_4 + 1);
static_assert(static_cast<int>(Zero::floating) == KILN_ZERO_FLOATING);
static_assert(EnumNames<Grouping>::names.size() == KILN_GROUPING_LIST + 1);
static_assert(EnumNames<GatherKind>::names.size() == KILN_GATHER_ROWS + 1);
static_assert(EnumNames<Scatter>::names.size() == KILN_SCATTER_WEIGHTED + 1);
static_assert(EnumNames<Numerics>::names.size() == KILN_NUMERICS_TENSOR + 1);
static_assert(EnumNames<Gate>::names.size() == KILN_GATE_EXPRESSION + 1);
static_assert(EnumNames<GateOrder>::names.size() == KILN_GATE_INTERLEAVED + 1);
static_assert(EnumNames<Activation>::names.size() == KILN_SILU + 1);
static_assert(static_cast<int>(Progress::Stage::done) == KILN_STAGE_DONE);
static_assert(static_cast<int>(LogLevel::debug) == KILN_LOG_DEBUG);
static_assert(EnumNames<Bias>::names.size() == KILN_BIAS_PER_COLUMN + 1);
static_assert(static_cast<int>(Size::k) == KILN_SIZE_K);
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

constexpr kiln_gemm_desc desc_of(const Gemm& gemm) {
  kiln_gemm_desc desc{};
  for (const GemmField& field : kGemmFields) field.set_c(desc, field.get(gemm));
  return desc;
}

constexpr kiln_operands default_operands() {
  kiln_operands operands{};
  operands.alpha = 1.0;
  return operands;
}

/// Whether a struct of `size` bytes ends with its last member. A member that a later version adds
/// must make the struct larger, which is how versions are told apart.
consteval bool ends(std::size_t size, std::size_t offset, std::size_t bytes) {
  return offset + bytes == size;
}
static_assert(ends(sizeof(kiln_gemm_desc), offsetof(kiln_gemm_desc, expression), sizeof(int)));
static_assert(ends(sizeof(kiln_operands), offsetof(kiln_operands, outputs),
                   sizeof(kiln_operands::outputs)));
static_assert(std::extent_v<decltype(kiln_operands::extra)> == kExtraOperands);
static_assert(std::extent_v<decltype(kiln_operands::outputs)> == kExpressionOutputs);
static_assert(ends(sizeof(kiln_options), offsetof(kiln_options, untuned_user), sizeof(void*)));
static_assert(ends(sizeof(kiln_tune_options), offsetof(kiln_tune_options, reserved), sizeof(int)));
static_assert(ends(sizeof(kiln_tune_report), offsetof(kiln_tune_report, reserved), sizeof(int)));

constexpr Shape<kiln_gemm_desc> kDesc{"desc", offsetof(kiln_gemm_desc, residual), desc_of({})};
constexpr Shape<kiln_operands> kOperandsShape{"operands", offsetof(kiln_operands, bias),
                                              default_operands()};
constexpr Shape<kiln_options> kOptions{"options", sizeof(std::size_t), {}};
constexpr Shape<kiln_tune_report> kReport{"report", sizeof(std::size_t), {}};
constexpr Shape<kiln_tune_options> kTuneOptions{"options", sizeof(std::size_t), {.seed = 1}};

/// GemmField by field at the same places, so that a list is handed on as it is.
const ListEntry* entries_of(const kiln_list_entry* list) {
  using C = kiln_list_entry;
  static_assert(sizeof(C) == sizeof(ListEntry) && alignof(C) == alignof(ListEntry));
  static_assert(
      offsetof(C, m) == offsetof(ListEntry, m) && offsetof(C, n) == offsetof(ListEntry, n) &&
      offsetof(C, k) == offsetof(ListEntry, k) && offsetof(C, lda) == offsetof(ListEntry, lda) &&
      offsetof(C, ldb) == offsetof(ListEntry, ldb) &&
      offsetof(C, ldc) == offsetof(ListEntry, ldc) &&
      offsetof(C, ldd) == offsetof(ListEntry, ldd) && offsetof(C, a) == offsetof(ListEntry, a) &&
      offsetof(C, b) == offsetof(ListEntry, b) && offsetof(C, c) == offsetof(ListEntry, c) &&
      offsetof(C, d) == offsetof(ListEntry, d) && offsetof(C, bias) == offsetof(ListEntry, bias) &&
      offsetof(C, residual) == offsetof(ListEntry, residual) &&
      offsetof(C, scale_a) == offsetof(ListEntry, scale_a) &&
      offsetof(C, scale_b) == offsetof(ListEntry, scale_b) &&
      offsetof(C, scale_d) == offsetof(ListEntry, scale_d));
  return reinterpret_cast<const ListEntry*>(list);
}

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
  template <typename E, typename C>
  E read(const C& field, E last, std::string_view name, const char* what) {
    static_assert(sizeof(C) == sizeof(int));
    int value = 0;
    std::memcpy(&value, &field, sizeof value);
    if (value >= 0 && value <= static_cast<int>(last)) [[likely]]
      return static_cast<E>(value);
    if (what_ == nullptr) {
      name_ = name;
      what_ = what;
      value_ = value;
    }
    return E{};
  }

  Status status() const {
    if (what_ == nullptr) [[likely]]
      return {};
    return fail(ErrorCode::bad_input, fmt::format("{} = {}: no such {}", name_, value_, what_));
  }

 private:
  std::string_view name_;
  const char* what_ = nullptr;
  int value_ = 0;
};

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

/// Fields as errors of the engine call them, which are the words of C++ and of problems as text,
/// and as kiln.h calls them.
constexpr std::pair<std::string_view, std::string_view> kWordsOfC[] = {
    {"lda", "a.ld"},
    {"ldb", "b.ld"},
    {"ldc", "c.ld"},
    {"ldd", "d.ld"},
    {"stride_a", "a.batch_stride"},
    {"stride_b", "b.batch_stride"},
    {"stride_c", "c.batch_stride"},
    {"stride_d", "d.batch_stride"},
    {"budget", "seconds"},
};

/// The name of a field of C++'s Epilogue in kiln_gemm_desc; another word as it is.
std::string_view without_epilogue(std::string_view word) {
  for (const GemmField& field : kGemmFields)
    if (field.path == word && word.starts_with("epilogue.")) return field.name;
  return word;
}

constexpr bool is_of_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/// The length of the word at the start of `text`, "epilogue.gate" or "list[0].lda".
std::size_t word_length(std::string_view text) {
  std::size_t end = 0;
  while (end < text.size() &&
         (is_of_word(text[end]) ||
          (text[end] == '.' && end + 1 < text.size() && is_of_word(text[end + 1]))))
    ++end;
  return end;
}

}  // namespace

std::string in_words_of_c(std::string_view message) {
  std::string out;
  char before = ' ';  // the character before the word
  while (!message.empty()) {
    const std::size_t length = word_length(message);
    const std::string_view word = message.substr(0, std::max<std::size_t>(length, 1));
    const char behind = word.size() < message.size() ? message[word.size()] : ' ';
    const auto* const known =
        std::ranges::find(kWordsOfC, word, [](const auto& row) { return row.first; });
    // "list[0].lda" is a field of kiln_list_entry, "lda=64" a problem as text.
    const bool field = before != '.' && before != ']' && behind != '=';
    out += !field ? word : known != std::end(kWordsOfC) ? known->second : without_epilogue(word);
    before = word.back();
    message.remove_prefix(word.size());
  }
  return out;
}

Status null_argument(std::string_view name) {
  return fail(ErrorCode::bad_input, fmt::format("{} = null", name));
}

Result<Gemm> gemm_of(const kiln_gemm_desc* given) {
  kiln_gemm_desc room;
  const auto known = whole(kDesc, given, room);
  if (!known) return tl::unexpected(known.error());
  const kiln_gemm_desc& desc = **known;
  Gemm gemm;
  bool said = true;
  for_each_gemm_field([&](auto at) {
    const std::int64_t value = kGemmFields[at].get_c(desc);
    if constexpr (!kGemmFields[at].names.empty())
      said = said && static_cast<std::uint64_t>(value) < kGemmFields[at].names.size() &&
             kGemmFields[at].set(gemm, value);
    else
      said = said && kGemmFields[at].set(gemm, value);
  });
  if (said) [[likely]] {
    const Expression& epilogue = gemm.epilogue.expression;
    if (epilogue.of_gate() && !gemm.epilogue.gate) return gemm.with_expression(epilogue);
    return gemm;
  }
  FieldValues values;
  for (std::size_t i = 0; i < kGemmFieldCount; ++i) values[i] = kGemmFields[i].get_c(desc);
  return gemm_of(values);
}

Result<GemmRange> range_of(const kiln_gemm_desc* given, int size, std::int64_t first,
                           std::int64_t last) {
  const auto gemm = gemm_of(given);
  if (!gemm) return tl::unexpected(gemm.error());
  Enumerators enums;
  GemmRange range{.gemm = *gemm, .size = enums.read(size, Size::k, "size", "size"), .first = first};
  if (Status ok = enums.status(); !ok) return tl::unexpected(ok.error());
  range.gemm.*member_of(range.size) = last;
  return range;
}

Result<Operands> operands_of(const kiln_operands* given) {
  kiln_operands room;
  const auto known = whole(kOperandsShape, given, room);
  if (!known) return tl::unexpected(known.error());
  const kiln_operands& x = **known;
  Operands operands{.packed_b = x.packed_b != nullptr ? &x.packed_b->packed : nullptr,
                    .threads = x.threads,
                    .stream = x.stream,
                    .workspace = x.workspace,
                    .workspace_bytes = x.workspace_bytes,
                    .list = entries_of(x.list)};
  bind_operands(operands, x, false);
  return operands;
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
  if (x.any_order != 0 && x.batch_invariant != 0)
    return fail(ErrorCode::bad_input,
                fmt::format("options->batch_invariant = {}: must be 0 with any_order = {}",
                            x.batch_invariant, x.any_order));
  options.determinism = x.batch_invariant != 0 ? Determinism::batch_invariant
                        : x.any_order != 0     ? Determinism::any
                                               : Determinism::run_to_run;
  options.threads = x.threads;
  options.allow_vendor = x.allow_vendor != 0;
  if (x.record != nullptr) options.record = x.record;
  if (x.on_untuned != nullptr)
    options.on_untuned = [call = x.on_untuned, user = x.untuned_user](const std::string& problem) {
      call(user, problem.c_str());
    };
  return options;
}

Result<TuneOptions> options_of(const kiln_tune_options* given, double default_seconds) {
  TuneOptions options{.budget = std::chrono::duration<double>(default_seconds)};
  if (given == nullptr) return options;
  kiln_tune_options room;
  const auto known = whole(kTuneOptions, given, room);
  if (!known) return tl::unexpected(known.error());
  const kiln_tune_options& x = **known;
  if (!(x.seconds <= 0)) options.budget = std::chrono::duration<double>(x.seconds);
  options.seed = x.seed;
  options.threads = x.threads;
  options.force = x.force != 0;
  options.race = x.race != 0;
  options.candidates = x.candidates;
  Enumerators enums;
  options.policy =
      enums.read(x.policy, TuningPolicy::automatic, "options->policy", "tuning policy");
  if (Status ok = enums.status(); !ok) return tl::unexpected(ok.error());
  if (x.progress != nullptr)
    options.progress = [call = x.progress, user = x.user](const Progress& state) {
      const kiln_progress told{.stage = static_cast<kiln_stage>(state.stage),
                               .done = state.done,
                               .total = state.total,
                               .seconds = state.seconds,
                               .best_ns = state.best_ns,
                               .best_config = state.best_config.c_str()};
      call(user, &told);
    };
  if (x.cancelled != nullptr)
    options.cancelled = [call = x.cancelled, user = x.user] { return call(user) != 0; };
  return options;
}

Result<LogLevel> level_of(const kiln_log_level& level) {
  Enumerators enums;
  const LogLevel known = enums.read(level, LogLevel::debug, "level", "level of messages");
  if (Status ok = enums.status(); !ok) return tl::unexpected(ok.error());
  return known;
}

Status check_report(const kiln_tune_report* report) {
  return report == nullptr ? Status{} : check_size(kReport, report);
}

bool report_to(kiln_tune_report* to, const RangeReport& report) {
  TuneReport all;
  all.timing.median_ns = all.timing.low_ns = all.timing.high_ns =
      report.parts.empty() ? 0 : report.parts.back().expected_ns;
  all.measured = report.measured;
  all.already_tuned = report.already_tuned;
  all.seconds = report.seconds;
  all.config = fmt::format("{} kernels", report.kernels);
  all.stored = report.stored;
  all.warnings = report.warnings;
  return report_to(to, all);
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
  full.joules = report.timing.joules;
  full.sm_mhz = report.timing.sm_mhz;
  constexpr std::size_t kWarningsEnd =
      offsetof(kiln_tune_report, warnings) + sizeof(kiln_tune_report::warnings);
  const bool all = copy_text(lines, full.warnings) && full.size >= kWarningsEnd;
  std::memcpy(to, &full, std::min(full.size, sizeof full));
  return all;
}

}  // namespace kiln

extern "C" {

void kiln_gemm_desc_init_sized(kiln_gemm_desc* desc, size_t size, int64_t m, int64_t n, int64_t k,
                               int dtype) {
  const bool known = dtype >= 0 && dtype <= KILN_U4;
  const auto g = kiln::Gemm::row_major(m, n, k, static_cast<kiln::DType>(known ? dtype : 0));
  kiln_gemm_desc full = kiln::desc_of(g);
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

void kiln_tune_options_init_sized(kiln_tune_options* options, size_t size) {
  kiln::initialise(options, size, kiln::kTuneOptions.defaults);
}

}  // extern "C"
