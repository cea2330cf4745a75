// The one-line text form of a problem: `dtype ta tb m n k [key=value …]`. Most keys are rows of
// kGemmFields; those of several fields, and those that read otherwise, have rows here.
#include "generator/problem/gemm_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "generator/problem/bad_input.h"
#include "generator/problem/did_you_mean.h"
#include "generator/problem/fields.h"
#include "generator/problem/gemm_types.h"
#include "generator/problem/problem.h"
#include "kiln/gemm.hpp"

namespace kiln {
namespace {

constexpr std::size_t kBatch = field_index("batch"), kAlignment = field_index("alignment"),
                      kGrouping = field_index("grouping"), kGate = field_index("gate"),
                      kGateOrder = field_index("gate_order"), kScaleA = field_index("scale_a"),
                      kScaleB = field_index("scale_b");
constexpr std::array kOrders{field_index("a_order"), field_index("b_order"), field_index("c_order"),
                             field_index("d_order")};

/// The value of a field that is a value of an enum.
template <typename E>
E as(const FieldValues& values, std::size_t at) {
  return static_cast<E>(values[at]);
}

/// `word` is none of `known`.
template <typename Words>
std::string refusal(std::string_view word, const Words& known) {
  return fmt::format("\"{}\" is none of {}{}", word, fmt::join(known, ", "),
                     did_you_mean(word, known));
}

Status read_number(std::string_view field, std::string_view text, std::int64_t& value) {
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code == std::errc::result_out_of_range)
    return bad_input("{} = \"{}\": does not fit 64 bits", field, text);
  if (code != std::errc{} || end != text.data() + text.size())
    return bad_input("{} = \"{}\": not a whole number", field, text);
  return {};
}

Status read_transpose(std::string_view field, std::string_view text, bool& transposed) {
  if (text != "N" && text != "T" && text != "n" && text != "t")
    return bad_input("{} = \"{}\": must be N or T", field, text);
  transposed = text == "T" || text == "t";
  return {};
}

Status read_dtype(std::string_view field, std::string_view text, std::int64_t& value) {
  const std::optional<DType> type = dtype_called(lower_case(text));
  if (!type) {
    std::vector<std::string_view> known;
    for (const DTypeInfo& row : kDTypes) known.push_back(row.name);
    return bad_input("{} = \"{}\": no such type{}", field, text, did_you_mean(text, known));
  }
  value = static_cast<std::int64_t>(*type);
  return {};
}

/// The value of `field` that the text says behind its key.
Status read_field(const GemmField& field, std::string_view text, std::int64_t& value) {
  if (field.flag) {
    if (text != "0" && text != "1")
      return bad_input("{} = \"{}\": must be 0 or 1", field.key, text);
    value = text == "1" ? 1 : 0;
    return {};
  }
  if (field.names.empty()) return read_number(field.key, text, value);
  if (field.help.empty()) return read_dtype(field.key, text, value);
  const std::vector<std::string_view> taken = split_words(field.help, "|");
  const auto found = std::ranges::find(field.words, text);
  if (found == field.words.end() || std::ranges::find(taken, text) == taken.end())
    return bad_input("{} = \"{}\": must be {}", field.key, text, choices(field.help));
  value = found - field.words.begin();
  return {};
}

/// A key that is not one field's alone.
struct KeyRow {
  std::string_view key;
  std::string_view help;
  std::string (*write)(const Gemm&);  ///< empty: the text does not need it
  Status (*read)(std::string_view, FieldValues&);
};

// order=

std::string order_word(const Gemm& g) {
  std::string word;
  for (const std::size_t at : kOrders)
    word += kGemmFields[at].get(g) == static_cast<std::int64_t>(Order::row_major) ? 'r' : 'c';
  if (word == "rrrr") return "";
  if (word == "cccc") return "column";
  return word;
}

Status read_order(std::string_view text, FieldValues& to) {
  std::string_view letters = text;
  if (text == "row") letters = "rrrr";
  if (text == "column") letters = "cccc";
  if (letters.size() != 4 || letters.find_first_not_of("rc") != letters.npos)
    return bad_input("order = \"{}\": must be row, column or four letters r or c, as in rcrr",
                     text);
  for (std::size_t i = 0; i < kOrders.size(); ++i) to[kOrders[i]] = letters[i] == 'r' ? 0 : 1;
  return {};
}

// out=

std::string output_word(const Gemm& g) {
  const TypeRow* types = type_row(g.a.dtype, g.b.dtype);
  return std::string(!types || g.d.dtype != types->usual_output() ? name(g.d.dtype) : "");
}

Status read_output(std::string_view text, FieldValues& to) {
  std::int64_t& type = to[field_index("d_dtype")];
  Status status = read_dtype("out", text, type);
  to[field_index("c_dtype")] = type;
  return status;
}

// acc=, whose default is that of the operands' types

std::string accumulator_word(const Gemm& g) {
  const TypeRow* types = type_row(g.a.dtype, g.b.dtype);
  return std::string(!types || g.accumulator != types->accumulator ? name(g.accumulator) : "");
}

Status read_accumulator(std::string_view text, FieldValues& to) {
  return read_dtype("acc", text, to[field_index("accumulator")]);
}

// epilogue=

constexpr std::string_view kSteps[] = {"bias_row", "bias_col", "bias_row_d", "bias_col_d", "relu",
                                       "gelu",     "gelu_erf", "silu",       "residual"};

std::string epilogue_word(const Gemm& g) {
  const Epilogue& e = g.epilogue;
  std::string word(e.expression.text());
  const auto add = [&word](std::string_view step) {
    if (!word.empty()) word += '+';
    word += step;
  };
  if (e.bias != Bias::none) add(fmt::format("{}{}", name(e.bias), e.bias_as_d ? "_d" : ""));
  if (e.activation != Activation::none) add(name(e.activation));
  if (e.residual) add("residual");
  return word;
}

Status read_step(std::string_view step, std::string_view whole, FieldValues& to) {
  const auto put = [&](std::size_t at, std::int64_t value, std::string_view kind) -> Status {
    if (to[at] != 0) return bad_input("epilogue = \"{}\": names more than one {}", whole, kind);
    to[at] = value;
    return {};
  };
  const auto found = std::ranges::find(kSteps, step);
  if (found == std::end(kSteps))
    return bad_input("epilogue = \"{}\": {}", whole, refusal(step, kSteps));
  if (step == "residual") return put(field_index("residual"), 1, step);
  if (step.starts_with("bias_")) {
    const bool as_d = step.ends_with("_d");
    if (as_d) step.remove_suffix(2);
    const auto& words = words_of<Bias>();
    const auto at = std::ranges::find(words, step) - words.begin();
    if (Status status = put(field_index("bias"), at, "bias"); !status) return status;
    to[field_index("bias_as_d")] = as_d ? 1 : 0;
    return {};
  }
  const auto& words = words_of<Activation>();
  return put(field_index("activation"), std::ranges::find(words, step) - words.begin(),
             "activation");
}

Status read_epilogue(std::string_view text, FieldValues& to) {
  if (text.find('=') != text.npos) {
    const Result<Expression> expression = Expression::parse(text);
    if (!expression) return tl::unexpected(expression.error());
    to[field_index("expression")] = expression->id();
    return {};
  }
  const std::vector<std::string_view> steps = split_words(text, "+");
  if (steps.empty()) return bad_input("epilogue = \"{}\": names no step", text);
  for (std::string_view step : steps)
    if (Status status = read_step(step, text, to); !status) return status;
  return {};
}

// gate=

constexpr std::string_view kInterleaved = ":interleaved";

std::string gate_word(const Gemm& g) {
  if (!g.epilogue.gate) return "";
  const bool stacked = g.epilogue.gate->order == GateOrder::stacked;
  const bool said =
      g.epilogue.gate->function == Gate::expression && g.epilogue.expression.of_gate();
  if (said && stacked) return "";
  return fmt::format("{}{}", name(g.epilogue.gate->function), stacked ? "" : kInterleaved);
}

Status read_gate(std::string_view text, FieldValues& to) {
  std::string_view word = text;
  if (word.ends_with(kInterleaved)) {
    word.remove_suffix(kInterleaved.size());
    to[kGateOrder] = static_cast<std::int64_t>(GateOrder::interleaved);
  }
  const auto gates = std::span(words_of<Gate>()).subspan(1);
  const auto found = std::ranges::find(gates, word);
  if (found == gates.end()) return bad_input("gate = \"{}\": {}", text, refusal(word, gates));
  to[kGate] = found - gates.begin() + 1;
  return {};
}

// scale=, scale_order=: of both operands, or A's:B's

template <typename E>
std::string pair_word(E of_a, E of_b) {
  if (of_a == E{} && of_b == E{}) return "";
  return of_a == of_b ? std::string(name(of_a)) : fmt::format("{}:{}", name(of_a), name(of_b));
}

Status read_pair(std::string_view key, std::string_view text,
                 std::span<const std::string_view> words, std::int64_t& of_a, std::int64_t& of_b) {
  const std::size_t colon = text.find(':');
  const std::string_view both[] = {text.substr(0, colon),
                                   colon == text.npos ? text : text.substr(colon + 1)};
  std::int64_t* const to[] = {&of_a, &of_b};
  for (std::size_t i = 0; i < 2; ++i) {
    const auto found = std::ranges::find(words, both[i]);
    if (found == words.end())
      return bad_input("{} = \"{}\": {}", key, text, refusal(both[i], words));
    *to[i] = found - words.begin();
  }
  return {};
}

/// Groups of weights that share a scale: so many along k, the whole column, a square, or 32 that
/// share an e8m0.
struct GroupWord {
  std::string_view word;
  Scale scale;
};
constexpr GroupWord kGroups[] = {{"32", Scale::line_32},         {"64", Scale::line_64},
                                 {"128", Scale::line_128},       {"k", Scale::line},
                                 {"128x128", Scale::square_128}, {"mx32", Scale::mx_32}};

/// The word of weights' scales, or nothing where they are not groups along k.
std::string group_word(const Gemm& g) {
  if (g.a.q.scale != Scale::none || !are_weights(g.a.dtype, g.b.dtype)) return {};
  for (const GroupWord& row : kGroups)
    if (row.scale == g.b.q.scale) return std::string(row.word);
  return {};
}

Status read_group(std::string_view word, FieldValues& to) {
  if (to[kScaleA] != 0 || to[kScaleB] != 0)
    return bad_input("group = {}: scale names the scales", word);
  for (const GroupWord& row : kGroups) {
    if (row.word != word) continue;
    to[kScaleB] = static_cast<std::int64_t>(row.scale);
    return {};
  }
  return bad_input("group = \"{}\": must be 32, 64, 128, k, 128x128 or mx32", word);
}

std::string scale_word(const Gemm& g) {
  return group_word(g).empty() ? pair_word(g.a.q.scale, g.b.q.scale) : "";
}

Status read_scales(std::string_view text, FieldValues& to) {
  if (to[kScaleB] != 0) return bad_input("scale = {}: group names the scales", text);
  // Those of shorter groups are of weights.
  const auto words = std::span(words_of<Scale>()).first(static_cast<std::size_t>(Scale::line_32));
  return read_pair("scale", text, words, to[kScaleA], to[kScaleB]);
}

std::string scale_order_word(const Gemm& g) { return pair_word(g.a.q.order, g.b.q.order); }

Status read_scale_orders(std::string_view text, FieldValues& to) {
  return read_pair("scale_order", text, words_of<ScaleOrder>(), to[field_index("scale_order_a")],
                   to[field_index("scale_order_b")]);
}

// groups= in the place of batch=

std::string groups_word(const Gemm& g) {
  return g.grouping() != Grouping::none ? std::to_string(g.batch) : "";
}

std::string batch_word(const Gemm& g) {
  return g.grouping() == Grouping::none && g.batch != 1 ? std::to_string(g.batch) : "";
}

template <std::size_t kAt>
Status read_one(std::string_view text, FieldValues& to) {
  return read_number(kGemmFields[kAt].key, text, to[kAt]);
}

Status read_groups(std::string_view text, FieldValues& to) {
  return read_number("groups", text, to[kBatch]);
}

// align=

std::string alignment_word(const Gemm& g) {
  return g.alignment != 1 ? std::to_string(g.alignment) : "";
}

Status read_alignment(std::string_view text, FieldValues& to) {
  if (Status status = read_number("align", text, to[kAlignment]); !status) return status;
  if (to[kAlignment] < 1 || to[kAlignment] > 4096)
    return bad_input("align = {}: must be a power of two, 1 to 4096", to[kAlignment]);
  return {};
}

constexpr KeyRow kKeyRows[] = {
    {"groups", "N", groups_word, read_groups},
    {"batch", "N", batch_word, read_one<kBatch>},
    {"order", "row|column|rcrr", order_word, read_order},
    {"out", "dtype", output_word, read_output},
    {"acc", "dtype", accumulator_word, read_accumulator},
    {"epilogue", "bias_col+gelu+residual|EXPRESSION", epilogue_word, read_epilogue},
    {"align", "bytes", alignment_word, read_alignment},
    {"group", "32|64|128|k|128x128|mx32", group_word, read_group},
    {"scale", "line|1x128|128x128|mx32|tensor", scale_word, read_scales},
    {"gate", "relu|gelu|gelu_erf|silu|sigmoid|expression", gate_word, read_gate},
    {"scale_order", "lines|blocks|blocks_4", scale_order_word, read_scale_orders},
};

/// The order of keys in a text. Those of fields that are not named here stand behind them.
constexpr std::string_view kOrderOfKeys[] = {
    "groups",   "grouped",    "batch",    "lda",        "ldb",           "ldc",       "ldd",
    "stride_a", "stride_b",   "stride_c", "stride_d",   "expected_rows", "rows_of_a", "rows_of_d",
    "order",    "out",        "acc",      "epilogue",   "align",         "packed_b",  "group",
    "scale",    "scale_type", "zero",     "numerics",   "gate",          "scale_d",   "zero_a",
    "gather",   "scatter",    "amax",     "scale_order"};

const KeyRow* key_row(std::string_view key) {
  const auto* const found = std::ranges::find(kKeyRows, key, &KeyRow::key);
  return found != std::end(kKeyRows) ? found : nullptr;
}

const GemmField* field_of_key(std::string_view key) {
  const auto* const found = std::ranges::find(kGemmFields, key, &GemmField::key);
  return found != kGemmFields.end() ? found : nullptr;
}

/// All keys, in the order of a text.
const std::vector<std::string_view>& all_keys() {
  static const auto* const keys = [] {
    auto* const all =
        new std::vector<std::string_view>(std::begin(kOrderOfKeys), std::end(kOrderOfKeys));
    for (const GemmField& field : kGemmFields)
      if (!field.key.empty() && std::ranges::find(*all, field.key) == all->end())
        all->push_back(field.key);
    return all;
  }();
  return *keys;
}

/// What the text has behind the key; nothing where it does not need the key.
std::string written(std::string_view key, const Gemm& gemm) {
  if (const KeyRow* row = key_row(key)) return row->write(gemm);
  const GemmField& field = *field_of_key(key);
  const std::int64_t value = field.get(gemm);
  if (value == default_values()[static_cast<std::size_t>(&field - kGemmFields.data())]) return "";
  return std::string(field.words.empty() ? std::to_string(value) : value_text(field, value));
}

Status read_key(std::string_view key, std::string_view value, FieldValues& to) {
  if (const KeyRow* row = key_row(key)) return row->read(value, to);
  if (const GemmField* field = field_of_key(key); field != nullptr && !key.empty())
    return read_field(*field, value, to[static_cast<std::size_t>(field - kGemmFields.data())]);
  return bad_input("\"{}\": no such key; keys are {}{}", key, fmt::join(all_keys(), ", "),
                   did_you_mean(key, all_keys()));
}

Result<const TypeRow*> read_types(std::string_view given) {
  const std::string word = lower_case(given);
  std::vector<std::string_view> known;
  for (const TypeRow& row : kAllTypeRows) {
    if (row.word == word) return &row;
    known.push_back(row.word);
  }
  if (const auto type = dtype_called(word); type && default_types(*type))
    return default_types(*type);
  return bad_input("dtype = \"{}\": must be one of {}{}", given, fmt::join(known, ", "),
                   did_you_mean(given, known));
}

Result<Gemm> read_head(const std::vector<std::string_view>& words) {
  const auto found = read_types(words[0]);
  if (!found) return tl::unexpected(found.error());
  const TypeRow* types = *found;
  Gemm g;
  g.a.dtype = types->a;
  g.b.dtype = types->b;
  g.c.dtype = g.d.dtype = types->usual_output();
  g.accumulator = types->accumulator;
  Status status = read_transpose("ta", words[1], g.a.transposed);
  if (status) status = read_transpose("tb", words[2], g.b.transposed);
  if (status) status = read_number("m", words[3], g.m);
  if (status) status = read_number("n", words[4], g.n);
  if (status) status = read_number("k", words[5], g.k);
  if (!status) return tl::unexpected(std::move(status).error());
  return g;
}

}  // namespace

