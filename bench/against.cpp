#include "bench/against.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "bench/geometric_mean.h"

namespace kiln {
namespace {

/// Of fewer samples Timing's interval is their range.
constexpr int kLeastSamples = 6;
/// Half of a normal variable's 95 % interval, in standard errors.
constexpr double kHalfInterval = 1.959964;
/// A clock's resolution makes intervals of width 0; no time is known better than that.
constexpr double kLeastError = 5e-4;

/// Of the median's logarithm.
double standard_error(const Timing& timing) {
  const double width = std::log(timing.high_ns) - std::log(timing.low_ns);
  return std::max(kLeastError, width / (2 * kHalfInterval));
}

bool usable(const Timing& timing) {
  return timing.samples >= kLeastSamples && timing.low_ns > 0 && timing.high_ns >= timing.low_ns;
}

/// Chance of a difference like this, in either direction, between equal kernels.
double chance(const Timing& before, const Timing& now, double tolerance) {
  const double apart = std::abs(std::log(now.median_ns / before.median_ns));
  const double beyond = apart - std::log1p(tolerance);
  if (beyond <= 0) return 1;
  const double error = std::hypot(standard_error(before), standard_error(now));
  return std::erfc(beyond / error / std::sqrt(2.0));
}

/// Holm: the i-th smallest of n chances times n - i, never less than one before it.
void correct(std::vector<Change*>& tested) {
  std::sort(tested.begin(), tested.end(),
            [](const Change* x, const Change* y) { return x->p < y->p; });
  double least = 0;
  for (std::size_t i = 0; i < tested.size(); ++i) {
    least = std::max(least, std::min(1.0, tested[i]->p * double(tested.size() - i)));
    tested[i]->p = least;
  }
}

std::string row_name(const std::string& shape, int threads) {
  return fmt::format("{}, {} thread{}", shape, threads, threads == 1 ? "" : "s");
}

bool same_row(const EarlierRow& x, const EarlierRow& y) {
  return x.shape == y.shape && x.threads == y.threads && x.device == y.device;
}

Result<EarlierRow> read_row(const OrderedJson& json) {
  const auto bad = [](const char* field) {
    return fail(ErrorCode::bad_input, fmt::format("{}: missing, or of the wrong type", field));
  };
  const auto number = [&](const char* field) {
    return json.contains(field) && json[field].is_number() ? json[field].get<double>() : -1.0;
  };
  EarlierRow row;
  for (const auto& [field, to] :
       {std::pair{"shape", &row.shape}, {"device", &row.device}, {"policy", &row.policy}}) {
    if (!json.contains(field) || !json[field].is_string()) return bad(field);
    *to = json[field].get<std::string>();
  }
  // Spelt as today, whatever spelt it then.
  const auto gemm = parse_gemm(row.shape);
  if (!gemm) return fail(ErrorCode::bad_input, "shape: " + gemm.error().message);
  row.shape = text(*gemm);
  for (const auto& [field, to] : {std::pair{"kiln_ns", &row.kiln.median_ns},
                                  {"kiln_low_ns", &row.kiln.low_ns},
                                  {"kiln_high_ns", &row.kiln.high_ns}}) {
    *to = number(field);
    if (!(*to > 0)) return bad(field);
  }
  for (const auto& [field, to] :
       {std::pair{"threads", &row.threads}, {"samples", &row.kiln.samples}}) {
    if (!(number(field) >= 1 && number(field) <= 1e9)) return bad(field);
    *to = static_cast<int>(number(field));
  }
  if (json.contains("peers") && json["peers"].is_object())
    for (const auto& [peer, ns] : json["peers"].items())
      if (ns.is_number() && ns.get<double>() > 0) row.peers[peer] = ns.get<double>();
  if (json.contains("versions") && json["versions"].is_object())
    for (const auto& [peer, version] : json["versions"].items())
      if (version.is_string()) row.versions[peer] = version.get<std::string>();
  return row;
}

/// True where one of them does not say.
bool same_version(const std::string& peer, const ContestResult& now, const EarlierRow& then) {
  const auto a = now.versions.find(peer);
  const auto b = then.versions.find(peer);
  return a == now.versions.end() || b == then.versions.end() || a->second == b->second;
}

}  // namespace

Result<std::vector<EarlierRow>> parse_earlier(std::string_view text, std::string_view name) {
  std::vector<EarlierRow> rows;
  for (int number = 1; !text.empty(); ++number) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (line.find_first_not_of(" \t\r") == line.npos) continue;
    const auto json = OrderedJson::parse(line, nullptr, false);
    if (!json.is_object())
      return fail(ErrorCode::bad_input,
                  fmt::format("{}:{}: no JSON object: it must be what kiln bench --json printed",
                              name, number));
    if (!json.contains("kiln_ns")) continue;
    auto row = read_row(json);
    if (!row)
      return fail(ErrorCode::bad_input,
                  fmt::format("{}:{}: {}", name, number, row.error().message));
    const auto known = std::find_if(rows.begin(), rows.end(),
                                    [&](const EarlierRow& other) { return same_row(*row, other); });
    if (known == rows.end())
      rows.push_back(std::move(*row));
    else
      *known = std::move(*row);
  }
  if (rows.empty()) return fail(ErrorCode::bad_input, fmt::format("{}: holds no race", name));
  return rows;
}

