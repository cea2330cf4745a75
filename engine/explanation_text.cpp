// An explanation in words.
#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "cache/keys.h"
#include "engine/explanation.h"
#include "generator/expression/code.h"
#include "generator/expression/halves.h"
#include "generator/problem/extent.h"
#include "generator/problem/timed_flops.h"

namespace kiln {
namespace {

constexpr std::size_t kListed = 3;

std::string timing_text(const Gemm& gemm, const Timing& t) {
  return fmt::format("{:.2f} us ({:.2f} to {:.2f}, {} samples), {:.1f} GFLOP/s", t.median_ns / 1e3,
                     t.low_ns / 1e3, t.high_ns / 1e3, t.samples, timed_flops(gemm) / t.median_ns);
}

/// "12.30 us, 3000 MFLOP at 243.8 GFLOP/s" or "…, 33.6 MB at 26.1 GB/s from memory".
std::string roof_text(const Gemm& gemm, const Roofline& roof) {
  const std::string why = roof.arithmetic()
                              ? fmt::format("{:.4g} MFLOP at {:.1f} GFLOP/s",
                                            timed_flops(gemm) * 1e-6, roof.rate * 1e-9)
                              : fmt::format("{:.4g} MB at {:.1f} GB/s from {}",
                                            least_bytes(gemm) * 1e-6, roof.rate * 1e-9, roof.of);
  return fmt::format("{:.2f} us, {}", roof.ns / 1e3, why);
}

std::vector<std::string> words_in(const std::string& line) {
  std::istringstream words(line);
  return {std::istream_iterator<std::string>(words), {}};
}

/// The first line, and no more than a row of it: compilers say a lot.
std::string first_row(const std::string& message) {
  constexpr std::size_t kMost = 70;
  const std::string line = message.substr(0, message.find('\n'));
  return line.size() <= kMost ? line : line.substr(0, kMost) + "…";
}

std::string others_text(const Explanation& why) {
  std::string out;
  const Measured& winner = why.record->measured;
  for (std::size_t i = 0; i < std::min(kListed, why.others.size()); ++i) {
    const Measured& other = why.others[i];
    out += fmt::format("  {:+6.1f} %  {}\n",
                       (other.timing().median_ns / winner.timing().median_ns - 1) * 100,
                       difference(winner.config, other.config));
  }
  return out.empty() ? "" : "other candidates, slower by:\n" + out;
}

std::string failures_text(const Explanation& why) {
  std::string out;
  for (const auto& [kind, failed] : why.failures)
    out += fmt::format("  {} x {}: {}\n", failed.count, kind, first_row(failed.example));
  return out.empty() ? "" : "failed candidates:\n" + out;
}

/// What an expression costs beside the product.
std::string expression_text(const Gemm& gemm, Vendor vendor) {
  const Expression& expression = gemm.epilogue.expression;
  const std::string work =
      vendor == Vendor::cpu
          ? std::string()
          : fmt::format("; some {:.0f} instructions an element", expression::work_of(expression));
  const expression::Halves* const halves = expression::halves_in(expression);
  const double elements = double(gemm.batch) * double(gemm.m) * double(gemm.n);
  double kept = 0;  // bytes of each element
  for (std::size_t i = 0; halves != nullptr && i < halves->kept; ++i)
    kept += size_of(type_of_kept(gemm, *halves, i));
  const std::string keeps =
      kept == 0 ? std::string()
                : fmt::format(", keeps {:.3g} MB until all are reduced", elements * kept * 1e-6);
  return fmt::format("epilogue:  reads {:.3g} MB, stores {:.3g} MB beside {}D{}{}\n",
                     double(bytes_of_extras(gemm)) * 1e-6, double(bytes_beside_d(gemm)) * 1e-6,
                     expression.stores_d() ? "" : "an absent ", keeps, work);
}

std::string evidence_text(const Explanation& why) {
  const Record& record = *why.record;
  const Gemm& gemm = why.key.gemm;
  const Timing& timing = record.measured.timing();
  std::string out;
  if (text(record.measured.config) != why.config)
    out += fmt::format("stored:    {}\n", text(record.measured.config));
  out += fmt::format("measured:  {}\n", timing_text(gemm, timing));
  if (const std::string load = load_text(timing); !load.empty())
    out += fmt::format("under load: {}\n", load);
  if (!record.measured.disturbed.empty())
    out += fmt::format("disturbed: {}; the next tune() searches anew\n", record.measured.disturbed);
  if (why.peak_flops > 0)
    out += fmt::format(
        "peak:      {:.1f} GFLOP/s, the most these threads reached; this is {:.1f} %\n",
        why.peak_flops * 1e-9, timed_flops(gemm) / timing.median_ns * 1e9 / why.peak_flops * 100);
  if (why.roof)
    out += fmt::format("roof:      {}; this is {:.1f} %\n", roof_text(gemm, why.roof->roof),
                       why.roof->roof.ns / timing.median_ns * 100);
  out += fmt::format("verified:  {}; policy {}; the model predicted {:.2f} us\n",
                     record.measured.verified ? "yes" : "no", record.key.policy,
                     record.measured.predicted_ns / 1e3);
  out += fmt::format("tuned:     {} in {}\n", record.created, record.database.string());
  out += fmt::format("searched:  {}\n", record.searched ? text(*record.searched) : "not recorded");
  out += fmt::format("toolchain: {}; {}; made by {} templates\n", record.validators.compiler,
                     record.validators.runtime, why.older_templates ? "older" : "today's");
  int failed = 0;
  for (const auto& [kind, seen] : why.failures) failed += seen.count;
  out += fmt::format("evidence:  {} configs tried, {} failed\n", why.tried, failed);
  return out + others_text(why) + failures_text(why);
}

}  // namespace

std::string difference(const Config& config, const Config& other) {
  const std::string line = text(other);
  if (family_name(config) != family_name(other)) return line;
  const std::vector<std::string> own = words_in(text(config)), others = words_in(line);
  std::string out;
  for (const std::string& word : others)
    if (std::find(own.begin(), own.end(), word) == own.end())
      out += (out.empty() ? "" : " ") + word;
  // Keys that came later are written where they are not zero.
  for (const std::string& word : own) {
    const std::string key = word.substr(0, word.find('=') + 1);
    const auto has = [&](const std::string& theirs) { return theirs.starts_with(key); };
    if (!key.empty() && std::none_of(others.begin(), others.end(), has))
      out += fmt::format("{}without {}", out.empty() ? "" : " ", word);
  }
  return out;
}

std::string text(const Explanation& why) {
  const DeviceCaps& device = why.key.device;
  std::string out = fmt::format("problem:   {}\n", text(why.key.gemm));
  out += fmt::format(
      "device:    {}, {}, {}\n", device.model, device.arch,
      device.vendor == Vendor::cpu
          ? fmt::format("{} thread{}", device.compute_units, device.compute_units == 1 ? "" : "s")
          : fmt::format("{} units", device.compute_units));
  if (!why.key.gemm.epilogue.expression.empty())
    out += expression_text(why.key.gemm, device.vendor);
  out += fmt::format("config:    {}\n", why.config);
  if (!why.made_for.empty()) out += fmt::format("made for:  every CPU with {}\n", why.made_for);
  out += fmt::format("match:     {}: {}\n", name(why.match), why.reason);
  out += fmt::format("class:     {}{}\n", std::get<std::string>(to_value(why.key.determinism)),
                     why.summation.empty() ? "" : ", sums: " + why.summation);
  return why.record ? out + evidence_text(why) : out;
}

}  // namespace kiln
