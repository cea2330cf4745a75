// Database files that were changed behind kiln's back: opening, checking, listing, explaining,
// importing, exporting and multiplying end in time, without a crash, and no product is wrong.
#include <SQLiteCpp/Database.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <new>
#include <optional>
#include <stdexcept>
#include <vector>

#include "cache/stored_roof.h"
#include "engine/engine_impl.h"
#include "soak/call.h"
#include "soak/children.h"
#include "soak/mutate.h"
#include "soak/soak.h"
#include "support/fake_bench.h"
#include "support/paths.h"
#include "support/stored.h"
#include "support/temp_dir.h"

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

std::string read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// A database with every kind of row: winners with code, losers, failures, code that was proved for
/// a problem that nobody tuned.
std::string make_sound(const fs::path& file) {
  auto engine =
      Engine::open({.database = file, .threads = 1, .on_untuned = [](const std::string&) {}});
  if (!engine) return engine.error().message;
  engine->impl().make_bench = test::fake_bench;
  for (const Gemm& gemm : tuned_shapes())
    if (const auto done = engine->tune(gemm); !done) return done.error().message;
  if (const auto plan = engine->plan(untuned_shape()); !plan) return plan.error().message;
  const auto store = test::open_store(file);
  test::store_winner(*store, test::key_of(64, 96, 128), 6);
  const Status kept = store->put_limits({.device = test::key_of(64, 96, 128).device,
                                         .fp32_flops = 2e11,
                                         .l1_read = 4e11,
                                         .dram_read = 2e10});
  return kept ? "" : kept.error().message;
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
  std::atomic<std::int64_t> opened, products, tuned_products;
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
      hand_on(**store);
    }
    multiply({.database = file_}, store.has_value(), "the file");
    multiply({.database = folder_ / "own.db", .shipped = {file_}}, false, "the file as shipped");
    if (store) repair(**store);
    return findings_;
  }

 private:
  void found(const std::string& what) { findings_ += (findings_.empty() ? "" : "; ") + what; }

  void told(const std::string& message, const std::string& must_name) {
    if (message.find(must_name) == message.npos)
      found(fmt::format("an error does not name {}: {}", must_name, message));
    if (!is_utf8(message)) found("an error is no UTF-8");
  }

  void look_into(Store& store) {
    if (const auto report = store.check(false); !report)
      told(report.error().message, kFileName);
    else
      for (const std::string& problem : report->problems) told(problem, kFileName);
    if (const auto records = store.list(); !records) told(records.error().message, kFileName);
    if (const auto stats = store.stats(); !stats) told(stats.error().message, kFileName);
    const BestKey key = test::key_of(64, 96, 128);
    if (const auto roof = stored_roof(store, key.device, key.gemm))
      if (!(roof->roof.ns > 0)) found("a roof that is no time");
  }

  /// Through an import and through an export: what is run from there is right, too.
  void hand_on(Store& store) {
    const fs::path imported = folder_ / "imported.db", exported = folder_ / "exported.db";
    const auto into = Store::open({.database = imported});
    if (!into) throw std::runtime_error(into.error().message);
    if (const auto report = (*into)->import_from(file_); !report)
      told(report.error().message, ".db");  // of either file
    multiply({.database = imported}, true, "an import");
    if (const Status done = store.export_to(exported); !done)
      told(done.error().message, ".db");
    else
      multiply({.database = exported}, false, "an export");
  }

  void repair(Store& store) {
    if (const auto report = store.check(true); !report)
      told(report.error().message, kFileName);
    else
      multiply({.database = file_}, true, "the repaired file");
    if (const Status done = store.put(test::key_of(1, 2, 3), test::kNow, test::timed(8, 500));
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
  }

  void multiply(Engine& engine, const Gemm& gemm, const std::string& from) {
    const Call call(gemm, random_);
    if (const Status done = engine.gemm(gemm, call.operands()); !done)
      found(fmt::format("{}: {}: {}", from, text(gemm), done.error().message));
    else if (const auto wrong = call.wrong())
      found(fmt::format("WRONG RESULT from {}: {}: {}", from, text(gemm), *wrong));
    ++counts_.products;
    if (const auto plan = engine.plan(gemm); plan && plan->match() == Match::exact)
      ++counts_.tuned_products;
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
    return fmt::format("{} opened, {} products, {} of them by stored winners",
                       counts_.opened.load(), counts_.products.load(),
                       counts_.tuned_products.load());
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
