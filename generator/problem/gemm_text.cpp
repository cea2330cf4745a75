// The one-line text form of a problem: `dtype ta tb m n k [key=value …]`.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <initializer_list>
#include <optional>
#include <utility>
#include <vector>

#include "generator/problem/bad_input.h"
#include "generator/problem/did_you_mean.h"
#include "generator/problem/gemm_types.h"
#include "kiln/gemm.hpp"

namespace kiln {
namespace {

/// Keys whose value is a whole number and whose default is that of a fresh Gemm.
struct NumberKey {
  std::string_view key;
  std::int64_t& (*field)(Gemm&);
};

constexpr NumberKey kNumberKeys[] = {
    {"batch", [](Gemm& g) -> std::int64_t& { return g.batch; }},
    {"lda", [](Gemm& g) -> std::int64_t& { return g.a.ld; }},
    {"ldb", [](Gemm& g) -> std::int64_t& { return g.b.ld; }},
    {"ldc", [](Gemm& g) -> std::int64_t& { return g.c.ld; }},
    {"ldd", [](Gemm& g) -> std::int64_t& { return g.d.ld; }},
    {"stride_a", [](Gemm& g) -> std::int64_t& { return g.a.batch_stride; }},
    {"stride_b", [](Gemm& g) -> std::int64_t& { return g.b.batch_stride; }},
    {"stride_c", [](Gemm& g) -> std::int64_t& { return g.c.batch_stride; }},
    {"stride_d", [](Gemm& g) -> std::int64_t& { return g.d.batch_stride; }},
    {"expected_rows", [](Gemm& g) -> std::int64_t& { return g.expected_rows; }},
    {"rows_of_a", [](Gemm& g) -> std::int64_t& { return g.rows_of_a; }},
    {"rows_of_d", [](Gemm& g) -> std::int64_t& { return g.rows_of_d; }},
};

constexpr std::string_view kKeys[] = {
    "batch",     "lda",       "ldb",           "ldc",        "ldd",        "stride_a", "stride_b",
    "stride_c",  "stride_d",  "order",         "out",        "acc",        "epilogue", "align",
    "packed_b",  "scale",     "numerics",      "group",      "scale_type", "zero",     "gate",
    "groups",    "grouped",   "expected_rows", "scale_d",    "zero_a",     "gather",   "scatter",
    "rows_of_a", "rows_of_d", "amax",          "scale_order"};

constexpr std::string_view kSteps[] = {"bias_row", "bias_col", "bias_row_d", "bias_col_d", "relu",
                                       "gelu",     "gelu_erf", "silu",       "residual"};

constexpr std::string_view kScales[] = {"none", "line", "1x128", "128x128", "mx32", "tensor"};

constexpr std::string_view kScaleOrders[] = {"lines", "blocks", "blocks_4"};

constexpr std::string_view kGates[] = {"relu", "gelu", "gelu_erf", "silu", "sigmoid"};
/// Groups of weights that share a scale: so many along k, the whole column, a square, or 32 that
/// share an e8m0.
struct GroupWord {
  std::string_view word;
  Scale scale;
};
constexpr GroupWord kGroups[] = {{"32", Scale::line_32},         {"64", Scale::line_64},
                                 {"128", Scale::line_128},       {"k", Scale::line},
                                 {"128x128", Scale::square_128}, {"mx32", Scale::mx_32}};

/// `word` is none of `known`.
template <std::size_t kCount>
std::string refusal(std::string_view word, const std::string_view (&known)[kCount]) {
  return fmt::format("\"{}\" is none of {}{}", word, fmt::join(known, ", "),
                     did_you_mean(word, known));
}

std::array<Matrix*, 4> matrices(Gemm& g) { return {&g.a, &g.b, &g.c, &g.d}; }

std::string order_word(Gemm g) {
  std::string word;
  for (const Matrix* m : matrices(g)) word += m->order == Order::row_major ? 'r' : 'c';
  if (word == "rrrr") return "row";
  if (word == "cccc") return "column";
  return word;
}

std::string bias_word(Bias where, bool as_d) {
  return fmt::format("{}{}", name(where), as_d ? "_d" : "");
}

std::string epilogue_word(const Epilogue& e) {
  std::string word;
  const auto add = [&word](std::string_view step) {
    if (!word.empty()) word += '+';
    word += step;
  };
  if (e.bias != Bias::none) add(bias_word(e.bias, e.bias_as_d));
  if (e.activation != Activation::none) add(name(e.activation));
  if (e.residual) add("residual");
  return word;
}

std::vector<std::string_view> split_words(std::string_view line, std::string_view separators) {
  std::vector<std::string_view> words;
  for (std::size_t at = line.find_first_not_of(separators); at != line.npos;) {
    const std::size_t end = std::min(line.find_first_of(separators, at), line.size());
    words.push_back(line.substr(at, end - at));
    at = line.find_first_not_of(separators, end);
  }
  return words;
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

Status read_flag(std::string_view field, std::string_view text, bool& value) {
  if (text != "0" && text != "1") return bad_input("{} = \"{}\": must be 0 or 1", field, text);
  value = text == "1";
  return {};
}

Status read_order(std::string_view text, Gemm& g) {
  std::string_view letters = text;
  if (text == "row") letters = "rrrr";
  if (text == "column") letters = "cccc";
  if (letters.size() != 4 || letters.find_first_not_of("rc") != letters.npos)
    return bad_input("order = \"{}\": must be row, column or four letters r or c, as in rcrr",
                     text);
  const auto all = matrices(g);
  for (std::size_t i = 0; i < all.size(); ++i)
    all[i]->order = letters[i] == 'r' ? Order::row_major : Order::column_major;
  return {};
}

Status read_dtype(std::string_view field, std::string_view text, DType& out) {
  const std::optional<DType> type = dtype_called(lower_case(text));
  if (!type) {
    std::vector<std::string_view> known;
    for (const DTypeInfo& row : kDTypes) known.push_back(row.name);
    return bad_input("{} = \"{}\": no such type{}", field, text, did_you_mean(text, known));
  }
  out = *type;
  return {};
}

Status read_step(std::string_view step, std::string_view whole, Epilogue& e) {
  const auto twice = [&](std::string_view kind) {
    return bad_input("epilogue = \"{}\": names more than one {}", whole, kind);
  };
  for (Bias b : {Bias::per_row, Bias::per_column})
    for (bool as_d : {false, true}) {
      if (step != bias_word(b, as_d)) continue;
      if (e.bias != Bias::none) return twice("bias");
      e.bias = b;
      e.bias_as_d = as_d;
      return {};
    }
  for (Activation f :
       {Activation::relu, Activation::gelu_tanh, Activation::gelu_erf, Activation::silu}) {
    if (step != name(f)) continue;
    if (e.activation != Activation::none) return twice("activation");
    e.activation = f;
    return {};
  }
  if (step == "residual") {
    if (e.residual) return twice("residual");
    e.residual = true;
    return {};
  }
  return bad_input("epilogue = \"{}\": {}", whole, refusal(step, kSteps));
}

Status read_epilogue(std::string_view text, Epilogue& e) {
  const std::vector<std::string_view> steps = split_words(text, "+");
  if (steps.empty()) return bad_input("epilogue = \"{}\": names no step", text);
  for (std::string_view step : steps)
    if (Status status = read_step(step, text, e); !status) return status;
  return {};
}

/// The one of `kinds` that `word` names; `known` are their names, for the error.
template <typename Kind>
Status read_kind(std::string_view key, std::string_view word, std::initializer_list<Kind> kinds,
                 std::string_view known, Kind& out) {
  for (const Kind kind : kinds) {
    if (word != name(kind)) continue;
    out = kind;
    return {};
  }
  return bad_input("{} = \"{}\": must be {}", key, word, known);
}

Status read_scale(std::string_view word, std::string_view whole, Scale& out) {
  for (Scale s : {Scale::none, Scale::line, Scale::line_128, Scale::square_128, Scale::mx_32,
                  Scale::tensor}) {
    if (word != name(s)) continue;
    out = s;
    return {};
  }
  return bad_input("scale = \"{}\": {}", whole, refusal(word, kScales));
}

Status read_group(std::string_view word, Gemm& g) {
  if (g.scale_a != Scale::none || g.scale_b != Scale::none)
    return bad_input("group = {}: scale names the scales", word);
  for (const GroupWord& row : kGroups) {
    if (row.word != word) continue;
    g.scale_b = row.scale;
    return {};
  }
  return bad_input("group = \"{}\": must be 32, 64, 128, k, 128x128 or mx32", word);
}

Status read_scales(std::string_view text, Gemm& g) {
  if (g.scale_b != Scale::none) return bad_input("scale = {}: group names the scales", text);
  const std::size_t colon = text.find(':');
  if (Status status = read_scale(text.substr(0, colon), text, g.scale_a); !status) return status;
  return read_scale(colon == text.npos ? text : text.substr(colon + 1), text, g.scale_b);
}

Status read_scale_order(std::string_view word, std::string_view whole, ScaleOrder& out) {
  for (const ScaleOrder order : {ScaleOrder::lines, ScaleOrder::blocks, ScaleOrder::blocks_4}) {
    if (word != name(order)) continue;
    out = order;
    return {};
  }
  return bad_input("scale_order = \"{}\": {}", whole, refusal(word, kScaleOrders));
}

Status read_scale_orders(std::string_view text, Gemm& g) {
  const std::size_t colon = text.find(':');
  if (Status status = read_scale_order(text.substr(0, colon), text, g.scale_order_a); !status)
    return status;
  return read_scale_order(colon == text.npos ? text : text.substr(colon + 1), text,
                          g.scale_order_b);
}

constexpr std::string_view kInterleaved = ":interleaved";

std::string gate_word(const Epilogue& e) {
  const bool stacked = e.gate_order == GateOrder::stacked;
  return fmt::format("{}{}", name(e.gate), stacked ? "" : kInterleaved);
}

Status read_gate(std::string_view text, Epilogue& e) {
  std::string_view word = text;
  if (word.ends_with(kInterleaved)) {
    word.remove_suffix(kInterleaved.size());
    e.gate_order = GateOrder::interleaved;
  }
  for (const Gate f : {Gate::relu, Gate::gelu_tanh, Gate::gelu_erf, Gate::silu, Gate::sigmoid}) {
    if (word != name(f)) continue;
    e.gate = f;
    return {};
  }
  return bad_input("gate = \"{}\": {}", text, refusal(word, kGates));
}

/// The word of weights' scales, or nothing where they are no groups along k.
std::string_view group_word(const Gemm& g) {
  if (g.scale_a != Scale::none || !are_weights(g.a.dtype, g.b.dtype)) return {};
  for (const GroupWord& row : kGroups)
    if (row.scale == g.scale_b) return row.word;
  return {};
}

std::string scale_word(const Gemm& g) {
  if (g.scale_a == g.scale_b) return std::string(name(g.scale_a));
  return fmt::format("{}:{}", name(g.scale_a), name(g.scale_b));
}

std::string scale_order_word(const Gemm& g) {
  if (g.scale_order_a == g.scale_order_b) return std::string(name(g.scale_order_a));
  return fmt::format("{}:{}", name(g.scale_order_a), name(g.scale_order_b));
}

Status read_key(std::string_view key, std::string_view value, Gemm& g) {
  for (const NumberKey& row : kNumberKeys)
    if (row.key == key) return read_number(key, value, row.field(g));
  if (key == "order") return read_order(value, g);
  if (key == "acc") return read_dtype(key, value, g.accumulator);
  if (key == "epilogue") return read_epilogue(value, g.epilogue);
  if (key == "out") {
    Status status = read_dtype(key, value, g.d.dtype);
    g.c.dtype = g.d.dtype;
    return status;
  }
  if (key == "align") {
    std::int64_t bytes = 0;
    if (Status status = read_number(key, value, bytes); !status) return status;
    if (bytes < 1 || bytes > 4096)
      return bad_input("align = {}: must be a power of two, 1 to 4096", bytes);
    g.alignment = static_cast<int>(bytes);
    return {};
  }
  if (key == "packed_b") return read_flag(key, value, g.b_packed);
  if (key == "amax") return read_flag(key, value, g.amax_d);
  if (key == "scale") return read_scales(value, g);
  if (key == "scale_order") return read_scale_orders(value, g);
  if (key == "scale_d")
    return read_kind(key, value, {Scale::none, Scale::tensor, Scale::line, Scale::line_128},
                     "none, tensor, line or 1x128", g.scale_d);
  if (key == "zero_a")
    return read_kind(key, value, {Scale::none, Scale::line, Scale::tensor}, "none, line or tensor",
                     g.zero_a);
  if (key == "numerics")
    return read_kind(key, value, {Numerics::ieee, Numerics::fast, Numerics::tensor},
                     "ieee, fast or tensor", g.numerics);
  if (key == "gate") return read_gate(value, g.epilogue);
  if (key == "group") return read_group(value, g);
  if (key == "scale_type") return read_dtype(key, value, g.scale_type);
  if (key == "zero")
    return read_kind(key, value, {Zero::none, Zero::integer, Zero::floating}, "none, int or float",
                     g.zero);
  if (key == "groups") return read_number(key, value, g.batch);
  if (key == "grouped")
    return read_kind(key, value, {Grouping::rows, Grouping::masked, Grouping::k, Grouping::list},
                     "rows, masked, k or list", g.grouping);
  if (key == "gather")
    return read_kind(key, value, {Gather::none, Gather::rows}, "none or rows", g.gather);
  if (key == "scatter")
    return read_kind(key, value, {Scatter::none, Scatter::rows, Scatter::add, Scatter::weighted},
                     "none, rows, add or weighted", g.scatter);
  return bad_input("\"{}\": no such key; keys are {}{}", key, fmt::join(kKeys, ", "),
                   did_you_mean(key, kKeys));
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

std::string text(const Gemm& gemm) {
  const TypeRow* types = type_row(gemm.a.dtype, gemm.b.dtype);
  const std::string word = types ? std::string(types->word)
                                 : fmt::format("{}*{}", name(gemm.a.dtype), name(gemm.b.dtype));
  std::string line = fmt::format("{} {} {} {} {} {}", word, gemm.a.transposed ? 'T' : 'N',
                                 gemm.b.transposed ? 'T' : 'N', gemm.m, gemm.n, gemm.k);
  const auto add = [&line](std::string_view key, auto value) {
    fmt::format_to(std::back_inserter(line), " {}={}", key, value);
  };
  Gemm copy = gemm, fresh;
  if (gemm.grouping != Grouping::none) {
    add("groups", std::exchange(copy.batch, fresh.batch));
    add("grouped", name(gemm.grouping));
  }
  for (const NumberKey& row : kNumberKeys)
    if (row.field(copy) != row.field(fresh)) add(row.key, row.field(copy));
  if (const std::string order = order_word(gemm); order != "row") add("order", order);
  if (!types || gemm.d.dtype != types->usual_output()) add("out", name(gemm.d.dtype));
  if (!types || gemm.accumulator != types->accumulator) add("acc", name(gemm.accumulator));
  if (const std::string word = epilogue_word(gemm.epilogue); !word.empty()) add("epilogue", word);
  if (gemm.alignment != 1) add("align", gemm.alignment);
  if (gemm.b_packed) add("packed_b", 1);
  if (const std::string_view group = group_word(gemm); !group.empty())
    add("group", group);
  else if (gemm.scale_a != Scale::none || gemm.scale_b != Scale::none)
    add("scale", scale_word(gemm));
  if (gemm.scale_type != DType::fp32) add("scale_type", name(gemm.scale_type));
  if (gemm.zero != Zero::none) add("zero", name(gemm.zero));
  if (gemm.numerics != Numerics::ieee) add("numerics", name(gemm.numerics));
  if (gemm.epilogue.gate != Gate::none) add("gate", gate_word(gemm.epilogue));
  if (gemm.scale_d != Scale::none) add("scale_d", name(gemm.scale_d));
  if (gemm.zero_a != Scale::none) add("zero_a", name(gemm.zero_a));
  if (gemm.gather != Gather::none) add("gather", name(gemm.gather));
  if (gemm.scatter != Scatter::none) add("scatter", name(gemm.scatter));
  if (gemm.amax_d) add("amax", 1);
  if (gemm.scale_order_a != ScaleOrder::lines || gemm.scale_order_b != ScaleOrder::lines)
    add("scale_order", scale_order_word(gemm));
  return line;
}

Result<Gemm> parse_gemm(std::string_view line) {
  const std::vector<std::string_view> words =
      split_words(line.substr(0, line.find('#')), " \t\r\n");
  if (words.size() < 6)
    return bad_input("\"{}\": a shape is `dtype ta tb m n k`, this has {} of its 6 fields", line,
                     words.size());
  Result<Gemm> gemm = read_head(words);
  if (!gemm) return gemm;
  for (std::size_t i = 6; i < words.size(); ++i) {
    const std::size_t equals = words[i].find('=');
    if (equals == words[i].npos) return bad_input("\"{}\": must be key=value", words[i]);
    const std::string_view key = words[i].substr(0, equals);
    for (std::size_t j = 6; j < i; ++j)
      if (words[j].substr(0, words[j].find('=')) == key) return bad_input("{}: given twice", key);
    if (Status status = read_key(key, words[i].substr(equals + 1), *gemm); !status)
      return tl::unexpected(std::move(status).error());
  }
  if (const auto problem = Problem::of(*gemm); !problem) return tl::unexpected(problem.error());
  return gemm;
}

}  // namespace kiln
