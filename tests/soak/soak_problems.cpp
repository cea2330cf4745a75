// Random problems through the C functions and the C++ Engine: each result compared with a reference
// in higher precision, wrong arguments between them.
#include <fmt/format.h>

#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <vector>

#include "engine/engine_impl.h"
#include "generator/problem/gate.h"
#include "soak/c_face.h"
#include "soak/call.h"
#include "soak/mistakes.h"
#include "soak/problem.h"
#include "soak/soak.h"
#include "support/fake_evaluator.h"
#include "support/temp_dir.h"

namespace kiln::soak {
namespace {

constexpr std::int64_t kLargest = 70;
constexpr int kCallsOfProblem = 3, kMistakesOfProblem = 3;
/// Problems after which both engines are opened anew: each keeps all the kernels that it met, and a
/// process may have so many mappings.
constexpr std::int64_t kProblemsOfEngine = 300;
/// Problems drawn until each mistake could be made in one; the rarest needs some 300.
constexpr int kDrawsForEachMistake = 5000;

void demand(const Status& status, const char* what) {
  if (!status) throw std::runtime_error(fmt::format("{}: {}", what, status.error().message));
}

struct PackedOfC {
  void operator()(kiln_packed_b* packed) const { kiln_packed_b_free(packed); }
};
struct PlanOfC {
  void operator()(kiln_plan* plan) const { kiln_plan_free(plan); }
};
struct EngineOfC {
  void operator()(kiln_engine* engine) const { kiln_close(engine); }
};
using CPacked = std::unique_ptr<kiln_packed_b, PackedOfC>;
using CPlan = std::unique_ptr<kiln_plan, PlanOfC>;
using CEngine = std::unique_ptr<kiln_engine, EngineOfC>;

/// An engine of either face over one database, in which a few shapes are tuned.
class Faces {
 public:
  Faces() {
    open();
    for (const char* shape : {"fp32 N N 33 48 29", "fp32 T N 64 17 40", "bf16 N T 32 40 64",
                              "int8 N N 24 31 52", "fp64 N N 19 22 23", "fp16 N N 1 65 34"}) {
      tuned_.push_back(parse_gemm(shape).value());
      const auto report = engine().tune(tuned_.back(), {.threads = 1});
      if (!report) throw std::runtime_error(report.error().message);
    }
  }

  void open() {
    engine_.reset();
    of_c_.reset();
    const auto file = dir_ / "kiln.db";
    auto opened = Engine::open({.database = file, .on_untuned = [](const std::string&) {}});
    if (!opened) throw std::runtime_error(opened.error().message);
    engine_.emplace(std::move(*opened));
    engine_->impl().tuning.make_evaluator = test::fake_bench;
    kiln_options options{};
    options.size = sizeof options;
    options.database = file.c_str();
    kiln_engine* made = nullptr;
    demand(status_of(kiln_open(&options, &made)), "kiln_open");
    of_c_.reset(made);
    if (!foreign_) {
      const float b[100 * 2 * 3] = {};
      foreign_ = pack(Gemm::row_major(1, 2, 3).batched(100), b, 1);
    }
  }

  CPacked pack(const Gemm& gemm, const void* b, int threads) {
    kiln_packed_b* packed = nullptr;
    const kiln_gemm_desc desc = c_desc(gemm);
    demand(status_of(kiln_pack_b(of_c(), &desc, b, threads, &packed)), "kiln_pack_b");
    return CPacked(packed);
  }

  Engine& engine() { return *engine_; }
  kiln_engine* of_c() { return of_c_.get(); }
  int threads() { return engine_->impl().device.compute_units; }
  const std::vector<Gemm>& tuned() const { return tuned_; }
  /// Of more batches than any problem that is drawn.
  const kiln_packed_b* foreign() const { return foreign_.get(); }