std::string_view name(Trend trend) {
  constexpr std::string_view kNames[] = {"slower", "faster", "same", "unknown"};
  return kNames[static_cast<int>(trend)];
}

int Against::count(Trend trend) const {
  return static_cast<int>(std::count_if(
      changes.begin(), changes.end(), [&](const Change& change) { return change.trend == trend; }));
}

Against compare(const BenchReport& now, const std::vector<EarlierRow>& before,
                const AgainstOptions& options) {
  Against against;
  GeometricMean ratio, peers;
  std::vector<bool> found(before.size(), false);
  for (const ContestResult& row : now.rows)
    for (std::size_t i = 0; i < before.size(); ++i) {
      const EarlierRow& old = before[i];
      if (old.shape != text(row.gemm) || old.threads != row.threads || old.device != now.device)
        continue;
      found[i] = true;
      Change change{
          .shape = old.shape, .threads = old.threads, .before = old.kiln, .now = row.kiln};
      if (old.policy != row.policy)
        change.why = fmt::format("timed by policy {}, now {}", old.policy, row.policy);
      else if (!usable(old.kiln) || !usable(row.kiln))
        change.why =
            fmt::format("{} and {} samples; six are needed", old.kiln.samples, row.kiln.samples);
      else
        change.p = chance(old.kiln, row.kiln, options.tolerance);
      ratio.add(change.ratio());
      for (const auto& [peer, timing] : row.peers)
        if (const auto then = old.peers.find(peer);
            then != old.peers.end() && same_version(peer, row, old))
          peers.add(timing.median_ns / then->second);
      against.changes.push_back(std::move(change));
    }
  std::vector<Change*> tested;
  for (Change& change : against.changes)
    if (change.why.empty()) tested.push_back(&change);
  correct(tested);
  for (Change* change : tested)
    change->trend = change->p >= options.level ? Trend::same
                    : change->ratio() > 1      ? Trend::slower
                                               : Trend::faster;
  for (std::size_t i = 0; i < before.size(); ++i)
    if (!found[i]) against.missing.push_back(row_name(before[i].shape, before[i].threads));
  against.ratio = ratio.value();
  against.peers = peers.value();
  return against;
}

std::string text(const Against& against, const AgainstOptions& options) {
  std::string out;
  for (const Change& change : against.changes) {
    if (change.trend == Trend::same) continue;
    out += fmt::format("{}: {}", row_name(change.shape, change.threads), name(change.trend));
    out += change.trend == Trend::unknown
               ? fmt::format(": {}\n", change.why)
               : fmt::format(", {:+.1f} %: {:.1f} -> {:.1f} ns, p = {:.2g}\n",
                             100 * (change.ratio() - 1), change.before.median_ns,
                             change.now.median_ns, change.p);
  }
  for (const std::string& row : against.missing) out += fmt::format("{}: not raced now\n", row);
  out += fmt::format(
      "against the earlier race: {} slower, {} faster, {} the same within {:g} %, {} unknown; "
      "time now / then {:.3f}",
      against.count(Trend::slower), against.count(Trend::faster), against.count(Trend::same),
      100 * options.tolerance, against.count(Trend::unknown), against.ratio);
  if (against.peers > 0) out += fmt::format(", of the peers {:.3f}", against.peers);
  return out + "\n";
}

OrderedJson to_json(const Against& against, const AgainstOptions& options) {
  OrderedJson rows = OrderedJson::array();
  for (const Change& change : against.changes)
    rows.push_back({{"shape", change.shape},
                    {"threads", change.threads},
                    {"trend", name(change.trend)},
                    {"before_ns", change.before.median_ns},
                    {"now_ns", change.now.median_ns},
                    {"ratio", change.ratio()},
                    {"p", change.why.empty() ? OrderedJson(change.p) : OrderedJson(nullptr)},
                    {"why", change.why.empty() ? OrderedJson(nullptr) : OrderedJson(change.why)}});
  return {{"against",
           {{"slower", against.count(Trend::slower)},
            {"faster", against.count(Trend::faster)},
            {"same", against.count(Trend::same)},
            {"unknown", against.count(Trend::unknown)},
            {"missing", against.missing},
            {"ratio", against.ratio},
            {"peers_ratio", against.peers > 0 ? OrderedJson(against.peers) : OrderedJson(nullptr)},
            {"tolerance", options.tolerance},
            {"level", options.level},
            {"rows", rows}}}};
}

}  // namespace kiln
