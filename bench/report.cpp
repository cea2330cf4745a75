#include "bench/report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <sstream>

#include "bench/bars.h"
#include "bench/geometric_mean.h"
#include "generator/problem/timed_flops.h"
#include "tuner/measure/measure.h"
#include "tuner/measure/roofline.h"

namespace kiln {
namespace {

/// The six fixed words of a shape's line, and what follows them.
struct Words {
  std::string dtype, ta, tb, rest;
};

Words words_of(const Gemm& gemm) {
  std::istringstream line(text(gemm));
  Words w;
  std::string m, n, k;
  line >> w.dtype >> w.ta >> w.tb >> m >> n >> k >> std::ws;
  std::getline(line, w.rest);
  return w;
}

OrderedJson shape_json(const Gemm& gemm, int threads, const std::string& device) {
  const Words w = words_of(gemm);
  return {{"dtype", w.dtype}, {"ta", w.ta},  {"tb", w.tb},         {"m", gemm.m},
          {"n", gemm.n},      {"k", gemm.k}, {"threads", threads}, {"device", device}};
}

std::string time_text(double ns) {
  if (ns < 1e3) return fmt::format("{:.0f} ns", ns);
  if (ns < 1e6) return fmt::format("{:.1f} us", ns / 1e3);
  if (ns < 1e9) return fmt::format("{:.2f} ms", ns / 1e6);
  return fmt::format("{:.2f} s", ns / 1e9);
}

/// The peak that a row compares with, in operations a second; 0 = none was measured.
double peak_of(const BenchReport& report, const ContestResult& row) {
  for (const MachineLine& line : report.machine)
    if (line.threads == row.threads) return peak_for(row.gemm, line.limits);
  return 0;
}

/// 0 where there is none to tell: no peak, or a wrong result, which counts for nothing.
double share_of_peak(const BenchReport& report, const ContestResult& row) {
  const double peak = peak_of(report, row);
  return peak > 0 && row.verified && row.kiln.median_ns > 0
             ? timed_flops(row.gemm) / row.kiln.median_ns * 1e9 / peak
             : 0;
}

/// The least time of the row's product on this machine; 0 where it is not known.
double roof_of(const BenchReport& report, const ContestResult& row) {
  for (const MachineLine& line : report.machine)
    if (line.threads == row.threads) return roof(row.gemm, line.limits, peak_of(report, row)).ns;
  return 0;
}

/// That over kiln's time; 0 where it is not known or the result is wrong.
double share_of_roof(const BenchReport& report, const ContestResult& row) {
  return row.verified && row.kiln.median_ns > 0 ? roof_of(report, row) / row.kiln.median_ns : 0;
}

/// What kiln's kernel moved at least.
double bytes_per_second(const ContestResult& row) {
  return row.kiln.median_ns > 0 ? least_bytes(row.gemm) / row.kiln.median_ns * 1e9 : 0;
}

bool is_counted_square(const Gemm& g) {
  return g.m == g.n && g.n == g.k && g.m >= 1024 && g.m <= 4096 && g.batch == 1;
}

std::string row_name(const ContestResult& row) {
  return fmt::format("{}, {} thread{}", text(row.gemm), row.threads, row.threads == 1 ? "" : "s");
}

std::string quoted(const std::string& field) {
  std::string out = "\"";
  for (char c : field) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + '"';
}

/// Rows of cells as aligned text; the first column is left-aligned, the others right. Cells of one
/// character a column; bars have as many of them in each row.
std::string aligned(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (i == widths.size()) widths.push_back(0);
      widths[i] = std::max(widths[i], columns_of(row[i]));
    }
  std::string out;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string pad(widths[i] - columns_of(row[i]), ' ');
      line += i == 0 ? row[i] + pad : "  " + pad + row[i];
    }
    out += line.substr(0, line.find_last_not_of(' ') + 1) + '\n';
  }
  return out;
}

}  // namespace