 private:
  TempDir dir_;
  std::optional<Engine> engine_;
  CEngine of_c_;
  CPacked foreign_;
  std::vector<Gemm> tuned_;
};

/// With one of those parts, where it may have it, that no drawn problem has: Call compares none.
Gemm with_rare_parts(Random& random, const Gemm& gemm) {
  Gemm rare = gemm;
  switch (random.below(3)) {
    case 0:
      rare = gemm.scattered(0, Scatter::weighted);
      rare.epilogue.bias_as_d = false;
      break;
    case 1:
      rare = gemm.with_amax_d();
      break;
    default:
      rare = gemm.quantised(DType::s8, Scale::line);
      rare.epilogue.residual = rare.epilogue.bias_as_d = false;
  }
  return validate(rare) ? rare : gemm;
}

class Problems {
 public:
  void one(Report& report, std::int64_t index, Random& random) {
    if (index == 0) make_each_mistake(report, random);
    if (index % kProblemsOfEngine == 0 && problems_ > 0) faces_.open();
    const auto [gemm, threads] = draw(random);
    ++problems_;
    const auto plan = faces_.engine().plan(gemm, threads);
    if (!plan)
      return report.failed(
          fmt::format("'{}' on {} threads: {}", text(gemm), threads, plan.error().message));
    ++matches_[std::string(name(plan->match()))];
    for (int i = 0; i < kCallsOfProblem; ++i) {
      Call call(gemm, random);
      Operands operands = call.operands();
      operands.threads = threads;
      ++calls_;
      const Status done = run(*plan, call, operands, random);
      if (!done)
        report.failed(fmt::format("{}: {}", call.text(), done.error().message));
      else if (const auto wrong = call.wrong())
        report.failed(fmt::format("{} by {} on {} threads: {}", call.text(), plan->config(),
                                  threads, *wrong));
    }
    if (gemm.m > 0 && gemm.n > 0 && gemm.k > 0)
      for (int i = 0; i < kMistakesOfProblem; ++i) make_mistake(report, gemm, threads, random);
  }

  std::string details() const {
    std::string by_match;
    for (const auto& [match, count] : matches_) by_match += fmt::format("{} {}, ", match, count);
    return fmt::format("{}{} calls; {} wrong arguments of {} kinds", by_match, calls_, mistakes_,
                       kinds_.size());
  }

 private:
  struct Drawn {
    Gemm gemm;
    int threads;
  };

  Drawn draw(Random& random) {
    const Gemm& tuned = any_of(random, faces_.tuned());
    const int threads = 1 + static_cast<int>(below(random, faces_.threads()));
    switch (random.below(10)) {
      case 0:
        return {tuned, 1};
      case 1:
      case 2:
        return {draw_neighbour(random, tuned), 1};
      default:
        return {draw_problem(random, kLargest), threads};
    }
  }

  /// One call through a drawn face.
  Status run(const Plan& plan, const Call& call, Operands operands, Random& random) {
    const Gemm& gemm = call.gemm();
    const bool by_plan = one_in(random, 2);
    if (one_in(random, 2)) {
      std::optional<PackedB> packed;
      if (gemm.b_packed) {
        auto made = faces_.engine().pack_b(gemm, operands.b, operands.threads);
        if (!made) return tl::unexpected(made.error());
        operands.packed_b = &packed.emplace(std::move(*made));
      }
      return by_plan ? plan.run(operands) : faces_.engine().gemm(gemm, operands);
    }
    CPacked packed;
    if (gemm.b_packed) packed = faces_.pack(gemm, operands.b, operands.threads);
    const kiln_operands of_c = c_operands(operands, packed.get());
    const kiln_gemm_desc desc = c_desc(gemm);
    if (!by_plan) return status_of(kiln_gemm(faces_.of_c(), &desc, &of_c));
    kiln_plan* made = nullptr;
    demand(status_of(kiln_plan_make(faces_.of_c(), &desc, operands.threads, &made)),
           "kiln_plan_make");
    const CPlan owner(made);
    return status_of(kiln_plan_run(made, &of_c));
  }

  /// A right call that a mistake is to be made in.
  struct RightCall {
    Call call;
    CPacked packed;
    Arguments arguments;
  };

  RightCall right_call(const Gemm& gemm, int threads, Random& random) {
    RightCall made{Call(gemm, random), nullptr, {gemm, c_desc(gemm), {}, faces_.foreign()}};
    Operands operands = made.call.operands();
    operands.threads = threads;
    if (gemm.b_packed) made.packed = faces_.pack(gemm, operands.b, threads);
    made.arguments.operands = c_operands(operands, made.packed.get());
    return made;
  }

  void make_mistake(Report& report, const Gemm& gemm, int threads, Random& random) {
    const RightCall right = right_call(gemm, threads, random);
    switch (random.below(6)) {
      case 0:
        of_call(report, right, any_of(random, call_mistakes_));
        break;
      case 1:
      case 2:
        of_operands(report, right, any_of(random, operand_mistakes_));
        break;
      default:
        of_problem(report, right, any_of(random, problem_mistakes_), random);
    }
  }

