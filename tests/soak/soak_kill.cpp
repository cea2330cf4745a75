// Processes killed at random moments while they write a database or tune: the file opens, is sound,
// and holds all that was reported as written; what comes after works.
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <map>
#include <optional>
#include <vector>

#include "engine/engine_impl.h"
#include "soak/call.h"
#include "soak/children.h"
#include "soak/ledger.h"
#include "soak/soak.h"
#include "support/fake_evaluator.h"
#include "support/temp_dir.h"

namespace kiln::soak {
namespace {

/// Kills that one file lives through.
constexpr std::int64_t kKillsOfFile = 20;
constexpr double kSecondsOfCheck = 120, kSecondsOfChild = 120;

enum class Work { write, write_by_four, tune_by_model, tune, kill_worker };
constexpr const char* kWorkNames[] = {"writer", "one of four writers", "tuning by the model",
                                      "tuning", "worker"};

/// Processes that write one file and report through one pipe.
class Crew {
 public:
  Crew() {
    int ends[2];
    if (::pipe(ends) != 0) throw std::runtime_error("pipe() failed");
    read_end_ = ends[0];
    write_end_ = ends[1];
  }
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;
  ~Crew() {
    for (const pid_t child : children_) {
      ::kill(child, SIGKILL);
      ::waitpid(child, nullptr, 0);
    }
    ::close(read_end_);
  }

  /// `body(pipe)` returns what failed.
  template <typename F>
  void start(F&& body) {
    const pid_t child = ::fork();
    if (child != 0) {
      children_.push_back(child);
      return;
    }
    ::close(read_end_);
    const std::string failure = [&] {
      try {
        return body(write_end_);
      } catch (const std::exception& e) {
        return std::string(e.what());
      }
    }();
    if (!failure.empty()) fmt::print("  a process that was not killed: {}\n", failure);
    std::fflush(stdout);
    ::_exit(failure.empty() ? 0 : 1);
  }

  /// Takes reports for `seconds`, or until there were `most`; true when all writers have ended.
  bool listen(Ledger& ledger, double seconds, std::int64_t most) {
    if (write_end_ >= 0) ::close(write_end_);
    write_end_ = -1;
    const auto start = std::chrono::steady_clock::now();
    for (std::int64_t taken = 0; taken < most; ++taken) {
      const double left =
          seconds - std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      if (left <= 0) return false;
      pollfd reports{.fd = read_end_, .events = POLLIN, .revents = 0};
      const timespec patience{static_cast<time_t>(left),
                              static_cast<long>(std::fmod(left, 1) * 1e9)};
      if (::ppoll(&reports, 1, &patience, nullptr) <= 0) continue;
      Written written;
      if (::read(read_end_, &written, sizeof written) != sizeof written) return true;
      ledger.add(written);
    }
    return false;
  }

  pid_t first() const { return children_.front(); }
  void kill_first() { ::kill(first(), SIGKILL); }

  /// Waits for all; how many of those that nobody killed did not end well.
  int failures() {
    int failed = 0;
    for (const pid_t child : children_) {
      int status = 0;
      ::waitpid(child, &status, 0);
      const bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && child == first();
      failed += !killed && status != 0;
    }
    children_.clear();
    return failed;
  }

 private:
  int read_end_ = -1, write_end_ = -1;
  std::vector<pid_t> children_;
};

Gemm product_of(const std::array<std::int32_t, 3>& sizes) {
  return Gemm::row_major(sizes[0], sizes[1], sizes[2]);
}

Result<Engine> open_engine(const std::filesystem::path& file, Policy policy) {
  return Engine::open(
      {.database = file, .policy = policy, .threads = 1, .on_untuned = [](const std::string&) {}});
}

/// What is wrong with one call; "" when nothing is.
std::string run(Engine& engine, const Gemm& gemm, Random& random) {
  const Call call(gemm, random);
  const Status done = engine.gemm(gemm, call.operands());
  if (!done) return fmt::format("{}: {}", text(gemm), done.error().message);
  if (const auto wrong = call.wrong()) return fmt::format("{}: {}", call.text(), *wrong);
  return "";
}

/// Tunes one small product after another and reports each.
std::string tune_many(const std::filesystem::path& file, bool by_model, int count, Random& random,
                      int pipe) {
  auto engine = open_engine(file, Policy::use_best_known);
  if (!engine) return engine.error().message;
  if (by_model) engine->impl().tuning.make_evaluator = test::fake_bench;
  for (int i = 0; i < count; ++i) {
    std::array<std::int32_t, 3> sizes{};
    for (auto& size : sizes) size = static_cast<std::int32_t>(1 + below(random, 48));
    TuneOptions options{.force = one_in(random, 3)};
    options.budget = std::chrono::duration<double>(0.3);
    // Where the worker is killed again and again, no candidate may come through: then nothing was
    // tuned, and the product must work all the same.
    if (const auto tuned = engine->tune(product_of(sizes), options))
      report(pipe, {Written::tuned, sizes});
    if (auto wrong = run(*engine, product_of(sizes), random); !wrong.empty()) return wrong;
  }
  return "";
}

/// What was tuned is found and right, and so is what was not.
std::string engine_works(const std::filesystem::path& file, const Ledger& ledger, Random& random) {
  if (!ledger.tuned().empty()) {
    auto engine = open_engine(file, Policy::error);
    if (!engine) return engine.error().message;
    for (const auto& sizes : ledger.tuned())
      if (auto wrong = run(*engine, product_of(sizes), random); !wrong.empty())
        return "reported as tuned, but " + wrong;
  }
  return tune_many(file, true, 1, random, -1);
}

class Kills {
 public:
  /// Its own tuning lock, so that another program's tuning is not waited for.
  Kills() { ::setenv("XDG_RUNTIME_DIR", dir_.path().c_str(), 1); }