std::string keys_help() {
  std::string text;
  for (const std::string_view key : all_keys()) {
    const KeyRow* row = key_row(key);
    const std::string_view values = row != nullptr ? row->help : field_of_key(key)->help;
    const bool several = values.find('|') != values.npos;
    text += fmt::format("{}{}={}{}{}", text.empty() ? "" : " ", key, several ? "(" : "", values,
                        several ? ")" : "");
  }
  return text;
}

std::string text(const Gemm& gemm) {
  const TypeRow* types = type_row(gemm.a.dtype, gemm.b.dtype);
  const std::string word = types ? std::string(types->word)
                                 : fmt::format("{}*{}", name(gemm.a.dtype), name(gemm.b.dtype));
  std::string line = fmt::format("{} {} {} {} {} {}", word, gemm.a.transposed ? 'T' : 'N',
                                 gemm.b.transposed ? 'T' : 'N', gemm.m, gemm.n, gemm.k);
  for (const std::string_view key : all_keys())
    if (const std::string value = written(key, gemm); !value.empty())
      fmt::format_to(std::back_inserter(line), " {}={}", key, value);
  return line;
}

Result<Gemm> parse_gemm(std::string_view line) {
  const std::vector<std::string_view> words =
      split_words(line.substr(0, line.find('#')), " \t\r\n");
  if (words.size() < 6)
    return bad_input("\"{}\": a shape is `dtype ta tb m n k`, this has {} of its 6 fields", line,
                     words.size());
  const Result<Gemm> head = read_head(words);
  if (!head) return head;
  FieldValues values = values_of(*head);
  for (std::size_t i = 6; i < words.size(); ++i) {
    const std::size_t equals = words[i].find('=');
    if (equals == words[i].npos) return bad_input("\"{}\": must be key=value", words[i]);
    const std::string_view key = words[i].substr(0, equals);
    for (std::size_t j = 6; j < i; ++j)
      if (words[j].substr(0, words[j].find('=')) == key) return bad_input("{}: given twice", key);
    if (Status status = read_key(key, words[i].substr(equals + 1), values); !status)
      return tl::unexpected(std::move(status).error());
  }
  Result<Gemm> gemm = gemm_of(values);
  if (!gemm) return gemm;
  if (gemm->epilogue.expression.of_gate()) *gemm = gemm->with_expression(gemm->epilogue.expression);
  if (const auto problem = Problem::of(*gemm); !problem) return tl::unexpected(problem.error());
  return gemm;
}

}  // namespace kiln