  /// Each mistake once, in the first problem drawn that admits it.
  void make_each_mistake(Report& report, Random& random) {
    struct Kind {
      std::string_view name;
      std::function<bool(const RightCall&)> make;
    };
    std::vector<Kind> left;
    for (const Mistake& m : problem_mistakes_)
      left.push_back({m.name, [&](auto& right) { return of_problem(report, right, m, random); }});
    for (const Mistake& m : operand_mistakes_)
      left.push_back({m.name, [&](auto& right) { return of_operands(report, right, m); }});
    for (const CallMistake& m : call_mistakes_)
      left.push_back({m.name, [&](auto& right) { return of_call(report, right, m); }});
    for (int drawn = 0; !left.empty() && drawn < kDrawsForEachMistake; ++drawn) {
      const Gemm gemm = with_rare_parts(random, draw_problem(random, kLargest));
      if (gemm.m == 0 || gemm.n == 0 || gemm.k == 0) continue;
      const RightCall right = right_call(gemm, 1, random);
      std::erase_if(left, [&](const Kind& kind) { return kind.make(right); });
    }
    for (const Kind& kind : left)
      report.failed(fmt::format("mistake '{}': none of {} problems admits it", kind.name,
                                kDrawsForEachMistake));
  }

  /// Each makes the mistake in a copy of the arguments; false when these do not admit it.
  bool of_problem(Report& report, const RightCall& right, const Mistake& mistake, Random& random) {
    Arguments arguments = right.arguments;
    if (!mistake.make(arguments)) return false;
    judge(report, right.call, mistake.name, mistake.field, refused(arguments, random));
    return true;
  }
  bool of_operands(Report& report, const RightCall& right, const Mistake& mistake) {
    Arguments arguments = right.arguments;
    if (!mistake.make(arguments)) return false;
    judge(report, right.call, mistake.name, mistake.field,
          kiln_gemm(faces_.of_c(), &arguments.desc, &arguments.operands));
    return true;
  }
  bool of_call(Report& report, const RightCall& right, const CallMistake& mistake) {
    judge(report, right.call, mistake.name, mistake.field,
          mistake.call(faces_.of_c(), right.arguments));
    return true;
  }

  /// A wrong problem given to any function that takes one.
  kiln_status refused(const Arguments& x, Random& random) {
    kiln_plan* plan = nullptr;
    kiln_packed_b* packed = nullptr;
    char* text = nullptr;
    switch (random.below(5)) {
      case 0:
        return kiln_gemm(faces_.of_c(), &x.desc, &x.operands);
      case 1:
        return kiln_plan_make(faces_.of_c(), &x.desc, 0, &plan);
      case 2:
        return kiln_tune(faces_.of_c(), &x.desc, 1, 0, nullptr);
      case 3:
        return kiln_explain(faces_.of_c(), &x.desc, 0, &text);
      default:
        break;
    }
    // It sets b_packed itself, which some mistakes are about.
    if (x.desc.b_packed != 0 || x.gemm.a.q.scale != Scale::none ||
        x.gemm.b.q.scale != Scale::none || x.gemm.d.order == Order::column_major ||
        x.gemm.grouping() != Grouping::none || gated(x.gemm))
      return kiln_gemm(faces_.of_c(), &x.desc, &x.operands);
    return kiln_pack_b(faces_.of_c(), &x.desc, x.operands.b, 0, &packed);
  }

  void judge(Report& report, const Call& call, std::string_view name, std::string_view field,
             kiln_status status) {
    ++mistakes_;
    kinds_[std::string(name)]++;
    const std::string what = fmt::format("mistake '{}', {}", name, call.text());
    const std::string message = kiln_last_error();
    if (status == KILN_OK)
      report.failed(what + ": was accepted");
    else if (status == KILN_INTERNAL)
      report.failed(fmt::format("{}: internal error: {}", what, message));
    else if (!names_field(message, field))
      report.failed(fmt::format("{}: the error does not name {}: {}", what, field, message));
    if (const auto written = call.written())
      report.failed(fmt::format("{}: was refused, but {}", what, *written));
  }

  Faces faces_;
  std::span<const Mistake> problem_mistakes_ = problem_mistakes();
  std::span<const Mistake> operand_mistakes_ = operand_mistakes();
  std::span<const CallMistake> call_mistakes_ = call_mistakes();
  std::map<std::string, int> matches_, kinds_;
  std::int64_t problems_ = 0, calls_ = 0, mistakes_ = 0;
};

}  // namespace
}  // namespace kiln::soak

int main(int argc, char** argv) {
  using namespace kiln::soak;
  ::setenv("KILN_LOG", "off", 0);
  std::optional<Problems> problems;
  return run({.name = "soak_problems",
              .things = "random problems",
              .count = 200,
              .prepare = [&] { problems.emplace(); },
              .one = [&](Report& report, std::int64_t index,
                         kiln::Random& random) { problems->one(report, index, random); },
              .details = [&] { return problems->details(); },
              .case_seconds = 300},
             argc, argv);
}