void add_row(BenchReport& report, ContestResult row) {
  const auto peak = peak_member(row.gemm.a.dtype);
  for (MachineLine& line : report.machine)
    if (peak != nullptr && line.threads == row.threads)
      line.limits.*peak = std::max(line.limits.*peak, row.peak_flops);
  row.roof_ns = roof_of(report, row);
  report.rows.push_back(std::move(row));
}

BenchSummary summarise(const BenchReport& report) {
  BenchSummary s;
  GeometricMean overall;
  std::map<std::string, GeometricMean> peers, shares;
  std::map<int, GeometricMean> by_threads;
  s.shapes = int(report.rows.size());
  s.failed = int(report.failures.size());
  for (const ContestResult& row : report.rows) {
    s.verified += row.verified;
    s.excluded += int(row.excluded.size());
    if (const double share = share_of_peak(report, row); share > 0 && is_counted_square(row.gemm))
      shares[fmt::format("{}, {} threads", name(row.gemm.a.dtype), row.threads)].add(share);
    if (row.peers.empty()) continue;
    const double ratio = row.ratio();
    overall.add(ratio);
    by_threads[row.threads].add(ratio);
    if (s.compared++ == 0 || ratio < s.worst_ratio) {
      s.worst_ratio = ratio;
      s.worst_shape = row_name(row);
    }
    for (const auto& [peer, timing] : row.peers)
      peers[peer].add(timing.median_ns / row.kiln.median_ns);
  }
  s.ratio = overall.value();
  for (const auto& [threads, mean] : by_threads) s.ratio_by_threads[threads] = mean.value();
  for (const auto& [peer, mean] : peers) s.peers[peer] = {mean.count(), mean.value()};
  for (const auto& [key, mean] : shares)
    s.peak_share[key] = {mean.count(), mean.least(), mean.value()};
  return s;
}

OrderedJson to_json(const ContestResult& row, const std::string& device) {
  OrderedJson json = shape_json(row.gemm, row.threads, device);
  json["kiln_ns"] = row.kiln.median_ns;
  json["peers"] = OrderedJson::object();
  for (const auto& [peer, timing] : row.peers) json["peers"][peer] = timing.median_ns;
  const std::string best = row.best_peer();
  json["best_peer"] = best.empty() ? OrderedJson(nullptr) : OrderedJson(best);
  json["ratio"] = best.empty() ? OrderedJson(nullptr) : OrderedJson(row.ratio());
  json["verified"] = row.verified;
  json["config"] = row.config;
  json["policy"] = row.policy;
  json["match"] = name(row.match);
  json["shape"] = text(row.gemm);
  json["kiln_low_ns"] = row.kiln.low_ns;
  json["kiln_high_ns"] = row.kiln.high_ns;
  json["samples"] = row.kiln.samples;
  json["intensity"] = intensity(row.gemm);
  json["bytes_per_second"] = bytes_per_second(row);
  if (row.peak_flops > 0) json["peak_flops"] = row.peak_flops;
  if (row.roof_ns > 0) json["roof_ns"] = row.roof_ns;
  json["versions"] = OrderedJson::object();
  for (const auto& [peer, version] : row.versions) json["versions"][peer] = version;
  if (!row.fault.empty()) json["fault"] = row.fault;
  for (const Excluded& e : row.excluded) json["excluded"][e.peer] = e.reason;
  if (row.kiln.joules > 0) json["kiln_joules"] = row.kiln.joules;
  if (row.cool) {
    json["cool_ns"] = row.cool->median_ns;
    json["cool_config"] = row.cool_config;
    if (row.cool->joules > 0) json["cool_joules"] = row.cool->joules;
  }
  for (const auto& [peer, timing] : row.peers)
    if (timing.joules > 0) json["peer_joules"][peer] = timing.joules;
  if (row.conditions.readings > 0) json["conditions"] = to_json(row.conditions);
  return json;
}

OrderedJson to_json(const GpuConditions& c) {
  return {{"sm_mhz", {{"low", c.sm_low_mhz}, {"median", c.sm_median_mhz}, {"high", c.sm_high_mhz}}},
          {"memory_mhz", c.memory_mhz},
          {"watts", c.watts},
          {"celsius", c.celsius},
          {"slowed_by", gpu::slowdowns(c.reasons)},
          {"dropped", c.dropped},
          {"settled", c.settled}};
}

