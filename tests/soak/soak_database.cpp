// Database files that were changed behind kiln's back: opening, checking, listing, comparing,
// explaining, importing, exporting, refreshing, pruning and multiplying end in time, without a
// crash, and no product is wrong.
#include <SQLiteCpp/Database.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <new>
#include <optional>
#include <stdexcept>
#include <vector>

#include "cache/exchange/class_maker.h"
#include "cache/exchange/diff.h"
#include "cache/exchange/refresh.h"
#include "cache/exchange/transfer.h"
#include "cache/keys.h"
#include "cache/records/class_kernels.h"
#include "cache/records/devices.h"
#include "cache/records/maintenance.h"
#include "cache/records/measurements.h"
#include "cache/records/prune.h"
#include "cache/records/stored_roofline.h"
#include "cache/records/winners.h"
#include "engine/engine_impl.h"
#include "runtime/compiler.h"
#include "soak/call.h"
#include "soak/children.h"
#include "soak/mutate.h"
#include "soak/soak.h"
#include "support/fake_evaluator.h"
#include "support/paths.h"
#include "support/stored.h"
#include "support/temp_dir.h"
#include "tuner/search/class_list.h"

namespace kiln::soak {
namespace {

namespace fs = std::filesystem;

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif
/// Seconds for all that is done with one file: of the processor, and of a clock on the wall for one
/// that only waits. A busy machine gives a process a tenth of its time.
constexpr rlim_t kProcessorSeconds = kSanitized ? 120 : 40;
constexpr double kSecondsOfCase = 600;
/// Bytes of address space: what a changed row may make a process ask for ends here.
constexpr rlim_t kAddressSpace = rlim_t{16} << 30;
constexpr const char* kFileName = "hostile.db";

const std::vector<Gemm>& tuned_shapes() {
  static const std::vector<Gemm> shapes = [] {
    std::vector<Gemm> all;
    for (const char* line : {"fp32 N N 5 7 3", "fp32 N N 40 24 16", "int8 N N 17 9 33",
                             "int8 N N 9 33 17", "bf16 N N 8 32 16"})
      all.push_back(parse_gemm(line).value());
    return all;
  }();
  return shapes;
}

Gemm untuned_shape() { return Gemm::row_major(12, 12, 12); }
/// Of a kind that kernels of a class alone serve.
Gemm class_shape() { return parse_gemm("fp64 N N 9 21 5").value(); }

std::string read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// Two kernels of the class that every CPU is of.
std::string make_class_kernels(Store& store) {
  const auto compiler = host_compiler();
  const auto portable = device_class("portable");
  if (!compiler || !portable) return "no compiler, or no such class";
  std::vector<ClassKernel> list = class_list(*portable);
  const std::string kind = class_text(class_problem(class_shape()));
  std::erase_if(
      list, [&](const ClassKernel& one) { return class_text(class_problem(one.gemm)) != kind; });
  list.resize(std::min<std::size_t>(list.size(), 2));
  const auto made = make_class(store, **compiler, *portable, list, {});
  if (!made) return made.error().message;
  return made->made > 0 && made->failed.empty() ? "" : "no kernel of the class was made";
}

/// A database with every kind of row: winners with code, losers, failures, code that was proved for
/// a problem that nobody tuned, kernels of a class.
std::string make_sound(const fs::path& file) {
  auto engine =
      Engine::open({.database = file, .threads = 1, .on_untuned = [](const std::string&) {}});
  if (!engine) return engine.error().message;
  engine->impl().tuning.make_evaluator = test::fake_bench;
  for (const Gemm& gemm : tuned_shapes())
    if (const auto done = engine->tune(gemm); !done) return done.error().message;
  if (const auto plan = engine->plan(untuned_shape()); !plan) return plan.error().message;
  const auto store = test::open_store(file);
  test::store_winner(*store, test::key_of(64, 96, 128), 6);
  const Status kept = store->devices().put_limits({.device = test::key_of(64, 96, 128).device,
                                                   .fp32_flops = 2e11,
                                                   .l1_read = 4e11,
                                                   .dram_read = 2e10});
  if (!kept) return kept.error().message;
  return make_class_kernels(*store);
}

bool is_utf8(const std::string& text) {
  for (std::size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const std::size_t length = lead < 0x80             ? 1
                               : (lead & 0xe0) == 0xc0 ? 2
                               : (lead & 0xf0) == 0xe0 ? 3
                               : (lead & 0xf8) == 0xf0 ? 4
                                                       : 0;
    if (length == 0 || i + length > text.size()) return false;
    for (std::size_t j = 1; j < length; ++j)
      if ((static_cast<unsigned char>(text[i + j]) & 0xc0) != 0x80) return false;
    i += length;
  }
  return true;
}

/// What the processes that use files have done, counted in memory that they share.
struct Counts {
  std::atomic<std::int64_t> opened, products, tuned_products, class_products;
};

Counts& shared_counts() {
  void* memory =
      ::mmap(nullptr, sizeof(Counts), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::runtime_error("mmap() failed");
  return *new (memory) Counts{};
}

/// Uses one file in every way; each finding is a sentence.
class User {
 public:
  User(const fs::path& folder, Random& random, Counts& counts)
      : folder_(folder), file_(folder / kFileName), random_(random), counts_(counts) {}

  std::string findings() {
    const auto store = Store::open({.database = file_});
    if (!store) {
      told(store.error().message, kFileName);
    } else {
      ++counts_.opened;
      look_into(**store);
      compare(**store);
      hand_on(**store);
    }
    multiply({.database = file_}, store.has_value(), "the file");
    multiply({.database = folder_ / "own.db", .shipped = {file_}}, false, "the file as shipped");
    if (store) {
      repair(**store);
      renew(**store);
    }
    return findings_;
  }

 private:
  void found(const std::string& what) { findings_ += (findings_.empty() ? "" : "; ") + what; }

  void told(const std::string& message, const std::string& must_name) {
    if (message.find(must_name) == message.npos)
      found(fmt::format("an error does not name {}: {}", must_name, message));
    if (!is_utf8(message)) found("an error is not UTF-8");
  }

  void look_into(Store& store) {
    if (const auto report = store.maintenance().check(false); !report)
      told(report.error().message, kFileName);
    else
      for (const std::string& problem : report->problems) told(problem, kFileName);
    if (const auto records = store.winners().list(); !records)
      told(records.error().message, kFileName);
    if (const auto stats = store.maintenance().stats(); !stats)
      told(stats.error().message, kFileName);
    const BestKey key = test::key_of(64, 96, 128);
    if (const auto roof = stored_roofline(store, key.device, key.gemm))
      if (!(roof->roof.ns > 0)) found("a roof that is not a time");
  }

  /// As `kiln db diff` does, with itself.
  void compare(Store& store) {
    std::vector<StoredMeasurement> winners;
    const Status read = store.measurements().each(
        {.winners = true}, [&](const StoredMeasurement& one) { winners.push_back(one); });
    if (!read) return told(read.error().message, kFileName);
    for (const DiffRow& row : diff_winners(winners, winners)) {
      if (row.other_winner) found(fmt::format("{}: wins against itself", text(row.key.gemm)));
      if (std::isnan(row.ratio) || std::isnan(row.low) || std::isnan(row.high))
        found(fmt::format("{}: a ratio that is not a number", text(row.key.gemm)));
    }
  }

  /// Refreshed, and made smaller: what is left serves as the file did.
  void renew(Store& store) {
    if (const auto rows = refresh(store, /*write=*/true); !rows)
      told(rows.error().message, kFileName);
    multiply({.database = file_}, true, "the refreshed file");
    if (const auto report =
            store.maintenance().prune({.older_than_days = 0, .winners_too = one_in(random_, 2)});
        !report)
      told(report.error().message, kFileName);
    multiply({.database = file_}, true, "the pruned file");
  }

  /// Through an import and through an export: what is run from there is right, too.
  void hand_on(Store& store) {
    const fs::path imported = folder_ / "imported.db", exported = folder_ / "exported.db";
    const auto into = Store::open({.database = imported});
    if (!into) throw std::runtime_error(into.error().message);
    if (const auto report = (*into)->transfer().import_from(file_); !report)
      told(report.error().message, ".db");  // of either file
    multiply({.database = imported}, true, "an import");
    if (const Status done = store.transfer().export_to(exported); !done)
      told(done.error().message, ".db");
    else
      multiply({.database = exported}, false, "an export");
  }

  void repair(Store& store) {
    if (const auto report = store.maintenance().check(true); !report)
      told(report.error().message, kFileName);
    else
      multiply({.database = file_}, true, "the repaired file");
    if (const Status done =
            store.measurements().put(test::key_of(1, 2, 3), test::kNow, test::timed(8, 500));
        !done)
      told(done.error().message, kFileName);
  }

  /// Products of all shapes. An engine need not open, but one that does multiplies.
  void multiply(OpenOptions options, bool must_open, const std::string& from) {
    options.threads = 1;
    options.on_untuned = [](const std::string&) {};
    auto engine = Engine::open(std::move(options));
    if (!engine) {
      if (must_open) found(fmt::format("{}: no engine: {}", from, engine.error().message));
      return;
    }
    for (const Gemm& gemm : tuned_shapes()) multiply(*engine, gemm, from);
    multiply(*engine, untuned_shape(), from);
    multiply(*engine, class_shape(), from);
  }

  void multiply(Engine& engine, const Gemm& gemm, const std::string& from) {
    const Call call(gemm, random_);
    if (const Status done = engine.gemm(gemm, call.operands()); !done)
      found(fmt::format("{}: {}: {}", from, text(gemm), done.error().message));
    else if (const auto wrong = call.wrong())
      found(fmt::format("WRONG RESULT from {}: {}: {}", from, text(gemm), *wrong));
    ++counts_.products;
    if (const auto plan = engine.plan(gemm); plan) {
      counts_.tuned_products += plan->match() == Match::exact;
      counts_.class_products += gemm == class_shape() && plan->match() == Match::model;
    }
    if (const auto text = engine.explain(gemm); !text)
      found(fmt::format("{}: explain: {}", from, text.error().message));
  }

  fs::path folder_, file_;
  Random& random_;
  Counts& counts_;
  std::string findings_;
};

class Databases {
 public:
  Databases() {
    ::setenv("XDG_RUNTIME_DIR", dir_.path().c_str(), 1);
    const fs::path sound = dir_ / "sound.db";
    if (auto failed = in_child(300, [&] { return make_sound(sound); }); !failed.empty())
      throw std::runtime_error("the sound database: " + failed);
    SQLite::Database(sound.string(), SQLite::OPEN_READWRITE).exec("PRAGMA journal_mode = DELETE");
    sound_ = read(sound);
    constexpr std::size_t kHeaderPages = 48 * 4096;
    shipped_ = read(fs::path(test::source_dir()) / "db/h200.kiln").substr(0, kHeaderPages);
    if (sound_.empty() || shipped_.empty()) throw std::runtime_error("no databases to change");
  }

  void one(Report& report, std::int64_t index, Random& random) {
    const TempDir folder;
    const fs::path file = folder / kFileName;
    // Data that a user's own file has; a few pages of a shipped one.
    std::ofstream(file, std::ios::binary) << (one_in(random, 8) ? shipped_ : sound_);
    const std::string done = mutate_file(file, random);
    const std::string mutated = read(file);
    // Without a compiler what is lost is not made again, so more of the file is used.
    const bool compiles = one_in(random, 8);
    const std::string found = in_child(kSecondsOfCase, [&] {
      if (!compiles) ::setenv("KILN_CLANG", "/no/such/compiler.so", 1);
      const rlimit space{kAddressSpace, kAddressSpace};
      if (!kSanitized) ::setrlimit(RLIMIT_AS, &space);
      const rlimit time{kProcessorSeconds, kProcessorSeconds + 1};
      ::setrlimit(RLIMIT_CPU, &time);
      return User(folder.path(), random, counts_).findings();
    });
    if (!found.empty()) {
      const fs::path kept = fs::temp_directory_path() / fmt::format("soak-database-{}.db", index);
      std::ofstream(kept, std::ios::binary) << mutated;
      report.failed(fmt::format("{}: {} (kept in {})", done, found, kept.string()));
    }
    if (auto left = surviving_orphans(10); !left.empty()) report.failed(left);
  }

  std::string details() const {
    return fmt::format("{} opened, {} products, {} of them by stored winners, {} by a class's",
                       counts_.opened.load(), counts_.products.load(),
                       counts_.tuned_products.load(), counts_.class_products.load());
  }

 private:
  TempDir dir_;
  Counts& counts_ = shared_counts();
  std::string sound_, shipped_;
};

}  // namespace
}  // namespace kiln::soak

int main(int argc, char** argv) {
  using namespace kiln::soak;
  ::setenv("KILN_LOG", "off", 0);
  adopt_orphans();
  std::optional<Databases> databases;
  return run({.name = "soak_database",
              .things = "mutated database files",
              .count = 100,
              .prepare = [&] { databases.emplace(); },
              .one = [&](Report& report, std::int64_t index,
                         kiln::Random& random) { databases->one(report, index, random); },
              .details = [&] { return databases->details(); }},
             argc, argv);
}
