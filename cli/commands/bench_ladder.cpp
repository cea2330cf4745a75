#include "cli/commands/bench_ladder.h"

#include <fmt/format.h>

#include "bench/report.h"
#include "cli/output/report.h"

namespace kiln::cli {
namespace {

Json rung_json(const Ladder& ladder, const RungResult& rung, std::size_t number) {
  Json row{{"ladder", ladder.dtype},    {"rung", number},
           {"name", rung.rung.name},    {"kiln_ns", rung.timing.median_ns},
           {"tflops", rung.tflops},     {"share", rung.share},
           {"verified", rung.verified}, {"config", rung.rung.config}};
  if (!rung.fault.empty()) row["fault"] = rung.fault;
  if (rung.conditions.readings > 0) row["conditions"] = kiln::to_json(rung.conditions);
  return row;
}

void add_row(Table& table, const RungResult& rung, std::size_t number) {
  const bool timed = rung.timing.median_ns > 0;
  table.add({fmt::format("{}", number), std::string(rung.rung.name),
             timed ? human_time(rung.timing.median_ns) : "-",
             timed ? fmt::format("{:.1f}", rung.tflops) : "-",
             rung.share > 0 ? percent(rung.share) : "-", rung.fault.empty() ? "ok" : rung.fault});
}

}  // namespace

Result<Outcome> run_ladder(bool json, const Ladder& ladder, LadderOptions options) {
  Table table({">#", "new in this rung", ">time", ">TFLOP/s", ">of cuBLASLt", "check"});
  std::size_t number = 0;
  bool good = true;
  options.on_rung = [&](const RungResult& rung) {
    ++number;
    good = good && rung.verified;
    if (json) print_json(rung_json(ladder, rung, number));
    if (!json) fmt::print(stderr, "[{}/{}] {}\n", number, ladder.rungs.size(), rung.rung.name);
    add_row(table, rung, number);
  };
  const Result<LadderResult> result = climb(ladder, options);
  if (!result) return tl::unexpected(result.error());
  if (json) {
    Json summary{{"ladder", ladder.dtype},
                 {"shape", text(result->gemm)},
                 {"rungs", result->rungs.size()},
                 {"cublaslt_ns", result->library.median_ns},
                 {"cublaslt_tflops", result->library_tflops}};
    if (!result->library_note.empty()) summary["cublaslt_note"] = result->library_note;
    print_json({{"summary", summary}});
  } else {
    fmt::print("{}\n{}", text(result->gemm), table.text());
    if (result->library_note.empty())
      fmt::print("cuBLASLt: {}, {:.1f} TFLOP/s\n", human_time(result->library.median_ns),
                 result->library_tflops);
    else
      fmt::print("cuBLASLt: not raced: {}\n", result->library_note);
  }
  return good && number == ladder.rungs.size() ? Outcome::done : Outcome::check_failed;
}

}  // namespace kiln::cli
