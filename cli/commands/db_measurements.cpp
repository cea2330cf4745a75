#include "cli/commands/db_measurements.h"

#include <fmt/format.h>

#include <fstream>
#include <iostream>
#include <sstream>

#include "cache/exchange/t4.h"
#include "cache/keys.h"
#include "cache/records/measurements.h"
#include "cli/output/report.h"
#include "generator/problem/timed_flops.h"

namespace kiln::cli {

const Manual kMeasurementsManual{
    "measurements", "Print every measurement, failures too: a table, CSV, JSON or T4",
    "  A row for each candidate of each search, the user's own database first, in the order in\n"
    "  which they were made. --csv begins with the names of its columns; times are in nanoseconds\n"
    "  and empty for a failure. --t4 prints Kernel Tuner's T4 results (schema version 1.0.0, "
    "times\n"
    "  in milliseconds); what that format lacks stands in members named kiln, from which\n"
    "  kiln db import --t4 makes the same rows again.",
    "  kiln db measurements --shape \"fp32 N T 512 4096 4096\"\n"
    "  kiln db measurements --csv >all.csv\n"
    "  kiln db measurements --json | jq 'select(.failure)'\n"
    "  kiln db measurements --t4 --winners --db llama.db >llama.t4.json"};

namespace {

using Cells = std::vector<std::string>;

constexpr const char* kCsvHead =
    "shape,device,compute_units,fingerprint,policy,determinism,config,median_ns,low_ns,high_ns,"
    "samples,gflops,round,verified,winner,failure,detail,predicted_ns,template_hash,compiler,"
    "runtime,created,database,joules,sm_mhz";

std::string class_name(const BestKey& key) {
  return std::get<std::string>(to_value(key.determinism));
}

Json measurement_json(const StoredMeasurement& row) {
  const Measured& measured = row.measured;
  Json line{{"shape", text(row.key.gemm)},           {"threads", row.key.device.compute_units},
            {"device", fingerprint(row.key.device)}, {"policy", row.key.policy},
            {"determinism", class_name(row.key)},    {"config", text(measured.config)}};
  if (measured.ok()) {
    const Timing& timing = measured.timing();
    line.update({{"median_ns", timing.median_ns},
                 {"low_ns", timing.low_ns},
                 {"high_ns", timing.high_ns},
                 {"samples", timing.samples},
                 {"gflops", timed_flops(row.key.gemm) / timing.median_ns}});
    add_load(line, timing);
  } else {
    line.update(
        {{"failure", name(measured.failure().kind)}, {"detail", measured.failure().detail}});
  }
  line.update({{"round", name(measured.round)},
               {"verified", measured.verified},
               {"winner", row.winner},
               {"predicted_ns", measured.predicted_ns},
               {"template_hash", row.validators.template_hash},
               {"compiler", row.validators.compiler},
               {"runtime", row.validators.runtime},
               {"created", row.created},
               {"database", row.database.string()}});
  return line;
}

/// RFC 4180: quoted where it must be.
std::string csv_line(const Cells& cells) {
  std::string line;
  for (const std::string& cell : cells) {
    if (!line.empty() || &cell != &cells.front()) line += ',';
    if (cell.find_first_of(",\"\r\n") == std::string::npos) {
      line += cell;
      continue;
    }
    line += '"';
    for (const char c : cell) line += c == '"' ? std::string("\"\"") : std::string(1, c);
    line += '"';
  }
  return line;
}

Cells csv_cells(const StoredMeasurement& row) {
  const Measured& measured = row.measured;
  const auto number = [](double value) { return fmt::format("{}", value); };
  Cells cells{text(row.key.gemm),
              row.key.device.model,
              fmt::format("{}", row.key.device.compute_units),
              fingerprint(row.key.device),
              row.key.policy,
              class_name(row.key),
              text(measured.config)};
  if (measured.ok()) {
    const Timing& timing = measured.timing();
    for (const double ns : {timing.median_ns, timing.low_ns, timing.high_ns})
      cells.push_back(number(ns));
    cells.push_back(fmt::format("{}", timing.samples));
    cells.push_back(number(timed_flops(row.key.gemm) / timing.median_ns));
  } else {
    cells.resize(cells.size() + 5);
  }
  for (const std::string_view cell :
       {name(measured.round), std::string_view("01").substr(measured.verified ? 1 : 0, 1),
        std::string_view("01").substr(row.winner ? 1 : 0, 1)})
    cells.emplace_back(cell);
  cells.emplace_back(measured.ok() ? "" : name(measured.failure().kind));
  cells.push_back(measured.ok() ? "" : measured.failure().detail);
  cells.push_back(number(measured.predicted_ns));
  for (const std::string& cell : {row.validators.template_hash, row.validators.compiler,
                                  row.validators.runtime, row.created, row.database.string()})
    cells.push_back(cell);
  const Timing timing = measured.ok() ? measured.timing() : Timing{};
  cells.push_back(timing.joules > 0 ? number(timing.joules) : "");
  cells.push_back(timing.sm_mhz > 0 ? fmt::format("{}", timing.sm_mhz) : "");
  return cells;
}

Cells table_cells(const StoredMeasurement& row) {
  const Measured& measured = row.measured;
  const bool timed = measured.ok();
  return {text(row.key.gemm),
          fmt::format("{}", row.key.device.compute_units),
          timed ? human_time(measured.timing().median_ns) : "-",
          timed ? fmt::format("{}", measured.timing().samples) : "-",
          timed ? std::string(name(measured.round)) : std::string(name(measured.failure().kind)),
          row.winner ? "*" : "",
          text(measured.config)};
}

Result<MeasurementFilter> filter_of(const MeasurementsCommand& command) {
  MeasurementFilter filter{.device = command.device, .winners = command.winners};
  if (!command.shapes.any()) return filter;
  const auto shapes = command.shapes.collect();
  if (!shapes) return tl::unexpected(shapes.error());
  for (const Shape& shape : *shapes) filter.shapes.push_back(shape.gemm);
  return filter;
}

Result<std::string> contents_of(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream all;
  if (in) all << in.rdbuf();
  if (!in || !all)
    return fail(ErrorCode::bad_input, fmt::format("file = {}: it cannot be read", file));
  return all.str();
}

}  // namespace

void MeasurementsCommand::add_to(CLI::App& app) {
  shapes.add_to(app);
  app.add_option("--device", device, "Only of devices whose fingerprint contains this")
      ->type_name("TEXT");
  app.add_flag("--winners", winners, "Winners only");
  auto* const as_csv = app.add_flag("--csv", csv, "Comma-separated values");
  app.add_flag("--t4", t4, "Kernel Tuner's T4 results")->excludes(as_csv);
}

Result<Outcome> print_measurements(const Session& session, const DatabaseOptions& database,
                                   const MeasurementsCommand& command) {
  if (session.json && (command.csv || command.t4))
    return fail(ErrorCode::bad_input, "--json: give it, --csv or --t4");
  const auto store = open_existing_store(database);
  if (!store) return tl::unexpected(store.error());
  const auto filter = filter_of(command);
  if (!filter) return tl::unexpected(filter.error());
  std::size_t rows = 0;
  Table table({"shape", ">threads", ">median", ">samples", "round", "won", "config"});
  std::optional<T4Writer> t4;
  if (command.t4) t4.emplace(std::cout);
  if (command.csv) fmt::print("{}\n", kCsvHead);
  const Status read = (*store)->measurements().each(*filter, [&](const StoredMeasurement& row) {
    ++rows;
    if (t4)
      t4->add(row);
    else if (command.csv)
      fmt::print("{}\n", csv_line(csv_cells(row)));
    else if (session.json)
      print_json(measurement_json(row));
    else
      table.add(table_cells(row));
  });
  if (!read) return tl::unexpected(read.error());
  if (t4) {
    t4->finish();
    std::cout.flush();
  } else if (session.json) {
    print_json({{"summary", {{"measurements", rows}}}});
  } else if (!command.csv) {
    fmt::print("{}{} measurements\n", table.empty() ? "" : table.text(), rows);
  }
  return Outcome::done;
}

void T4Options::add_to(CLI::App& app) {
  auto* const flag = app.add_flag(
      "--t4", given, "The file holds Kernel Tuner's T4 results; none becomes a winner");
  app.add_option("--shape", shape, "With --t4: the problem of results that name none")
      ->type_name("SHAPE")
      ->needs(flag);
  app.add_option("--device", device.name,
                 "With --t4: the device of results that name none (see kiln help tune)")
      ->type_name("DEVICE")
      ->needs(flag);
  app.add_option("--threads", device.threads, "With --device cpu: threads of the calls")
      ->type_name("N");
}

Result<Outcome> import_t4(const Session& session, const DatabaseOptions& database,
                          const std::string& file, const T4Options& options) {
  T4Defaults defaults;
  if (!options.shape.empty()) {
    const auto gemm = parse_gemm(options.shape);
    if (!gemm) return tl::unexpected(gemm.error());
    defaults.shape = *gemm;
  }
  if (!options.device.name.empty()) {
    const auto target = resolve(options.device);
    if (!target) return tl::unexpected(target.error());
    defaults.device = target->caps;
  }
  const auto text = contents_of(file);
  if (!text) return tl::unexpected(text.error());
  const auto rows = read_t4(*text, file, defaults);
  if (!rows) return tl::unexpected(rows.error());
  const auto store = open_store(database);
  if (!store) return tl::unexpected(store.error());
  const auto added = (*store)->measurements().add_evidence(*rows);
  if (!added) return tl::unexpected(added.error());
  if (session.json)
    print_json({{"file", file}, {"results", rows->size()}, {"measurements", *added}});
  else
    fmt::print("{}: {} of {} results added; the others were here\n", file, *added, rows->size());
  return Outcome::done;
}

}  // namespace kiln::cli