OrderedJson to_json(const ShapeFailure& failure, const std::string& device) {
  OrderedJson json = shape_json(failure.gemm, failure.threads, device);
  json["shape"] = text(failure.gemm);
  json["error"] = {{"code", name(failure.error.code)}, {"message", failure.error.message}};
  return json;
}

OrderedJson to_json(const MachineLine& machine) {
  return {{"machine",
           {{"threads", machine.threads},
            {"fp32_fma_flops", machine.limits.fp32_flops},
            {"fp64_fma_flops", machine.limits.fp64_flops},
            {"bf16_flops", machine.limits.bf16_flops},
            {"int8_ops", machine.limits.int8_flops},
            {"l1_read_bytes_per_second", machine.limits.l1_read},
            {"l2_read_bytes_per_second", machine.limits.l2_read},
            {"l3_read_bytes_per_second", machine.limits.l3_read},
            {"dram_read_bytes_per_second", machine.limits.dram_read}}}};
}

OrderedJson to_json(const BenchSummary& s) {
  OrderedJson json{{"shapes", s.shapes},           {"compared", s.compared},
                   {"verified", s.verified},       {"failed", s.failed},
                   {"excluded", s.excluded},       {"ratio", s.ratio},
                   {"worst_ratio", s.worst_ratio}, {"worst_shape", s.worst_shape}};
  json["ratio_by_threads"] = OrderedJson::object();
  for (const auto& [threads, ratio] : s.ratio_by_threads)
    json["ratio_by_threads"][std::to_string(threads)] = ratio;
  json["peers"] = OrderedJson::object();
  for (const auto& [peer, p] : s.peers)
    json["peers"][peer] = {{"shapes", p.shapes}, {"ratio", p.ratio}};
  json["peak_share"] = OrderedJson::object();
  for (const auto& [key, share] : s.peak_share)
    json["peak_share"][key] = {
        {"shapes", share.shapes}, {"least", share.least}, {"mean", share.mean}};
  return {{"summary", json}};
}

std::string table(const BenchReport& report, bool bars) {
  std::vector<std::vector<std::string>> rows{{"shape", "threads", "kiln", "GFLOP/s", "peak",
                                              "flop/B", "GB/s", "roof", "best peer", "its time",
                                              "ratio", "check"}};
  // Between the ratio and its check.
  const auto with_bar = [&](std::vector<std::string> row, const std::string& bar) {
    if (bars) row.insert(row.end() - 1, bar);
    return row;
  };
  rows.front() = with_bar(rows.front(), "");
  for (const ContestResult& row : report.rows) {
    const double share = share_of_peak(report, row), roof = share_of_roof(report, row);
    const std::string best = row.best_peer();
    rows.push_back(with_bar(
        {text(row.gemm), std::to_string(row.threads), time_text(row.kiln.median_ns),
         fmt::format("{:.1f}", timed_flops(row.gemm) / row.kiln.median_ns),
         share > 0 ? fmt::format("{:.0f} %", 100 * share) : "-",
         fmt::format("{:.1f}", intensity(row.gemm)),
         fmt::format("{:.1f}", bytes_per_second(row) * 1e-9),
         roof > 0 ? fmt::format("{:.0f} %", 100 * roof) : "-", best.empty() ? "none" : best,
         best.empty() ? "-" : time_text(row.peers.at(best).median_ns),
         best.empty() ? "-" : fmt::format("{:.2f}", row.ratio()), row.verified ? "ok" : "WRONG"},
        ratio_bar(row.ratio())));
  }
  std::string out = aligned(rows);
  for (const ContestResult& row : report.rows) {
    if (!row.verified)
      out += fmt::format("{}: kiln's result is wrong: {}\n", row_name(row), row.fault);
    for (const Excluded& e : row.excluded)
      out += fmt::format("{}: {} left out: {}\n", row_name(row), e.peer, e.reason);
    if (const std::string load = load_text(row.kiln); !load.empty()) {
      out += fmt::format("{}: under load: kiln {}", text(row.gemm), load);
      for (const auto& [peer, timing] : row.peers)
        if (const std::string its = load_text(timing); !its.empty())
          out += fmt::format("; {} {}", peer, its);
      out += '\n';
    }
    if (row.cool)
      out += fmt::format(
          "{}: under load: the winner of the cool race {}, {:.3f} of kiln's time{}\n",
          text(row.gemm), time_text(row.cool->median_ns), row.cool->median_ns / row.kiln.median_ns,
          row.cool_config == row.config ? ", which runs it" : "");
    if (row.conditions.readings > 0)
      out += fmt::format("{}: {}\n", text(row.gemm), text(row.conditions));
  }
  for (const ShapeFailure& f : report.failures)
    out += fmt::format("{}, {} threads: not raced: {}\n", text(f.gemm), f.threads, f.error.message);
  return out + versions_text(report);
}

