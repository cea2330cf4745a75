// Races as `kiln bench --json` printed them, read back for the overview.
#include <fmt/format.h>

#include <fstream>
#include <set>

#include "bench/overview.h"
#include "generator/problem/size.h"
#include "generator/problem/timed_flops.h"

namespace kiln {
namespace {

/// A row of --any-m: what ran beside the kernel tuned for its size alone.
struct AnySizeRow {
  std::size_t device = 0;
  Gemm gemm;
  double ns = 0, alone_ns = 0;
};

class RaceFile {
 public:
  RaceFile(Overview& to, const std::filesystem::path& file) : to_(to), file_(file.string()) {}

  /// Errors: as add_races().
  Status take(const std::string& line) {
    ++line_;
    if (line.empty()) return {};
    const auto row = OrderedJson::parse(line, nullptr, false);
    if (!row.is_object()) return wrong("not an object of JSON");
    try {
      if (row.contains("summary")) return machine(row.at("summary"));
      if (row.contains("kiln_ns")) return race(row);
    } catch (const OrderedJson::exception& missing) {
      return wrong(missing.what());
    }
    return {};  // a shape that was not raced
  }

  Status finish() {
    if (races_ == 0)
      return fail(ErrorCode::bad_input,
                  fmt::format("bench = \"{}\": it has no line of a race, as kiln bench --json "
                              "prints them",
                              file_));
    add_regret();
    to_.sources.push_back(file_);
    return {};
  }

 private:
  tl::unexpected<Error> wrong(const std::string& what) const {
    return fail(ErrorCode::bad_input, fmt::format("{}:{}: {}", file_, line_, what));
  }

  std::size_t device(const std::string& name, int threads) {
    const auto [at, fresh] = devices_.try_emplace({name, threads}, to_.devices.size());
    if (fresh) {
      const std::string of_cpu =
          fmt::format("{}, {} thread{}", name, threads, threads == 1 ? "" : "s");
      to_.devices.push_back({.name = fmt::format("{} ({})", name == "cpu" ? of_cpu : name,
                                                 std::filesystem::path(file_).filename().string()),
                             .source = file_});
    }
    return at->second;
  }

  Status race(const OrderedJson& row) {
    const auto gemm = parse_gemm(row.at("shape").get<std::string>());
    if (!gemm) return wrong(gemm.error().message);
    const auto ns = row.at("kiln_ns").get<double>();
    if (!(ns > 0)) return wrong(fmt::format("kiln_ns = {}: not a time", ns));
    ++races_;
    const auto at = device(row.at("device").get<std::string>(), row.at("threads").get<int>());
    const auto config = row.at("config").get<std::string>();
    if (!row.at("verified").get<bool>()) return {};
    Overview::Shape shape{.device = at,
                          .text = text(*gemm),
                          .kind = kind_text(*gemm),
                          .dtype = type_text(*gemm),
                          .family = config.substr(0, config.find(' ')),
                          .ns = ns,
                          .flops = timed_flops(*gemm),
                          .bytes = least_traffic(*gemm),
                          .roof_ns = row.value("roof_ns", 0.0),
                          .joules = row.value("kiln_joules", 0.0)};
    // Files may have raced different versions under one name.
    const auto versions = row.value("versions", OrderedJson::object());
    for (const auto& [peer, time] : row.at("peers").items()) {
      const std::string version = versions.value(peer, "");
      shape.peers[version.empty() ? peer : fmt::format("{} ({})", peer, version)] =
          time.get<double>();
    }
    if (const double peak = row.value("peak_flops", 0.0); peak > 0) {
      double& known = to_.devices[at].peaks[shape.dtype];
      known = std::max(known, peak);
    }
    to_.shapes.push_back(std::move(shape));
    if (row.contains("alone_ns")) any_size_.push_back({at, *gemm, ns, row["alone_ns"]});
    return {};
  }

  Status machine(const OrderedJson& summary) {
    for (const auto& machine : summary.value("machine", OrderedJson::array())) {
      const auto at = devices_.find({"cpu", machine.at("threads").get<int>()});
      if (at == devices_.end()) continue;
      to_.devices[at->second].bytes_per_second =
          machine.at("dram_read_bytes_per_second").get<double>();
    }
    return {};
  }

  /// The size that the draws differ in: the one that takes the most values.
  Size varied() const {
    Size most = Size::m;
    std::size_t count = 0;
    for (const Size size : {Size::m, Size::n, Size::k}) {
      std::set<std::int64_t> values;
      for (const AnySizeRow& row : any_size_) values.insert(row.gemm.*member_of(size));
      if (values.size() > count) most = size, count = values.size();
    }
    return most;
  }

  void add_regret() {
    const Size size = varied();
    std::map<std::pair<std::size_t, Gemm>, std::vector<Overview::RangePoint>> ranges;
    for (const AnySizeRow& row : any_size_) {
      Gemm rest = row.gemm;
      rest.*member_of(size) = 0;
      ranges[{row.device, rest}].push_back({row.gemm.*member_of(size), row.ns, row.alone_ns});
    }
    for (auto& [key, points] : ranges) {
      std::ranges::sort(points, {}, &Overview::RangePoint::size);
      GemmRange range{.gemm = key.second, .size = size, .first = points.front().size};
      range.gemm.*member_of(size) = points.back().size;
      to_.ranges.push_back({key.first, text(range), std::string(name(size)), std::move(points)});
    }
  }

  Overview& to_;
  std::string file_;
  int line_ = 0, races_ = 0;
  std::map<std::pair<std::string, int>, std::size_t> devices_;
  std::vector<AnySizeRow> any_size_;
};

}  // namespace

Status add_races(Overview& overview, const std::filesystem::path& file) {
  std::ifstream in(file);
  if (!in)
    return fail(ErrorCode::bad_input, fmt::format("bench = \"{}\": cannot be read", file.string()));
  RaceFile races(overview, file);
  for (std::string line; std::getline(in, line);)
    if (Status taken = races.take(line); !taken) return taken;
  return races.finish();
}

}  // namespace kiln
