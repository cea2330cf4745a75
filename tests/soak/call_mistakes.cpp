// Whole calls that are wrong: null handles, impossible options.
#include <limits>

#include "soak/mistakes.h"

namespace kiln::soak {
namespace {

/// Opens with one option changed. An engine that came of it is closed again.
template <typename F>
kiln_status open_with(F&& change) {
  kiln_options options{};
  options.size = sizeof options;
  options.database = "/proc/no-such-folder/kiln.db";
  change(options);
  kiln_engine* engine = nullptr;
  const kiln_status status = kiln_open(&options, &engine);
  kiln_close(engine);
  return status;
}

template <int Value>
kiln_status open_with_policy(kiln_engine*, const Arguments&) {
  return open_with([](kiln_options& o) {
    const int bits = Value;
    static_assert(sizeof o.policy == sizeof bits);
    __builtin_memcpy(&o.policy, &bits, sizeof bits);
  });
}
template <int Value>
kiln_status open_with_threads(kiln_engine*, const Arguments&) {
  return open_with([](kiln_options& o) { o.threads = Value; });
}
kiln_status open_device(const char* name) {
  return open_with([&](kiln_options& o) { o.device = name; });
}
kiln_status tune_for(kiln_engine* engine, const Arguments& x, double seconds) {
  return kiln_tune(engine, &x.desc, seconds, 0, nullptr);
}

constexpr CallMistake kCallMistakes[] = {
    {"open without a place for the engine", "engine",
     [](kiln_engine*, const Arguments&) { return kiln_open(nullptr, nullptr); }},
    {"options size 0", "options->size",
     [](kiln_engine*, const Arguments&) { return open_with([](kiln_options& o) { o.size = 0; }); }},
    {"policy -1", "options->policy", open_with_policy<-1>},
    {"policy 4", "options->policy", open_with_policy<4>},
    {"policy 256", "options->policy", open_with_policy<256>},
    {"threads -1 of the engine", "threads", open_with_threads<-1>},
    {"threads 1000000 of the engine", "threads", open_with_threads<1000000>},
    {"device abacus", "device",
     [](kiln_engine*, const Arguments&) { return open_device("abacus"); }},
    {"device empty", "device", [](kiln_engine*, const Arguments&) { return open_device(""); }},
    {"device emulated", "device",
     [](kiln_engine*, const Arguments&) { return open_device("emu:gfx942"); }},
    {"database in a folder that cannot be", "/proc/no-such-folder/kiln.db",
     [](kiln_engine*, const Arguments&) { return open_with([](kiln_options&) {}); }},
    {"database that is a folder", "/proc",
     [](kiln_engine*, const Arguments&) {
       return open_with([](kiln_options& o) { o.database = "/proc"; });
     }},
    {"gemm without an engine", "engine",
     [](kiln_engine*, const Arguments& x) { return kiln_gemm(nullptr, &x.desc, &x.operands); }},
    {"gemm without a problem", "desc",
     [](kiln_engine* e, const Arguments& x) { return kiln_gemm(e, nullptr, &x.operands); }},
    {"gemm without operands", "operands",
     [](kiln_engine* e, const Arguments& x) { return kiln_gemm(e, &x.desc, nullptr); }},
    {"plan without an engine", "engine",
     [](kiln_engine*, const Arguments& x) {
       kiln_plan* plan = nullptr;
       return kiln_plan_make(nullptr, &x.desc, 0, &plan);
     }},
    {"plan without a place for it", "plan",
     [](kiln_engine* e, const Arguments& x) { return kiln_plan_make(e, &x.desc, 0, nullptr); }},
    {"plan on -1 threads", "threads",
     [](kiln_engine* e, const Arguments& x) {
       kiln_plan* plan = nullptr;
       return kiln_plan_make(e, &x.desc, -1, &plan);
     }},
    {"run without a plan", "plan",
     [](kiln_engine*, const Arguments& x) { return kiln_plan_run(nullptr, &x.operands); }},
    {"pack without a place for it", "packed",
     [](kiln_engine* e, const Arguments& x) {
       return kiln_pack_b(e, &x.desc, x.operands.b, 0, nullptr);
     }},
    {"explain without a place for it", "text",
     [](kiln_engine* e, const Arguments& x) { return kiln_explain(e, &x.desc, 0, nullptr); }},
    {"tune without an engine", "engine",
     [](kiln_engine*, const Arguments& x) { return tune_for(nullptr, x, 1); }},
    {"tune for longer than a year", "seconds",
     [](kiln_engine* e, const Arguments& x) { return tune_for(e, x, 1e300); }},
    {"tune for ever", "seconds",
     [](kiln_engine* e, const Arguments& x) {
       return tune_for(e, x, std::numeric_limits<double>::infinity());
     }},
    {"tune on 100000 threads", "threads",
     [](kiln_engine* e, const Arguments& x) { return kiln_tune(e, &x.desc, 1, 100000, nullptr); }},
    {"report size 0", "report->size",
     [](kiln_engine* e, const Arguments& x) {
       kiln_tune_report report{};
       return kiln_tune(e, &x.desc, 1, 0, &report);
     }},
};

}  // namespace

std::span<const CallMistake> call_mistakes() { return kCallMistakes; }

}  // namespace kiln::soak