std::string versions_text(const BenchReport& report) {
  std::vector<const ContestResult*> rows;
  for (const ContestResult& row : report.rows) rows.push_back(&row);
  return versions_text(rows);
}

std::string versions_text(const std::vector<const ContestResult*>& rows) {
  std::map<std::string, std::set<std::string>> libraries;
  for (const ContestResult* row : rows)
    for (const auto& [peer, version] : row->versions) libraries[version].insert(peer);
  std::string out;
  for (const auto& [version, peers] : libraries)
    out += fmt::format("{}: {}\n", version, fmt::join(peers, ", "));
  return out;
}

std::string text(const BenchSummary& s) {
  std::string out = fmt::format("{} shapes raced, {} beside a peer, {} verified, {} failed\n",
                                s.shapes, s.compared, s.verified, s.failed);
  if (s.compared) {
    out += fmt::format("speedup over the fastest peer: {:.3f} (geometric mean), worst {:.3f}: {}\n",
                       s.ratio, s.worst_ratio, s.worst_shape);
    for (const auto& [threads, ratio] : s.ratio_by_threads)
      out += fmt::format("  {} threads: {:.3f}\n", threads, ratio);
    for (const auto& [peer, p] : s.peers)
      out += fmt::format("  against {}: {:.3f} over {} shapes\n", peer, p.ratio, p.shapes);
  }
  for (const auto& [key, share] : s.peak_share)
    out += fmt::format("squares 1024 to 4096, {}: {:.1f} % of the peak, least {:.1f} %\n", key,
                       100 * share.mean, 100 * share.least);
  return out;
}

std::string csv(const BenchReport& report) {
  std::string out =
      "shape,dtype,ta,tb,m,n,k,threads,device,contestant,median_ns,low_ns,high_ns,samples,verified,"
      "config,gflops,intensity,bytes_per_second,version\n";
  for (const ContestResult& row : report.rows) {
    const Words w = words_of(row.gemm);
    const auto line = [&](const std::string& who, const Timing& t, bool verified,
                          const std::string& config, const std::string& version) {
      out += fmt::format(
          "{},{},{},{},{},{},{},{},{},{},{:.1f},{:.1f},{:.1f},{},{},{},{:.3f},{:.3f},{:.0f},{}\n",
          quoted(text(row.gemm)), w.dtype, w.ta, w.tb, row.gemm.m, row.gemm.n, row.gemm.k,
          row.threads, report.device, who, t.median_ns, t.low_ns, t.high_ns, t.samples, verified,
          quoted(config), timed_flops(row.gemm) / t.median_ns, intensity(row.gemm),
          least_bytes(row.gemm) / t.median_ns * 1e9, version);
    };
    line("kiln", row.kiln, row.verified, row.config, "");
    for (const auto& [peer, timing] : row.peers) {
      const auto version = row.versions.find(peer);
      line(peer, timing, true, "", version == row.versions.end() ? "" : quoted(version->second));
    }
  }
  return out;
}

}  // namespace kiln