  void one(Report& report, std::int64_t index, Random& random) {
    if (index % kKillsOfFile == 0 || file_.empty()) {
      file_ = dir_ / fmt::format("kiln{}.db", index);
      written_ += ledger_.size();
      ledger_ = {};
    }
    const Work work = draw_work(random);
    ++done_[kWorkNames[static_cast<int>(work)]];
    const std::int64_t before = report.failures();
    if (const int failed = kill_one(work, random); failed > 0)
      report.failed(fmt::format("{}: {} processes failed that were not killed",
                                kWorkNames[static_cast<int>(work)], failed));
    if (auto left = surviving_orphans(10); !left.empty()) report.failed(left);
    const auto look = [&](const char* at, const std::function<std::string()>& body) {
      if (auto found = in_child(kSecondsOfCheck, body); !found.empty())
        report.failed(fmt::format("after a kill of {}: {}: {}", kWorkNames[static_cast<int>(work)],
                                  at, found));
    };
    look("database", [&] { return ledger_.missing_from(file_); });
    if (work != Work::write || one_in(random, 10))
      look("engine", [&] { return engine_works(file_, ledger_, random); });
    // What is lost once is not told of again and again.
    if (report.failures() > before) file_.clear();
  }

  std::string details() const {
    std::string all;
    for (const auto& [work, count] : done_) all += fmt::format("{} {}, ", work, count);
    return fmt::format("{}{} things written", all, written_ + ledger_.size());
  }

 private:
  static Work draw_work(Random& random) {
    const std::int64_t drawn = random.below(20);
    return drawn < 10   ? Work::write
           : drawn < 15 ? Work::write_by_four
           : drawn < 17 ? Work::tune_by_model
           : drawn < 19 ? Work::tune
                        : Work::kill_worker;
  }

  /// Starts the work and kills one process at a drawn moment. How many others failed.
  int kill_one(Work work, Random& random) {
    Crew crew;
    const int writers = work == Work::write_by_four ? 4 : 1;
    const bool writes = work == Work::write || work == Work::write_by_four;
    for (int writer = 0; writer < writers; ++writer) {
      const std::uint64_t seed = random.next();
      crew.start([&](int pipe) {
        Random own(seed, 0);
        // The one that is killed writes until it is.
        if (writes) return write_rounds(file_, writer == 0 ? 1 << 30 : 40, own, pipe);
        const int count = work == Work::kill_worker ? 3 : 1 << 30;
        return tune_many(file_, work == Work::tune_by_model, count, own, pipe);
      });
    }
    if (work == Work::kill_worker)
      kill_workers(crew, random);
    else
      wait_for_moment(crew, writes, random);
    if (work != Work::kill_worker) crew.kill_first();
    const bool ended = crew.listen(ledger_, kSecondsOfChild, INT64_MAX);
    if (!ended) return writers;  // a hang; the crew's end kills it
    return crew.failures();
  }

  /// Half the moments are a time since the start, half a number of reports and a little more: the
  /// middle of the next write.
  void wait_for_moment(Crew& crew, bool writes, Random& random) {
    const double share = static_cast<double>(random.below(1 << 20)) / (1 << 20);
    if (!writes) {
      crew.listen(ledger_, 2.0 * share, INT64_MAX);
      return;
    }
    if (one_in(random, 2)) {
      crew.listen(ledger_, 0.15 * share * share, INT64_MAX);
      return;
    }
    crew.listen(ledger_, kSecondsOfChild, static_cast<std::int64_t>(std::exp(6.0 * share)));
    crew.listen(ledger_, 0.003 * static_cast<double>(random.below(1000)) / 1000, INT64_MAX);
  }

  void kill_workers(Crew& crew, Random& random) {
    for (int kills = 0; kills < 6; ++kills) {
      const double pause = 0.001 * static_cast<double>(1 + random.below(400));
      if (crew.listen(ledger_, pause, INT64_MAX)) return;
      if (const pid_t worker = child_named(crew.first(), "kiln-worker"); worker > 0)
        ::kill(worker, SIGKILL);
    }
  }

  TempDir dir_;
  std::filesystem::path file_;
  Ledger ledger_;
  std::map<std::string, int> done_;
  std::size_t written_ = 0;
};

}  // namespace
}  // namespace kiln::soak

int main(int argc, char** argv) {
  using namespace kiln::soak;
  ::setenv("KILN_LOG", "off", 0);
  adopt_orphans();
  Kills kills;
  return run({.name = "soak_kill",
              .things = "kill points",
              .count = 40,
              .one = [&](Report& report, std::int64_t index,
                         kiln::Random& random) { kills.one(report, index, random); },
              .details = [&] { return kills.details(); },
              .group = kKillsOfFile},
             argc, argv);
}
